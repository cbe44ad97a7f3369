"""Test searches for a half-width: rounds, stopping rules, limits and messages."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

from commands import Youden, write_config
from narrowing import not_none
from small_pools import make_pool, starts_with
from worlds import dense_world, write_answers
from youden import make_plan
from youden.data.folder.run_config import RunConfig, load_run_config, run_config_from_keys
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import ConfigError, PlanError, RunFolderError
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import judge_run, plan_run
from youden.pipeline.planned_run import draw_run_plan
from youden.pipeline.precision import PrecisionForecast, format_forecast
from youden.pipeline.ranking import estimate_abilities
from youden.pipeline.rounds import run_rounds
from youden.protocol.designs.fixed_width import HALF_WIDTH_FRACTION
from youden.protocol.pooled_trials import count_independent_for_paired
from youden.stats.forecast import AgentVariances, find_min_blocks, half_width_quantile
from youden.stats.reference_data import WIDTH_FACTOR, components_at_quantile
from youden.study.replaying import RecordedAnswers, replay
from youden.types import PAIRED, Plan, Verdicts
from youden.types.pool import Json
from youden.workflows.extend import plan_extension
from youden.workflows.extension_width import calls_for_all
from youden.workflows.planned_extension import PlannedExtension
from youden.workflows.rejudge import plan_rejudge


@pytest.fixture(scope="module")
def recorded_8_by_60() -> RecordedAnswers:
    return dense_world(8, 60)


def carried(world: RecordedAnswers, *, seed: int = 0, calls: int | None = None, **options: Json) -> Verdicts:
    plan = make_plan(world.pool, design="fixed-width", calls=calls, seed=seed, options=options)
    return run_rounds(plan, partial(replay, recorded=world))


def half_widths(result: Verdicts) -> np.ndarray:
    return np.asarray(estimate_abilities(result).covariance.half_width())


def test_a_search_stops_once_nine_in_ten_agents_reach_the_half_width(recorded_8_by_60: RecordedAnswers) -> None:
    result = carried(recorded_8_by_60, half_width=0.05)
    assert 0.045 <= half_width_quantile(half_widths(result), 0.9) <= 0.05
    assert "as narrow as requested" in result.plan.notes[-1]
    again = carried(recorded_8_by_60, half_width=0.05)
    assert again.plan.digest == result.plan.digest


def test_all_agents_get_equal_numbers_of_trials_and_no_trial_twice(recorded_8_by_60: RecordedAnswers) -> None:
    plan = carried(recorded_8_by_60, half_width=0.05).plan
    paired = plan.trial_type == PAIRED
    assert len(set(np.bincount(np.append(plan.first[paired], plan.second[paired])).tolist())) == 1
    rows = np.stack([plan.item, plan.first, plan.second])[:, paired]
    assert len(np.unique(rows, axis=1).T) == paired.sum()


def test_the_first_round_states_the_maximum_number_of_calls(recorded_8_by_60: RecordedAnswers) -> None:
    (note,) = make_plan(recorded_8_by_60.pool, design="fixed-width", options={"half_width": 0.05}).notes
    assert note.endswith("until ± 0.05 is reached, up to all possible paired calls")


def test_calls_limit_the_number_of_trials(recorded_8_by_60: RecordedAnswers) -> None:
    result = carried(recorded_8_by_60, half_width=0.03, calls=216)
    assert len(result.plan) == 216
    assert result.plan.notes[-1].endswith("the budget is spent before intervals were as narrow as requested")


def test_an_unattainable_half_width_ends_with_the_required_number_of_items(recorded_8_by_60: RecordedAnswers) -> None:
    rng = np.random.default_rng(0)
    own = 0.3 * rng.standard_normal((60, 8))
    paired = np.clip(0.5 + own[:, :, None] / 2 + own[:, None, :] / 2, 0, 1)
    odd = RecordedAnswers(paired, recorded_8_by_60.independent, recorded_8_by_60.pool, recorded_8_by_60.rates, {})
    result = carried(odd, half_width=0.03)
    assert (
        "do not allow intervals as narrow as requested at the run's fraction of independent calls; about"
        in result.plan.notes[-1]
    )
    assert len(result.plan) < 0.5 * result.plan.n_dense_calls


def vote(plan: Plan, *, between_judges: float, between_items: float = 0.0) -> Verdicts:
    """Answer by three judges, which rate agents differently, to 8 agents of equal ability on 60 items."""
    rng = np.random.default_rng(0)
    shift = between_judges * rng.standard_normal((3, 8))
    item_effect = between_items * rng.standard_normal((8, 60))
    noise = rng.random((3, 2, 8, 8, 60))[:, plan.trial_type, plan.first, plan.second, plan.item]
    of_item = item_effect[plan.first, plan.item] + item_effect[plan.second, plan.item]
    chance = 0.6 + (shift[:, plan.first] + shift[:, plan.second] + of_item) / 2
    votes = (noise < np.where(plan.trial_type == PAIRED, chance, 0.02)).astype(np.float64)
    answer = (votes.mean(axis=0) >= 0.5).astype(np.float64)
    judge: dict[str, Json] = {"name": "jury", "judges": [{"name": name} for name in "abc"]}
    return Verdicts(plan, answer, answer, np.zeros(len(plan), dtype=np.int8), judge, votes=votes)


def test_a_search_stops_if_the_judges_differ_too_much() -> None:
    plan = make_plan(make_pool(8, 60), design="fixed-width", options={"half_width": 0.05})
    result = run_rounds(plan, partial(vote, between_judges=0.2), target="items-and-judges")
    assert "the judges differ too much" in result.plan.notes[-1]
    assert len(result.plan) < 0.3 * result.plan.n_dense_calls
    alike = run_rounds(plan, partial(vote, between_judges=0.0), target="items-and-judges")
    assert "as narrow as requested" in alike.plan.notes[-1]
    assert not_none(alike.plan.rounds).starts[6:] == ()


def test_a_search_with_too_few_independent_trials_does_not_blame_the_judges(recorded_8_by_60: RecordedAnswers) -> None:
    pool = recorded_8_by_60.pool
    plan = make_plan(pool, design="fixed-width", independent="pooled:16", options={"half_width": 0.02})
    result = run_rounds(plan, partial(replay, recorded=recorded_8_by_60))
    assert "the false-positive rates are too uncertain" in result.plan.notes[-1]


def test_calls_for_a_half_width_over_judges_are_not_computed_without_their_variance(tmp_path: Path) -> None:
    pool = make_pool(8, 60)
    folder = write_answers(tmp_path / "run", pool, vote(make_plan(pool, calls=600), between_judges=0.2))
    keys = {"name": "run", "pool": "none", "out": str(folder.path), "target": "items-and-judges"}
    folder.write_config(run_config_from_keys(keys, origin="test"))
    with pytest.raises(ConfigError, match=r"judges.*Set a number of calls.*\[extend-width\]"):
        calls_for_all(folder, 0.03)


def test_a_half_width_for_these_items_is_reached_although_abilities_vary() -> None:
    plan = make_plan(make_pool(8, 60), design="fixed-width", options={"half_width": 0.04})
    result = run_rounds(plan, partial(vote, between_judges=0.0, between_items=0.3), target="these-items")
    assert "intervals are as narrow as requested" in result.plan.notes[-1]


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    write_pool(make_pool(6, 40), tmp_path / "pool")
    return RunConfig.model_validate(
        {"name": "w", "pool": str(tmp_path / "pool"), "judge": "lexical", "out": str(tmp_path / "w"), "half_width": 0.1}
    )


def test_a_run_killed_between_rounds_resumes_at_the_same_round(config: RunConfig, tmp_path: Path) -> None:
    narrow = config.model_copy(update={"half_width": 0.06})
    run = judge_run(plan_run(narrow.model_copy(update={"out": str(tmp_path / "whole")})))
    first = plan_run(narrow)
    assert len(first.plan) < len(run.plan)
    folder = RunFolder(tmp_path / "w")
    assert folder.read_plan().digest == first.plan.digest
    assert judge_run(plan_run(narrow)).plan.digest == run.plan.digest


def test_a_run_continues_to_a_narrower_half_width_with_its_earlier_trials(config: RunConfig) -> None:
    first = judge_run(plan_run(config))
    assert (first.plan.design, first.plan.options["half_width"]) == ("fixed-width", 0.1)
    fit_run(RunFolder(config.folder))
    run = judge_run(plan_run(config.model_copy(update={"half_width": 0.07})))
    assert len(run.plan) > len(first.plan)
    assert starts_with(run.plan.trials, first.plan.trials)
    kept = RunFolder(config.folder).read_config()
    assert kept.half_width == 0.07
    assert plan_run(kept).plan.digest == run.plan.digest
    with pytest.raises(RunFolderError, match="seed was 0 and is 1"):
        plan_run(config.model_copy(update={"seed": 1}))


def test_a_search_continues_to_a_smaller_regret_with_its_earlier_trials(config: RunConfig) -> None:
    searching = config.model_copy(update={"half_width": None, "max_regret": 0.3})
    first = judge_run(plan_run(searching))
    assert "small enough" in first.plan.notes[-1]
    run = judge_run(plan_run(searching.model_copy(update={"max_regret": 0.01})))
    assert len(run.plan) > len(first.plan)
    assert starts_with(run.plan.trials, first.plan.trials)


def test_top_and_max_regret_imply_the_adaptive_design(config: RunConfig) -> None:
    run_plan = draw_run_plan(config.model_copy(update={"half_width": None, "top": 2}))
    old = draw_run_plan(config.model_copy(update={"half_width": None, "design": "adaptive", "options": {"top": 2}}))
    assert run_plan.digest == old.digest
    assert (run_plan.design, run_plan.options["top"]) == ("adaptive", 2)
    near = draw_run_plan(config.model_copy(update={"half_width": None, "max_regret": 0.05}))
    assert (near.design, near.options["max_regret"]) == ("adaptive", 0.05)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"half_width": 0.05, "design": "nlogn"}, "design nlogn has none"),
        ({"half_width": 0.05, "options": {"half_width": 0.1}}, "set it only once"),
        ({"half_width": 0}, "half_width"),
        (
            {"half_width": 0.05, "top": 2},
            "half_width samples all agents equally, and top searches for the best; set only one",
        ),
        ({"half_width": 0.05, "max_regret": 0.02}, "max_regret searches for the best; set only one"),
    ],
)
def test_a_config_with_contradictory_keys_is_refused(tmp_path: Path, said: dict[str, object], words: str) -> None:
    from youden.data.folder.run_config import load_run_config

    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"pool": "pool", **said}))
    with pytest.raises(ConfigError, match=words):
        load_run_config(tmp_path / "mine.yaml")


def test_an_unattainable_half_width_is_refused_with_the_required_items(config: RunConfig) -> None:
    with pytest.raises(PlanError, match=r"Add items, to \d+,?\d* or more in all") as caught:
        plan_run(config.model_copy(update={"half_width": 0.005}))
    assert caught.value.slug == "width-items"


def test_a_half_width_that_no_number_of_items_gives_is_refused_without_a_number(config: RunConfig) -> None:
    with pytest.raises(
        PlanError, match=r"with any number of calls\. Set a larger half-width: no number of items"
    ) as caught:
        plan_run(config.model_copy(update={"half_width": 1e-6}))
    assert caught.value.slug == "width-items"


def test_a_forecast_counts_the_calls_of_all_agents_for_a_half_width(config: RunConfig) -> None:
    plan = draw_run_plan(config.model_copy(update={"half_width": 0.2}))
    forecast = PrecisionForecast(plan)
    n_calls = plan.n_agents * not_none(forecast.trials_needed).low / 2 + forecast.n_independent
    assert f"{n_calls:,.0f}" in " ".join(format_forecast(forecast))


def blocks_by_case(plan: Plan, factor: float, width: float) -> list[int | None]:
    """Return the number of blocks that each reference data set needs if its half-widths are multiplied by `factor`."""
    reference = components_at_quantile(HALF_WIDTH_FRACTION, "yes or no")
    return [
        find_min_blocks(
            AgentVariances(factor**2 * agent_item[None], factor**2 * residual[None]),
            width,
            fraction=1.0,
            n_items=plan.n_items,
            max_blocks=(plan.n_agents - 1) * plan.n_items,
        )
        for agent_item, residual in zip(reference.agent_item, reference.residual, strict=True)
    ]


@pytest.mark.parametrize(("width", "is_always_reached"), [(0.1, True), (0.08, True), (0.06, False), (0.04, False)])
def test_the_range_of_trials_for_a_half_width_is_widened_only_at_its_ends(
    width: float, is_always_reached: bool
) -> None:
    plan = make_plan(make_pool(12, 60), design="fixed-width", options={"half_width": width})
    needed = not_none(PrecisionForecast(plan).trials_needed)
    smaller, unscaled, larger = (
        [2 * n for n in blocks_by_case(plan, factor, width) if n is not None]
        for factor in (1 / WIDTH_FACTOR, 1, WIDTH_FACTOR)
    )
    assert needed.low == min(smaller)
    assert needed.mean == np.mean(unscaled)
    assert (len(larger) == 4) == is_always_reached
    assert needed.high == (max(larger) if is_always_reached else None)


def test_a_number_of_independent_trials_of_the_user_is_the_same_in_all_forecasts() -> None:
    def half_width_at_twice_the_calls(n_independent: int) -> float:
        plan = make_plan(make_pool(12, 60), calls=600 + n_independent, independent=f"pooled:{n_independent}")
        return PrecisionForecast(plan).half_width[2.0].mean

    plan = make_plan(make_pool(12, 60), calls=1224, independent="pooled:24")
    assert half_width_at_twice_the_calls(24) == pytest.approx(PrecisionForecast(plan).half_width[1.0].mean)


def test_a_forecast_states_that_a_half_width_may_not_be_reached() -> None:
    plan = make_plan(make_pool(12, 60), design="fixed-width", options={"half_width": 0.05})
    forecast = PrecisionForecast(plan)
    (line,) = (line for line in format_forecast(forecast, usd_per_call=0.5) if line.startswith("± 0.05"))
    low = not_none(forecast.trials_needed).low
    n_added = 6 * low - (plan.trial_type == PAIRED).sum()
    low_calls = 6 * low + forecast.n_independent + count_independent_for_paired(int(n_added), 12, is_first=False)
    assert line == (
        f"± 0.05 takes at least {low:,.0f} trials per agent, {low_calls:,.0f} calls, ${low_calls / 2:,.2f}, or is not reached on "
        "these items"
    )
    needed = forecast.to_json()["trials_needed"]
    assert isinstance(needed, dict)
    assert needed["high"] is None


def test_a_half_width_that_no_reference_data_reaches_requires_more_items() -> None:
    plan = make_plan(make_pool(12, 60), design="fixed-width", options={"half_width": 0.03})
    forecast = PrecisionForecast(plan)
    assert blocks_by_case(plan, 1.0, 0.03) == [None] * 4
    assert forecast.trials_needed is None
    assert forecast.items_needed == 97
    assert "± 0.03 cannot be reached on these items: it takes about 97 items" in " ".join(format_forecast(forecast))


def test_plan_states_the_trials_for_a_half_width_and_the_half_width_of_its_trials(
    youden: Youden, config: RunConfig, tmp_path: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"pool": "pool", "calls": "50%"}))
    ended = youden("plan", "mine.yaml", "--half-width", "0.06", "--json").well()
    assert "± 0.06 takes" in " ".join(ended.err.split())
    ended = youden("plan", "mine.yaml", "--calls", "100/agent", "--out", "other")
    output = " ".join(ended.err.split())
    assert "100 trials per agent; the average agent's 95% interval is about ± 0.0" in output
    assert "this run has no answers yet" in output
    judge_run(plan_run(config))
    assert "half-widths are forecast from the run's own answers" in " ".join(
        youden("plan", "w/config.yaml").err.split()
    )


def test_calls_and_half_width_are_combined_whether_they_are_keys_or_options(youden: Youden, config: RunConfig) -> None:
    write_config(Path("half-width.yaml"), pool=config.pool, judge="lexical", half_width=0.3)
    write_config(Path("calls.yaml"), pool=config.pool, judge="lexical", calls=300)
    youden("plan", "half-width.yaml", "--calls", "300", "--out", "first").well()
    youden("plan", "calls.yaml", "--half-width", "0.3", "--out", "second").well()
    budgets = [
        (planned.calls, planned.half_width)
        for planned in map(load_run_config, ["first/config.yaml", "second/config.yaml"])
    ]
    assert budgets == [(300, 0.3), (300, 0.3)]


@pytest.mark.slow
def test_a_run_in_rounds_states_why_it_stopped(youden: Youden, config: RunConfig, tmp_path: Path) -> None:
    write_config(tmp_path / "r.yaml", pool=config.pool, judge="lexical", top=2, calls=300)
    ended = youden("run", "r.yaml").well()
    assert "adaptive: " in ended.err
    assert "interim analyses; " in " ".join(ended.err.split())
    assert "plan: adaptive: " not in ended.err


def test_extend_to_a_half_width_gives_all_agents_the_required_calls(config: RunConfig) -> None:
    cyclic = config.model_copy(update={"half_width": None, "calls": "40/agent"})
    judge_run(plan_run(cyclic))
    fit_run(RunFolder(cyclic.folder))
    now = half_width_quantile(
        half_widths(RunFolder(cyclic.folder).read_verdicts(RunFolder(cyclic.folder).read_plan())), 0.9
    )
    planned = plan_extension(cyclic, half_width=0.8 * now)
    assert isinstance(planned, PlannedExtension)
    assert planned.half_width == pytest.approx(0.8 * now, rel=0.03)
    n_paired = int((planned.new_trials.trial_type == PAIRED).sum())
    assert 0.3 < n_paired / (6 * 20) < 1.2
    with pytest.raises(ConfigError, match=r"have ± .* already"):
        plan_extension(cyclic, half_width=2 * now)
    with pytest.raises(ConfigError, match=r"about [\d,]+ such items are needed"):
        plan_extension(cyclic, half_width=0.1 * now)


def test_extend_suggests_no_items_for_a_half_width_that_errors_of_rates_exclude(config: RunConfig) -> None:
    few_independent = config.model_copy(update={"half_width": None, "calls": "40/agent", "independent": "pooled:30"})
    judge_run(plan_run(few_independent))
    fit_run(RunFolder(few_independent.folder))
    with pytest.raises(ConfigError, match=r"nor with more items.*Set a larger half-width, or add calls"):
        plan_extension(few_independent, half_width=0.01)


def test_a_second_judge_gets_the_configured_trials_per_agent(config: RunConfig) -> None:
    judge_run(plan_run(config.model_copy(update={"half_width": None, "calls": "40/agent"})))
    fit_run(RunFolder(config.folder))
    again = plan_rejudge(RunFolder(config.folder), judge="lexical", changes={"calls": "20/agent"}).again.plan
    assert 2 * (again.trial_type == PAIRED).sum() / 6 == pytest.approx(20, abs=2)
