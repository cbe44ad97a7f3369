"""Test that an extension gets more independent trials if the false-positive rates cause most of the variance of an ability."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import Youden, wire_judge, write_config
from narrowing import not_none
from small_pools import make_pool
from wire_server import Reply, WireServer, draw, same_item
from youden import make_plan
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.pipeline.call_division import CallDivision, find_call_division, has_dominant_rates
from youden.pipeline.precision import read_variance_components
from youden.protocol.extension import add_calls
from youden.protocol.pooled_trials import count_independent
from youden.stats.forecast import find_min_blocks, half_width_quantile, half_widths
from youden.types import INDEPENDENT

K, J, CALLS = 6, 20, 480


def answer_with_high_fpr(_n: int, body: Mapping[str, Any]) -> Reply:
    """Answer yes to nine in ten paired trials, and to three in ten independent ones."""
    n_yes = 9 if same_item(body) == "YES" else 3
    return Reply("YES" if draw(body, 10) < n_yes else "NO")


def write_run_config(folder: Path, server: WireServer, **keys: object) -> RunFolder:
    write_pool(make_pool(K, J), folder / "pool")
    write_config(folder / "r.yaml", pool="pool", calls=CALLS, judge=wire_judge(server.url), **keys)
    return RunFolder(folder / "runs" / "r")


@pytest.mark.slow
def test_a_run_with_a_high_fpr_is_extended_by_the_independent_calls_that_it_names(
    youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    server.behave = answer_with_high_fpr
    folder = write_run_config(tmp_path, server)
    ended = youden("run", "r.yaml").well()
    share = not_none(not_none(folder.read_facts().rates).variance_share)
    assert share > 0.5

    match = re.search(
        r"next: the false-positive rates account for (\d+)% .*, (\d+) of them .*: `youden (.*)`; report", ended.err
    )
    step = not_none(match)
    assert int(step[1]) == round(100 * share)
    n_independent = int(step[2])
    words = shlex.split(step[3])
    n_calls = int(words[-1])
    assert n_independent > 2 * count_independent(n_calls, K, is_first=False)

    planned = youden(*words, "--dry-run").well()
    assert f"{n_independent} independent and" in planned.err
    assert "because a large part of it is due to the false-positive rates" in planned.err
    youden(*words).well()
    plan = folder.read_plan()
    assert ((plan.trial_type == INDEPENDENT) & (plan.trials.step == 1)).sum() == n_independent
    assert len(plan) <= CALLS + n_calls
    assert not_none(not_none(folder.read_facts().rates).variance_share) < share

    # the config reproduces the plan of the extension, without a request
    n_requests = server.n_requests
    youden("run", "runs/r/config.yaml").well()
    assert server.n_requests == n_requests


@pytest.mark.slow
def test_a_half_width_that_the_default_division_cannot_reach_is_reached(
    youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    server.behave = answer_with_high_fpr
    folder = write_run_config(tmp_path, server)
    youden("judge", "r.yaml").well()
    youden("fit", "runs/r").well()
    plan = folder.read_plan()
    components = not_none(read_variance_components(folder))
    present = half_width_quantile(half_widths(components, int(plan.block.max()) + 1, J), 0.9)
    width = 0.75 * present

    # with the default division, the variance due to the rates falls only as fast as the number of paired trials grows
    assert find_min_blocks(components, width, fraction=0.9, n_items=J, max_blocks=(K - 1) * J) is None

    words = ("extend", "half-width", "runs/r", f"{width:.4f}")
    planned = json.loads(youden(*words, "--dry-run", "--json").well().out)
    assert planned["half_width"] == pytest.approx(width, rel=0.05)
    youden(*words).well()
    is_independent = folder.read_plan().trial_type == INDEPENDENT
    n_added_independent = is_independent.sum() - (plan.trial_type == INDEPENDENT).sum()
    assert n_added_independent > 2 * count_independent(planned["cost"]["calls"], K, is_first=False)

    reached = [(not_none(row.high) - not_none(row.low)) / 2 for row in folder.read_ranking()]
    assert half_width_quantile(np.array(reached), 0.9) < 0.5 * (width + present)


@pytest.mark.slow
def test_a_run_with_a_low_fpr_is_extended_by_the_default_division(
    youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    server.behave = lambda _n, body: Reply(same_item(body) if draw(body, 4) else "NO")
    folder = write_run_config(tmp_path, server)
    youden("judge", "r.yaml").well()
    youden("fit", "runs/r").well()
    planned = youden("extend", "calls", "runs/r", "240", "--dry-run").well()
    expected = add_calls(folder.read_plan(), calls=240)
    n_independent = int(
        (expected.trial_type == INDEPENDENT).sum() - (folder.read_plan().trial_type == INDEPENDENT).sum()
    )
    assert f"{n_independent} independent and" in planned.err
    assert "divided" not in planned.err


@pytest.mark.parametrize("n_focus", [0, 2])
def test_the_division_makes_the_fractions_of_calls_and_variance_equal(n_focus: int) -> None:
    division = CallDivision(rate_share=0.7, n_agents=12, n_paired=2700, n_independent=300)
    calls = 3000 if not n_focus else 500
    n_independent = division.count_independent(calls, n_focus=n_focus)
    scale = 12 / (2 * n_focus) if n_focus else 1
    n_paired_after = 2700 + scale * (calls - n_independent)
    n_independent_after = 300 + scale * n_independent
    rate_variance, paired_variance = 0.7 * 300 / n_independent_after, 0.3 * 2700 / n_paired_after
    fraction = n_independent_after / (n_paired_after + n_independent_after)
    assert rate_variance / (rate_variance + paired_variance) == pytest.approx(fraction, abs=0.01)


@pytest.mark.parametrize(("rate_share", "fpr", "expected"), [(0.6, 0.2, True), (0.4, 0.2, False), (0.6, 0.02, False)])
def test_only_high_rates_with_most_of_the_variance_change_the_division(
    rate_share: float, fpr: float, expected: bool
) -> None:
    assert has_dominant_rates(rate_share, fpr) == expected


def test_all_of_few_calls_are_independent_except_for_two_blocks() -> None:
    division = CallDivision(rate_share=0.9, n_agents=12, n_paired=2700, n_independent=300)
    assert division.count_independent(120) == 120 - 2 * 12
    assert division.count_independent(12) == count_independent(12, 12, is_first=False)
    assert division.forecast_width_ratio(division.n_calls_to_balance) < division.forecast_width_ratio(120) < 1


def test_rates_with_all_of_the_variance_do_not_multiply_the_calls() -> None:
    division = CallDivision(rate_share=1.0, n_agents=4, n_paired=96, n_independent=10)
    assert 0 < division.n_calls_to_balance < 2 * (96 + 10)


@pytest.mark.slow
def test_a_half_width_that_the_rates_prevent_is_not_blamed_on_the_items_alone(
    youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    server.behave = answer_with_high_fpr
    folder = write_run_config(tmp_path, server, half_width=0.05)
    ended = youden("run", "r.yaml").well()
    share = not_none(not_none(folder.read_facts().rates).variance_share)
    assert (
        "these items do not allow intervals as narrow as requested at the run's fraction of independent calls"
        in ended.err
    )
    assert f"without `half_width`: the false-positive rates account for {share:.0%} of the variance" in ended.err


@pytest.mark.slow
def test_a_plan_without_blocks_gets_no_advice_to_add_calls_of_all_agents(
    youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    server.behave = answer_with_high_fpr
    folder = write_run_config(tmp_path, server, design="column", independent="pooled")
    ended = youden("run", "r.yaml").well()
    assert find_call_division(folder.read_plan(), folder.read_facts()) is not None
    assert "next: " in ended.err
    assert "false-positive rates account" not in ended.err


def test_requested_independent_trials_are_drawn_in_addition_to_paired_blocks() -> None:
    plan = make_plan(make_pool(K, J), calls=200)
    extended = add_calls(plan, calls=300, independent=120)
    is_added = extended.trials.step == 1
    assert (extended.trial_type[is_added] == INDEPENDENT).sum() == 120
    assert is_added.sum() == 300
