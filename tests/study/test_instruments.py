"""Test the comparison of a run by information with a run by preference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from commands import Youden
from youden import compare
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.study.instruments import compare_instruments

AGENTS = [f"a{i}" for i in range(8)]


@pytest.fixture
def two_runs(youden: Youden, tmp_path: Path) -> tuple[str, str]:
    """Create runs in which a7, which responds alike to all items, is preferred, and a0, which does not, is not."""
    rows = []
    for item in range(24):
        words = [f"w{item}x{k}" for k in range(12)]
        for i, agent in enumerate(AGENTS):
            text = "I am sure that this answer will delight you" if agent == "a7" else " ".join(words[: 12 - i])
            rows.append({"agent": agent, "item": f"i{item}", "text": text, "prompt": f"prompt {item}"})
    pd.DataFrame(rows).to_csv(tmp_path / "pool.csv", index=False)
    (tmp_path / "info.yaml").write_text("pool: pool.csv\njudge: lexical\ncalls: 500\n")
    youden("run", "info.yaml").well()

    strength: Mapping[str, int] = {"a7": 3, "a0": -3}
    battles = []
    for item in range(24):
        for i, first in enumerate(AGENTS):
            second = AGENTS[(i + 1 + item % 7) % 8]
            difference = strength.get(first, 0) - strength.get(second, 0)
            is_favored = (i + item) % 2
            winner = "model_a" if difference > 0 or (difference == 0 and is_favored) else "model_b"
            battles.append({"model_a": first, "model_b": second, "winner": winner, "item": f"i{item}"})
    pd.DataFrame(battles).to_csv(tmp_path / "battles.csv", index=False)
    youden("import", "battles", "battles.csv", "--out", "pref").well()
    return "runs/info", "pref"


def test_an_agent_that_is_high_on_one_and_low_on_the_other_is_flagged(
    youden: Youden, two_runs: tuple[str, str]
) -> None:
    ended = youden("compare", *two_runs).well()
    assert "a7 is significantly above the average agent by preference and below it by information" in ended.out
    assert "a0 is significantly above the average agent by information and below it by preference" in ended.out
    assert "Two instruments" in ended.out
    assert not re.search(r"\b(\d+)–\1\b", ended.out), "a single rank is written as one number"
    result: Any = youden("compare", *reversed(two_runs), "--json").said["instruments"]
    flags = {agent: row["flag"] for agent, row in result["agents"].items() if row["flag"]}
    assert flags == {"a7": "preferred only", "a0": "informative only"}
    assert result["runs"] == ["info", "pref"]
    assert result["correlation"]["low"] < result["correlation"]["value"] < result["correlation"]["high"]
    assert next(iter(result["agents"])) == "a7"
    assert list(compare(*two_runs).summary) == result["summary"]


def test_the_page_of_two_instruments_has_a_figure_and_a_table(youden: Youden, two_runs: tuple[str, str]) -> None:
    path = youden("report", two_runs[0], "--against", two_runs[1]).well().out.strip()
    page = Path(path).read_text(encoding="utf-8")
    assert "a7 is significantly above" in page
    assert 'id="figure-instruments-1"' in page
    assert '<th scope="row">a7</th>' in page
    assert "preferred only" in page
    assert "Signature" not in page


@pytest.mark.slow
def test_runs_of_the_same_question_or_without_common_agents_are_refused(
    youden: Youden, two_runs: tuple[str, str], tmp_path: Path
) -> None:
    preference = RunFolder(Path(two_runs[1]))
    with pytest.raises(RunFolderError, match="Pass one run of each question"):
        compare_instruments(preference, preference)
    assert youden("compare", two_runs[1]).refuses("compare-preferences")
    with pytest.raises(RunFolderError, match=r"exactly two runs: got 3.*\[compare-preferences\]"):
        compare(*two_runs, two_runs[0])

    table = pd.read_csv(tmp_path / "battles.csv")
    for column in ("model_a", "model_b"):
        table[column] = "other " + table[column]
    table.to_csv(tmp_path / "others.csv", index=False)
    youden("import", "battles", "others.csv", "--out", "others").well()
    assert youden("compare", two_runs[0], "others").refuses("compare-preferences")
