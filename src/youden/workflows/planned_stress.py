"""Plan a stress test: plant attacks in a pool, plan their trials, and estimate the cost before anything is spent.

Every attacked plan contains the trials of the pool without an attack, so that their answers are paid once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm
from pathlib import Path
from typing import NamedTuple

import numpy as np

from youden.data.folder.run_config import with_default_store
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import read_pool
from youden.engines.trial_blocks import TrialsByItem
from youden.errors import ConfigError, RunFolderError
from youden.judging.config.judge_files import load_judge_config, load_judge_of_run
from youden.pipeline.alternative_rankings import PairedAnswers, find_flagged_groups, label_families
from youden.protocol.blocks import plan_without_follow_ups
from youden.protocol.independent import count_characters, draw_probes
from youden.protocol.plan import make_plan
from youden.protocol.pooled_trials import draw_pooled_trials
from youden.protocol.self_trials import check_compares_agents
from youden.stats.base.pair_chunks import PairChunk
from youden.stats.partners import PairTotals, fit_weighted_abilities, group_balanced_weights
from youden.stats.trials.comparisons import rank_with_ties
from youden.streams import stream
from youden.text.sentences import suggest_name
from youden.types import INDEPENDENT, PAIRED, Plan, Pool, Trials, Verdicts
from youden.types.planning import Split
from youden.types.pool import Floats, Ids, Json
from youden.workflows.attacks import ATTACKS, Attack, PlantedAgents, plant_agents
from youden.workflows.experiment import Experiment, make_experiment_runner, make_pool_config, plan_experiment


@dataclass(frozen=True)
class AttackRank:
    """Effect of an attack on one ranking from which the base agent is left out.

    Attributes
    ----------
    rank : float
        Rank of the best planted agent among the other agents, 1 = best; n + 0.5 if it is tied with one agent.
    n_ranks : int
        Number of possible ranks: the other agents and one planted agent.
    mean_change, max_change : float, int
        Mean and largest absolute change of rank of the other agents.
    most_changed : str or None
        Agent with the largest change; None if no rank changed.
    """

    rank: float
    n_ranks: int
    mean_change: float
    max_change: int
    most_changed: str | None


def compute_abilities(
    verdicts: Verdicts, *, rate: Floats, families: Mapping[str, str], clones: Sequence[Sequence[str]] = ()
) -> dict[str, Floats]:
    """Compute the abilities of all agents by each ranking method; higher is better.

    Answers are corrected for the mean of their item. An additive effect of each agent is then fitted to them. The ranking methods
    differ in the weights that the partners of an agent have in this fit (`fit_weighted_abilities`). An ability is the effect
    minus the false-positive rate of the agent. Only answered paired trials count.

    Parameters
    ----------
    verdicts : Verdicts
        Answers to the trials, with their plan.
    rate : float array (n_agents,)
        False-positive rates of the agents, in [0, 1].
    families : mapping of str to str
        Family by agent; an agent without an entry is the only one of its family.
    clones : sequence of sequence of str, default ()
        Groups of agents with the same texts.

    Returns
    -------
    dict of str to float array (n_agents,)
        Abilities by method; NaN for an agent that no partner scored.

        - "plain": all partners have equal weights.
        - "robust": agents that are connected by flagged pairs or by `clones` form a group. They do not score each other, and
          count as one partner.
        - "family-balanced": each family is a group. Left out if `families` names fewer than two.

    Raises
    ------
    StatisticsError
        [partners-none]: if fewer than 3 agents have answers about partners of positive weight; [cluster-agents]: if fewer than 2
        agents have trials on 2 items.
    """
    agent_ids = verdicts.plan.agent_ids
    answers = _collect_paired_answers(verdicts)

    # method → number of each agent's group; the agents of a group count as one partner
    groups_by_method = {"plain": np.arange(len(agent_ids), dtype=np.int32)}
    flagged_groups = find_flagged_groups(answers.totals, agent_ids, clones=clones)
    groups_by_method["robust"] = flagged_groups.cluster
    if len(set(families.values())) > 1:
        groups_by_method["family-balanced"] = label_families(families, agent_ids)

    abilities_by_method = {}
    for method, groups in groups_by_method.items():
        agent_effects = _compute_balanced_abilities(answers, groups)
        abilities_by_method[method] = agent_effects - rate
    return abilities_by_method


def _collect_paired_answers(verdicts: Verdicts) -> PairedAnswers:
    """Collect the answers to paired trials, with their sums by pair of agents."""
    plan = verdicts.plan
    is_used = (plan.trial_type == PAIRED) & verdicts.answered
    chunk = PairChunk.from_trials(
        plan.item, plan.first, plan.second, verdicts.answer, n_items=plan.n_items, rows=is_used
    )
    return PairedAnswers(lambda: [chunk], PairTotals.from_chunks([chunk], plan.n_agents))


def _compute_balanced_abilities(answers: PairedAnswers, group: Ids) -> Floats:
    """Compute abilities as means over partners, with the same total weight for each group of partners.

    group : int array (n_agents,), number of each agent's group

    Returns a float array (n_agents,), all NaN if there is a single group.
    """
    if len(np.unique(group)) < 2:
        return np.full(len(group), np.nan)
    weights = group_balanced_weights(group)
    return fit_weighted_abilities(answers.iter_chunks, answers.totals, weights).ability


def attack_ranks(before: Floats, after: Floats, *, base_agent: int, ids: tuple[str, ...]) -> AttackRank | None:
    """Compute the rank of the best adversarial agent of an attack, and by how much the ranks of the other agents change.

    Parameters
    ----------
    before : float array (n_agents,)
        Abilities without the attack; NaN if unknown.
    after : float array (n_agents + n_planted,)
        Abilities with the attack. The planted agents come last.
    base_agent : int
        Position of the base agent, whose responses the attack starts from; it is left out of the ranks.
    ids : tuple of str
        Ids of the `n_agents` agents.

    Returns
    -------
    AttackRank or None
        The rank of the best planted agent among the other agents (`rank`, 1 = best; a tie counts as half a rank) and the number
        of possible ranks (`n_ranks`, the number of other agents + 1). In addition, the mean and the largest absolute change in
        the ranks of the other agents among themselves (`mean_change`, `max_change`; tied agents share the best of their ranks),
        and the id of the agent with the largest change (`most_changed`, None without a change). The other agents are the agents
        that have both abilities, without the base agent and the planted agents. None if no planted agent has an ability, or if
        there are no other agents.
    """
    n_agents = len(before)
    after_of_agents, after_of_planted = after[:n_agents], after[n_agents:]
    is_other = (np.arange(n_agents) != base_agent) & ~np.isnan(before) & ~np.isnan(after_of_agents)
    planted = after_of_planted[~np.isnan(after_of_planted)]
    if not len(planted) or not is_other.any():
        return None

    # rank among the other agents; a tie counts as half a rank
    best_planted = planted.max()
    other_abilities = after_of_agents[is_other]
    n_above = int((other_abilities > best_planted).sum())
    n_tied = int((other_abilities == best_planted).sum())

    rank_changes = np.abs(rank_with_ties(before[is_other]) - rank_with_ties(other_abilities))
    largest = int(np.argmax(rank_changes))
    most_changed = None
    if rank_changes[largest] > 0:
        agent = int(np.flatnonzero(is_other)[largest])
        most_changed = ids[agent]
    return AttackRank(
        rank=1 + n_above + n_tied / 2,
        n_ranks=len(other_abilities) + 1,
        mean_change=float(rank_changes.mean()),
        max_change=int(rank_changes[largest]),
        most_changed=most_changed,
    )


def get_rank(ability: Floats, agent: int) -> int | None:
    """Return the rank of an agent, 1 = best, or None if its ability is NaN.

    ability : float array (n_agents,)
    agent : int, position of the agent
    """
    if np.isnan(ability[agent]):
        return None
    return int(rank_with_ties(ability)[agent])


N_INDEPENDENT_PASSES = 10
"""Passes of independent trials, two per agent and pass. As many are drawn to find unusually similar texts."""


def plan_attacked_pool(base: Plan, planted: PlantedAgents, *, rng: np.random.Generator) -> Plan:
    """Plan the trials of a pool to which an attack has added (planted) adversarial agents.

    The trials of the plan without the attack come first. Each planted agent is then compared with every other agent, planted ones
    included. The mean number of trials per pair is that of two agents in that plan, or lower if responses are missing. If the
    plan has independent trials, each planted agent also gets some: about 20 random ones, and probes (trials of unusually similar
    texts). Trials belong to no block, and no response is held out.

    Parameters
    ----------
    base : Plan
        Plan without the attack.
    planted : PlantedAgents
        Pool with the planted agents after all other agents, and their positions.
    rng : Generator
        Source of all random numbers.

    Returns
    -------
    Plan
        Plan of the attacked pool, with the design "stress". Its independent trials are pooled: they determine one false-positive
        rate per agent.
    """
    pool = planted.pool
    new_paired = _draw_paired(base, planted, rng)
    new_independent = _draw_independent(base, planted, rng)
    no_block = np.full(len(base), -1, dtype=np.int32)
    base_trials = replace(base.trials.as_new_plan(), block=no_block)
    trials = Trials.concat([base_trials, new_paired, new_independent]).with_replicate_numbers()
    no_holdout = np.zeros_like(pool.present)
    split = Split(train=pool.present, holdout=no_holdout, rule="strict", fraction=0.0, seed=base.seed)
    return Plan(
        trials=trials,
        split=split,
        design="stress",
        options={},
        independent="pooled",
        seed=base.seed,
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        item_ids=base.item_ids,
        n_independent=int((trials.trial_type == INDEPENDENT).sum()),
        characters=count_characters(pool, trials),
        source=pool,
    )


def _draw_paired(base: Plan, planted: PlantedAgents, rng: np.random.Generator) -> Trials:
    """Draw paired trials of each planted agent with every other agent of the attacked pool.

    Each pair of agents gets as many trials as a pair in `base` has on average, on different items. Trials in which an agent has
    no response to the item are left out.

    base : plan before the attack
    planted : pool with the planted (adversarial) agents, and their positions, after all other agents
    rng : source of the orders of pairs, items and texts
    """
    n_base_pairs = base.n_agents * (base.n_agents - 1) / 2
    n_base_paired = int((base.trial_type == PAIRED).sum())
    trials_per_pair = n_base_paired / n_base_pairs

    # each planted agent with all agents before it, which include earlier planted agents
    pairs = [(agent, partner) for agent in planted.agents for partner in range(agent)]
    n_pairs = len(pairs)
    agent_a, agent_b = rng.permutation(np.array(pairs, dtype=np.int32)).T
    item_order = rng.permutation(base.n_items).astype(np.int32)

    # the first trial of each pair, then the second trial of each pair, and so on
    n_trials = min(round(trials_per_pair * n_pairs), n_pairs * base.n_items)
    number_within_pair, pair = np.divmod(np.arange(n_trials), n_pairs)
    item = _assign_items(item_order, n_trials=n_trials, n_pairs=n_pairs)

    # the two texts of a pair swap places from trial to trial; their order in the first trial is random
    is_swapped_at_first = rng.integers(2, size=n_pairs)
    is_swapped = (number_within_pair + is_swapped_at_first[pair]) % 2 == 1
    first = np.where(is_swapped, agent_b[pair], agent_a[pair])
    second = np.where(is_swapped, agent_a[pair], agent_b[pair])

    present = planted.pool.present
    has_texts = present[first, item] & present[second, item]
    return Trials.paired(item, first, second).take(has_texts)


def _assign_items(item_order: Ids, *, n_trials: int, n_pairs: int) -> Ids:
    """Assign an item to each trial, so that no pair of agents gets an item twice.

    Trial t has the pair t mod n_pairs. The items are assigned in turn, too. Every lcm(n_pairs, n_items) trials, each pair would
    get its items again, so the items are then shifted by one. For example, 2 pairs and 4 items repeat after 4 trials: the first
    pair gets the items 0 and 2, then 1 and 3.

    item_order : int array (n_items,), the items in the order in which they are used

    Returns an int array (n_trials,).
    """
    n_items = len(item_order)
    trial = np.arange(n_trials)
    shift = trial // lcm(n_pairs, n_items)
    item: Ids = item_order[(trial + shift) % n_items]
    return item


def _draw_independent(base: Plan, planted: PlantedAgents, rng: np.random.Generator) -> Trials:
    """Draw independent trials (comparisons of responses to different items) of the planted agents.

    Random trials and probes are drawn from the whole pool, `N_INDEPENDENT_PASSES` times the number of agents of each kind. Only
    trials with a planted agent are returned. There are none if `base` has no independent trials.

    base : plan before the attack
    planted : pool with the planted (adversarial) agents, and their positions
    rng : source of the random trials
    """
    if not (base.trial_type == INDEPENDENT).any():
        return Trials.concat([])
    pool = planted.pool
    n_trials = N_INDEPENDENT_PASSES * pool.n_agents  # of each kind
    random_trials = draw_pooled_trials(pool.present, n_trials, rng)
    probes = draw_probes(pool, pool.present, n_trials, rng)
    trials = Trials.concat([random_trials, probes])
    is_of_planted = np.isin(trials.first, planted.agents) | np.isin(trials.second, planted.agents)
    return trials.take(is_of_planted)


MAX_FREE_CALLS = 60_000
"""Default maximum number of calls of both trial types in the plan of a pool if the judge makes no calls to a server."""


@dataclass(frozen=True, eq=False)
class PlannedAttack:
    """One attack on a pool.

    Attributes
    ----------
    name, attack : str, Attack
        Registered name, and the attack.
    planted, experiment : PlantedAgents, Experiment or None
        The attacked pool, and its plan with the cost of the trials that only this attack needs; None if skipped.
    skipped_reason : str or None
        Reason why it cannot be planted.
    """

    name: str
    attack: Attack
    planted: PlantedAgents | None = None
    experiment: Experiment | None = None
    skipped_reason: str | None = None


@dataclass(frozen=True, eq=False)
class PlannedStress:
    """A stress test, before any request is sent.

    Attributes
    ----------
    base : Experiment
        Plan of the pool without an attack.
    base_agent, base_agent_reason : int, str
        Position of the agent whose responses the attacks start from, and the reason for its choice, for display.
    families : mapping of str to str
        Family of each agent that has one.
    attacks : tuple of PlannedAttack
        One per attack, also if it cannot be planted.
    max_cost : float or None
        Cost cap in USD for all attacks together.
    """

    base: Experiment
    base_agent: int
    base_agent_reason: str
    families: Mapping[str, str]
    attacks: tuple[PlannedAttack, ...]
    max_cost: float | None

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """The plan without an attack, then the plans of the attacks that can be planted."""
        attacked = [attack.experiment for attack in self.attacks if attack.experiment is not None]
        return (self.base, *attacked)

    @property
    def n_new(self) -> int:
        """Number of calls whose answers are not stored yet."""
        return sum(experiment.n_new for experiment in self.experiments)

    @property
    def usd_new(self) -> float | None:
        """Expected cost of these calls in USD; None if a price is unknown."""
        costs = [experiment.usd_new for experiment in self.experiments]
        return None if None in costs else float(sum(usd for usd in costs if usd is not None))

    def to_json(self) -> dict[str, Json]:
        """Return the planned attacks, their new calls and their expected cost as a JSON object."""
        attacks: list[Json] = [
            {
                "attack": attack.name,
                "description": attack.attack.description,
                "new_calls": None if attack.experiment is None else attack.experiment.n_new,
                "usd": None if attack.experiment is None else attack.experiment.usd_new or 0.0,
                "skipped_reason": attack.skipped_reason,
            }
            for attack in self.attacks
        ]
        return {
            "name": self.base.name,
            "judge": self.base.judge.name,
            "base_agent": self.base.pool.agents[self.base_agent].id,
            "base_agent_reason": self.base_agent_reason,
            "new_calls": self.n_new,
            "usd": self.usd_new,
            "attacks": attacks,
        }


class _Source(NamedTuple):
    """What a stress test starts from.

    `base` is the plan without an attack, and `known_hashes` are the hashes of its requests. `ranked` are the agents that have an
    ability in the run's ranking, best first, if the same judge made it; otherwise empty. `families` has the family of each agent
    that has one.
    """

    base: Experiment
    known_hashes: set[str]
    ranked: tuple[str, ...]
    families: Mapping[str, str]


def plan_stress(
    source: Path,
    *,
    judge: str | None = None,
    attacks: Sequence[str] = (),
    base_agent: str | None = None,
    calls: int | None = None,
    seed: int = 0,
    store: str | None = None,
    usual_store: str | None = None,
    max_cost: float | None = None,
) -> PlannedStress:
    """Plan a stress test: add adversarial agents to a pool, or to the pool of a judged run, and plan their trials.

    Parameters
    ----------
    source : Path
        A pool or the folder of a judged run.
    judge : str, optional
        Judge name or path of a judge YAML. Default: the judge of the run; `lexical` for a pool.
    attacks : sequence of str, optional
        Names of registered attacks, for example "clones" or "mirror". Default: all; those that this pool does not allow are then
        skipped, with a reason. A named attack that the pool does not allow is an error.
    base_agent : str, optional
        Id of the base agent, whose responses the attacks start from. Default: the last of the ranking; the agent with the fewest
        words if a ranking would cost calls.
    calls : int, optional
        Calls in the plan of a pool, paired and independent together. A run keeps its own plan. Default: the calls of 450 paired
        trials per agent and their independent trials. For a judge that makes no calls to a server, the default is one call per
        ordered pair of responses to an item, but at most 60,000 (`MAX_FREE_CALLS`).
    seed : int, default 0
        Seed of the attacks and the plans.
    store : str, optional
        Store of the answers (path or database URL). Default: that of the run, else `usual_store`.
    usual_store : str, optional
        Store to use if neither `store` nor the run names one. Default: the store of the project.
    max_cost : float, optional
        Cost cap in USD for all attacks together; required for judges that can cost money. It is checked when the trials are
        judged, not here.

    Returns
    -------
    PlannedStress
        The plans and their expected cost: `base` without an attack, and `attacks` with one entry per attack. No request has been
        sent, and no file is written.

    Raises
    ------
    ConfigError
        [unknown-attack] if an attack is not registered; [attack-prompts] if the pool does not allow an attack in `attacks`;
        [stress-attacker] if `base_agent` is not in the pool; [stress-calls] if `calls` is set for a run.
    RunFolderError
        [stress-import] if the run was imported and has no texts; [run-preference] if it asks for preferences.
    PoolError
        If the pool cannot be read.
    PlanError
        If no plan fits `calls`; [self-trials-only] if the agents are compared only with themselves.
    """
    for name in attacks:
        ATTACKS.check(name)
    names = tuple(dict.fromkeys(attacks)) or tuple(ATTACKS)
    stress_source = _read_source(source, judge=judge, calls=calls, seed=seed, store=store, default_store=usual_store)
    base, known_hashes = stress_source.base, stress_source.known_hashes
    check_compares_agents(base.plan, "stress")
    position, reason = _choose_base_agent(stress_source, base_agent)
    planned = []
    all_names = tuple(ATTACKS)
    for name in names:
        number = all_names.index(name)  # the draws of an attack do not depend on the other selected attacks
        attack = _plan_attack(base, name, base_agent=position, number=number, seed=seed, known_hashes=known_hashes)
        planned.append(attack)
    for attack in planned:
        if attacks and attack.skipped_reason is not None:
            raise ConfigError(
                f"The attack '{attack.name}' cannot be planted: {attack.skipped_reason} Remove it from the attacks.",
                slug="attack-prompts",
            )
    return PlannedStress(base, position, reason, stress_source.families, tuple(planned), max_cost)


def _read_source(
    source: Path, *, judge: str | None, calls: int | None, seed: int, store: str | None, default_store: str | None
) -> _Source:
    """Read the pool and the plan that a stress test attacks.

    A judged run has both. For a pool, a plan is made.

    source : folder of a pool or of a run
    judge : name or file of the judge; None for the judge of the run, or "lexical" for a pool
    calls : number of calls of the plan for a pool; None selects the default. For a run, it must be None.
    seed : seed of the plan of a pool
    store : store of the answers (path or URL) that the user set; None if it is not set
    default_store : store to use if neither the user nor the config names one (YOUDEN_STORE); None for the store of the project
    """
    folder = RunFolder(source)
    if folder.has("pool.json"):
        return _read_run_source(folder, judge=judge, calls=calls, store=store, default_store=default_store)

    pool = read_pool(source)
    config = load_judge_config(judge or "lexical")
    if calls is None and not config.makes_calls:
        n_possible = pool.n_agents * (pool.n_agents - 1) * pool.n_items
        calls = min(MAX_FREE_CALLS, n_possible)
    store_location = make_pool_config(source, {"store": store}, default_store).store_location
    plan = make_plan(pool, calls=calls, holdout=0.0, seed=seed)
    known_hashes: set[str] = set()
    base = plan_experiment(pool.name, plan, judge=config, store=store_location, known_hashes=known_hashes)
    return _Source(base, known_hashes, ranked=(), families=_get_families(pool))  # no agent is ranked yet


def _read_run_source(
    folder: RunFolder, *, judge: str | None, calls: int | None, store: str | None, default_store: str | None
) -> _Source:
    """Read the plan of a judged run for a stress test.

    The ranking of the run is also read if the stress test uses its judge.

    judge : name or file of the judge; None for the judge of the run
    calls : number of calls that the user set. The trials of a run are fixed, so any number is refused.
    store : store of the answers (path or URL) that the user set; None if the user set none
    default_store : store to use if neither the user nor the run names one; None for the store of the project

    Raises RunFolderError [stress-import] for an imported run, ConfigError [stress-calls] if a number of calls is set.
    """
    folder.check_information()
    if not folder.has("plan.parquet"):
        raise RunFolderError(
            f"{folder.path} was imported and has no texts, which attacks need. Pass the pool of its texts instead: "
            "youden stress POOL.",
            slug="stress-import",
        )
    if calls is not None:
        raise ConfigError(
            f"calls: got {calls} for {folder.path}, which is a run and keeps its own trials. Remove it.",
            slug="stress-calls",
        )

    config = folder.read_config()
    judge_config = load_judge_of_run(config) if judge is None else load_judge_config(judge)
    store_location = store or with_default_store(config, default_store).store_location
    plan = plan_without_follow_ups(folder.read_plan())
    run_name = folder.path.resolve().name
    known_hashes: set[str] = set()
    base = plan_experiment(run_name, plan, judge=judge_config, store=store_location, known_hashes=known_hashes)

    is_same_judge = judge is None or judge == config.judge
    ranked_agents = _read_ranked_agents(folder) if is_same_judge else ()
    families = config.families or _get_families(plan.pool)
    return _Source(base, known_hashes, ranked_agents, families)


def _read_ranked_agents(folder: RunFolder) -> tuple[str, ...]:
    """Return the ids of the agents with an ability, best first; empty if the run is not ranked."""
    if not folder.has("ranking.csv"):
        return ()
    return tuple(row.agent for row in folder.read_ranking() if row.ability is not None)


def _get_families(pool: Pool) -> dict[str, str]:
    """Return the family in `meta.family` of each agent that has one."""
    families = {agent.id: agent.meta.get("family") for agent in pool.agents}
    return {agent: family for agent, family in families.items() if isinstance(family, str) and family}


def _count_words(texts: Iterable[str | None]) -> int:
    """Count the words of texts, separated by white space; None has no words."""
    return sum(len((text or "").split()) for text in texts)


def _choose_base_agent(source: _Source, base_agent: str | None) -> tuple[int, str]:
    """Choose the agent whose responses the attacks start from, by default the weakest one.

    base_agent : id that the user set, or None

    Returns its position and the reason for the choice. Raises ConfigError [stress-attacker] if the id is unknown.
    """
    base = source.base
    ids = [agent.id for agent in base.pool.agents]
    if base_agent is not None:
        if base_agent not in ids:
            raise ConfigError(
                f"The base agent is not in the pool: got '{base_agent}'. {suggest_name(base_agent, ids)}",
                slug="stress-attacker",
            )
        return ids.index(base_agent), "set by the user"
    if source.ranked:
        return ids.index(source.ranked[-1]), "last in the run's ranking"

    is_free = not base.judge.makes_calls and not base.judge.needs_store
    if is_free:
        return _find_weakest_agent(base), "last in the ranking"

    n_words = [_count_words(texts) for texts in base.pool.texts]
    return int(np.argmin(n_words)), "the agent with the fewest words, because there is no ranking yet"


def _find_weakest_agent(base: Experiment) -> int:
    """Query a judge that costs nothing, and return the position of the last agent in the plain ranking."""
    run_experiment = make_experiment_runner(None, [base])
    verdicts = run_experiment(base).verdicts
    rates = TrialsByItem.from_verdicts(verdicts).false_positives.estimate_rates()
    abilities_by_ranking = compute_abilities(verdicts, rate=rates.rate, families={})  # "plain" does not use families
    return int(np.nanargmin(abilities_by_ranking["plain"]))


def _plan_attack(
    base: Experiment, name: str, *, base_agent: int, number: int, seed: int, known_hashes: set[str]
) -> PlannedAttack:
    """Add the adversarial agents of one attack to the pool, and plan their trials.

    base : plan without an attack, with its pool, judge and store
    name : name of the attack
    base_agent : position of the agent whose responses the attack may copy or change
    number : number of the attack; each number gives other random draws
    seed : seed of the random draws
    known_hashes : request hashes of the base plan and of earlier attacks, to which those of this attack are added

    If the attack cannot be made on this pool, the result has the reason (`skipped_reason`) and no trials.
    """
    attack = ATTACKS.load(name)
    has_prompts = any(item.prompt for item in base.pool.items)
    if attack.needs_prompts and not has_prompts:
        return PlannedAttack(name, attack, skipped_reason="It uses the prompts of the items, and this pool has none.")

    rng = stream("attackers", seed, number)
    try:
        planted = plant_agents(base.pool, attack, base_agent=base_agent, rng=rng)
    except ConfigError as error:
        return PlannedAttack(name, attack, skipped_reason=str(error))

    plan = plan_attacked_pool(base.plan, planted, rng=rng)
    experiment = plan_experiment(
        name, plan, judge=base.judge, store=base.store, n_shared=len(base.plan), known_hashes=known_hashes
    )
    return PlannedAttack(name, attack, planted, experiment)


def check_cost(planned: PlannedStress) -> None:
    """Raise ConfigError [stress-cost] if the expected cost of a stress test exceeds its cost cap.

    No error is raised if the cost is unknown.
    """
    usd = planned.usd_new
    if planned.max_cost is None or usd is None or usd <= planned.max_cost:
        return

    # a total is known only if the cost of each experiment is known
    base, *attacked = planned.experiments
    cost_by_attack = {experiment.name: experiment.usd_new or 0.0 for experiment in attacked}
    cheapest_first = sorted(cost_by_attack.items(), key=lambda name_and_cost: name_and_cost[1])
    costs = ", ".join(f"{name} ${cost:,.4f}" for name, cost in cheapest_first)
    raise ConfigError(
        f"The expected cost exceeds the cap: got about ${usd:,.4f} ({planned.n_new:,} new calls) with a cap of "
        f"${planned.max_cost:g}. The pool without an attack costs ${base.usd_new or 0.0:,.4f}; {costs}. No request was sent. "
        "Set a higher cap, or fewer attacks.",
        slug="stress-cost",
    )
