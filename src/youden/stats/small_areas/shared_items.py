"""Estimate the correlation of labels of one item, and remove it from label means or include it in intervals.

Agents that are labeled on the same items share the effects of these items. Two estimates of the correlation serve two
purposes. Label means are adjusted only by a correlation beyond chance. Intervals assume at least the correlation that
is usual for labels of responses of language models, because few items cannot show that there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from youden.types.pool import Floats, Positions

_MIN_SD = 0.01
_PRIOR_ITEM_PAIRS, _CHANCE_ERRORS = 10.0, 1.65
"""Number of pairs of labels on one item at which their estimated correlation is shrunk by half, and number of its
standard errors that is attributed to chance and subtracted."""
_MAX_CORRELATION = 0.8
_USUAL_COVARIANCE, _MAX_SHARE, _PRIOR_ITEMS = 0.25, 0.5, 20.0
"""Covariance of labels on one item that intervals assume at least, in units of q·(1 − q); the largest share of the
variance of labels that it may be; and the number of items that it counts as. The covariance is .23 to .31 in the
preferences of 13 models of AlpacaEval."""


@dataclass(frozen=True, eq=False)
class LabelResiduals:
    """Residuals of labels from the quality of their agents, with the items that they share.

    Attributes
    ----------
    value : float array (n_labels,)
        Label minus the quality of its agent.
    sd : float array (n_labels,)
        SD of a label of 0 or 1 with this quality, at least 0.01.
    item_index : int array (n_labels,)
        Position of the item among the labeled items.
    """

    value: Floats
    sd: Floats
    item_index: Positions

    @classmethod
    def from_quality(cls, agent: Positions, item: Positions, value: Floats, quality: Floats) -> LabelResiduals:
        """Compute the residuals of labels: each label minus the quality of its agent.

        Parameters
        ----------
        agent, item : int array (n_labels,)
            Positions of the agent and of the item of each label.
        value : float array (n_labels,)
            Labels in [0, 1], without NaN.
        quality : float array (n_agents,)
            Quality of each agent in [0, 1], without NaN for an agent with a label.

        Returns
        -------
        LabelResiduals
            Three arrays (n_labels,) in the order of the labels. The residuals (`value`) still contain the effects of the items.
            `sd` is the SD of a label of 0 or 1 with the agent's quality, at least 0.01. `item_index` is the position of the item
            among the labeled items.
        """
        sd = np.maximum(np.sqrt(quality * (1 - quality)), _MIN_SD)
        return cls(value - quality[agent], sd[agent], np.unique(item, return_inverse=True)[1])

    @property
    def n_by_item(self) -> Positions:
        """Number of labels of each item, int array (n_items,)."""
        return np.bincount(self.item_index)

    @property
    def n_ordered_pairs(self) -> float:
        """Number of ordered pairs of labels on one item: each pair of labels counts twice."""
        return float((self.n_by_item * (self.n_by_item - 1)).sum())

    def correlation_beyond_chance(self) -> float:
        """Estimate how strongly the labels of different agents on the same item are correlated, by a cautious (low) estimate.

        Returns
        -------
        float
            Correlation from 0 to 0.8; 0 if chance may explain the observed correlation.

        Notes
        -----
        The estimate is (S − 1.65·e)/(N + 20):

        - S is the sum of the products of two standardized residuals on one item, over all N pairs of labels in both orders.
        - e is the standard error of S for uncorrelated labels. Subtracting 1.65·e removes a correlation that chance may explain.
        - The 20 added products of 0 shrink the estimate.
        """
        standardized = self.value / self.sd
        product_sum = self._sum_products(standardized)

        # The product of two uncorrelated residuals has the variance 1. Counted twice, it adds 4 to the variance, or 2 per order.
        std_error = np.sqrt(2 * self.n_ordered_pairs)
        sum_beyond_chance = product_sum - _CHANCE_ERRORS * std_error
        n_products = self.n_ordered_pairs + 2 * _PRIOR_ITEM_PAIRS
        return float(np.clip(sum_beyond_chance / n_products, 0, _MAX_CORRELATION))

    def predict_from_others(self, correlation: float) -> tuple[Floats, Floats]:
        """Predict each residual from the residuals of the other labels on the same item.

        Parameters
        ----------
        correlation : float in [0, 1)
            Correlation of standardized residuals on one item.

        Returns
        -------
        predicted : float array (n_labels,)
            Best linear predictions.
        remaining : float array (n_labels,)
            Share of the variance of each residual that the prediction does not explain.
        """
        standardized = self.value / self.sd
        item_sum = np.bincount(self.item_index, weights=standardized)
        sum_of_others = item_sum[self.item_index] - standardized
        n_others = self.n_by_item[self.item_index] - 1

        # Best linear prediction from the sum of the n other residuals, all with the correlation ρ: the weight is
        # covariance/variance of the sum, ρ/(1 − ρ + ρ·n). The prediction explains the fraction n·ρ·weight of the variance.
        weight = correlation / (1 - correlation + correlation * n_others)
        predicted = self.sd * weight * sum_of_others
        unexplained_share = 1 - correlation * weight * n_others
        return predicted, np.asarray(unexplained_share)

    def shared_variance(self, relative_variance: float) -> float:
        """Estimate the variance that labels on the same item add to the mean of all labels, because they are correlated.

        If the labeled items happen to be easy, the labels of all agents are too high. This error has the variance
        v·q·(1 − q) for an agent of quality q, with the same factor v for all agents. At least one item must have two labels.

        Parameters
        ----------
        relative_variance : float
            Variance of a label divided by the variance of a label of 0 or 1 with the same mean.

        Returns
        -------
        float
            The factor v.

        Notes
        -----
        Two labels on one item have the covariance c·q·(1 − q). If n_j of the N labels are on item j, v is c·Σ_j n_j(n_j − 1)/N².

        c is a weighted mean of two values, limited to at least the second value and at most 0.8:

        - The estimate from pairs of labels, with the effective number of items, N²/Σ_j n_j², as the weight.
        - A usual value of 0.25, or half of `relative_variance` if this is smaller, with the weight 20.

        The sum of the weights is reduced by 1, because qualities were estimated from the same labels.
        """
        usual_covariance = min(_USUAL_COVARIANCE, _MAX_SHARE * relative_variance)
        estimated_covariance = self._sum_products(self.value) / self._sum_products(self.sd)

        # one item is subtracted from the total weight, because qualities were estimated from the same labels
        n_labels = len(self.value)
        n_effective_items = n_labels**2 / float((self.n_by_item**2).sum())
        weighted_sum = n_effective_items * estimated_covariance + _PRIOR_ITEMS * usual_covariance
        weighted_mean = weighted_sum / (n_effective_items - 1 + _PRIOR_ITEMS)
        covariance = max(usual_covariance, min(_MAX_CORRELATION, weighted_mean))

        share_of_pairs_on_one_item = self.n_ordered_pairs / n_labels**2
        return covariance * share_of_pairs_on_one_item

    def _sum_products(self, x: Floats) -> float:
        """Sum the products x_k·x_l over all ordered pairs of labels on one item; x : float array (n_labels,)."""
        total = np.bincount(self.item_index, weights=x)
        return float((total**2).sum() - (x**2).sum())
