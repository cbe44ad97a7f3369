"""Align the runs of several judges: the agents and items that they share, and the judges' answers to the same trials.

If a run has no trials, because it was imported, answers to ordered pairs are compared instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError
from youden.judging.config.judge_files import load_judge_config
from youden.pipeline.fitted_run import check_fit
from youden.pipeline.ranking import differences_from_rates, differences_from_verdicts
from youden.pipeline.recommendation import read_recommendation
from youden.protocol.blocks import check_same_pool, get_extensions
from youden.run_keys import Target
from youden.stats.trials.best_selection import predict_rank_correlation
from youden.stats.trials.comparisons import Differences
from youden.text.sentences import format_rank_range
from youden.text.tables import format_decimal
from youden.types import MISSING_REASONS, PAIRED, Plan, Scores, Verdicts
from youden.types.facts import RankingRow
from youden.types.planning import Split
from youden.types.pool import Bools, Floats, Ids
from youden.types.recommendation import Recommendation
from youden.types.results import Rates, ScoreKind
from youden.types.trials import SELF_TRIAL

MatchItems = Literal["id", "number"]
_PAIR_COLUMNS = ["item", "first", "second"]
_NOT_SHARED = -1
"""Position of an agent or item that not all runs have."""
_NO_OTHER_ITEM = -2
"""Position of the item of the second response if both responses are to the same item."""


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """A run of one judge.

    Attributes
    ----------
    name : str
        Name for display.
    digest : str or None
        Digest of the pool; None if the run has no texts.
    rates : Rates
        TPR and FPR of each ordered pair of agents on each item.
    result : Verdicts or None
        Answers to trials; None if the run was imported and has only rates.
    families : mapping of str to str
        Family (`meta.family`) of each agent that has one.
    family : str or None
        Agent family of the judge; None if it is unknown.
    abilities : mapping of str to float or None
        Abilities of the run's own ranking; None if the run is not fitted.
    target : {"items-like-these", "these-items", "items-and-judges"}
        Population that the intervals of the run refer to.
    recommendation : Recommendation or None
        Recommendation of the run; None if it is not fitted.
    """

    name: str
    digest: str | None
    rates: Rates
    result: Verdicts | None
    families: Mapping[str, str] = field(default_factory=dict)
    family: str | None = None
    abilities: Mapping[str, float] | None = None
    target: Target = "items-like-these"
    recommendation: Recommendation | None = None


def read_ranked_agents(folder: RunFolder) -> dict[str, RankingRow]:
    """Read the rows of the ranking of a fitted run by agent id, best first, without agents that have no ability.

    Raises RunFolderError: [run-unjudged], [run-partial] if the run is not judged to its end; [run-other-plan], [fit-stale] if
    it was planned or judged again since it was fitted.
    """
    if folder.has("plan.parquet"):
        folder.check_judged()
    check_fit(folder)
    return {row.agent: row for row in folder.read_ranking() if row.ability is not None}


def format_abilities(rows: Iterable[RankingRow]) -> list[str]:
    """Format the ability and the rank interval of an agent in several rankings, as cells of a table."""
    cells = []
    for row in rows:
        cells += [format_decimal(row.ability), format_rank_range(row.rank_low, row.rank_high)]
    return cells


def read_judged_run(folder: RunFolder) -> JudgedRun:
    """Read a judged or imported run.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.

    Returns
    -------
    JudgedRun
        Answers of the judge, digest of the pool, families of the agents and of the judge, and the target of the intervals.
        For a fitted run also the abilities and the recommendation, otherwise None. The run is named after its folder.

    Raises
    ------
    RunFolderError
        [run-unjudged], [run-partial]: if the run is not judged to its end; [fit-stale]: if it was judged or planned again since
        it was fitted; other slugs if a file of the run is missing or damaged.
    """
    pool = folder.read_pool()
    verdicts = None
    if folder.has("plan.parquet"):
        folder.check_information()
        folder.check_judged()
        check_fit(folder)
        verdicts = folder.read_verdicts(folder.read_plan())

    # results of a fit, if there is one
    abilities = None
    if folder.has("ranking.csv"):
        abilities = {row.agent: row.ability for row in folder.read_ranking() if row.ability is not None}
    recommendation = read_recommendation(folder) if folder.has("fit.json") else None

    return JudgedRun(
        name=folder.path.resolve().name,
        digest=pool.digest,
        rates=folder.read_rates(),
        result=verdicts,
        families=pool.families,
        family=_read_judge_family(folder),
        abilities=abilities,
        target=folder.fit_settings.target,
        recommendation=recommendation,
    )


def _read_judge_family(folder: RunFolder) -> str | None:
    """Read the agent family that the config of the run's judge names; None if it names none or is missing."""
    try:
        config = load_judge_config(folder.read_config().judge)
    except (ConfigError, RunFolderError):
        return None
    return config.family or (config.replay_of.family if config.replay_of else None)


class AlignedRuns:
    """Several runs on the agents and items that all of them have.

    A unit is a trial or, if a run has no trials, an ordered pair on an item.

    Attributes
    ----------
    names, agent_ids, item_ids : tuple of str
        Names of the judges, and ids of the shared agents and items.
    scores, weight : float array (n_runs, n_agents, n_items)
        Scores and their weights; NaN if unobserved.
    units : {"trials", "ordered pairs"}
        What the units are.
    hard, soft : float array (n_runs, n_units)
        Yes-or-no and graded answers; NaN if missing. For ordered pairs, `soft` is D = TPR − FPR, and `hard` is D ≥ ½.
    first, second : int array (n_units,)
        The two agents of each unit.
    paired : bool array (n_units,)
        Whether the unit is a paired trial or an ordered pair.
    judges : list of mapping or None
        Description of the judge of each run; None if it is unknown.
    families, judge_families : list of str or None
        Family of each agent, and of each judge; None if unknown.
    abilities : float array (n_runs, n_agents)
        Abilities of the runs' own rankings; NaN if a run is not fitted.
    significantly_better : bool array (n_runs, n_agents, n_agents)
        Whether the row's agent is significantly better than the column's.
    max_rho : float array (n_runs, n_runs)
        ρ to expect of the rankings of two runs if they differ only by their sampling errors; NaN if unknown.
    has_extended_run : bool
        Whether a run was extended.
    target : {"items-like-these", "these-items"}
        Population that differences refer to.
    recommendations : tuple of Recommendation or None
        Recommendation of each run; None if it is not fitted.
    """

    def __init__(
        self,
        runs: Sequence[JudgedRun],
        *,
        kind: ScoreKind = "symmetric",
        match: MatchItems = "id",
        target: Target | None = None,
        families: Mapping[str, str] | None = None,
    ) -> None:
        """Align runs.

        Parameters
        ----------
        runs : sequence of JudgedRun
            Two or more.
        kind : {"symmetric", "row"}, default "symmetric"
            Kind of the scores.
        match : {"id", "number"}, default "id"
            Match items by id, or by the last number in it (`example-7` is `task-007`).
        target : {"items-like-these", "these-items"}, optional
            Population for which the intervals hold: more items like those of the runs, or exactly those. Default: the
            target of the runs if it is the same for all, otherwise "items-like-these".
        families : mapping of str to str, optional
            Model family of each judge, by the name of the judge. It replaces the family that the run records.

        Raises
        ------
        ConfigError
            [judges-few] for fewer than two runs; [judges-pools] if they judged different pools (versions of one pool, before
            and after extensions of a run, are allowed); [judges-agents],
            [judges-items] if they share too few agents or items; [judges-number] if items cannot be matched by number;
            [judges-trials] if two judges answered no unit in common; [judge-family] if `families` names another judge.
        """
        _check_runs(runs)

        # agents and items that all runs have
        keys = [_get_item_keys(run, match) for run in runs]
        agents = _intersect([run.rates.agent_ids for run in runs])
        items = _intersect(keys)
        _check_shared(agents, items)
        id_by_key = dict(zip(keys[0], runs[0].rates.item_ids, strict=True))
        self.names = make_unique_names([run.name for run in runs])
        self.agent_ids = agents
        self.item_ids = tuple(id_by_key[key] for key in items)
        families = families or {}
        check_judge_names(families, self.names)
        self.judge_families = [families.get(name, run.family) for name, run in zip(self.names, runs, strict=True)]

        indices = [_index_shared(run, run_keys, agents, items) for run, run_keys in zip(runs, keys, strict=True)]
        self.scores, self.weight = _score_shared_cells(runs, indices, kind)
        self._align_answers(runs, indices)

        self.families = [_find_family(runs, agent) for agent in agents]
        self.has_extended_run = any(run.result is not None and get_extensions(run.result.plan).steps for run in runs)
        self.judges = [None if run.result is None else run.result.judge for run in runs]
        self._set_rankings(runs, target)

    def _align_answers(self, runs: Sequence[JudgedRun], indices: Sequence[tuple[Ids, Ids]]) -> None:
        """Match the answers of all runs by trial or, if a run has no trials, by ordered pair of agents on an item.

        Sets the attributes `hard` and `soft` (the answers as 0 or 1, and from 0 to 1), and those that describe the trials or
        pairs.

        indices : for each run, the position of each of its agents, and of its items, among the shared ones; −1 if not shared
        """
        has_trials = all(run.result is not None for run in runs)
        if has_trials:
            self.units: Literal["trials", "ordered pairs"] = "trials"
            tables = [_tabulate_trials(run, *index) for run, index in zip(runs, indices, strict=True)]
        else:
            self.units = "ordered pairs"
            tables = [_tabulate_pairs(run, *index) for run, index in zip(runs, indices, strict=True)]
        table = _join_answer_tables(tables)

        run_numbers = range(len(runs))
        self.hard = np.stack([table[f"hard{number}"].to_numpy(np.float64) for number in run_numbers])
        self.soft = np.stack([table[f"soft{number}"].to_numpy(np.float64) for number in run_numbers])
        _check_common_answers(self.hard, self.names, unit="trial" if has_trials else "pair")

        self.first = table.index.get_level_values("first").to_numpy(np.int32)
        self.second = table.index.get_level_values("second").to_numpy(np.int32)
        self.paired: Bools = np.ones(len(table), np.bool_)
        if has_trials:
            self.paired = table.index.get_level_values("trial_type").to_numpy() == PAIRED

    def _set_rankings(self, runs: Sequence[JudgedRun], target: Target | None) -> None:
        """Set the attributes on the ranking of each run: abilities, significant differences and recommendations.

        target : population for which the intervals hold. If it is None, the population is "these-items" if all runs have this
            target, and "items-like-these" if any run has another one.
        """
        ability_lists = []
        for run in runs:
            ability_by_agent = run.abilities or {}
            ability_lists.append([ability_by_agent.get(agent, np.nan) for agent in self.agent_ids])
        self.abilities = np.array(ability_lists)

        all_have_these_items = all(run.target == "these-items" for run in runs)
        target_of_runs: Target = "these-items" if all_have_these_items else "items-like-these"
        self.target: Target = target or target_of_runs
        differences_by_run = [_compute_differences(run, self.agent_ids, self.target) for run in runs]
        self.significantly_better = np.stack([differences.significantly_better for differences in differences_by_run])
        # the prediction depends on the order of the two runs, so the geometric mean of both orders is used
        pairs_of_runs = product(differences_by_run, repeat=2)
        predicted_rho = np.array([predict_rank_correlation(first, second) for first, second in pairs_of_runs])
        rho_matrix = predicted_rho.reshape(len(runs), len(runs))
        self.max_rho = np.sqrt(rho_matrix * rho_matrix.T)
        self.recommendations = tuple(run.recommendation for run in runs)


def check_judge_names(families: Mapping[str, str], names: Sequence[str]) -> None:
    """Raise ConfigError [judge-family] if a key of `families` (name of a judge → family) is not in `names`."""
    unknown = sorted(set(families) - set(names))
    if unknown:
        raise ConfigError(
            f"No judge has this name: got a family of '{unknown[0]}', but the judges are {', '.join(names)}. Set a "
            "family of one of these.",
            slug="judge-family",
        )


def _check_runs(runs: Sequence[JudgedRun]) -> None:
    """Check that there are two or more runs, and that they judged the same pool of texts.

    Versions of one pool, before and after extensions of a run, count as the same pool. An imported run without a digest of its
    pool is not checked.

    Raises ConfigError [judges-few] or [judges-pools].
    """
    if len(runs) < 2:
        raise ConfigError(
            f"A comparison needs two runs or more: got {len(runs)}. Add a run of another judge.", slug="judges-few"
        )

    judged = [run for run in runs if run.digest is not None]
    check_same_pool([run.result.plan for run in judged if run.result is not None], [run.name for run in judged])


def _score_shared_cells(
    runs: Sequence[JudgedRun], indices: Sequence[tuple[Ids, Ids]], kind: ScoreKind
) -> tuple[Floats, Floats]:
    """Compute the scores of the agents and items that all runs share, by each run.

    indices : two int arrays per run, results of `_index_shared`: positions of the agents and of the items of the run among the
        shared ones, −1 if not shared
    kind : kind of the scores, "symmetric" or "row"

    Returns the scores and their weights, two float arrays (n_runs, n_agents, n_items). Agents and items are the shared ones, in
    the same order for all runs.
    """
    values, weights = [], []
    for run, (agent_index, item_index) in zip(runs, indices, strict=True):
        scores = _score_all_cells(run.rates, kind)
        shared_agents = _list_shared_positions(agent_index)
        shared_items = _list_shared_positions(item_index)
        rows_and_columns = np.ix_(shared_agents, shared_items)
        values.append(scores.value[rows_and_columns])
        weights.append(scores.weight[rows_and_columns])
    return np.stack(values), np.stack(weights)


def _find_family(runs: Sequence[JudgedRun], agent: str) -> str | None:
    """Return the family of an agent from the first run that has it; None if no run has it."""
    return next((run.families[agent] for run in runs if agent in run.families), None)


def _score_all_cells(rates: Rates, kind: ScoreKind) -> Scores:
    """Compute scores of every cell, also of held-out ones, because comparing judges predicts nothing."""
    without_holdout = Split.without_holdout((rates.n_agents, rates.n_items))
    return replace(rates, split=without_holdout).training_scores(kind=kind)


def _check_shared(agents: Sequence[str], items: Sequence[str]) -> None:
    """Check that runs have at least 3 agents and 2 items in common.

    agents, items : ids that are in all runs

    Raises ConfigError [judges-agents] or [judges-items] otherwise.
    """
    if len(agents) < 3:
        raise ConfigError(
            f"The runs must share 3 agents or more: got {len(agents)}. Pass runs with the same agents.",
            slug="judges-agents",
        )
    if len(items) < 2:
        raise ConfigError(
            f"The runs must share 2 items or more: got {len(items)}. Pass runs on the same items; if only the form of the ids "
            "differs (example-7, task-007), match them by number.",
            slug="judges-items",
        )


def _check_common_answers(hard: Floats, names: Sequence[str], *, unit: str) -> None:
    """Check that every two judges answered a trial or pair in common; raise ConfigError [judges-trials] otherwise.

    hard : float array (n_runs, n_units), answers, NaN if missing
    unit : "trial" or "pair", for the message
    """
    for a, b in combinations(range(len(names)), 2):
        if not (~np.isnan(hard[a]) & ~np.isnan(hard[b])).any():
            raise ConfigError(
                f"{names[a]} and {names[b]} answered no {unit} in common. "
                "Run the other judge on part of one run (`youden rejudge`), or both judges on the same plan.",
                slug="judges-trials",
            )


def _get_item_keys(run: JudgedRun, match: MatchItems) -> tuple[str, ...]:
    """Return one key per item, by which the items of several runs are matched: its id, or the last number in its id.

    Raises ConfigError [judges-number] if an id has no number, or if the numbers are not unique.
    """
    item_ids = run.rates.item_ids
    if match == "id":
        return item_ids

    keys = []
    for item_id in item_ids:
        last_number = re.search(r"(\d+)\D*$", item_id)
        if last_number is not None:
            keys.append(str(int(last_number.group(1))))
    if len(set(keys)) < len(item_ids):  # an id has no number, or two ids have the same number
        raise ConfigError(
            f"The items of {run.name} cannot be matched by number: their ids do not end in unique numbers. Match them by id.",
            slug="judges-number",
        )
    return tuple(keys)


def _intersect(ids: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the ids in all sequences, in the order of the first."""
    common = set(ids[0]).intersection(*ids[1:])
    return tuple(name for name in ids[0] if name in common)


def make_unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Append their positions, from 1, to equal names. Repeat this until all names are different."""
    if len(set(names)) == len(names):
        return tuple(names)
    return make_unique_names(
        [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, 1)]
    )


def _index_shared(
    run: JudgedRun, keys: tuple[str, ...], agents: tuple[str, ...], items: tuple[str, ...]
) -> tuple[Ids, Ids]:
    """Return the position of each agent and of each item of a run among the shared ones, −1 if it is not shared.

    keys : keys of the run's items

    Returns int arrays (n_agents_of_run,) and (n_items_of_run,).
    """
    agent_positions = {name: position for position, name in enumerate(agents)}
    item_positions = {key: position for position, key in enumerate(items)}
    return (
        np.array([agent_positions.get(name, -1) for name in run.rates.agent_ids], dtype=np.int32),
        np.array([item_positions.get(key, -1) for key in keys], dtype=np.int32),
    )


def _list_shared_positions(index: Ids) -> Ids:
    """Return the positions in a run of the shared agents or items, in the order of the shared ones.

    `index`, from `_index_shared`, has the position of each agent or item of the run among the shared ones, −1 if not shared.
    """
    n_not_shared = np.count_nonzero(index < 0)
    return np.argsort(index, kind="stable")[n_not_shared:].astype(np.int32)


def _compute_differences(run: JudgedRun, agents: tuple[str, ...], target: Target) -> Differences:
    """Compute the pairwise differences of the shared agents by the answers of one run."""
    if run.result is None:
        all_differences = differences_from_rates(run.rates, target=target)
    else:
        all_differences = differences_from_verdicts(run.result, target=target)
    return all_differences.subset(np.array([run.rates.agent_ids.index(agent) for agent in agents]))


def _tabulate_trials(run: JudgedRun, agent_index: Ids, item_index: Ids) -> pd.DataFrame:
    """Tabulate the answered trials of a run on agents and items that all runs share.

    agent_index, item_index : position of each agent and item of the run among the shared ones, `_NOT_SHARED` if it is not shared

    Returns a table with one row per trial and two columns: `soft`, the answer from 0 to 1, and `hard`, the answer as 0 or 1. The
    index identifies the same trial in every run. Self-trials, which compare an agent with itself, are left out. The table is
    empty for an imported run.
    """
    if run.result is None:
        return pd.DataFrame()
    verdicts = run.result
    trial_key = _make_trial_key(verdicts.plan, agent_index, item_index)
    is_answered = verdicts.missing_reason == MISSING_REASONS.index("answered")
    is_self_trial = verdicts.plan.trial_type == SELF_TRIAL
    is_other_item_shared = trial_key["other_item"] != _NOT_SHARED
    is_comparable = is_answered & ~is_self_trial & is_other_item_shared
    return _select_shared(trial_key, is_comparable, hard=verdicts.hard_answer, soft=verdicts.answer)


def _make_trial_key(plan: Plan, agent_index: Ids, item_index: Ids) -> dict[str, NDArray[np.integer]]:
    """Return the columns that together identify a trial, with the same values in every run.

    Runs number their agents and items differently. The columns therefore contain positions among the agents and items that all
    runs share.

    plan : plan of one run
    agent_index, item_index : int arrays, position of each agent and item of the run among the shared ones, `_NOT_SHARED` if
        it is not shared

    Returns int arrays (n_trials,) by name. `other_item` is `_NO_OTHER_ITEM` for a trial on a single item.
    """
    trials = plan.trials
    if trials.first_repeat is None:  # each agent has one response per item
        trials = trials.with_first_repeats()
    columns = trials.columns()  # with the numbers of the repeated responses, `first_repeat` and `second_repeat`

    # only an independent trial has another item, that of its second response
    has_other_item = plan.other_item >= 0
    other_item = np.full(len(plan), _NO_OTHER_ITEM, dtype=item_index.dtype)
    other_item[has_other_item] = item_index[plan.other_item[has_other_item]]
    return {
        "item": item_index[plan.item],
        "first": agent_index[plan.first],
        "second": agent_index[plan.second],
        "trial_type": plan.trial_type,
        "other_item": other_item,
        "replicate": plan.replicate,
        "first_repeat": columns["first_repeat"],
        "second_repeat": columns["second_repeat"],
    }


def _tabulate_pairs(run: JudgedRun, agent_index: Ids, item_index: Ids) -> pd.DataFrame:
    """Tabulate the rates of a run by item and ordered pair of agents, for the agents and items that all runs share.

    agent_index, item_index : position of each agent and item of the run among the shared ones, `_NOT_SHARED` if it is not shared

    Returns a table with one row per pair and item, and two columns: `soft`, the true-positive rate minus the false-positive rate,
    and `hard`, 1 if this difference is at least .5, otherwise 0. Its index has the levels item, first and second: positions
    among the shared items and agents.
    """
    rates = run.rates
    fpr_or_zero = np.nan_to_num(rates.fpr)  # a false-positive rate that was not measured counts as 0
    difference = rates.tpr - fpr_or_zero
    pair_key = {
        "item": item_index[rates.item],
        "first": agent_index[rates.first],
        "second": agent_index[rates.second],
    }
    is_known = ~np.isnan(difference)
    hard = (difference >= 0.5).astype(np.float64)
    return _select_shared(pair_key, is_known, hard=hard, soft=difference)


def _select_shared(unit: Mapping[str, NDArray[np.integer]], mask: Bools, *, hard: Floats, soft: Floats) -> pd.DataFrame:
    """Tabulate answers, without those about an agent or an item that not all runs share.

    A unit is a trial, or an ordered pair of agents on an item.

    unit : columns that identify each unit, integer arrays (n_units,), which become the index
    mask : bool array (n_units,), False for units to leave out
    hard, soft : float arrays (n_units,), answers
    """
    is_shared = mask & np.all([unit[name] >= 0 for name in _PAIR_COLUMNS], axis=0)
    answers = pd.DataFrame({**unit, "hard": hard, "soft": soft})
    return pd.DataFrame(answers[is_shared]).set_index(list(unit))


def _join_answer_tables(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join the answers of several runs in one table, with one row for each trial or pair that a run has answered.

    tables : answers of each run, as 0 or 1 (column `hard`) and from 0 to 1 (`soft`). Equal index values mean the same trial or
        pair.

    Returns a table with the same index levels and the columns hard0, soft0, hard1, soft1 and so on, numbered by run. A
    value is NaN if the run has no answer.
    """
    renamed = []
    for number, table in enumerate(tables):
        renamed.append(table.rename(columns={"hard": f"hard{number}", "soft": f"soft{number}"}))
    return pd.concat(renamed, axis=1, join="outer")
