"""Answer plans from the recorded answers of a finished run, so that designs can be compared without calls.

A dense run, in which nearly all comparisons were made, is replayed as it is. A run with fewer answers is a pilot, from which a
dense run is simulated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import StatisticsError
from youden.pipeline.fitted_run import check_fit
from youden.protocol.scores import pooled_fpr
from youden.protocol.self_trials import check_compares_agents
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.streams import standalone_stream
from youden.types import INDEPENDENT, MISSING_REASONS, PAIRED, Agent, Item, Plan, Pool, Verdicts
from youden.types.planning import Split
from youden.types.pool import Floats, ReadOnly
from youden.types.results import Rates, ScoreKind

MIN_DENSE_FRACTION = 0.9
"""Fraction of the ordered pairs that a run must have answers to in order to be replayed; a run with fewer is a pilot."""


@dataclass(frozen=True, eq=False)
class RecordedAnswers(ReadOnly):
    """Recorded or simulated mean answers of a judge to ordered pairs.

    Attributes
    ----------
    paired, independent : float array (n_items, n_agents, n_agents)
        Mean answer to (item of the first text, first agent, second agent), by trial type; NaN if unknown and on
        the diagonal.
    pool : Pool
        Agents and items; a cell (agent, item) has an empty text if any of its answers is known, otherwise None.
    rates : Rates
        Rates of the ordered pairs.
    groups : dict of str to str or None
        Group by agent id.
    caveats : tuple of str
        Caveats for readers of results that are computed from these answers.
    """

    paired: Floats
    independent: Floats
    pool: Pool
    rates: Rates
    groups: dict[str, str | None]
    caveats: tuple[str, ...] = ()

    @property
    def n_dense_calls(self) -> int:
        """Number of calls of a dense plan, of both trial types."""
        n_agents, n_items = self.pool.n_agents, self.pool.n_items
        return 2 * n_agents * (n_agents - 1) * n_items

    @property
    def observed(self) -> float:
        """Fraction of the ordered pairs of existing cells whose answer is known, in [0, 1]."""
        n_responses = self.pool.present.sum(axis=0, dtype=np.int64)
        n_pairs = int((n_responses * (n_responses - 1)).sum())
        return float((~np.isnan(self.paired)).sum() / max(n_pairs, 1))

    def scores(self, kind: ScoreKind) -> Floats:
        """Return the scores of all cells.

        Parameters
        ----------
        kind : {"symmetric", "row"}
            Kind of the scores.

        Returns
        -------
        float array (n_agents, n_items)
            NaN if unobserved.
        """
        return self.rates.training_scores(kind=kind).value


def read_dense_answers(folder: RunFolder) -> RecordedAnswers:
    """Read the answers of a dense run, so that they can be replayed.

    Parameters
    ----------
    folder : RunFolder
        A judged and fitted run, or an imported one.

    Returns
    -------
    RecordedAnswers
        The recorded answers.

    Raises
    ------
    RunFolderError
        If a file of the run is missing or damaged.
    StatisticsError
        [replay-pilot] if the run has answers to less than 90% of its ordered pairs.
    """
    recorded = read_recorded_answers(folder)
    if recorded.observed < MIN_DENSE_FRACTION:
        raise StatisticsError(
            f"This study needs a dense run: got {folder.path}, with answers to {recorded.observed:.1%} of its ordered pairs. "
            "Run a dense plan (design: dense), or run `youden study budget`, which accepts a pilot.",
            slug="replay-pilot",
        )
    return recorded


def read_recorded_answers(folder: RunFolder) -> RecordedAnswers:
    """Read the answers of a judge from the folder of a run, so that a study can replay them for other plans.

    folder : folder of a judged and fitted run, or of an imported run, which has only differences of true-positive and
        false-positive rates

    Returns the mean answer to each ordered pair of agents on each item, NaN if the run has no answer.

    Raises RunFolderError: [run-unjudged], [run-partial] if the run is not judged to its end; [fit-stale] if it was judged again
    since it was fitted; others if it asks for preferences, or if a file is missing or damaged. Raises PlanError
    [self-trials-only] if no trial compares two agents.
    """
    fpr = None
    is_judged = folder.has("plan.parquet")
    if is_judged:
        folder.check_information()
        folder.check_judged()
        check_fit(folder)
        check_compares_agents(folder.read_plan_without_trials(), "study")
        fpr = folder.read_facts().fpr

    return make_recorded_answers(
        folder.read_rates(),
        groups=folder.read_pool().groups,
        difference_only=not is_judged,
        fpr=fpr,
        caveats=folder.read_notes(),
    )


def read_usd_per_call(folder: RunFolder) -> float | None:
    """Return the average cost in USD of a call of a run.

    Parameters
    ----------
    folder : RunFolder
        A judged and fitted run.

    Returns
    -------
    float or None
        USD per call; None if the run made no calls, or if their price is 0 or unknown.
    """
    calls = folder.read_facts().calls
    if calls is None or calls.usd_per_call == 0:
        return None
    return calls.usd_per_call


def make_recorded_answers(
    rates: Rates,
    *,
    groups: dict[str, str | None] | None = None,
    difference_only: bool,
    fpr: float | None = None,
    caveats: tuple[str, ...] = (),
) -> RecordedAnswers:
    """Make recorded answers from the rates of ordered pairs, without a holdout, because each study draws one.

    Parameters
    ----------
    rates : Rates
        TPR and FPR of the ordered pairs of agents on each item.
    groups : dict of str to str or None, optional
        Agent id → its group, None if unknown. Default: no agent has a group.
    difference_only : bool
        Whether the rates have only D = TPR − FPR, as in an imported run. D is then used as the paired answer, and 0 as the
        independent answer. A caveat states this.
    fpr : float, optional
        Independent answer of every pair. It is used only if `rates.independent` is "pooled" and `difference_only` is False.
        Default: the mean answer of the independent trials in the rates, or 0 without any.
    caveats : tuple of str, optional
        Caveats for readers of results. Default: none.

    Returns
    -------
    RecordedAnswers
        Answers to all ordered pairs of agents on all items. `paired` and `independent` contain those of the two trial types:
        float arrays (n_items, n_agents, n_agents), by item, first agent and second agent, NaN if unknown.
    """
    rates = replace(rates, split=Split.without_holdout((rates.n_agents, rates.n_items)))
    shape = (rates.n_items, rates.n_agents, rates.n_agents)
    paired, independent = np.full(shape, np.nan), np.full(shape, np.nan)

    # answers to the ordered pairs whose rates are known
    pairs = rates.item, rates.first, rates.second
    if difference_only:
        paired[pairs] = rates.tpr - rates.fpr
        independent[pairs] = 0.0
        caveats = (
            *caveats,
            "In this replay, D is used as the paired answer, and the FPR, which is small in these data, as 0.",
        )
    elif rates.independent == "matched":
        paired[pairs] = rates.tpr
        independent[pairs] = rates.fpr
    else:
        pooled_rate = pooled_fpr(rates) if fpr is None else fpr
        paired[pairs] = rates.tpr
        independent[pairs] = pooled_rate or 0.0
    return RecordedAnswers(paired, independent, _make_pool(rates, paired, name="replay"), rates, groups or {}, caveats)


def _make_pool(rates: Rates, paired_answers: Floats, *, name: str) -> Pool:
    """Make a pool with the agents and items of a run whose responses are not available.

    The response of an agent to an item is an empty text if any answer about it is known, and None otherwise.

    rates : rates of the run, with the ids of its agents and items
    paired_answers : float array (n_items, n_agents, n_agents), answer to each ordered pair of agents, NaN if unknown
    name : name of the pool
    """
    is_known = ~np.isnan(paired_answers)
    is_known_first = is_known.any(axis=2)  # (n_items, n_agents), the agent comes first in a pair with an answer
    is_known_second = is_known.any(axis=1)
    present = (is_known_first | is_known_second).T
    texts = np.full(present.shape, None, dtype=object)
    texts[present] = ""
    agents = tuple(map(Agent, rates.agent_ids))
    items = tuple(map(Item, rates.item_ids))
    return Pool(agents, items, texts, name=name)


def replay(plan: Plan, recorded: RecordedAnswers) -> Verdicts:
    """Answer the trials of a plan from recorded answers, so that a design can be evaluated without a judge.

    Parameters
    ----------
    plan : Plan
        Trials of the agents and items of the recorded run.
    recorded : RecordedAnswers
        Answers of the run to its ordered pairs of agents on each item.

    Returns
    -------
    Verdicts
        One answer per trial in [0, 1]; missing if it is not recorded.
    """
    cells = plan.item, plan.first, plan.second  # the answers are arrays (n_items, n_agents, n_agents)
    answer = np.where(plan.trial_type == INDEPENDENT, recorded.independent[cells], recorded.paired[cells])
    is_unknown = np.isnan(answer)
    answered, not_asked = MISSING_REASONS.index("answered"), MISSING_REASONS.index("not_asked")
    missing_reason = np.where(is_unknown, not_asked, answered).astype(np.int8)
    hard_answer = np.where(is_unknown, np.nan, (answer >= 0.5).astype(np.float64))
    return Verdicts(plan, answer, hard_answer, missing_reason, judge={"name": "replay"})


def estimate_row_abilities(result: Verdicts) -> Floats:
    """Estimate abilities by row scores: from the trials that show the response of an agent first.

    The ability of an agent is the mean answer to its paired trials of this kind, minus the false-positive rate. This rate is the
    mean answer to all independent trials, or 0 without any. Trials without an answer are left out.

    Parameters
    ----------
    result : Verdicts
        Trials with their answers.

    Returns
    -------
    float array (n_agents,)
        Abilities; NaN for an agent without an answered paired trial that shows it first.
    """
    plan = result.plan
    is_paired = (plan.trial_type == PAIRED) & result.answered
    n_trials = np.bincount(plan.first[is_paired], minlength=plan.n_agents)
    total = np.bincount(plan.first[is_paired], weights=result.answer[is_paired], minlength=plan.n_agents)
    mean: Floats = np.full(plan.n_agents, np.nan)
    np.divide(total, n_trials, out=mean, where=n_trials > 0)

    is_independent = (plan.trial_type == INDEPENDENT) & result.answered
    fpr = float(result.answer[is_independent].mean()) if is_independent.any() else 0.0
    return mean - fpr


_Z95 = 1.959964
_ROUNDING = 1e-9


def read_or_simulate_answers(folder: RunFolder, *, seed: int) -> RecordedAnswers:
    """Read the recorded answers of a run, or simulate the answers of a dense run if the run has too few answers.

    A run with answers to fewer than 90% of the ordered pairs of responses (`MIN_DENSE_FRACTION`) is a pilot. The answers of a
    dense run, which has all pairs, are then simulated from it.

    Parameters
    ----------
    folder : RunFolder
        A judged and fitted run, or an imported one.
    seed : int
        Seed of the simulation.

    Returns
    -------
    RecordedAnswers
        Recorded or simulated answers; `caveats` has a note if they are simulated.

    Raises
    ------
    RunFolderError
        If a file of the run is missing or damaged.
    StatisticsError
        [pilot-thin] if fewer than 3 agents have an interval.
    """
    recorded = read_recorded_answers(folder)
    if recorded.observed >= MIN_DENSE_FRACTION:
        return recorded
    return simulate_from_pilot(recorded, seed=seed)


def simulate_from_pilot(pilot: RecordedAnswers, *, seed: int) -> RecordedAnswers:
    """Simulate the answers of a dense run from the answers of a pilot (a run with few answers).

    Parameters
    ----------
    pilot : RecordedAnswers
        Answers of the pilot.
    seed : int
        Seed of the simulation.

    Returns
    -------
    RecordedAnswers
        Answers to all ordered pairs.

    Raises
    ------
    StatisticsError
        [pilot-thin] if fewer than 3 agents of the pilot have an interval.

    Notes
    -----
    Answers follow y = c + a_i + a_k − b_j + e, clipped so that y − FPR is in [−1, 1]; e is drawn from the residuals of
    the pilot. The agent effects a and the item effects b are those of `ClippedLinear` on symmetric scores, shrunk
    towards their means by their reliability, so that noise of the pilot is not simulated as differences between agents.
    """
    rates = pilot.rates
    model = ClippedLinear().fit(rates.training_scores())
    std_error = (model.high_ - model.low_) / (2 * _Z95)
    if (~np.isnan(std_error)).sum() < 3:
        raise StatisticsError(
            "The pilot is too small to separate differences between agents from noise: fewer than 3 agents have an interval. "
            "Add calls, for example 30 per agent.",
            slug="pilot-thin",
        )

    mean = _predict_answers(model, std_error)
    is_known = ~np.isnan(pilot.paired)
    residuals = (pilot.paired - mean)[is_known]
    independent_answers = pilot.independent[is_known & ~np.isnan(pilot.independent)]
    fpr = float(independent_answers.mean()) if len(independent_answers) else 0.0

    errors = standalone_stream(seed).choice(residuals, size=mean.shape)
    paired = np.clip(mean + errors, fpr - 1 + _ROUNDING, 1)
    diagonal = np.arange(rates.n_agents)
    paired[:, diagonal, diagonal] = np.nan
    independent = np.where(np.isnan(paired), np.nan, fpr)

    caveat = (
        f"The run is a pilot, with answers to {pilot.observed:.1%} of its ordered pairs: figures come from a dense run that is "
        "simulated from its additive fit and residuals, without interactions of particular pairs, and are somewhat too good."
    )
    return RecordedAnswers(
        paired=paired,
        independent=independent,
        pool=_make_pool(rates, paired, name="imagined"),
        rates=_make_rates(paired, independent, rates),
        groups=pilot.groups,
        caveats=(*pilot.caveats, caveat),
    )


def _predict_answers(model: ClippedLinear, std_error: Floats) -> Floats:
    """Predict the mean answer of a judge to each ordered pair of agents on each item, from the fit of a pilot run.

    A pilot has few answers, so its estimates vary more than the true abilities and difficulties do. They are therefore shrunk
    towards their means.

    model : additive model, fitted to the scores of the pilot
    std_error : float array (n_agents,), standard errors of the fitted abilities, NaN if unknown

    Returns a float array (n_items, n_agents, n_agents).
    """
    ability_error = np.where(np.isnan(std_error), np.nanmean(std_error), std_error)
    ability = _shrink_to_mean(model.ability_, ability_error)
    difficulty_error = _estimate_difficulty_errors(model.residual_)
    difficulty = _shrink_to_mean(np.nan_to_num(model.difficulty_), difficulty_error)

    # θ_i − mean θ is the effect a_i of agent i plus the mean effect of its K − 1 partners. All effects sum to 0, so the mean
    # effect of the partners is −a_i/(K − 1). Therefore, a_i = (K − 1)/(K − 2)·(θ_i − mean θ), for K ≥ 3 (the pilot is checked).
    n_agents = len(ability)
    mean_ability = ability.mean()
    effect_scale = (n_agents - 1) / (n_agents - 2)
    effect = effect_scale * (ability - mean_ability)

    # an answer depends on both agents (axes 1 and 2) and on the item (axis 0)
    mean_answer: Floats = mean_ability + effect[:, None] + effect[None, :] - difficulty[:, None, None]
    return mean_answer


def _estimate_difficulty_errors(residuals: Floats) -> Floats:
    """Estimate the standard error of the difficulty of each item: the SD of all residuals / √(number of scores of the item).

    residuals : float array (n_agents, n_items), residuals of the scores, NaN without a score
    """
    n_scores = (~np.isnan(residuals)).sum(axis=0)
    residual_sd = np.sqrt(np.nanmean(residuals**2))
    return np.asarray(residual_sd / np.sqrt(np.maximum(n_scores, 1)))


def _shrink_to_mean(value: Floats, std_error: Floats) -> Floats:
    """Shrink estimates towards their mean, so that they vary as much as the true values; NaN becomes the mean.

    Distances from the mean are multiplied by √reliability, with the reliability 1 − mean SE² / variance, at least 0.

    value, std_error : float arrays (n,), estimates and their standard errors
    """
    variance = float(np.nanvar(value))
    error_variance = float(np.mean(std_error**2))
    reliability = 0.0
    if variance > 0:
        reliability = max(0.0, 1 - error_variance / variance)
    mean = float(np.nanmean(value))
    shrunk = mean + np.sqrt(reliability) * (value - mean)
    return np.where(np.isnan(value), mean, shrunk)


def _make_rates(paired_answers: Floats, independent_answers: Floats, pilot_rates: Rates) -> Rates:
    """Make a table of rates from simulated answers.

    There is one paired and one independent answer to each ordered pair of agents on each item.

    paired_answers, independent_answers : float arrays (n_items, n_agents, n_agents); NaN on the diagonal
    pilot_rates : rates of the run from which the answers were simulated, with its ids and its split into training and holdout
    """
    pairs = np.nonzero(~np.isnan(paired_answers))
    item, first, second = (index.astype(np.int32) for index in pairs)
    ones = np.ones(len(item), dtype=np.int32)  # one answer of each type per pair
    return Rates(
        item=item,
        first=first,
        second=second,
        tpr=paired_answers[pairs],
        fpr=independent_answers[pairs],
        n_paired=ones,
        n_independent=ones,
        n_missing=np.zeros_like(ones),
        independent="matched",
        agent_ids=pilot_rates.agent_ids,
        item_ids=pilot_rates.item_ids,
        split=pilot_rates.split,
    )
