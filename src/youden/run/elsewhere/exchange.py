"""Lets any engine answer a run: what it has still to ask goes out as files, answers come back as files.

A plan that comes in rounds goes out and comes back a round at a time: what a round asks follows from the answers before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from youden.judging.asking.endings import AnswersMissingError
from youden.judging.asking.terms import Asking
from youden.judging.exchange.exporting import Exported, Format, export_requests
from youden.judging.exchange.importing import Taken, import_answers
from youden.judging.store.answers import open_store
from youden.judging.store.asked_alone import asked_alone
from youden.nouns import Plan
from youden.run.books import books_of
from youden.run.pipeline import PlannedRun, answers_of, run_name


@dataclass(frozen=True)
class Stage:
    """How far a run's answers carry it. plan: as far as its rounds are known. round: of a plan in rounds, from 1; None for a plan
    that is known as a whole."""

    plan: Plan
    round: int | None

    def words(self) -> str:
        """What to say of a plan in rounds; empty for any other."""
        if self.round is None:
            return ""
        return (
            f"this plan comes in rounds, and this is round {self.round}: what the next one asks follows from its answers. Import "
            "them, then export again, until nothing is left"
        )


def stage_of(planned: PlannedRun) -> Stage:
    """The plan as far as the answers in the run's store carry it."""
    plan = planned.plan
    if plan.rounds is None and not planned.config.suspected:
        return Stage(plan, None)
    try:
        plan = answers_of(planned, Asking(stored_only=True), team=None).plan
    except AnswersMissingError as short:
        plan = short.plan
    n_rounds = 1 if plan.rounds is None else len(plan.rounds.starts)
    return Stage(plan, n_rounds + (plan.n_follow_ups > 0))


def export_run(
    planned: PlannedRun, stage: Stage, folder: Path, *, format: Format = "jsonl", shards: int = 1
) -> Exported:
    """Write what the run's store has no answer to into the new `folder`. Raises: as `export_requests`."""
    with open_store(planned.config.store_place) as store:
        return export_requests(
            stage.plan, planned.pool, config=planned.judge, store=store, folder=folder, format=format, shards=shards
        )


def import_run(planned: PlannedRun, paths: Sequence[Path]) -> Taken:
    """Take answers at `paths` into the run's store; those to later rounds once the answers before them are there.

    Raises: as `import_answers`; JudgeError [run-busy].
    """
    config = planned.config
    with asked_alone(config.store_place, run=run_name(planned)):
        stage, new = stage_of(planned), 0
        while True:
            with open_store(config.store_place) as store:
                taken = import_answers(
                    paths, stage.plan, planned.pool, config=planned.judge, store=store, payer=books_of(config).payer
                )
            new += taken.new
            before, stage = stage, stage_of(planned)
            if not taken.unknown or len(stage.plan) == len(before.plan):
                taken.there -= new - taken.new
                taken.new = new
                return taken
