"""Several judges' runs side by side: the agents and items they share, and the units both answered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError, RunFolderError
from youden.judging.config.judge_files import load_judge_config
from youden.pipeline.ranking import differences_of, differences_of_rates
from youden.protocol.blocks import extensions_of
from youden.run_keys import Target
from youden.stats.trials.best_selection import reliability
from youden.stats.trials.comparisons import Differences
from youden.types import MISSING_REASONS, PAIRED, Scores, Verdicts
from youden.types.planning import Split
from youden.types.pool import Bools, Floats, Ids
from youden.types.recommendation import Recommendation
from youden.types.results import Rates, ScoreKind

MatchItems = Literal["id", "number"]
_TRIAL = ["item", "first", "second", "arm", "other_item", "replicate", "first_repeat", "second_repeat"]
_PAIR = ["item", "first", "second"]


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """One judge's run. result: None where the run was imported, and holds rates of ordered pairs alone. families: agent id →
    meta.family, of those that have one; family: the judge's own, None unknown. abilities: agent id → ability as its ranking has
    it, None where it is not fitted. target: what its intervals are about; recommendation: as in fit.json,
    None if the run is not fitted."""

    name: str
    digest: str | None
    rates: Rates
    result: Verdicts | None
    families: Mapping[str, str] = field(default_factory=dict)
    family: str | None = None
    abilities: Mapping[str, float] | None = None
    target: Target = "items-like-these"
    recommendation: Recommendation | None = None


def read_judged(folder: RunFolder) -> JudgedRun:
    """The run in `folder`, judged or imported. Raises: RunFolderError."""
    judged = folder.has("plan.parquet")
    result = folder.read_verdicts(folder.read_plan()) if judged else None
    pool = folder.read_pool()
    families = {agent.id: str(agent.meta["family"]) for agent in pool.agents if agent.meta.get("family")}
    ranking = folder.read_ranking() if folder.has("ranking.csv") else None
    abilities = None if ranking is None else {row.agent: row.ability for row in ranking if row.ability is not None}
    rates, target = folder.read_rates(), folder.terms.target
    family, recommendation = _family(folder), folder.recommendation
    return JudgedRun(folder.path.name, pool.digest, rates, result, families, family, abilities, target, recommendation)


def _family(folder: RunFolder) -> str | None:
    """What the run's judge says its family is; None where its config is no longer there or says nothing."""
    try:
        config = load_judge_config(folder.read_config().judge)
    except (ConfigError, RunFolderError):
        return None
    return config.family or (config.of.family if config.of else None)


class SideBySide:
    """Several runs on the agents and items that all of them have.

    `scores` and `weight` are float (n_runs, n_agents, n_items), NaN if unseen. `hard` and `soft`, float (n_runs, n_units),
    are the judges' answers to units, NaN if missing: to trials, or, if a run has none, to ordered pairs on items (soft is D,
    hard is D ≥ ½); `first`, `second` and `paired` are those of each unit. `families` has one per agent, `judge_families` one
    per judge, None if unknown. `abilities`, float (n_runs, n_agents), are those of the runs' own rankings; `above`, bool
    (n_runs, n_agents, n_agents), whether the row's agent is significantly better than the column's; `sure` is each ranking's
    reliability.
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
        kind : str, default "symmetric"
            Kind of the scores.
        match : {"id", "number"}, default "id"
            Match items by id, or by the last number in it (`example-7` is `task-007`).
        target : str, optional
            What differences between agents describe. Default: what all runs say, else items like these.
        families : mapping, optional
            Families of judges by name, in place of what the runs know.

        Raises
        ------
        ConfigError
            [judges-few], [judges-pools], [judges-agents], [judges-items], [judges-number]; [judges-trials] if two judges
            answered no unit in common; [judge-family] if `families` names another judge.
        """
        if len(runs) < 2:
            raise ConfigError(f"{len(runs)} run was given. Give two or more, one a judge.", slug="judges-few")
        if len({run.digest for run in runs if run.digest is not None}) > 1:
            raise ConfigError(
                f"The runs {', '.join(run.name for run in runs)} judged different pools of texts. Compare runs of one pool.",
                slug="judges-pools",
            )
        keys = [_item_keys(run, match) for run in runs]
        agents, items = _shared([run.rates.agent_ids for run in runs]), _shared(keys)
        _check_shared(agents, items)
        own_id = dict(zip(keys[0], runs[0].rates.item_ids, strict=True))
        self.names, self.agent_ids, self.item_ids = _names(runs), agents, tuple(own_id[key] for key in items)
        self.judge_families = self._judge_families(runs, families or {})
        places = [_place(run, key, agents, items) for run, key in zip(runs, keys, strict=True)]
        scores = [_scores_of_all_cells(run.rates, kind) for run in runs]
        cells = [np.ix_(_inverse(agent), _inverse(item)) for agent, item in places]
        self.scores = np.stack([one.value[at] for one, at in zip(scores, cells, strict=True)])
        self.weight = np.stack([one.weight[at] for one, at in zip(scores, cells, strict=True)])
        has_trials = all(run.result is not None for run in runs)
        self.units: Literal["trials", "ordered pairs"] = "trials" if has_trials else "ordered pairs"
        units = _trials if has_trials else _pairs
        table = _units([units(run, *place) for run, place in zip(runs, places, strict=True)])
        self.hard, self.soft = (
            np.stack([table[f"{answer}{number}"].to_numpy(np.float64) for number in range(len(runs))])
            for answer in ("hard", "soft")
        )
        _check_common(self.hard, self.names, unit="trial" if has_trials else "pair")
        self.first, self.second = (
            table.index.get_level_values(side).to_numpy(np.int32) for side in ("first", "second")
        )
        self.paired: Bools = np.ones(len(table), np.bool_)
        if has_trials:
            self.paired = table.index.get_level_values("arm").to_numpy() == PAIRED
        self.families = [next((run.families[agent] for run in runs if agent in run.families), None) for agent in agents]
        self.grown = any(run.result is not None and extensions_of(run.result.plan).steps for run in runs)
        self.abilities = np.array([[(run.abilities or {}).get(agent, np.nan) for agent in agents] for run in runs])
        all_these = all(run.target == "these-items" for run in runs)
        self.target: Target = target or ("these-items" if all_these else "items-like-these")
        differences = [_differences(run, agents, self.target) for run in runs]
        self.above = np.stack([one.above for one in differences])
        self.sure = np.array([reliability(one) for one in differences])
        self.recommendations = tuple(run.recommendation for run in runs)

    def _judge_families(self, runs: Sequence[JudgedRun], given: Mapping[str, str]) -> list[str | None]:
        if unknown := sorted(set(given) - set(self.names)):
            raise ConfigError(
                f"A family was given for '{unknown[0]}', but the judges are {', '.join(self.names)}. Write --family NAME=FAMILY "
                "with one of these names.",
                slug="judge-family",
            )
        return [given.get(name, run.family) for name, run in zip(self.names, runs, strict=True)]


def _scores_of_all_cells(rates: Rates, kind: ScoreKind) -> Scores:
    """Compute scores of every cell, also of held-out ones, because comparing judges predicts nothing."""
    return replace(rates, split=Split.whole((rates.n_agents, rates.n_items))).training_scores(kind=kind)


def _check_shared(agents: Sequence[str], items: Sequence[str]) -> None:
    """Raises: ConfigError where the runs share too few agents or items."""
    if len(agents) < 3:
        raise ConfigError(
            f"The runs share {len(agents)} agents; a ranking needs 3. Compare runs on the same agents.",
            slug="judges-agents",
        )
    if len(items) < 2:
        raise ConfigError(
            f"The runs share {len(items)} items. Compare runs on the same items; where only the form of the ids differs "
            "(example-7, task-007), match them by number.",
            slug="judges-items",
        )


def _check_common(hard: Floats, names: Sequence[str], *, unit: str) -> None:
    """hard: float[R, U], NaN where a judge gave no answer. Raises: ConfigError where two judges answered no unit in common."""
    for a, b in combinations(range(len(names)), 2):
        if not (~np.isnan(hard[a]) & ~np.isnan(hard[b])).any():
            raise ConfigError(
                f"{names[a]} and {names[b]} answered no {unit} in common. "
                "Judge a part of one run with the other judge (`youden rejudge`), or the same plan with both.",
                slug="judges-trials",
            )


def _item_keys(run: JudgedRun, match: MatchItems) -> tuple[str, ...]:
    if match == "id":
        return run.rates.item_ids
    found = [re.search(r"(\d+)\D*$", item) for item in run.rates.item_ids]
    keys = tuple(str(int(number.group(1))) if number else "" for number in found)
    if "" in keys or len(set(keys)) < len(keys):
        raise ConfigError(
            f"The items of {run.name} do not end in numbers of their own, so they cannot be matched by number. Match by id.",
            slug="judges-number",
        )
    return keys


def _shared(ids: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    common = set(ids[0]).intersection(*ids[1:])
    return tuple(name for name in ids[0] if name in common)


def _names(runs: Sequence[JudgedRun]) -> tuple[str, ...]:
    plain = [run.name for run in runs]
    return tuple(name if plain.count(name) == 1 else f"{name} ({n})" for n, name in enumerate(plain, 1))


def _place(run: JudgedRun, keys: tuple[str, ...], agents: tuple[str, ...], items: tuple[str, ...]) -> tuple[Ids, Ids]:
    """For each agent and item of the run its position among the shared ones, −1 where not shared."""
    agent = {name: place for place, name in enumerate(agents)}
    item = {name: place for place, name in enumerate(items)}
    return (
        np.array([agent.get(name, -1) for name in run.rates.agent_ids], dtype=np.int32),
        np.array([item.get(key, -1) for key in keys], dtype=np.int32),
    )


def _inverse(place: Ids) -> Ids:
    """Return the run's positions of the shared names, in their order."""
    return np.argsort(place, kind="stable")[np.count_nonzero(place < 0) :].astype(np.int32)


def _differences(run: JudgedRun, agents: tuple[str, ...], target: Target) -> Differences:
    found = (
        differences_of_rates(run.rates, target=target)
        if run.result is None
        else differences_of(run.result, target=target)
    )
    return found.among(np.array([run.rates.agent_ids.index(agent) for agent in agents]))


def _trials(run: JudgedRun, agent: Ids, item: Ids) -> pd.DataFrame:
    if run.result is None:
        return pd.DataFrame()
    plan, result = run.result.plan, run.result
    other = np.where(plan.other_item >= 0, item[plan.other_item], -2)
    asked = plan.trials if plan.trials.first_repeat is not None else plan.trials.of_first_repeats()
    shown = [asked.columns()[name] for name in _TRIAL[-2:]]
    columns: list[NDArray[np.integer]] = [item[plan.item], agent[plan.first], agent[plan.second]]
    columns += [plan.arm, other, plan.replicate, *shown]
    shared = (other != -1) & (result.missing == MISSING_REASONS.index("answered"))
    return _table(dict(zip(_TRIAL, columns, strict=True)), shared, hard=result.hard, soft=result.answer)


def _pairs(run: JudgedRun, agent: Ids, item: Ids) -> pd.DataFrame:
    rates = run.rates
    difference = rates.tpr - np.nan_to_num(rates.fpr)
    columns = item[rates.item], agent[rates.first], agent[rates.second]
    hard = (difference >= 0.5).astype(np.float64)
    return _table(dict(zip(_PAIR, columns, strict=True)), ~np.isnan(difference), hard=hard, soft=difference)


def _table(unit: Mapping[str, NDArray[np.integer]], kept: Bools, *, hard: Floats, soft: Floats) -> pd.DataFrame:
    """Answers by what they are about, as far as it is shared."""
    shared = kept & np.all([unit[name] >= 0 for name in _PAIR], axis=0)
    return pd.DataFrame(pd.DataFrame({**unit, "hard": hard, "soft": soft})[shared]).set_index(list(unit))


def _units(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    named = [table.rename(columns={"hard": f"hard{n}", "soft": f"soft{n}"}) for n, table in enumerate(tables)]
    return pd.concat(named, axis=1, join="outer")
