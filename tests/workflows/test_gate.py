"""Test the gate: outcomes, exit codes, analyses, required calls, refusals and output."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Unpack
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import Youden, write_config, write_pool_table
from narrowing import not_none
from plan_options import PlanOptions
from small_pools import answer_with, make_pool
from worlds import fit_once, write_answers, write_run
from youden import make_plan
from youden.data.folder.folder_lock import file_lock
from youden.data.folder.run_files import GateLedger, write_ledger
from youden.data.folder.run_folder import RunFolder
from youden.errors import InputError
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.protocol.extension import add_agents, add_calls
from youden.report.pages.gate_output import render_gate_markdown as render_markdown
from youden.report.pages.gate_output import render_junit
from youden.stats.trials.noninferiority import ConservativeDifference, GateOutcome, conditional_power
from youden.stats.trials.trial_errors import RemainingVariance
from youden.text.printable import printable
from youden.text.sentences import format_recognition_difference
from youden.types import PAIRED, Agent, Plan, Pool, Verdicts
from youden.types.pool import Floats
from youden.types.recommendation import NOT_MADE
from youden.workflows.gate import (
    Gate,
    GateAnalysis,
    GateResult,
    RequiredCalls,
    evaluate_agent,
    gate_run,
)
from youden.workflows.gate_answers import DifferenceForecast, make_forecaster, read_answers
from youden.workflows.gate_text import describe_result, format_next_command

POOL = make_pool(8, 60)


def world(*, gap: float = 0.0, seed: int = 0, own: float = 0.05) -> Floats:
    """Return answers to every pair on every item, float (J, K, K); agents 0 and 1 differ by `gap`, others vary."""
    rng = np.random.default_rng(seed)
    ability = np.array([gap, 0.0, 0.2, 0.1, 0.0, -0.1, -0.2, -0.3])
    skill = ability + own * rng.standard_normal((60, 8))
    chance = 0.6 + skill[:, :, None] / 2 + skill[:, None, :] / 2
    return (rng.random(chance.shape) < np.clip(chance, 0, 1)).astype(np.float64)


def answered(plan: Plan, dense: Floats) -> Verdicts:
    return answer_with(plan, np.where(plan.trial_type == PAIRED, dense[plan.item, plan.first, plan.second], 0.0))


def write(folder: Path, dense: Floats, *, pool: Pool = POOL, **plan: Unpack[PlanOptions]) -> RunFolder:
    return fitted(folder, answered(make_plan(pool, seed=0, **plan), dense), pool=pool)


def fitted(folder: Path, result: Verdicts, *, pool: Pool = POOL) -> RunFolder:
    run = write_answers(folder, pool, result)
    fit_once(run)
    return run


@pytest.mark.parametrize(
    ("gap", "verdict", "code"), [(0.4, "better", 0), (0.0, "no worse", 0), (-0.4, "worse", 1), (-0.05, "undecided", 3)]
)
def test_the_outcome_determines_the_exit_code(
    youden: Youden, tmp_path: Path, gap: float, verdict: str, code: int
) -> None:
    write(tmp_path / "run", world(gap=gap), calls=500 if verdict == "undecided" else 2000)
    ended = youden("gate", "run", "--agent", "a0", "--baseline", "a1", "--json", "--margin", "0.1")
    data = json.loads(ended.out)
    assert (data["outcome"], ended.code) == (verdict, code)
    (row,) = data["agents"]
    assert row["low"] < row["difference"] < row["high"]

    lines = youden("gate", "run", "--agent", "a0", "--baseline", "a1", "--margin", "0.1").err.splitlines()[0]
    comparative = "fewer" if row["difference"] < 0 else "more"
    number = format_recognition_difference(abs(row["difference"]))
    interval = f"interval {100 * row['low']:+.1f} … {100 * row['high']:+.1f})"
    assert lines.startswith(
        f"{verdict}: the judge recognizes the responses of a0 in {number} {comparative} of 100 comparisons than"
    )
    assert interval in lines
    assert ("; the whole interval is above the margin −10." in lines) == (verdict == "no worse")
    if verdict == "worse":
        assert "fewer of 100 comparisons than those of a1 (95% interval -" in lines


def test_a_run_in_blocks_has_the_differences_of_its_ranking(tmp_path: Path) -> None:
    run = write(tmp_path / "run", world(), calls=1000)
    ability = {row.agent: row.ability for row in run.read_ranking()}
    result = gate_run(run, ["a3", "a2"], baseline="a1")
    for row in result.agents:
        assert row.difference == pytest.approx(not_none(ability[row.agent]) - not_none(ability["a1"]), abs=1e-9)


@pytest.mark.parametrize(
    "plan", [{"design": "nlogn"}, {"design": "cyclic", "calls": 1500, "holdout": 0.2}, {"design": "dense"}]
)
def test_cell_designs_with_gaps_and_a_holdout_have_the_differences_of_the_fit(
    tmp_path: Path, plan: PlanOptions
) -> None:
    run = write(tmp_path / "run", world(gap=0.4), **plan)
    ability = {row.agent: row.ability for row in run.read_ranking()}
    result = gate_run(run, ["a0"], baseline="a7").agents[0]
    assert result.difference == pytest.approx(not_none(ability["a0"]) - not_none(ability["a7"]), abs=1e-6)
    assert result.outcome == "better"


@pytest.mark.parametrize("plan", [{"design": "cyclic", "calls": "100%"}, {"design": "dense", "holdout": 0.0}])
def test_agents_without_observed_differences_are_inconclusive_until_items_suffice(
    youden: Youden, tmp_path: Path, plan: PlanOptions
) -> None:
    write(tmp_path / "few", np.ones((12, 5, 5)), pool=make_pool(5, 12), **plan)
    ended = youden("gate", "few", "--agent", "a0", "--baseline", "a1", "--json")
    (row,) = json.loads(ended.out)["agents"]
    assert (ended.code, row["outcome"], row["difference"]) == (3, "undecided", pytest.approx(0.0, abs=1e-9))
    assert row["low"] < -0.2
    assert row["high"] > 0.2
    needed = row["required"]["items_at_current_difference"]
    assert 72 <= needed <= 100
    write(tmp_path / "enough", np.ones((needed, 5, 5)), pool=make_pool(5, needed), **plan)
    assert youden("gate", "enough", "--agent", "a0", "--baseline", "a1").code == 0
    stderr = youden("gate", "few", "--agent", "a0", "--baseline", "a1").err
    assert (
        f"If the true difference equals the estimate, {needed} items with as many comparisons each as now are enough"
        in stderr
    )


@pytest.mark.slow
def test_a_gate_has_the_inference_target_of_its_run_unless_overridden(youden: Youden, tmp_path: Path) -> None:
    run = write(tmp_path / "run", world(gap=0.1, own=0.3), calls=2000)
    fit_run(run, target="these-items")
    for options, target in (((), "these-items"), (("--target", "items-like-these"), "items-like-these")):
        ended = youden(
            "gate", "run", "--agent", "a0", "--baseline", "a1", "--ledger", f"{target}.json", *options, "--json"
        )
        assert json.loads(ended.out)["target"] == target


@pytest.mark.parametrize("plan", [{"design": "cyclic", "calls": 2000}, {"design": "dense"}])
def test_the_difference_on_these_items_has_a_narrower_interval(
    youden: Youden, tmp_path: Path, plan: PlanOptions
) -> None:
    run = write(tmp_path / "run", world(gap=0.1, own=0.3), **plan)
    kind = gate_run(run, ["a0"], baseline="a1").agents[0]
    these = gate_run(run, ["a0"], baseline="a1", target="these-items", ledger=tmp_path / "these.json")
    assert these.agents[0].difference == kind.difference
    assert None not in (kind.low, kind.high, these.agents[0].low, these.agents[0].high)
    assert (
        0
        < not_none(these.agents[0].high) - not_none(these.agents[0].low)
        < 0.9 * (not_none(kind.high) - not_none(kind.low))
    )
    about = ("--target", "these-items", "--ledger", "these.json")
    ended = youden("gate", "run", "--agent", "a0", "--baseline", "a1", *about, "--json")
    assert json.loads(ended.out) == json.loads(json.dumps(these.to_json())) | {"folder": "run"}
    stderr = youden("gate", "run", "--agent", "a0", "--baseline", "a1", *about).err
    assert "these items alone" in stderr
    assert youden("gate", "run", "--agent", "a0", "--baseline", "a1", "--target", "these-items").refuses("gate-target")
    with pytest.raises(InputError, match=r"variance between judges.*\[gate-target\]"):
        gate_run(run, ["a0"], baseline="a1", target="items-and-judges")


@pytest.mark.slow
def test_an_adaptive_run_is_weighted_like_its_ranking(tmp_path: Path) -> None:
    from functools import partial

    from youden.pipeline.rounds import run_rounds

    plan = make_plan(POOL, design="adaptive", calls=1500, seed=0)
    run = fitted(tmp_path / "run", run_rounds(plan, partial(answered, dense=world(gap=0.4))))
    ability = {row.agent: row.ability for row in run.read_ranking()}
    result = gate_run(run, ["a0"], baseline="a7")
    assert result.agents[0].difference == pytest.approx(not_none(ability["a0"]) - not_none(ability["a7"]), abs=1e-9)
    assert result.agents[0].outcome == "better"
    assert not result.extendable
    assert "with `calls: 2000`" in str(format_next_command(replace(gate_of("n"), extendable=False)))


@pytest.mark.slow
def test_a_repeated_gate_is_the_same_analysis_and_more_calls_the_next_at_half_alpha(tmp_path: Path) -> None:
    dense = world()
    first = gate_run(write(tmp_path / "run", dense, calls=800), ["a0"], baseline="a1")
    assert (first.agents[0].analysis, first.agents[0].level) == (1, 0.95)
    again = gate_run(RunFolder(tmp_path / "run"), ["a0"], baseline="a1")
    assert again == first
    kept = (tmp_path / "run" / "gates.json").read_bytes()
    extended = gate_run(write(tmp_path / "run", dense, calls=1600), ["a0"], baseline="a1")
    assert (extended.agents[0].analysis, extended.agents[0].level) == (2, 0.975)
    (tmp_path / "ledger.json").write_bytes(kept)
    elsewhere = write(tmp_path / "fresh", dense, calls=1600)
    assert gate_run(elsewhere, ["a0"], baseline="a1", ledger=tmp_path / "ledger.json").agents == extended.agents
    assert not elsewhere.has("gates.json")


@pytest.mark.slow
def test_a_gate_waits_until_another_has_recorded_its_analysis(tmp_path: Path) -> None:
    run = write(tmp_path / "run", world(), calls=500)
    ledger = tmp_path / "gates.json"
    with ThreadPoolExecutor() as threads:
        with file_lock(ledger):
            gate = threads.submit(gate_run, run, ["a0"], baseline="a1", ledger=ledger)
            wait([gate], timeout=2)
            earlier = GateLedger(analyses=[]).with_analysis("a0", "a1", answers="0" * 64, margin=0.05)
            write_ledger(ledger, earlier)
        assert gate.result().agents[0].analysis == 2


def test_several_agents_share_alpha(tmp_path: Path) -> None:
    run = write(tmp_path / "run", world(), calls=1000)
    alone = gate_run(run, ["a0"], baseline="a1").agents[0]
    three = gate_run(run, ["a0", "a2", "a3", "a0"], baseline="a1").agents
    assert [row.agent for row in three] == ["a0", "a2", "a3"]
    assert {row.level for row in three} == {1 - 0.05 / 3}
    assert three[0].difference == alone.difference
    assert not_none(three[0].high) > not_none(alone.high)


def test_one_worse_agent_decides_the_outcome_before_an_inconclusive_one() -> None:
    def row(verdict: GateOutcome) -> GateResult:
        return GateResult("x", verdict, 0.0, -1.0, 1.0, 0.95, 1, 9, None)

    def outcome_of(*verdicts: GateOutcome) -> str:
        return Gate("r", "b", 0.05, "m", 1, True, "s", tuple(map(row, verdicts))).outcome

    assert outcome_of("better", "undecided", "worse") == "worse"
    assert outcome_of("better", "no worse", "undecided") == "undecided"
    assert outcome_of("better", "no worse") == "no worse"


def test_the_calls_for_several_agents_are_rounded_up_and_priced() -> None:
    rows = [
        GateResult(agent, "undecided", 0.0, -1.0, 1.0, 0.95, 1, 9, RequiredCalls(calls=calls, usd=calls * 0.5))
        for agent, calls in (("a", 7), ("b", 3))
    ]
    total = not_none(Gate("r", "base", 0.05, "m", 1, True, "s", tuple(rows)).required)
    assert (total.calls, total.usd) == (11, 5.5)  # 7 calls for 2 agents, so 10.5 for 3


def outlook_of(result: Verdicts) -> DifferenceForecast:
    return make_forecaster(result, trial_abilities_from_verdicts(result))(0, 1)


@pytest.mark.slow
def test_the_suggested_calls_decide_at_the_stated_cost() -> None:
    decided = asked = 0
    for seed in range(40):
        dense = world(gap=-0.1, seed=seed)
        plan = make_plan(POOL, calls=400, seed=seed)
        result = evaluate_agent(
            outlook_of(answered(plan, dense)),
            GateAnalysis("a0", 1, 0.95),
            n_compared=1,
            n_items=60,
            margin=0.2,
            usd=0.01,
        )
        if result.required is None or result.required.calls is None:
            continue
        asked += 1
        assert result.required.usd == pytest.approx(result.required.calls * 0.01)
        extended = add_calls(plan, calls=result.required.calls, focus=(0, 1))
        assert 0 <= len(plan) + result.required.calls - len(extended) < 8, "independent trials come in whole passes"
        then = evaluate_agent(
            outlook_of(answered(extended, dense)),
            GateAnalysis("a0", 2, 0.975),
            n_compared=1,
            n_items=60,
            margin=0.2,
            usd=None,
        )
        decided += then.outcome != "undecided"
    assert asked >= 10
    assert decided >= 0.8 * asked


@pytest.mark.parametrize("independent", ["pooled", "pooled:40"])
def test_items_decide_only_if_extensions_reduce_the_error_of_false_positive_rates(independent: str) -> None:
    dense = world(seed=3, own=0.0)
    plan = make_plan(POOL, calls=600, independent=independent, seed=3)
    is_false_positive = (plan.first == 0) & (np.arange(len(plan)) % 2 == 0)
    paired = dense[plan.item, plan.first, plan.second]
    verdicts = answer_with(plan, np.where(plan.trial_type == PAIRED, paired, is_false_positive))
    forecast = outlook_of(verdicts)
    assert forecast.difference.rate_variance > forecast.difference.variance
    analysis = GateAnalysis("a0", 1, 0.95)
    result = evaluate_agent(forecast, analysis, n_compared=1, n_items=60, margin=0.15, usd=None)
    assert result.outcome == "undecided"
    assert result.required is not None
    assert (result.required.items is not None) == (independent == "pooled")
    assert (not_none(result.required.conditional_power) > 0.1) == (independent == "pooled")


def test_an_undecided_gate_states_independent_calls_if_the_rates_matter() -> None:
    difference = ConservativeDifference(0.0, 0.001, 40, 40.0, 0.0, 0.0, rate_variance=0.0002, rate_df=30)
    no_calls = RemainingVariance(np.empty(0), np.empty(0))
    numbers = np.empty(0, dtype=np.int64)
    stated = {}
    for rate_variance in (0.0002, 0.0001):
        forecast = DifferenceForecast(difference._replace(rate_variance=rate_variance), numbers, no_calls, numbers)
        result = evaluate_agent(
            forecast, GateAnalysis("a0", 1, 0.95), n_compared=1, n_items=40, margin=0.05, usd=None, n_independent=250
        )
        stated[rate_variance] = not_none(result.required).independent_calls
    assert stated == {0.0002: 750, 0.0001: None}


def test_a_forecast_for_more_items_has_more_degrees_of_freedom() -> None:
    difference = ConservativeDifference(0.0, 0.001, 30, 30.0, 0.0, max_df=4)
    assert [difference.with_items(n).df for n in (30, 60, 900)] == [4, 8, 120]


def test_a_wider_margin_than_in_an_earlier_analysis_is_reported(tmp_path: Path) -> None:
    run = write(tmp_path / "run", world(), calls=2000)
    for margin, is_wider in ((0.05, False), (0.05, False), (0.1, True), (0.04, False), (0.05, True)):
        text = render_markdown(gate_run(run, ["a0"], baseline="a1", margin=margin))
        assert ("Warning: the margin" in text) == is_wider
    assert "repeat the gate with --margin 0.04" in text


def test_conditional_power_uses_the_degrees_of_freedom_after_the_calls() -> None:
    difference = ConservativeDifference(
        0.0, 0.0034, 56, 56.0, 0.0, 0.0034, rate_variance=0.0006, rate_df=2, rates_improve=False
    )
    factor = np.array([0.1])  # of the variance of the mean answers
    forecast = DifferenceForecast(difference, np.array([500]), RemainingVariance(np.ones(1), factor), np.array([56]))
    later = difference._replace(variance=0.00034, residual_variance=0.00034)
    assert later.df == 10
    power = conditional_power(
        0.0,
        (0.0, 0.004),
        remaining=(np.ones(1), np.array([later.total_variance / 0.004])),
        df=difference.df,
        later_df=np.array([later.df]),
        unseen_variance=np.zeros(1),
        margin=0.1,
        alpha=0.0125,
    )
    result = evaluate_agent(forecast, GateAnalysis("a0", 1, 0.95), n_compared=1, n_items=60, margin=0.1, usd=None)
    assert 0.2 < power[0] < 0.9
    assert not_none(result.required).conditional_power == pytest.approx(power[0])


def test_if_no_calls_on_these_items_decide_the_required_items_are_stated(tmp_path: Path) -> None:
    run = write(tmp_path / "run", world(own=0.4), calls=2000)
    result = gate_run(run, ["a0"], baseline="a1", margin=0.02)
    assert result.agents[0].outcome == "undecided"
    needed = not_none(result.agents[0].required)
    assert needed.calls is None
    assert not_none(needed.items) > 60
    assert format_next_command(result) is None
    assert not_none(needed.conditional_power) < 0.9
    text = render_markdown(result)
    assert (
        f"power is only {needed.conditional_power:.0%} in the least favorable case. A conditional power of 90% needs about "
        f"{needed.items:,} items" in text
    )
    row = replace(result.agents[0], required=RequiredCalls(items=500, independent_calls=1000))
    assert "Every paired comparison on these items has been made." in describe_result(result, row)
    assert "`youden extend calls` adds them. 1,000 more halve the standard errors" in describe_result(result, row)


def test_fewer_than_six_items_give_no_interval_and_no_analysis(youden: Youden, tmp_path: Path) -> None:
    write_run(tmp_path / "run", n_agents=6, n_items=5, design="cyclic", calls=150, independent="pooled:60")
    for _ in range(2):
        ended = youden("gate", "run", "--agent", "a0", "--baseline", "a1")
        assert ended.code == 3
        assert "compared on 5 items only" in ended.err
        assert json.loads((tmp_path / "run" / "gates.json").read_text())["analyses"] == []


def test_an_agent_with_few_items_is_inconclusive_for_any_baseline(tmp_path: Path) -> None:
    texts = POOL.texts.copy()
    texts[0, 1:] = None
    run = write(tmp_path / "run", world(gap=0.4), pool=replace(POOL, texts=texts), calls="30%", design="cyclic")
    (row,) = gate_run(run, ["a0"], baseline="a1").agents
    assert (row.outcome, row.n_items, row.low) == ("undecided", 1, None)


def test_a_gate_states_that_two_agents_share_no_item(tmp_path: Path) -> None:
    for first_item, n_shared in ((20, 10), (30, 0)):
        texts = POOL.texts.copy()
        texts[0, 30:] = None
        texts[1, :first_item] = None
        run = write(tmp_path / f"{n_shared}", world(), pool=replace(POOL, texts=texts), calls="30%", design="cyclic")
        gate = gate_run(run, ["a0"], baseline="a1")
        assert (gate.agents[0].n_items, gate.agents[0].low is None) == (n_shared, False)
        assert ("a0 and a1 share no item" in render_markdown(gate)) == (n_shared == 0)


def test_an_imported_run_is_compared_by_its_scores_without_requests(youden: Youden, tmp_path: Path) -> None:
    judged = write(tmp_path / "judged", world(gap=-0.05), design="dense")
    run = RunFolder(tmp_path / "imported")
    run.write_pool(judged.read_pool())
    run.write_rates(judged.read_rates())
    fit_run(run)
    ended = youden("gate", "imported", "--agent", "a0", "--baseline", "a1", "--margin", "0.02", "--json")
    data = json.loads(ended.out)
    assert (ended.code, data["calls"], data["agents"][0]["required"]["calls"]) == (3, None, None)
    words = youden("gate", "imported", "--agent", "a0", "--baseline", "a1", "--margin", "0.02").err
    assert "An imported run cannot be extended" in words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--agent", "a00", "--baseline", "a1"), "Did you mean 'a0'"),
        (("--agent", "a0", "--baseline", "elsewhere"), "no agent 'elsewhere'"),
        (("--agent", "a1", "--baseline", "a1"), "as the baseline and as the agent"),
        (("--agent", "a0", "--agent", "a1", "--baseline", "a1"), "gate-baseline"),
        (("--agent", "a0", "--baseline", "a1", "--margin", "0"), "above 0"),
        (("--agent", "a0", "--baseline", "a1", "--margin", "-0.1"), "gate-margin"),
        (("--agent", "a0", "--baseline", "a1", "--margin", "nan"), "gate-margin"),
        (("--agent", "a0", "--baseline", "a1", "--json", "--markdown", "-"), "gate-output"),
        (("--agent", "a0"), "--baseline"),
        (("--baseline", "a0"), "--agent"),
    ],
)
def test_bad_input_states_the_remedy(youden: Youden, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    write_run(tmp_path / "run", n_agents=5, design="cyclic", calls=200)
    ended = youden("gate", "run", *words)
    assert ended.code == 2
    assert said in ended.err
    assert not (tmp_path / "run" / "gates.json").exists()


def test_an_unjudged_baseline_is_refused(tmp_path: Path) -> None:
    plan = make_plan(POOL, calls=1000)
    lost = (plan.first == 1) | (plan.second == 1)
    run = fitted(tmp_path / "run", answer_with(plan, np.ones(len(plan)), missing=lost))
    with pytest.raises(InputError, match=r"'a1' was not judged.*\[gate-unjudged\]"):
        gate_run(run, ["a0"], baseline="a1")


@pytest.mark.slow
def test_unjudged_runs_and_damaged_records_are_refused(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "mine.yaml", pool="mine.csv")
    words = ("--agent", "a0", "--baseline", "a1")
    assert "youden run CONFIG" in youden("gate", "nowhere", *words).err
    assert youden("plan", "mine.yaml").code == 0
    unjudged = youden("gate", "runs/mine", *words)
    assert unjudged.code == 2
    assert "youden run runs/mine/config.yaml" in unjudged.err
    assert youden("run", "mine.yaml").code == 0
    assert youden("gate", "runs/mine", *words).code in (0, 1, 3)
    (tmp_path / "runs/mine/gates.json").write_text("{")
    assert youden("gate", "runs/mine", *words).refuses("gate-ledger")


def test_a_dry_run_states_the_next_analysis_and_computes_none(youden: Youden, tmp_path: Path) -> None:
    write(tmp_path / "run", world(), calls=1000)
    words = ("gate", "run", "--agent", "a0", "--agent", "a2", "--baseline", "a1", "--dry-run")
    ended = youden(*words, "--json").well()
    assert json.loads(ended.out) == {
        "dry_run": True,
        "calls": 0,
        "usd": 0.0,
        "analyses": [{"agent": "a0", "analysis": 1, "level": 0.975}, {"agent": "a2", "analysis": 1, "level": 0.975}],
    }
    assert "interim analysis 1" in youden(*words).err
    assert not (tmp_path / "run" / "gates.json").exists()


def test_calls_are_priced_by_past_costs_or_by_the_prices_of_the_judge(tmp_path: Path) -> None:
    run = write(tmp_path / "run", world(), calls=1000)
    assert read_answers(run).usd_per_call is None
    config = {"pool": "pool", "out": str(run.path)}
    for judge, usd in (
        ({"backend": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "price": 0}, 0.0),
        ({"backend": "replay"}, None),
        ("lexical", 0.0),
    ):
        write_config(run.file("config.yaml"), **config, judge=judge)
        assert read_answers(run).usd_per_call == usd
    plan = run.read_plan()
    run.write_verdicts(replace(answered(plan, world()), usd=np.full(len(plan), 0.002)))
    fit_run(run)
    assert read_answers(run).usd_per_call == pytest.approx(0.002)


EVIL = 'x" & <b>|a`\n## @all</testcase>\x00\x1b[31m\ud800\ufffe'


def gate_of(agent: str, verdict: GateOutcome = "undecided") -> Gate:
    row = GateResult(agent, verdict, -0.02, -0.1, 0.06, 0.95, 1, 40, RequiredCalls(calls=1200, usd=0.5))
    return Gate("runs/my run", agent + "2", 0.05, "means", 800, True, f"sha|{agent}", (row,))


@given(st.one_of(st.just(EVIL), st.text(min_size=1)), st.sampled_from(["better", "no worse", "worse", "undecided"]))
@settings(max_examples=40, deadline=None)
def test_no_name_breaks_xml_or_markdown(agent: str, verdict: GateOutcome) -> None:
    gate = gate_of(agent, verdict)
    root = ET.fromstring(render_junit(gate).encode())
    (case,) = root.iter("testcase")
    assert case.get("name") == printable(agent)
    assert {child.tag for child in case} <= {"failure", "error", "system-out"}
    text = render_markdown(gate)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {7}
    outside = re.sub(r"^(`{3,})sh\n.*\n\1$", "", text, flags=re.MULTILINE)
    assert not re.search(r"(?<!\\)<(?!/?sub>)", outside)


def test_junit_counts_worse_as_failures_and_inconclusive_as_errors() -> None:
    gate = gate_of("n")
    gate = replace(gate, agents=(*gate.agents, *gate_of("m", "worse").agents, *gate_of("o", "better").agents))
    suite = not_none(ET.fromstring(render_junit(gate).encode()).find("testsuite"))
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["3", "1", "1", "0"]
    assert [[child.tag for child in case] for case in suite.iter("testcase")] == [
        ["error", "system-out"],
        ["failure", "system-out"],
        ["system-out"],
    ]
    error = not_none(suite.find(".//error"))
    command, comment = not_none(error.text).split("  # ")
    assert command == "youden extend calls 'runs/my run' 1200 --focus n --focus n2"
    assert comment == "about $0.50; 2,000 calls in all; then run the gate again"


def test_files_are_written_and_the_table_escapes_hostile_agent_names(youden: Youden, tmp_path: Path) -> None:
    agents = tuple(Agent(f"[bold]{EVIL}".replace("\ud800", "") if i == 0 else f"a{i}") for i in range(8))
    write(tmp_path / "run", world(gap=-0.4), pool=Pool(agents, POOL.items, POOL.texts), calls=2000)
    words = ("gate", "run", "--agent", agents[0].id, "--baseline", "a1")
    ended = youden(*words, "--markdown", "gate.md", "--junit", "gate.xml")
    assert ended.code == 1
    assert "\x1b" not in ended.out + ended.err
    assert "[bold]" in ended.out
    assert (tmp_path / "gate.md").read_text(encoding="utf-8").startswith("## ❌ worse")
    assert ET.fromstring((tmp_path / "gate.xml").read_bytes()).get("failures") == "1"
    assert youden(*words, "--markdown", "-").out == (tmp_path / "gate.md").read_text(encoding="utf-8")


def test_the_page_states_the_candidates_of_the_run_or_no_recommendation(youden: Youden, tmp_path: Path) -> None:
    run = write(tmp_path / "run", world(), calls=2000)
    words = ("gate", "run", "--agent", "a0", "--baseline", "a1")
    choice = not_none(run.read_facts().choice)
    page = youden(*words, "--markdown", "-").out
    (line,) = (line for line in page.splitlines() if line.startswith("Among all agents of the run"))
    assert f"this gate: Candidates: {choice.agents[0]}" in line
    assert f"by more than {format_recognition_difference(choice.regret_bound)}" in line
    assert all(agent in line for agent in choice.candidates[:3])
    assert json.loads(youden(*words, "--json").out)["choice"]["agents"] == list(choice.agents)
    run.write_facts(replace(run.read_facts(), recommendation=NOT_MADE))
    assert f"this gate: {NOT_MADE.text}".replace("`", "\\`") in youden(*words, "--markdown", "-").out


@pytest.mark.slow
def test_the_printed_commands_extend_the_run_until_it_is_decided(youden: Youden, tmp_path: Path) -> None:
    write_pool_table(tmp_path / "mine.csv", n_agents=5, n_items=40)
    write_config(tmp_path / "mine.yaml", pool="mine.csv", calls=80)
    assert youden("run", "mine.yaml").code == 0
    words, calls = ("gate", "runs/mine", "--agent", "a3", "--baseline", "a4", "--margin", "0.1"), 80
    for look in (1, 2, 3):
        data = json.loads(youden(*words, "--json").out)
        assert data["agents"][0]["analysis"] == look
        assert data["calls"] <= 5 * calls  # independent trials, which cost nothing, are in addition
        if data["outcome"] != "undecided":
            break
        (command,) = re.findall(r"^youden (extend .*?)  #", youden(*words).err, re.MULTILINE)
        assert youden(*command.split()).code == 0
        calls += int(command.split()[3])
    assert calls > 80
    assert data["outcome"] != "undecided"


def test_joined_agents_are_compared_on_the_scale_of_the_ranking(tmp_path: Path) -> None:
    dense = world(gap=0.4)
    small = Pool(POOL.agents[:6], POOL.items, POOL.texts[:6])
    plan = add_agents(make_plan(small, calls=1000), POOL)
    plan = add_calls(plan, calls=100, focus=(0, 6))
    run = fitted(tmp_path / "run", answered(plan, dense))
    ability = {row.agent: row.ability for row in run.read_ranking()}
    result = gate_run(run, ["a6", "a1"], baseline="a0")
    for row in result.agents:
        assert row.difference == pytest.approx(not_none(ability[row.agent]) - not_none(ability["a0"]), abs=1e-9)
    assert result.agents[0].outcome == "worse"
