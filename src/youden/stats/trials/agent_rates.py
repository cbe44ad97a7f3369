"""Estimate each agent's false-positive rate from independent trials by empirical Bayes, with its uncertainty.

The same method serves for every number of trials. The estimates are shrunk towards their mean unless the trials show
that the rates differ. Their covariance does not assume that the rates are equal, so that intervals keep their coverage
if the rates differ.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv, gammaln

from youden.stats.base.clusters import CentredCovariance
from youden.stats.base.pair_chunks import check_trials
from youden.types.pool import Bools, Floats, Ids, Positions, ReadOnly

_OUTLIER_FRACTION, _OUTLIER_FACTOR, _OUTLIER_SHAPE = 0.03, 4.0, 1.0
"""Fraction of agents with an unusual rate, the mean of such rates in units of the mean rate, and the shape of their
gamma distribution."""
_ZERO_MASS = 0.8
"""Prior probability of equal rates, for the estimate of the rates; their covariance leaves it out."""
MIN_DF = 10
"""Smallest degrees of freedom that an interval has because of estimated rates."""
_PRIOR_SCALE, _PRIOR_DF = 0.5, 4
_KAPPA: Floats = np.append(0.0, np.geomspace(0.02, 8, 60))
"""Grid of κ, the coefficient of variation of the rates."""
_MIN_DISPERSION = 1e-4
_MAX_CELL_CHUNKS = 50
"""Number of chunks of sums by cell above which they are summed, so that memory does not grow with the trials."""


def _make_kappa_prior() -> Floats:
    """Compute the prior of κ on the grid, a half-t distribution: float array (n_kappa,)."""
    edges = np.concatenate([[0.0], (_KAPPA[1:] + _KAPPA[:-1]) / 2, _KAPPA[-1:]])
    density = (1 + (_KAPPA / _PRIOR_SCALE) ** 2 / _PRIOR_DF) ** (-(_PRIOR_DF + 1) / 2)
    mass = density * np.diff(edges)
    return np.asarray(mass / mass.sum())


_PRIOR = _make_kappa_prior()
_SHRINKING_PRIOR = (1 - _ZERO_MASS) * _PRIOR + _ZERO_MASS * (_KAPPA == 0)


@dataclass(frozen=True, eq=False)
class AgentRates(ReadOnly):
    """False-positive rates of agents.

    The rate of an agent is the mean answer to its independent trials, on either side and with every other agent.

    Attributes
    ----------
    rate : float array (n_agents,)
        Estimated rates in [0, 1], which are subtracted from mean answers to get abilities; 0 if no agent has an independent
        trial.
    covariance : float array (n_agents, n_agents)
        Covariance of the errors of `rate`, without the error that all rates share, which cancels between agents.
    squared_error_variance : float array (n_agents,)
        Variance of the squared errors, from which degrees of freedom are computed.
    low, high : float array (n_agents,)
        Bounds of a 95% interval of each rate; NaN if no agent has an independent trial.
    n_trials : float array (n_agents,)
        Number of independent trials that count for each agent.
    pooled : float
        Mean answer to all independent trials that training scores may use; 0 without one.
    """

    rate: Floats
    covariance: Floats
    squared_error_variance: Floats
    low: Floats
    high: Floats
    n_trials: Floats
    pooled: float

    @classmethod
    def unknown(cls, n_agents: int) -> AgentRates:
        """Return rates of 0 without uncertainty, for runs without independent trials.

        Parameters
        ----------
        n_agents : int
            Number of agents.

        Returns
        -------
        AgentRates
            Rates of 0, with bounds that are NaN.
        """
        zeros, nan = np.zeros(n_agents), np.full(n_agents, np.nan)
        return cls(zeros, np.zeros((n_agents, n_agents)), zeros, nan, nan, zeros, 0.0)

    def without_uncertainty(self) -> AgentRates:
        """Return the same rates with a covariance of 0.

        Use them with abilities whose covariance already contains the errors of the rates.

        Returns
        -------
        AgentRates
            Rates with a covariance of 0.
        """
        return replace(self, covariance=np.zeros_like(self.covariance), squared_error_variance=np.zeros_like(self.rate))

    def add_errors_to(self, covariance: CentredCovariance, *, reference: Bools | None = None) -> CentredCovariance:
        """Compute the covariance of abilities: the covariance of mean answers plus the covariance of the errors of the rates.

        An ability is an agent's mean answer minus its false-positive rate. It is measured from the mean ability of the
        reference agents. The errors of mean answers and of rates are assumed to be independent.

        Parameters
        ----------
        covariance : CentredCovariance
            Covariance of the agents' mean answers, measured from the same mean. It is not changed.
        reference : bool array (n_agents,), optional
            Reference agents. Default: for each agent, all agents that can be compared with it.

        Returns
        -------
        CentredCovariance
            Covariance of mean answers minus rates; `covariance` itself if the rates have no error.

        Notes
        -----
        The degrees of freedom ν are those of Welch and Satterthwaite for the sum of both variances, v and r:
        (v + r)²/ν = v²/ν_v + var(squared error)/2. The result is at least 10, or at least ν_v if ν_v is smaller than 10.

        References
        ----------
        Satterthwaite (1946), Biometrics Bulletin 2, 110–114.
        """
        if not self.squared_error_variance.any():
            return covariance
        rate_covariance = self.centred_covariance(covariance, reference=reference)
        answer_variance = np.diag(covariance.covariance)
        ability_variance = answer_variance + np.diag(rate_covariance)
        # df = (v + r)²/(v²/ν_v + var(squared error)/2); without any variance, the df of the mean answers are kept
        denominator = answer_variance**2 / covariance.df + self.squared_error_variance / 2
        df = np.divide(ability_variance**2, denominator, out=covariance.df.copy(), where=denominator > 0)
        df = np.maximum(df, np.minimum(MIN_DF, covariance.df))
        return CentredCovariance(covariance.covariance + rate_covariance, df)

    def centred_covariance(self, covariance: CentredCovariance, *, reference: Bools | None = None) -> Floats:
        """Compute the covariance of the errors of the rates, each measured from a mean rate.

        Parameters
        ----------
        covariance : CentredCovariance
            Covariance of the abilities. Only its NaN entries are used: they mark two agents that cannot be compared.
        reference : bool array (n_agents,), optional
            Reference agents, over which the mean rate is taken. The mean for an agent contains only the reference agents that can
            be compared with it. Default: all agents.

        Returns
        -------
        float array (n_agents, n_agents)
            Covariance without NaN. No mean is subtracted from the rate of an agent that cannot be compared with any reference
            agent.
        """
        is_comparable = ~np.isnan(covariance.covariance)
        is_in_mean = is_comparable if reference is None else is_comparable & reference
        n_in_mean = is_in_mean.sum(axis=1, keepdims=True)
        weight_in_mean = is_in_mean / np.maximum(n_in_mean, 1)  # row i: weights of all rates in the mean for agent i

        # the errors e become M·e with M = 1 − weight_in_mean, so that their covariance C becomes M·C·Mᵀ
        subtract_mean = np.eye(len(self.rate)) - weight_in_mean
        return np.asarray(subtract_mean @ self.covariance @ subtract_mean.T)

    def difference_variance(self, first: int, second: int) -> tuple[float, float]:
        """Compute the variance of the difference between the rates of two agents, and its degrees of freedom.

        Parameters
        ----------
        first, second : int
            Positions of the agents.

        Returns
        -------
        variance, df : float
            Variance, and degrees of freedom of at least 1. Without uncertainty of the difference, the variance is 0 and `df`
            is infinite.

        Notes
        -----
        The degrees of freedom are Satterthwaite's, df = 2V²/W. V is the variance of the difference, and W is the variance of its
        squared error: the sum of the two agents' `squared_error_variance`.
        """
        pair = [first, second]
        variance = float(self.covariance[pair, pair].sum() - 2 * self.covariance[first, second])
        squared_error_variance = float(self.squared_error_variance[pair].sum())
        if not (variance > 0 and squared_error_variance > 0):
            return 0.0, float("inf")
        df = 2 * variance**2 / squared_error_variance
        return variance, max(df, 1.0)


class IndependentTotals:
    """Sums of the answers to independent trials.

    Callers leave out probes, which serve only to detect high false-positive rates.

    Parameters
    ----------
    n_agents, n_items : int
        Numbers of agents and items of the plan.

    Attributes
    ----------
    n_by_agent, sum_by_agent, square_sum_by_agent : float array (n_agents,)
        Number of trials that count for each agent, the sum of their answers and of the squared answers. Only trials
        that training scores may use count.
    n_trials, answer_sum : float
        Number of all trials and the sum of their answers.
    n_training, training_sum, training_square_sum : float
        Number, sum and sum of squares of the answers that training scores may use.
    """

    def __init__(self, n_agents: int, n_items: int) -> None:
        self._n_items = n_items
        self.n_by_agent, self.sum_by_agent, self.square_sum_by_agent = np.zeros((3, n_agents))
        self.n_trials, self.answer_sum = 0, 0.0
        self.n_training, self.training_sum, self.training_square_sum = 0, 0.0, 0.0
        self._cell_chunks: list[tuple[Positions, Floats, Floats]] = []

    def add(
        self,
        first: Ids | Positions,
        second: Ids | Positions,
        answer: Floats,
        *,
        item: Ids | Positions,
        other_item: Ids | Positions,
        is_training: Bools | None = None,
        counts_for: tuple[Bools, Bools] | None = None,
    ) -> None:
        """Add a chunk of answered trials, in place.

        Parameters
        ----------
        first, second : int array (n_trials,)
            Positions of the two agents of each trial.
        answer : float array (n_trials,)
            Answers in [0, 1], without NaN.
        item, other_item : int array (n_trials,)
            Positions of the items of the first and of the second agent's text.
        is_training : bool array (n_trials,), optional
            Whether training scores may use a trial; other trials change only `n_trials` and `answer_sum`. Default: all.
        counts_for : pair of bool arrays (n_trials,), optional
            In the sums by agent, whether each trial counts for its first agent (first array), and whether it counts for its
            second agent (second array). The sums over all trials do not depend on this. Default: each trial counts for both
            agents.

        Raises
        ------
        StatisticsError
            [trial-columns]: if columns differ in length; [trial-answer]: if an answer is NaN.
        """
        check_trials(first, second, item, other_item, answer=answer)
        self.n_trials += len(answer)
        self.answer_sum += float(answer.sum())

        if is_training is None:
            is_training = np.ones(len(answer), dtype=np.bool_)
        training_answer = answer[is_training]
        self.n_training += len(training_answer)
        self.training_sum += float(training_answer.sum())
        self.training_square_sum += float((training_answer**2).sum())

        counts_for_first = counts_for_second = is_training
        if counts_for is not None:
            counts_for_first = is_training & counts_for[0]
            counts_for_second = is_training & counts_for[1]
        self._add_by_agent(first, item, answer, is_counted=counts_for_first)
        self._add_by_agent(second, other_item, answer, is_counted=counts_for_second)

    def _add_by_agent(
        self, agent: Ids | Positions, item: Ids | Positions, answer: Floats, *, is_counted: Bools
    ) -> None:
        """Add the answers of trials to the sums by agent, and to the sums by cell (an agent on an item), in place.

        A trial has two agents. One call of this method adds the answers to the sums of the first agents, or of the second
        agents.

        agent, item : int arrays (n_trials,), this agent of each trial, and the item to which it responded
        answer : float array (n_trials,)
        is_counted : bool array (n_trials,), whether the answer is added; a plan may let a trial count for one agent only
        """
        n_agents = len(self.n_by_agent)
        agent, item, answer = agent[is_counted], item[is_counted], answer[is_counted]
        self.n_by_agent += np.bincount(agent, minlength=n_agents)
        self.sum_by_agent += np.bincount(agent, answer, n_agents)
        self.square_sum_by_agent += np.bincount(agent, answer**2, n_agents)

        cell = agent * np.int64(self._n_items) + item
        self._append_cell_sums(cell, answer)

    def _append_cell_sums(self, cell: Positions, answer: Floats) -> None:
        """Sum answers by cell, and append the sums to `_cell_chunks`. Many chunks of sums are combined into one.

        cell : int64 array (n_answers,), agent · n_items + item of each answer
        answer : float array (n_answers,)
        """
        distinct_cells, cell_index, counts = np.unique(cell, return_inverse=True, return_counts=True)
        answer_sums = np.bincount(cell_index, answer, len(distinct_cells)).astype(np.float64)
        self._cell_chunks.append((distinct_cells, counts.astype(np.float64), answer_sums))
        if len(self._cell_chunks) > _MAX_CELL_CHUNKS:
            self._cell_chunks = [self._sum_by_cell()]

    def _sum_by_cell(self) -> tuple[Positions, Floats, Floats]:
        """Combine the sums of all chunks of trials into one sum for each cell (an agent on an item).

        Returns three arrays (n_cells,): the distinct cells as codes agent · n_items + item, ascending, and the number and
        the sum of their answers.
        """
        cells, counts, answer_sums = zip(*self._cell_chunks, strict=True)  # tuples with one array per chunk
        distinct_cells, cell_index = np.unique(np.concatenate(cells), return_inverse=True)
        n_by_cell = np.bincount(cell_index, np.concatenate(counts), len(distinct_cells)).astype(np.float64)
        sum_by_cell = np.bincount(cell_index, np.concatenate(answer_sums), len(distinct_cells)).astype(np.float64)
        return distinct_cells, n_by_cell, sum_by_cell

    def merged(self, added: IndependentTotals) -> IndependentTotals:
        """Return the sums over the trials of both objects; neither object is changed.

        Parameters
        ----------
        added : IndependentTotals
            Sums of other trials of the same plan, with the same numbers of agents and items.

        Returns
        -------
        IndependentTotals
            Sums over both sets of trials.
        """
        totals = IndependentTotals(len(self.n_by_agent), self._n_items)
        totals.n_by_agent = self.n_by_agent + added.n_by_agent
        totals.sum_by_agent = self.sum_by_agent + added.sum_by_agent
        totals.square_sum_by_agent = self.square_sum_by_agent + added.square_sum_by_agent
        totals.n_trials = self.n_trials + added.n_trials
        totals.answer_sum = self.answer_sum + added.answer_sum
        totals.n_training = self.n_training + added.n_training
        totals.training_sum = self.training_sum + added.training_sum
        totals.training_square_sum = self.training_square_sum + added.training_square_sum
        totals._cell_chunks = [*self._cell_chunks, *added._cell_chunks]
        return totals

    @property
    def rate(self) -> float | None:
        """Mean answer to all trials; None without a trial."""
        return self.answer_sum / self.n_trials if self.n_trials else None

    @property
    def training_rate(self) -> float:
        """Mean answer to the trials that training scores may use; 0 without one."""
        return self.training_sum / self.n_training if self.n_training else 0.0

    def estimate_rates(self, *, items_vary: bool = True) -> AgentRates:
        """Estimate the false-positive rate of each agent.

        Parameters
        ----------
        items_vary : bool, default True
            True: inference for items like these, so that the correlation of the answers to an agent's text on one item increases
            the uncertainty. False: inference for exactly these items.

        Returns
        -------
        AgentRates
            Rate of each agent, shrunk towards the mean rate, with a 95% interval and the covariance of the errors. With trials of
            at most 2 agents, all rates are equal, and their covariance is 0. If there is no training trial (a trial that training
            scores may use), all rates are 0 and all bounds NaN.

        Notes
        -----
        Let μ be the mean rate, d the design effect, and c the dispersion of an answer: its variance divided by its mean, which is
        1 − μ for yes and no. For K > 2 agents, c is multiplied by (K − 2)/(K − 1). The sum of the answers to agent i's n_i trials
        is modeled as cd times a Poisson variable of mean n_i·f_i/(cd).

        The rates f_i have the distribution .97·Gamma(mean μ, SD κμ) + .03·Gamma(mean 4μ, SD 4μ). κ has a half-t prior with 4
        degrees of freedom and the scale ½, and is integrated out on a grid, with a REML term. For the estimate, the prior has a
        mass of .8 at κ = 0; for the covariance, it has none. d is Σ_c (Σ_t e_t)²/Σe², at least 1, over the trials t
        of each cell c (an agent on an item) with the residuals e.

        References
        ----------
        Efron (2010), Large-Scale Inference, ch. 1 (empirical Bayes). Kish (1965), Survey Sampling (design effect).
        """
        return self._fit_rates(items_vary=items_vary).estimate_rates_of_fitted_agents()

    def _fit_rates(self, *, items_vary: bool) -> _RateFit:
        """Fit the distribution of rates, with a design effect if answers to an agent's text on one item correlate."""
        fit = _RateFit(self, design_effect=1.0)
        if not items_vary or self.training_sum <= 0:
            return fit
        design_effect = self._compute_design_effect(fit.shrunk_rate)
        return _RateFit(self, design_effect=design_effect) if design_effect > 1 else fit

    def first_agents(self, n: int) -> IndependentTotals:
        """Return a copy with the sums of the first `n` agents only. No trial may contain another agent, which is not checked.

        Parameters
        ----------
        n : int
            Number of agents.

        Returns
        -------
        IndependentTotals
            Sums by agent have the shape (n,), and sums over all trials stay the same.
        """
        totals = copy(self)
        totals.n_by_agent = self.n_by_agent[:n].copy()
        totals.sum_by_agent = self.sum_by_agent[:n].copy()
        totals.square_sum_by_agent = self.square_sum_by_agent[:n].copy()
        totals._cell_chunks = self._cell_chunks.copy()
        return totals

    def link_rates(
        self, anchors: IndependentTotals, rates: AgentRates, agents: Positions, *, items_vary: bool = True
    ) -> AgentRates:
        """Estimate the rates of added agents from their own trials and from the distribution of the anchors' rates.

        Parameters
        ----------
        anchors : IndependentTotals
            Sums of the trials that compare the anchors, which are the first agents of these totals, with each other.
        rates : AgentRates
            Rates of the anchors, arrays (n_anchors,).
        agents : int array (n,)
            Positions of the agents whose rates are estimated; an anchor among them gets a new rate. Each rate is
            estimated alone, so that no agent changes the rate of another one.
        items_vary : bool, default True
            True: inference for items like these, so that the correlation of the answers to an agent's text on one item increases
            the uncertainty. False: inference for exactly these items.

        Returns
        -------
        AgentRates
            Rates of all agents of these totals. Anchors that are not in `agents` keep their rates, and all other agents that are
            not in `agents` get 0. An agent in `agents` without a trial gets the mean of the fitted distribution. The errors of
            the rates of `agents` are independent of all others. If the anchors have no training trial (a trial that training
            scores may use), all rates are 0 and all bounds NaN.
        """
        n_agents, n_anchors = len(self.n_by_agent), len(anchors.n_by_agent)
        if not anchors.n_training:
            return AgentRates.unknown(n_agents)
        fit = anchors._fit_rates(items_vary=items_vary)
        added_rates = fit.estimate_rates_of_added_agents(self.n_by_agent[agents], self.sum_by_agent[agents])

        def combine(of_anchors: Floats, of_added: Floats) -> Floats:
            """Put values of the anchors and of the added agents into one array (n_agents,), 0 for other agents."""
            combined = np.zeros(n_agents)
            combined[:n_anchors] = of_anchors
            combined[agents] = of_added
            return combined

        # the errors of an added agent are independent of those of all others
        covariance = np.zeros((n_agents, n_agents))
        covariance[:n_anchors, :n_anchors] = rates.covariance
        covariance[agents], covariance[:, agents] = 0.0, 0.0
        covariance[agents, agents] = np.diag(added_rates.covariance)
        return AgentRates(
            rate=combine(rates.rate, added_rates.rate),
            covariance=covariance,
            squared_error_variance=combine(rates.squared_error_variance, added_rates.squared_error_variance),
            low=combine(rates.low, added_rates.low),
            high=combine(rates.high, added_rates.high),
            n_trials=combine(rates.n_trials, added_rates.n_trials),
            pooled=rates.pooled,
        )

    def _compute_design_effect(self, rate: Floats) -> float:
        """Compute the design effect: the factor, at least 1, by which correlated answers increase the variance of a rate.

        Answers to the same agent on the same item may be correlated. Agent and item are called a cell.

        rate : float array (n_agents,), rate of each agent, with which its answers are compared
        """
        cell, n_by_cell, answer_sum_by_cell = self._sum_by_cell()
        agent_of_cell = cell // self._n_items

        # A residual is an answer minus the rate of the agent. The sum of its squares is Σ(y − rate)² = Σy² − 2·rate·Σy + n·rate².
        residual_sum_by_cell = answer_sum_by_cell - n_by_cell * rate[agent_of_cell]
        squares_by_agent = self.square_sum_by_agent - 2 * rate * self.sum_by_agent + self.n_by_agent * rate**2
        sum_of_squares = float(squares_by_agent.sum())
        if sum_of_squares <= 0:
            return 1.0

        # if the residuals of a cell are uncorrelated, the square of their sum is, on average, the sum of their squares
        squares_of_cell_sums = float((residual_sum_by_cell**2).sum())
        return max(1.0, squares_of_cell_sums / sum_of_squares)


def expected_rate_variance(n_trials: float, *, rate: float, n_agents: int) -> float:
    """Forecast the variance that false-positive rates add to an ability.

    An ability is a true-positive rate minus a false-positive rate. The false-positive rate is estimated from independent trials,
    which compare responses to different items.

    Parameters
    ----------
    n_trials : float
        Number of independent trials of each agent; if it is 0, so is the result.
    rate : float in (0, 1)
        False-positive rate of all agents.
    n_agents : int
        Number of agents; for fewer than 3, the result is 0.

    Returns
    -------
    float
        Posterior variance of an agent's rate minus the mean rate, averaged over agents, for `n_trials * rate` yes answers per
        agent. It is smaller than the binomial variance, because estimated rates are shrunk to their mean.

    Examples
    --------
    >>> [round(expected_rate_variance(n, rate=0.02, n_agents=20), 5) for n in (10, 40, 160)]
    [0.0002, 3e-05, 1e-05]
    """
    # set the expected sums directly, without adding answers
    expected_totals = IndependentTotals(n_agents, n_items=1)
    expected_totals.n_by_agent += n_trials
    expected_totals.sum_by_agent += n_trials * rate

    # sums over all trials, each of which has two agents; Σ answer² = Σ answer, because answers are 0 or 1
    expected_totals.n_training = max(1, round(n_agents * n_trials / 2))
    expected_totals.training_sum = expected_totals.n_training * rate
    expected_totals.training_square_sum = expected_totals.training_sum

    # variance of the difference from the mean rate, averaged over agents
    covariance = expected_totals.estimate_rates(items_vary=False).covariance
    return float(np.diag(covariance).mean() - covariance.mean())


class _Posterior(NamedTuple):
    """Posterior distribution of the rates of some agents, for each κ on the grid.

    κ is the coefficient of variation of the rates of all agents. A rate is regular, with a gamma distribution around the
    mean rate, or an outlier.

    Attributes
    ----------
    mean, variance : float array (n_kappa, n_agents)
        Posterior mean and variance of each rate.
    squared_error_variance : float array (n_kappa, n_agents)
        Variance of the squared error of each rate, approximated by 2·variance²/shape of the gamma posterior of a regular
        rate; 0 for κ = 0.
    log_likelihood : float array (n_kappa, n_agents)
        Logarithm of the probability of the agent's answers, up to a constant.
    """

    mean: Floats
    variance: Floats
    squared_error_variance: Floats
    log_likelihood: Floats

    def expect_squared_errors(self, rate: Floats) -> Floats:
        """Compute the expected squared error of each estimated rate, given κ: float array (n_kappa, n_agents).

        rate : float array (n_agents,), estimated rates
        """
        return np.asarray(self.variance + (self.mean - rate) ** 2)

    def compute_squared_error_variance(self, rate: Floats, weight: Floats) -> Floats:
        """Compute the variance of the squared error of each estimated rate: float array (n_agents,).

        The coefficient of variation κ of the rates is unknown. By the law of total variance, two terms are added: the variance
        over κ of the expected squared error, and the mean over κ of its variance.

        rate : float array (n_agents,), estimated rates
        weight : float array (n_kappa, 1) or (n_kappa, n_agents), probabilities of κ, which sum to 1 over the first axis
        """
        # the variance over κ is the mean of the squares minus the square of the mean
        expected_error = self.expect_squared_errors(rate)
        mean_over_kappa = (weight * expected_error).sum(axis=0)
        mean_of_squares = (weight * expected_error**2).sum(axis=0)
        variance_of_expectation = mean_of_squares - mean_over_kappa**2
        mean_variance = (weight * self.squared_error_variance).sum(axis=0)
        return np.asarray(variance_of_expectation + mean_variance)


class _Moments(NamedTuple):
    """Means and variances of the distributions of rates.

    Attributes
    ----------
    mean, variance : float array (n_kappa, n_agents) or (n_agents,)
        Mean and variance of each rate.
    """

    mean: Floats
    variance: Floats


class _RateFit:
    """Fit of the distribution of rates to sums of answers by agent.

    Attributes
    ----------
    shrunk_rate : float array (n_agents,)
        Posterior means of the rates, with the prior mass at equal rates.
    """

    def __init__(self, totals: IndependentTotals, *, design_effect: float) -> None:
        self._totals = totals
        n_answers, answer_sum = max(totals.n_training, 1), totals.training_sum
        K = int((totals.n_by_agent > 0).sum())

        # dispersion c = Σy²/Σy − ȳ, which is 1 − ȳ for answers yes and no
        dispersion = 1.0
        if answer_sum > 0:
            dispersion = max(totals.training_square_sum / answer_sum - answer_sum / n_answers, _MIN_DISPERSION)
        self._n_effective_yes = answer_sum / dispersion + 0.5
        self._mean = dispersion * self._n_effective_yes / n_answers
        self._dispersion = dispersion * design_effect
        centered_dispersion = self._dispersion
        if K > 2:  # a trial counts for both agents, and only the distance from their mean matters
            centered_dispersion *= (K - 2) / (K - 1)

        # likelihood of each κ, with the REML term −½·log Σ_i 1/var(rate_i) for the estimated mean
        self._posterior = self._compute_posterior(totals.n_by_agent, totals.sum_by_agent, centered_dispersion)
        answer_variance = centered_dispersion * self._mean / np.maximum(totals.n_by_agent, 1e-9)
        rate_variance = (_KAPPA[:, None] * self._mean) ** 2 + answer_variance
        reml_term = 0.5 * np.log((1 / rate_variance).sum(axis=1))
        log_likelihood = self._posterior.log_likelihood.sum(axis=1) - reml_term
        self._likelihood = np.exp(log_likelihood - log_likelihood.max())

        self._has_equal_rates = K <= 2  # two agents have the same trials
        self.shrunk_rate = self._compute_kappa_weights(_SHRINKING_PRIOR) @ self._posterior.mean
        if self._has_equal_rates:
            self.shrunk_rate = np.full(len(totals.n_by_agent), self._mean)

    def _compute_posterior(self, n_trials: Floats, answer_sum: Floats, dispersion: float) -> _Posterior:
        """Compute the posterior distribution of each agent's rate for each value of κ, the coefficient of variation of all rates.

        A rate is either regular, with a gamma distribution around the mean rate, or, with a small prior probability, an outlier.

        n_trials, answer_sum : float arrays (n_agents,), number and sum of the answers to each agent's trials
        dispersion : variance of an answer divided by its mean

        Returns, for each κ in `_KAPPA` (row) and each agent, the mean and the variance of the rate, the variance of its squared
        error, and the log likelihood of the agent's answers.
        """
        # answer_sum/dispersion, a number of yes answers, is modeled as a Poisson variable of mean n_trials·rate/dispersion
        n_yes = answer_sum / dispersion
        expected_n_yes = np.maximum(n_trials * self._mean / dispersion, 1e-300)
        log_regular, log_outlier = _compute_log_likelihoods(n_yes, expected_n_yes)
        log_likelihood = np.logaddexp(log_regular, log_outlier)
        p_outlier = np.exp(log_outlier - log_likelihood)

        # the first row is κ = 0: regular rates equal the mean rate, without any error
        no_variance = np.zeros((1, len(n_trials)))
        mean_without_variation = np.full_like(no_variance, self._mean)

        # for the other κ, the prior of regular rates is a gamma distribution of shape 1/κ² around the mean rate
        n_effective_trials = n_trials / dispersion
        prior_shape = 1 / _KAPPA[1:, None] ** 2
        varying = _update_gamma(self._mean, prior_shape, n_yes, n_effective_trials)
        regular_mean = np.vstack([mean_without_variation, varying.mean])
        regular_variance = np.vstack([no_variance, varying.variance])

        # variance of the squared error, about 2·variance²/shape with the shape of the posterior distribution
        posterior_shape = prior_shape + n_yes
        squared_error_variance = np.vstack([no_variance, 2 * varying.variance**2 / posterior_shape])

        outlier = _update_gamma(_OUTLIER_FACTOR * self._mean, _OUTLIER_SHAPE, n_yes, n_effective_trials)
        mixture = _mix_moments(_Moments(regular_mean, regular_variance), outlier, p_outlier)
        return _Posterior(mixture.mean, mixture.variance, squared_error_variance, log_likelihood)

    def _compute_kappa_weights(self, prior: Floats) -> Floats:
        """Compute the posterior probabilities of the κ on the grid from prior ones: float array (n_kappa,)."""
        weight = self._likelihood * prior
        return np.asarray(weight / weight.sum())

    def estimate_rates_of_fitted_agents(self) -> AgentRates:
        """Estimate the false-positive rates of all agents, with the covariance of their errors.

        Results are averages over the posterior distribution of κ, the coefficient of variation of the rates. Two priors are
        used. For the rates, κ = 0 (equal rates) has a large prior probability. For the covariance, it has none, so that the
        covariance is large enough if the rates differ.

        Without trials, all rates are 0. For at most two agents, all rates are equal, with a covariance of 0.
        """
        totals = self._totals
        n_agents = len(totals.n_by_agent)
        if not totals.n_training:
            return AgentRates.unknown(n_agents)
        if self._has_equal_rates:
            return self._add_mean_error_and_intervals(
                self.shrunk_rate, np.zeros((n_agents, n_agents)), np.zeros(n_agents), totals.n_by_agent
            )

        # the covariance is the mean over κ of the products of two biases, plus the mean variances on the diagonal
        posterior = self._posterior
        kappa_weight = self._compute_kappa_weights(_PRIOR)[:, None]
        bias = posterior.mean - self.shrunk_rate  # (n_kappa, n_agents)
        mean_bias_product = (kappa_weight * bias).T @ bias
        mean_variance = (kappa_weight * posterior.variance).sum(axis=0)
        covariance = np.diag(mean_variance) + mean_bias_product

        squared_error_variance = posterior.compute_squared_error_variance(self.shrunk_rate, kappa_weight)
        return self._add_mean_error_and_intervals(
            self.shrunk_rate, covariance, squared_error_variance, totals.n_by_agent
        )

    def estimate_rates_of_added_agents(self, n_trials: Floats, answer_sum: Floats) -> AgentRates:
        """Estimate the false-positive rates of agents that were added later, with the fitted distribution as their prior.

        Each rate depends only on the agent's own trials and on the fit to the first agents. It is an average over the posterior
        distribution of κ, the coefficient of variation of the rates. For the rates, κ = 0 (equal rates) has a large prior
        probability. For the variances of their errors, it has none.

        n_trials, answer_sum : float arrays (n_added,), number and sum of the answers to the independent trials of each added
            agent

        Returns rates (n_added,) with independent errors. The rate of an agent without a trial is the mean of the prior.
        """
        posterior = self._compute_posterior(n_trials, answer_sum, self._dispersion)
        max_log_likelihood = posterior.log_likelihood.max(axis=0)
        likelihood = np.exp(posterior.log_likelihood - max_log_likelihood)

        # rates: means over the probabilities of κ, (n_kappa, n_added), given the first agents' trials and the agent's own ones
        rate_weight = self._compute_kappa_weights(_SHRINKING_PRIOR)[:, None] * likelihood
        rate_weight /= rate_weight.sum(axis=0)
        rate = (rate_weight * posterior.mean).sum(axis=0)

        # variances of the errors, with the other prior of κ
        error_weight = self._compute_kappa_weights(_PRIOR)[:, None] * likelihood
        error_weight /= error_weight.sum(axis=0)
        error_variance = (error_weight * posterior.expect_squared_errors(rate)).sum(axis=0)
        squared_error_variance = posterior.compute_squared_error_variance(rate, error_weight)
        return self._add_mean_error_and_intervals(rate, np.diag(error_variance), squared_error_variance, n_trials)

    def _add_mean_error_and_intervals(
        self, rate: Floats, covariance: Floats, squared_error_variance: Floats, n_trials: Floats
    ) -> AgentRates:
        """Correct the mean of estimated false-positive rates, and add the error of the mean and 95% intervals.

        Shrinkage changes the mean of the rates. All rates are therefore shifted by the same number, which makes their mean equal
        to the mean answer again. The shift is smaller if a rate would otherwise leave [0, 1].

        rate : float array (n_agents,), posterior means of the rates
        covariance : float array (n_agents, n_agents), covariance of the errors of the rates, given their mean
        squared_error_variance : float array (n_agents,), variances of the squared errors
        n_trials : float array (n_agents,), number of independent trials of each agent
        """
        # The covariance is about proportional to the squared mean rate. The estimate of the mean from Y yes answers has the
        # relative variance 1/Y, which increases its expected square by the factor 1 + 1/Y.
        covariance_factor = 1 + 1 / self._n_effective_yes
        n_answers = max(self._totals.n_training, 1)
        variance_of_mean = self._dispersion * self._mean / n_answers

        # interval of a gamma distribution with the mean and the variance of the rate
        variance = covariance_factor * np.diag(covariance) + variance_of_mean
        shape = rate**2 / variance
        scale = variance / rate
        low = scale * gammaincinv(shape, 0.025)
        high = scale * gammaincinv(shape, 0.975)

        # the shift leaves the fitted rates in [0, 1]; it is the same for all agents, so that it cancels in differences
        fitted_rate = self.shrunk_rate
        full_shift = self._totals.training_rate - fitted_rate.mean()
        shift = np.clip(full_shift, -fitted_rate.min(), 1 - fitted_rate.max())
        shifted_rate = np.clip(rate + shift, 0.0, 1.0)

        # the bounds are not shifted, but contain the shifted rate
        low = np.minimum(low, shifted_rate)
        high = np.minimum(np.maximum(high, shifted_rate), 1.0)
        return AgentRates(
            rate=shifted_rate,
            covariance=covariance_factor * covariance,
            squared_error_variance=covariance_factor**2 * squared_error_variance,
            low=low,
            high=high,
            n_trials=n_trials.copy(),
            pooled=self._totals.training_rate,
        )


def _update_gamma(prior_mean: float, prior_shape: Floats | float, n_yes: Floats, n: Floats) -> _Moments:
    """Compute posterior mean and variance of rates with a gamma prior, from `n_yes` events in n trials."""
    shape = prior_shape + n_yes
    inverse_scale = prior_shape / prior_mean + n
    return _Moments(shape / inverse_scale, shape / inverse_scale**2)


def _mix_moments(regular: _Moments, outlier: _Moments, p_outlier: Floats) -> _Moments:
    """Compute the mean and the variance of rates with a mixture distribution: each rate is either regular or an outlier.

    regular : mean and variance of a regular rate, (n_kappa, n_agents); κ is the coefficient of variation of regular rates
    outlier : mean and variance of an outlier rate, (n_agents,)
    p_outlier : float array (n_kappa, n_agents), probability that the rate is an outlier

    Returns the moments of the mixture of both cases, float arrays (n_kappa, n_agents).
    """
    p_regular = 1 - p_outlier
    mean = p_regular * regular.mean + p_outlier * outlier.mean

    # the expected squared distance from this mean, in either case
    regular_square = regular.variance + (regular.mean - mean) ** 2
    outlier_square = outlier.variance + (outlier.mean - mean) ** 2
    variance = p_regular * regular_square + p_outlier * outlier_square
    return _Moments(mean, variance)


def _compute_log_likelihoods(n_yes: Floats, expected_n_yes: Floats) -> tuple[Floats, Floats]:
    """Compute the log probability of each agent's answers together with a regular rate, and together with an outlier rate.

    Regular rates have a gamma distribution with the coefficient of variation κ. A rate is an outlier with the probability
    `_OUTLIER_FRACTION`. Both results omit the same constant.

    n_yes, expected_n_yes : float array (n_agents,), observed numbers of yes answers, and the numbers expected at the mean rate

    Returns float arrays (n_kappa, n_agents) for a regular rate, one row for each κ, and (n_agents,) for an outlier.
    """
    # the number of yes answers is Poisson for equal rates (κ = 0, the first row), and negative binomial for gamma rates
    log_poisson = n_yes * np.log(expected_n_yes) - expected_n_yes
    shape = 1 / _KAPPA[1:, None] ** 2  # (n_kappa − 1, 1)
    log_binomial = _compute_log_negative_binomial(n_yes, shape, expected_n_yes)
    log_if_regular = np.vstack([log_poisson, log_binomial])
    log_if_outlier = _compute_log_negative_binomial(n_yes, _OUTLIER_SHAPE, _OUTLIER_FACTOR * expected_n_yes)
    return log_if_regular + np.log1p(-_OUTLIER_FRACTION), log_if_outlier + np.log(_OUTLIER_FRACTION)


def _compute_log_negative_binomial(count: Floats, shape: Floats | float, mean: Floats) -> Floats:
    """Compute the log probability of counts under a negative binomial distribution, up to a constant in the count.

    The arguments are broadcast against each other; `shape` is that of the gamma distribution of the Poisson mean.
    """
    log_coefficient = gammaln(count + shape) - gammaln(shape)
    p_failure, p_success = shape / (shape + mean), mean / (shape + mean)
    return np.asarray(log_coefficient + shape * np.log(p_failure) + count * np.log(p_success))
