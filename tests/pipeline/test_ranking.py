"""Test `youden.rank`, and that other functions rank alike."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Unpack

import numpy as np
import pandas as pd
import pytest

import youden
from narrowing import not_none, untyped
from plan_options import PlanOptions
from small_pools import answer_with, make_pool
from worlds import analyzed, verdicts
from youden import make_plan
from youden.errors import StatisticsError
from youden.pipeline import abilities
from youden.pipeline.abilities import TRIAL_MEAN, Abilities
from youden.pipeline.additive_abilities import estimate_cell_abilities, fit_cells
from youden.pipeline.ranking import RankMethod, trial_abilities_from_verdicts
from youden.protocol.extension import add_agents
from youden.stats.trials.agent_rates import AgentRates
from youden.study.budget_curves import estimate_abilities
from youden.study.replaying import RecordedAnswers, make_recorded_answers, replay
from youden.types import INDEPENDENT, MISSING_REASONS, PAIRED, Pool, Verdicts
from youden.types.columns import Meaning
from youden.types.facts import RankingRow
from youden.types.pool import Positions
from youden.types.trials import PROBE

SOURCE = Path(youden.__file__).parent
RANKING_COLUMNS = [
    "agent",
    "group",
    "ability",
    "low",
    "high",
    "simultaneous_rank_low",
    "simultaneous_rank_high",
    "n_trials",
    "std_error",
    "rank_low",
    "rank_high",
    "n_unanswered",
    "target",
    *(
        f"robust_{name}"
        for name in (
            "ability",
            "low",
            "high",
            "simultaneous_rank_low",
            "simultaneous_rank_high",
            "std_error",
            "rank_low",
            "rank_high",
        )
    ),
]
"""Public columns: a new one is added here."""


def gappy_pool(n_agents: int = 8, n_items: int = 20) -> Pool:
    present = np.random.default_rng(1).random((n_agents, n_items)) > 0.3
    return make_pool(n_agents, n_items, present=present)


def some_missing(result: Verdicts) -> Verdicts:
    missing = np.random.default_rng(2).random(len(result)) < 0.2
    return answer_with(result.plan, result.answer, missing=missing)


def of_two_groups() -> Verdicts:
    """Return trials within agents 0–3 on items 0–9 and within 4–7 on items 10–19, which are not linked."""
    complete = verdicts(make_pool(8, 20), design="cyclic", calls="60%")
    plan = complete.plan
    left, low = plan.first < 4, plan.item < 10
    across = (plan.trial_type == PAIRED) & ((left != (plan.second < 4)) | (left != low))
    return answer_with(plan, complete.answer, missing=across)


def of_a_run_that_grew() -> Verdicts:
    large = make_pool(11, 20)
    small = Pool(large.agents[:8], large.items, large.texts[:8], name="small")
    plan = add_agents(make_plan(small, design="cyclic", calls="20%", seed=1), large)
    return answer_with(plan, np.random.default_rng(3).random(len(plan)))


RESULTS = {
    "cyclic": lambda: verdicts(make_pool(8, 20), design="cyclic", calls="20%"),
    "matched": lambda: verdicts(make_pool(8, 20), design="cyclic", calls="20%", independent="matched"),
    "missing": lambda: some_missing(verdicts(make_pool(8, 20), design="cyclic", calls="20%")),
    "gaps": lambda: verdicts(gappy_pool(), design="cyclic", calls="20%"),
    "holdout": lambda: verdicts(make_pool(8, 20), design="cyclic", calls="20%", holdout=0.2),
    "adaptive": lambda: verdicts(make_pool(8, 20), design="adaptive", calls="20%"),
    "dense": lambda: verdicts(make_pool(8, 20), design="dense"),
    "cells": lambda: verdicts(make_pool(8, 20), design="nlogn"),
    "apart": of_two_groups,
    "grown": of_a_run_that_grew,
}


@dataclass(frozen=True)
class RowWithIndependent(RankingRow):
    """A ranking with one more column."""

    n_independent: Annotated[int, Meaning("number of independent trials of the agent")] = 0


@dataclass(frozen=True)
class RowWithWords(RankingRow):
    """A ranking with a value of the texts, which pool.json contains."""

    mean_words: Annotated[float | None, Meaning("mean number of words of the agent's responses")] = None


def test_the_columns_of_a_ranking_are_public() -> None:
    assert list(youden.rank(RESULTS["cyclic"]()).columns) == RANKING_COLUMNS


def test_a_new_column_needs_a_declaration_and_a_value_of_the_abilities(monkeypatch: pytest.MonkeyPatch) -> None:
    def count_independent(estimate: Abilities) -> Positions:
        return estimate.rates.n_trials.astype(np.int64)

    monkeypatch.setattr(abilities, "RankingRow", RowWithIndependent)
    monkeypatch.setattr(Abilities, "n_independent", property(count_independent), raising=False)
    result = RESULTS["missing"]()
    plan = result.plan
    is_counted = (plan.trial_type == INDEPENDENT) & (plan.role != PROBE) & result.answered
    expected = np.bincount(np.append(plan.first[is_counted], plan.second[is_counted]), minlength=plan.n_agents)
    table = youden.rank(result).set_index("agent")
    assert table.loc[list(plan.agent_ids), "n_independent"].tolist() == expected.tolist()


def test_a_value_of_the_texts_is_a_column_of_rank_and_of_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abilities, "RankingRow", RowWithWords)
    pool = make_pool(8, 20)
    texts = pool.texts.copy()
    texts[0] = [f"only {n}" for n in range(pool.n_items)]
    result = verdicts(replace(pool, texts=texts), design="cyclic", calls="20%")
    for table in (youden.rank(result), analyzed(result).ranking):
        assert table.set_index("agent")["mean_words"].to_dict() == {"a0": 2.0} | dict.fromkeys(
            result.plan.agent_ids[1:], 7.0
        )


def test_unanswered_trials_are_counted_for_both_agents_of_a_pair() -> None:
    result = RESULTS["missing"]()
    plan = result.plan
    is_unanswered = (plan.trial_type == PAIRED) & ~result.answered
    expected = np.bincount(np.append(plan.first[is_unanswered], plan.second[is_unanswered]), minlength=plan.n_agents)
    assert expected.any()
    table = youden.rank(result).set_index("agent")
    assert table.loc[list(plan.agent_ids), "n_unanswered"].tolist() == expected.tolist()


def test_an_unanswered_self_trial_counts_once() -> None:
    rows = [("a", f"q{n}", repeat, f"text {n} {repeat}") for n in range(8) for repeat in (1, 2)]
    frame = pd.DataFrame(rows, columns=["agent", "item", "repeat", "text"])
    plan = youden.make_plan(youden.read_pool(frame))
    answers = iter(range(len(plan)))
    result = youden.judge(plan, judge=lambda a, b: None if next(answers) % 4 == 0 else True, max_missing=0.9)
    n_paired = int((plan.trial_type == PAIRED).sum())
    row = youden.rank(result).iloc[0]
    assert row["n_unanswered"] > 0
    assert row["n_trials"] + row["n_unanswered"] == n_paired


@pytest.mark.parametrize(("reason", "counts"), [("pending", False), ("not_asked", True)])
def test_pending_trials_are_not_unanswered_and_trials_that_cannot_be_sent_are(reason: str, counts: bool) -> None:
    result = RESULTS["missing"]()
    code = np.int8(MISSING_REASONS.index(reason))
    changed = replace(result, missing_reason=np.where(result.answered, 0, code).astype(np.int8))
    assert bool(youden.rank(changed)["n_unanswered"].sum()) is counts


def test_rank_uses_the_named_estimator() -> None:
    cyclic, dense = RESULTS["cyclic"](), RESULTS["dense"]()
    cases: tuple[tuple[Verdicts, RankMethod, RankMethod], ...] = (
        (cyclic, "trial-mean", "additive-fit"),
        (dense, "additive-fit", "trial-mean"),
    )
    for result, automatic, explicit in cases:
        table = youden.rank(result)
        pd.testing.assert_frame_equal(youden.rank(result, method=automatic), table)
        assert youden.rank(result, method=explicit).attrs["method"] != table.attrs["method"]
    assert youden.rank(cyclic).attrs["method"].startswith(f"{TRIAL_MEAN}; ")
    assert youden.rank(dense, method="trial-mean").low.isna().all()
    with pytest.raises(StatisticsError, match=r"got 'mean'.*additive-fit\. \[rank-method\]"):
        untyped(youden.rank)(dense, method="mean")


def nearly_always_right(**plan: Unpack[PlanOptions]) -> Verdicts:
    """Return six agents that match on nearly every item, the last two on 4 items of 5, and never across items."""
    options: PlanOptions = {"holdout": 0.0, **plan}
    created = make_plan(make_pool(6, 40), seed=2, **options)
    slips = np.random.default_rng(4).random((6, 40)) < np.array([0, 0, 0.02, 0.02, 0.2, 0.2])[:, None]
    slipped = slips[created.first, created.item] | slips[created.second, created.item]
    return answer_with(created, ((created.trial_type == PAIRED) & ~slipped).astype(float))


AT_THE_TOP: dict[str, PlanOptions] = {
    "everything": {"design": "dense"},
    "a fifth held out": {"design": "dense", "holdout": 0.2},
    "blocks": {"design": "cyclic", "calls": "60%"},
    "cells": {"design": "nlogn"},
    "rounds": {"design": "adaptive", "calls": "60%"},
}


@pytest.mark.parametrize("name", AT_THE_TOP)
def test_all_designs_agree_on_the_mean_score_and_abilities_stay_in_range(name: str) -> None:
    every = nearly_always_right(design="dense")
    truth = float(every.answer[every.plan.trial_type == PAIRED].mean())
    result = nearly_always_right(**AT_THE_TOP[name])
    table = youden.rank(result)
    assert table["ability"].between(-1, 1).all()
    assert table["ability"].mean() == pytest.approx(truth, abs=1e-9 if name == "everything" else 0.02)


def test_the_mean_score_of_an_unlinked_component_is_that_of_its_own_answers() -> None:
    complete = nearly_always_right(design="dense")
    plan, left = complete.plan, complete.plan.first < 3
    across = (plan.trial_type == PAIRED) & ((left != (plan.second < 3)) | (left != (plan.item < 20)))
    table = youden.rank(answer_with(plan, complete.answer, missing=across)).set_index("agent")["ability"]
    for agents, rows in (([0, 1, 2], left), ([3, 4, 5], ~left)):
        asked = rows & (plan.trial_type == PAIRED) & ~across
        assert table[[plan.agent_ids[i] for i in agents]].mean() == pytest.approx(
            complete.answer[asked].mean(), abs=0.02
        )
    assert table.between(-1, 1).all()


@pytest.mark.parametrize("name", ["matched", "missing", "gaps", "holdout", "dense", "cells", "apart"])
def test_rank_agrees_with_the_complete_analysis(name: str) -> None:
    result = RESULTS[name]()
    complete = analyzed(result)
    table = youden.rank(result)
    assert table.attrs["warnings"] == list(complete.facts.warnings)
    pd.testing.assert_frame_equal(table, complete.ranking, rtol=0, atol=1e-12)


def test_unlinked_agents_are_not_ranked_against_each_other() -> None:
    table = youden.rank(of_two_groups())
    assert any("2 components" in line.message for line in table.attrs["warnings"])
    assert (table.simultaneous_rank_high >= 5).all()


WAYS = {
    "cyclic": (
        "pipeline/interim_analyses",
        "pipeline/linked_abilities",
        "pipeline/additive_abilities",
        "pipeline/multi_judge",
        "stats/additive",
    ),
    "adaptive": ("pipeline/linked_abilities", "stats/additive/solver"),
    "grown": ("pipeline/multi_judge", "stats/additive"),
    "dense": ("pipeline/multi_judge", "stats/additive/solver", "stats/additive/clipped_linear"),
    "cells": ("pipeline/multi_judge", "stats/additive/solver", "stats/additive/clipped_linear"),
}
"""Functions that do not run when a plan is ranked."""


@pytest.mark.parametrize("name", WAYS)
def test_a_plan_is_ranked_by_its_own_estimator_only_without_measuring_curl(name: str) -> None:
    result = RESULTS[name]()
    entered: set[str] = set()

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add(frame.f_code.co_filename)

    youden.rank(result)
    sys.setprofile(enter)
    try:
        youden.rank(result)
    finally:
        sys.setprofile(None)
    rooms = {path.relative_to(SOURCE).as_posix() for path in map(Path, entered) if path.is_relative_to(SOURCE)}
    assert "pipeline/ranking.py" in rooms
    assert not [room for room in rooms if room.startswith(("stats/curl", *WAYS[name]))]


def test_an_unconverged_fit_is_reported_with_its_abilities() -> None:
    scores, model = fit_cells(of_two_groups().rates().training_scores())
    rates = AgentRates.unknown(8)
    assert "not converged" not in estimate_cell_abilities(model, scores, rates=rates).method
    model.status_ = "not_converged"
    assert estimate_cell_abilities(model, scores, rates=rates).method.endswith(", not converged")


def gappy_world() -> RecordedAnswers:
    return make_recorded_answers(verdicts(gappy_pool(), design="dense").rates(), difference_only=False)


@pytest.mark.parametrize("design", ["cyclic", "nlogn", "adaptive"])
@pytest.mark.parametrize("gaps", [True, False])
def test_the_budget_study_ranks_like_rank(design: str, gaps: bool) -> None:
    world = gappy_world() if gaps else make_recorded_answers(verdicts(make_pool(8, 20)).rates(), difference_only=False)
    plan = make_plan(world.pool, design=design, calls="50%", holdout=0.0, seed=4)
    result = replay(plan, world)
    table = youden.rank(result).set_index("agent").loc[list(plan.agent_ids)]
    abilities = estimate_abilities(result, kind="symmetric")
    for column, tried in (("ability", abilities.ability), ("low", abilities.low), ("high", abilities.high)):
        np.testing.assert_array_equal(table[column], tried)


def test_an_agent_without_answers_on_hard_items_does_not_rank_higher() -> None:
    plan = make_plan(make_pool(8, 40), design="cyclic", calls="20%", seed=0)
    rng = np.random.default_rng(0)
    easy = 0.25 * rng.standard_normal(40)
    paired = plan.trial_type == PAIRED
    answer = np.where(paired, rng.random(len(plan)) < 0.5 + easy[plan.item], 0.0).astype(float)
    lost = paired & ((plan.first == 0) | (plan.second == 0)) & np.isin(plan.item, np.argsort(easy)[:12])
    of = [answer_with(plan, answer, missing=missing) for missing in (np.zeros_like(lost), lost)]
    complete, part = (youden.rank(result).set_index("agent").ability for result in of)
    assert abs((part - complete)["a0"]) < 0.04


def test_a_run_stopped_after_complete_blocks_is_ranked_by_means() -> None:
    complete = verdicts(make_pool(8, 20), design="cyclic", calls="20%")
    plan = complete.plan
    part = answer_with(plan, complete.answer, missing=plan.block > plan.block.max() // 2)
    abilities = not_none(trial_abilities_from_verdicts(part))
    assert abilities.ranking == TRIAL_MEAN
