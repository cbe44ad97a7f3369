"""A stress test up to its trials: who attacks, what would be asked, and what that costs, before anything is spent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from youden.data.folder.run_config import RunConfig, with_usual_store
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.reader import read_pool
from youden.errors import ConfigError, RunFolderError
from youden.judging.asking.stopping import run_until_stopped
from youden.judging.asking.terms import Asking, check_cap
from youden.judging.config.reading import JudgeConfig, load_judge_config
from youden.judging.estimate import estimate
from youden.nouns import Cost, Json, Plan, Pool
from youden.practice.stress.attack import Attack, Planted, plant
from youden.practice.stress.attacks import ATTACKS
from youden.practice.stress.planting import attacked_plan
from youden.practice.stress.standing import abilities
from youden.protocol.columns import plan_rows
from youden.protocol.plan import make_plan
from youden.run.pipeline import ask
from youden.streams import stream
from youden.text.near import near

FREE_CALLS = 60_000
"""Paired calls of the plan where the judge makes no calls and nobody names a number."""


@dataclass(frozen=True, eq=False)
class PlannedAttack:
    """One attack, planted. cost: of what only this attack asks; None, and why, where it cannot be planted."""

    name: str
    attack: Attack
    planted: Planted | None
    plan: Plan | None
    cost: Cost | None
    why_not: str | None = None


@dataclass(frozen=True, eq=False)
class PlannedStress:
    """Everything before anything is asked.

    weak: position of the agent whose answers attackers start from; because: why it, in words. store: where answers are kept.
    families: by agent. cost: of the plan without an attack.
    """

    name: str
    pool: Pool
    plan: Plan
    judge: JudgeConfig
    store: str
    weak: int
    because: str
    families: Mapping[str, str]
    attacks: tuple[PlannedAttack, ...]
    cost: Cost
    max_cost: float | None

    @property
    def n_new(self) -> int:
        """Calls that no store answers yet."""
        return sum(cost.calls - cost.stored for cost in self.costs)

    @property
    def costs(self) -> tuple[Cost, ...]:
        return (self.cost, *(one.cost for one in self.attacks if one.cost is not None))

    def to_json(self) -> dict[str, Json]:
        """What would be asked, as one JSON object."""
        return {
            "name": self.name,
            "judge": self.judge.name,
            "weak": self.pool.agents[self.weak].id,
            "because": self.because,
            "new_calls": self.n_new,
            "usd": self.usd_left,
            "attacks": [
                {
                    "attack": one.name,
                    "what": one.attack.what,
                    "new_calls": None if one.cost is None else one.cost.calls - one.cost.stored,
                    "usd": None if one.cost is None else _left(one.cost),
                    "why_not": one.why_not,
                }
                for one in self.attacks
            ],
        }

    @property
    def usd_left(self) -> float | None:
        """What the new calls cost together; None where a price is unknown."""
        left = [cost.usd if cost.usd_left is None else cost.usd_left for cost in self.costs]
        return None if None in left else float(sum(usd for usd in left if usd is not None))


@dataclass(frozen=True, eq=False)
class _Source:
    name: str
    pool: Pool
    plan: Plan
    judge: JudgeConfig
    store: str
    ranked: tuple[str, ...]
    """Agents, best first, where a run has ranked them by this judge."""
    families: Mapping[str, str]


def plan_stress(
    source: Path,
    *,
    judge: str | None = None,
    attacks: Sequence[str] = (),
    attacker: str | None = None,
    calls: int | None = None,
    seed: int = 0,
    store: str | None = None,
    usual_store: str | None = None,
    max_cost: float | None = None,
) -> PlannedStress:
    """Plant every attack (or those named) in a pool, or in the pool of a judged run.

    judge: as in a run's config; None for the run's own, and `lexical` for a pool. attacker: the agent whose answers attackers
    start from; None for the last of the ranking, and for the one of fewest words where ranking would cost. calls: of both arms,
    of a pool's plan; a run keeps its own. usual_store: where answers are kept when neither `store` nor the run says it.

    Raises: ConfigError [unknown-attack], listing them, [attack-prompts], [stress-attacker], [stress-calls];
    RunFolderError [stress-import], [stress-texts]; as pools, plans and judges do.
    """
    names = _known(attacks)
    found = _source(source, judge=judge, calls=calls, seed=seed, store=store, usual_store=usual_store)
    weak, because = _weak(found, attacker)
    cost = estimate(found.plan, found.pool, found.judge, store=found.store)
    planned = [_planned(found, name, weak=weak, number=number, seed=seed) for number, name in enumerate(names)]
    if attacks:
        for one in planned:
            if one.why_not is not None:
                raise ConfigError(f"The attack '{one.name}' cannot be planted: {one.why_not}", slug="attack-prompts")
    return PlannedStress(
        found.name,
        found.pool,
        found.plan,
        found.judge,
        found.store,
        weak=weak,
        because=because,
        families=found.families,
        attacks=tuple(planned),
        cost=cost,
        max_cost=max_cost,
    )


def _known(asked: Sequence[str]) -> tuple[str, ...]:
    known = tuple(ATTACKS)
    for name in asked:
        if name not in known:
            raise ConfigError(
                f"There is no attack called '{name}'. {near(name, known, most=len(known))}", slug="unknown-attack"
            )
    return tuple(dict.fromkeys(asked)) or known


def _source(
    source: Path, *, judge: str | None, calls: int | None, seed: int, store: str | None, usual_store: str | None
) -> _Source:
    folder = RunFolder(source)
    if folder.has("pool.json"):
        return _of_run(folder, judge=judge, calls=calls, store=store, usual_store=usual_store)
    pool, config = read_pool(source), load_judge_config(judge or "lexical")
    if calls is None and not config.makes_calls:
        calls = min(FREE_CALLS, pool.n_agents * (pool.n_agents - 1) * pool.n_items)
    name = re.sub(r"[^\w .+-]", "-", source.resolve().stem).lstrip(" .+-")[:100] or "pool"
    place = RunConfig(name=name, pool=str(source), store=store or usual_store).store_place
    return _Source(
        pool.name, pool, make_plan(pool, calls=calls, holdout=0.0, seed=seed), config, place, (), _families(pool)
    )


def _of_run(
    folder: RunFolder, *, judge: str | None, calls: int | None, store: str | None, usual_store: str | None
) -> _Source:
    if not folder.has("plan.parquet"):
        raise RunFolderError(
            f"{folder.path} was imported and holds no texts, and attacks are texts. Give the pool of its texts instead: "
            "youden stress POOL.",
            slug="stress-import",
        )
    if calls is not None:
        raise ConfigError(
            f"--calls {calls} was given, but {folder.path} is a run, which keeps its own trials. Leave it out.",
            slug="stress-calls",
        )
    config, plan, pool = folder.read_config(), folder.read_plan(), folder.run_pool()
    if pool.digest != plan.pool_digest:
        raise RunFolderError(
            f"The pool of {folder.path} has changed since it was planned. Give the pool itself: youden stress POOL.",
            slug="stress-texts",
        )
    own = judge is None or judge == config.judge
    ranked = [row for row in folder.read_ranking() if row.ability is not None] if folder.has("ranking.csv") else []
    return _Source(
        folder.path.resolve().name,
        pool,
        plan,
        load_judge_config(judge or config.judge),
        store or with_usual_store(config, usual_store).store_place,
        tuple(row.agent for row in ranked) if own else (),
        config.families or _families(pool),
    )


def _families(pool: Pool) -> dict[str, str]:
    """What agents say in `meta.family`."""
    said = ((agent.id, agent.meta.get("family")) for agent in pool.agents)
    return {agent: family for agent, family in said if isinstance(family, str) and family}


def _weak(found: _Source, attacker: str | None) -> tuple[int, str]:
    ids = [agent.id for agent in found.pool.agents]
    if attacker is not None:
        if attacker not in ids:
            raise ConfigError(
                f"There is no agent '{attacker}' in this pool to attack with. {near(attacker, ids)}",
                slug="stress-attacker",
            )
        return ids.index(attacker), "named by you"
    if found.ranked:
        return ids.index(found.ranked[-1]), "the last of the run's ranking"
    if not found.judge.makes_calls and not found.judge.needs_store:
        asking = ask(found.plan, found.pool, judge=found.judge, store=None, asking=Asking())
        ability = abilities(run_until_stopped(asking), families={})["plain"]
        return int(np.nanargmin(ability)), "the last of the ranking"
    n_words = [sum(len((text or "").split()) for text in row) for row in found.pool.texts]
    return int(np.argmin(n_words)), "the agent of fewest words, for nobody is ranked yet"


def _planned(found: _Source, name: str, *, weak: int, number: int, seed: int) -> PlannedAttack:
    attack = ATTACKS.load(name)
    n_without = sum(not item.prompt for item in found.pool.items)
    if attack.needs_prompts and n_without == found.pool.n_items:
        return PlannedAttack(name, attack, None, None, None, "It takes the items' prompts, and this pool has none.")
    rng = stream("attackers", seed, number)
    try:
        planted = plant(found.pool, attack, weak=weak, rng=rng)
    except ConfigError as error:
        return PlannedAttack(name, attack, None, None, None, str(error))
    plan = attacked_plan(found.plan, planted, rng=rng)
    new = plan_rows(plan, np.arange(len(found.plan), len(plan)), planted.pool)
    return PlannedAttack(name, attack, planted, plan, estimate(new, planted.pool, found.judge, store=found.store))


def check_cost(stress: PlannedStress) -> None:
    """Whether the cap covers what is expected. Raises: ConfigError [stress-cost]; as `check_cap`."""
    check_cap([stress.judge], stress.max_cost)
    usd = stress.usd_left
    if stress.max_cost is None or usd is None or usd <= stress.max_cost:
        return
    named = [(one.name, one.cost) for one in stress.attacks if one.cost is not None]
    each = ", ".join(f"{name} ${_left(cost):,.4f}" for name, cost in sorted(named, key=lambda pair: _left(pair[1])))
    raise ConfigError(
        f"These attacks would cost about ${usd:,.4f} ({stress.n_new:,} new calls), more than the cap of ${stress.max_cost:g}; "
        f"nothing was asked. The pool without an attack ${_left(stress.cost):,.4f}; {each}. "
        "Raise --max-cost, or choose some with --attack NAME.",
        slug="stress-cost",
    )


def _left(cost: Cost) -> float:
    return (cost.usd if cost.usd_left is None else cost.usd_left) or 0.0
