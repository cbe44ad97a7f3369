"""Test the comparison of two runs by preference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from commands import Youden
from youden import compare
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.study.preference_judges import compare_preference_runs

STRENGTH: Mapping[str, Mapping[str, float]] = {
    "one": {"a": 0.6, "b": 0.1, "c": -0.1, "d": -0.6},
    "two": {"a": -0.6, "b": 0.1, "c": -0.1, "d": 0.6},
}


def write_battles(path: Path, strength: Mapping[str, float], *, n_items: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for item in range(n_items):
        for first in strength:
            for second in strength:
                if first != second:
                    wins = rng.random() < (1 + (strength[first] - strength[second]) / 1.3) / 2
                    rows.append((first, second, "model_a" if wins else "model_b", f"i{item}"))
    table = pd.DataFrame(rows, columns=["model_a", "model_b", "winner", "item"])
    table.to_csv(path, index=False)
    return table


@pytest.fixture
def tables(youden: Youden, tmp_path: Path) -> list[pd.DataFrame]:
    """Import the battles of two judges with opposite preferences; the second judge has more items."""
    tables = []
    for seed, (name, strength) in enumerate(STRENGTH.items()):
        tables.append(write_battles(tmp_path / f"{name}.csv", strength, n_items=20 + 5 * seed, seed=seed))
        youden("import", "battles", f"{name}.csv", "--out", name).well()
    return tables


def test_two_judges_of_preferences_are_compared(youden: Youden, tables: list[pd.DataFrame]) -> None:
    ended = youden("compare", "one", "two").well()
    assert "the runs differ: they have no recommended agent or candidate in common" in ended.out.lower()
    assert "By one: Recommended: a." in ended.out
    assert "By two: Recommended: d." in ended.out
    assert "in opposite orders: one ranks a above b" in ended.out
    assert "Two runs by preference" in ended.out

    result: Any = youden("compare", "one", "two", "--json").said["preferences"]
    joined = tables[0].merge(tables[1], on=["model_a", "model_b", "item"])
    assert result["n_trials"] == len(joined) == 240
    assert result["agreement"] == pytest.approx((joined["winner_x"] == joined["winner_y"]).mean())
    assert result["orders"]["n_reversed"] >= 1
    assert list(result["agents"]) == ["a", "b", "c", "d"]
    assert [row["ability"] > 0 for row in result["agents"]["a"]] == [True, False]
    assert result["correlation"]["value"] < 0
    assert list(compare("one", "two").summary) == result["summary"]


def test_a_page_shows_both_runs(youden: Youden, tables: list[pd.DataFrame]) -> None:
    path = youden("report", "one", "--against", "two").well().out.strip()
    page = Path(path).read_text(encoding="utf-8")
    assert "in opposite orders: one ranks a above b" in page
    assert '<th scope="row">a</th>' in page


def test_a_run_agrees_with_itself(tables: list[pd.DataFrame]) -> None:
    run = RunFolder(Path("one"))
    study = compare_preference_runs(run, run)
    assert study.runs == ("one (1)", "one (2)")
    assert study.agreement == 1
    assert study.krippendorff_alpha_graded == pytest.approx(1)
    assert study.correlation is not None
    assert study.correlation.value == pytest.approx(1)


def test_runs_without_common_trials_or_agents(youden: Youden, tables: list[pd.DataFrame], tmp_path: Path) -> None:
    tables[1].assign(item="other " + tables[1]["item"]).to_csv(tmp_path / "items.csv", index=False)
    youden("import", "battles", "items.csv", "--out", "items").well()
    study = compare_preference_runs(RunFolder(Path("one")), RunFolder(Path("items")))
    assert study.agreement is None
    assert "The runs have no trial in common" in study.summary[-1]

    renamed = tables[1].replace({"model_a": {"a": "x", "b": "y"}, "model_b": {"a": "x", "b": "y"}})
    renamed.to_csv(tmp_path / "agents.csv", index=False)
    youden("import", "battles", "agents.csv", "--out", "agents").well()
    with pytest.raises(RunFolderError, match="at least 3 agents in common: got 2"):
        compare_preference_runs(RunFolder(Path("one")), RunFolder(Path("agents")))
    assert youden("compare", "one", "two", "items").code == 2
