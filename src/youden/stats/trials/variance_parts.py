"""Estimate the variance components of an answer, and the contribution of each to the variance of an ability.

The model of an answer is m + a_i + a_k + b_j + c_ij + c_kj + l_ijr + l_kjr' + g_ik + e: effects of the two agents, the
item, each agent on the item, the responses that are shown (r, r') and the pair of agents, and a residual, which
includes the inconsistency of the judge.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from youden.errors import StatisticsError
from youden.stats.base.pair_chunks import compute_residuals
from youden.streams import standalone_stream
from youden.types.pool import Floats, Ids, Positions, count_distinct
from youden.types.results import Part

MAX_DESIGN_ENTRIES = 3 * 10**8
"""Largest number of entries of the cross products of all items; if there are more, a random sample of items is used."""


class VarianceComponents:
    """Variance components of an answer, with their factors in an ability.

    Attributes
    ----------
    agent_item : Part
        Variance of an agent's effect on an item, with its 95% interval. Includes the response variance if `response` is None.
    response : Part or None
        Response sampling variance; None if no response of an agent with several is shown twice.
    pair : Part or None
        Variance of the effect of a pair of agents; None if too few pairs meet on several items.
    residual : Part
        Residual variance of a trial.
    agent_item_factor, response_factor, residual_factor : float
        Factors of these components in the variance of an ability's distance from the mean, averaged over agents.
    partner_factor : float
        Factor of the agent × item variance of an agent's partners.
    showings_per_response : float
        Mean number of times that a response is shown.

    Notes
    -----
    Moment estimates: sums of squares of residuals by cell, by response and by trial, within items, are set equal to their
    expectations (MINQUE with identity weights). Intervals are from a jackknife over items (over agents for `pair`), with
    Student's t and Satterthwaite's degrees of freedom, estimated from the kurtosis of the jackknife values.

    References
    ----------
    Rao (1972), J. American Statistical Association 67, 112–115. Satterthwaite (1946), Biometrics Bulletin 2, 110–114.
    """

    def __init__(
        self,
        first: Ids,
        second: Ids,
        item: Ids,
        answer: Floats,
        *,
        ability: Floats,
        n_items: int,
        first_repeat: Ids | None = None,
        second_repeat: Ids | None = None,
    ) -> None:
        """Estimate the components from answered paired trials.

        Parameters
        ----------
        first, second, item : int array (n_trials,)
            Agents and item of each trial.
        answer : float array (n_trials,)
            Answers, without NaN.
        ability : float array (n_agents,)
            Abilities as mean answers, NaN for agents without one.
        n_items : int
            Number of items.
        first_repeat, second_repeat : int array (n_trials,), optional
            Number, from 1, of the response to the item that the first (second) agent shows. Default: each agent has one response
            per item.

        Raises
        ------
        StatisticsError
            [variance-few] if there are fewer than 3 agents, or fewer than 5 items with several trials.
        """
        K = int((~np.isnan(ability)).sum())
        n_by_item = np.bincount(item, minlength=n_items)
        if K < 3 or (n_by_item > 1).sum() < 5:
            raise StatisticsError(
                f"Variance components need 3 agents, and 5 items with several trials: got {K} agents and "
                f"{int((n_by_item > 1).sum())} items. Add trials.",
                slug="variance-few",
            )

        residual = compute_residuals(first, second, item, answer, ability=ability)

        # number of the response that each side shows: agent · n_repeats + repeat
        responses, n_repeats = (first, second), 1
        if first_repeat is not None and second_repeat is not None:
            n_repeats = max(int(first_repeat.max()), int(second_repeat.max()))
            responses = (first * n_repeats + first_repeat - 1, second * n_repeats + second_repeat - 1)
        n_agents = len(ability)
        self._set_factors(first, second, item, responses, n_agents=n_agents, n_repeats=n_repeats, n_items=n_items)

        has_response = _can_estimate_response_variance(first, second, item, responses, n_items=n_items)
        squares, expectations = _compute_sums_of_squares(
            first, second, item, residual, responses if has_response else None, n_agents=n_agents, n_repeats=n_repeats
        )
        components, jackknife = _solve_moments(squares, expectations)
        std_error, t = _compute_jackknife_errors(jackknife)

        # variance of an ability, which the residuals lack because the abilities were subtracted
        variance = components[0] * self.agent_item_factor
        if has_response:
            variance += components[1] * self.response_factor
        variance += float(components[:-1].sum()) * self.partner_factor
        variance += components[-1] * self.residual_factor
        variance = max(variance, 0.0)
        self.pair = _estimate_pair_component(
            first, second, item, residual, n_agents=n_agents, ability_variance=variance, n_items=n_items
        )
        components[0] += variance + (0.0 if self.pair is None else self.pair.value / (K - 1))

        columns = zip(components.tolist(), std_error.tolist(), t.tolist(), strict=True)
        parts = [_make_variance_interval(*column) for column in columns]
        self.agent_item, self.residual = parts[0], parts[-1]
        self.response = parts[1] if has_response else None

    def _set_factors(
        self,
        first: Ids,
        second: Ids,
        item: Ids,
        responses: tuple[Ids, Ids],
        *,
        n_agents: int,
        n_repeats: int,
        n_items: int,
    ) -> None:
        """Set the factors by which the components enter the variance of an ability.

        An ability is the mean answer to the agent's trials, and is measured from the mean ability.

        first, second, item : int arrays (n_trials,), agents and item of each trial
        responses : int arrays (n_trials,), number of the response that the first and the second agent shows
        n_repeats : largest number of responses of an agent to an item
        """
        # weight of a trial in the abilities of its agents, float (n_agents,), and in the mean ability, float (n_trials,)
        n_trials = np.bincount(np.append(first, second), minlength=n_agents)
        has_trials = n_trials > 0
        weight = 1 / np.maximum(n_trials, 1)
        weight_in_mean = (weight[first] + weight[second]) / int(has_trials.sum())

        # cells (an agent on an item) and texts (a response to an item) of both sides, as numbers
        first_cell = first.astype(np.int64) * n_items + item
        second_cell = second.astype(np.int64) * n_items + item
        first_text = responses[0].astype(np.int64) * n_items + item
        second_text = responses[1].astype(np.int64) * n_items + item
        n_cells = n_agents * n_items
        n_texts = n_cells * n_repeats

        cell_factor, own_share = _compute_component_coefficient(
            first_cell, second_cell, n_cells, first=first, second=second, weight=weight, weight_in_mean=weight_in_mean
        )
        text_factor, own_share_of_texts = _compute_component_coefficient(
            first_text, second_text, n_texts, first=first, second=second, weight=weight, weight_in_mean=weight_in_mean
        )
        self.agent_item_factor = cell_factor * own_share
        self.partner_factor = cell_factor * (1 - own_share)
        self.response_factor = text_factor * own_share_of_texts

        # Σ (u − v)² over all trials, with u the weight of a trial in the ability and v that in the mean ability. Σ u² is
        # the weight, because an agent has 1/weight trials.
        sum_of_v = np.bincount(first, weight_in_mean, n_agents) + np.bincount(second, weight_in_mean, n_agents)
        trial_factor = weight - 2 * (weight * sum_of_v) + (weight_in_mean**2).sum()
        self.residual_factor = float(trial_factor[has_trials].mean())

        n_distinct_texts = count_distinct(np.append(first_text, second_text))
        self.showings_per_response = 2 * len(first) / n_distinct_texts


def _compute_component_coefficient(
    first_unit: Ids,
    second_unit: Ids,
    n_units: int,
    *,
    first: Ids,
    second: Ids,
    weight: Floats,
    weight_in_mean: Floats,
) -> tuple[float, float]:
    """Compute the coefficient of a variance component in the variance of an ability's distance from the mean ability.

    The component is the variance between units: agents on items, or responses to items. A trial shows two units, one of
    each agent, and an ability is the mean answer to the agent's trials. A unit thus has a weight u in an ability, and a
    weight v in the mean ability. The coefficient is Σ (u − v)² over all units.

    first_unit, second_unit : int64 arrays (n_trials,), unit of the first and of the second agent of each trial
    n_units : number of units, above all numbers in `first_unit` and `second_unit`
    first, second : int arrays (n_trials,), agents of the trial
    weight : float array (n_agents,), weight of each of its trials in an agent's ability
    weight_in_mean : float array (n_trials,), weight of each trial in the mean ability

    Returns the coefficient, and the share of the agent's own units (not those of its partners) in Σ u², both averaged over
    agents.
    """
    n_agents = len(weight)
    units = np.append(first_unit, second_unit)

    # v of each unit: (n_units,); and Σ u·v of each agent, over the two units of each of its trials
    v = np.bincount(units, np.tile(weight_in_mean, 2), n_units)
    v_of_trial = v[first_unit] + v[second_unit]
    sum_of_v = np.bincount(first, v_of_trial, n_agents) + np.bincount(second, v_of_trial, n_agents)
    sum_of_products = weight * sum_of_v

    # Σ u² over the agent's own units, with u the weight times the number of trials that show the unit
    n_showings = np.bincount(units, minlength=n_units).astype(np.float64)
    agent_of_unit = np.zeros(n_units, dtype=np.int64)
    agent_of_unit[first_unit], agent_of_unit[second_unit] = first, second
    own_squares = np.bincount(agent_of_unit, n_showings**2, n_agents) * weight**2

    # Σ u² over its partners' units, with u the weight times the number of the agent's trials that show the unit; the code
    # of an agent and such a unit is agent · n_units + unit
    code_for_first = first.astype(np.int64) * n_units + second_unit
    code_for_second = second.astype(np.int64) * n_units + first_unit
    distinct_codes, n_trials = np.unique(np.append(code_for_first, code_for_second), return_counts=True)
    agent_of_code = distinct_codes // n_units
    partner_squares = np.bincount(agent_of_code, n_trials.astype(np.float64) ** 2, n_agents) * weight**2

    # Σ (u − v)² = Σ u² − 2·Σ u·v + Σ v²
    squares = own_squares + partner_squares
    coefficient = squares - 2 * sum_of_products + (v**2).sum()
    own_share = own_squares / np.maximum(squares, 1e-300)

    has_trials = np.bincount(np.append(first, second), minlength=n_agents) > 0
    return float(coefficient[has_trials].mean()), float(own_share[has_trials].mean())


def _make_variance_interval(value: float, std_error: float, t: float) -> Part:
    """Make the interval of a variance, longer above because the error of a variance grows with it.

    The upper half is the second-order expansion of value·(exp(half/value) − 1).
    """
    half = t * std_error
    return Part(value, value - half, value + half + half**2 / (2 * max(value, half, 1e-300)))


def _can_estimate_response_variance(
    first: Ids, second: Ids, item: Ids, responses: tuple[Ids, Ids], *, n_items: int
) -> bool:
    """Return whether the trials allow an estimate of the variance between an agent's responses to one item.

    The estimate needs two things: some agents have several responses to an item, and some responses are shown in more than
    one trial.

    first, second, item : int arrays (n_trials,), agents and item of each trial
    responses : int arrays (n_trials,), numbers of the responses of the first and of the second agent; different agents
        have different numbers, which are the same on all items
    """
    # each trial shows two responses
    shown_agents = np.append(first, second).astype(np.int64)
    shown_numbers = np.append(*responses).astype(np.int64)
    items = np.append(item, item)

    # a response is identified by its number and its item
    n_pairs_of_agent_and_item = count_distinct(shown_agents * n_items + items)
    n_responses = count_distinct(shown_numbers * n_items + items)
    some_agents_have_several = n_responses > n_pairs_of_agent_and_item
    some_are_shown_again = n_responses < len(shown_numbers)
    return some_agents_have_several and some_are_shown_again


def _compute_sums_of_squares(
    first: Ids,
    second: Ids,
    item: Ids,
    residual: Floats,
    responses: tuple[Ids, Ids] | None,
    *,
    n_agents: int,
    n_repeats: int,
) -> tuple[Floats, Floats]:
    """Compute sums of squares of residuals for each item, and how their expected values depend on the variance components.

    The components are the variances between agents on an item, between an agent's responses to an item (only if `responses` is
    given), and between trials (residual), in this order. Each component has a sum of squares. For agents, the residuals of each
    agent are summed, and these sums are squared and added; for responses, those of each response. For trials, the residuals
    themselves are squared and added. The expected value of a sum of squares is a linear function of the components.

    first, second, item : int arrays (n_trials,), agents and item of each trial
    residual : float array (n_trials,), residual of each trial
    responses : pair of int arrays (n_trials,), or None; numbers of the responses that the first and the second agent show
    n_repeats : largest number of responses of an agent to an item

    Returns the sums, float array (n_items, n_components), and the coefficients of the linear functions, float array
    (n_items, n_components, n_components), by item, sum and component. To limit the time, large plans are represented by a
    random sample of their items.
    """
    n_columns = n_agents if responses is None else n_agents * n_repeats  # of the largest design matrix
    max_items = max(20, MAX_DESIGN_ENTRIES // max(n_columns**2, 1))

    squares, expectations = [], []
    for trials in _group_by_item(item, max_items):
        # centered design matrices: (n_trials_of_item, n_agents), and (n_trials_of_item, n_responses) if responses are given
        designs = [_make_centered_design(first[trials], second[trials])]
        if responses is not None:
            first_response, second_response = responses
            designs.append(_make_centered_design(first_response[trials], second_response[trials]))

        item_residual = residual[trials]
        item_squares = []
        for design in designs:
            residual_sum = design.T @ item_residual  # of each agent, or of each response
            item_squares.append((residual_sum**2).sum())
        item_squares.append((item_residual**2).sum())

        squares.append(item_squares)
        expectations.append(_compute_expectation_coefficients(designs, len(trials)))
    return np.array(squares), np.array(expectations)


def _group_by_item(item: Ids, max_items: int) -> list[Positions]:
    """Group trials by item, and return the positions of each group of two or more trials, int64 arrays.

    item : int array (n_trials,), item of each trial
    max_items : maximum number of groups; if there are more, a random sample of them is returned
    """
    order = np.argsort(item, kind="stable")
    starts = np.flatnonzero(np.diff(item[order])) + 1
    groups = [trials for trials in np.split(order, starts) if len(trials) > 1]
    n_groups = len(groups)
    if n_groups <= max_items:
        return groups

    # the seed is the number of groups, so that the same plan always has the same sample
    sample = standalone_stream(n_groups).choice(n_groups, max_items, replace=False)
    return [groups[index] for index in np.sort(sample)]


def _make_centered_design(first_unit: Ids, second_unit: Ids) -> Floats:
    """Make a centered design matrix of the trials of one item, with one column for each agent, or for each response.

    An agent or a response is called a unit; each trial shows two. An entry is 1 if the trial shows the unit of the column, and 0
    otherwise. Then the mean of each column is subtracted, because effects are measured from the mean answer on the item.

    first_unit, second_unit : int arrays (n_trials,), numbers of the two agents, or of the two responses, of each trial

    Returns a float array (n_trials, n_units), with one column for each different unit.
    """
    n_trials = len(first_unit)
    shown_units = np.append(first_unit, second_unit)
    distinct_units, column = np.unique(shown_units, return_inverse=True)
    first_column, second_column = column[:n_trials], column[n_trials:]

    trial = np.arange(n_trials)
    design = np.zeros((n_trials, len(distinct_units)))
    design[trial, first_column] += 1
    design[trial, second_column] += 1
    return np.asarray(design - design.mean(axis=0))


def _compute_expectation_coefficients(designs: list[Floats], n_trials: int) -> Floats:
    """Compute the coefficients of the variance components in the expected sums of squares of one item.

    Each component has its own sum of squares of the item's residuals. The expected value of this sum is linear in the
    components. A coefficient is the expected value if one component is 1 and the others are 0.

    designs : centered design matrices, float array (n_trials, n_units), one for each component except the residual variance

    Returns a float array (n_components, n_components): rows are sums of squares, columns are components. The residual variance
    has the last row and the last column.
    """
    # the sums of squares of the residuals e are Σ(Zᵀe)² for each design matrix Z, and Σe² for the residual variance
    n_components = len(designs) + 1
    coefficients = np.empty((n_components, n_components))
    for row, design in enumerate(designs):
        # effects u of variance 1 with the design Y give e = Yu, for which the expected value of Σ(ZᵀYu)² is Σ(ZᵀY)²
        for column, other_design in enumerate(designs):
            coefficients[row, column] = ((design.T @ other_design) ** 2).sum()

        # errors e of variance 1 give the expected value ΣZ² for Σ(Zᵀe)², and effects of variance 1 give ΣZ² for Σe²
        coefficients[row, -1] = coefficients[-1, row] = (design**2).sum()
    coefficients[-1, -1] = n_trials - 1  # errors around their mean
    return coefficients


def _solve_moments(squares: Floats, expectations: Floats) -> tuple[Floats, Floats]:
    """Estimate the variance components by setting sums of squares equal to their expectations.

    squares : float array (n_items, n_components), sums of squares of each item
    expectations : float array (n_items, n_components, n_components), coefficients of the components in the expected sums of
        squares

    Returns the estimates from all items, float array (n_components,), and the estimates without each item in turn, float
    (n_items, n_components).
    """
    all_squares, all_expectations = squares.sum(axis=0), expectations.sum(axis=0)
    components = np.linalg.lstsq(all_expectations, all_squares, rcond=None)[0]

    without_item = []
    for item_squares, item_expectations in zip(squares, expectations, strict=True):
        other_squares = all_squares - item_squares
        other_expectations = all_expectations - item_expectations
        without_item.append(np.linalg.lstsq(other_expectations, other_squares, rcond=None)[0])
    return np.asarray(components), np.stack(without_item)


def _compute_jackknife_errors(jackknife: Floats) -> tuple[Floats, Floats]:
    """Compute the jackknife standard errors of variance components, and the .975 quantiles of Student's t for 95% intervals.

    The jackknife estimates each component without each item in turn. If a few items change an estimate much more than others,
    its standard error is uncertain, and the degrees of freedom are few.

    jackknife : float array (n_items, n_components), estimates without each item

    Returns two float arrays (n_components,).
    """
    n_items = len(jackknife)
    squares = (jackknife - jackknife.mean(axis=0)) ** 2
    sum_of_squares = squares.sum(axis=0)
    std_error = np.sqrt((n_items - 1) / n_items * sum_of_squares)

    # Satterthwaite's df: a variance estimate from n items has the squared coefficient of variation (kurtosis − 1)/n. It equals
    # that of χ²/df, 2/df, for df = 2n/(kurtosis − 1).
    fourth_powers = (squares**2).sum(axis=0)
    kurtosis = n_items * fourth_powers / np.maximum(sum_of_squares**2, 1e-300)
    matched_df = 2 * n_items / np.maximum(kurtosis - 1, 1e-9)
    df = np.clip(matched_df, 4, n_items - 1)
    return std_error, np.asarray(stdtrit(df, 0.975))


def _estimate_pair_component(
    first: Ids, second: Ids, item: Ids, residual: Floats, *, n_agents: int, ability_variance: float, n_items: int
) -> Part | None:
    """Estimate the variance of the effects of pairs of agents, with a 95% interval from a jackknife over agents.

    All residuals of a pair contain the effect of the pair. The variance of the effects is therefore estimated by the mean product
    of two residuals of one pair on different items.

    first, second, item, residual : arrays (n_trials,), agents, item and residual of each trial
    ability_variance : sampling variance of an ability

    Returns None if there are fewer than 2 products per agent.
    """
    # sum and number of the residuals of each unordered pair on each item
    low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second)
    code = (low * n_agents + high) * n_items + item
    distinct_codes, index = np.unique(code, return_inverse=True)
    pair = distinct_codes // n_items
    residual_sum = np.bincount(index, residual).astype(np.float64)
    n_residuals = np.bincount(index).astype(np.float64)

    def sum_products(column: Floats) -> Floats:
        """Sum, for each pair, the products x·y = ((x + y)² − x² − y²)/2 on different items: float array (n_agents, n_agents)."""
        square_of_sum = np.bincount(pair, column, n_agents**2) ** 2
        products = (square_of_sum - np.bincount(pair, column**2, n_agents**2)) / 2
        return np.asarray(products.reshape(n_agents, n_agents))

    product_sum, n_products = sum_products(residual_sum), sum_products(n_residuals)
    if n_products.sum() < 2 * n_agents:
        return None

    jackknife = _compute_means_without_each_agent(product_sum, n_products)
    K = len(jackknife)
    std_error = float("nan")
    if K > 4:
        squares = ((jackknife - jackknife.mean()) ** 2).sum()
        std_error = float(np.sqrt((K - 1) / K * squares))

    # The estimated effects of both agents were subtracted from the residuals. This reduces the mean product by their variance,
    # and leaves 1 − 2/(K − 2) of the pair effect, but at least 1/3.
    mean_product = float(product_sum.sum() / n_products.sum())
    pair_share = 1 - 2 / max(K - 2, 3)
    value = (mean_product + 2 * ability_variance) / pair_share
    df = max((K - 1) / 2, 1)  # a pair has two agents
    return _make_variance_interval(value, std_error, float(stdtrit(df, 0.975)))


def _compute_means_without_each_agent(product_sum: Floats, n_products: Floats) -> Floats:
    """Compute the mean product of residuals without the pairs of one agent, for each agent in turn (jackknife).

    product_sum, n_products : float arrays (n_agents, n_agents), sum and number of the products of each pair of agents i < k in
        the entry (i, k); all other entries are 0

    Returns a float array (n_values,). An agent has no value if no product is left without its pairs.
    """
    sum_of_agent = product_sum.sum(axis=0) + product_sum.sum(axis=1)
    n_of_agent = n_products.sum(axis=0) + n_products.sum(axis=1)
    remaining_sum = product_sum.sum() - sum_of_agent
    n_remaining = n_products.sum() - n_of_agent
    has_products = n_remaining > 0
    return np.asarray(remaining_sum[has_products] / n_remaining[has_products])
