"""Knows the mixed model of single answers about ordered pairs of agents on items, its variances estimated by REML.

It refuses to know how trials were drawn; with few calls it recovers row scores that plain means of an agent's trials cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array, csr_array, diags_array

from youden.errors import StatisticsError
from youden.nouns.arrays import Floats, Ids, Positions, freeze

_FLOOR = 1e-8
"""Variances below this share of the answers' variance count as zero: the likelihood is flat there."""


@dataclass(frozen=True)
class Variances:
    """What answers vary by, in their unit squared; `correlation` is that of (a_i, c_i)."""

    first: float
    second: float
    correlation: float
    pair: float
    item: float
    noise: float


@dataclass(frozen=True, eq=False)
class PairModel:
    """y = μ + a_i + c_k + g_ik + b_j + e for agent i first, k second, item j, every effect shrunk by its variance.

    mean: μ. first, second: float[K], a and c; item: float[J], b, 0 for an item without a trial; pair: float[K, K], g, 0 where
    unseen, NaN on the diagonal. ability: float[K], the row score μ + a_i + mean over k ≠ i of (c_k + g_ik), NaN for an agent in
    no trial. status: `not_converged` where REML ran out of rounds: the effects are still best for the variances given.
    """

    mean: float
    first: Floats
    second: Floats
    item: Floats
    pair: Floats
    ability: Floats
    variances: Variances
    status: Literal["ok", "not_converged"]
    n_rounds: int

    def __post_init__(self) -> None:
        freeze([self.first, self.second, self.item, self.pair, self.ability])

    def predict(self) -> Floats:
        """Row scores of cells, clip(ability_i + b_j, −1, 1): float[K, J], NaN for an agent in no trial."""
        return np.clip(self.ability[:, None] + self.item, -1, 1)


def fit_pair_model(
    first: Ids,
    second: Ids,
    item: Ids,
    answer: Floats,
    *,
    n_agents: int,
    n_items: int,
    tolerance: float = 1e-4,
    max_rounds: int = 500,
) -> PairModel:
    """The model's effects and variances from T answers, (a_i, c_i) correlated, all else independent.

    Variances by REML, reached by EM: each round solves the mixed-model equations (pairs eliminated, the rest a dense
    system of 1 + 2K + J) and takes the effects' expected squares. It ends when no variance moves by more than `tolerance` of
    the answers' variance.

    first, second: int[T] in 0 … K−1, different; item: int[T] in 0 … J−1; answer: float[T], finite: of paired trials 1 for 'same
    source', or D = TPR − FPR of a pair. From paired trials alone, subtract the pooled FPR from the abilities. O(rounds·(K+J)³)
    time.

    Raises: StatisticsError [trial-columns], [trial-id], [trial-answer], [pair-model-small] with fewer than 3 agents, 2 items or
    10 trials, [pair-model-constant] where all answers are equal.
    Source: none in the paper; project statistics, designs over calls. EM: Dempster, Laird and Rubin (1977), JRSS B 39.
    """
    _check(first, second, item, answer, n_agents=n_agents, n_items=n_items)
    equations = _Equations(first, second, item, answer, n_agents=n_agents, n_items=n_items)
    total = float(answer.var())
    state = _State(np.array([[0.1, 0.05], [0.05, 0.1]]) * total, 0.1 * total, 0.1 * total, 0.6 * total)
    n_rounds, moved = 0, np.inf
    while True:
        effects, after = equations.solve(state, floor=_FLOOR * total)
        n_rounds, moved, state = n_rounds + 1, state.distance(after) / total, after
        if moved < tolerance or n_rounds >= max_rounds:
            break
    a, c = effects.beta[1 : 1 + n_agents], effects.beta[1 + n_agents : 1 + 2 * n_agents]
    g = np.zeros((n_agents, n_agents))
    g[equations.pair_first, equations.pair_second] = effects.g
    ability = effects.beta[0] + a + (c.sum() - c + g.sum(axis=1)) / (n_agents - 1)
    np.fill_diagonal(g, np.nan)
    seen = np.bincount(np.concatenate([first, second]), minlength=n_agents) > 0
    return PairModel(
        mean=float(effects.beta[0]),
        first=a,
        second=c,
        item=effects.beta[1 + 2 * n_agents :],
        pair=g,
        ability=np.where(seen, ability, np.nan),
        variances=state.named(),
        status="ok" if moved < tolerance else "not_converged",
        n_rounds=n_rounds,
    )


@dataclass(frozen=True, eq=False)
class _State:
    """agent: float[2, 2], covariance of (a_i, c_i); the others variances."""

    agent: Floats
    pair: float
    item: float
    noise: float

    def distance(self, other: _State) -> float:
        return max(
            float(np.abs(self.agent - other.agent).max()),
            *(abs(x - y) for x, y in zip(self._scalars(), other._scalars(), strict=True)),
        )

    def named(self) -> Variances:
        correlation = float(self.agent[0, 1] / np.sqrt(self.agent[0, 0] * self.agent[1, 1]))
        return Variances(float(self.agent[0, 0]), float(self.agent[1, 1]), correlation, *self._scalars())

    def _scalars(self) -> tuple[float, float, float]:
        return self.pair, self.item, self.noise


class _Effects(NamedTuple):
    """beta: float[1 + 2K + J], μ, a, c, b; g: float[P], of the pairs seen."""

    beta: Floats
    g: Floats


class _Equations:
    """What of the trials does not change from round to round: XᵀX, Xᵀy, and their sums by pair, W = ZᵀX and Zᵀy."""

    def __init__(self, first: Ids, second: Ids, item: Ids, answer: Floats, *, n_agents: int, n_items: int) -> None:
        self.n_agents, self.n_items, self.answer = n_agents, n_items, answer
        T = len(answer)
        columns = np.stack([np.zeros(T, int), 1 + first, 1 + n_agents + second, 1 + 2 * n_agents + item], axis=1)
        self.X = _indicators(columns, width=1 + 2 * n_agents + n_items)
        pairs, self.trial_pair = np.unique(first.astype(np.int64) * n_agents + second, return_inverse=True)
        self.pair_first, self.pair_second = np.divmod(pairs, n_agents)
        Z = _indicators(self.trial_pair[:, None], width=len(pairs))
        self.n_pair = np.bincount(self.trial_pair).astype(np.float64)
        self.W = csr_array(Z.T @ self.X)
        self.XtX = (self.X.T @ self.X).toarray()
        self.Xty, self.Zty = np.asarray(self.X.T @ answer), np.asarray(Z.T @ answer)

    def solve(self, state: _State, *, floor: float) -> tuple[_Effects, _State]:
        """The effects for these variances, and the variances that their expected squares make."""
        K, J, T = self.n_agents, self.n_items, len(self.answer)
        a, c, b = slice(1, 1 + K), slice(1 + K, 1 + 2 * K), slice(1 + 2 * K, None)
        precision = np.linalg.inv(state.agent)
        prior = np.zeros(self.XtX.shape)
        prior[a, a], prior[c, c] = precision[0, 0] * np.eye(K), precision[1, 1] * np.eye(K)
        prior[a, c] = prior[c, a] = precision[0, 1] * np.eye(K)
        prior[b, b] = np.eye(J) / state.item
        d = self.n_pair + state.noise / state.pair
        scaled = csr_array(diags_array(1 / d) @ self.W)
        S = self.XtX + state.noise * prior - (self.W.T @ scaled).toarray()
        factor = cho_factor(S, lower=True, check_finite=False)
        beta = cho_solve(factor, self.Xty - np.asarray(scaled.T @ self.Zty), check_finite=False)
        C = state.noise * cho_solve(factor, np.eye(len(S)), check_finite=False)
        g = (self.Zty - np.asarray(self.W @ beta)) / d
        g_variance = state.noise / d + (np.asarray(scaled @ C) * scaled.toarray()).sum(axis=1)
        squares = np.outer(beta, beta) + C
        pick = np.arange(K)
        cross = squares[a, c][pick, pick].mean()
        agent = np.array([[squares[a, a][pick, pick].mean(), cross], [cross, squares[c, c][pick, pick].mean()]])
        e = self.answer - self.X @ beta - g[self.trial_pair]
        # tr of the fitted values' covariance: σ²·(effects − tr of prior precision × posterior covariance)
        spent = 1 + 2 * K + J + len(g) - (prior * C).sum() - g_variance.sum() / state.pair
        return _Effects(beta, g), _State(
            agent=agent + floor * np.eye(2),
            pair=max(float((g**2 + g_variance).mean()), floor),
            item=max(float(np.diag(squares)[b].mean()), floor),
            noise=max((float(e @ e) + state.noise * float(spent)) / T, floor),
        )


def _indicators(columns: Positions, *, width: int) -> csr_array[np.float64, tuple[int, int]]:
    """Rows with a 1 in each of their columns: columns int[T, n]."""
    row = np.repeat(np.arange(len(columns)), columns.shape[1])
    return csr_array(coo_array((np.ones(len(row)), (row, columns.ravel())), shape=(len(columns), width)))


def _check(first: Ids, second: Ids, item: Ids, answer: Floats, *, n_agents: int, n_items: int) -> None:
    lengths = [len(first), len(second), len(item), len(answer)]
    if len(set(lengths)) > 1:
        raise StatisticsError(
            f"Columns of one length are needed, but {lengths} trials arrived. Take them from one run.",
            slug="trial-columns",
        )
    for noun, ids, size in (
        ("first agent", first, n_agents),
        ("second agent", second, n_agents),
        ("item", item, n_items),
    ):
        wrong = (ids < 0) | (ids >= size)
        if wrong.any():
            raise StatisticsError(
                f"Trial {int(wrong.argmax())} has the {noun} {ids[wrong.argmax()]}. Give positions from 0 to {size - 1}.",
                slug="trial-id",
            )
    if (first == second).any():
        raise StatisticsError(
            f"Trial {int((first == second).argmax())} pairs agent {first[(first == second).argmax()]} with itself. "
            "Give two agents.",
            slug="trial-id",
        )
    if not np.isfinite(answer).all():
        raise StatisticsError(
            f"{int((~np.isfinite(answer)).sum())} of {len(answer)} answers are NaN or infinite. Give answered trials only.",
            slug="trial-answer",
        )
    n_seen = len(np.union1d(first, second))
    if n_seen < 3 or len(np.unique(item)) < 2 or len(answer) < 10:
        raise StatisticsError(
            f"{len(answer)} trials of {n_seen} agents on {len(np.unique(item))} items cannot tell six variances apart. "
            "Give at least 10 of 3 agents on 2 items, or take plain means.",
            slug="pair-model-small",
        )
    if np.ptp(answer) == 0:
        raise StatisticsError(
            f"All {len(answer)} answers are {answer[0]}: nothing varies. Look at the judge.", slug="pair-model-constant"
        )
