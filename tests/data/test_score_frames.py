"""Tables of scores in memory, and values of arguments: each is read as stated, or refused with a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from youden.data.score_tables import read_scores
from youden.errors import ConfigError, ImportFormatError

LONG = pd.DataFrame({"model": list("aabb"), "item": list("xyxy"), "score": [1.0, 0.5, 0.25, 0.75]})
WIDE = LONG.pivot(index="model", columns="item", values="score")


@pytest.mark.parametrize("table", [None, {"model": ["a"]}, [{"model": "a"}], WIDE.to_numpy(), b"t.csv", [WIDE]])
def test_what_is_no_table_is_refused(table: Any) -> None:
    with pytest.raises(
        ImportFormatError, match=r"got (NoneType|dict|list|ndarray|bytes)\. Pass a path.*scores-columns"
    ):
        read_scores(table)


@pytest.mark.parametrize("table", ["", [], ["", "t.csv"]])
def test_an_empty_path_does_not_name_the_current_folder(
    table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LONG.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImportFormatError, match=r"Pass .* path"):
        read_scores(table)


@pytest.mark.parametrize(
    ("columns", "match"),
    [("model=a", "mapping"), ({"item": ["item"]}, "not a text"), ({"agent": "model"}, "role of a column")],
)
def test_columns_that_are_not_texts_by_role_are_refused(columns: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=rf"{match}.*scores-role"):
        read_scores(LONG, columns=columns)


@pytest.mark.parametrize("score_range", ["0,1", (0, 1, 2), 1, (None, 1)])
def test_a_range_that_is_not_two_numbers_is_refused(score_range: Any) -> None:
    with pytest.raises(ConfigError, match="scores-range"):
        read_scores(LONG, score_range=score_range)


def test_a_range_of_numpy_numbers_is_converted_to_floats() -> None:
    table = read_scores(LONG, score_range=np.array([0, 2]))  # type: ignore[arg-type]
    assert (type(table.low), table.low, table.high) == (float, 0.0, 2.0)


def test_columns_of_the_same_name_are_refused() -> None:
    duplicated = pd.DataFrame([["a", 1, 0, 1], ["b", 0, 0, 1]], columns=["model", "x", "x", "y"])
    with pytest.raises(ImportFormatError, match=r"same name: got 'x'.*scores-columns"):
        read_scores(duplicated)
    with pytest.raises(ImportFormatError, match=r"same name: got '1'.*scores-columns"):
        read_scores(duplicated.set_axis(["model", 1, "1", "y"], axis=1))


def test_columns_of_several_levels_do_not_mix_metrics() -> None:
    metrics = LONG.assign(loss=1 - LONG["score"]).pivot(index="model", columns="item", values=["score", "loss"])
    with pytest.raises(ImportFormatError, match=r"several levels: got 'score', 'loss'.*Select one score"):
        read_scores(metrics)
    assert read_scores(pd.DataFrame(metrics["score"])).model_ids == ("a", "b")


def test_an_index_without_a_name_does_not_turn_models_into_items() -> None:
    with pytest.raises(ImportFormatError, match=r"model or an item.* Set --column 'model=index 1'"):
        read_scores(WIDE.rename_axis(None))
    table = read_scores(WIDE.rename_axis(None), columns={"model": "index 1"})
    assert table.model_ids == ("a", "b")


def test_labels_of_the_rows_of_a_long_table_are_no_items() -> None:
    assert read_scores(LONG.set_axis(list("rstu"))).item_ids == ("x", "y")
    assert read_scores(LONG.set_index(["model", "item"])).item_ids == ("x", "y")
    assert read_scores(LONG.set_index("model", drop=False)).item_ids == ("x", "y")


def test_a_table_without_names_of_rows_is_refused_with_a_remedy_that_applies() -> None:
    with pytest.raises(ImportFormatError, match="Add a column `model` or `item` that names each row"):
        read_scores(pd.DataFrame({"a": [0.5, 1.0], "b": [0.25, 0.75]}))


def test_a_table_without_rows_is_refused_as_empty() -> None:
    with pytest.raises(ImportFormatError, match=r"got 0 rows.*import-empty"):
        read_scores(LONG.iloc[:0])


@pytest.mark.parametrize("score", [LONG["score"] + 1j, pd.to_timedelta(LONG["score"], unit="s")])
def test_complex_numbers_and_durations_are_no_scores(score: pd.Series[Any]) -> None:
    with pytest.raises(ImportFormatError, match="scores-columns"):
        read_scores(LONG.assign(score=score))


@pytest.mark.parametrize("name", ["loss", "word_perplexity", "Error rate", "WER"])
def test_a_loss_is_refused_unless_it_is_named_as_the_score(name: str) -> None:
    table = LONG.rename(columns={"score": name})
    with pytest.raises(ImportFormatError, match=rf"lower values.*got '{name}'.*scores-direction"):
        read_scores(table)
    with pytest.raises(ImportFormatError, match="scores-direction"):
        read_scores(WIDE.assign(**{name: [0.5, 0.25]}))
    named = read_scores(table, columns={"score": name})
    assert named.model_ids == ("a", "b")
    assert f"the highest values of {name!r} rank first, although lower ones seem to be better" in named.notes


@pytest.mark.parametrize(
    "name", ["1 - WER", "neg_log_loss", "Non-loss", "no_error_rate", "Win/Loss", "English_wer_free"]
)
def test_a_score_whose_name_only_contains_that_of_a_loss_is_read(name: str) -> None:
    assert read_scores(WIDE.assign(**{name: [0.5, 0.25]})).item_ids == ("x", "y", name)


def test_a_loss_with_its_sign_changed_is_a_score() -> None:
    assert read_scores(WIDE.assign(loss=[-0.5, -0.25])).item_ids == ("x", "y", "loss")


def test_models_whose_names_differ_only_by_case_are_noted() -> None:
    table = read_scores(pd.concat([LONG, LONG[:2].assign(model="A")]))
    assert (
        "names that differ only in case, spaces, invisible characters, Unicode form or a final .0 count as different: 'A', 'a'"
        in table.notes
    )


def test_files_of_the_same_name_are_different_models(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "s.csv" for folder in ("a", "b")]
    for path, score in zip(paths, (1, 0), strict=True):
        path.parent.mkdir()
        path.write_text(f"item,score\nx,{score}\ny,1\n", encoding="utf-8")
    table = read_scores(paths)
    assert (table.model_ids, table.score.tolist()) == (("a/s", "b/s"), [[1, 1], [0, 1]])


def test_medians_ranks_on_items_and_differences_are_no_scores() -> None:
    no_scores = pd.DataFrame(
        {"x rank": [2, 1], "Δ vs a": [0, 0.5], "Delta": [0, 0.5], "Median": [0.75, 0.5]}, WIDE.index
    )
    ranked = WIDE.join(no_scores)
    assert read_scores(ranked).item_ids == ("x", "y")
    with_median = pd.concat([WIDE.T, WIDE.T.median().to_frame("Median").T]).rename_axis("item")
    assert read_scores(with_median).item_ids == ("x", "y")
