"""Test that outputs with the number of items also state the number of compared ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import Youden, write_config
from report_runs import judged
from small_pools import make_pool


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """Create a run of 12 items with answered comparisons on 9 of them."""
    judged(tmp_path / "part", pool=make_pool(5, 12), missing=lambda plan: plan.item >= 9, holdout=0.0)
    return tmp_path / "part"


@pytest.mark.parametrize("words", [["study", "links", "part", "--n-resamples", "0"], ["fit", "part"]])
def test_tables_of_a_run_state_the_number_of_compared_items(youden: Youden, part: Path, words: list[str]) -> None:
    ended = youden(*words).well()
    assert "12 items, of which 9 were compared" in " ".join(ended.out.split())


def test_a_comparison_of_judges_states_the_number_of_common_items(youden: Youden, part: Path) -> None:
    judged(part.parent / "other", pool=make_pool(5, 12), missing=lambda plan: plan.item < 4, holdout=0.0)
    ended = youden("compare", "part", "other").well()
    assert "12 items, of which 5 were compared by every judge" in " ".join(ended.out.split())


def test_a_published_run_states_the_number_of_items_on_its_card(youden: Youden, part: Path) -> None:
    assert youden("export", "part", "card", "--format", "hf").code == 0
    assert "12 items, of which 9 were compared" in (part.parent / "card" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_stress_test_states_the_number_of_items_of_its_run(youden: Youden, field_notes: Path, tmp_path: Path) -> None:
    write_config(tmp_path / "c.yaml", pool=str(field_notes), calls=160, independent="pooled:100", out="few")
    assert youden("run", "c.yaml").code == 0
    assert youden("stress", "few", "--attack", "padding", "--out", "audit").code == 0
    assert "32 items, of which 5 were compared" in (tmp_path / "audit" / "stress.md").read_text(encoding="utf-8")
