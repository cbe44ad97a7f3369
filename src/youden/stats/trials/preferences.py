"""Fit abilities to preferences, the answers to "which of two responses is better?", with errors clustered by item.

The link is the identity, as for all abilities of the package: a difference of two abilities is a difference of win rates.
Bradley–Terry's logit link is fitted by scikit-learn, for comparison only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, pinvh
from scipy.sparse import coo_array, csr_array, vstack
from scipy.special import stdtrit

from youden.errors import StatisticsError
from youden.extras import format_install
from youden.stats.base.clusters import MIN_ITEMS, ROUNDING, CentredCovariance, check_level, covariance_of_chunks
from youden.stats.base.metrics import Metric
from youden.stats.base.pair_chunks import InfluenceChunk, check_trials
from youden.types.pool import Floats, Ids, Positions, ReadOnly

_MIN_EIGENVALUE = 1e-9
"""Directions with an eigenvalue below this share of the largest are not determined by the trials."""
_EXACT_FIT = 1e-9
"""A trial of leverage above 1 minus this is fitted exactly, whatever its answer."""
_MAX_CELLS_PER_CHUNK = 2_000_000
"""Maximum size of a matrix of agents × items."""


@dataclass(frozen=True, eq=False)
class PreferenceFit(ReadOnly):
    """Abilities that were fitted to preferences, with their covariance.

    Attributes
    ----------
    ability : float array (n_agents,)
        Abilities θ_i, which sum to 0 over the agents that trials link; NaN for an agent without a trial. A difference of two
        abilities is the win rate of one agent against the other minus its loss rate, ties counting ½.
    covariance : CentredCovariance
        Covariance of the distances from the mean ability, for items like these.
    n_trials : int array (n_agents,)
        Trials of each agent.
    position_effect : Metric
        Win rate of the first response minus its loss rate if both agents have the same ability; in [−1, 1], 0 without position
        bias. NaN if the orders do not determine it. Its bounds are NaN for fewer than 6 items, and if no residual shows its
        error. If the same position wins all comparisons, the bound is that of a proportion without an event.
    influence_chunks : callable
        Function that yields, for one chunk of items after another, their influence on the abilities.
    """

    ability: Floats
    covariance: CentredCovariance
    n_trials: Positions
    position_effect: Metric
    influence_chunks: Callable[[], Iterator[InfluenceChunk]]


def fit_preferences(
    first: Ids | Positions,
    second: Ids | Positions,
    item: Ids | Positions,
    answer: Floats,
    *,
    n_agents: int,
    level: float = 0.95,
) -> PreferenceFit:
    """Fit abilities and a position effect to preferences by least squares.

    Parameters
    ----------
    first, second : int array (n_trials,)
        Positions of the agents whose responses come first and second.
    item : int array (n_trials,)
        Item of each trial, 0 or more; the trials of one item are one cluster.
    answer : float array (n_trials,)
        Preference for the first response, in [0, 1]: 1 if it is better, ½ for a tie, 0 if the second is better.
    n_agents : int
        Number of agents.
    level : float, default 0.95
        Confidence level of the position effect's interval.

    Returns
    -------
    PreferenceFit

    Raises
    ------
    StatisticsError
        [trial-columns]: if the columns differ in length; [trial-answer]: if an answer is NaN; [cluster-agents]: if fewer than 2
        agents have trials on 2 items; [level]: unless 0 < level < 1.

    Notes
    -----
    The model of an answer y is E[2y − 1] = θ_first − θ_second + π, π the position effect. With x the row of a trial (1 for the
    first agent, −1 for the second, 1 for π), M = Σxxᵀ, P its pseudo-inverse, e the residuals and h = xᵀPx the leverages, the
    influence of item j is the sum of P·x·e/√(1 − h) over its trials. The covariance of the abilities is the sandwich estimate
    from these influences, shrunk as in `covariance_over_clusters`. π is dropped from the model if the orders do not determine it,
    for example if one agent always comes second.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> item = np.repeat(np.arange(500), 6)
    >>> first, second = np.tile([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]], 500)
    >>> ability = np.array([0.2, 0.0, -0.2])
    >>> answer = (rng.random(3000) < (1 + ability[first] - ability[second] + 0.1) / 2).astype(float)
    >>> fit = fit_preferences(first, second, item, answer, n_agents=3)
    >>> fit.ability.round(1).tolist(), round(fit.position_effect.value, 1)
    ([0.2, -0.0, -0.2], 0.1)
    """
    check_trials(first, second, item, answer=answer)
    check_level(level)

    # sorted by item, so that each chunk has all trials of its items, which are numbered without gaps
    order = np.argsort(item, kind="stable")
    first, second, value = first[order], second[order], 2 * answer[order] - 1
    _, item = np.unique(item[order], return_inverse=True)
    design = _make_design(first, second, n_agents)
    inverse, has_position = _invert_normal_matrix((design.T @ design).toarray())
    effect = inverse @ (design.T @ value)

    # e/√(1 − h) with h = xᵀPx; a trial that is fitted exactly has no residual
    leverage = _compute_leverages(first, second, inverse)
    is_free = leverage < 1 - _EXACT_FIT
    adjusted = np.where(is_free, value - design @ effect, 0.0) / np.sqrt(np.where(is_free, 1 - leverage, 1.0))

    # number of trials of each observed cell (agent, item)
    n_items = int(item.max(initial=-1)) + 1
    agents = np.append(first, second).astype(np.int64)
    n_trials = np.bincount(agents, minlength=n_agents)
    cell, cell_size = np.unique(agents * n_items + np.tile(item, 2), return_counts=True)
    agent_of_cell = cell // max(n_items, 1)
    total = np.maximum(n_trials, 1).astype(np.float64)

    def influence_chunks() -> Iterator[InfluenceChunk]:
        """Yield the influence of the items of each chunk on the abilities, with the numbers of trials."""
        items_per_chunk = max(1, _MAX_CELLS_PER_CHUNK // (n_agents + 1))
        for start in range(0, n_items, items_per_chunk):
            n_chunk_items = min(items_per_chunk, n_items - start)
            trials = slice(*np.searchsorted(item, [start, start + n_chunk_items]))  # trials are sorted by item
            chunk_design = design[trials]

            # sparse matrices (n_chunk_trials, n_chunk_items) that assign each trial to its item
            shape = chunk_design.shape[0], n_chunk_items
            entry = np.arange(shape[0]), item[trials] - start
            residual_by_item = coo_array((adjusted[trials], entry), shape=shape).tocsr()
            is_on_item = coo_array((np.ones(shape[0]), entry), shape=shape)

            # the last row of both products belongs to the position effect
            influence = (inverse @ (chunk_design.T @ residual_by_item).toarray())[:n_agents]
            n_cell_trials = (abs(chunk_design).T @ is_on_item).toarray()[:n_agents]
            yield InfluenceChunk(influence, direct_influence=influence, weight=n_cell_trials)

    covariance = covariance_of_chunks(
        ((chunk.influence, chunk.weight / total[:, None]) for chunk in influence_chunks()),
        n_clusters=np.bincount(agent_of_cell, minlength=n_agents),
        share_squares=np.bincount(agent_of_cell, cell_size.astype(np.float64) ** 2, n_agents) / total**2,
        relative_variance=1 / total,
    )
    position = Metric(np.nan, np.nan, np.nan, level, "unknown: the orders do not determine it")
    if has_position:
        influence_of_trial = inverse[n_agents, first] - inverse[n_agents, second] + inverse[n_agents, n_agents]
        influence = np.bincount(item, influence_of_trial * adjusted)
        std_error = np.sqrt((influence**2).sum() * n_items / (n_items - 1))
        half_width = float(stdtrit(n_items - 1, (1 + level) / 2) * std_error)
        estimate = float(effect[n_agents])
        if abs(estimate) > 1 - ROUNDING:
            from youden.stats.trials.noninferiority import zero_event_upper_bound  # takes long to load

            half_width = 2 * float(zero_event_upper_bound((1 - level) / 2, np.asarray(float(n_items))))
        if n_items < MIN_ITEMS or half_width < ROUNDING:
            half_width = np.nan
        low, high = np.clip([estimate - half_width, estimate + half_width], -1, 1).tolist()
        position = Metric(estimate, low, high, level, _POSITION_METHOD)
    ability = np.where(n_trials > 0, effect[:n_agents], np.nan)
    return PreferenceFit(ability, covariance, n_trials, position, influence_chunks)


_POSITION_METHOD = "position effect, residuals by item, HC2, Student t"


def _make_design(first: Ids | Positions, second: Ids | Positions, n_agents: int) -> csr_array:
    """Make the rows x of all trials, a sparse array (n_trials, n_agents + 1); the last column is that of the position effect."""
    n = len(first)
    columns = np.concatenate([first, second, np.full(n, n_agents)])
    values = np.repeat([1.0, -1.0, 1.0], n)
    return coo_array((values, (np.tile(np.arange(n), 3), columns)), shape=(n, n_agents + 1)).tocsr()


def _compute_leverages(first: Ids | Positions, second: Ids | Positions, inverse: Floats) -> Floats:
    """Compute the leverage h = xᵀPx of each trial, float (n_trials,); `inverse` is P, float (n_agents + 1, n_agents + 1)."""
    diagonal, with_position = np.diag(inverse), inverse[-1]
    squares = diagonal[first] + diagonal[second] + diagonal[-1]
    return np.asarray(squares + 2 * (with_position[first] - with_position[second] - inverse[first, second]))


def _invert_normal_matrix(normal_matrix: Floats) -> tuple[Floats, bool]:
    """Compute the pseudo-inverse of the normal matrix, and whether the trials determine the position effect.

    normal_matrix : float array (n_agents + 1, n_agents + 1), of the abilities and, last, the position effect

    Returns the pseudo-inverse, an array of the same shape. If the trials do not determine the position effect, it is left
    out of the model: its row and its column are 0.
    """
    eigenvalues, eigenvectors = eigh(normal_matrix, check_finite=False)
    is_determined = eigenvalues > _MIN_EIGENVALUE * eigenvalues[-1]

    # the position effect is determined if it has no part in the undetermined directions
    undetermined_part = np.abs(eigenvectors[-1, ~is_determined])
    has_position = bool((undetermined_part < np.sqrt(_MIN_EIGENVALUE)).all())
    if not has_position:
        inverse = np.zeros_like(normal_matrix)
        inverse[:-1, :-1] = pinvh(normal_matrix[:-1, :-1], rtol=_MIN_EIGENVALUE)
        return inverse, False

    basis = eigenvectors[:, is_determined]
    return (basis / eigenvalues[is_determined]) @ basis.T, True


def fit_bradley_terry(
    first: Ids | Positions, second: Ids | Positions, answer: Floats, *, n_agents: int, position_effect: bool = True
) -> Floats:
    """Fit the Bradley–Terry model to preferences by maximum likelihood, for comparison.

    Parameters
    ----------
    first, second : int array (n_trials,)
        Positions of the agents whose responses come first and second.
    answer : float array (n_trials,)
        Preference for the first response, in [0, 1]; a tie counts as half a win of each.
    n_agents : int
        Number of agents.
    position_effect : bool, default True
        Whether the model has an effect of coming first.

    Returns
    -------
    float array (n_agents,)
        Strengths on the logit scale, which sum to 0. They have a weak ridge, so that an agent that wins all its trials has a
        finite one.

    Raises
    ------
    StatisticsError
        [trial-columns], [trial-answer]: as in `fit_preferences`; [bradley-terry]: if scikit-learn is not installed.

    References
    ----------
    Bradley & Terry (1952), Biometrika 39, 324–345.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ModuleNotFoundError as error:
        raise StatisticsError(
            f"The Bradley–Terry model needs scikit-learn, which is not installed. Run `{format_install('preferences')}`.",
            slug="bradley-terry",
        ) from error
    check_trials(first, second, answer=answer)

    # each trial is one win, of weight y, and one loss, of weight 1 − y
    design = _make_design(first, second, n_agents)[:, :n_agents]
    model = LogisticRegression(C=1e6, fit_intercept=position_effect, tol=1e-8, max_iter=10_000, solver="newton-cg")
    outcome = np.repeat([1, 0], len(answer))
    model.fit(vstack([design, design]), outcome, sample_weight=np.append(answer, 1 - answer))
    strength = np.asarray(model.coef_[0], dtype=np.float64)
    return np.asarray(strength - strength.mean())
