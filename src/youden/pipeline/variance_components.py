"""Decompose the variance of a ranking by source: items, responses, calls, the judge and partners.

The effect of doubling each of them is forecast. Confidence intervals contain some of the components. The judge and the
pool of partners are reported separately, because intervals take them as given. Runs of the same plan by other judges
measure the variance between judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from youden.data.folder.run_folder import RunFolder
from youden.errors import YoudenError
from youden.pipeline.abilities import estimate_mean_abilities
from youden.pipeline.multi_judge import (
    JudgeSpread,
    is_training_answer,
    measure_judge_spread,
    measure_vote_spread,
)
from youden.protocol.self_trials import check_compares_agents
from youden.stats.trials.variance_parts import VarianceComponents
from youden.text.tables import Table, make_table
from youden.types import PAIRED, Plan, Verdicts
from youden.types.pool import Floats, Positions, count_distinct
from youden.types.results import ComponentFacts, Part, VarianceFacts

MAX_NUMBERS = 2 * 10**8
"""A fit decomposes the variance only if that processes fewer numbers than this, which takes about a tenth
of a second."""
MIN_DIFFERENCES = 10
"""Minimum number of pairs of answers from which the variance of repeated answers is estimated."""


def build_variance_table(variance: VarianceFacts) -> Table:
    """Build a table with one row per source of variance.

    Sources are, for example, the items, the calls and the judge.

    Parameters
    ----------
    variance : VarianceFacts
        Variance components of a run.

    Returns
    -------
    Table
        Standard deviation of an ability that is due to the source, with its 95% interval, and share of the source in the variance
        from which the intervals of the abilities are computed. The last column states how the width of these intervals changes if
        the sample, such as the items, is doubled: "× 0.80" means 20% narrower.
    """
    total_variance = sum(_get_variance(component) for component in variance.components if component.in_interval) or 1.0

    table_rows = [_format_component(component, total_variance) for component in variance.components]
    number_headers = ["SD in an ability", "95%", "share", "interval if doubled"]
    return make_table(f"{variance.run}: variance components of an ability", ["component"], number_headers, table_rows)


def write_variance_components(folder: RunFolder, verdicts: Verdicts, run: str) -> None:
    """Write the variance components of a fit's answers, if these are not too many, and enough to estimate them."""
    plan = verdicts.plan
    max_repeats = 1 if plan.trials.first_repeat is None else int(plan.trials.first_repeat.max(initial=1))
    if can_decompose_variance(plan, len(plan), max_repeats=max_repeats):
        with suppress(YoudenError):
            folder.write_variance_components(decompose_variance(verdicts, run))


def can_decompose_variance(plan: Plan, n_trials: int, *, max_repeats: int = 1) -> bool:
    """Return whether the trials are few enough to decompose their variance during a fit.

    max_repeats : maximum number of responses of an agent that are shown for an item
    """
    max_texts_per_item = min(plan.n_agents * max_repeats, 2 * n_trials // max(plan.n_items, 1) + 1)
    return n_trials * max_texts_per_item**2 < MAX_NUMBERS


def study_variance(folder: RunFolder, others: Sequence[RunFolder] = ()) -> VarianceFacts:
    """Decompose the variance of a judged run.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.
    others : sequence of RunFolder, default ()
        Folders of other judges' runs of the same trials, from which the variance between judges is estimated.

    Returns
    -------
    VarianceFacts

    Raises
    ------
    RunFolderError
        [run-unjudged], [run-partial]: if a run is not judged to its end; others if a file is missing or damaged.
    StatisticsError
        [variance-few]: if the run has too few agents or items.
    ConfigError
        [judges-pools]: if another run judged another pool of texts; [variance-other]: if it has too few trials in common.
    """
    result, *other_results = [read_all_verdicts(run_folder, "study variance") for run_folder in (folder, *others)]
    judges = measure_judge_spread([result, *other_results]) if others else None
    return decompose_variance(result, folder.path.resolve().name, judges)


def read_all_verdicts(folder: RunFolder, command: str) -> Verdicts:
    """Read the verdicts of a run for a command, such as "study variance", that compares agents and needs all answers.

    Raises PlanError [self-trials-only] if the run compares no agents; RunFolderError [run-preference] if it asks for preferences,
    and [run-unjudged] or [run-partial] if it is not judged to its end.
    """
    plan = folder.read_plan()
    check_compares_agents(plan, command)
    folder.check_information()
    folder.check_judged()
    return folder.read_verdicts(plan)


def decompose_variance(verdicts: Verdicts, run: str, judges: JudgeSpread | None = None) -> VarianceFacts:
    """Decompose the variance of the abilities of a run by its sources.

    The sources are the sample of items, the responses that an agent would give if it were sampled again, and the sample of
    calls (which partner an agent meets on which item). Further sources are the error of the false-positive rates, the choice of
    the judge, and the choice of the other agents of the pool. The result contains one component per source, with its variance,
    or with the command that would measure an unknown variance. Two further components are parts of the variance of the calls:
    the variance of the judge's answers if the same two texts are shown again in the same order, and in the other order. A sum
    over all components would count these two twice. The component of the rates is left out if it is 0.

    Each variance refers to an agent's distance from the average ability, and is a mean over agents.

    verdicts : answers of the run, from which the abilities are estimated
    run : name of the run, which is only stored in the result
    judges : variance between judges of the same trials. By default, it is estimated from the votes of the run's own jury, if
        the run has one.

    Returns the components (`components`), the standard errors of an agent's distance from the average (`std_error`) and of a
    difference of two agents (`difference_std_error`), and the variance between agents without these errors
    (`between_agent_variance`). The choices of the judge and of the other agents do not count as errors. Variances are in squared
    units of ability.

    Raises StatisticsError [variance-few] for fewer than 3 agents, or fewer than 5 items with several answered trials.
    """
    plan = verdicts.plan
    counts = is_training_answer(verdicts)  # which trials count for abilities
    abilities = estimate_mean_abilities(verdicts)

    # number of the response that a trial shows, if agents have several responses to an item
    first_repeat, second_repeat = plan.trials.first_repeat, plan.trials.second_repeat
    components = VarianceComponents(
        plan.first[counts],
        plan.second[counts],
        plan.item[counts],
        verdicts.answer[counts],
        ability=abilities.mean_answer,
        n_items=plan.n_items,
        first_repeat=None if first_repeat is None else first_repeat[counts],
        second_repeat=None if second_repeat is None else second_repeat[counts],
    )
    if judges is None and verdicts.votes is not None:
        judges = measure_vote_spread(plan, verdicts.votes)

    # components of the mean ability's variance, and their sum over those that the intervals contain
    n_agents = int((~np.isnan(abilities.mean_answer)).sum())
    n_items = count_distinct(plan.item[counts])
    mean_rate_variance = float(np.nan_to_num(abilities.rate_variance).mean())
    in_interval = _list_interval_components(components, verdicts, rate_variance=mean_rate_variance)
    all_components = [*in_interval, *_list_outside_components(components, judges, n_agents)]
    error_variance = sum(_get_variance(component) for component in all_components if component.in_interval)

    # variance between agents without the errors; the error of a difference is that of two independent abilities
    agent_variance = max(0.0, float(np.nanvar(abilities.ability, ddof=1)) - error_variance)
    difference_error = float(np.sqrt(2 * n_agents / (n_agents - 1) * error_variance))
    return VarianceFacts(
        run,
        n_items,
        tuple(all_components),
        float(np.sqrt(error_variance)),
        difference_error,
        agent_variance,
        _summarize_components(in_interval, error_variance, judges, n_items=n_items),
    )


def _estimate_repeat_variances(verdicts: Verdicts) -> tuple[float | None, float | None]:
    """Estimate the variance of a judge's answer to the same two texts.

    One variance is for texts in the same order, and one for texts in the other order. A variance is half the mean square of the
    differences between two answers. It is None for fewer than `MIN_DIFFERENCES` differences.
    """
    plan = verdicts.plan
    is_paired = (plan.trial_type == PAIRED) & verdicts.answered
    first_text, second_text = (text[is_paired].astype(np.int64) for text in plan.text_rows)
    text_pair = _number_text_pairs(plan.item[is_paired].astype(np.int64), first_text, second_text)
    is_swapped = first_text > second_text

    # sort the trials by their two texts, and then by the order of the texts
    order = np.lexsort((is_swapped, text_pair))
    text_pair, is_swapped = text_pair[order], is_swapped[order]
    answer = verdicts.answer[is_paired][order]

    # compare each answer with the next one
    half_square = np.diff(answer) ** 2 / 2
    has_same_texts = text_pair[1:] == text_pair[:-1]
    has_same_order = is_swapped[1:] == is_swapped[:-1]
    variance_in_same_order = _average_if_enough(half_square[has_same_texts & has_same_order])
    variance_in_other_order = _average_if_enough(half_square[has_same_texts & ~has_same_order])
    return variance_in_same_order, variance_in_other_order


def _number_text_pairs(item: Positions, first_text: Positions, second_text: Positions) -> Positions:
    """Assign a number to each pair of texts on an item, the same one in either order; return an int64 array (n_trials,)."""
    n_texts = int(max(first_text.max(initial=0), second_text.max(initial=0))) + 1
    lower = np.minimum(first_text, second_text)
    higher = np.maximum(first_text, second_text)
    return (item * n_texts + lower) * n_texts + higher


def _average_if_enough(values: Floats) -> float | None:
    """Return the mean, or None for fewer than `MIN_DIFFERENCES` values."""
    return float(values.mean()) if len(values) >= MIN_DIFFERENCES else None


def _list_interval_components(
    components: VarianceComponents, verdicts: Verdicts, *, rate_variance: float
) -> list[ComponentFacts]:
    """List the components that the intervals for items like these contain, and the judge's part of the variance of the calls.

    components : variances of a trial by source, and their factors in the variance of an ability
    rate_variance : mean variance of an ability that is due to false-positive rates
    """
    # variances of an ability by source
    items, response, residual = components.agent_item, components.response, components.residual
    item_component = items.times(components.agent_item_factor)
    response_component = response.times(components.response_factor) if response else None
    residual_component = residual.times(components.residual_factor)

    # agent × item variance of the partners that an agent was compared with
    cell_variance = max(items.value + (response.value if response else 0.0), 0.0)
    partner_variance = cell_variance * components.partner_factor

    # an estimated variance may be negative
    item_value = max(item_component.value, 0.0)
    residual_value = max(residual_component.value, 0.0)
    response_value = max(response_component.value, 0.0) if response_component else 0.0
    total = (sum([item_value, response_value, residual_value, rate_variance]) + partner_variance) or 1.0

    # twice the calls on the same items halve the residual and the partners' part
    with_twice_calls = item_value + response_value + rate_variance + (residual_value / 2 + partner_variance / 2)

    # twice the responses help only if a response was shown several times, because the number of calls stays the same
    response_repeats = min(2.0, max(1.0, components.showings_per_response))
    with_twice_responses = total - response_value + response_value / response_repeats
    response_command = ""
    response_change = None
    if response:
        response_change = _compute_width_ratio(with_twice_responses, total)
    else:
        response_command = _describe_response_measure(verdicts)

    # without several responses per item, the item variance contains the variance of the responses
    item_title = "items: agent × item interaction"
    if verdicts.plan.trials.first_repeat is None:
        item_title += ", and responses"

    call_component = Part(
        residual_value + partner_variance,
        residual.low * components.residual_factor + partner_variance,
        residual.high * components.residual_factor + partner_variance,
    )

    interval_components = [
        ComponentFacts(item_title, item_component, width_change_if_doubled=_compute_width_ratio(total / 2, total)),
        ComponentFacts(
            "responses: which one an agent gave",
            response_component,
            measure_command=response_command,
            width_change_if_doubled=response_change,
        ),
        ComponentFacts(
            "calls: partners of an agent, and answers to a comparison",
            call_component,
            width_change_if_doubled=_compute_width_ratio(with_twice_calls, total),
        ),
        *_list_judge_components(components, verdicts),
    ]
    if rate_variance > 0:
        rate_component = _without_interval(rate_variance)
        ratio = _compute_width_ratio(total - rate_variance / 2, total)
        interval_components.append(ComponentFacts(RATES, rate_component, width_change_if_doubled=ratio))
    return interval_components


RATES = "independent calls: false-positive rates"
"""Name of the component of the false-positive rates."""
PART_OF_CALLS = "of these"
"""Beginning of the names of components that are part of the calls, the component above them."""


def _list_judge_components(components: VarianceComponents, verdicts: Verdicts) -> list[ComponentFacts]:
    """List how much a judge's answers to the same two texts vary, in the same and in the other order.

    Both variance components are part of the variance of the calls. They are marked with `in_interval` False, so that a sum over
    components does not count them twice.

    components : variance components of the run, with the factor from the variance of an answer to that of an ability
    verdicts : answers of the run
    """
    same_order, other_order = _estimate_repeat_variances(verdicts)
    answer_variances = {"asked again": same_order, "asked in the other order": other_order}
    judge_components = []
    for title, answer_variance in answer_variances.items():
        name = f"{PART_OF_CALLS} the judge, {title}"
        if answer_variance is None:
            command = "`youden calibrate RUN/config.yaml` states how many answers change; here, it is part of the calls"
            component = ComponentFacts(name, None, measure_command=command, in_interval=False)
        else:
            ability_variance = _without_interval(answer_variance * components.residual_factor)
            component = ComponentFacts(name, ability_variance, in_interval=False)
        judge_components.append(component)
    return judge_components


def _without_interval(variance: float) -> Part:
    """Return a variance component whose interval is unknown, so that its bounds equal its estimate."""
    return Part(value=variance, low=variance, high=variance)


def _describe_response_measure(verdicts: Verdicts) -> str:
    """Describe how to measure the variance between an agent's responses to one item."""
    if verdicts.plan.trials.first_repeat is None:
        return "`youden extend repeats RUN POOL`, with more responses: logs with epochs, `youden generate --repeats 2`"
    return (
        f"it is part of the calls, because no response was shown twice: `youden extend calls RUN {len(verdicts.plan)}`"
    )


def _list_outside_components(
    components: VarianceComponents, judges: JudgeSpread | None, n_agents: int
) -> list[ComponentFacts]:
    """List the variances of an ability due to the choice of the judge and of the pool.

    The intervals include neither of them, because they take the judge and the pool as given.

    components : variance components of the run; `pair` is the variance of the effects of pairs of agents
    judges : variance between judges; None if it is unknown
    n_agents : number of agents with an ability
    """
    judge_title = "the judge: another one of this kind"
    if judges is None:
        command = "`youden rejudge RUN --judge OTHER`, then `youden study variance` of both runs"
        judge_component = ComponentFacts(judge_title, None, measure_command=command, in_interval=False)
    else:
        judge_variance = Part(judges.variance, judges.low, judges.high)
        judge_component = ComponentFacts(judge_title, judge_variance, in_interval=False)

    partner_title = "partners: another pool of agents"
    if components.pair is None:
        command = "more calls, so that pairs of agents meet on several items"
        partner_component = ComponentFacts(partner_title, None, measure_command=command, in_interval=False)
    else:
        partner_variance = components.pair.times(1 / max(n_agents - 2, 1))
        if np.isnan(partner_variance.low):  # too few agents for an interval
            partner_variance = _without_interval(partner_variance.value)
        partner_component = ComponentFacts(partner_title, partner_variance, in_interval=False)
    return [judge_component, partner_component]


def _compute_width_ratio(new_variance: float, variance: float) -> float:
    """Return the factor by which an interval changes if its variance changes from `variance` to `new_variance`."""
    return float(np.sqrt(new_variance / variance))


def _summarize_components(
    interval_components: Sequence[ComponentFacts], error_variance: float, judges: JudgeSpread | None, *, n_items: int
) -> str:
    """State the largest source of variance, and what would narrow the intervals.

    If the variance between judges is larger than that between agents, the sentence states that instead.

    interval_components : result of `_list_interval_components`; the first three components are items, responses and calls
    error_variance : sum of the components that the intervals include
    judges : variance between judges; None if it is unknown
    n_items : number of items of the run
    """
    if judges is not None and judges.variance > judges.agent_variance:
        return (
            f"These judges cannot rank the agents: they differ by ± {judges.variance**0.5:.3f} (SD) on an agent, more than the "
            f"agents do, ± {judges.agent_variance**0.5:.3f}."
        )

    item_component, response_component, call_component = interval_components[:3]
    rate_components = [component for component in interval_components if component.name == RATES]  # one or none
    largest = max(item_component, response_component, call_component, *rate_components, key=_get_variance)
    share = _get_variance(largest) / (error_variance or 1.0)  # 0 if all variances are 0
    if largest in rate_components:
        gain = _compute_gain_if_doubled(largest)
        return f"Mostly the false-positive rates ({share:.0%}): twice the independent calls narrow the interval by {gain:.0%}."

    call_gain = _compute_gain_if_doubled(call_component)
    if largest is call_component:
        return (
            f"Mostly too few calls ({share:.0%}): twice as many on these items narrow the interval by {call_gain:.0%}."
        )

    call_effect = f"twice the paired calls on these items narrow it by {call_gain:.0%}"
    for component in rate_components:
        call_effect += f", twice the independent calls by {_compute_gain_if_doubled(component):.0%}"
    if largest is item_component:
        n_added = 3 * n_items  # four times as many items halve the interval
        return f"Mostly the items ({share:.0%}): {n_added} more of them halve the interval; {call_effect}."
    gain = _compute_gain_if_doubled(response_component)
    return f"Mostly the responses ({share:.0%}): twice the repeats narrow the interval by {gain:.0%}; {call_effect}."


def _get_variance(component: ComponentFacts) -> float:
    """Return the variance that a component gives an ability, at least 0; 0 if it is unknown."""
    return max(component.ability_variance.value, 0.0) if component.ability_variance else 0.0


def _compute_gain_if_doubled(component: ComponentFacts) -> float:
    """Return the fraction by which an interval narrows if the number of calls, or of repeats, is doubled.

    The result is 0 if the effect is unknown.
    """
    return 1 - (component.width_change_if_doubled or 1.0)


def _format_component(component: ComponentFacts, total_variance: float) -> list[str]:
    """Format one source of variance as a row of the table of `build_variance_table`.

    Its columns are the name, the standard deviation and its interval, the share, and the change if twice as much is sampled.

    total_variance : sum of the variances that the intervals include
    """
    variance = component.ability_variance
    if variance is None:
        return [component.name, "unknown", "", "", ""]

    # an estimated variance may be negative
    low_sd, sd, high_sd = np.sqrt(np.maximum([variance.low, variance.value, variance.high], 0.0))
    interval = "" if low_sd == high_sd else f"{low_sd:.4f} … {high_sd:.4f}"
    width_change = component.width_change_if_doubled
    change_if_doubled = "" if width_change is None else f"× {width_change:.2f}"
    return [component.name, f"{sd:.4f}", interval, _format_share(component, total_variance), change_if_doubled]


def _format_share(component: ComponentFacts, total_variance: float) -> str:
    """Format the share of a source in the variance that the intervals contain.

    - A usual source has a percentage, such as "35%".
    - A source that is part of the calls has it in parentheses, such as "(12%)", because the calls already contain it.
    - Any other source that the intervals do not include has the text "not in it".
    """
    share = f"{_get_variance(component) / total_variance:.0%}"
    if component.name.startswith(PART_OF_CALLS):
        return f"({share})"
    return share if component.in_interval else "not in it"
