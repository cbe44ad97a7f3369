"""A finished run as a judge: plans are answered from what it knows, or from a whole world imagined from a pilot, so that
designs can be tried without calls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import StatisticsError
from youden.protocol.scores import pooled_fpr
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.streams import own_stream
from youden.types import INDEPENDENT, MISSING_REASONS, PAIRED, Agent, Item, Plan, Pool, Verdicts
from youden.types.planning import Split
from youden.types.pool import Floats, ReadOnly
from youden.types.results import Rates, ScoreKind

DENSE_ENOUGH = 0.9
"""Share of ordered pairs that a run must have asked to stand in for the judge; below it is a pilot."""


@dataclass(frozen=True, eq=False)
class World(ReadOnly):
    """What a judge would answer.

    paired, independent: float[J, K, K], the mean answer to the ordered pair (first, second) on the item of the first text, by
    arm; NaN unseen and on the diagonal. pool: its agents and items, with empty texts where anything is known of a cell.
    groups: agent id → group. words: what a reader of any number made from it has to know.
    """

    paired: Floats
    independent: Floats
    pool: Pool
    rates: Rates
    groups: dict[str, str | None]
    words: tuple[str, ...] = ()

    @property
    def n_dense_calls(self) -> int:
        K, J = self.pool.n_agents, self.pool.n_items
        return 2 * K * (K - 1) * J

    @property
    def observed(self) -> float:
        """Share of the ordered pairs of existing cells whose answer is known, in [0, 1]."""
        m = self.pool.present.sum(axis=0, dtype=np.int64)
        return float((~np.isnan(self.paired)).sum() / max(int((m * (m - 1)).sum()), 1))

    def scores(self, kind: ScoreKind) -> Floats:
        """Dense scores, float[K, J], NaN unseen."""
        return self.rates.training_scores(kind=kind).value


def open_world(folder: RunFolder) -> World:
    """The world of a run's folder, imported or judged.

    Raises: RunFolderError; StatisticsError [replay-pilot] where the run asked under 90 % of its ordered pairs.
    """
    world = read_world(folder)
    if world.observed < DENSE_ENOUGH:
        raise StatisticsError(
            f"{folder.path} asked {world.observed:.1%} of its ordered pairs; this study needs a dense run. "
            "Judge a dense plan (design: dense), or ask `youden study budget`, which takes a pilot.",
            slug="replay-pilot",
        )
    return world


def read_world(folder: RunFolder) -> World:
    """What a run's folder knows, dense or not. Raises: RunFolderError."""
    rates = folder.read_rates()
    groups = {agent.id: agent.group for agent in folder.read_pool().agents}
    judged = folder.has("plan.parquet")
    fpr = folder.read_facts().fpr if judged else None
    return make_world(rates, groups=groups, difference_only=not judged, fpr=fpr, words=folder.read_notes())


def usd_per_call(folder: RunFolder) -> float | None:
    """What a call of the run cost, USD; None where it made none or its price is unknown."""
    calls = folder.read_facts().calls
    return (calls.usd_per_call or None) if calls is not None else None


def make_world(
    rates: Rates,
    *,
    groups: dict[str, str | None] | None = None,
    difference_only: bool,
    fpr: float | None = None,
    words: tuple[str, ...] = (),
) -> World:
    """The world that `rates` are.

    difference_only: only D is known (an import). fpr: the pooled false-positive rate, which stands for every independent answer
    of a pooled plan.
    """
    # a world replaces the judge, and each study holds out cells of its own
    rates = replace(rates, split=Split.whole((rates.n_agents, rates.n_items)))
    shape = (rates.n_items, rates.n_agents, rates.n_agents)
    paired, independent = np.full(shape, np.nan), np.full(shape, np.nan)
    place = rates.item, rates.first, rates.second
    if difference_only:
        paired[place], independent[place] = rates.tpr - rates.fpr, 0.0
        words = (
            *words,
            "Replayed: D is taken as the paired answer, and the FPR, known to be small in these data, as 0.",
        )
    elif rates.independent == "twin":
        paired[place], independent[place] = rates.tpr, rates.fpr
    else:
        rate = pooled_fpr(rates) if fpr is None else fpr
        paired[place], independent[place] = rates.tpr, rate or 0.0
    known = ~np.isnan(paired)
    present = (known.any(axis=2) | known.any(axis=1)).T
    texts = np.full(present.shape, None, dtype=object)
    texts[present] = ""
    pool = Pool(tuple(map(Agent, rates.agent_ids)), tuple(map(Item, rates.item_ids)), texts, name="replay")
    return World(paired, independent, pool, rates, groups or {}, words)


def replay(plan: Plan, world: World) -> Verdicts:
    """The world's answers to `plan`; what it never saw is missing."""
    place = plan.item, plan.first, plan.second
    answer = np.where(plan.arm == INDEPENDENT, world.independent[place], world.paired[place])
    unseen = np.isnan(answer)
    missing = np.where(unseen, MISSING_REASONS.index("not_asked"), 0).astype(np.int8)
    hard = np.where(unseen, np.nan, (answer >= 0.5).astype(np.float64))
    return Verdicts(plan, answer, hard, missing, {"name": "replay"})


def paired_mean_first(result: Verdicts) -> Floats:
    """Compute the mean paired answer of trials that show the agent first, minus the mean independent one.

    Returns float (n_agents,), NaN for agents without such a trial.
    """
    plan = result.plan
    used = (plan.arm == PAIRED) & result.answered
    n = np.bincount(plan.first[used], minlength=plan.n_agents)
    total = np.bincount(plan.first[used], weights=result.answer[used], minlength=plan.n_agents)
    apart = (plan.arm == INDEPENDENT) & result.answered
    rate = float(result.answer[apart].mean()) if apart.any() else 0.0
    mean: Floats = np.full(plan.n_agents, np.nan)
    np.divide(total, n, out=mean, where=n > 0)
    return mean - rate


_Z95 = 1.959964
_ROUNDING = 1e-9


def read_dense_or_imagine(folder: RunFolder, *, seed: int) -> World:
    """The world of a run's folder where it is dense, else one imagined from it. Raises: RunFolderError, StatisticsError."""
    world = read_world(folder)
    return world if world.observed >= DENSE_ENOUGH else imagine(world, seed=seed)


def imagine(pilot: World, *, seed: int) -> World:
    """A dense world: y = μ + a_i + a_k − b_j + e, clipped so that y less the FPR is in [−1, 1], e drawn from the residuals.

    a and b: of `ClippedLinear` on symmetric scores, shrunk towards their mean by their reliability (a's from its intervals, b's
    from the residuals), so that noise of the pilot is not taken for differences between agents.

    Raises: StatisticsError [pilot-thin] where fewer than 3 agents of the pilot have an interval.
    """
    rates = pilot.rates
    model = ClippedLinear().fit(rates.training_scores())
    error = (model.high_ - model.low_) / (2 * _Z95)
    if (~np.isnan(error)).sum() < 3:
        raise StatisticsError(
            "The pilot gives fewer than 3 agents an interval, so nothing says how much of their difference is noise. "
            "Give it more calls (30 an agent are a start).",
            slug="pilot-thin",
        )
    K, J = model.residual_.shape
    ability = _shrunk(model.ability_, np.where(np.isnan(error), np.nanmean(error), error))
    n_agents = (~np.isnan(model.residual_)).sum(axis=0)
    spread = np.sqrt(np.nanmean(model.residual_**2))
    difficulty = _shrunk(np.nan_to_num(model.difficulty_), spread / np.sqrt(np.maximum(n_agents, 1)))
    a = (K - 1) / (K - 2) * (ability - ability.mean())
    mean = ability.mean() + a[:, None] + a[None, :] - difficulty[:, None, None]
    known = ~np.isnan(pilot.paired)
    left = (pilot.paired - mean)[known]
    rng = own_stream(seed)
    apart = pilot.independent[known & ~np.isnan(pilot.independent)]
    rate = float(apart.mean()) if len(apart) else 0.0
    paired = np.clip(mean + rng.choice(left, size=mean.shape), rate - 1 + _ROUNDING, 1)
    paired[:, np.arange(K), np.arange(K)] = np.nan
    independent = np.where(np.isnan(paired), np.nan, rate)
    return World(
        paired,
        independent,
        Pool(
            tuple(map(Agent, rates.agent_ids)),
            tuple(map(Item, rates.item_ids)),
            np.full((K, J), "", dtype=object),
            name="imagined",
        ),
        _rates(paired, independent, rates),
        pilot.groups,
        (
            *pilot.words,
            f"The run is a pilot ({pilot.observed:.1%} of its ordered pairs were asked): figures come from a dense run imagined "
            "from its additive fit and residuals, without preferences of particular pairs, and are somewhat too good.",
        ),
    )


def _shrunk(value: Floats, error: Floats) -> Floats:
    """Towards the mean by reliability 1 − mean error² / variance, at least 0."""
    variance = float(np.nanvar(value))
    reliability = max(0.0, 1 - float(np.mean(error**2)) / variance) if variance > 0 else 0.0
    centre = float(np.nanmean(value))
    return np.where(np.isnan(value), centre, centre + np.sqrt(reliability) * (value - centre))


def _rates(paired: Floats, independent: Floats, like: Rates) -> Rates:
    item, first, second = (index.astype(np.int32) for index in np.nonzero(~np.isnan(paired)))
    ones = np.ones(len(item), dtype=np.int32)
    place = item, first, second
    return Rates(
        item=item,
        first=first,
        second=second,
        tpr=paired[place],
        fpr=independent[place],
        n_paired=ones,
        n_independent=ones,
        n_missing=np.zeros_like(ones),
        independent="twin",
        agent_ids=like.agent_ids,
        item_ids=like.item_ids,
        split=like.split,
    )
