"""Test the comparison of a ranking with labels: formats, messages, refusals, and that no fit uses a label."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, spearmanr

from commands import Youden, write_config, write_pool_table
from narrowing import not_none
from report_runs import judged
from run_folders import contents
from small_pools import make_pool
from youden.data.folder.run_folder import RunFolder
from youden.data.label_tables import read_labels
from youden.errors import ConfigError, ImportFormatError
from youden.pipeline.fitted_run import fit_run
from youden.report.data.report import ReportData
from youden.report.pages.writing import render_markdown, render_page
from youden.stats import auc_sampling_interval
from youden.types import Agent
from youden.types.label_facts import LabelFacts, Validation
from youden.workflows.label_names import get_unique_aliases
from youden.workflows.labels import open_labels, validate

AGENTS = [f"a{i}" for i in range(8)]
KNOWN = [Agent(name) for name in AGENTS]


@pytest.fixture(scope="module")
def labeled_run_once(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Create a fitted run of eight agents, a0 best and a7 last."""
    folder = judged(tmp_path_factory.mktemp("labels") / "run", pool=make_pool(8, 10), holdout=0)
    assert [row.agent for row in folder.read_ranking()] == AGENTS
    return folder


@pytest.fixture
def labeled_run(labeled_run_once: RunFolder, tmp_path: Path) -> RunFolder:
    return RunFolder(shutil.copytree(labeled_run_once.path, tmp_path / "run"))


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write the rows in the format of the file's extension."""
    frame = pd.DataFrame(rows)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


def of_agents(values: Sequence[object], *, name: str = "accuracy") -> list[dict[str, object]]:
    return [{"agent": agent, name: value} for agent, value in zip(AGENTS, values, strict=False)]


def held_against(run: RunFolder, file: Path) -> Validation:
    return validate(run, open_labels(file, KNOWN))


def only(found: Validation) -> LabelFacts:
    (label,) = found.labels
    return label


def abilities(run: RunFolder) -> np.ndarray:
    return np.array([row.ability for row in run.read_ranking()])


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_labels_of_every_file_format_agree(tmp_path: Path, kind: str) -> None:
    rows = [
        {"agent": a, "item": i, "score": s, "ok": ok}
        for a, i, s, ok in (("a", "x", 0.5, True), ("b", "x", None, False))
    ]
    file = write(tmp_path / f"labels.{kind}", rows)
    if kind == "tsv":
        file.write_text(file.read_text(encoding="utf-8").replace(",", "\t"), encoding="utf-8")
    table = read_labels(file)
    assert (table.agents, table.items, table.names) == (("a", "b"), ("x", "x"), ("score", "ok"))
    np.testing.assert_array_equal(table.value, [[0.5, 1], [np.nan, 0]])


def test_rows_without_a_number_or_name_are_no_labels(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text(",agent,note,acc\n0,a,good,1\n1,b,bad,\n\n", encoding="utf-8")
    table = read_labels(tmp_path / "l.csv")
    assert (table.names, table.left_out) == (("acc",), ("", "note"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_index_of_a_table_saved_by_pandas_is_not_a_label(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"labels.{suffix}"
    frame = pd.DataFrame({"agent": ["b", "a"], "acc": [0.5, 1]}, index=[7, 2])
    if suffix == "csv":
        frame.to_csv(path)
        pd.read_csv(path).to_csv(path, index=False)  # the index becomes the column "Unnamed: 0"
    else:
        frame.to_parquet(path)
    assert read_labels(path).names == ("acc",)


@pytest.mark.parametrize(
    ("text", "slug", "says"),
    [
        ("agent,acc\na0,high\na1,1\n", "labels-value", "line 2: acc is not a finite number: got 'high'"),
        (
            'agent,acc\na0,"1,000"\na1,0\n',
            "labels-value",
            "line 2: acc has an ambiguous comma: got '1,000'. Write 1000 or 1.000.",
        ),
        ('agent,acc\na0,"1,000%"\na1,0\n', "labels-value", "got '1,000%'. Write 1000% or 1.000%."),
        ("agent,acc\na0,1\na1,inf\n", "labels-value", "line 3: acc is not a finite number: got 'inf'"),
        ("agent,acc\na0,fail\na1,80%\na2,75\n", "labels-value", "line 4: acc has a number above 1: got '75'"),
        ("model,acc\na0,1\n", "labels-columns", "no column agent: got the columns 'model, acc'"),
        ("agent\na0\n", "labels-columns", "got none"),
        ("agent,acc\na0,good\n", "labels-columns", "got 'acc'"),
        ("agent,acc\na0,1\na0,2\n", "labels-duplicate", "line 3: 'a0' already has labels in"),
        ("agent,item,acc\na0,i,1\na0,i,1\n", "labels-duplicate", "'a0' on 'i'"),
        ("agent,acc,acc\na0,1,2\n", "import-csv", "the column 'acc' occurs more than once"),
        ("agent,acc\n,1\n", "labels-id", "line 2: the agent is not an id: got ''"),
        ("agent,item,acc\na0,,1\n", "labels-id", "the item is not an id: got ''"),
        ("agent,acc\n", "labels-empty", "no rows"),
        ("agent,acc\na0\n", "import-csv", "1 fields"),
    ],
)
def test_an_unreadable_file_is_refused_with_its_line(tmp_path: Path, text: str, slug: str, says: str) -> None:
    (tmp_path / "l.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ImportFormatError, match=rf"\[{slug}\]") as caught:
        read_labels(tmp_path / "l.csv")
    assert says in caught.value.message


def test_statistics_use_only_agents_with_ability_and_label(labeled_run: RunFolder, tmp_path: Path) -> None:
    values = [0.9, 0.7, 0.8, 0.5, 0.6, 0.2, 0.2]
    result = held_against(labeled_run, write(tmp_path / "l.csv", of_agents(values)))
    label, ability = only(result), abilities(labeled_run)[:7]
    assert label.n_agents == 7
    assert label.spearman.value == pytest.approx(spearmanr(ability, values).statistic)
    assert label.kendall.value == pytest.approx(kendalltau(ability, values).statistic)
    assert not_none(label.spearman.low) < not_none(label.spearman.value)
    assert label.auc is None
    assert result.notes == ("No label for 1 of 8 agents: a7.",)
    assert labeled_run.read_labels() == result


def test_labels_of_0_and_1_have_an_auc(labeled_run: RunFolder, tmp_path: Path) -> None:
    good = [True, True, False, True, False, False, False, True]
    label = only(held_against(labeled_run, write(tmp_path / "l.jsonl", of_agents(good, name="good"))))
    wanted = auc_sampling_interval(abilities(labeled_run), np.array(good))
    auc = not_none(label.auc)
    assert (auc.value, auc.low, auc.high) == (
        wanted.value,
        wanted.low,
        wanted.high,
    )
    assert label.n_positive == 4
    assert [disagreement.agent for disagreement in label.disagreements] == ["a7", "a2"]
    assert label.disagreements[0].label_high == 4


def test_agents_with_different_ranks_are_named_and_intervals_checked(tmp_path: Path) -> None:
    run = judged(tmp_path / "sure", pool=make_pool(8, 120), holdout=0)
    label = only(held_against(run, write(tmp_path / "l.csv", of_agents([1, 7, 6, 5, 4, 3, 2, 8]))))
    first = label.disagreements[0]
    rows = {row.agent: row for row in run.read_ranking()}
    assert (first.agent, first.rank, first.label_low, first.label_high, first.gap) == ("a0", 1, 8, 8, 7)
    assert (first.rank_low, first.rank_high) == (rows["a0"].rank_low, rows["a0"].rank_high)
    assert first.explained == (first.rank_high == 8)
    assert label.n_unexplained >= 1
    assert "the label is wrong" in label.summary[-1]


def test_labels_of_cells_are_averaged_and_compared_with_scores(labeled_run: RunFolder, tmp_path: Path) -> None:
    scores = labeled_run.read_scores("symmetric")
    rows = [
        {"agent": agent, "item": item, "score": scores.value[i, j]}
        for i, agent in enumerate(scores.agent_ids)
        for j, item in enumerate(scores.item_ids)
    ]
    result = held_against(labeled_run, write(tmp_path / "l.parquet", rows))
    label = only(result)
    cells = not_none(label.cells)
    assert (cells.n_cells, cells.n_items) == (80, 10)
    assert cells.overall.value == pytest.approx(1)
    assert cells.within_item.value == pytest.approx(1)
    assert result.notes == ()
    elsewhere = [row | {"item": f"other {row['item']}"} for row in rows]
    label = only(result := held_against(labeled_run, write(tmp_path / "l.csv", [*rows[:40], *elsewhere])))
    assert label.n_agents == 8
    assert any(
        "10 labeled items are not in this run; the labels count only in the mean" in note for note in result.notes
    )
    assert any("different items" in note for note in result.notes)


def test_means_of_cells_that_differ_only_by_rounding_are_ties(labeled_run: RunFolder, tmp_path: Path) -> None:
    values = [[0.1, 0.1, 0.1], [0.1, 0.2, 0.0], [0.3, 0.0, 0.0], [0.2, 0.0, 0.1]]
    rows = [{"agent": AGENTS[i], "item": f"i{j}", "x": x} for i, row in enumerate(values) for j, x in enumerate(row)]
    label = only(held_against(labeled_run, write(tmp_path / "l.csv", rows)))
    assert label.spearman.method == "none: all agents have the same label"


def test_the_mean_of_a_few_cells_has_an_interval_that_may_explain_a_difference(
    labeled_run: RunFolder, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    rows = [{"agent": agent, "item": f"i{j}", "correct": int(rng.random() < 0.5)} for agent in AGENTS for j in range(6)]
    label = only(held_against(labeled_run, write(tmp_path / "l.csv", rows)))
    assert all(disagreement.label_low < disagreement.label_high for disagreement in label.disagreements)
    assert label.n_unexplained == 0


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([1, 2], "too few agents (2)"),
        ([3] * 8, "all agents have the same label"),
        ([1, *[float("nan")] * 7], "too few agents (1)"),
    ],
)
def test_an_unavailable_statistic_is_a_dash_with_its_reason(
    labeled_run: RunFolder, tmp_path: Path, values: list[float], why: str
) -> None:
    label = only(held_against(labeled_run, write(tmp_path / "l.parquet", of_agents(values))))
    assert (label.spearman.value, label.kendall.value, label.auc) == (None, None, None)
    assert label.spearman.method == f"none: {why}"
    assert why in label.summary[0]


def test_perfect_agreement_has_no_interval_and_labels_of_wrong_sign_are_reported(
    labeled_run: RunFolder, tmp_path: Path
) -> None:
    perfect = only(held_against(labeled_run, write(tmp_path / "l.csv", of_agents(range(8, 0, -1)))))
    assert perfect.spearman.value == pytest.approx(1)
    assert perfect.spearman.low is None
    assert "no confidence interval" in perfect.summary[1]
    assert perfect.disagreements == ()
    errors = only(held_against(labeled_run, write(tmp_path / "l.csv", of_agents([1, 2, 3, 4, 5, 6, 8, 7]))))
    assert any("change their sign" in sentence for sentence in errors.summary)


def test_labels_of_unknown_agents_are_refused_with_the_nearest_ids(labeled_run: RunFolder, tmp_path: Path) -> None:
    file = write(tmp_path / "l.csv", [{"agent": "A0 ", "acc": 1}, {"agent": "zebra", "acc": 2}])
    with pytest.raises(ConfigError, match=r"'A0 ' .did you mean 'a0'.*'zebra'\. The run has a0, .*3 more") as caught:
        open_labels(file, KNOWN)
    assert caught.value.slug == "labels-unknown"


def test_some_labels_of_unknown_agents_are_counted_and_omitted(labeled_run: RunFolder, tmp_path: Path) -> None:
    rows = [*of_agents([8, 7, 6, 5, 4, 3, 2, 1]), {"agent": "a-0", "accuracy": 9}]
    result = held_against(labeled_run, write(tmp_path / "l.csv", rows))
    assert only(result).n_agents == 8
    assert result.notes == ("1 of 9 labeled agents are not in this run and are left out: 'a-0' (did you mean 'a0'?).",)


def test_an_alias_from_labels_or_pool_finds_the_agent_and_is_stated(labeled_run: RunFolder, tmp_path: Path) -> None:
    rows = of_agents([8, 7, 6, 5, 4, 3, 2, 1])
    rows[0] |= {"agent": "Model Zero", "alias": "a0"}
    rows[1] |= {"agent": "example"}
    aliased = [replace(agent, meta={"alias": "example"}) if agent.id == "a1" else agent for agent in KNOWN]
    table = open_labels(write(tmp_path / "l.csv", rows), aliased)
    result = validate(labeled_run, table)
    assert only(result).n_agents == 8
    assert result.notes == ("Labeled under another name: 'Model Zero' is 'a0', 'example' is 'a1'.",)
    with pytest.raises(
        ConfigError, match="two names for the agent 'a0': got 'a0' and, by an alias, 'Model Zero'"
    ) as caught:
        open_labels(write(tmp_path / "l.csv", [*rows, {"agent": "a0", "accuracy": 1}]), KNOWN)
    assert caught.value.slug == "labels-alias"


def test_an_alias_that_two_agents_share_finds_no_agent() -> None:
    agents = [Agent("a", meta={"alias": "x"}), Agent("b", meta={"alias": "x"}), Agent("c", meta={"alias": "y"})]
    assert get_unique_aliases(agents) == {"y": "c"}


def test_unknown_names_similar_to_an_unlabeled_agent_are_listed_first(labeled_run: RunFolder, tmp_path: Path) -> None:
    rows = [{"agent": f"other {n}", "accuracy": n} for n in range(6)]
    rows += [*of_agents([8, 7, 6, 5, 4, 3, 2]), {"agent": "A-7", "accuracy": 1}]
    result = held_against(labeled_run, write(tmp_path / "l.csv", rows))
    assert (
        "7 of 14 labeled agents are not in this run and are left out: 'A-7' (did you mean 'a7'?), 'other 0', "
        in result.notes[0]
    )
    assert result.notes[1] == "No label for 1 of 8 agents: a7."


def test_rows_whose_labels_are_empty_do_not_count_as_labels(labeled_run: RunFolder, tmp_path: Path) -> None:
    rows = [f"a{k},i{j},{'' if k == 7 or (k, j) == (0, 0) else (k + j) % 2}\n" for k in range(8) for j in range(4)]
    (tmp_path / "l.csv").write_text("agent,item,label\n" + "".join(rows), encoding="utf-8")
    assert held_against(labeled_run, tmp_path / "l.csv").notes == (
        "No label for 1 of 8 agents: a7.",
        "Agents are labeled on different items, so their mean labels also depend on how hard these items are.",
    )


def test_with_several_components_rank_intervals_are_open(labeled_run: RunFolder, tmp_path: Path) -> None:
    labeled_run.write_facts(replace(labeled_run.read_facts(), n_components=2))
    label = only(held_against(labeled_run, write(tmp_path / "l.csv", of_agents([1, 7, 6, 5, 4, 3, 2, 8]))))
    assert all((disagreement.rank_low, disagreement.rank_high) == (1, 8) for disagreement in label.disagreements)
    assert label.n_unexplained == 0


def test_labels_of_an_older_ranking_are_not_shown(labeled_run: RunFolder, tmp_path: Path) -> None:
    held_against(labeled_run, write(tmp_path / "l.csv", of_agents(range(8))))
    assert ReportData(labeled_run).summary.labels is not None
    fit_run(labeled_run, target="these-items")
    data = ReportData(labeled_run)
    assert data.summary.labels is None
    assert any("refers to an earlier ranking" in advice.message for advice in data.advice)
    assert "Agreement with labels" not in render_page(data)
    labeled_run.remove("labels.json")
    assert not any("labels.json" in advice.message for advice in ReportData(labeled_run).advice)


def test_the_report_escapes_labels_and_their_names(labeled_run: RunFolder, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)>|\x1b[31m"
    rows = [{"agent": agent, hostile: value} for agent, value in zip(AGENTS, (1, 0, 1, 0, 0, 0, 1, 1), strict=True)]
    file = write(tmp_path / "l.jsonl", [*rows, {"agent": hostile, hostile: 1}])
    held_against(labeled_run, file)
    data = ReportData(labeled_run)
    page, summary = render_page(data), render_markdown(data)
    assert "Agreement with labels" in page
    assert "<img" not in page.split("<main")[1].split("<script")[0]
    assert "\x1b" not in page + summary
    assert "<img" not in summary.replace("\\<", "")
    assert "on 8 agents: ρ =" in summary


# from the command line


@pytest.fixture
def labeled(mine: Path) -> None:
    write(mine / "labels.csv", [{"agent": f"a{i}", "accuracy": x} for i, x in enumerate((0.1, 0.3, 0.2, 0.5, 0.4))])


@pytest.mark.slow
@pytest.mark.usefixtures("labeled")
def test_labels_do_not_change_the_fit(youden: Youden, tmp_path: Path) -> None:
    here = tmp_path / "runs" / "mine"
    before = contents(here)
    assert youden("fit", "runs/mine", "--labels", "labels.csv").code == 0
    after = contents(here)
    assert after.pop("labels.json")
    assert after == before
    shutil.rmtree(here)
    assert youden("run", "mine.yaml", "--labels", "labels.csv").code == 0
    again = contents(here)
    assert again.pop("labels.json")
    assert b"Agreement with labels" in again.pop("report.html")
    assert again == {name: content for name, content in before.items() if name != "report.html"}


@pytest.mark.slow
@pytest.mark.usefixtures("labeled")
def test_labels_are_shown_on_the_terminal_in_json_and_by_report(youden: Youden, tmp_path: Path) -> None:
    displayed = youden("fit", "runs/mine", "--labels", "labels.csv")
    assert "against labels.csv" in displayed.out
    assert "Agreement of the ranking with 'accuracy' on 5 agents: ρ = 0.80" in displayed.out
    data = json.loads(youden("fit", "runs/mine", "--labels", "labels.csv", "--json").out)
    (label,) = data["labels"]["labels"]
    assert label["name"] == "accuracy"
    assert label["spearman"]["value"] == pytest.approx(0.8)
    assert json.loads(youden("fit", "runs/mine", "--json").out)["labels"] == data["labels"]
    (tmp_path / "runs/mine/labels.json").unlink()
    assert json.loads(youden("fit", "runs/mine", "--json").out)["labels"] is None
    assert youden("report", "runs/mine", "--labels", "labels.csv").code == 0
    assert "Agreement with labels" in (tmp_path / "runs/mine/report.html").read_text(encoding="utf-8")
    assert "on which no fit depends" in youden("report", "runs/mine", "--format", "md").out


def test_an_invalid_file_of_labels_ends_a_run_before_any_request(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "mine.yaml", pool="mine.csv")
    (tmp_path / "labels.csv").write_text("agent,acc\nb0,1\n", encoding="utf-8")
    for file, slug in (
        ("labels.csv", "labels-unknown"),
        ("nowhere.csv", "import-not-found"),
        ("mine.yaml", "import-format"),
    ):
        assert youden("run", "mine.yaml", "--labels", file).refuses(slug)
    assert not (tmp_path / "runs/mine/verdicts.parquet").exists()
