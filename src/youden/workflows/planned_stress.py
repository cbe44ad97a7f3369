"""A stress test up to its trials: who attacks, what would be asked, what that costs, and where agents stand by what was
answered, before anything is spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm
from pathlib import Path
from typing import NamedTuple

import numpy as np

from youden.data.folder.run_config import with_usual_store
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import read_pool
from youden.errors import ConfigError, RunFolderError
from youden.judging.config.judge_files import load_judge_config, load_judge_of_run
from youden.pipeline.alternative_rankings import AllAnswers, family_labels, links_of
from youden.protocol.independent import characters, draw_probes, pooled
from youden.protocol.plan import make_plan
from youden.stats.base.clusters import PairBlock
from youden.stats.partners import PairTotals, group_balanced, reweighted
from youden.stats.trials.comparisons import tied_places
from youden.streams import stream
from youden.text.sentences import near
from youden.types import INDEPENDENT, PAIRED, Plan, Pool, Trials, Verdicts
from youden.types.planning import Split
from youden.types.pool import Floats, Ids, Json
from youden.workflows.attacks import ATTACKS, Attack, Planted, plant
from youden.workflows.experiment import Experiment, asked_under, config_of_pool, plan_experiment


@dataclass(frozen=True)
class AttackPlace:
    """Where a ranking puts the planted agents, and what it does to the others.

    place: of the best of them, 1 is first, half places are ties; of: how many places there are, the weak agent's taken by them.
    shift: places that another agent moves among the others, in the mean; most, moved: the largest move, and whose.
    """

    place: float
    of: int
    shift: float
    most: int
    moved: str | None


def abilities(
    result: Verdicts, *, families: Mapping[str, str], clones: Sequence[Sequence[str]] = ()
) -> dict[str, Floats]:
    """float[K] for each way of ranking, higher is better, NaN for whom nobody that counts has scored.

    plain: every partner counts alike. robust: agents of a cluster of linked pairs, or of clones, do not score each other and
    count as one partner. family-balanced, where there are two families: the same of families; who has none is one by itself.
    Each is a mean over partners of the mean answer to the pair, items' own means taken off. False positives stay in: they
    shift all alike.

    families: by agent. clones: ids of agents whose texts are the same, group by group.
    """
    plan = result.plan
    used = (plan.arm == PAIRED) & result.answered
    block = PairBlock.of(plan.item, plan.first, plan.second, result.answer, n_items=plan.n_items, rows=used)
    of = AllAnswers(lambda: [block], PairTotals.of([block], plan.n_agents))
    groups = {"plain": np.arange(plan.n_agents, dtype=np.int32)}
    groups["robust"] = links_of(of.totals, plan.agent_ids, clones=clones).cluster
    if len(set(families.values())) > 1:
        groups["family-balanced"] = family_labels(families, plan.agent_ids)
    return {name: _scored(of, group) for name, group in groups.items()}


def _scored(of: AllAnswers, group: Ids) -> Floats:
    if len(np.unique(group)) < 2:
        return np.full(len(group), np.nan)
    return reweighted(of.blocks, of.totals, group_balanced(group)).ability


def land(before: Floats, after: Floats, *, weak: int, ids: tuple[str, ...]) -> AttackPlace | None:
    """before: float[K], without the attack; after: float[K + m], the planted agents last. ids: of the K.

    None where nothing ranks them, as where all agents are linked to each other.
    """
    K = len(before)
    others = (np.arange(K) != weak) & ~np.isnan(before) & ~np.isnan(after[:K])
    known = after[K:][~np.isnan(after[K:])]
    if not len(known) or not others.any():
        return None
    best, rest = known.max(), after[:K][others]
    moved = np.abs(tied_places(before[others]) - tied_places(rest))
    most = int(np.argmax(moved))
    return AttackPlace(
        place=1 + int((rest > best).sum()) + int((rest == best).sum()) / 2,
        of=int(others.sum()) + 1,
        shift=float(moved.mean()),
        most=int(moved[most]),
        moved=ids[int(np.flatnonzero(others)[most])] if moved[most] > 0 else None,
    )


def place_of(ability: Floats, agent: int) -> int | None:
    """An agent's place, 1 is first; None where nothing ranks it."""
    return None if np.isnan(ability[agent]) else int(tied_places(ability)[agent])


PASSES = 10
"""An attacker takes part in 20 independent trials, and in those that look unusually alike."""


def attacked_plan(base: Plan, planted: Planted, *, rng: np.random.Generator) -> Plan:
    """`base` on the attacked pool: its own trials first, as they were, then those of the planted agents.

    A planted agent meets everybody, its fellows too, as often as the plan's agents meet each other: so it is a partner like any
    other, and nothing that was answered is asked again. Its pairs stand on the items in turn.
    """
    pool = planted.pool
    paired = _paired(base, planted, rng)
    apart = _independent(base, planted, rng)
    own = replace(base.trials.anew(), slot=np.full(len(base), -1, dtype=np.int32))
    trials = Trials.concat([own, paired, apart]).counted()
    present = pool.present
    return Plan(
        trials=trials,
        split=Split(present, np.zeros_like(present), "shared", 0.0, base.seed),
        design="stress",
        options={},
        independent="pooled",
        seed=base.seed,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=base.item_ids,
        n_independent=int((trials.arm == INDEPENDENT).sum()),
        characters=characters(pool, trials),
        source=pool,
    )


def _paired(base: Plan, planted: Planted, rng: np.random.Generator) -> Trials:
    K, J = base.n_agents, base.n_items
    meetings = int((base.arm == PAIRED).sum()) / (K * (K - 1) / 2)
    pairs = np.array([(a, k) for a in planted.agents for k in range(a)], dtype=np.int32)
    pairs = rng.permutation(pairs)
    n = min(round(meetings * len(pairs)), len(pairs) * J)
    t = np.arange(n)
    first, second = pairs[t % len(pairs)].T
    item = rng.permutation(J).astype(np.int32)[(t + t // lcm(len(pairs), J)) % J]
    turned = (t // len(pairs) + rng.integers(2, size=len(pairs))[t % len(pairs)]) % 2 == 1
    first, second = np.where(turned, second, first), np.where(turned, first, second)
    there = planted.pool.present[first, item] & planted.pool.present[second, item]
    return Trials.paired(item, first, second).take(there)


def _independent(base: Plan, planted: Planted, rng: np.random.Generator) -> Trials:
    """Independent trials of the planted agents; none where the plan has none."""
    if not (base.arm == INDEPENDENT).any():
        return Trials.concat([])
    pool = planted.pool
    drawn = [pooled(pool.present, PASSES * pool.n_agents, rng)]
    drawn.append(draw_probes(pool, pool.present, PASSES * pool.n_agents, rng))
    trials = Trials.concat(drawn)
    return trials.take(np.isin(trials.first, planted.agents) | np.isin(trials.second, planted.agents))


FREE_CALLS = 60_000
"""Paired calls of the plan where the judge makes no calls and nobody names a number."""


@dataclass(frozen=True, eq=False)
class PlannedAttack:
    """One attack, planted. experiment: the plan with it, at the cost of what only this attack asks; None, and why, where it
    cannot be planted."""

    name: str
    attack: Attack
    planted: Planted | None = None
    experiment: Experiment | None = None
    why_not: str | None = None


@dataclass(frozen=True, eq=False)
class PlannedStress:
    """Everything before anything is asked.

    own: the plan without an attack. weak: position of the agent whose answers attackers start from; because: why it, in words.
    families: by agent.
    """

    own: Experiment
    weak: int
    because: str
    families: Mapping[str, str]
    attacks: tuple[PlannedAttack, ...]
    max_cost: float | None

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        return (self.own, *(one.experiment for one in self.attacks if one.experiment is not None))

    @property
    def n_new(self) -> int:
        """Calls that no store answers yet."""
        return sum(one.n_new for one in self.experiments)

    @property
    def usd_new(self) -> float | None:
        """What the new calls cost together; None where a price is unknown."""
        each = [one.usd_new for one in self.experiments]
        return None if None in each else float(sum(usd for usd in each if usd is not None))

    def to_json(self) -> dict[str, Json]:
        """What would be asked, as one JSON object."""
        return {
            "name": self.own.name,
            "judge": self.own.judge.name,
            "weak": self.own.pool.agents[self.weak].id,
            "because": self.because,
            "new_calls": self.n_new,
            "usd": self.usd_new,
            "attacks": [
                {
                    "attack": one.name,
                    "what": one.attack.what,
                    "new_calls": None if one.experiment is None else one.experiment.n_new,
                    "usd": None if one.experiment is None else one.experiment.usd_new or 0.0,
                    "why_not": one.why_not,
                }
                for one in self.attacks
            ],
        }


class _Source(NamedTuple):
    """ranked: agents, best first, where a run has ranked them by this judge."""

    own: Experiment
    ranked: tuple[str, ...]
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

    Raises: ConfigError [unknown-attack], [attack-prompts], [stress-attacker], [stress-calls];
    RunFolderError [stress-import]; as pools, plans and judges do.
    """
    for name in attacks:
        ATTACKS.check(name)
    names = tuple(dict.fromkeys(attacks)) or tuple(ATTACKS)
    found = _source(source, judge=judge, calls=calls, seed=seed, store=store, usual_store=usual_store)
    weak, because = _weak(found, attacker)
    planned = [_planned(found.own, name, weak=weak, number=number, seed=seed) for number, name in enumerate(names)]
    for one in planned:
        if attacks and one.why_not is not None:
            raise ConfigError(f"The attack '{one.name}' cannot be planted: {one.why_not}", slug="attack-prompts")
    return PlannedStress(found.own, weak, because, found.families, tuple(planned), max_cost)


def _source(
    source: Path, *, judge: str | None, calls: int | None, seed: int, store: str | None, usual_store: str | None
) -> _Source:
    folder = RunFolder(source)
    if folder.has("pool.json"):
        return _of_run(folder, judge=judge, calls=calls, store=store, usual_store=usual_store)
    pool, config = read_pool(source), load_judge_config(judge or "lexical")
    if calls is None and not config.makes_calls:
        calls = min(FREE_CALLS, pool.n_agents * (pool.n_agents - 1) * pool.n_items)
    place = config_of_pool(source, {"store": store}, usual_store).store_place
    plan = make_plan(pool, calls=calls, holdout=0.0, seed=seed)
    return _Source(plan_experiment(pool.name, plan, judge=config, store=place), (), _families(pool))


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
    config, plan = folder.read_config(), folder.read_plan()
    own = judge is None or judge == config.judge
    ranked = [row for row in folder.read_ranking() if row.ability is not None] if folder.has("ranking.csv") else []
    asked = load_judge_of_run(config) if judge is None else load_judge_config(judge)
    place = store or with_usual_store(config, usual_store).store_place
    return _Source(
        plan_experiment(folder.path.resolve().name, plan, judge=asked, store=place),
        tuple(row.agent for row in ranked) if own else (),
        config.families or _families(plan.pool),
    )


def _families(pool: Pool) -> dict[str, str]:
    """What agents say in `meta.family`."""
    said = ((agent.id, agent.meta.get("family")) for agent in pool.agents)
    return {agent: family for agent, family in said if isinstance(family, str) and family}


def _weak(found: _Source, attacker: str | None) -> tuple[int, str]:
    own = found.own
    ids = [agent.id for agent in own.pool.agents]
    if attacker is not None:
        if attacker not in ids:
            raise ConfigError(
                f"There is no agent '{attacker}' in this pool to attack with. {near(attacker, ids)}",
                slug="stress-attacker",
            )
        return ids.index(attacker), "named by you"
    if found.ranked:
        return ids.index(found.ranked[-1]), "the last of the run's ranking"
    if not own.judge.makes_calls and not own.judge.needs_store:
        ability = abilities(asked_under(None, [own])(own).result, families={})["plain"]
        return int(np.nanargmin(ability)), "the last of the ranking"
    n_words = [sum(len((text or "").split()) for text in row) for row in own.pool.texts]
    return int(np.argmin(n_words)), "the agent of fewest words, for nobody is ranked yet"


def _planned(own: Experiment, name: str, *, weak: int, number: int, seed: int) -> PlannedAttack:
    attack = ATTACKS.load(name)
    if attack.needs_prompts and not any(item.prompt for item in own.pool.items):
        return PlannedAttack(name, attack, why_not="It takes the items' prompts, and this pool has none.")
    rng = stream("attackers", seed, number)
    try:
        planted = plant(own.pool, attack, weak=weak, rng=rng)
    except ConfigError as error:
        return PlannedAttack(name, attack, why_not=str(error))
    plan = attacked_plan(own.plan, planted, rng=rng)
    asked = plan_experiment(name, plan, judge=own.judge, store=own.store, first_new=len(own.plan))
    return PlannedAttack(name, attack, planted, asked)


def check_cost(stress: PlannedStress) -> None:
    """Whether the cap covers what is expected. Raises: ConfigError [stress-cost]."""
    usd = stress.usd_new
    if stress.max_cost is None or usd is None or usd <= stress.max_cost:
        return
    own, *attacks = stress.experiments
    each = ", ".join(
        f"{one.name} ${one.usd_new or 0:,.4f}" for one in sorted(attacks, key=lambda one: one.usd_new or 0)
    )
    raise ConfigError(
        f"These attacks would cost about ${usd:,.4f} ({stress.n_new:,} new calls), more than the cap of ${stress.max_cost:g}; "
        f"nothing was asked. The pool without an attack ${own.usd_new or 0:,.4f}; {each}. "
        "Raise --max-cost, or choose some with --attack NAME.",
        slug="stress-cost",
    )
