"""`youden compare RUN RUN…`: do judges agree?"""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from youden.cli.terms import options, show
from youden.text.compared import items_compared
from youden.text.intervals import signed, with_interval
from youden.text.printable import printable

if TYPE_CHECKING:
    from youden.nouns import ScoreKind, Target
    from youden.stats.base.metrics import Metric
    from youden.study.judges.agreement import JudgesStudy
    from youden.study.judges.judge_shifts import JudgeShifts
    from youden.study.judges.judged_runs import MatchItems


MOST_SHOWN = 5


@click.command("compare")
@options.runs
@options.scores("symmetric")
@click.option(
    "--match",
    type=click.Choice(["id", "number"]),
    default="id",
    show_default=True,
    help="Which items are the same: those with one id, or with one last number in it (example-7 is task-007).",
)
@options.about
@options.family
@options.json
def compare_command(
    *,
    runs: tuple[Path, ...],
    scores: ScoreKind,
    match: MatchItems,
    target: Target | None,
    families: dict[str, str],
    as_json: bool,
) -> None:
    """Do the judges of RUNs agree on what they share?

    The paper's Table 6: agent ranking, item difficulty, curl on data and predictions, agreement per trial (raw, Cohen's κ,
    Krippendorff's α), and where they differ most. "rankings ρ" is of the two rankings as they stand; "fitted anew ρ" is of
    additive fits to what the runs share. It also says which pairs of agents each run tells apart, and whether in the same
    order; --target says what these differences speak of. Where two runs answered the same trials, it names the agents that
    the later run's judge moves beyond chance, and says whether a judge favours agents of its own family (meta.family of the
    pool's agents).
    """
    from youden.data.folder.run_folder import RunFolder
    from youden.study.judges.agreement import study_judges
    from youden.study.judges.judged_runs import read_judged, side_by_side, with_families

    judged = [read_judged(RunFolder(run)) for run in runs]
    both = side_by_side(judged, kind=scores, match=match, target=target)
    study = study_judges(with_families(both, families), kind=scores)
    signatures = [RunFolder(run).read_signature().text for run in runs]
    if as_json:
        show.print_json({"judges": study.to_json() | {"signatures": list(signatures)}})
        return
    show_judges(study)
    for name, signature in zip(study.names, signatures, strict=True):
        show.note(f"signature of {name}: {signature}")


def show_judges(study: JudgesStudy) -> None:
    """Every table of the study, then its words."""
    table = show.table(
        f"Judges on {study.n_agents} agents × "
        f"{items_compared(study.n_items, study.n_compared, by=' by every judge')}, agreement on {study.units}",
        ["judges"],
        ["rankings ρ", "fitted anew ρ", "items ρ", study.units, "same", "κ", "α", "α graded"],
    )
    for pair in study.pairings:
        figures = (pair.same, pair.kappa, pair.alpha, pair.alpha_soft)
        table.add_row(
            f"{show.safe(pair.one)} / {show.safe(pair.other)}",
            _with_interval(pair.ranking),
            _with_interval(pair.fits),
            _with_interval(pair.difficulty),
            f"{pair.n_units:,}",
            *(show.fixed(figure) for figure in figures),
        )
    show.console().print(table)
    table = show.table("Curl, median / P95", ["judge", "link"], ["data", "predictions"])
    for name, rows in study.curl.items():
        for link, row in rows.items():
            data = f"{show.fixed(row.data_median)} / {show.fixed(row.data_p95)}"
            predicted = f"{show.fixed(row.predicted_median)} / {show.fixed(row.predicted_p95)}"
            table.add_row(show.safe(name), link, data, predicted)
    show.console().print(table)
    table = show.table("Where they differ most", ["agent or item"], [show.safe(name) for name in study.names])
    for agent in study.agents:
        table.add_row(show.safe(agent.agent), *(f"place {place}" for place in agent.places))
    for item in study.items:
        table.add_row(show.safe(item.item), *(f"{show.fixed(value, 2)} SD" for value in item.difficulty))
    show.console().print(table)
    for shifts in study.shifts:
        _show_shifts(shifts)
    for line in study.words:
        click.echo(printable(line))


def _show_shifts(shifts: JudgeShifts) -> None:
    one, other = show.safe(shifts.one), show.safe(shifts.other)
    table = show.table(
        f"{other} against {one}: yes-rates off what {one} leads to expect, {shifts.n_trials:,} {shifts.units}",
        ["agents or family"],
        ["shift", "interval", "p (Holm)"],
    )
    tested = [agent for agent in shifts.agents if not isnan(agent.p_holm)]
    for agent in [agent for number, agent in enumerate(tested) if agent.moves or number < MOST_SHOWN]:
        interval = f"{signed(agent.low, agent.high)} ({shifts.level:.0%})"
        table.add_row(show.safe(agent.agent), f"{agent.shift:+.3f}", interval, show.fixed(agent.p_holm))
    for row in shifts.families:
        whose = f", that of {show.safe(' and '.join(row.judges))}" if row.judges else ""
        interval = signed(row.low, row.high) + ("" if row.low is None else f" ({row.level:.0%})")
        apart = "" if row.told_apart or row.curve_share is None else ", not told apart from a curve"
        name = f"family {show.safe(row.family)} ({row.n_agents}{whose}{apart})"
        table.add_row(name, f"{row.shift:+.3f}", interval, show.fixed(row.p_holm))
    show.console().print(table)


def _with_interval(metric: Metric | None) -> str:
    return "–" if metric is None else with_interval(metric.value, metric.low, metric.high, digits=3)
