"""Provide by name the models that clipped-linear is compared with, with fair settings and with those of the paper.

A name loads a function without arguments that makes an unfitted estimator with `fit(scores)`, `predict()` and
`ability_`. Another package adds one by the entry-point group `youden.baselines`. The nuclear norm is applied to scores
that are not centered, so that it also shrinks additive effects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from youden.errors import StatisticsError
from youden.registry import Registry
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.additive.rasch import Rasch
from youden.stats.base.estimator import Estimator, not_fitted_error, observed_scores
from youden.streams import standalone_stream
from youden.types import Scores
from youden.types.pool import Bools, Floats, Ids, freeze


def draw_folds(observed: Bools, *, n_folds: int, seed: int) -> Ids:
    """Assign the observed cells (agent, item) at random to folds of almost equal size, for cross-validation.

    observed : bool array (n_agents, n_items), whether each cell was observed
    n_folds : number of folds, at least 1, which is not checked; if it exceeds the number of observed cells, some folds have no
        cell
    seed : seed of the random assignment; the same seed gives the same folds

    Returns an int32 array (n_agents, n_items): the fold from 0 to n_folds − 1, or −1 for an unobserved cell. The numbers of cells
    of two folds differ by at most 1.
    """
    fold = np.full(observed.shape, -1, dtype=np.int32)
    n_cells = int(observed.sum())
    fold[observed] = standalone_stream(seed).permutation(n_cells) % n_folds
    return fold


class MatrixCompletion(Estimator, ABC):
    """Base class of models that complete a score matrix.

    All observed cells have the same weight.

    Attributes
    ----------
    prediction_ : float array (n_agents, n_items)
        Completed matrix in [−1, 1]; NaN for agents and items without a cell.
    ability_ : float array (n_agents,)
        Mean of the completed matrix over items, by which the paper ranks agents; NaN without a cell.
    """

    prediction_: Floats
    ability_: Floats

    def fit(self, scores: Scores | ArrayLike) -> Self:
        """Fit the model to observed scores.

        Parameters
        ----------
        scores : Scores or array_like (n_agents, n_items)
            Scores in [−1, 1]; NaN is unobserved.

        Returns
        -------
        MatrixCompletion
            The estimator itself.

        Raises
        ------
        StatisticsError
            [baseline-parameter]: if a parameter is out of range; [scores-empty], [scores-holdout], [scores-numeric],
            [scores-shape], [scores-infinite], [scores-range]: if the scores cannot be fitted; [isotonic-folds]: if no
            cell can be predicted from the others (`IsotonicOnTop` only).
        """
        self._check_parameters()
        score_matrix = observed_scores(scores)
        observed = ~np.isnan(score_matrix)

        # only agents and items with at least one observed score can be predicted
        has_score_of_agent = observed.any(axis=1)
        has_score_of_item = observed.any(axis=0)
        predictable = np.ix_(has_score_of_agent, has_score_of_item)
        scores_or_0 = np.nan_to_num(score_matrix[predictable])
        completed = self._predict_cells(scores_or_0, observed[predictable])

        self.prediction_ = np.full(score_matrix.shape, np.nan)
        self.prediction_[predictable] = np.clip(completed, -1, 1)
        self.ability_ = np.full(len(score_matrix), np.nan)
        self.ability_[has_score_of_agent] = self.prediction_[predictable].mean(axis=1)
        freeze([self.prediction_, self.ability_])
        return self

    def predict(self) -> Floats:
        """Return the completed matrix.

        Returns
        -------
        float array (n_agents, n_items)
            Scores in [−1, 1]; NaN for agents and items that were not observed.

        Raises
        ------
        StatisticsError
            [not-fitted]: if `fit` was not called.
        """
        if not hasattr(self, "prediction_"):
            raise not_fitted_error(self)
        return self.prediction_.copy()

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise StatisticsError [baseline-parameter] if a parameter is out of range."""

    @abstractmethod
    def _predict_cells(self, scores: Floats, observed: Bools) -> Floats:
        """Predict all cells of a score matrix that has at least one observed cell in each row and column.

        scores : float array (n_agents, n_items), 0 for unobserved cells
        observed : bool of the same shape

        Returns the predicted scores, float of the same shape; they may exceed [−1, 1].
        """


def _check_at_least(minimum: float, **parameters: float) -> None:
    """Raise StatisticsError [baseline-parameter] if a parameter is below the minimum or not finite."""
    for name, value in parameters.items():
        if not minimum <= value < np.inf:
            raise StatisticsError(
                f"The {name} must be a finite number of at least {minimum}: got {value}. Set a larger number.",
                slug="baseline-parameter",
            )


class IsotonicOnTop(MatrixCompletion):
    """Clipped-linear model with an isotonic curve on top: ŝ = f(clip(θ_i − b_j)).

    Parameters
    ----------
    n_folds : int, default 5
        Number of folds, at least 2.
    ridge : float, default 1e-6
        Positive ridge penalty of the clipped-linear model.
    seed : int, default 0
        Seed of the folds.

    Notes
    -----
    f is the increasing least-squares curve of scores on out-of-fold predictions, linear between its points and constant
    outside them. A cell whose agent or item is in no other fold has no such prediction and is not used. The curve is
    applied to the model of all cells. This is the paper's "identity + isotonic". The paper does not state that models are
    refitted for each fold. They are refitted here, because a curve that is fitted to in-sample predictions overfits.
    """

    def __init__(self, *, n_folds: int = 5, ridge: float = 1e-6, seed: int = 0) -> None:
        self.n_folds = n_folds
        self.ridge = ridge
        self.seed = seed

    def _check_parameters(self) -> None:
        _check_at_least(2, n_folds=self.n_folds)

    def _predict_cells(self, scores: Floats, observed: Bools) -> Floats:
        """Predict all cells with the clipped-linear model, and correct the predictions by an increasing curve.

        The curve is the isotonic regression of the scores on predictions by models that have not seen them.

        scores : float array (n_agents, n_items); entries of unobserved cells are ignored
        observed : bool array (n_agents, n_items), cells with a score

        Returns the predicted scores, float array (n_agents, n_items). Raises StatisticsError [isotonic-folds] if no cell
        can be predicted from the others.
        """
        scores_or_nan = np.where(observed, scores, np.nan)
        out_of_fold = self._predict_out_of_fold(scores_or_nan)
        is_predicted = ~np.isnan(out_of_fold)
        if not is_predicted.any():
            raise StatisticsError(
                f"No cell can be predicted from the others: got {int(observed.sum())} observed cells. Add scores of more cells.",
                slug="isotonic-folds",
            )

        # points of the curve: the distinct predictions, and the isotonic regression of the mean score at each of them
        curve_x, prediction_index = np.unique(out_of_fold[is_predicted], return_inverse=True)
        n_cells = np.bincount(prediction_index)
        mean_score = np.bincount(prediction_index, scores[is_predicted]) / n_cells
        curve_y = isotonic_regression(mean_score, weights=n_cells).x

        prediction = self._fit_predict(scores_or_nan)
        return np.asarray(np.interp(prediction, curve_x, curve_y))

    def _predict_out_of_fold(self, scores: Floats) -> Floats:
        """Predict each observed cell, an agent on an item, by a model that has not seen its score.

        The cells are divided into folds at random. The cells of one fold are predicted by a model that is fitted to the other
        folds.

        scores : float array (n_agents, n_items), NaN for cells that were not observed

        Returns an array of this shape. It is NaN for unobserved cells, and for cells that cannot be predicted from the others.
        """
        fold = draw_folds(~np.isnan(scores), n_folds=self.n_folds, seed=self.seed)
        n_nonempty_folds = int(fold.max()) + 1
        predictions = np.full(scores.shape, np.nan)
        for fold_number in range(min(self.n_folds, n_nonempty_folds)):
            in_fold = fold == fold_number
            training_scores = np.where(in_fold, np.nan, scores)

            # without training scores, the fold stays NaN
            if not np.isnan(training_scores).all():
                predictions[in_fold] = self._fit_predict(training_scores)[in_fold]
        return predictions

    def _fit_predict(self, scores: Floats) -> Floats:
        """Fit the clipped-linear model to scores, NaN if unobserved, and predict all cells: (n_agents, n_items)."""
        return ClippedLinear(ridge=self.ridge).fit(scores).predict()


def rasch_probit() -> Rasch:
    """Make the Rasch model of the paper with the probit link: least squares."""
    return Rasch(link="probit")


def rasch_logit() -> Rasch:
    """Make the Rasch model of the paper with the logit link: least squares."""
    return Rasch(link="logit")


def rasch_probit_quasi() -> Rasch:
    """Make a Rasch model with the probit link and quasi-likelihood."""
    return Rasch(link="probit", method="quasi")


def rasch_logit_quasi() -> Rasch:
    """Make a Rasch model with the logit link and quasi-likelihood."""
    return Rasch(link="logit", method="quasi")


GRID = (2.0, 1.0, 0.5, 0.25, 0.125)
"""Penalties that are compared, in the unit of scores. Each starts from the solution of the larger one before it."""

_TOLERANCE = 1e-5
"""Iterations stop if the change is at most this share of the norm of the matrix."""


class NuclearNorm(MatrixCompletion):
    """Matrix completion with a nuclear norm penalty, by the soft-impute algorithm.

    Parameters
    ----------
    penalty : float, optional
        Penalty in the unit of scores, at least 0. Default: the value of `GRID` with the smallest cross-validation error.
    max_rounds : int, default 300
        Largest number of iterations; it stops earlier if the change is below 1e-5 of the norm of the matrix.
    n_folds : int, default 5
        Number of cross-validation folds, at least 2.
    seed : int, default 0
        Seed of the folds.

    Attributes
    ----------
    penalty_ : float
        Penalty that was used.

    Notes
    -----
    Minimizes ½·Σ (s − x)² + penalty·‖X‖_*, the sum over observed cells. The paper uses penalty 1.

    References
    ----------
    Mazumder, Hastie & Tibshirani (2010), J. Machine Learning Research 11, 2287–2322.
    """

    penalty_: float

    def __init__(self, *, penalty: float | None = None, max_rounds: int = 300, n_folds: int = 5, seed: int = 0) -> None:
        self.penalty = penalty
        self.max_rounds = max_rounds
        self.n_folds = n_folds
        self.seed = seed

    def _check_parameters(self) -> None:
        _check_at_least(1, max_rounds=self.max_rounds)
        _check_at_least(2, n_folds=self.n_folds)
        if self.penalty is not None:
            _check_at_least(0, penalty=self.penalty)

    def _predict_cells(self, scores: Floats, observed: Bools) -> Floats:
        """Predict all cells by matrix completion with a penalty; if no penalty is set, cross-validation selects it.

        scores : float array (n_agents, n_items), 0 for unobserved cells
        observed : bool array (n_agents, n_items), cells with a score

        Returns the predicted scores, float array (n_agents, n_items). Sets `penalty_`.
        """
        # `_complete_matrix` decomposes a square matrix of the number of rows, so the smaller side becomes the rows
        n_agents, n_items = scores.shape
        is_transposed = n_agents > n_items
        if is_transposed:
            scores, observed = scores.T, observed.T

        self.penalty_ = self._select_penalty(scores, observed) if self.penalty is None else self.penalty
        completed = self._complete_matrix(scores, observed, penalty=self.penalty_, start=np.zeros_like(scores))
        return completed.T if is_transposed else completed

    def _select_penalty(self, scores: Floats, observed: Bools) -> float:
        """Return the penalty of `GRID` with the smallest sum of squared errors in cross-validation.

        The observed cells are divided into folds at random. The cells of each fold are predicted from the other folds.

        scores : float array (n_rows, n_columns)
        observed : bool array of the same shape, cells with a score
        """
        fold = draw_folds(observed, n_folds=self.n_folds, seed=self.seed)
        squared_error = np.zeros(len(GRID))  # by penalty
        for fold_number in range(self.n_folds):
            in_fold = fold == fold_number
            is_training = observed & ~in_fold

            # each fit starts from the predictions with the larger penalty before it, so that it needs fewer iterations
            predicted = np.zeros_like(scores)
            for penalty_index, penalty in enumerate(GRID):
                predicted = self._complete_matrix(scores, is_training, penalty=penalty, start=predicted)
                error = (predicted - scores)[in_fold]
                squared_error[penalty_index] += (error**2).sum()
        return GRID[int(squared_error.argmin())]

    def _complete_matrix(self, scores: Floats, observed: Bools, *, penalty: float, start: Floats) -> Floats:
        """Predict all cells of a matrix from the observed ones, by matrix completion with a nuclear-norm penalty.

        The method is soft-impute: unobserved cells are filled with predictions, all singular values are reduced by the penalty,
        and both steps are repeated until the predictions hardly change.

        scores : float array (n_rows, n_columns); those of unobserved cells are ignored
        observed : bool array of this shape, cells to fit
        penalty : number that is subtracted from each singular value
        start : float array of this shape, first predictions

        Returns the predictions, float array of this shape.
        """
        predicted = start
        for _ in range(self.max_rounds):
            filled = np.where(observed, scores, predicted)

            # the matrix USVᵀ, multiplied by its transpose, has the eigenvectors U and the eigenvalues S²
            eigenvalues, vectors = np.linalg.eigh(filled @ filled.T)
            singular_values = np.sqrt(np.maximum(eigenvalues, 0))

            # reduce the singular values by the penalty, and drop those below it: U·(1 − penalty/S)·Uᵀ·filled
            is_kept = singular_values > penalty
            kept_vectors = vectors[:, is_kept]
            factor = 1 - penalty / singular_values[is_kept]
            previous = predicted
            predicted = (kept_vectors * factor) @ (kept_vectors.T @ filled)

            if np.linalg.norm(predicted - previous) <= _TOLERANCE * np.linalg.norm(predicted):
                break
        return np.asarray(predicted)


def paper_nuclear_norm() -> NuclearNorm:
    """Make the nuclear norm model with the penalty of the paper, 1."""
    return NuclearNorm(penalty=1.0)


class ImputedSVD(MatrixCompletion):
    """Low-rank approximation of the scores, with means for unobserved cells.

    Parameters
    ----------
    rank : int, default 1
        Rank of the approximation, at least 1. The paper uses 5.
    fill : {"agent", "global"}, default "agent"
        Mean that replaces unobserved cells: of the agent's observed scores ("agent"), or of all observed scores ("global", as in
        the paper).
    """

    def __init__(self, *, rank: int = 1, fill: Literal["agent", "global"] = "agent") -> None:
        self.rank = rank
        self.fill = fill

    def _check_parameters(self) -> None:
        _check_at_least(1, rank=self.rank)
        if self.fill not in ("agent", "global"):
            raise StatisticsError(
                f"The fill is unknown: got '{self.fill}'. Set agent or global.", slug="baseline-parameter"
            )

    def _predict_cells(self, scores: Floats, observed: Bools) -> Floats:
        """Fill unobserved cells with means, and approximate the matrix by its `rank` largest singular components.

        scores : float array (n_agents, n_items), 0 for unobserved cells
        observed : bool array (n_agents, n_items), cells with a score

        Returns the predicted scores, float array (n_agents, n_items).
        """
        if self.fill == "agent":
            mean = (scores.sum(axis=1) / observed.sum(axis=1))[:, None]
        else:
            mean = np.full((1, 1), scores.sum() / observed.sum())
        filled = np.where(observed, scores, mean)

        u, singular_values, vt = np.linalg.svd(filled, full_matrices=False)
        scaled_u = u[:, : self.rank] * singular_values[: self.rank]
        return np.asarray(scaled_u @ vt[: self.rank])


def paper_svd() -> ImputedSVD:
    """Make the SVD model with the settings of the paper: global mean, rank 5."""
    return ImputedSVD(rank=5, fill="global")


_INITIAL_SD = 0.1
"""Standard deviation of the initial factors of items."""


class UVFactorization(MatrixCompletion):
    """Low-rank factorization of the scores by alternating ridge regressions.

    Parameters
    ----------
    rank : int, default 1
        Number of factors, at least 1. The paper uses 3. If only a third of the cells was observed, a model with more than 1
        factor overfits noise, and each further sweep makes it worse.
    ridge : float, default 0.01
        Positive ridge penalty.
    n_sweeps : int, default 20
        Number of alternations, at least 1; u is solved for first.
    seed : int, default 0
        Seed of the initial v, normal with SD 0.1.

    Notes
    -----
    The model is s_ij ≈ u_i·v_j. It minimizes Σ (s − u_i·v_j)² + ridge·(‖U‖² + ‖V‖²), the first sum over observed cells.
    """

    def __init__(self, *, rank: int = 1, ridge: float = 0.01, n_sweeps: int = 20, seed: int = 0) -> None:
        self.rank = rank
        self.ridge = ridge
        self.n_sweeps = n_sweeps
        self.seed = seed

    def _check_parameters(self) -> None:
        _check_at_least(1, rank=self.rank, n_sweeps=self.n_sweeps)
        _check_at_least(1e-12, ridge=self.ridge)

    def _predict_cells(self, scores: Floats, observed: Bools) -> Floats:
        """Predict scores as products of factors of agents and of items, fitted by alternating ridge regressions.

        The first factors of items are random. Then the factors of agents are fitted with those of items fixed, and the
        reverse, `n_sweeps` times.

        scores : float array (n_agents, n_items), 0 for unobserved cells
        observed : bool array (n_agents, n_items), cells with a score

        Returns the predicted scores, float array (n_agents, n_items).
        """
        n_items = scores.shape[1]
        item_factors = standalone_stream(self.seed).normal(0, _INITIAL_SD, (n_items, self.rank))
        weight = observed.astype(np.float64)
        for _ in range(self.n_sweeps):
            agent_factors = self._fit_row_factors(scores, weight, item_factors)
            item_factors = self._fit_row_factors(scores.T, weight.T, agent_factors)
        return np.asarray(agent_factors @ item_factors.T)

    def _fit_row_factors(self, scores: Floats, weight: Floats, column_factors: Floats) -> Floats:
        """Fit the factors of each row of a score matrix by ridge regression, with the factors of the columns fixed.

        A score is predicted by the sum, over the factors, of row factor × column factor. The rows are agents and the columns
        items, or the reverse.

        scores : float array (n_rows, n_columns), 0 for unobserved cells
        weight : float array of this shape, 1 for observed cells and 0 for others
        column_factors : float array (n_columns, rank), factors of the columns

        Returns the factors of the rows, float array (n_rows, rank).
        """
        # The normal equations of row i are (Σ_j w_ij·v_j·v_jᵀ + ridge·I)·u_i = Σ_j s_ij·v_j, with the weights w and scores s of
        # its cells, the factors v_j of column j, and the factors u_i of the row. First, the matrix on the left of each row:
        factor_products = column_factors[:, :, None] * column_factors[:, None, :]  # v_j·v_jᵀ: (n_columns, rank, rank)
        sum_of_products = np.einsum("ij,jab->iab", weight, factor_products)  # (n_rows, rank, rank)
        matrix = sum_of_products + self.ridge * np.eye(self.rank)

        # then the right-hand side, (n_rows, rank), and the solution; `solve` takes columns as vectors
        target = scores @ column_factors
        row_factors = np.linalg.solve(matrix, target[:, :, None])
        return np.asarray(row_factors[:, :, 0])


def paper_uv() -> UVFactorization:
    """Make the factorization with the settings of the paper: rank 3, ridge .01."""
    return UVFactorization(rank=3)


class Baseline(Protocol):
    """Model that completes a score matrix, as registered in `BASELINES`.

    Attributes
    ----------
    ability_ : float array (n_agents,)
        Values by which agents are ranked, after `fit`.
    """

    ability_: Floats

    def fit(self, scores: Scores | ArrayLike) -> Self:
        """Fit the model to observed scores.

        Parameters
        ----------
        scores : Scores or array_like (n_agents, n_items)
            Scores in [−1, 1]; NaN is unobserved.

        Returns
        -------
        Baseline
            The model itself.
        """
        ...

    def predict(self) -> Floats:
        """Return the completed matrix.

        Returns
        -------
        float array (n_agents, n_items)
            Scores in [−1, 1].
        """
        ...


BASELINES: Registry[Callable[[], Baseline]] = Registry(
    "youden.baselines",
    "baseline",
    {
        "clipped-linear": "youden.stats.additive.clipped_linear:ClippedLinear",
        "isotonic": "youden.stats.baselines:IsotonicOnTop",
        "rasch-probit": "youden.stats.baselines:rasch_probit",
        "rasch-logit": "youden.stats.baselines:rasch_logit",
        "rasch-probit-quasi": "youden.stats.baselines:rasch_probit_quasi",
        "rasch-logit-quasi": "youden.stats.baselines:rasch_logit_quasi",
        "nuclear-norm": "youden.stats.baselines:NuclearNorm",
        "nuclear-norm-paper": "youden.stats.baselines:paper_nuclear_norm",
        "svd": "youden.stats.baselines:ImputedSVD",
        "svd-paper": "youden.stats.baselines:paper_svd",
        "uv": "youden.stats.baselines:UVFactorization",
        "uv-paper": "youden.stats.baselines:paper_uv",
    },
)
"""Models by name. Those ending in `-paper` have the settings of the paper, the others settings for a
fair comparison."""
