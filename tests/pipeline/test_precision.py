"""Test forecasts of half-widths against simulated agents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from narrowing import not_none
from small_pools import make_pool
from worlds import verdicts, write_answers
from youden import make_plan
from youden.errors import ConfigError
from youden.pipeline.precision import PrecisionForecast, estimate_variance_components, format_forecast
from youden.pipeline.ranking import estimate_abilities
from youden.stats.forecast import (
    AgentVariances,
    find_min_blocks,
    find_min_items,
    half_width_quantile,
    half_widths,
    item_share_squares,
)
from youden.stats.reference_data import (
    REFERENCE_DATA,
    REFERENCE_TRIALS,
    components_at_quantile,
    expected_recall,
    expected_rho,
    prior_components,
    summarize_range,
    widen_half_widths,
)
from youden.types.judging import AnswerKind
from youden.workflows.extension_width import calls_for_all

PARTS = AgentVariances(np.linspace(0.004, 0.01, 7), np.linspace(0.05, 0.09, 7))


def test_item_sums_of_squares_equal_those_of_counted_blocks() -> None:
    for n_blocks in (3, 20, 27, 61):
        share = np.bincount(np.arange(n_blocks) % 20, minlength=20) / n_blocks
        assert item_share_squares(n_blocks, 20) == pytest.approx((share**2).sum())


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_the_number_of_blocks_for_a_half_width_is_minimal(share: float) -> None:
    n = not_none(find_min_blocks(PARTS, 0.04, fraction=share, n_items=150, max_blocks=6 * 150))
    result, before = (half_width_quantile(half_widths(PARTS, blocks, 150), share) for blocks in (n, n - 1))
    assert result <= 0.04 < before


def test_an_unattainable_half_width_states_the_required_items() -> None:
    assert find_min_blocks(PARTS, 0.01, fraction=1.0, n_items=150, max_blocks=6 * 150) is None
    n_items = not_none(find_min_items(PARTS, 0.01, fraction=1.0, blocks_per_item=6))
    assert find_min_blocks(PARTS, 0.01, fraction=1.0, n_items=n_items, max_blocks=6 * n_items) is not None
    assert find_min_blocks(PARTS, 0.01, fraction=1.0, n_items=n_items - 1, max_blocks=6 * (n_items - 1)) is None


def test_a_half_width_that_needs_both_orders_is_refused_if_pairs_are_unordered(tmp_path: Path) -> None:
    pool = make_pool(9, 20)
    pilot = verdicts(pool, design="cyclic", calls=300, independent="pooled:0", options={"pairs": "unordered"})
    folder = write_answers(tmp_path, pool, pilot)
    parts = estimate_variance_components(pilot)
    in_one_order, in_both_orders = (half_width_quantile(half_widths(parts, 20 * n, 20), 0.9) for n in (4, 8))
    with pytest.raises(ConfigError, match=r"about 2\d such items are needed.*extend-width"):
        calls_for_all(folder, (in_one_order + in_both_orders) / 2)
    n_calls, _ = calls_for_all(folder, in_one_order + 1e-9)
    assert n_calls + len(pilot) == 9 * 4 * 20


def test_variance_components_of_a_pilot_predict_the_half_width_of_a_larger_run() -> None:
    pool = make_pool(10, 60)
    pilot = verdicts(pool, design="cyclic", calls="80/agent", independent="pooled:0")
    parts = estimate_variance_components(pilot)
    for trials in (80, 160, 400):
        larger = verdicts(pool, design="cyclic", calls=f"{trials}/agent", independent="pooled:0")
        standing = estimate_abilities(larger)
        displayed = standing.covariance.half_width().mean()
        assert half_widths(parts, trials // 2, 60).mean() == pytest.approx(displayed, rel=0.15)


def test_precision_is_forecast_from_reference_data_and_later_from_answers_of_the_run() -> None:
    result = verdicts(make_pool(10, 60), design="cyclic", calls="120/agent", independent="pooled:10")
    before = PrecisionForecast(result.plan)
    assert before.trials == 120
    assert before.half_width[0.5].mean > before.half_width[1.0].mean > before.half_width[2.0].mean
    assert before.half_width[1.0].low < before.half_width[1.0].mean < before.half_width[1.0].high
    rho = not_none(before.rho)
    assert 0.5 < rho.low < rho.mean < rho.high < 1
    assert "PubMed 30 × 200" in before.source
    assert "by yes or no answers" in before.source
    graded = PrecisionForecast(result.plan, kind="graded")
    assert "by graded answers" in graded.source
    assert graded.half_width[1.0].mean < before.half_width[1.0].mean
    by_words = PrecisionForecast(result.plan, kind="lexical")
    assert "AlpacaEval 39 × 200" in by_words.source
    assert not_none(by_words.recall).low > not_none(before.recall).low
    after = PrecisionForecast(result.plan, estimate_variance_components(result))
    assert after.half_width[1.0].low == after.half_width[1.0].high
    assert after.source == "the run's own answers"


def test_a_half_width_forecast_is_a_range_until_answers_exist() -> None:
    result = verdicts(make_pool(10, 60), design="cyclic", calls="120/agent", independent="pooled:10")
    before, after = PrecisionForecast(result.plan), PrecisionForecast(result.plan, estimate_variance_components(result))
    low, _, high = before.half_width[1.0]
    assert before.usual_half_width == f"{low:.3f} to {high:.3f}"
    assert f"about ± {low:.3f} to {high:.3f} (" in " ".join(format_forecast(before))
    assert "a run with fewer calls first gives a forecast" in " ".join(format_forecast(before))
    assert after.usual_half_width == f"{after.half_width[1.0].mean:.3f}"
    assert "a run with fewer calls" not in " ".join(format_forecast(after))


@pytest.mark.parametrize("kind", ["graded", "yes or no", "lexical"])
def test_the_forecast_for_an_atypical_agent_is_never_narrower_than_the_average(kind: AnswerKind) -> None:
    usual, odd = prior_components(kind), components_at_quantile(1.0, kind)
    assert (odd.agent_item > usual.agent_item).all()
    assert half_widths(odd, 225, 100) == pytest.approx(
        half_widths(usual, 225, 100) * [data.max_width_ratio for data in REFERENCE_DATA[kind]]
    )


@pytest.mark.parametrize("design", ["dense", "nlogn"])
def test_correlations_measured_on_blocks_are_not_forecast_for_cell_designs(design: str) -> None:
    plan = make_plan(make_pool(8, 12), design=design, calls="40%" if design == "nlogn" else None)
    expected = PrecisionForecast(plan)
    assert expected.rho is None
    assert expected.recall is None


def test_a_plan_of_all_comparisons_has_no_forecast_correlation_with_them() -> None:
    expected = PrecisionForecast(
        make_plan(make_pool(8, 12), design="cyclic", calls=f"{2 * 7 * 12}/agent", independent="pooled")
    )
    assert expected.trials == 2 * 7 * 12
    assert expected.rho is None


@pytest.mark.parametrize("kind", ["graded", "yes or no", "lexical"])
def test_each_reference_data_set_is_within_the_range_forecast_by_the_others(
    kind: AnswerKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for left_out in (every := REFERENCE_DATA[kind]):
        monkeypatch.setitem(REFERENCE_DATA, kind, tuple(data for data in every if data is not left_out))
        for number, trials in enumerate(REFERENCE_TRIALS):
            rho, recall = not_none(expected_rho(trials, kind)), not_none(expected_recall(trials, kind))
            assert rho.low <= left_out.rho[number] <= rho.high + 0.001, (left_out.name, trials)
            assert recall.low <= left_out.recall[number] <= recall.high, (left_out.name, trials)
            widths = half_widths(prior_components(kind), trials // 2, 200)
            low, _, high = widen_half_widths(summarize_range(widths))
            own = AgentVariances(np.array([left_out.agent_item]), np.array([left_out.residual]))
            assert low <= half_widths(own, trials // 2, 200)[0] <= high, (left_out.name, trials)


def test_forecasts_end_at_the_limit_of_the_measured_range() -> None:
    assert expected_rho(5000, "graded") is None
    assert expected_recall(10, "lexical") is None
    assert half_widths(prior_components("graded"), 225, 200).mean() == pytest.approx(0.030, abs=0.003)
    assert half_widths(prior_components("yes or no"), 225, 200).mean() == pytest.approx(0.038, abs=0.003)


def test_a_plan_forecasts_the_regret_of_the_top_agent_which_is_lower_for_a_search() -> None:
    pool = make_pool(10, 60)
    expected = PrecisionForecast(make_plan(pool, design="cyclic", calls="225/agent", independent="pooled:10"))
    alike, searched = expected.regret[1.0]
    assert set(expected.regret) == {0.5, 1.0, 2.0}
    assert 0 < searched.mean < alike.mean < expected.regret[0.5][0].mean
    output = " ".join(format_forecast(expected))
    assert f"the agent that ranks first is on average {100 * alike.mean:.1f} (" in output
    assert f"a search (`top: 1`) with equally many calls lowers this regret to {100 * searched.mean:.1f} (" in output
    alike_bound, searched_bound = not_none(expected.regret_bound)
    assert alike.mean < alike_bound.mean < searched_bound.mean
    assert f"the regret bound is {100 * alike_bound.mean:.1f} (" in output
    assert f"and raises the bound to {100 * searched_bound.mean:.1f} (" in output
    assert "intervals of eliminated agents are wider" in output
    search = PrecisionForecast(make_plan(pool, design="adaptive", calls="225/agent", independent="pooled:10"))
    assert search.trials == pytest.approx(225, abs=1)
    assert search.regret[1.0][1].mean == pytest.approx(searched.mean, rel=0.01)
    assert not PrecisionForecast(make_plan(pool, design="nlogn", calls="40%")).regret


@pytest.mark.parametrize(("max_regret", "reached"), [(0.01, False), (0.2, True)])
def test_a_search_forecasts_its_calls_or_that_its_bound_is_unattainable(max_regret: float, reached: bool) -> None:
    plan = make_plan(make_pool(12, 60), design="adaptive", independent="pooled:10", options={"max_regret": max_regret})
    expected = PrecisionForecast(plan)
    calls = expected.search_calls
    assert calls[0] == plan.n_agents * int(plan.block.max() + 1)
    output = " ".join(format_forecast(expected, usd_per_call=0.001))
    assert ("cannot be reached on these items unless one agent is clearly the best" in output) is not reached
    assert (calls[1] is None) is not reached
    if reached:
        assert calls[0] < (calls[1] or 0) < 2 * 12 * 11 * 60
        assert f"$ {calls[0] / 1000:.2f}".replace(" ", "") in output
    else:
        # the stated number of items suffices for the average domain
        pool = make_pool(4, expected.search_items)
        forecast = PrecisionForecast(make_plan(pool, design="adaptive", calls="5%", options={"max_regret": max_regret}))
        assert forecast.lowest_bound.mean <= max_regret * 1.01
