"""Takes the answers of any engine into the store: those to this plan, and only what is not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from youden.errors import InputError, JudgeError
from youden.judging.call.failures import CallError, Failure
from youden.judging.call.reply import believed_of, with_usage
from youden.judging.config.reading import JudgeConfig
from youden.judging.outside.answer_rows import Row, answer_files, manifest_of, rows_of
from youden.judging.outside.manifest import BYTES, Asked, all_as_bytes, asked_judges, refuse_other_plan
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import CHUNK, Served
from youden.nouns import Completion, Plan, Pool

REJECTED_AT_START = 1000
"""So many rejected requests before the first answer may be the engine's fault, and no trial's own."""

WRITTEN = 50_000
"""Answers that are written at once; an import that is cut off is run again."""

_NAMED = 3
_LONGEST = 70


@dataclass
class Taken:
    """What came of rows. new: answers that were not there; there: whose answer was, and stays; failed: failures that are kept;
    unknown: whose key is of no request of this plan, the first of them in `named`; unread: cut off, or no result; unasked:
    which say that the engine could not ask at all, and why; doubted: answers whose use of tokens cannot be."""

    rows: int = 0
    new: int = 0
    there: int = 0
    failed: int = 0
    unknown: int = 0
    unread: int = 0
    unasked: int = 0
    doubted: int = 0
    named: list[str] = field(default_factory=list)
    why: str = ""

    def words(self) -> Iterator[str]:
        """All that is worth saying, in sentences."""
        yield (
            f"{self.rows:,} rows read: {self.new:,} answers taken, {self.there:,} were there already and stay, "
            f"{self.failed:,} failures"
        )
        if self.unknown:
            names = f"{', '.join(self.named)}{' …' if self.unknown > len(self.named) else ''}"
            yield f"{self.unknown:,} rows refused: their keys are of no request of this plan ({names})"
        if self.unread:
            yield f"{self.unread:,} rows cannot be read: cut off, or no result"
        if self.unasked:
            yield f"{self.unasked:,} rows say that the engine could not ask, and are left out; the first: {self.why}"
        if self.doubted:
            yield f"{self.doubted:,} answers say they used tokens as cannot be; their use is taken as unknown"


def import_answers(
    paths: Sequence[Path], plan: Plan, pool: Pool, *, config: JudgeConfig, store: Store, payer: str
) -> Taken:
    """Take the answers at `paths` to what `config`, or each judge of a jury, is asked by `plan`.

    An answer that `store` holds stays. What was spent on new ones is noted as unknown under `payer`.

    Raises: InputError [export-no-calls], [import-no-file], [export-unreadable], [export-version], [export-other-plan] before
    anything is written; [import-unreadable], [import-columns] with what was read before kept; [import-nothing],
    [import-other-plan] where nothing is of this plan; JudgeError [import-rejected].
    """
    files = answer_files(paths)
    said = dict(found for path in files if (found := manifest_of(path)) is not None)
    n_own = len(plan) - plan.n_follow_ups
    lengths = {one.trials for one in said.values() if one.trials <= n_own}
    members = asked_judges(config)
    taking = _Taking([Asked.of(one, plan, pool, lengths=lengths) for one in members], store, payer)
    for where, manifest in said.items():
        refuse_other_plan(where, manifest, [(one.config, one.digests.get(manifest.trials)) for one in taking.asked])
    for one in members:
        store.remember_judge(one.public())
    try:
        for path in files:
            for rows in rows_of(path):
                taking.take(rows)
    finally:
        taking.write()
    return taking.finish()


class _Taking:
    """One import under way."""

    def __init__(self, asked: Sequence[Asked], store: Store, payer: str) -> None:
        self.asked = asked
        self._store = store
        self._payer = payer
        self._taken = Taken()
        self._served = [Served() for _ in asked]
        self._who: set[tuple[int, str, str | None]] = set()
        self._limits = [one.config.answer_limit for one in asked]
        self._any_answer = False
        self._answers: dict[str, tuple[int, Completion]] = {}
        self._failures: dict[str, Failure] = {}
        self._early: dict[str, Failure] = {}

    def take(self, rows: Sequence[Row]) -> None:
        """Keep what may be new in these rows."""
        failures: dict[str, Failure] = {}
        for key, judge, n_bytes, outcome in self._known(rows):
            if key in self._answers:
                self._taken.there += 1
            elif isinstance(outcome, Completion):
                self._answers[key] = judge, self._believed(outcome, judge, n_bytes)
                self._any_answer = True
            elif outcome.kind == "stop":
                self._taken.unasked += 1
                self._taken.why = self._taken.why or outcome.reason
            else:
                failures[key] = Failure(outcome.kind, outcome.status, outcome.reason)
        self._fail(failures)
        if len(self._answers) + len(self._failures) >= WRITTEN:
            self.write()

    def write(self) -> None:
        """Put what is new into the store. It is looked up and written in the order of keys, so that a page of the store's tables
        is read and written once for several."""
        keys = sorted(self._answers.keys() | self._failures.keys())
        held: set[str] = set()
        for begin in range(0, len(keys), CHUNK):
            held |= self._store.answers(keys[begin : begin + CHUNK]).keys()
        answers: dict[str, Completion] = {}
        for key in keys:
            if key in self._answers and key not in held:
                judge, answers[key] = self._answers[key]
                self._serves(judge, answers[key])
        failures = {key: one for key, one in self._failures.items() if key not in held and key not in self._answers}
        self._taken.there += len(held)
        self._taken.new += len(answers)
        self._taken.failed += len(failures)
        self._store.add_all(answers, failures, payer=self._payer)
        self._answers, self._failures = {}, {}

    def finish(self) -> Taken:
        """What came of it all. Raises: InputError, JudgeError where that is nothing."""
        taken = self._taken
        if self._early:
            self._refuse_all_rejected()
        for asked, served in zip(self.asked, self._served, strict=True):
            self._store.remember_served(asked.config.public(), served.fresh())
        if taken.unknown == taken.rows - taken.unread > 0:
            raise InputError(
                f"None of the {taken.unknown:,} answers is to a request of this plan (keys {', '.join(taken.named)} …). "
                "They are of another plan, judge or prompt: name the config that was exported.",
                slug="import-other-plan",
            )
        if taken.unread == taken.rows:
            raise InputError(
                f"No answer can be read: {taken.rows:,} rows, {taken.unread:,} of them cut off or no result. Give result lines "
                "of a Batch API (custom_id, response) or Parquet (key, text).",
                slug="import-nothing",
            )
        return taken

    def _known(self, rows: Sequence[Row]) -> Iterator[tuple[str, int, int, Completion | CallError]]:
        """(key, judge, bytes of its request, outcome) of the rows that can be read and are of this plan."""
        self._taken.rows += len(rows)
        readable = [row for row in rows if row.outcome is not None]
        self._taken.unread += len(rows) - len(readable)
        keys = all_as_bytes([row.key for row in readable])
        judge, n_bytes = np.full(len(keys), -1), np.zeros(len(keys), dtype=np.int64)
        for number, asked in enumerate(self.asked):
            at = asked.find(keys)
            here = (at >= 0) & (judge < 0)
            judge[here], n_bytes[here] = number, asked.n_bytes[at[here]]
        names = keys.tobytes().hex()
        for n, (row, whose, size) in enumerate(zip(readable, judge.tolist(), n_bytes.tolist(), strict=True)):
            if whose < 0 or row.outcome is None:
                self._taken.unknown += 1
                if len(self._taken.named) < _NAMED:
                    self._taken.named.append(str(row.key)[:_LONGEST])
            else:
                yield names[2 * BYTES * n : 2 * BYTES * (n + 1)], whose, size, row.outcome

    def _believed(self, said: Completion, judge: int, n_bytes: int) -> Completion:
        asked = self.asked[judge]
        usage = believed_of(said, n_bytes=n_bytes, n_messages=asked.n_messages, answer_limit=self._limits[judge])
        self._taken.doubted += usage.doubt is not None
        return said if usage.doubt is None else with_usage(said, usage)

    def _serves(self, judge: int, said: Completion) -> None:
        if (who := (judge, said.model, said.fingerprint)) not in self._who:
            self._who.add(who)
            self._served[judge].count([(said, True)])

    def _fail(self, failures: dict[str, Failure]) -> None:
        """Keep failures; rejections wait for the first answer, for until then they may be the engine's fault."""
        held = self._store.failures(list(failures)) if failures else {}
        failures = {key: one for key, one in failures.items() if key not in held or held[key].kind != "rejected"}
        if self._any_answer:
            self._failures |= self._early | failures
            self._early = {}
            return
        self._early |= {key: one for key, one in failures.items() if one.kind == "rejected"}
        self._failures |= {key: one for key, one in failures.items() if one.kind != "rejected"}
        if len(self._early) >= REJECTED_AT_START:
            self._refuse_all_rejected()

    def _refuse_all_rejected(self) -> None:
        last = list(self._early.values())[-1]
        raise JudgeError(
            f"The engine rejected all of the first {len(self._early):,} requests and answered none; the last: {last.reason} "
            "Nothing of them is kept, for it may be no trial's own fault. Check its model and parameters, or import first what "
            "was answered.",
            slug="import-rejected",
        )
