"""Test quality from a few labels: selection, files, and that ability does not change."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest

import youden as package
from commands import Youden, write_config, write_pool_table
from run_folders import contents
from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, ImportFormatError, PlanError
from youden.pipeline.recommendation import read_recommendation
from youden.report.charts.vega import make_figure_spec
from youden.report.data.comparison import Comparison
from youden.report.data.report import ReportData
from youden.workflows.quality import describe_quality, estimate_quality, fit_quality, read_answers
from youden.workflows.to_label import LabelsFor, choose_to_label, to_safe_cell

K, J = 7, 12


@pytest.fixture(scope="module")
def quality_run_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a fitted run of a pool with its texts."""
    place = tmp_path_factory.mktemp("quality")
    write_pool_table(place / "pool.csv", n_agents=K, n_items=J)
    text = (place / "pool.csv").read_text(encoding="utf-8")
    (place / "pool.csv").write_text(text.replace("prompt 3", "=HYPERLINK(1)"), encoding="utf-8")
    write_config(place / "c.yaml", pool=str(place / "pool.csv"), judge="lexical", out=str(place / "run"))
    from youden.cli.run import run_command

    run_command.main([str(place / "c.yaml")], standalone_mode=False)
    return place / "run"


@pytest.fixture
def run(quality_run_once: Path, tmp_path: Path) -> RunFolder:
    shutil.copytree(quality_run_once.parent, tmp_path, dirs_exist_ok=True)
    return RunFolder(tmp_path / "run")


def fill_in(table: Path, *, seed: int = 0) -> list[dict[str, str]]:
    """Fill in labels as a spreadsheet writes them: 1 more often for later agents; every fifth is empty."""
    key = {
        record["id"]: record for record in json.loads(table.with_suffix(".json").read_text(encoding="utf-8"))["answers"]
    }
    rng = np.random.default_rng(seed)
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for at, row in enumerate(rows):
        chance = (1 + int(key[row["id"]]["agent"][1:])) / (K + 1)
        row["label"] = "" if at % 5 == 4 else str(int(rng.random() < chance))
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return rows


@pytest.mark.slow
def test_label_table_and_quality_change_no_other_file(youden: Youden, run: RunFolder, tmp_path: Path) -> None:
    before = contents(run.path)
    table = tmp_path / "to-label.csv"
    assert youden("label", str(run.path), "--next", "30", "--out", str(table)).code == 0
    rows = fill_in(table)
    result = youden("quality", str(run.path), "--labels", str(table), "--json").said
    assert result["n_labels"] == sum(bool(row["label"]) for row in rows) == 24
    assert sorted(record["agent"] for record in result["agents"]) == [f"a{k}" for k in range(K)]
    assert contents(run.path) == before | {name: contents(run.path)[name] for name in ("quality.csv", "quality.json")}
    assert run.read_quality().agents[0].agent == result["best"]
    displayed = youden("quality", str(run.path), "--labels", str(table))
    assert "Best by quality" in displayed.out
    lines = displayed.out.splitlines()
    assert lines[0] == result["recommendation"]["text"]
    assert re.search(r"(Labels decide, because|Agreement decides, because)", lines[0])
    top = result["agents"][0]
    assert any(f" {top['low']:.2f}–{top['high']:.2f} " in line for line in lines)
    assert any(" quality " in line and " interval " in line for line in lines)
    rule = next(n for n, line in enumerate(lines) if line and set(line) == {"─"})
    assert max(map(len, lines[rule - 1 : rule + 1 + K])) <= 80


def test_responses_that_were_not_judged_are_not_labeled(run: RunFolder, tmp_path: Path) -> None:
    pool = tmp_path / "pool.csv"
    judged = pool.read_text(encoding="utf-8")
    pool.write_text(judged.replace("w3x", "changed w3x"), encoding="utf-8")
    with pytest.raises(PlanError, match=r"other texts than those that were judged.*\[plan-other-pool\]"):
        choose_to_label(RunFolder(run.path), 20, tmp_path / "t.csv")
    assert not (tmp_path / "t.csv").exists()
    pool.write_text(judged, encoding="utf-8")
    choose_to_label(RunFolder(run.path), 20, tmp_path / "t.csv")


def test_the_label_table_shows_no_agent_names_and_no_formula(run: RunFolder, tmp_path: Path) -> None:
    written = choose_to_label(run, K * J, tmp_path / "all.csv")
    text = written.table.read_text(encoding="utf-8")
    with written.table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    key = json.loads(written.key.read_text(encoding="utf-8"))
    assert len({(record["agent"], record["item"]) for record in key["answers"]}) == len(rows) == K * J
    assert list(rows[0]) == ["id", "prompt", "text", *(f"other_{i}" for i in range(1, K)), "label"]
    assert not any(row["label"] for row in rows)
    assert sum(row["prompt"] == "'=HYPERLINK(1)" for row in rows) == K
    assert not any(f",{start}" in text for start in ("=", "+", "@"))
    agents = [record["agent"] for record in key["answers"]]
    assert agents != sorted(agents)
    named = choose_to_label(run, 3, tmp_path / "named.csv", show_agents=True)
    assert "shown_agent" in named.table.read_text(encoding="utf-8")


def test_the_response_to_label_is_drawn_from_all_repeats(youden: Youden, tmp_path: Path) -> None:
    rows = [
        {"agent": f"a{k}", "item": f"i{j}", "repeat": repeat, "text": f"text a{k} i{j} {repeat}"}
        for k in range(5)
        for j in range(12)
        for repeat in (1, 2, 3)
        if (k, repeat) != (0, 3)  # the first agent has no third response
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "pool.csv", index=False)
    write_config(tmp_path / "c.yaml", pool="pool.csv", judge="lexical", out="repeats")
    assert youden("run", str(tmp_path / "c.yaml")).code == 0

    tables = [choose_to_label(RunFolder(Path("repeats")), 60, tmp_path / f"{n}.csv", seed=7) for n in range(2)]
    assert tables[0].table.read_bytes() == tables[1].table.read_bytes()
    key = {record["id"]: record for record in json.loads(tables[0].key.read_text(encoding="utf-8"))["answers"]}
    shown: dict[str, int] = {}
    for row in pd.read_csv(tables[0].table).to_dict("records"):
        record = key[row["id"]]
        assert row["text"] == f"text {record['agent']} {record['item']} {record['repeat']}"
        shown[row["id"]] = record["repeat"]
    counts = np.bincount(list(shown.values()), minlength=4)
    assert counts[1:].min() > 8
    assert {shown[id_] for id_, record in key.items() if record["agent"] == "a0"} == {1, 2}


def test_a_column_of_repeats_is_not_a_label(run: RunFolder, tmp_path: Path) -> None:
    rows = [{"agent": f"a{k}", "item": "i1", "repeat": n, "label": n % 2} for k in range(K) for n in (1, 2, 3)]
    labels = _write_sheet(pd.DataFrame(rows), tmp_path / "repeats.csv")
    np.testing.assert_allclose(read_answers(run, labels).value, 2 / 3)


def test_the_next_command_after_label_has_the_options_of_the_labels(
    youden: Youden, run: RunFolder, tmp_path: Path
) -> None:
    rows = [{"agent": f"a{k}", "item": "i1", "grade": 1 + k % 5, "length": k} for k in range(K)]
    labels = _write_sheet(pd.DataFrame(rows), tmp_path / "grades.csv")
    table = tmp_path / "next.csv"
    options = ["--labels", str(labels), "--label", "grade", "--scale", "1,1000001"]
    result = youden("label", str(run.path), "--next", "5", "--out", str(table), *options)
    command = re.search(r"run: youden (quality .*)", result.err)
    assert command is not None

    pd.read_csv(table).assign(label=5).to_csv(table, index=False)
    assert youden(*shlex.split(command[1])).code == 0
    facts = run.read_quality()
    assert (facts.label, facts.scale, facts.n_labels) == ("grade and label", (1, 1000001), K + 5)
    unknown = youden("quality", str(run.path), "--labels", str(table), "--label", "grade")
    assert unknown.refuses("quality-column")


def test_existing_labels_count_and_no_response_is_listed_twice(run: RunFolder, tmp_path: Path) -> None:
    observed: set[tuple[str, str]] = set()
    files: list[Path] = []
    for step in range(3):
        labels = read_answers(run, files) if files else None
        table = choose_to_label(run, 20, tmp_path / f"{step}.csv", labeled=labels, purpose="best").table
        new = {
            (record["agent"], record["item"])
            for record in json.loads(table.with_suffix(".json").read_text())["answers"]
        }
        assert not new & observed
        with table.open(encoding="utf-8", newline="") as file:
            rows = [row | {"label": "1"} for row in csv.DictReader(file)]
        pd.DataFrame(rows).to_csv(table, index=False)
        observed |= new
        files.append(table)
    assert len(read_answers(run, files).value) == 60


def test_rows_of_several_label_tables_can_be_combined(run: RunFolder, tmp_path: Path) -> None:
    first = choose_to_label(run, 20, tmp_path / "first.csv").table
    pd.read_csv(first).assign(label=1).to_csv(first, index=False)
    second = choose_to_label(run, 20, tmp_path / "second.csv", labeled=read_answers(run, first)).table
    pd.read_csv(second).assign(label=0).to_csv(second, index=False)

    separate = read_answers(run, [first, second])
    pd.concat([pd.read_csv(first), pd.read_csv(second)]).to_csv(first, index=False)
    combined = read_answers(run, first)
    assert len(combined.value) == 40
    assert combined.item_ids == separate.item_ids
    np.testing.assert_array_equal(combined.agent, separate.agent)
    np.testing.assert_array_equal(combined.value, separate.value)


def test_a_second_column_of_labels_in_a_label_table_is_not_lost(run: RunFolder, tmp_path: Path) -> None:
    table = choose_to_label(run, 20, tmp_path / "sheet.csv").table
    sheet = pd.read_csv(table).assign(label=1, note="good")
    assert len(read_answers(run, _write_sheet(sheet, table)).value) == 20
    two_columns = _write_sheet(sheet.assign(label_2=0), table)
    with pytest.raises(ConfigError, match=r"has the labels label_2, label: got none.*\[quality-column\]"):
        read_answers(run, two_columns)
    only_second = _write_sheet(sheet.assign(label=None, label_2=0), table)
    assert read_answers(run, only_second).value.tolist() == [0] * 20


def _write_sheet(sheet: pd.DataFrame, path: Path) -> Path:
    sheet.to_csv(path, index=False)
    return path


def test_fractions_on_a_scale_of_percentages_are_refused(run: RunFolder) -> None:
    labels = pd.DataFrame({"agent": ["a0", "a1", "a2"], "item": "i1", "label": [0.8, 0.5, 1]})
    with pytest.raises(ConfigError, match=r"All labels are fractions .* 0\.5 to 1\. .*\[quality-scale\]"):
        read_answers(run, labels, scale=(0, 100))
    for other_labels in (labels.replace(0.8, 80), labels.replace({0.8: 0, 0.5: 1})):
        assert len(read_answers(run, other_labels, scale=(0, 100)).value) == 3


def test_contenders_share_items_and_all_items_are_spread(run: RunFolder, tmp_path: Path) -> None:
    def items(purpose: LabelsFor) -> int:
        table = choose_to_label(run, 21, tmp_path / f"{purpose}.csv", purpose=purpose).table
        return len({record["item"] for record in json.loads(table.with_suffix(".json").read_text())["answers"]})

    assert items("best") == 3
    assert items("all") > 6


@pytest.mark.slow
def test_items_of_an_agent_are_drawn_with_the_documented_probability(run: RunFolder, tmp_path: Path) -> None:
    drawn = np.zeros(J)
    for seed in range(60):
        table = choose_to_label(run, K * 3, tmp_path / f"{seed}.csv", seed=seed).table
        answers = json.loads(table.with_suffix(".json").read_text())["answers"]
        assert {record["probability"] for record in answers} == {3 / J}
        drawn += np.bincount([int(record["item"][1:]) for record in answers if record["agent"] == "a2"], minlength=J)
    assert np.abs(drawn / 60 - 3 / J).max() < 4 * np.sqrt(0.25 * 0.75 / 60)


def test_the_number_of_saved_labels_is_not_attributed_to_ability_if_the_slope_is_0(run: RunFolder) -> None:
    labels = pd.DataFrame(
        [{"agent": f"a{k}", "item": f"i{j}", "label": (k + j) % 2} for k in range(K) for j in range(4)]
    )
    facts = estimate_quality(run, labels)
    assert facts.regression is not None
    for slope, mentions_shrinkage in ((0.0, True), (0.4, False)):
        regression = replace(facts.regression, slope=slope, equivalent_labels=2 * facts.n_labels)
        summary = " ".join(describe_quality(replace(facts, regression=regression)))
        assert f"Label means alone would need about {2 * facts.n_labels} labels" in summary
        assert ("not from ability" in summary) == mentions_shrinkage


def test_agents_of_equal_quality_share_a_rank_in_the_order_of_the_ranking(run: RunFolder) -> None:
    agents = [row.agent for row in run.read_ranking()]
    labels = pd.DataFrame([{"agent": agent, "item": f"i{j}", "label": 1} for j, agent in enumerate(agents)])
    facts = estimate_quality(run, labels)
    qualities = np.array([row.quality for row in facts.agents])
    assert np.ptp(qualities) < 1e-9
    assert [(row.agent, row.rank) for row in facts.agents] == [(agent, 1) for agent in agents]
    n_others = f"{len(agents) - 1} other agents have the same"
    assert n_others in facts.summary[0]
    assert n_others in read_recommendation(run).text


def test_ability_explains_no_differences_in_quality_if_the_slope_is_0(run: RunFolder) -> None:
    labels = pd.DataFrame([{"agent": f"a{k}", "item": f"i{k}", "label": 1} for k in range(K)])
    facts = estimate_quality(run, labels)
    assert facts.regression is not None
    assert facts.regression.slope == 0
    assert facts.regression.r2 > 0.1
    assert facts.summary[1].startswith("The labels show no relation with ability: the slope is 0.00 [")


def test_grades_keep_their_scale_and_two_labels_of_a_response_count_once(run: RunFolder, tmp_path: Path) -> None:
    rows = [{"agent": f"a{k}", "item": f"i{j}", "grade": 1 + (k + j) % 5} for k in range(K) for j in range(4)]
    pd.DataFrame([*rows, *rows]).to_csv(tmp_path / "g.csv", index=False)
    answers = read_answers(run, [tmp_path / "g.csv"], scale=(1, 5))
    assert len(answers.value) == len(rows)
    assert answers.unit.min() == 0.0
    assert answers.unit.max() == 1.0


@pytest.mark.parametrize(
    ("text", "words", "slug"),
    [
        ("agent,accuracy\na0,1\n", [], "quality-items"),
        ("agent,item,grade\na0,i1,4\n", [], "quality-scale"),
        ("agent,item,ok,fine\na0,i1,1,0\n", [], "quality-column"),
        ("id,label\n1234,1\n", [], "labels-key"),
        ("agent,item,ok\nnobody,i1,1\n", [], "labels-unknown"),
        ("agent,item,ok\na0,i1,1\n", ["--scale", "1,1"], "quality-scale"),
        ("agent,item,ok\na0,i1,1\n", ["--scale", "5,1"], "quality-scale"),
        ("agent,item,ok\na0,i1,1\n", ["--scale", "0,inf"], "quality-scale"),
    ],
)
def test_unusable_labels_are_refused(  # noqa: PLR0917
    youden: Youden, run: RunFolder, tmp_path: Path, text: str, words: list[str], slug: str
) -> None:
    (tmp_path / "labels.csv").write_text(text, encoding="utf-8")
    assert youden("quality", str(run.path), "--labels", "labels.csv", *words).refuses(slug)
    assert not run.has("quality.json")


@pytest.mark.parametrize(("yes", "no"), [(True, False), ("yes", "no"), ("100%", "0%"), (np.int64(1), np.float32(0))])
def test_labels_of_a_frame_are_read_as_those_of_a_file(run: RunFolder, yes: object, no: object) -> None:
    frame = pd.DataFrame({"agent": ["a0", "a1"], "item": ["i1", "i1"], "label": [yes, no]}, dtype=object)
    file = run.file("labels.csv")
    frame.to_csv(file, index=False)
    for labels in (file, frame, frame.astype("category")):
        assert read_answers(run, labels).value.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "slug"),
    [
        (pd.DataFrame({"agent": ["a0"], "item": ["i1"], "label": ["good"]}), "labels-value"),
        (pd.DataFrame({"agent": ["A0"], "item": ["i1"], "label": [1]}), "labels-unknown"),
        (pd.DataFrame({"id": ["1234"], "label": [1]}), "pass the path of its file"),
        (None, "quality-column"),
        ({"agent": ["a0"]}, "quality-column"),
    ],
)
def test_unusable_labels_in_memory_are_refused(run: RunFolder, labels: Any, slug: str) -> None:
    with pytest.raises((ConfigError, ImportFormatError), match=slug):
        read_answers(run, labels)


@pytest.mark.parametrize("in_memory", [False, True])
def test_labels_of_unknown_agents_and_items_are_noted(
    youden: Youden, run: RunFolder, tmp_path: Path, in_memory: bool
) -> None:
    rows = [{"agent": f"a{k}", "item": f"i{j}", "label": int(j < k)} for k in range(K) for j in range(4)]
    foreign = [{"agent": "a-1", "item": "i0", "label": 1}, {"agent": "a0", "item": "i1 ", "label": 0}]
    frame = pd.DataFrame([*rows, *foreign])
    frame.to_csv(tmp_path / "l.csv", index=False)
    notes = (
        "1 of 8 labeled agents are not in this run and are left out: 'a-1' (did you mean 'a1'?).",
        "1 labeled item is not in this run; the labels count nevertheless: 'i1 '.",
        "Names that differ only in case, spaces, invisible characters, Unicode form or a final .0 count as different: "
        "'i1', 'i1 '; write each name alike in all files.",
    )
    view = package.read_run(run.path)
    labels = frame if in_memory else "l.csv"
    assert view.quality(labels).attrs["notes"] == notes
    assert view.gate("a1", baseline="a0", labels=labels).label_notes == notes
    assert view.label(1, tmp_path / "to-label.csv", labels=labels).notes == notes
    if not in_memory:
        words = ("quality", str(run.path), "--labels", "l.csv")
        assert json.loads(youden(*words, "--json").out)["notes"] == list(notes)
        printed = youden(*words).err
        assert all(f"labels: {note}" in printed for note in notes)
    assert view.quality(pd.DataFrame(rows)).attrs["notes"] == ()


@pytest.mark.parametrize("column", ["agent", "item"])
@pytest.mark.parametrize("value", [None, np.nan, pd.NA, " ", ["a0"], b"a0"])
def test_a_label_in_memory_without_an_agent_or_an_item_is_refused(run: RunFolder, column: str, value: object) -> None:
    rows: list[dict[str, object]] = [
        {"agent": "a0", "item": "i1", "label": 1},
        {"agent": "a1", "item": "i1", "label": 0},
    ]
    rows[1][column] = value
    with pytest.raises(ImportFormatError, match=rf"DataFrame, row 2: the {column} is not an id: got .*labels-id"):
        read_answers(run, pd.DataFrame(rows))
    rows[1]["label"] = None
    assert read_answers(run, pd.DataFrame(rows)).value.tolist() == [1]


def test_whole_numbers_are_ids_in_memory(run: RunFolder) -> None:
    frame = pd.DataFrame({"agent": ["a0", "a0"], "item": [1, 2], "label": [0, 1]})
    assert read_answers(run, frame).item_ids == ("1", "2")
    assert read_answers(run, frame.astype({"item": float})).item_ids == ("1", "2")


def test_dates_are_ids_of_labels_in_memory_as_in_a_pool(run: RunFolder) -> None:
    frame = pd.DataFrame({"agent": ["a0", "a0"], "item": pd.date_range("2026-01-01", periods=2), "label": [0, 1]})
    pool = package.read_pool(frame.drop(columns="label").assign(text="t"))
    assert read_answers(run, frame).item_ids == tuple(item.id for item in pool.items)


def test_labels_in_memory_with_two_columns_of_one_name_are_refused(run: RunFolder) -> None:
    frame = pd.DataFrame({"agent": ["a0", "a0"], "item": [1, 2], "label": [0, 1]})
    with pytest.raises(ConfigError, match=r"same name: got label\. Keep one of them\..*quality-column"):
        read_answers(run, pd.concat([frame, frame[["label"]]], axis=1))


@pytest.mark.parametrize("value", ["95%", "40 %", "win", "Yes", "tie", True])
@pytest.mark.parametrize("scale", [(0, 100), (1, 5), (-1, 1)])
def test_percentages_and_words_fit_only_the_scale_from_0_to_1(
    run: RunFolder, tmp_path: Path, value: object, scale: tuple[float, float]
) -> None:
    frame = pd.DataFrame({"agent": ["a0", "a1"], "item": ["i1", "i1"], "label": [1, value]}, dtype=object)
    frame.to_csv(tmp_path / "l.csv", index=False)
    for labels, location in ((frame, "DataFrame, row 2"), (tmp_path / "l.csv", "l.csv, line 3")):
        with pytest.raises(ConfigError, match=rf"got '?{value}'? \(.*{location}\).*quality-scale"):
            read_answers(run, labels, scale=scale)
        assert len(read_answers(run, labels).value) == 2
        assert len(read_answers(run, labels, scale=(0, 1)).value) == 2


@pytest.mark.parametrize("scale", ["1,5", (1, 2, 3), 5])
def test_a_scale_that_is_not_two_numbers_is_refused(run: RunFolder, scale: Any) -> None:
    labels = pd.DataFrame({"agent": ["a0"], "item": ["i1"], "label": [1]})
    with pytest.raises(ConfigError, match=r"not two numbers.*quality-scale"):
        read_answers(run, labels, scale=scale)


@pytest.mark.parametrize(
    ("name", "yes", "no"),
    [("filled in.csv", "yes", "No"), ("filled in.csv", "pass", "fail"), ("mine.csv", "100%", "0%"), ("mine.csv", "1,0", "0,0"),
     ("to label (1).xlsx", 1, 0)],
)  # fmt: skip
def test_labels_saved_by_a_spreadsheet_with_other_words_give_the_same_result(
    run: RunFolder, tmp_path: Path, name: str, yes: str | int, no: str | int
) -> None:
    table = choose_to_label(run, 20, tmp_path / "t.csv").table
    (tmp_path / "other.json").write_text('{"answers": [{"id": 1, "agent": "a0", "item": "i0"}]}', encoding="utf-8")
    filled = pd.DataFrame(fill_in(table))
    labels = read_answers(run, [table])
    filled["label"] = filled["label"].map({"1": yes, "0": no, "": ""})
    table.unlink()
    if name.endswith(".xlsx"):
        filled.to_excel(tmp_path / name, index=False)
    else:
        filled.to_csv(tmp_path / name, index=False)
    answers = read_answers(run, [tmp_path / name])
    assert len(answers.value) > 9
    np.testing.assert_array_equal(answers.unit, labels.unit)
    np.testing.assert_array_equal(answers.agent, labels.agent)


def test_key_files_that_contradict_each_other_are_refused(run: RunFolder, tmp_path: Path) -> None:
    table = choose_to_label(run, 20, tmp_path / "t.csv").table
    fill_in(table)
    table.rename(tmp_path / "mine.csv")
    key = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    (tmp_path / "copy.json").write_text(json.dumps(key), encoding="utf-8")
    assert len(read_answers(run, [tmp_path / "mine.csv"]).value) == 16

    for record in key["answers"]:
        record["agent"] = "a0"
    (tmp_path / "copy.json").write_text(json.dumps(key), encoding="utf-8")
    with pytest.raises(ImportFormatError, match=r"several files .* as mine\.json"):
        read_answers(run, [tmp_path / "mine.csv"])


def test_a_table_with_ids_but_without_agents_is_refused_with_both_remedies(run: RunFolder, tmp_path: Path) -> None:
    """It may be a table of the user or one of `youden label`."""
    own = _write_sheet(pd.DataFrame({"id": ["i1"], "model": ["a0"], "label": [1]}), tmp_path / "own.csv")
    with pytest.raises(ImportFormatError, match=r"Name the columns .* agent and item\. .* as own\.json"):
        read_answers(run, own)


def test_a_table_that_may_contain_labels_is_not_overwritten(youden: Youden, run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("mine", encoding="utf-8")
    done = youden("label", str(run.path), "--next", "5", "--out", "t.csv")
    assert "[label-out]" in done.err
    assert (tmp_path / "t.csv").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("out", ["", "/", "to-label.txt"])
def test_a_table_of_another_format_is_refused(run: RunFolder, out: str) -> None:
    with pytest.raises(ConfigError, match=r"must be a \.csv file") as refused:
        choose_to_label(run, 5, Path(out))
    assert refused.value.slug == "label-out"


def test_the_python_functions_give_the_result_of_the_commands(youden: Youden, run: RunFolder, tmp_path: Path) -> None:
    rows = [{"agent": f"a{k}", "item": f"i{j}", "label": int(j < k)} for k in range(K) for j in range(6)]
    pd.DataFrame(rows).to_csv(tmp_path / "l.csv", index=False)
    data = json.loads(youden("quality", str(run.path), "--labels", "l.csv", "--json").out)
    written = run.file("quality.csv").read_bytes()
    for labels in (pd.DataFrame(rows), "l.csv", [Path("l.csv")]):
        table = package.read_run(run.path).quality(labels)
        assert table.quality.tolist() == [record["quality"] for record in data["agents"]]
        assert table.agent.tolist() == [record["agent"] for record in data["agents"]]
        assert table.attrs["summary"] == tuple(data["summary"])
        assert run.file("quality.csv").read_bytes() == written
    with pytest.raises(ConfigError, match=r"no column label: got agent, item, score.*\[quality-column\]"):
        package.read_run(run.path).quality(pd.DataFrame(rows).rename(columns={"label": "score"}))


def test_cells_that_a_spreadsheet_would_execute_begin_with_an_apostrophe() -> None:
    for text in ("=1", "+1", "-1", "@x", " =1", "\t=1", "\r=1", "＝1"):
        assert to_safe_cell(text).startswith("'")
    assert to_safe_cell("1 + 1 = 2") == "1 + 1 = 2"


def test_quality_of_an_earlier_ranking_is_reported_by_its_digest(
    youden: Youden, run: RunFolder, tmp_path: Path
) -> None:
    table = choose_to_label(run, 20, tmp_path / "t.csv").table
    fill_in(table)
    assert youden("quality", str(run.path), "--labels", str(table)).code == 0
    assert run.read_quality().tables_digest == run.compute_tables_digest()
    assert "earlier ranking" not in youden("report", str(run.path), "--format", "md").well().out
    run.write_quality(replace(run.read_quality(), tables_digest="other"))
    assert run.read_quality().tables_digest != run.compute_tables_digest()
    assert "quality.json refers to an earlier ranking" in youden("report", str(run.path), "--format", "md").well().out
    assert "labels do not decide the recommendation" in youden("report", str(run.path)).well().err


@pytest.mark.slow
def test_the_report_has_a_section_on_quality_only_if_labels_were_given(
    youden: Youden, run: RunFolder, tmp_path: Path
) -> None:
    output = "Quality, estimated from labels"
    assert youden("report", str(run.path)).code == 0
    assert output not in run.file("report.html").read_text(encoding="utf-8")
    table = choose_to_label(run, 20, tmp_path / "t.csv").table
    fill_in(table)
    assert youden("quality", str(run.path), "--labels", str(table)).code == 0
    assert youden("report", str(run.path)).code == 0
    assert output in run.file("report.html").read_text(encoding="utf-8")
    assert output in youden("report", str(run.path), "--format", "md").out
    run.write_quality(replace(run.read_quality(), tables_digest="of an earlier ranking"))
    assert output not in youden("report", str(run.path), "--format", "md").out


@pytest.mark.slow
def test_fit_with_labels_of_answers_names_the_command_for_quality(youden: Youden, run: RunFolder) -> None:
    labels = pd.DataFrame([{"agent": f"a{k}", "item": f"i{j}", "ok": int(j < k)} for k in range(K) for j in range(6)])
    labels.to_csv("cells.csv", index=False)
    assert f"youden quality {run.path} --labels cells.csv" in youden("fit", str(run.path), "--labels", "cells.csv").err
    labels.groupby("agent", as_index=False).ok.mean().to_csv("agents.csv", index=False)
    assert "youden quality" not in youden("fit", str(run.path), "--labels", "agents.csv").err


@pytest.mark.slow
def test_a_comparison_shows_quality_and_ability_if_both_runs_have_labels(
    youden: Youden, run: RunFolder, tmp_path: Path
) -> None:
    output = "Quality, estimated from labels, of 7 agents in both: ρ = 1.00, by ability 1.00. Best by quality in run: "
    other_folder = RunFolder(tmp_path / "again")
    table = choose_to_label(run, 30, tmp_path / "t.csv").table
    fill_in(table)
    assert youden("quality", str(run.path), "--labels", str(table)).code == 0
    shutil.copytree(run.path, other_folder.path)
    assert output in youden("compare", str(run.path), str(other_folder.path)).out
    assert any(line.startswith(output) for line in Comparison(run, other_folder).summary)
    other_folder.file("quality.json").unlink()
    assert "Quality, estimated from labels" not in youden("compare", str(run.path), str(other_folder.path)).out


@pytest.mark.slow
def test_the_figure_draws_the_regression_and_names_its_outliers(youden: Youden, run: RunFolder) -> None:
    order = [row.agent for row in run.read_ranking()]
    rows = [
        {"agent": agent, "item": f"i{j}", "label": int(j < 10 - 2 * k) if k < K - 1 else 1}
        for k, agent in enumerate(order)
        for j in range(J)
    ]
    pd.DataFrame(rows).to_csv("l.csv", index=False)
    assert youden("quality", str(run.path), "--labels", "l.csv").code == 0
    spec: dict[str, Any] = make_figure_spec(ReportData(run), "quality")
    alt.Chart.from_dict(spec)
    dots = spec["datasets"]["frame"]
    assert {record["agent"]: record["label_mean"] for record in dots} == pytest.approx(
        {agent: np.mean([row["label"] for row in rows if row["agent"] == agent]) for agent in order}, abs=1e-5
    )
    assert [record["agent"] for record in dots if record["kind"] == "outlier"] == [order[-1]]
    line = spec["datasets"][spec["layer"][-1]["data"]["name"]]
    assert len(line) == 41
    heights = [record["label_mean"] for record in line]
    assert heights == sorted(heights)
    assert 0 < heights[0] < heights[-1] < 1
    assert youden("report", str(run.path), "--format", "svg", "--chart", "quality", "--out", "q.svg").code == 0
    assert order[-1] in Path("q.svg").read_text(encoding="utf-8")


def test_a_gate_by_quality_uses_labels_and_other_labels_are_another_analysis(youden: Youden, run: RunFolder) -> None:
    best, *_, worst = (row.agent for row in run.read_ranking())

    def gate(agent: str, baseline: str, n: int) -> tuple[int, dict[str, Any]]:
        """Run a gate with n labels per agent: 1 for the last agent of the ranking, 0 for all others."""
        rows = [{"agent": f"a{k}", "item": f"i{j}", "label": int(f"a{k}" == worst)} for k in range(K) for j in range(n)]
        pd.DataFrame(rows).to_csv("l.csv", index=False)
        words = ["--agent", agent, "--baseline", baseline, "--by", "quality", "--labels", "l.csv"]
        done = youden("gate", str(run.path), *words, "--json")
        return done.code, json.loads(done.out)

    code, result = gate(worst, best, J)
    (row,) = result["agents"]
    assert (code, row["outcome"], row["analysis"], row["n_items"]) == (0, "better", 1, 2 * J)
    answers = read_answers(run, [Path("l.csv")])
    ids, quality = [record.agent for record in run.read_ranking()], fit_quality(run, answers)
    assert row["difference"] == pytest.approx(quality.quality[ids.index(worst)] - quality.quality[ids.index(best)])
    assert 0 < row["low"] < row["difference"] < row["high"] <= 1
    assert gate(best, worst, J)[0] == 1
    assert gate(worst, best, J)[1]["agents"][0]["analysis"] == 1
    code, result = gate(worst, best, 1)
    assert (code, result["by"], result["agents"][0]["analysis"]) == (3, "quality", 2)
    assert result["agents"][0]["level"] > row["level"]
    plain = json.loads(
        youden("gate", str(run.path), "--agent", worst, "--baseline", best, "--ledger", "g", "--json").out
    )
    assert (plain["by"], plain["agents"][0]["difference"] < 0) == ("ability", True)


def test_a_gate_by_quality_requires_labels_and_states_what_would_decide(youden: Youden, run: RunFolder) -> None:
    words = ["gate", str(run.path), "--agent", "a1", "--baseline", "a0"]
    assert "require each other" in youden(*words, "--by", "quality").err
    pd.DataFrame([{"agent": f"a{k}", "item": "i1", "label": k % 2} for k in range(K)]).to_csv("l.csv", index=False)
    assert "require each other" in youden(*words, "--labels", "l.csv").err
    output = youden(*words, "--by", "quality", "--labels", "l.csv", "--markdown", "-")
    assert output.code == 3
    assert "Label more responses of both agents" in output.out
    assert "from 7 labeled answers and ability" in output.out.lower()
    two = pd.DataFrame([{"agent": f"a{k}", "item": "i1", "label": 1} for k in range(2, 5)])
    two.to_csv("l.csv", index=False)
    assert "[quality-unknown]" in youden(*words, "--by", "quality", "--labels", "l.csv").err
