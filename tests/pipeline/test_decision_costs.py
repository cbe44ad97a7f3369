"""Test the forecast calls of a plan for yes-or-no answers and for probabilities."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import Youden, write_config, write_pool_table
from narrowing import not_none
from small_pools import make_pool
from youden import make_plan
from youden.judging.config.judge_files import load_judge_config
from youden.pipeline.decision_costs import forecast_other_decision, format_other_decision
from youden.types import PAIRED

PLAN = make_plan(make_pool(20, 100), calls="200/agent")


def test_probabilities_need_fewer_calls_than_yes_or_no_answers() -> None:
    graded = not_none(forecast_other_decision(PLAN, load_judge_config("gpt-4o-mini")))
    yes_or_no = not_none(forecast_other_decision(PLAN, load_judge_config("openai/gpt-4.1-nano")))
    assert (graded.decision, yes_or_no.decision) == ("text", "logprobs")
    assert 1.3 < not_none(graded.calls).low / len(PLAN) <= not_none(graded.calls).high / len(PLAN) < 2.2
    assert 0.5 < not_none(yes_or_no.calls).low / len(PLAN) <= not_none(yes_or_no.calls).high / len(PLAN) < 0.7
    text = format_other_decision(graded, usd_per_call=0.001)
    low, high = not_none(graded.calls).low, not_none(graded.calls).high
    assert f"about {low:,.0f} to {high:,.0f} calls, ${low / 1000:,.2f} to ${high / 1000:,.2f}" in text
    assert "youden doctor" in format_other_decision(yes_or_no, usd_per_call=None)


def test_a_half_width_that_yes_or_no_answers_cannot_reach_is_stated() -> None:
    pool = make_pool(6, 12)
    plan = make_plan(pool, calls=6 * 5 * 12, independent="pooled:0")
    forecast = not_none(forecast_other_decision(plan, load_judge_config("gpt-4o-mini")))
    assert forecast.calls is None
    assert "may not be reached on these items" in format_other_decision(forecast, usd_per_call=None)


@pytest.mark.parametrize("judge", ["lexical", "claude-haiku-4.5", "gpt-oss-20b-groq", "openai/o4-mini"])
def test_a_judge_without_log_probabilities_has_no_alternative_decision(judge: str) -> None:
    assert forecast_other_decision(PLAN, load_judge_config(judge)) is None


def test_calls_of_rounds_are_not_forecast_from_the_first_round() -> None:
    search = make_plan(make_pool(20, 100), design="adaptive", calls="200/agent")
    assert forecast_other_decision(search, load_judge_config("gpt-4o-mini")) is None


def test_held_out_cells_need_the_same_calls_for_both_decisions() -> None:
    plan = make_plan(make_pool(20, 100), calls="200/agent", holdout=0.2)
    n_holdout_trials = int(((plan.trial_type == PAIRED) & (plan.block < 0)).sum())
    assert n_holdout_trials > 0
    forecast = not_none(forecast_other_decision(plan, load_judge_config("gpt-4o-mini")))
    without = not_none(forecast_other_decision(PLAN, load_judge_config("gpt-4o-mini")))
    low, low_without = not_none(forecast.calls).low, not_none(without.calls).low
    assert (low - n_holdout_trials) / (len(plan) - n_holdout_trials) == pytest.approx(low_without / len(PLAN), rel=0.1)


def test_plan_prints_both_decisions(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "mine.yaml", pool="mine.csv", judge="gpt-4o-mini", max_cost=1)
    ended = youden("plan", "mine.yaml", "--calls", "60", "--json")
    assert "with `decision: text`, the same half-width would take about" in ended.err
    assert ended.said["other_decision"]["decision"] == "text"
    assert ended.said["other_decision"]["calls"]["low"] > 60
