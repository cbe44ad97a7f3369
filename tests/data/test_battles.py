"""Test the import of battles of other tools: layouts, refusals and the ranking."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import Youden
from youden.data.folder.run_folder import RunFolder
from youden.data.importers.battles import read_battles
from youden.errors import ImportFormatError
from youden.types.facts import PreferenceFacts

HEADER = "model_a,model_b,winner,item\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_layout_of_lmarena_is_read(tmp_path: Path) -> None:
    rows = [("b", "a", "model_a"), ("a", "c", "tie (bothbad)"), ("c", "b", "model_b"), ("b", "c", "tie")]
    table = pd.DataFrame(rows, columns=["model_a", "model_b", "winner"]).assign(
        question_id=["q", "p", "q", "p"], judge="arena"
    )
    table.to_parquet(tmp_path / "battles.parquet")
    battles = read_battles(tmp_path / "battles.parquet", columns={})
    assert battles.plan.agent_ids == ("a", "b", "c")
    assert battles.plan.item_ids == ("p", "q")
    assert battles.plan.first.tolist() == [1, 0, 2, 1]
    assert battles.plan.second.tolist() == [0, 2, 1, 2]
    assert battles.plan.item.tolist() == [1, 0, 1, 0]
    assert battles.answer.tolist() == [1, 0.5, 0, 0.5]
    assert battles.judge["name"] == "arena"


def test_extensions_are_refused_and_signatures_depend_on_the_answers(youden: Youden, tmp_path: Path) -> None:
    signatures = set()
    for name, winner in (("first", "model_a"), ("second", "model_b")):
        rows = "".join(f"a,b,{winner},{item}\nb,c,tie,{item}\nc,a,model_b,{item}\n" for item in range(4))
        file = write(tmp_path / f"{name}.csv", f"model_a,model_b,winner,item\n{rows}")
        assert youden("import", "battles", str(file), "--out", f"runs/{name}").code == 0
        assert youden("extend", "calls", f"runs/{name}", "20").refuses("extend-imported")
        gate = youden("gate", f"runs/{name}", "--agent", "b", "--baseline", "c")
        assert gate.code == 3, gate.err
        assert "compared on 4 items only" in gate.err
        signatures.add((tmp_path / "runs" / name / "signature.json").read_text(encoding="utf-8"))
    assert len(signatures) == 2


def test_both_games_of_mt_bench_are_battles_in_opposite_orders(tmp_path: Path) -> None:
    row = {"question_id": 81, "model_1": "x", "model_2": "y", "g1_winner": "model_1", "g2_winner": "model_2"}
    row["judge"] = ["gpt-4", "pair-v2"]
    failed = {**row, "g1_winner": "error", "g2_winner": "tie"}
    file = write(tmp_path / "pair.jsonl", f"{json.dumps(row)}\n{json.dumps(failed)}\n")
    battles = read_battles(file, columns={})
    assert battles.plan.first.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(battles.answer, [1, np.nan, 1, 0.5])
    assert battles.missing_reason.tolist() == [0, 1, 0, 0]
    assert battles.judge["name"] == "gpt-4"


@pytest.mark.parametrize(
    ("winner", "answer"),
    [("A", 1), ("b", 0), ("A>>B", 1), ("B>A", 0), ("A=B", 0.5), ("[[B]]", 0), ("m1", 1), ("m2", 0)],
)
def test_winners_are_read_as_tools_write_them(tmp_path: Path, winner: str, answer: float) -> None:
    file = write(tmp_path / "b.csv", f"model_a,model_b,winner\nm1,m2,{winner}\n")
    assert read_battles(file, columns={}).answer.tolist() == [answer]


def test_results_in_several_columns_are_read_together(tmp_path: Path) -> None:
    header = "id,model_a,model_b,prompt,winner_model_a,winner_model_b,winner_tie\n"
    file = write(tmp_path / "arena.csv", f"{header}1,x,y,p,1,0,0\n2,y,x,p,0,1,0\n3,x,y,q,0,0,1\n4,x,y,q,0,0,0\n")
    battles = read_battles(file, columns={})
    np.testing.assert_array_equal(battles.answer, [1, 0, 0.5, np.nan])
    notes = [finding.message for finding in battles.warnings]
    assert "the column prompt may identify the items; if it does, set --column item=prompt" in notes
    assert not any("column id may" in note for note in notes)
    with pytest.raises(ImportFormatError, match=r"states only one of the results.*\[battles-columns\]"):
        read_battles(file, columns={"winner": "winner_model_a"})


@pytest.mark.parametrize("flags", ["1,1,0", "2,0,0", "yes,no,no"])
def test_results_other_than_a_single_1_are_refused(tmp_path: Path, flags: str) -> None:
    file = write(tmp_path / "b.csv", f"model_a,model_b,winner_model_a,winner_model_b,winner_tie\nx,y,{flags}\n")
    with pytest.raises(ImportFormatError, match=r"\[battles-value\]"):
        read_battles(file, columns={})


def test_the_order_decides_which_response_was_first(tmp_path: Path) -> None:
    file = write(tmp_path / "b.csv", "model_a,model_b,winner,item,order\nx,y,model_a,1,ab\nx,y,model_a,1,BA\n")
    battles = read_battles(file, columns={})
    assert battles.plan.first.tolist() == [0, 1]
    assert battles.answer.tolist() == [1, 0]


def test_numbers_are_preferences_for_model_a_and_columns_can_be_named(tmp_path: Path) -> None:
    file = write(tmp_path / "b.csv", "l,r,p\nx,y,0.25\ny,z,1\n")
    battles = read_battles(file, columns={"model_a": "l", "model_b": "r", "winner": "p"})
    assert battles.answer.tolist() == [0.25, 1]
    assert "treat battles as independent" in str(battles.warnings[0])


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("model_a,winner\nx,tie\n", "battles-columns"),
        ("model_a,model_b,winner\nx,y,maybe\n", "battles-value"),
        ("model_a,model_b,winner\nx,y,3\n", "battles-value"),
        ("model_a,model_b,winner,order\nx,y,tie,left\n", "battles-value"),
        ("model_a,model_b,winner\nx,x,tie\n", "import-empty"),
        ("model_a,model_b,winner\n=cmd(),x,tie\n", "import-agents"),
        ("model_a,model_b,winner\n,y,tie\n", "battles-value"),
        ("model_a,model_b,winner,item\nx,y,tie,1\nx,y,tie,\n", "battles-value"),
        ("", "import-empty"),
        ("model_a,model_b,winner\nx,y,model_a,\n", "import-csv"),
        ("model_a,model_b,winner,turn\nx,y,tie,1\nx,y,tie\n", "import-csv"),
        ("model_a,model_b,winner,winner\nx,y,model_a,model_b\n", "import-csv"),
    ],
)
def test_an_ambiguous_table_of_battles_is_refused(tmp_path: Path, text: str, slug: str) -> None:
    with pytest.raises(ImportFormatError) as caught:
        read_battles(write(tmp_path / "b.csv", text), columns={})
    assert caught.value.slug == slug


def test_a_record_with_a_repeated_key_is_refused(tmp_path: Path) -> None:
    record = '{"model_a": "x", "model_b": "y", "winner": "model_a", "winner": "model_b"}'
    for name, text in (("b.jsonl", record), ("b.json", f"[{record}]")):
        with pytest.raises(ImportFormatError, match=r"the key 'winner' occurs twice.*import-format"):
            read_battles(write(tmp_path / name, text), columns={})


@pytest.mark.parametrize(
    ("models", "winners"),
    [
        ("BA", "AB"),  # names, or the first and the second model
        ("01", "10"),  # names, or preferences
        (["tie", "b"], ["tie", "b"]),
    ],
)
def test_a_winner_that_is_a_name_and_states_another_result_is_refused(
    models: Sequence[str], winners: Sequence[str], tmp_path: Path
) -> None:
    rows = "".join(f"{models[0]},{models[1]},{winner}\n" for winner in winners)
    file = write(tmp_path / "b.csv", f"model_a,model_b,winner\n{rows}")
    with pytest.raises(ImportFormatError, match=r"may also state another result.*battles-value"):
        read_battles(file, columns={})


def test_names_that_other_winners_identify_as_names_are_read(tmp_path: Path) -> None:
    file = write(tmp_path / "b.csv", "model_a,model_b,winner\nB,A,A\nB,C,C\n")
    assert read_battles(file, columns={}).answer.tolist() == [0, 0]
    numbered = write(tmp_path / "n.csv", "model_a,model_b,winner\n2,1,1\n1,2,2\n")
    assert read_battles(numbered, columns={}).answer.tolist() == [0, 0]


def test_numbers_weights_and_similar_names_are_noted(tmp_path: Path) -> None:
    file = write(tmp_path / "b.csv", "model_a,model_b,winner,weight\nm,n,0,3\nM,n,1,1\n")
    notes = " ".join(finding.message for finding in read_battles(file, columns={}).warnings)
    assert "1 counts as its win" in notes
    assert "the column weight is not used" in notes
    assert "count as different: 'M', 'm'" in notes


def test_an_empty_cell_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "b.csv", "model_a,model_b,winner\nx,y,tie\n,y,tie\n")
    with pytest.raises(ImportFormatError, match="row 2 has no name of a model in model_a: got 1 empty cell"):
        read_battles(file, columns={})
    write(file, "model_a,model_b,winner,order\nx,y,tie,ab\nx,y,tie,\n")
    with pytest.raises(
        ImportFormatError, match=r"`order` are unknown in 1 row, first in row 2: got an empty cell \(1\)"
    ):
        read_battles(file, columns={})


def test_unknown_winners_are_counted_by_value(tmp_path: Path) -> None:
    winners = ["tie", *["left"] * 140, *map("row {}".format, range(10))]
    file = write(tmp_path / "b.csv", "model_a,model_b,winner\n" + "".join(f"x,y,{winner}\n" for winner in winners))
    said = (
        r"unknown in 150 rows, first in row 2: got 'left' \(140\), 'row 0' \(1\), .* and 6 others\. Use one of: model_a"
    )
    with pytest.raises(ImportFormatError, match=said):
        read_battles(file, columns={})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".jsonl"])
def test_names_are_read_as_text(tmp_path: Path, suffix: str) -> None:
    rows = [("1.10", "1.1", "tie", "007"), ("NA", "None", "NA", "7")]
    columns = ["model_a", "model_b", "winner", "item"]
    file = tmp_path / f"b{suffix}"
    if suffix.startswith(".json"):
        texts = [json.dumps(dict(zip(columns, row, strict=True))).replace('"1.10"', "1.10") for row in rows]
        write(file, "\n".join(texts) if suffix == ".jsonl" else f"[{','.join(texts)}]")
    else:
        separator = "," if suffix == ".csv" else "\t"
        write(file, "\n".join(separator.join(row) for row in [columns, *rows]))
    battles = read_battles(file, columns={})
    assert battles.plan.agent_ids == ("1.1", "1.10", "NA", "None")
    assert battles.plan.item_ids == ("007", "7")
    assert battles.answer.tolist() == [0.5, 1]


def test_battles_of_a_model_with_itself_are_counted(tmp_path: Path) -> None:
    file = write(tmp_path / "b.csv", "model_a,model_b,winner,item,order\nx,x,tie,1,ab\nx,y,tie,1,ab\n")
    assert [warning.message for warning in read_battles(file, columns={}).warnings] == [
        "1 battle of a model with itself skipped"
    ]


def test_battles_without_a_winner_are_counted(tmp_path: Path) -> None:
    file = write(tmp_path / "b.csv", "model_a,model_b,winner,item,order\nx,y,,1,ab\nx,y,model_a,1,ab\n")
    battles = read_battles(file, columns={})
    assert [warning.message for warning in battles.warnings] == [
        "1 of 2 battles have no winner and count as missing answers"
    ]


def test_an_unknown_field_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "b.csv", "model_a,model_b,winner\nx,y,tie\n")
    with pytest.raises(ImportFormatError, match="a battle has no field text"):
        read_battles(file, columns={"text": "winner"})
    with pytest.raises(ImportFormatError, match="cannot be read"):
        read_battles(tmp_path / "none.csv", columns={})


def test_the_position_bias_may_be_unknown() -> None:
    facts = PreferenceFacts(9, 0.1, None, None, None)
    assert (
        facts.position_text
        == "Position bias: unknown, because the orders of the responses do not separate it from the abilities."
    )
    facts = PreferenceFacts(9, 0.1, -0.123, -0.165, -0.081)
    assert "the wins minus losses of the first response are -12.3 (95% interval -16.5 to -8.1)" in facts.position_text


def write_battles(path: Path, *, n: int = 600) -> None:
    rng = np.random.default_rng(5)
    first = rng.integers(0, 4, n)
    second = (first + rng.integers(1, 4, n)) % 4
    ability = np.array([0.3, 0.1, -0.1, -0.3])
    wins = rng.random(n) < (1 + ability[first] - ability[second]) / 2
    names = np.array(["w", "x", "y", "z"])
    table = pd.DataFrame({"model_a": names[first], "model_b": names[second]})
    table["winner"] = np.where(wins, "model_a", "model_b")
    table["item"] = rng.integers(0, 50, n)
    table.to_csv(path, index=False)


def test_imported_battles_are_fitted_and_reported(youden: Youden, tmp_path: Path) -> None:
    write_battles(tmp_path / "battles.csv")
    ended = youden("import", "battles", "battles.csv", "--out", "run").well()
    assert "Position bias: " in ended.out
    folder = RunFolder(tmp_path / "run")
    before = folder.read_ranking()
    assert [row.agent for row in before] == ["w", "x", "y", "z"]
    youden("fit", "run").well()
    assert folder.read_ranking() == before
    youden("report", "run").well()
    assert "youden import battles battles.csv --out run" in folder.file("report.html").read_text(encoding="utf-8")
    assert youden("report", "run", "--format", "csv").well().out.startswith("agent,")
    assert youden("import", "battles", "battles.csv", "--out", "run").refuses("out-not-empty")


def test_a_star_of_battles_against_one_baseline_is_ranked(shared: Path, youden: Youden, tmp_path: Path) -> None:
    file = shared / "alpaca-eval" / "preferences.csv"
    if not file.is_file():
        pytest.skip("the preferences of AlpacaEval in shared/ are missing")
    preferences = pd.read_csv(file)
    battles = preferences.assign(model_b="baseline").rename(
        columns={"agent": "model_a", "win": "winner", "item_number": "item"}
    )
    battles.to_csv(tmp_path / "battles.csv", index=False)
    result = youden("import", "battles", "battles.csv", "--out", "run", "--json").said
    assert result["fit"]["preference"]["position_effect"] is None
    win_rate = preferences.groupby("agent")["win"].mean()
    ability = {row["agent"]: row["ability"] for row in result["ranking"]}
    baseline = ability.pop("baseline")
    expected = {agent: baseline + 2 * win_rate[agent] - 1 for agent in ability}
    assert ability == pytest.approx(expected, abs=1e-9)

    # the linear model predicts more than 100 net wins of 100 comparisons; the interval is not cut off at the estimate
    best = result["ranking"][0]
    assert best["ability"] > 1
    assert best["high"] - best["ability"] == pytest.approx(best["ability"] - best["low"])


def test_a_table_without_both_orders_of_a_pair_is_noted(tmp_path: Path) -> None:
    sorted_rows = "a,b,tie,1\na,c,tie,1\nb,c,tie,1\n"
    for rows, is_noted in ((sorted_rows, True), (f"{sorted_rows}c,a,tie,2\n", False)):
        verdicts = read_battles(write(tmp_path / "f.csv", HEADER + rows), columns={})
        notes = " ".join(finding.message for finding in verdicts.warnings)
        assert "model_a counts as shown first" in notes
        assert ("exchange model_a and model_b" in notes) == is_noted


def test_fewer_items_than_a_gate_needs_give_no_recommendation_and_no_intervals(youden: Youden, tmp_path: Path) -> None:
    for n_battles in (3, 4, 5):
        rows = "a,b,model_a\nb,a,model_b\na,b,tie\nb,a,model_b\na,b,model_a\n".splitlines()[:n_battles]
        write(tmp_path / "f.csv", "\n".join(["model_a,model_b,winner", *rows]))
        ended = youden("import", "battles", "f.csv", "--out", f"run{n_battles}").well()
        assert "No recommendation: " in ended.out
        assert f"compared on {n_battles} items only; an interval needs 6. Add comparisons on more items." in ended.out
        folder = RunFolder(tmp_path / f"run{n_battles}")
        assert all(row.low is None or np.isnan(row.low) for row in folder.read_ranking())
        preference = folder.read_facts().preference
        assert preference is not None
        assert preference.position_low is None
        assert "too few or too uniform" in preference.position_text


def test_one_agent_with_few_items_prevents_a_recommendation(youden: Youden, tmp_path: Path) -> None:
    write_battles(tmp_path / "battles.csv")
    with (tmp_path / "battles.csv").open("a", encoding="utf-8") as file:
        file.write("new,z,model_a,1\nz,new,model_b,2\nz,new,model_b,3\n")
    ended = youden("import", "battles", "battles.csv", "--out", "run").well()
    assert "No recommendation: new was compared on 3 items only" in ended.out


def test_one_battle_in_the_other_order_gives_no_recommendation(youden: Youden, tmp_path: Path) -> None:
    """Two equal agents and a judge that prefers the first response: the only reversed battle decides on the abilities."""
    write(tmp_path / "f.csv", "model_a,model_b,winner\n" + 19 * "b,a,A\n" + "a,b,B\n")
    ended = youden("import", "battles", "f.csv", "--out", "run").well()
    assert "No recommendation: the ability of a depends on too few comparisons" in ended.out
    gate = youden("gate", "run", "--agent", "b", "--baseline", "a")
    assert gate.code == 3, gate.out
    assert "only as much information as comparisons on 1 item; an interval needs 6" in gate.err + gate.out


def test_agents_that_no_battles_link_are_not_compared(youden: Youden, tmp_path: Path) -> None:
    rows = "".join(f"a,b,A,{k}\nb,a,B,{k}\nc,d,A,{k}\nd,c,A,{k}\n" for k in range(30))
    write(tmp_path / "f.csv", f"model_a,model_b,winner,item\n{rows}")
    ended = youden("import", "battles", "f.csv", "--out", "run").well()
    assert "warning: The agents fall into 2 components (of 2, 2 agents) that no comparison links." in ended.err
    assert youden("gate", "run", "--agent", "a", "--baseline", "c").refuses("gate-not-comparable")
    assert youden("gate", "run", "--agent", "a", "--baseline", "b").code == 0


def test_orders_that_do_not_determine_the_position_bias_give_no_recommendation(youden: Youden, tmp_path: Path) -> None:
    write(tmp_path / "f.csv", "model_a,model_b,winner\n" + 18 * "b,a,A\n")
    ended = youden("import", "battles", "f.csv", "--out", "run").well()
    reason = (
        "the orders of the battles do not determine the position bias, so that a preference for the first response cannot be "
        "ruled out"
    )
    assert f"No recommendation: {reason}" in ended.out
    gate = youden("gate", "run", "--agent", "b", "--baseline", "a")
    assert gate.code == 3, gate.out
    assert reason in gate.err + gate.out


@pytest.mark.parametrize("rows", ["x,y,tie\n", "x,y,\n", "x,y,tie,\n"])
def test_a_failed_import_leaves_nothing_behind(youden: Youden, tmp_path: Path, rows: str) -> None:
    write(tmp_path / "few.csv", f"model_a,model_b,winner\n{rows.replace('tie,', 'tie')}")
    ended = youden("import", "battles", "few.csv", "--out", "run", "--allow-dropped")
    assert ended.code != 0
    assert "fewer than 2 agents have battles with a winner on 2 items" in ended.err
    assert "cluster" not in ended.err.replace("[cluster-agents]", "")
    write_battles(tmp_path / "battles.csv")
    youden("import", "battles", "battles.csv", "--out", "run").well()


def test_more_than_1_percent_without_a_winner_are_refused(youden: Youden, tmp_path: Path) -> None:
    write_battles(tmp_path / "battles.csv")
    table = pd.read_csv(tmp_path / "battles.csv")
    table.loc[:6, "winner"] = ["", "error", "", "", "", "", "error"]
    table.to_csv(tmp_path / "battles.csv", index=False)
    ended = youden("import", "battles", "battles.csv", "--out", "run")
    assert ended.refuses("import-dropped")
    assert "7 of 600 battles have no winner; the limit is 1%" in ended.err
    youden("import", "battles", "battles.csv", "--out", "run", "--allow-dropped").well()
    table.loc[:0, "winner"] = "model_a"
    table.to_csv(tmp_path / "battles.csv", index=False)
    youden("import", "battles", "battles.csv", "--out", "one-percent").well()


def test_intervals_and_bounds_are_possible_values(youden: Youden, tmp_path: Path) -> None:
    rows = "".join(f"a,b,tie,{k}\nb,c,{'model_a' if k % 2 else 'model_b'},{k}\nc,a,tie,{k}\n" for k in range(6))
    write(tmp_path / "f.csv", f"model_a,model_b,winner,item\n{rows}")
    youden("import", "battles", "f.csv", "--out", "run").well()
    folder = RunFolder(tmp_path / "run")
    ranked = folder.read_ranking()
    for row in ranked:
        assert row.low is not None
        assert row.ability is not None
        assert row.high is not None
        assert -1 <= row.low <= row.ability <= row.high <= 1
    facts = folder.read_facts()
    assert facts.choice is not None
    assert facts.choice.regret_bound <= 1
    assert facts.choice.ability_low >= -1
    assert facts.choice.ability_high <= 1
    stored = json.loads(folder.file("ranking.json").read_text(encoding="utf-8"))
    assert [(row["low"], row["high"]) for row in stored["agents"]] == [(row.low, row.high) for row in ranked]
    gate = json.loads(youden("gate", "run", "--agent", "b", "--baseline", "c", "--json").out)
    assert -1 <= gate["agents"][0]["low"] <= gate["agents"][0]["high"] <= 1


def test_blanks_around_a_name_do_not_make_another_agent(tmp_path: Path) -> None:
    file = write(tmp_path / "b.csv", "model_a,model_b,winner,item\n c,d,c ,1\nc, d,model_a, 1\n")
    battles = read_battles(file, columns={})
    assert battles.plan.agent_ids == ("c", "d")
    assert battles.plan.item_ids == ("1",)
    assert battles.answer.tolist() == [1, 1]


def test_the_column_of_items_is_named_if_there_are_several(tmp_path: Path) -> None:
    rows = "question_id,conversation_id,model_a,model_b,winner\n" + "".join(
        f"q{k % 3},c{k},a,b,model_a\n" for k in range(6)
    )
    (tmp_path / "battles.csv").write_text(rows, encoding="utf-8")
    verdicts = read_battles(tmp_path / "battles.csv", columns={})
    assert verdicts.plan.n_items == 3
    assert "items are identified by question_id, not conversation_id" in " ".join(
        finding.message for finding in verdicts.warnings
    )
    chosen = read_battles(tmp_path / "battles.csv", columns={"item": "conversation_id"})
    assert chosen.plan.n_items == 6
    assert "items are identified" not in " ".join(finding.message for finding in chosen.warnings)


def test_a_gate_states_no_impossible_difference(youden: Youden, tmp_path: Path) -> None:
    # neighbors win nearly always, so that the additive model puts the first and the last at a distance above 1
    rows = "".join(
        f"{first},{second},{order},{'tie' if (item + number) % 9 == 0 else 'model_a'},{item}\n"
        for item in range(20)
        for number, (first, second) in enumerate((("a", "b"), ("b", "c"), ("c", "d")))
        for order in ("ab", "ba")
    )
    write(tmp_path / "battles.csv", f"model_a,model_b,order,winner,item\n{rows}")
    youden("import", "battles", "battles.csv", "--out", "run").well()
    (result,) = youden("gate", "run", "--agent", "a", "--baseline", "d", "--json").said["agents"]
    assert result["difference"] == result["high"] == 1
    (result,) = json.loads(youden("gate", "run", "--agent", "d", "--baseline", "a", "--json").out)["agents"]
    assert result["difference"] == result["low"] == -1


def test_battles_are_read_from_all_sheets_of_an_excel_file(tmp_path: Path) -> None:
    sheets = {"May": [("x", "y", "model_a", 1), ("y", "x", "tie", 2)], "June": [("x", "z", "model_b", 1)]}
    with pd.ExcelWriter(tmp_path / "b.xlsx") as book:
        for title, rows in sheets.items():
            pd.DataFrame(rows, columns=["model_a", "model_b", "winner", "item"]).to_excel(
                book, sheet_name=title, index=False
            )
    battles = read_battles(tmp_path / "b.xlsx", columns={})
    assert battles.plan.agent_ids == ("x", "y", "z")
    assert battles.plan.item_ids == ("1", "2")
    assert battles.answer.tolist() == [1, 0.5, 0]


@pytest.mark.parametrize("winners", [["70%", "20%", "0%"], ["0.7", "0.2", "0"], ["0,7", "0,2", "0"]])
def test_preferences_may_be_percentages_or_have_a_decimal_comma(tmp_path: Path, winners: list[str]) -> None:
    rows = "".join(f"x;y;{winner};{item}\n" for item, winner in enumerate(winners))
    battles = read_battles(write(tmp_path / "b.csv", f"model_a;model_b;winner;item\n{rows}"), columns={})
    assert battles.answer.tolist() == [0.7, 0.2, 0]


def test_preferences_with_and_without_a_percent_sign_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "b.csv", "model_a,model_b,winner\nx,y,70%\nx,y,1\n")
    with pytest.raises(ImportFormatError, match=r"with and without a percent sign: got '1'.*\[battles-value\]"):
        read_battles(file, columns={})


def test_rows_that_repeat_a_row_are_noted_if_items_are_named(tmp_path: Path) -> None:
    rows = "x,y,model_a,1\nx,y,model_b,1\nx,y,model_a,1\n"
    notes = [str(note) for note in read_battles(write(tmp_path / "a.csv", f"{HEADER}{rows}"), columns={}).warnings]
    assert any("1 row repeats an earlier row in all columns" in note for note in notes)
    without_items = "model_a,model_b,winner\nx,y,model_a\nx,y,model_a\n"
    notes = [str(note) for note in read_battles(write(tmp_path / "b.csv", without_items), columns={}).warnings]
    assert not any("repeat" in note for note in notes)
