"""Estimate mean scores of models from a table with missing cells, and how much the ranking depends on its items.

The additive model (model + item) allows for models with scores on different items. Its estimates are the means of a
complete table. Scores are in [0, 1], and agents are the models.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from math import ceil, factorial
from typing import NamedTuple

import numpy as np
from scipy.linalg import pinvh
from scipy.special import ndtri, stdtr, stdtrit

from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.base.clusters import ROUNDING, CentredCovariance
from youden.stats.trials.comparisons import Differences, are_equal, holm, pairwise_differences
from youden.types.pool import Bools, Floats, Ids

_FEW_ITEMS = 3
"""Maximum effective number of items at which a difference has at least the variance by independent residuals.

With more items, this minimum decreases."""
MIN_ITEMS_OF_T_TEST = 10
"""Minimum number of items for which a covariance is tested by Student's t."""


class ScoreMeans(NamedTuple):
    """Mean scores of models over the population that the items were sampled from.

    Attributes
    ----------
    mean, std_error, low, high : float array (n_agents,)
        Estimates, their standard errors and the bounds of their intervals; NaN if unknown.
    difficulty : float array (n_items,)
        Mean of all models' mean scores, minus the expected score of the average model on the item; NaN for an item without a
        score.
    influence : float array (n_agents, n_items)
        Influence of each item on each mean; 0 if unknown.
    share : float array (n_agents, n_items)
        Share of the item in the weight of the agent.
    residual : float array (n_agents, n_items)
        Scores minus their fitted values; NaN if missing.
    covariance : CentredCovariance
        Covariance of the distances from the average model of the component; NaN between components.
    differences : Differences
        Differences of all pairs of models; NaN between components.
    is_constant : bool array (n_agents, n_agents)
        Pairs of models whose scores differ by the same value on each item, so that no variance was observed.
    model : ClippedLinear
        The additive fit.
    """

    mean: Floats
    std_error: Floats
    low: Floats
    high: Floats
    difficulty: Floats
    influence: Floats
    share: Floats
    residual: Floats
    covariance: CentredCovariance
    differences: Differences
    is_constant: Bools
    model: ClippedLinear


def estimate_score_means(score: Floats, *, level: float = 0.95) -> ScoreMeans:
    """Estimate the mean scores of models over items like the given ones.

    Parameters
    ----------
    score : float array (n_agents, n_items)
        Scores in [0, 1], NaN for missing cells.
    level : float, default 0.95
        Confidence level of the intervals.

    Returns
    -------
    ScoreMeans
        Mean score of each model with its standard error and interval, as if it had a score on every item; difficulties of
        the items; and the differences between all pairs of models. Models that no common items link, directly or through
        other models, cannot be compared.

    Raises
    ------
    StatisticsError
        [scores-empty]: if all cells are missing; [scores-infinite], [scores-range]: if a score is outside [−1, 1]; [level]:
        unless 0 < level < 1.

    Notes
    -----
    The model s_ij = θ_i − b_j + e_ij with Σ b_j = 0 is fitted by least squares, separately for each connected component.
    The influence of item j on θ_i is ψ_ij = U_ij + (c_j − c̄)/J − Σ_k w_k U_kj: U_ij on the distance of θ_i from the mean
    (see `covariance_by_item`), c_j = θ̄ − b_j the score of the average model on the item, and w_k the mean share of model
    k in an item minus 1/K. The variance is Σ_j ψ_ij²/(1 − p_ij), with p_ij the share of the item. With n scores, the
    interval is Wilson's for a proportion of the effective size n* = max(min(n, q), q·(z/t)²), where q is θ(1 − θ)/variance
    and t Student's quantile; n* = n if θ is 0 or 1, or if all scores are equal. The degrees of freedom are
    1/(a²/n + (1 − a)²/(J − n)) − 1, with a the share of the items with a score in Σ ψ² (Satterthwaite).

    The variance of θ_i − θ_k is Σ_j (U_ij/√(1 − p_ij) − U_kj/√(1 − p_kj))², with min(n_i, n_k) − 1 degrees of freedom. In a
    complete table, this is the paired t interval over items. If cells are missing, let w_j be the sum of squares of the weights
    that the scores of item j have in the difference, and let m = (Σ w)²/Σ w² be the effective number of items. The degrees of
    freedom are then limited to max(m − 1, 1). If this limit lowers them, the variance is at least min(1, 3/m)·s²·Σ w, with s² the
    residual variance. If the difference d is the same on each of n common items, the half-width is q(1 + |d|) with q = 1 − ((1 −
    level)/2)^(1/n): at most the fraction q of all items has a different value, which lies in [−1, 1].

    References
    ----------
    Korn & Graubard (1998), Survey Methodology 24, 193–201 (effective size); Satterthwaite (1946),
    Biometrics Bulletin 2, 110–114; Wilson (1927), J. American Statistical Association 22, 209–212.
    """
    # the symbols are those of the notes
    model = _fit_additive_model(score)
    observed = ~np.isnan(score)
    mean, difficulty = _center_difficulties(model, observed)
    n_agents = len(score)
    n_scores = observed.sum(axis=1)
    variance, df, df_of_mean = np.full((3, n_agents), np.nan)
    covariance = np.full((n_agents, n_agents), np.nan)
    influence, share = np.zeros((2, *score.shape))
    for group in model.item_influence():
        agents = group.agents
        has_score = observed[agents]
        items = np.flatnonzero(has_score.any(axis=0))
        has_score = has_score[:, items]
        n_items = len(items)

        # ψ, the influence on mean scores, from the influence U on their distances from the mean of the group
        U = group.influence[:, items]
        psi = _compute_influence_on_means(U, has_score, average_score=-difficulty[items])
        p = np.maximum(group.share[:, items], 1 / n_items)
        variance[agents] = (psi**2 / (1 - p)).sum(axis=1)
        influence[np.ix_(agents, items)] = psi
        share[agents] = group.share

        df_of_mean[agents] = _compute_df_of_means(psi, has_score)

        # sandwich estimator without shrinkage, so that a difference depends on its two models alone
        g = U / np.sqrt(1 - p)
        g -= g.mean(axis=0)
        covariance[np.ix_(agents, agents)] = g @ g.T
        df[agents] = n_scores[agents] - 1

    fitted = mean[:, None] - difficulty
    residual = score - fitted
    low, high = _compute_wilson_bounds(np.clip(mean, 0, 1), variance, n_scores, df_of_mean, level)
    centred_covariance = CentredCovariance(covariance, df)
    differences, is_constant = _compare_models(residual, mean, centred_covariance, model.component_, level)
    return ScoreMeans(
        mean=mean,
        std_error=np.sqrt(variance),
        low=low,
        high=high,
        difficulty=difficulty,
        influence=influence,
        share=share,
        residual=residual,
        covariance=centred_covariance,
        differences=differences,
        is_constant=is_constant,
        model=model,
    )


def _compute_influence_on_means(influence: Floats, has_score: Bools, *, average_score: Floats) -> Floats:
    """Compute the influence of each item on the mean score of each model.

    A mean score is the mean over all models, the center, plus the model's distance from the center. An item influences both, and
    the two influences are added.

    influence : float array (n_agents, n_items), influence on the distances from the center
    has_score : bool array (n_agents, n_items), cells with a score
    average_score : float array (n_items,), score of the average model on each item, up to a constant

    Returns a float array (n_agents, n_items).
    """
    n_agents, n_items = influence.shape
    influence_on_center = (average_score - average_score.mean()) / n_items

    # with missing cells, models with more scores than others have a larger influence on the center
    share_of_scores = has_score / has_score.sum(axis=0)  # of each model among the scores of an item
    excess_share = share_of_scores.mean(axis=1) - 1 / n_agents  # 0 in a complete table
    return np.asarray(influence + influence_on_center - excess_share @ influence)


def _compute_df_of_means(influence: Floats, has_score: Bools) -> Floats:
    """Compute the degrees of freedom of the variances of mean scores by Satterthwaite's formula, float array (n_agents,).

    The variance of a mean score is the sum of the squared influences of all items. A model has scores on n items, which
    contribute the share a of this sum. The n' other items contribute 1 − a. The degrees of freedom are 1/(a²/n + (1 − a)²/n') −
    1.

    influence : float array (n_agents, n_items), influence of each item on each mean score
    has_score : bool array (n_agents, n_items), cells with a score
    """
    n_items = has_score.shape[1]
    n_scored_items = has_score.sum(axis=1)
    n_other_items = np.maximum(n_items - n_scored_items, 1)
    squares = influence**2
    total = np.maximum(squares.sum(axis=1), np.finfo(np.float64).tiny)
    scored_share = (squares * has_score).sum(axis=1) / total  # a
    inverse_df = scored_share**2 / n_scored_items + (1 - scored_share) ** 2 / n_other_items
    return np.asarray(1 / inverse_df - 1)


def _center_difficulties(fit: ClippedLinear, observed: Bools) -> tuple[Floats, Floats]:
    """Shift abilities and difficulties so that the mean difficulty is 0 in each component.

    A component is a set of models that common items connect, with the items on which they have scores.

    observed : bool array (n_agents, n_items), cells with a score

    Returns the shifted abilities, float array (n_agents,), and difficulties, float array (n_items,).
    """
    ability, difficulty = fit.ability_.copy(), fit.difficulty_.copy()
    for component_number in range(fit.n_components_):
        is_member = fit.component_ == component_number
        is_scored_item = observed[is_member].any(axis=0)
        mean_difficulty = difficulty[is_scored_item].mean()
        ability[is_member] -= mean_difficulty
        difficulty[is_scored_item] -= mean_difficulty
    return ability, difficulty


def _compare_models(
    residual: Floats, mean: Floats, covariance: CentredCovariance, component: Ids, level: float
) -> tuple[Differences, Bools]:
    """Compute the differences between the mean scores of all pairs of models, with confidence intervals.

    If two models differ by the same amount on all common items, the observed variance of the difference is 0. The interval is
    then computed by `_compute_constant_half_width`.

    residual : float array (n_agents, n_items), residuals of the fit, NaN for missing cells
    mean : float array (n_agents,), mean scores of the models
    covariance : covariance of the mean scores
    component : int array (n_agents,), component of each model: the same number for models that common items connect
    level : confidence level

    Returns the differences of mean scores, and a bool array (n_agents, n_agents) that is True for constant differences.
    """
    observed = ~np.isnan(residual)
    differences = pairwise_differences(mean, covariance, level=level)
    n_common_items = np.maximum(observed.astype(np.float64) @ observed.T, 1)

    # a difference is constant if its standard deviation over the n common items, √n × standard error, is 0 except for rounding
    sd_over_items = differences.std_error * np.sqrt(n_common_items)
    is_constant = np.asarray(sd_over_items < ROUNDING)
    if not observed.all():
        differences = _widen_for_few_items(differences, residual, component)

    constant_half_width = _compute_constant_half_width(differences.value, n_common_items, level)
    half_width = np.where(is_constant, constant_half_width, differences.half_width)

    # a half-width is quantile × standard error, which gives the standard error of a constant difference
    quantile = stdtrit(differences.df, (1 + level) / 2)
    std_error = np.where(is_constant, half_width / quantile, differences.std_error)

    is_better = np.asarray(differences.value > half_width)
    differences = Differences(differences.value, std_error, differences.df, half_width, is_better, level)
    return differences, is_constant


def _compute_constant_half_width(difference: Floats, n_common_items: Floats, level: float) -> Floats:
    """Compute the half-width of the interval of a difference d that was observed on all n common items, without any variance.

    The difference may be −1 or 1 on a share q of all items that was not sampled. The probability that n sampled items contain
    none of that share is (1 − q)ⁿ. The half-width is q·(1 + |d|), with the largest q for which this probability is at least
    (1 − level)/2.

    difference : float array (n_agents, n_agents), difference d of each pair of models
    n_common_items : float array (n_agents, n_agents), number of items on which both models have a score, at least 1
    level : confidence level

    Returns a float array (n_agents, n_agents).
    """
    alpha_of_side = (1 - level) / 2
    max_unseen_share = 1 - alpha_of_side ** (1 / n_common_items)
    return np.asarray(max_unseen_share * (1 + np.abs(difference)))


def _widen_for_few_items(differences: Differences, residual: Floats, component: Ids) -> Differences:
    """Widen the intervals of differences that depend on few items, because two models have few items in common.

    With w_j the sum of the squared weights that the scores of item j have in a difference, m = (Σ w)²/Σ w² is its effective
    number of items. The degrees of freedom are limited to max(m − 1, 1). If this limit lowers them, a standard error below a
    minimum is raised to it.

    differences : differences of all pairs of models by the sandwich estimator
    residual : float array (n_agents, n_items), residuals of the fit; NaN for missing cells
    component : int array (n_agents,), component of each model: the same number for models that common items connect

    Returns the differences with new standard errors, degrees of freedom and half-widths, but the old `significantly_better`.
    """
    # residual variance s²; one parameter per model and item, less one per component, is fitted
    observed = ~np.isnan(residual)
    n_agents, n_items = residual.shape
    n_parameters = n_agents + n_items - len(np.unique(component))
    residual_variance = float(np.nansum(residual**2)) / max(observed.sum() - n_parameters, 1)

    # covariance of the models' abilities for s² = 1: the pseudo-inverse of Σ_j (I − 11ᵀ/n) over the n models of each item j
    n_models_of_item = observed.sum(axis=0)
    share = observed / np.maximum(n_models_of_item, 1)
    normal_matrix = np.diag(observed.sum(axis=1)) - observed.astype(np.float64) @ share.T
    inverse = pinvh(normal_matrix, rtol=1e-9)

    # sums over items of w and w², float arrays (n_agents, n_agents)
    sum_of_w, sum_of_squared_w = np.zeros((2, n_agents, n_agents))
    for item in np.flatnonzero(n_models_of_item > 1):
        # weight of each score of the item in each ability (n_agents, n_models_of_item)
        weight = inverse[:, observed[:, item]]
        weight = weight - weight.mean(axis=1, keepdims=True)

        # ‖a − b‖² = ‖a‖² + ‖b‖² − 2ab for the weights a and b of two models
        product = weight @ weight.T
        squared_norm = np.diag(product)
        w = squared_norm[:, None] + squared_norm - 2 * product
        sum_of_w += w
        sum_of_squared_w += w**2

    # m is 1 for a difference without weights, such as that of a model from itself
    m = np.divide(sum_of_w**2, sum_of_squared_w, out=np.ones(sum_of_w.shape), where=sum_of_squared_w > 0)
    df = np.minimum(differences.df, np.maximum(m - 1, 1))
    min_std_error = np.sqrt(residual_variance * sum_of_w * np.minimum(1, _FEW_ITEMS / m))

    has_few_items = df < differences.df - ROUNDING
    raised_std_error = np.maximum(differences.std_error, min_std_error)
    std_error = np.where(has_few_items, raised_std_error, differences.std_error)
    half_width = stdtrit(df, (1 + differences.level) / 2) * std_error
    return replace(differences, std_error=std_error, df=df, half_width=half_width)


def _fit_additive_model(score: Floats) -> ClippedLinear:
    """Fit the additive model; the ridge is too small to change a mean that is 0 or 1."""
    return ClippedLinear(constraint="none", ridge=1e-10).fit(score)


def _compute_wilson_bounds(
    mean: Floats, variance: Floats, n_scores: Ids, df: Floats, level: float
) -> tuple[Floats, Floats]:
    """Compute Wilson's confidence interval of the mean score of each model, which stays in [0, 1].

    Wilson's formula is for means of values that are 0 or 1. Other scores vary less. The number n of scores in the formula is
    therefore replaced by an effective size n*: the number of 0-or-1 values whose mean has the same variance.

    mean, variance : float arrays (n_agents,), mean scores and their sampling variances
    n_scores : int array (n_agents,), number of scores of each model
    df : float array (n_agents,), degrees of freedom of the variances
    level : confidence level

    Returns the lower and upper bounds, float arrays (n_agents,), NaN if the variance is NaN.
    """
    # Wilson's formula uses the normal quantile z; the ratio to Student's t allows for the uncertain variance
    probability = (1 + level) / 2
    z = float(ndtri(probability))
    t = np.asarray(stdtrit(np.maximum(df, 1), probability), dtype=np.float64)
    size = _compute_effective_sizes(mean, variance, n_scores, quantile_ratio=z / t)

    # Wilson (1927), with the mean θ: (θ + z²/2n* ± z·√(θ(1 − θ)/n* + z²/4n*²)) / (1 + z²/n*)
    denominator = 1 + z**2 / size
    center = (mean + z**2 / (2 * size)) / denominator
    root = np.sqrt(mean * (1 - mean) / size + z**2 / (4 * size**2))
    half_width = z / denominator * root

    half_width[np.isnan(variance)] = np.nan
    return np.maximum(center - half_width, 0), np.minimum(center + half_width, 1)


def _compute_effective_sizes(mean: Floats, variance: Floats, n_scores: Ids, *, quantile_ratio: Floats) -> Floats:
    """Compute the effective sample size of each mean score: the number of 0-or-1 values whose mean has the same variance.

    With few scores, the variance may be too small by chance, and the size too large. A size above the number of scores is
    therefore multiplied by the squared quantile ratio. The result is at least the number of scores. A size below the number of
    scores is returned unchanged.

    mean, variance : float arrays (n_agents,), mean scores and their sampling variances
    n_scores : int array (n_agents,), number of scores of each model, which is the result for a variance of 0
    quantile_ratio : float array (n_agents,), normal quantile divided by that of Student's t, below 1 for few scores

    Returns a float array (n_agents,).
    """
    # the variance is 0, except for rounding, if all scores of a model are equal
    bernoulli_variance = mean * (1 - mean)
    has_variance = (bernoulli_variance > ROUNDING) & (variance > ROUNDING**2)
    matched_size = np.divide(bernoulli_variance, variance, out=n_scores.astype(np.float64), where=has_variance)
    reduced_size = np.maximum(matched_size * quantile_ratio**2, n_scores)
    is_larger = matched_size > n_scores
    size = np.where(is_larger, reduced_size, matched_size)
    return np.where(has_variance, size, n_scores)


class Removal(NamedTuple):
    """Items whose removal changes the first place.

    Attributes
    ----------
    items : int array (n,)
        Positions of the items, the most influential first.
    agent : int
        Position of the model that is then ahead of the first.
    """

    items: Ids
    agent: int


def find_smallest_removal(score: Floats, means: ScoreMeans) -> Removal | None:
    """Find the smallest set of items whose removal puts another model ahead of the first one.

    Parameters
    ----------
    score : float array (n_agents, n_items)
        Scores in [0, 1], NaN for missing cells.
    means : ScoreMeans
        Estimates from these scores.

    Returns
    -------
    Removal or None
        None if no removal of items that favor the first model changes the first place.

    Notes
    -----
    Item j contributes d_j = Δ(p_1j + p_kj)/2 + ψ_1j − ψ_kj to the difference Δ of the first model and model k. The items
    with the largest d_j are removed until the remaining sum is negative, and the model k is chosen that needs the fewest.
    This is the minimum for a complete table. With missing cells, the number is found by refitting without the first items
    in this order, so it is an upper bound of the minimum.

    References
    ----------
    Broderick, Giordano & Meager (2020), arXiv 2011.14999.
    """
    first = int(np.nanargmax(means.mean))
    gap = means.mean[first] - means.mean

    # contribution d_j of each item to the gap (n_agents, n_items), and the gap that remains without the largest ones
    mean_share = (means.share[first] + means.share) / 2
    contribution = gap[:, None] * mean_share + means.influence[first] - means.influence
    order = np.argsort(-contribution, axis=1, kind="stable")
    largest_first = np.take_along_axis(contribution, order, axis=1)
    remaining = gap[:, None] - np.cumsum(largest_first, axis=1)
    is_ahead = (remaining < 0) & ~are_equal(remaining, np.zeros(1))
    is_ahead[:, -1] = False
    is_ahead[np.isnan(means.covariance.covariance[first])] = False
    if not is_ahead.any():
        return None

    # model that gets ahead with the fewest removed items
    n_needed = np.where(is_ahead.any(axis=1), is_ahead.argmax(axis=1) + 1, score.shape[1])
    agent = int(n_needed.argmin())
    candidates = order[agent]
    first_guess = int(n_needed[agent])
    if not np.isnan(score).any():
        return Removal(candidates[:first_guess], agent)

    def changes_first_place(n_removed: int) -> bool:
        """Return whether a refit without the first candidates puts the agent ahead."""
        ability = _fit_additive_model(np.delete(score, candidates[:n_removed], axis=1)).ability_
        return bool(ability[agent] > ability[first])

    # the smallest number, by bisection around the first guess
    n_favorable = int((contribution[agent] > 0).sum())  # items that favor the first model
    end = min(2 * first_guess, n_favorable)
    n_removed = bisect_left(range(end), True, lo=first_guess // 2 + 1, key=changes_first_place)
    return Removal(candidates[:n_removed], agent) if changes_first_place(n_removed) else None


def count_items_to_separate(difference: float, std_error: float, n_items: int, *, power: float = 0.8) -> int | None:
    """Compute how many more items would make a difference significant in a two-sided test at the 95% level.

    The standard error is assumed to fall with the square root of the number of items.

    Parameters
    ----------
    difference, std_error : float
        Difference of two mean scores on `n_items` items, of any sign, and its standard error, at least 0.
    n_items : int
        Number of items so far.
    power : float in (0, 1), default 0.8
        Probability of a significant difference, if the true difference equals the estimate.

    Returns
    -------
    int or None
        Number of items to add to the `n_items`, rounded up, at least 0. None if the difference is 0, if the difference or its
        standard error is NaN, or if the standard error is negative.

    Examples
    --------
    >>> count_items_to_separate(0.05, 0.04, 100)
    403
    """
    if not abs(difference) > 0 or not std_error >= 0:
        return None
    required_z = ndtri(0.975) + ndtri(power)  # difference divided by its standard error
    needed = n_items * (required_z * std_error / difference) ** 2
    return max(0, ceil(needed) - n_items)


def split_half_reliability(
    score: Floats, difficulty: Floats, *, rng: np.random.Generator, n_splits: int = 100
) -> float:
    """Compute the reliability of the mean scores from random halves of the items, with the Spearman–Brown correction.

    Parameters
    ----------
    score : float array (n_agents, n_items)
        Scores on any scale, NaN for missing cells. Agents are language models.
    difficulty : float array (n_items,)
        Difficulties of the items in the unit of the scores. They are added to the scores, so that a model has no advantage if its
        missing cells are on difficult items.
    rng : numpy.random.Generator
        Source of the random splits.
    n_splits : int, default 100
        Number of splits.

    Returns
    -------
    float
        2r/(1 + r) in [0, 1], with r the mean over the splits of the Pearson correlation between the models' means in both halves;
        0 if −1 < r < 0. NaN if r is −1, or if no split has 3 models with scores in both halves and means that differ.

    References
    ----------
    Spearman (1910) and Brown (1910), British J. Psychology 3, 271–295 and 296–322.
    """
    observed = ~np.isnan(score)
    adjusted_score = np.where(observed, score + difficulty, 0.0)
    n_items = score.shape[1]
    correlations = []
    for _ in range(n_splits):
        in_first_half = np.isin(np.arange(n_items), rng.permutation(n_items)[: n_items // 2])
        halves = (in_first_half, ~in_first_half)

        # number of scores and mean score of each model in each half, arrays (2, n_agents)
        n_scores = np.stack([observed[:, half].sum(axis=1) for half in halves])
        total = np.stack([adjusted_score[:, half].sum(axis=1) for half in halves])
        in_both = (n_scores > 0).all(axis=0)
        means = total[:, in_both] / n_scores[:, in_both]

        has_enough_models = in_both.sum() > 2
        if has_enough_models and np.ptp(means, axis=1).min() > 0:
            correlations.append(np.corrcoef(means)[0, 1])

    if not correlations:
        return np.nan
    r = float(np.mean(correlations))
    if r <= -1:
        return np.nan
    return max(2 * r / (1 + r), 0.0)  # Spearman–Brown


def missingness_p_value(observed: Bools, difficulty: Floats) -> float:
    """Test whether cells are missing completely at random with respect to models and to the difficulty of items.

    Parameters
    ----------
    observed : bool array (n_agents, n_items)
        Cells with a score.
    difficulty : float array (n_items,)
        Difficulties of the items.

    Returns
    -------
    float
        The smaller p-value of two tests, with Holm's correction; 1 if no cell is missing.

    Notes
    -----
    The first test is a χ² test that all models have the same missing rate.

    The null hypothesis of the second test is that the number x of missing cells of an item and its difficulty y are uncorrelated.
    With centered x and y, the statistic is Student's t = Σ xy/√(Σ x²y²), which is robust to unequal variances of y (White 1980).
    With fewer than 10 items, it is a permutation test of Σ xy. The p-value is 1 if all xy are 0.

    References
    ----------
    White (1980), Econometrica 48, 817–838.
    """
    if observed.all():
        return 1.0
    from scipy.stats import chi2_contingency  # takes long to load

    n_scores, n_missing_of_model = observed.sum(axis=1), (~observed).sum(axis=1)
    n_missing_of_item = (~observed).sum(axis=0).astype(np.float64)
    p_values = [
        float(chi2_contingency([n_scores, n_missing_of_model], correction=False).pvalue),
        _test_uncorrelated(n_missing_of_item, difficulty),
    ]
    return float(holm(np.array(p_values)).min())


def _test_uncorrelated(n_missing: Floats, difficulty: Floats) -> float:
    """Return the two-sided p-value of a test that the numbers of missing cells and the difficulties of items are uncorrelated.

    The test is a t test of the covariance. Its standard error is robust to unequal variances, because the difficulties of items
    with few scores vary more. With fewer than `MIN_ITEMS_OF_T_TEST` items, the test is a permutation test.

    n_missing, difficulty : float arrays (n_items,), number of missing cells and difficulty of each item, without NaN
    """
    missing_deviation = n_missing - n_missing.mean()
    difficulty_deviation = difficulty - difficulty.mean()
    products = missing_deviation * difficulty_deviation
    n_items = len(difficulty)
    if not products.any():  # for example, no cell is missing
        return 1.0
    if n_items < MIN_ITEMS_OF_T_TEST:
        return _compute_permutation_p_value(missing_deviation, difficulty_deviation)

    std_error = np.sqrt((products**2).sum())  # of the sum of the products (White 1980)
    t = products.sum() / std_error
    return float(2 * stdtr(n_items - 1, -abs(t)))


def _compute_permutation_p_value(x: Floats, y: Floats) -> float:
    """Compute the two-sided p-value of a permutation test that two variables are uncorrelated.

    The statistic is Σ xy, computed for all pairings of the values of x with the values of y. The test is meant for few items,
    for which a t test is inaccurate.

    x, y : float array (n_items,), deviations of the two variables from their means; fewer than `MIN_ITEMS_OF_T_TEST` items
    """
    from scipy.stats import permutation_test  # takes long to load

    def sum_of_products(permuted_x: Floats, axis: int) -> Floats:
        return np.asarray((permuted_x * y).sum(axis=axis))

    # if at least as many resamples as permutations are requested, SciPy computes every permutation once
    result = permutation_test(
        (x,),
        sum_of_products,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=factorial(MIN_ITEMS_OF_T_TEST),
        batch=10_000,
    )
    return float(result.pvalue.item())
