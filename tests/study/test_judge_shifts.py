"""Test self-preference of judges for families: it is claimed only with evidence, and all other cases are explained."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from narrowing import not_none
from report_runs import with_values
from small_pools import answer_with, make_pool
from youden import make_plan
from youden.cli.results import iter_judges_tables
from youden.errors import ConfigError
from youden.study.agreement import JudgesStudy
from youden.study.judge_shift_text import describe_shifts
from youden.study.judge_shifts import JudgeShifts
from youden.study.judged_runs import AlignedRuns, JudgedRun
from youden.types import PAIRED, Plan
from youden.types.pool import plain_fields

POOL = make_pool(12, 20)
FAMILIES = {f"a{i}": "Own" if i in (1, 4, 7, 10) else "rest" for i in range(12)}
OWN = np.array([FAMILIES[f"a{i}"] == "Own" for i in range(12)])


def plan_of(*, calls: int = 1300) -> Plan:
    return make_plan(POOL, design="cyclic", calls=calls, independent="pooled:40", seed=1)


def judged(
    plan: Plan, name: str, *, seed: int, favor: float = 0.0, family: str | None = None, better: float = 0.0
) -> JudgedRun:
    """Answer yes with probability .3 plus more for better agents and `favor` per agent of the family Own."""
    rng = np.random.default_rng(seed)
    ability = np.linspace(0.2, 0, 12) + better * OWN
    chance = 0.3 + ability[plan.first] + ability[plan.second]
    chance += favor * (OWN[plan.first].astype(float) + OWN[plan.second])
    result = answer_with(plan, np.where(plan.trial_type == PAIRED, rng.random(len(plan)) < chance, 0.0).astype(float))
    return JudgedRun(name, plan.pool_digest, result.rates(), result, FAMILIES, family)


def align_runs(*, favor: float = 0.0, one: str | None = None, other: str | None = None) -> AlignedRuns:
    plan = plan_of()
    return AlignedRuns([judged(plan, "A", seed=1, family=one), judged(plan, "B", seed=2, favor=favor, family=other)])


def words(shifts: JudgeShifts) -> str:
    return " ".join(describe_shifts(shifts))


def test_a_judge_with_self_preference_is_detected_and_the_claim_is_relative() -> None:
    shifts = JudgeShifts(align_runs(favor=0.15, other="own "), 0, 1)
    own = next(row for row in shifts.families if row.family == "Own")
    assert own.favoured_by == ("B",)
    assert own.judges == ("B",)
    assert own.n_agents == 4
    assert not_none(own.low) > 0
    assert "B favors agents of its own family Own (4)" in words(shifts)
    assert "Run a third judge to decide" in words(shifts)
    assert "A's own family is unknown" in words(shifts)


def test_the_same_shift_is_attributed_to_the_judge_of_the_favored_family() -> None:
    shifts = JudgeShifts(align_runs(favor=0.15, one="Own", other="rest"), 0, 1)
    assert {row.family: row.favoured_by for row in shifts.families} == {"Own": (), "rest": ()}
    assert {row.level for row in shifts.families} == {0.95}
    turned = JudgeShifts(align_runs(favor=0.15, one="rest"), 0, 1)
    assert {row.family: row.favoured_by for row in turned.families} == {"Own": (), "rest": ("A",)}
    assert {row.level for row in turned.families} == {0.9}


def test_judges_that_always_agree_have_an_interval_of_positive_width() -> None:
    plan = plan_of()
    shifts = JudgeShifts(AlignedRuns([judged(plan, name, seed=1, family=name) for name in ("A", "Own")]), 0, 1)
    own = next(row for row in shifts.families if row.family == "Own")
    assert not_none(own.low) < -0.003
    assert not_none(own.high) > 0.003
    assert min(agent.high - agent.low for agent in shifts.agents) > 0.02
    assert "ρ of these agents is predicted as 1.00 (no interval: the shared answers allow no other order)." in words(
        shifts
    )


def test_without_a_preference_none_is_reported() -> None:
    shifts = JudgeShifts(align_runs(other="Own"), 0, 1)
    assert all(row.favoured_by == () for row in shifts.families)
    assert "No self-preference of B is shown" in words(shifts)
    assert "No agent shifts significantly" in words(shifts)
    assert not_none(shifts.rho).low <= not_none(shifts.rho).rho <= not_none(shifts.rho).high <= 1


def test_a_preference_for_a_family_at_one_end_is_confounded_with_a_curve() -> None:
    strongest = tuple("Own" if i < 4 else "rest" for i in range(12))
    shifts = JudgeShifts(with_values(align_runs(favor=0.15, other="Own"), families=strongest), 0, 1)
    own = next(row for row in shifts.families if row.family == "Own")
    assert not own.identifiable
    assert not_none(own.curve_share) > 0.25
    assert own.favoured_by == ()
    assert "cannot be distinguished from a nonlinear relation" in words(shifts)


@pytest.mark.slow
def test_measurement_error_does_not_hide_a_preference_for_a_low_family() -> None:
    """Errors flatten the curve: a strong family seems to be favored and a weak one disfavored, never the reverse."""
    plan, claimed = plan_of(calls=900), {}
    for better, favor in ((-0.08, 0.13), (0.08, 0.0)):
        claimed[better] = 0
        for seed in range(8):
            judge_a = judged(plan, "A", seed=2 * seed, better=better)
            judge_b = judged(plan, "B", seed=2 * seed + 1, better=better, favor=favor, family="Own")
            families = JudgeShifts(AlignedRuns([judge_a, judge_b]), 0, 1).families
            claimed[better] += next(row for row in families if row.family == "Own").favoured_by == ("B",)
    assert claimed[-0.08] >= 6
    assert claimed[0.08] == 0


@pytest.mark.slow
def test_a_judge_that_accepts_all_strong_agents_shows_no_preference(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ten strongest agents of ICLR, which judge A hardly separates; none is favored.

    Thirteen of 148 replays claimed a preference; in these, the answers of judge B alone group the family.
    """
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from recorded import load_recorded_answers
    from rejudge import Case, simulate

    world = load_recorded_answers("ICLR", shared)
    case = Case(domain="ICLR", plant="none", family=10, own_sd=0.0, noise="hard steps", place="strongest")
    for seed in (81022, 81025, 81031):
        result = simulate(case, world, seed=seed)
        assert result["curve_share"] < 0.1
        assert not result["claimed"]
        assert result["not_identifiable"]


def test_a_more_lenient_judge_shows_no_preference_for_weak_agents(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The five weakest agents of OPUS; none is favored.

    The first two replays claimed a preference by half of the allowance, the last one by errors common to all
    agents.
    """
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from recorded import load_recorded_answers
    from rejudge import Case, simulate

    world = load_recorded_answers("OPUS", shared)
    case = Case(domain="OPUS", plant="none", family=5, own_sd=0.0, noise="laxer steps", place="weakest")
    assert not any(simulate(case, world, seed=seed)["claimed"] for seed in (3006, 3011, 3093))


def test_untestable_preferences_are_reported() -> None:
    assert "No agent that both judged is of B's family, other" in words(JudgeShifts(align_runs(other="other"), 0, 1))
    shared = words(JudgeShifts(align_runs(favor=0.3, one="own", other="Own"), 0, 1))
    assert shared.count("are of one family, Own: a shared preference cannot be observed") == 1
    assert "favors" not in shared
    no_families = with_values(align_runs(other="Own"), families=(None,) * 12)
    assert "it needs agents of two families or more" in words(JudgeShifts(no_families, 0, 1))
    alone = with_values(align_runs(favor=0.5, other="solo"), families=("rest", "solo", *("rest",) * 10))
    single = JudgeShifts(alone, 0, 1)
    assert all(row.favoured_by == () for row in single.families)
    assert "too few on one side to claim a preference" in words(single)


def test_three_agents_have_no_testable_shift_and_a_note() -> None:
    plan = make_plan(make_pool(3, 30), design="cyclic", calls="50%", independent="pooled:20", seed=1)
    runs = []
    for name, seed in (("A", 1), ("B", 2)):
        result = answer_with(plan, np.random.default_rng(seed).integers(0, 2, len(plan)).astype(float))
        runs.append(JudgedRun(name, plan.pool_digest, result.rates(), result))
    study = JudgesStudy(AlignedRuns(runs))
    output = " ".join(study.summary)
    assert "Shifts of single agents between A and B cannot be tested: 3 agents" in output
    assert "shifts significantly" not in output
    assert not any("nan" in cell for table in iter_judges_tables(study) for row in table.rows for cell in row)


def test_families_given_as_options_apply_to_the_judges_of_the_study() -> None:
    plan = plan_of()
    runs = [judged(plan, "A", seed=1), judged(plan, "B", seed=2, favor=0.15)]
    assert JudgeShifts(AlignedRuns(runs, families={"B": "Own"}), 0, 1).families[0].favoured_by == ("B",)
    with pytest.raises(ConfigError, match=r"\[judge-family\]"):
        AlignedRuns(runs, families={"C": "Own"})


def test_the_study_has_shifts_as_json_or_states_the_reason() -> None:
    study = JudgesStudy(align_runs(favor=0.15, other="Own"))
    data = json.loads(json.dumps(plain_fields(study), allow_nan=False))["shifts"][0]
    assert data["n_trials"] == (plan_of().trial_type == PAIRED).sum()
    assert {agent["agent"] for agent in data["agents"]} == set(FAMILIES)
    assert data["families"][0]["favoured_by"] == ["B"]
    assert any("B favors" in line for line in study.summary)
    plan = plan_of(calls=100)
    few = JudgesStudy(AlignedRuns([judged(plan, "A", seed=1), judged(plan, "B", seed=2)]))
    assert few.shifts == [] or few.shifts[0].n_trials >= 24
    answers = answer_with(plan, np.full(len(plan), 0.5), missing=np.arange(len(plan)) > 12)
    none = JudgesStudy(AlignedRuns([judged(plan, "A", seed=1), JudgedRun("B", None, answers.rates(), answers)]))
    assert none.shifts == []
    assert any("Shifts of agents need 4 trials per agent" in line for line in none.summary)
