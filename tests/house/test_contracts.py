"""Test every registered object against its contract."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from small_pools import make_pool
from youden import make_plan
from youden.judging.backend_records import JUDGES, get_backend_record
from youden.judging.backends.lexical import Lexical
from youden.judging.call.connection import Connection
from youden.protocol.designs import DESIGNS
from youden.streams import standalone_stream
from youden.workflows.attacks import ATTACKS, plant_agents

BUILT_FROM_A_PLAN = {"lexical": Lexical}
NOT_INSTALLED = set() if find_spec("litellm") else {"litellm"}


@pytest.mark.parametrize("name", list(DESIGNS))
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_a_design_draws_eligible_pairs_deterministically_for_a_seed(name: str, share: float) -> None:
    make = DESIGNS.load(name)
    eligible = np.random.default_rng(3).random((7, 11)) < share
    trials, again = (
        make(n_paired=None if name == "dense" else 120).draw(eligible, np.random.default_rng(5)).trials for _ in "ab"
    )
    assert make.name == name
    assert 0 <= make.default_holdout < 1
    assert isinstance(make.plans_holdout, bool)
    assert make.default_trials_per_agent is None or make.default_trials_per_agent > 0
    assert (trials.first != trials.second).all()
    assert eligible[trials.first, trials.item].all()
    assert eligible[trials.second, trials.item].all()
    for column, same in zip(trials.columns().values(), again.columns().values(), strict=True):
        assert column.dtype in (np.int32, np.int8, np.float64)
        assert np.array_equal(column, same)


@pytest.mark.parametrize(
    "name", [name for name in JUDGES if get_backend_record(name).makes_calls and name not in NOT_INSTALLED]
)
async def test_a_judge_with_calls_is_built_from_a_connection_and_closes_it(name: str) -> None:
    judge = JUDGES.load(name)(Connection("tested", "http://127.0.0.1:9/v1", 1.0, api_key="planted-key"))
    assert judge.name == "tested"
    assert callable(judge.answer)
    assert "planted-key" not in repr(judge)
    await judge.aclose()


@pytest.mark.parametrize("name", sorted(BUILT_FROM_A_PLAN))
@pytest.mark.parametrize("design", list(DESIGNS))
def test_a_plan_judge_answers_every_trial_between_0_and_1(name: str, design: str) -> None:
    pool = make_pool(6, 12)
    calls = "60%" if design == "cyclic" else None
    plan = make_plan(pool, design=design, holdout=0.0, calls=calls, independent="pooled:20")
    result = BUILT_FROM_A_PLAN[name]().answer_many(plan)
    assert result.judge["name"] == name
    assert len(result) == len(plan)
    assert result.answered.all()
    assert ((result.answer >= 0) & (result.answer <= 1)).all()
    assert set(np.unique(result.hard_answer)) <= {0.0, 1.0}


def test_every_registered_judge_is_of_a_tested_kind() -> None:
    assert {name for name in JUDGES if not get_backend_record(name).makes_calls} == {
        *BUILT_FROM_A_PLAN,
        "jury",
        "replay",
    }


@pytest.mark.parametrize("name", [name for name in JUDGES if name not in NOT_INSTALLED | {"replay"}])
def test_makes_calls_is_correct_and_determined_without_importing_the_judge(name: str) -> None:
    assert get_backend_record(name).makes_calls != hasattr(JUDGES.load(name), "answer_many")


@pytest.mark.parametrize("name", list(ATTACKS))
def test_an_attack_plants_one_text_per_item_deterministically_for_a_seed(name: str) -> None:
    attack = ATTACKS.load(name)
    pool = make_pool(6, 12, present=np.random.default_rng(3).random((6, 12)) < 0.9, prompt=attack.needs_prompts)
    entry, again = (plant_agents(pool, attack, base_agent=2, rng=standalone_stream(5)).pool for _ in "ab")
    assert entry.n_agents > 6
    assert entry.digest == again.digest
    assert all(isinstance(text, str) for text in entry.texts[6:].ravel())
    assert len({agent.id for agent in entry.agents}) == entry.n_agents
    assert 0 < len(attack.description) < 100
