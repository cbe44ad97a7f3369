"""Commands that try a judge or a pool: calibrate, stress.

`youden calibrate POOL`: is a judge worth its calls?

`youden stress POOL|RUN`: who could game this ranking, and would anything tell?
"""

from __future__ import annotations

from collections.abc import Mapping
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
    from youden.workflows.calibration import CalibratedJudge

NONE_PASSES = 1


@click.command("calibrate")
@options.pool_or_config
@click.option(
    "--judge", "judges", multiple=True, help="A name in configs/judges/, or a path that ends in .yaml; may be repeated."
)
@click.option("--calls", type=click.IntRange(min=50), default=150, help="Trials a judge is asked.")
@run_options.of_config("seed", "store", "max_cost")
@run_options.asking
@options.dry_run
@options.json
def calibrate_command(
    *,
    source: Path,
    judges: tuple[str, ...],
    calls: int,
    said: run_options.Said,
    asking: run_options.Terms,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Try judges on trials of known truth, before the main spend.

    The truth is known by construction. POOL is a pool; a run's CONFIG (.yaml) names pool, judge, design and seed. Random
    paired and independent trials come from the plan of that run, so `youden run` finds their answers again. Further trials
    are the paired ones in the other order and once more, trials in which length speaks against the truth, and planted texts:
    a response against itself, against a clone of it, and against a template that says nothing.

    Shows TPR, FPR and Youden's J with intervals; what order and repetition change; missing answers, seconds and dollars; go or
    no-go with the rule behind it; and the cheapest judge that passes. A higher J does not make a better judge: one that overlooks
    contradictions says yes more often.

    --max-cost holds for all judges together.

    Exit codes: 0 a judge passes, 1 none does (or the cap was reached), 2 bad input, 130 interrupted. The same command resumes.
    """
    from youden.pipeline.precision import format_forecast
    from youden.workflows.calibration import (
        calibrate,
        describe_calibration,
        describe_requests,
        plan_calibration,
        planned_to_json,
        to_json,
    )

    calibration = plan_calibration(source, judges=judges, calls=calls, changes=said, usual_store=usual_store())
    output.note(f"calibrate: {describe_requests(calibration)}")
    for one in calibration.experiments:
        output.note_connections(one.judge)
        output.note(f"calibrate: {output.cost_in_words(one.cost, one.judge.name)}")
    for line in format_forecast(calibration.expected, n_agents=calibration.trials.plan.n_agents):
        output.note(f"the run: {line}")
    tried = progress.asked(
        planned_to_json(calibration),
        lambda bar: calibrate(calibration, asking(progress=bar)),
        dry_run=dry_run,
        as_json=as_json,
    )
    if tried is None:
        return 0
    output.tell(
        as_json,
        to_json(calibration, tried),
        tables=[_table(tried)],
        words=describe_calibration(calibration, tried),
        warnings=[f"{one.judge}: {warning}" for one in tried for warning in one.warnings],
    )
    return 0 if any(one.verdict.outcome == "go" for one in tried) else NONE_PASSES


def _table(tried: tuple[CalibratedJudge, ...]) -> Table:
    measures = [one.measures for one in tried]
    bills = [one.bill for one in tried]
    rows = {
        "TPR": [_share(m.tpr) for m in measures],
        "FPR": [_share(m.fpr) for m in measures],
        "J": [_interval(m.j) for m in measures],
        "J, length against it": [_interval(m.length_j) for m in measures],
        "yes to itself": [_share(m.yes["itself"]) for m in measures],
        "yes to a clone": [_share(m.yes["clone"]) for m in measures],
        "yes to a template": [_share(m.yes["template"]) for m in measures],
        "changed by order": [_share(m.changed) for m in measures],
        "changed when asked again": [_share(m.changed_again) for m in measures],
        "order beyond repetition": [_interval(m.beyond) for m in measures],
        "longer text first": [_interval(m.longer_first) for m in measures],
        **{f"missing, {arm}": [_missing(m.missing[arm]) for m in measures] for arm in measures[0].missing},
        "seconds, median / P95": [
            f"{format_decimal(bill.seconds_median, 2)} / {format_decimal(bill.seconds_p95, 2)}" for bill in bills
        ],
        "USD now / per 1,000 calls": [
            f"{format_decimal(bill.usd, 4)} / {format_decimal(bill.usd_per_1000, 4)}" for bill in bills
        ],
    }
    heads = ["", *(one.judge for one in tried)]
    title = "judges on trials of known truth, 95 % intervals"
    return make_table(title, heads, (), ([name, *cells] for name, cells in rows.items()))


def _share(share: Proportion) -> str:
    if not share.n:
        return "–"
    return f"{share.value:.2f} [{share.low:.2f}, {share.high:.2f}] {share.n_yes:.0f}/{share.n:.0f}"


def _interval(found: Metric) -> str:
    return "–" if found.value != found.value else f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _missing(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in reasons.items()) or "0"


@click.command("stress")
@click.argument("source", metavar="POOL|RUN", type=click.Path(path_type=Path))
@click.option(
    "--attack", "attacks", multiple=True, metavar="NAME", help="Only this one; may be repeated. [default: all]"
)
@click.option(
    "--attacker", metavar="AGENT", help="Whose answers attackers start from. [default: the last of the ranking]"
)
@run_options.of_config(
    "max_cost",
    "store",
    judge="A name in configs/judges/, or a path that ends in .yaml. [default: the run's, or lexical]",
    calls="Calls of a pool's own plan; a run keeps its trials.",
    seed="Draws trials and attacks. [default: 0]",
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Write stress.md, stress.json and stress.svg there."
)
@run_options.asking
@options.dry_run
@options.json
def stress_command(
    *,
    source: Path,
    attacks: tuple[str, ...],
    attacker: str | None,
    said: run_options.Said,
    out: Path | None,
    asking: run_options.Terms,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Plant attacks in a pool and see where they land.

    The pool is POOL, or that of a judged RUN. Each attack is agents that game a ranking by agreement: clones, a ring with a
    private word, templates, other agents' answers strung together or reworded, copied sources, words of the prompt, padding,
    instructions to the judge, and more. Planted agents meet everybody as often as the pool's agents meet each other. Only
    trials of theirs are asked anew; the pool's own come from the store. Without a judge that makes calls everything is
    offline.

    Shows where attackers land: in the plain ranking; in the robust one, in which agents that agree far beyond their abilities do
    not score each other; and, where agents name families, in the family-balanced one. It also shows how far other agents move,
    and what `check` and the alarms named.

    --max-cost holds for all attacks together; where they would cost more, nothing is asked. Packages add attacks by the
    entry-point group youden.attacks. The same command resumes.
    """
    from youden.types.pool import plain_fields
    from youden.workflows.planned_stress import plan_stress
    from youden.workflows.stress import NOTES, attacks_table, conclusion, describe_requests, stress

    planned = plan_stress(source, attacks=attacks, attacker=attacker, usual_store=usual_store(), **said)
    output.note(f"stress: {describe_requests(planned)}")
    output.note_connections(planned.base.judge)
    cost = output.dollars(planned.usd_new)
    store = (
        f"; answers are kept in {redact_location(planned.base.store)}" if planned.base.judge.stores_new_answers else ""
    )
    output.note(f"stress: {planned.n_new:,} calls to make with {planned.base.judge.name}, cost {cost}{store}")
    found = progress.asked(
        planned.to_json(),
        lambda bar: stress(planned, asking(progress=bar if planned.base.judge.makes_calls else None)),
        dry_run=dry_run,
        as_json=as_json,
    )
    if found is None:
        return
    if out is not None:
        from youden.report.pages.writing import write_stress

        for file in write_stress(found, out):
            output.note(f"stress: {file}")
    output.tell(
        as_json,
        plain_fields(found),
        tables=[attacks_table(found)],
        words=conclusion(found),
        notes=[NOTES],
        warnings=found.warnings,
    )
