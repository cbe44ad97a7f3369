"""Print what commands compute: notes and warnings to standard error, tables, text and JSON to standard output.

Texts that come from files or models are escaped here and nowhere else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

import click

from youden.text.printable import format_command, printable
from youden.text.sentences import format_count, format_rank_range
from youden.text.tables import Table, format_decimal

if TYPE_CHECKING:
    from rich.console import Console

    from youden.cli.options import OutputMode
    from youden.data.folder.run_folder import RunFolder
    from youden.judging.config.judge_files import JudgeConfig
    from youden.pipeline.judged_run import PlannedRun
    from youden.pipeline.precision import PrecisionForecast
    from youden.report.data.summary import Summary
    from youden.types import Finding, Plan
    from youden.types.label_facts import Disagreement, Validation
    from youden.types.planning import Cost
    from youden.types.pool import Json


def print_json(value: Mapping[str, Json]) -> None:
    """Print one JSON object to standard output."""
    click.echo(json.dumps(value, ensure_ascii=True, allow_nan=False))


def print_note(text: str) -> None:
    """Print a line to standard error."""
    click.echo(printable(text), err=True)


DEFAULT_COLUMNS = 80
"""Width of standard output if it is not a terminal."""
MAX_COLUMNS = 120
"""Maximum width of a table if standard output is not a terminal. A table is wider than `DEFAULT_COLUMNS` only if its words and
numbers would otherwise be divided."""


def make_console() -> Console:
    """Return a console for standard output. It raises BrokenPipeError if the reader of the output has closed the pipe."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            # rich would exit with code 1; `main` ends a closed pipe with code 0
            raise BrokenPipeError

    width = None if sys.stdout.isatty() else DEFAULT_COLUMNS
    return Output(file=sys.stdout, highlight=False, width=width)


def print_table(table: Table) -> None:
    """Print a table to standard output; control characters and markup in titles and cells are escaped.

    On a terminal, the table has at most its width. Elsewhere, it is as wide as its cells need, up to `MAX_COLUMNS`.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    rich_table = RichTable(
        title=escape_text(table.title), title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0)
    )
    for head, side in zip(table.heads, table.sides, strict=True):
        justify: Literal["left", "right"] = "right" if side == "r" else "left"
        rich_table.add_column(escape_text(head), justify=justify, no_wrap=side == "c", overflow="fold")
    for row in table.rows:
        rich_table.add_row(*map(escape_text, row))

    console = make_console()
    if not sys.stdout.isatty():
        width_without_breaks = console.measure(rich_table, options=console.options.update_width(MAX_COLUMNS)).maximum
        console.width = max(DEFAULT_COLUMNS, width_without_breaks)
    console.print(rich_table)


def print_warnings(warnings: Iterable[Finding | str]) -> None:
    """Print each warning to standard error, as a line that begins with `warning: `."""
    for warning in warnings:
        print_note(f"warning: {warning}")


def print_result(
    as_json: bool,
    result: Mapping[str, Json],
    *,
    answer: Iterable[str] = (),
    tables: Iterable[Table] = (),
    lines: Iterable[str] = (),
    notes: Iterable[str] = (),
    warnings: Iterable[Finding | str] = (),
) -> None:
    """Print the result of a command, either as JSON or as text. Warnings are printed first, in both formats.

    JSON and text are printed to standard output, warnings and `notes` to standard error.

    Parameters
    ----------
    as_json : bool
        Whether to print `result` as JSON. If False, the text is printed: `answer`, `tables`, `lines` and `notes`, in this
        order.
    result : mapping of str to object
        Result as JSON.
    answer : iterable of str, default ()
        Sentences before the tables that answer the question of the command.
    tables : iterable of Table, default ()
        Tables of the result.
    lines : iterable of str, default ()
        Sentences after the tables.
    notes : iterable of str, default ()
        Lines that are not part of the result, for example its signature, which identifies settings and inputs. They are not
        printed with JSON.
    warnings : iterable of Finding or str, default ()
        Warnings, each printed as a line that begins with "warning: ".
    """
    print_warnings(warnings)
    if as_json:
        print_json(result)
    else:
        print_text(answer=answer, tables=tables, lines=lines, notes=notes)


def print_text(
    *,
    answer: Iterable[str] = (),
    tables: Iterable[Table] = (),
    lines: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> None:
    """Print the result of a command as text: sentences, tables and more sentences to standard output, notes to standard error.

    Control characters and line breaks in sentences are escaped, so that each sentence is printed as one line.

    Parameters
    ----------
    answer : iterable of str, default ()
        Sentences before the tables.
    tables : iterable of Table, default ()
        Tables of the result.
    lines : iterable of str, default ()
        Sentences after the tables.
    notes : iterable of str, default ()
        Lines that are not part of the result; printed to standard error.
    """
    for line in answer:
        click.echo(printable(line))
    for table in tables:
        print_table(table)
    for line in lines:
        click.echo(printable(line))
    for line in notes:
        print_note(line)


def escape_text(text: str | None) -> str:
    """Return a text without rich markup and control characters; a dash for None."""
    from rich.markup import escape

    return "–" if text is None else escape(printable(text))


def format_minutes(minutes: float | None) -> str:
    """Format a duration in minutes, for example as "about 4 minutes"; return "unknown time" for None."""
    if minutes is None:
        return "unknown time"
    if minutes < 1:
        return "under a minute"
    if minutes < 1.5:
        return "about a minute"
    if minutes < 120:
        return f"about {minutes:,.0f} minutes"
    return f"about {minutes / 60:,.1f} hours"


def format_with_sd(mean: float, sd: float | None) -> str:
    """Format a mean with its standard deviation in parentheses, if it is known."""
    return format_decimal(mean) if sd is None else f"{format_decimal(mean)} ({format_decimal(sd)})"


def format_usd(usd: float | None, *, config_owner: str = "the judge") -> str:
    """Format an amount in USD. For None, return that the config of `config_owner`, such as "the judge", has no price."""
    if usd is None:
        return f"unknown ({config_owner}'s config has no price)"
    return f"${usd:,.2f}"


def format_cost(cost: Cost, judge_name: str) -> str:
    """Format the estimated cost of judging: tokens, USD, the sources of both, and the number of answers already stored.

    cost : estimate; its tokenizer and prices are named if they are known
    judge_name : name of the judge, for display
    """
    sources = []
    if cost.tokens_in:
        sources.append(f"tokens by {cost.tokenizer}")
    if cost.prices:
        sources.append(f"prices from {cost.prices}")

    text = (
        f"about {cost.tokens_in:,} tokens in and {cost.tokens_out:,} out, cost {format_usd(cost.usd)} with {judge_name}"
    )
    if sources:
        text += f" ({', '.join(sources)})"
    if cost.stored:
        text += f"; {cost.stored:,} of the {cost.calls:,} answers are already stored"
        if cost.usd_left is not None:
            text += f", which leaves ${cost.usd_left:,.2f} to pay"
    return text


def print_connections(judge: JudgeConfig) -> None:
    """Print where a judge sends texts, and which environment variable contains its key."""
    for line in judge.describe_connections():
        print_note(f"judge: {line}")


def print_run_plan(planned: PlannedRun, output_mode: OutputMode = "verbose") -> PrecisionForecast | None:
    """Print the hosts, the plan, the cost and the expected precision of a run, and return the expected precision.

    Everything is printed to standard error. The hosts are the servers to which the judge sends texts.

    Parameters
    ----------
    planned : PlannedRun
        Run with its plan.
    output_mode : {"short", "quiet", "verbose", "json"}, default "verbose"
        "quiet" prints only the hosts. "short" prints the hosts and a plan of one line. "verbose" and "json" print the hosts and
        a plan of several lines.

    Returns
    -------
    PrecisionForecast or None
        Expected precision of the abilities; None for a run whose judge is asked which of two responses is better.
    """
    from youden.pipeline.precision import PrecisionForecast, read_variance_components

    print_connections(planned.judge)
    if planned.plan.question == "preference":
        print_plan(planned, output_mode)
        return None

    forecast = PrecisionForecast(planned.plan, read_variance_components(planned.folder), kind=planned.judge.answers)
    print_plan(planned, output_mode, forecast=forecast, half_width=forecast.usual_half_width)
    return forecast


def print_plan(
    planned: PlannedRun,
    output_mode: OutputMode,
    *,
    plan: Plan | None = None,
    cost: Cost | None = None,
    forecast: PrecisionForecast | None = None,
    half_width: str | None = None,
) -> None:
    """Print calls, estimated tokens and USD to standard error before any request is sent.

    Parameters
    ----------
    planned : PlannedRun
        Run with its plan.
    output_mode : {"short", "quiet", "verbose", "json"}
        "quiet" prints nothing. "short" prints one line, and two more lines for the whole run if the pool is too small for the
        requested calls or has empty responses. "verbose" and "json" print all details, both as text. All modes but "quiet" also
        state trials that share a request, answers that are stored under other settings of the judge, what the run has paid, and
        a cost cap that does not pay for all calls or is partly spent.
    plan, cost : Plan, Cost, optional
        Trials that will be judged, and their cost; set both or neither. Default: plan and cost of the whole run.
    forecast : PrecisionForecast, optional
        Expected precision, which the modes "verbose" and "json" print.
    half_width : str, optional
        Expected half-width of the intervals, which the mode "short" prints.
    """
    from youden.protocol.plan import describe_shortfall, note_empty_responses

    if output_mode == "quiet":
        return
    plan = plan or planned.plan
    cost = cost or planned.cost
    is_whole_run = plan is planned.plan

    if output_mode == "short":
        lines = [_format_short_plan(planned, plan, cost, half_width)]
        if is_whole_run:
            empty_note = note_empty_responses(plan.pool) if plan.source is not None else ""
            lines += filter(None, [describe_shortfall(plan), empty_note])
    else:
        lines = _describe_plan(planned, plan, cost, forecast)
    if cost.n_shared:
        lines.append(
            f"{cost.n_shared:,} of the {cost.calls:,} trials show the same two texts as another trial and share its request. "
            "Each such request is sent and paid once"
        )
    if cost.other_settings:
        lines.append(
            f"the store has answers to {cost.n_other_settings:,} of these trials under other settings of the judge "
            f"({cost.other_settings}), which are reused only with those settings"
        )
    if not planned.paid.is_zero:
        lines.append(planned.paid.describe())
    for line in [*lines, *_describe_cap(planned, cost)]:
        print_note(f"plan: {line}")


def _describe_cap(planned: PlannedRun, cost: Cost) -> list[str]:
    """Describe how much of the cost cap of a run remains, and how many calls it pays for.

    Returns a list of one sentence. It is empty without a cap, or if no part of the cap was spent and it pays for all calls.
    """
    usd_left = planned.usd_left
    if usd_left is None:
        return []
    beginning = f"the cap of ${planned.config.max_cost:g} pays"
    if planned.paid.usd_under_cap:
        remaining = f"${format_decimal(usd_left, 4)}"
        beginning = f"{remaining} remain of the cap of ${planned.config.max_cost:g} for the run, and pay"

    n_affordable = cost.count_affordable(usd_left)
    if n_affordable is None:  # the cap pays for all calls
        is_partly_spent = planned.paid.usd_under_cap > 0 and cost.calls_left > 0
        return [f"{beginning} for all remaining calls"] if is_partly_spent else []
    if n_affordable == 0:
        return [f"{beginning} for none of the {cost.calls_left:,} calls. To continue, set a higher cap (--max-cost)"]

    will_have_answers = cost.stored + n_affordable > 0  # at the time when the run stops
    partial_fit_hint = ""
    if will_have_answers and planned.can_be_partial:
        command = format_command(["youden", "fit", str(planned.folder.path)])
        partial_fit_hint = f"; `{command}` ranks by the answers so far"
    return [
        f"{beginning} for about {n_affordable:,} of the {cost.calls_left:,} calls. The run then stops, "
        f"and the same command with a higher cap resumes it{partial_fit_hint}"
    ]


def _format_short_plan(planned: PlannedRun, plan: Plan, cost: Cost, half_width: str | None) -> str:
    """Format a plan in one line: design, calls, judge, cost and expected half-width of the intervals.

    half_width : expected half-width, as text; None to leave it out
    """
    stored = f" ({cost.stored:,} stored)" if cost.stored else ""
    usd = cost.usd if cost.usd_left is None else cost.usd_left  # without the answers that are stored already
    phrases = [
        plan.design,
        f"{cost.calls:,} calls{stored} to {planned.judge.name}",
        _format_percent_of_dense(plan),
        "price unknown" if usd is None else f"${usd:,.2f}",
    ]
    if half_width is not None:
        phrases.append(f"about ± {half_width}")
    return f"{', '.join(phrases)}{_format_holdout(plan)}{_format_store(planned)}"


def _describe_plan(planned: PlannedRun, plan: Plan, cost: Cost, forecast: PrecisionForecast | None) -> list[str]:
    """Describe a plan in several lines: calls and cost, duration, compared pairs, expected precision, and notes of the design.

    planned : run with its judge and store
    plan : trials that will be judged: all trials of the run, or a part of them
    cost : cost of these trials
    forecast : expected precision of the abilities; None if it cannot be forecast
    """
    percent = _format_percent_of_dense(plan)
    n_all_cells = plan.n_agents * plan.n_items
    size = f"{cost.cells:,} of {n_all_cells:,} cells, {cost.calls:,} calls ({percent})"
    price = format_cost(cost, planned.judge.name)
    holdout_clause = _format_holdout(plan)  # each clause begins with a semicolon, or is empty
    store_clause = _format_store(planned)
    lines = [f"{plan.design}, {size}, {price}{holdout_clause}{store_clause}"]
    if cost.pace:
        lines.append(f"{format_minutes(cost.minutes)} ({cost.pace})")

    # a plan of self-trials compares no agents: each trial compares two responses of one agent
    if not plan.is_self_plan:
        lines.append(_describe_coverage(plan))
        if forecast is not None:
            lines += _describe_precision(planned, plan, cost, forecast)
    return [*lines, *plan.notes]


def _describe_coverage(plan: Plan) -> str:
    """Describe the compared pairs of a plan, and the cells that get scores from them."""
    from youden.protocol.coverage import compute_coverage

    coverage = compute_coverage(plan)
    return (
        f"{coverage.ordered:,} ordered pairs ({coverage.unordered:,} unordered), "
        f"{coverage.independent:,} independent calls; row scores for {coverage.present_fraction:.1%} of all cells and "
        f"{coverage.train_fraction:.1%} of the cells that are not held out; {coverage.holdout:,} calls include held-out cells"
    )


def _describe_precision(planned: PlannedRun, plan: Plan, cost: Cost, forecast: PrecisionForecast) -> list[str]:
    """Describe the expected precision of a plan, one sentence per element.

    The last sentence states how many calls would give the same precision if the judge gave log-probabilities in place of
    yes-or-no answers, or the reverse. This number follows from recorded runs of other judges, so it is left out if the forecast
    uses answers of this judge. It is also left out if it cannot be forecast.

    planned : run with its judge
    plan : trials that will be judged
    cost : cost of these trials, from which the price of a call follows
    """
    from youden.pipeline.decision_costs import forecast_other_decision, format_other_decision
    from youden.pipeline.precision import OWN_ANSWERS, format_forecast

    usd_per_call = None if cost.usd is None else cost.usd / max(cost.calls, 1)
    lines = [*format_forecast(forecast, usd_per_call=usd_per_call)]
    other_forecast = forecast_other_decision(plan, planned.judge)
    uses_own_answers = forecast.source == OWN_ANSWERS
    if other_forecast is not None and not uses_own_answers:
        lines.append(format_other_decision(other_forecast, usd_per_call=usd_per_call))
    return lines


def _format_percent_of_dense(plan: Plan) -> str:
    """Format the trials of a plan in percent of the calls of the dense design, and the number of its self-trials, if any.

    The dense design compares all pairs of agents on all items. A self-trial compares two responses of one agent. Independent
    trials do not count if calls to the judge cost nothing. For a plan that consists only of self-trials, the text is
    "self-trials".
    """
    from youden.protocol.pooled_trials import has_free_calls
    from youden.types import INDEPENDENT

    if not plan.n_dense_calls:
        return "self-trials"
    n_comparisons = len(plan) - plan.n_self_trials
    free_trials = ""
    if has_free_calls(plan):
        n_independent = int((plan.trial_type == INDEPENDENT).sum())
        n_comparisons -= n_independent
        free_trials = f" without {format_count(n_independent, 'free independent call')}"
    self_trials = f" and {format_count(plan.n_self_trials, 'self-trial')}" if plan.n_self_trials else ""
    return f"{100 * n_comparisons / plan.n_dense_calls:.1f}% of dense{free_trials}{self_trials}"


def _format_store(planned: PlannedRun) -> str:
    """Return a clause that names the store of new answers; empty if the judge stores none."""
    from youden.text.printable import redact_location

    if not planned.judge.stores_new_answers:
        return ""
    return f"; answers are stored in {redact_location(planned.config.store_location)}"


def _format_holdout(plan: Plan) -> str:
    """Return a clause on held-out cells if the design holds them out by default; else an empty text."""
    if not plan.split.n_holdout or plan.request.holdout is not None:
        return ""
    return (
        f"; design '{plan.design}' holds out {plan.split.fraction:.0%} of the cells by default (set `holdout: 0` to "
        "rank by all cells)"
    )


BAR_CELLS = 22
"""Width of the bars of intervals in the table of the ranking, in characters."""
MIN_COLUMNS_FOR_BARS = 100
"""Minimum width of the terminal for bars to be drawn."""
MAX_SHORT_LINES = 3
"""Maximum number of warnings, and of changes of an extension, in the short form."""


def _print_ranking(summary: Summary) -> None:
    """Print the table of the ranking, with bars for the intervals if the terminal is wide enough."""
    has_room = make_console().width >= MIN_COLUMNS_FOR_BARS
    print_table(summary.table(bar_cells=BAR_CELLS if has_room else 0))


def _print_labels(validation: Validation) -> None:
    """Print the comparison of the ranking with each label.

    For each label: the agreement, and the agents whose rank by label differs from their rank by ability.
    """
    from youden.report.data.ranking_tables import build_labels_table

    print_table(build_labels_table(validation))
    for label in validation.labels:
        for sentence in label.summary:
            click.echo(printable(sentence))
        for disagreement in label.disagreements:
            click.echo(printable(f"  {_describe_disagreement(disagreement, label.name)}"))
    for note in validation.notes:
        print_note(f"labels: {note}")


def _describe_disagreement(disagreement: Disagreement, label_name: str) -> str:
    """Describe the ranks of an agent by label and by ability."""
    label_ranks = format_rank_range(disagreement.label_low, disagreement.label_high)
    ability_ranks = format_rank_range(disagreement.rank_low, disagreement.rank_high)
    by_label = f"{label_ranks} by '{label_name}' ({disagreement.label:.4g})"
    by_ability = f"{disagreement.rank} by ability ({disagreement.ability:.3f}, {ability_ranks})"
    suffix = "" if disagreement.explained else ", unexplained"
    return f"{disagreement.agent}: {by_label}, {by_ability}{suffix}"


def _print_short_summary(
    summary: Summary, next_steps: str, report: str, *, changes: Sequence[str], warnings: Sequence[str]
) -> None:
    """Print a judged run in the short form: recommendation, ranking, a few warnings, next steps and report.

    next_steps : what the user can do next; an empty string for nothing
    report : path of the HTML report
    changes : sentences about what an extension changed
    warnings : further warnings, which are printed before those of the run
    """
    click.echo(printable(summary.headline))
    _print_ranking(summary)
    if changes:
        click.echo(printable(" ".join(_truncate_lines(changes, MAX_SHORT_LINES))))
    if summary.labels is not None:
        _print_labels(summary.labels)

    max_warnings = MAX_SHORT_LINES - 1 if changes else MAX_SHORT_LINES  # the changes take the place of one warning
    all_warnings = [*warnings, *_list_short_warnings(summary)]
    print_warnings(_truncate_lines(all_warnings, max_warnings))
    if summary.calibration is not None:
        print_note(summary.calibration)

    # the signature begins with the version of youden, and ends with the digest of all settings and inputs
    version, *_, digest = summary.signature.split("|")
    prefix = f"{next_steps}; " if next_steps else ""
    print_note(f"{prefix}report: {report} ({version}, {digest})")


def _list_short_warnings(summary: Summary) -> list[str]:
    """List the warnings of a run in their short form, with one warning for all of the same kind."""
    from youden.report.data.warnings import merge_by_kind

    merged = merge_by_kind(summary.warnings, headline=summary.headline)
    return [warning.short for _, warning in merged]


def _truncate_lines(lines: Sequence[str], max_lines: int) -> list[str]:
    """Return the first `max_lines` lines. If there are more, the last line returned ends with their number."""
    first_lines = list(lines[:max_lines])
    n_more = len(lines) - max_lines
    if n_more > 0:
        first_lines[-1] += f" (and {n_more} more: see the report)"
    return first_lines


def print_judged_run(
    folder: RunFolder,
    summary: Summary,
    output_mode: OutputMode,
    *,
    end_reason: str = "",
    changes: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> None:
    """Print a run that was judged and fitted: its results to standard output, warnings and costs to standard error.

    Parameters
    ----------
    folder : RunFolder
        Folder of the run.
    summary : Summary
        Summary of the fitted run.
    output_mode : {"short", "quiet", "verbose", "json"}
        "quiet" prints only the ranking; "short" ranking, recommendation, at most three warnings, next step and path of the
        report; "verbose" all results; "json" all facts of the fit as JSON. Warnings, `end_reason`, what the run has paid and
        the next step are printed to standard error, also with "json".
    end_reason : str, default ""
        Reason why a search ended, printed before the next step.
    changes : sequence of str, default ()
        Changes by an extension, in sentences. Only the short form prints them, at most three, in place of one warning.
    warnings : sequence of str, default ()
        Further warnings, printed before the warnings of the fit; "quiet" prints none of them.

    Raises
    ------
    RunFolderError
        If a file of the run is missing or damaged.
    """
    from youden.pipeline.next_step import format_next_step

    if output_mode == "quiet":
        _print_ranking(summary)
        return

    usd_per_call = None if summary.calls is None else summary.calls.usd_per_call
    next_step = format_next_step(folder, summary.facts, usd_per_call=usd_per_call)
    clauses = [format_uncertain_costs(summary.warnings).removesuffix("; "), end_reason]
    if summary.calls is not None and not summary.calls.paid.is_zero:
        clauses.append(summary.calls.paid.describe())
    if next_step:
        clauses.append(f"next: {next_step}")
    next_steps = "; ".join(clause for clause in clauses if clause)

    if output_mode == "short":
        _print_short_summary(summary, next_steps, str(folder.path / "report.html"), changes=changes, warnings=warnings)
        return
    print_fitted_run(summary, as_json=output_mode == "json", warnings=warnings)
    if next_steps:
        print_note(next_steps)


def _print_warnings_of_run(summary: Summary, warnings: Iterable[str]) -> None:
    """Print warnings, those of a fit, and the stored calibration of its judge to standard error."""
    print_warnings([*warnings, *summary.warnings])
    if summary.calibration is not None:
        print_note(summary.calibration)


def format_uncertain_costs(warnings: Iterable[Finding]) -> str:
    """Describe the answers for which the provider reported no number of tokens, or an impossible one.

    The actual cost of these answers is unknown. The cost of the run contains their maximum cost.

    warnings : findings of the run, on any subject

    Returns one clause per model, each ending with "; ", so that a line can continue after it. The result is empty if all costs
    are known.
    """
    clauses = []
    for finding in warnings:
        # only findings about unknown costs have the fact "doubted", the name of the model
        model = finding.facts.get("doubted")
        n_answers, max_usd = finding.facts.get("n"), finding.facts.get("usd")
        if model is not None and isinstance(n_answers, int):
            clauses.append(
                f"{format_count(n_answers, 'answer')} of '{model}' reported no credible token usage (booked at the maximum cost, "
                f"${max_usd:.6g}); "
            )
    return "".join(clauses)


def print_fitted_run(summary: Summary, *, as_json: bool, warnings: Iterable[str] = ()) -> None:
    """Print a fitted run to standard output, and its warnings and signature to standard error.

    The text consists of the recommendation, the ranking, and sentences about the selection and the alternative rankings.

    summary : summary of the fitted run
    as_json : whether to print all facts of the fit, including the signature, as one JSON object instead of the text. Standard
        error then contains only warnings.
    warnings : further warnings, which are printed before those of the fit
    """
    if as_json:
        _print_warnings_of_run(summary, warnings)
        print_json(_summary_to_json(summary))
        return

    click.echo(printable(summary.headline))
    _print_ranking(summary)
    for sentence in (summary.selection_text, *summary.preference_sentences, *summary.standings):
        if sentence is not None:
            click.echo(printable(sentence))

    print_note(summary.target)
    if summary.labels is not None:
        _print_labels(summary.labels)
    _print_warnings_of_run(summary, warnings)
    print_note(f"signature: {summary.signature}")
    if summary.facts.partial is not None:
        print_note(f"next: finish the run: {summary.command}")


def _summary_to_json(summary: Summary) -> dict[str, Json]:
    """Return all facts of a fitted run as JSON. `partial` is None for a complete run, `labels` is None without labels."""
    return {
        "run": summary.name,
        "partial": None if summary.facts.partial is None else asdict(summary.facts.partial),
        "recommendation": asdict(summary.recommendation),
        "ranking": [agent.as_json for agent in summary.ranking],
        "fit": asdict(summary.facts),
        "calibration": summary.calibration,
        "labels": None if summary.labels is None else asdict(summary.labels),
        "signature": summary.signature,
    }
