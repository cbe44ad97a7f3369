"""Forecast precision before a run has answers, from reference data sets.

Reference data are variance components, rank correlation ρ and top-5 recall of recorded answers of GPT-4o-mini (the
paper's data) and of the judge `lexical`, with 60 plans each (`python benchmarks/precision.py --only domains`). ρ and
recall compare with the ranking of the dense design, mostly of about 30 agents. Both are lower with more or with more
similar agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from youden.stats.forecast import AgentVariances
from youden.types.judging import AnswerKind
from youden.types.pool import Floats

REFERENCE_TRIALS = (60, 120, 225, 450, 900)
"""Trials per agent at which the reference data sets were measured."""


class ReferenceData(NamedTuple):
    """Measurements on one reference data set.

    Attributes
    ----------
    name : str
        Name, with the numbers of agents and items.
    agent_item, residual : float
        Variance components of an agent with the mean half-width, at 450 trials per agent.
    max_width_ratio : float
        Largest half-width of an agent divided by the mean one, at 450 trials per agent.
    rho, recall : tuple of float
        Spearman's ρ with the dense ranking, and recall of its top 5, at each of `REFERENCE_TRIALS`.
    """

    name: str
    agent_item: float
    residual: float
    max_width_ratio: float
    rho: tuple[float, ...]
    recall: tuple[float, ...]


REFERENCE_DATA: dict[AnswerKind, tuple[ReferenceData, ...]] = {
    "graded": (
        ReferenceData(
            "PubMed 30 × 200", 0.0078, 0.0784, 1.33, (0.924, 0.948, 0.962, 0.974, 0.982), (0.51, 0.60, 0.65, 0.73, 0.81)
        ),
        ReferenceData(
            "ICLR 29 × 100", 0.0099, 0.0408, 2.10, (0.837, 0.896, 0.933, 0.957, 0.971), (0.45, 0.50, 0.55, 0.63, 0.67)
        ),
        ReferenceData(
            "SAMSum 30 × 200", 0.0077, 0.0817, 1.18, (0.960, 0.977, 0.987, 0.992, 0.995), (0.69, 0.74, 0.81, 0.85, 0.89)
        ),
        ReferenceData(
            "OPUS 31 × 30", 0.0105, 0.0699, 1.56, (0.892, 0.929, 0.947, 0.966, 0.980), (0.48, 0.54, 0.56, 0.61, 0.68)
        ),
    ),
    "yes or no": (
        ReferenceData(
            "PubMed 30 × 200", 0.0120, 0.1315, 1.29, (0.924, 0.949, 0.962, 0.974, 0.983), (0.51, 0.60, 0.68, 0.74, 0.82)
        ),
        ReferenceData(
            "ICLR 29 × 100", 0.0141, 0.0649, 2.02, (0.841, 0.897, 0.933, 0.956, 0.972), (0.46, 0.50, 0.56, 0.63, 0.70)
        ),
        ReferenceData(
            "SAMSum 30 × 200", 0.0112, 0.1345, 1.20, (0.959, 0.976, 0.986, 0.991, 0.995), (0.69, 0.75, 0.81, 0.86, 0.89)
        ),
        ReferenceData(
            "OPUS 31 × 30", 0.0156, 0.1141, 1.42, (0.892, 0.932, 0.951, 0.968, 0.981), (0.47, 0.55, 0.54, 0.61, 0.72)
        ),
    ),
    "lexical": (
        ReferenceData(
            "AlpacaEval 39 × 200",
            0.0086,
            0.0148,
            1.82,
            (0.948, 0.972, 0.986, 0.991, 0.995),
            (0.63, 0.74, 0.82, 0.86, 0.91),
        ),
        ReferenceData(
            "AlpacaEval 20 × 200",
            0.0077,
            0.0109,
            1.34,
            (0.855, 0.918, 0.945, 0.969, 0.982),
            (0.69, 0.74, 0.81, 0.89, 0.93),
        ),
        ReferenceData(
            "SAMSum 30 × 200", 0.0067, 0.0187, 1.39, (0.972, 0.986, 0.991, 0.996, 0.998), (0.81, 0.86, 0.87, 0.91, 0.95)
        ),
        ReferenceData(
            "field-notes 12 × 32",
            0.0023,
            0.0213,
            1.21,
            (0.976, 0.985, 0.987, 0.991, 1.000),
            (1.00, 1.00, 1.00, 1.00, 1.00),
        ),
    ),
}
"""By kind of answers: as recorded (graded), the same answers rounded at ½ (yes or no), and those of the
judge `lexical`. The 20 models of AlpacaEval have responses of medium length and similar abilities."""

WIDTH_FACTOR = 1.35
"""Factor by which a half-width may lie outside the range of the reference data sets. This number and the next two were
chosen such that the range of the others contains each data set (ρ to within .001), and the half-widths of MT-Bench's
five models; `python benchmarks/precision.py --only forecasts` compares forecasts with runs."""
RHO_FACTOR = 4.0
"""Factor by which 1 − ρ may lie outside the range."""
RECALL_MARGIN = 0.25
"""Distance by which recall may lie outside the range."""

REGRET = {
    "uniform": (
        (0.0194, 0.0119, 0.0045, 0.0039, 0.0018),
        (0.0056, 0.0056, 0.0045, 0.0034, 0.0027),
        (0.0314, 0.0207, 0.0140, 0.0028, 0.0000),
        (0.0293, 0.0186, 0.0234, 0.0169, 0.0116),
    ),
    "search": (
        (0.0101, 0.0065, 0.0012, 0.0016, 0.0014),
        (0.0040, 0.0046, 0.0041, 0.0024, 0.0018),
        (0.0178, 0.0067, 0.0014, 0.0000, 0.0000),
        (0.0251, 0.0176, 0.0147, 0.0115, 0.0106),
    ),
}
"""Mean regret at `REFERENCE_TRIALS` trials per agent on the reference data with yes/no answers, of uniform allocation and of a
search with equally many calls (`python benchmarks/best.py --only losses`)."""


REGRET_BOUND = {
    "uniform": (
        (0.186, 0.133, 0.108, 0.082, 0.064),
        (0.144, 0.109, 0.083, 0.066, 0.055),
        (0.175, 0.126, 0.104, 0.066, 0.030),
        (0.190, 0.148, 0.134, 0.111, 0.098),
    ),
    "search": (
        (0.252, 0.187, 0.174, 0.125, 0.088),
        (0.241, 0.184, 0.177, 0.117, 0.081),
        (0.214, 0.139, 0.115, 0.073, 0.042),
        (0.251, 0.197, 0.183, 0.162, 0.145),
    ),
}
"""Mean regret bound of such plans (`python benchmarks/best.py --only losses --seeds 40`)."""


class ReferenceRange(NamedTuple):
    """Range of a forecast.

    Attributes
    ----------
    low, mean, high : float
        Mean over the reference data sets, and bounds of the range.
    """

    low: float
    mean: float
    high: float


def prior_components(kind: AnswerKind) -> AgentVariances:
    """Return the variance components of an average agent in each reference data set.

    Parameters
    ----------
    kind : {"graded", "yes or no", "lexical"}
        Kind of answers.

    Returns
    -------
    AgentVariances
        Arrays of the shape (n_data_sets,).
    """
    agent_item = np.array([data.agent_item for data in REFERENCE_DATA[kind]])
    residual = np.array([data.residual for data in REFERENCE_DATA[kind]])
    return AgentVariances(agent_item, residual)


def mean_prior_components() -> AgentVariances:
    """Return variance components of an average agent with yes/no answers, as means over the reference data sets.

    Returns
    -------
    AgentVariances
        Arrays of the shape (1,).
    """
    components = prior_components("yes or no")
    return AgentVariances(components.agent_item.mean(keepdims=True), components.residual.mean(keepdims=True))


def components_at_quantile(quantile: float, kind: AnswerKind) -> AgentVariances:
    """Estimate the variance components of an agent with a wide confidence interval, from those of an average agent.

    The components are multiplied by the squared ratio of the interval widths. There is one result per reference data set.

    Parameters
    ----------
    quantile : float in [0, 1]
        Fraction of the agents whose interval is at most as wide as that of the agent; 1 for the widest interval. Up to 0.5, the
        components are those of the average agent.
    kind : {"graded", "yes or no", "lexical"}
        Kind of answers.

    Returns
    -------
    AgentVariances
        Arrays of the shape (n_data_sets,).
    """
    # The ratio of half-widths is 1 up to the median agent, and then rises quadratically to `max_width_ratio`. Only few agents
    # have a large ratio.
    distance_above_median = max(0.0, 2 * quantile - 1)  # from 0 to 1
    max_width_ratio = np.array([data.max_width_ratio for data in REFERENCE_DATA[kind]])
    width_ratio = 1 + distance_above_median**2 * (max_width_ratio - 1)

    # variances are proportional to squared half-widths
    variance_ratio = width_ratio**2
    components = prior_components(kind)
    return AgentVariances(components.agent_item * variance_ratio, components.residual * variance_ratio)


def expected_rho(trials: float, kind: AnswerKind) -> ReferenceRange | None:
    """Forecast Spearman's ρ between the ranking from a plan and the ranking from all comparisons (the dense design).

    Parameters
    ----------
    trials : float
        Number of paired trials per agent.
    kind : {"graded", "yes or no", "lexical"}
        Kind of answers: numbers from 0 to 1 by a judge, yes or no by a judge, or the answers of the judge `lexical`.

    Returns
    -------
    ReferenceRange or None
        Mean ρ of the reference data sets, and a range for new data. The range is wider than that of the data sets: 1 − ρ is
        multiplied by 4 at the lower end, and divided by 4 at the upper end. None for fewer than 60 or more than 900 trials, for
        which there are no measurements.
    """
    rho = _interpolate_in_trials(trials, [data.rho for data in REFERENCE_DATA[kind]])
    if rho is None:
        return None
    low = max(1 - RHO_FACTOR * (1 - rho.low), -1.0)
    high = 1 - (1 - rho.high) / RHO_FACTOR
    return ReferenceRange(low, rho.mean, high)


def expected_recall(trials: float, kind: AnswerKind) -> ReferenceRange | None:
    """Forecast the recall of the top 5 agents: the fraction of the five best agents that a plan ranks among its top 5.

    The five best agents are the top 5 of the dense design, which makes all comparisons.

    Parameters
    ----------
    trials : float
        Number of paired trials per agent.
    kind : {"graded", "yes or no", "lexical"}
        Kind of answers: numbers from 0 to 1 by a judge, yes or no by a judge, or the answers of the judge `lexical`.

    Returns
    -------
    ReferenceRange or None
        Mean recall of the reference data sets, and the expected range for a new pool. The range of the data sets is
        extended by 0.25 on either side, within [0, 1]. None for fewer than 60 or more than 900 trials, for which there
        are no measurements.
    """
    recall = _interpolate_in_trials(trials, [data.recall for data in REFERENCE_DATA[kind]])
    if recall is None:
        return None
    low = max(recall.low - RECALL_MARGIN, 0.0)
    high = min(recall.high + RECALL_MARGIN, 1.0)
    return ReferenceRange(low, recall.mean, high)


def expected_regret(trials: float, *, search: bool) -> ReferenceRange | None:
    """Forecast how much better the best agent is than the selected one.

    Parameters
    ----------
    trials : float
        Paired trials per agent.
    search : bool
        Whether trials are allocated by a search for the best agent; else uniformly.

    Returns
    -------
    ReferenceRange or None
        Range of the mean regret over the reference data sets; None for fewer than 60 or more than 900 trials, for which there are
        no measurements.
    """
    return _interpolate_in_trials(trials, REGRET["search" if search else "uniform"])


def expected_regret_bound(trials: float, *, search: bool) -> ReferenceRange | None:
    """Forecast the regret bound of the selected agent.

    Parameters
    ----------
    trials : float
        Paired trials per agent.
    search : bool
        Whether trials are allocated by a search for the best agent; else uniformly.

    Returns
    -------
    ReferenceRange or None
        Range of the mean regret bound over the reference data sets; None for fewer than 60 or more than 900 trials, for which
        there are no measurements.
    """
    return _interpolate_in_trials(trials, REGRET_BOUND["search" if search else "uniform"])


def _interpolate_in_trials(trials: float, measured_values: Sequence[tuple[float, ...]]) -> ReferenceRange | None:
    """Interpolate measurements of several data sets at a number of trials, linearly in the logarithm of this number.

    measured_values : for each data set, one value at each of `REFERENCE_TRIALS`

    Returns the range of the interpolated values over the data sets; None outside the range of `REFERENCE_TRIALS`.
    """
    if not REFERENCE_TRIALS[0] <= trials <= REFERENCE_TRIALS[-1]:
        return None
    log_reference = np.log(REFERENCE_TRIALS)
    interpolated = [np.interp(np.log(trials), log_reference, values) for values in measured_values]
    return summarize_range(np.array(interpolated))


def widen_half_widths(half_width: ReferenceRange) -> ReferenceRange:
    """Widen a range of half-widths in the reference data sets, so that it probably contains the half-widths in a new pool.

    Parameters
    ----------
    half_width : ReferenceRange
        Range over the reference data sets.

    Returns
    -------
    ReferenceRange
        The range with its lower bound divided by `WIDTH_FACTOR` and its upper bound multiplied by it; same mean.
    """
    low, mean, high = half_width
    return ReferenceRange(low / WIDTH_FACTOR, mean, high * WIDTH_FACTOR)


def summarize_range(values: Floats) -> ReferenceRange:
    """Compute the smallest value, the mean and the largest value.

    Parameters
    ----------
    values : float array (n,)
        At least one value.

    Returns
    -------
    ReferenceRange
        The three numbers.
    """
    return ReferenceRange(float(values.min()), float(values.mean()), float(values.max()))
