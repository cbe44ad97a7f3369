"""Define the commands `calibrate`, which tests judges, and `stress`, which tests whether a ranking can be gamed.

Both send requests whose answers a later run on the same pool can reuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli import options, output, progress, run_options
from youden.project_store import usual_store
from youden.text.printable import redact_location
from youden.text.tables import Table, format_decimal, make_table

if TYPE_CHECKING:
    from youden.stats.base.metrics import Metric
    from youden.stats.base.proportions import Proportion
    from youden.stats.judges.transitivity import OpenPaths
    from youden.workflows.calibration import CalibratedJudge

NO_JUDGE_PASSES = 1
"""Exit code of `calibrate` if no judge passes."""


@click.command("calibrate")
@options.pool_or_config
@click.option(
    "--judge", "judges", multiple=True, help="Name of a judge in configs/judges/, or path of a .yaml file. Repeatable."
)
@click.option("--calls", type=click.IntRange(min=50), default=150, help="Number of trials per judge.")
@run_options.config_options("seed", "store", "max_cost")
@run_options.judging_options
@options.dry_run
@options.json
def calibrate_command(
    *,
    source: Path,
    judges: tuple[str, ...],
    calls: int,
    overrides: run_options.Overrides,
    make_options: run_options.OptionsFactory,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Test judges on trials whose correct answers are known.

    The argument is a POOL, or the CONFIG (.yaml) of a run, which sets pool, judge, design and seed. Each judge answers --calls
    random paired and independent trials of the plan of that run, and `youden run` reuses these answers. Some trials are repeated,
    in the same and in the opposite order. In some trials, the length of the texts suggests the wrong answer. Finally, responses
    are compared with themselves, with a near-copy and with a template without content. A third response is added to some pairs.

    For each judge, the result contains TPR, FPR and Youden's J with intervals, and how often its answer changes with the order
    or on repetition. It also contains the missing answers, the latency and the cost. Each judge is accepted or rejected by a
    stated rule, and the cheapest accepted judge is named. A judge with a higher J is not always better: a judge that misses
    contradictions answers yes more often. The result is also stored in calibrations.json next to the folder of the run,
    unless that file has a more precise result of the same judge and pool.

    The result also shows whether "same source" is an equivalence relation: reflexive (yes to identical text), symmetric (the
    answer does not change with the order) and transitive (no open path: yes to a and b and to b and c, but no to a and c).

    --max-cost limits the total cost of all judges.

    Exit codes: 0 a judge passes; 1 no judge passes, or the cost cap was reached; 2 invalid input; 130 interrupted. Run the same
    command again to resume.
    """
    from youden.pipeline.precision import format_forecast
    from youden.workflows.calibration import (
        calibrate,
        describe_calibration,
        describe_trials,
        plan_calibration,
        planned_to_json,
        to_json,
    )

    calibration = plan_calibration(source, judges=judges, calls=calls, changes=overrides, usual_store=usual_store())
    output.print_note(f"calibrate: {describe_trials(calibration)}")
    for experiment in calibration.experiments:
        output.print_connections(experiment.judge)
        output.print_note(f"calibrate: {output.format_cost(experiment.cost, experiment.judge.name)}")
    for line in format_forecast(calibration.expected):
        output.print_note(f"the run: {line}")
    results = progress.run_with_progress(
        planned_to_json(calibration),
        lambda bar: calibrate(calibration, make_options(progress=bar)),
        dry_run=dry_run,
        as_json=as_json,
    )
    if results is None:
        return 0
    output.print_result(
        as_json,
        to_json(calibration, results),
        tables=[_make_table(results)],
        lines=describe_calibration(calibration, results),
        warnings=[f"{result.judge}: {warning}" for result in results for warning in result.warnings],
    )
    has_passing_judge = any(result.decision.outcome == "go" for result in results)
    return 0 if has_passing_judge else NO_JUDGE_PASSES


def _make_table(results: tuple[CalibratedJudge, ...]) -> Table:
    """Tabulate the measures of all judges, with one column per judge."""
    columns = [_format_measures(result) for result in results]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    heads = ["", *(result.judge for result in results)]
    return make_table("judges on trials with known answers, 95% intervals", heads, (), rows)


def _format_measures(result: CalibratedJudge) -> dict[str, str]:
    """Format the error rates, biases, durations and costs of one calibrated judge, by the name of the measure.

    "J, misleading length" is Youden's J (TPR − FPR) on trials in which the lengths of the texts suggest the wrong answer. "longer
    text first" is the yes rate with the longer text first, minus that with the shorter text first. In an open path, the judge
    answers yes to the pairs (a, b) and (b, c), but no to (a, c).
    """
    measures, costs = result.measures, result.bill
    values = {
        "TPR": _format_proportion(measures.tpr),
        "FPR": _format_proportion(measures.fpr),
        "J": _format_metric(measures.j),
        "J, misleading length": _format_metric(measures.length_j),
        "yes to identical text": _format_proportion(measures.yes["identical"]),
        "yes to a near-copy": _format_proportion(measures.yes["clone"]),
        "yes to a template": _format_proportion(measures.yes["template"]),
        "changed by order": _format_proportion(measures.order_flips),
        "changed on repetition": _format_proportion(measures.retest_flips),
        "position bias": _format_metric(measures.position_bias),
        "longer text first": _format_metric(measures.longer_first),
        "open paths a ~ b ~ c": _format_open_paths(measures.open_paths),
    }
    for trial_type, reasons in measures.missing.items():
        values[f"missing, {trial_type}"] = _format_missing(reasons)
    values["seconds, median / P95"] = (
        f"{format_decimal(costs.seconds_median, 2)} / {format_decimal(costs.seconds_p95, 2)}"
    )
    values["USD now / per 1,000 calls"] = f"{format_decimal(costs.usd, 4)} / {format_decimal(costs.usd_per_1000, 4)}"
    return values


def _format_proportion(proportion: Proportion) -> str:
    """Format a proportion with its interval and counts, such as "0.90 [0.81, 0.95] 45/50"; a dash without trials."""
    if not proportion.n:
        return "–"
    interval = f"[{proportion.low:.2f}, {proportion.high:.2f}]"
    return f"{proportion.value:.2f} {interval} {proportion.n_yes:.0f}/{proportion.n:.0f}"


def _format_metric(metric: Metric) -> str:
    """Format a value with its confidence interval; a dash if it is NaN."""
    if isnan(metric.value):
        return "–"
    return f"{metric.value:.2f} [{metric.low:.2f}, {metric.high:.2f}]"


def _format_open_paths(paths: OpenPaths) -> str:
    """Format the share of open paths with its interval, its counts, and the share under independence."""
    if not paths.n_paths:
        return "–"
    interval = f"[{paths.low:.2f}, {paths.high:.2f}]"
    return f"{paths.share:.2f} {interval} {paths.n_open}/{paths.n_paths}; independent answers {paths.expected:.2f}"


def _format_missing(reasons: Mapping[str, int]) -> str:
    """Format the number of missing answers by reason, such as "2 refused, 1 failed"; "0" if there are none."""
    return ", ".join(f"{n} {reason}" for reason, n in reasons.items()) or "0"


@click.command("stress")
@click.argument("source", metavar="POOL|RUN", type=click.Path(path_type=Path))
@click.option("--attack", "attacks", multiple=True, metavar="NAME", help="Attack to plant. Repeatable. [default: all]")
@click.option(
    "--base-agent",
    metavar="AGENT",
    help="Agent whose responses the attacks modify. [default: the agent that ranks last]",
)
@run_options.config_options(
    "max_cost",
    "store",
    judge="Name of a judge in configs/judges/, or path of a .yaml file. [default: the judge of the run, or lexical]",
    calls="Number of calls of the plan of a POOL; a RUN keeps its trials.",
    seed="Seed for trials and attacks. [default: 0]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write stress.md, stress.json and stress.svg to this folder.",
)
@run_options.judging_options
@options.dry_run
@options.json
def stress_command(
    *,
    source: Path,
    attacks: tuple[str, ...],
    base_agent: str | None,
    overrides: run_options.Overrides,
    out: Path | None,
    make_options: run_options.OptionsFactory,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Plant attacks in a pool and show how they rank.

    The pool is POOL, or the pool of a judged RUN. An attack consists of agents that try to raise their ranks: clones, a ring with
    a secret word, templates, concatenated or paraphrased responses of other agents, copied sources, words of the prompt, padding,
    instructions to the judge, and others. Without --attack, all attacks that the pool allows are planted. Some modify responses
    of --base-agent, by default the agent that ranks last, or the agent with the fewest words if a ranking would cost calls. Each
    planted agent is compared with each agent of the pool as often as two agents of the pool are compared. For a RUN, only trials
    with planted agents are new; answers to all other trials come from the store. With a judge that makes no calls, the command
    runs offline.

    The result shows the ranks of the attackers in three rankings. The first is the plain ranking. The second is the robust
    ranking: agents that agree more than any recorded group of honest agents count as one partner, and do not score each other.
    The third is the family-balanced ranking, which is shown if the pool names the families of its agents. The result also shows
    how much the ranks of other agents change, and what `youden check` and the alarms detect.

    --max-cost limits the total cost of all attacks. If they would cost more, no request is sent. Plugins can add attacks by the
    entry-point group youden.attacks. Run the same command again to resume.
    """
    from youden.types.pool import plain_fields
    from youden.workflows.planned_stress import plan_stress
    from youden.workflows.stress import NOTES, attacks_table, conclusion, describe_attacks, stress

    planned = plan_stress(source, attacks=attacks, base_agent=base_agent, usual_store=usual_store(), **overrides)
    output.print_note(f"stress: {describe_attacks(planned)}")
    output.print_connections(planned.base.judge)
    judge = planned.base.judge
    store = ""
    if judge.stores_new_answers:
        store = f"; answers are stored in {redact_location(planned.base.store)}"
    cost = output.format_usd(planned.usd_new)
    output.print_note(f"stress: {planned.n_new:,} new calls with {judge.name}, cost {cost}{store}")
    result = progress.run_with_progress(
        planned.to_json(),
        lambda bar: stress(planned, make_options(progress=bar if judge.makes_calls else None)),
        dry_run=dry_run,
        as_json=as_json,
    )
    if result is None:
        return
    if out is not None:
        from youden.report.pages.writing import write_stress

        for file in write_stress(result, out):
            output.print_note(f"stress: {file}")
    output.print_result(
        as_json,
        plain_fields(result),
        tables=[attacks_table(result)],
        lines=conclusion(result),
        notes=[NOTES],
        warnings=result.warnings,
    )
