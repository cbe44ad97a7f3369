"""Import answers that another engine gave to the requests of a plan into the store.

Files (result lines of a Batch API, or Parquet) are read in chunks of rows, in any order and any number of times. Rows
are untrusted: each passes the same checks as a reply, and its cost counts as unknown. Unreadable rows are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from youden.errors import InputError, JudgeError
from youden.judging.call.failures import CallError, Failure
from youden.judging.call.reply import check_usage
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.offline.answer_files import find_answer_files, iter_result_rows
from youden.judging.offline.exporting import KEY_BYTES, RequestTable, hashes_to_bytes, list_calling_judges
from youden.judging.offline.lines import ResultLine
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import CHUNK, AnsweringModels
from youden.text.sentences import format_count
from youden.types import Completion, Plan

MAX_INITIAL_REJECTIONS = 1000
"""Number of rejected requests before the first answer at which an import stops, because the engine may be at fault."""

ROWS_PER_WRITE = 50_000
"""Number of answers and failures that are written in one transaction. An interrupted import can be run again."""

_MAX_EXAMPLES = 3
_MAX_EXAMPLE_LENGTH = 70


@dataclass
class ImportCounts:
    """Numbers of rows that an import read, by what it did with them.

    Attributes
    ----------
    n_rows : int
        Rows read.
    n_new : int
        Answers that were added to the store.
    n_stored : int
        Rows whose request already had an answer or a rejection, which is kept.
    n_failed : int
        Failures that were added to the store.
    n_unknown : int
        Rows whose request hash is not one of this plan.
    n_unreadable : int
        Rows that are cut off or are not a result.
    n_not_sent : int
        Rows which report that the engine could not send the request.
    n_impossible_usages : int
        Answers whose token counts are not possible; they count as unknown.
    unknown_keys : list of str
        The first few of the unknown request hashes, shortened.
    not_sent_reason, failure_reason : str
        Reason of the first request that was not sent, and of one of the failures; empty if there is none.
    """

    n_rows: int = 0
    n_new: int = 0
    n_stored: int = 0
    n_failed: int = 0
    n_unknown: int = 0
    n_unreadable: int = 0
    n_not_sent: int = 0
    n_impossible_usages: int = 0
    unknown_keys: list[str] = field(default_factory=list)
    not_sent_reason: str = ""
    failure_reason: str = ""

    def iter_sentences(self) -> Iterator[str]:
        """Yield sentences that report the import to the user.

        The first sentence counts the rows that were read and the outcomes that were added. One sentence follows for each reason
        why rows were skipped, and one on impossible token counts, if there were any.
        """
        example = f", such as: {self.failure_reason}" if self.failure_reason else ""
        yield (
            f"{format_count(self.n_rows, 'row')} read: {format_count(self.n_new, 'answer')} added, {self.n_stored:,} stored "
            f"already, {format_count(self.n_failed, 'failure')}{example}"
        )
        if self.n_unknown:
            examples = ", ".join(self.unknown_keys)
            if self.n_unknown > len(self.unknown_keys):
                examples += " …"
            yield f"{format_count(self.n_unknown, 'row')} skipped: not a request of this plan ({examples})"
        if self.n_unreadable:
            yield f"{format_count(self.n_unreadable, 'row')} skipped: cut off, or not a result"
        if self.n_not_sent:
            rows = format_count(self.n_not_sent, "row")
            yield f"{rows} skipped: the engine could not send the request; the first: {self.not_sent_reason}"
        if self.n_impossible_usages:
            yield f"{format_count(self.n_impossible_usages, 'answer')} with impossible token counts, which are taken as unknown"


def import_answers(
    paths: Sequence[Path], plan: Plan, *, config: JudgeConfig, store: Store, account: str
) -> ImportCounts:
    """Import the answers in files into a store, if they answer requests of a plan.

    Answers that the store already has are kept, and of several answers to one request the first. The cost of new answers is
    booked as unknown. Rows that cannot be read, belong to other requests, or report a fatal error are only counted.

    Parameters
    ----------
    paths : sequence of Path
        Files of answers (JSON Lines or Parquet), or folders that contain them, also in subfolders.
    plan : Plan
        The plan whose requests were exported.
    config : JudgeConfig
        Judge that the requests are for; for a jury, each of its judges that makes calls.
    store : Store
        Store that gets the answers and failures.
    account : str
        Cost account of the new answers.

    Returns
    -------
    ImportCounts
        Numbers of rows by what was done with them, for example `n_rows` (read), `n_new` (answers added) and `n_failed` (failures
        added).

    Raises
    ------
    InputError
        [export-no-calls]: if the judge makes no calls. [import-no-file]: if a path does not exist, or a folder contains no
        file of answers. Nothing is written then. [import-unreadable], [import-columns]: if a file cannot be read; the answers of
        the files before it are stored. [import-nothing]: if no row is a result. [import-other-plan]: if no row belongs to this
        plan.
    JudgeError
        [import-rejected]: if the engine rejected the first 1000 requests (`MAX_INITIAL_REJECTIONS`), or all of fewer requests;
        the rejections are not stored.
    """
    files = find_answer_files(paths)
    judges = list_calling_judges(config)
    answer_import = _AnswerImport([RequestTable.from_plan(judge, plan) for judge in judges], store, account)
    for judge in judges:
        store.remember_judge(judge.public())
    try:
        for path in files:
            for rows in iter_result_rows(path):
                answer_import.add(rows)
    finally:
        answer_import.flush()
    return answer_import.finish()


class _PlanRow(NamedTuple):
    """A row of a file of results that answers a request of the plan."""

    key: str
    """Request hash, in lower case."""
    judge: int
    """Position of the judge that the request is for."""
    n_characters: int
    """Number of characters of the request."""
    outcome: Completion | CallError
    """Answer or failure."""


class _AnswerImport:
    """Collects the answers to the requests of one or several judges, and writes them to a store."""

    def __init__(self, requests: Sequence[RequestTable], store: Store, account: str) -> None:
        self._request_tables = requests
        self._store = store
        self._account = account
        self._counts = ImportCounts()
        self._answering_models = [AnsweringModels() for _ in requests]  # per judge
        self._counted_models: set[tuple[int, str, str | None]] = set()  # judge, model and fingerprint
        self._answer_limits = [table.config.answer_limit for table in requests]
        self._has_answer = False
        self._answers: dict[str, tuple[int, Completion]] = {}  # by request hash: judge and answer
        self._failures: dict[str, Failure] = {}
        self._early_rejections: dict[str, Failure] = {}

    def add(self, rows: Sequence[ResultLine]) -> None:
        """Collect the answers and failures in lines of a file, and write them to the store once `ROWS_PER_WRITE` are collected.

        Of several answers to one request, the first is kept. A failure of the kind "fatal" is only counted, because the engine
        could not send the request: its account, key or model is not valid.

        rows : lines of a file of results, each with its request hash (`key`) and its outcome, None if it is unreadable
        """
        failures: dict[str, Failure] = {}
        for row in self._iter_plan_rows(rows):
            outcome = self._get_checked_outcome(row)
            if row.key in self._answers:  # answered by an earlier row
                self._counts.n_stored += 1
            elif isinstance(outcome, Completion):
                self._answers[row.key] = row.judge, outcome
                self._has_answer = True
            elif outcome.kind == "fatal":
                self._counts.n_not_sent += 1
                self._counts.not_sent_reason = self._counts.not_sent_reason or outcome.reason
            else:
                failures[row.key] = Failure(outcome.kind, outcome.status, outcome.reason)

        self._add_failures(failures)
        if len(self._answers) + len(self._failures) >= ROWS_PER_WRITE:
            self.flush()

    def flush(self) -> None:
        """Write the collected answers and failures to the store, except for requests with a stored answer."""
        # in ascending order, so that each page of the store's tables is read and written once
        keys = sorted(self._answers.keys() | self._failures.keys())
        stored_keys = self._find_stored_keys(keys)

        new_answers: dict[str, Completion] = {}
        new_failures: dict[str, Failure] = {}
        for key in keys:
            if key in stored_keys:
                continue
            if key in self._answers:
                judge, completion = self._answers[key]
                self._count_model(judge, completion)
                new_answers[key] = completion
            else:
                new_failures[key] = self._failures[key]
                self._counts.failure_reason = self._counts.failure_reason or new_failures[key].reason

        self._counts.n_stored += len(stored_keys)
        self._counts.n_new += len(new_answers)
        self._counts.n_failed += len(new_failures)
        self._store.add_all(new_answers, new_failures, account=self._account)
        self._answers = {}
        self._failures = {}

    def _find_stored_keys(self, keys: Sequence[str]) -> set[str]:
        """Return the hashes of requests that the store has an answer to."""
        stored_keys: set[str] = set()
        for start in range(0, len(keys), CHUNK):
            stored_keys |= self._store.answers(keys[start : start + CHUNK]).keys()
        return stored_keys

    def finish(self) -> ImportCounts:
        """Check the import as a whole, and return its counts.

        The names of the models that gave the answers are written to the store. Call this method once, after all rows were added
        and written.

        Raises: JudgeError [import-rejected] if the engine rejected requests and answered none; InputError
        [import-other-plan] if no readable row answers a request of the plan; [import-nothing] if no row is readable.
        """
        has_rejections_without_answer = bool(self._early_rejections)  # `_add_failures` empties them after an answer
        if has_rejections_without_answer:
            self._raise_rejected()
        for table, answering_models in zip(self._request_tables, self._answering_models, strict=True):
            self._store.add_response_models(table.config.public(), answering_models.list_new_names())
        self._check_rows_match_plan()
        return self._counts

    def _check_rows_match_plan(self) -> None:
        """Check that at least one row of the imported files answers a request of the plan.

        Raises: InputError [import-other-plan] if no readable row belongs to the plan; [import-nothing] if no row is readable.
        """
        counts = self._counts
        n_readable = counts.n_rows - counts.n_unreadable
        if n_readable == 0:
            raise InputError(
                f"No answer can be read: got {format_count(counts.n_rows, 'row')}, each of them cut off or not a result. "
                "Pass result lines of a Batch API (custom_id, response) or Parquet (request_hash, text).",
                slug="import-nothing",
            )
        if counts.n_unknown == n_readable:
            raise InputError(
                f"None of the {counts.n_unknown:,} answers belongs to a request of this plan (keys "
                f"{', '.join(counts.unknown_keys)} …). They belong to another plan, judge or prompt. Pass the config that was "
                "exported.",
                slug="import-other-plan",
            )

    def _iter_plan_rows(self, rows: Sequence[ResultLine]) -> Iterator[_PlanRow]:
        """Yield the rows that answer a request of the plan, and count the other rows as unreadable or unknown.

        An unreadable row has no outcome. An unknown row has a request hash that is not in the plan.
        """
        keys = [row.key for row in rows if row.outcome is not None]
        outcomes = [row.outcome for row in rows if row.outcome is not None]
        self._counts.n_rows += len(rows)
        self._counts.n_unreadable += len(rows) - len(outcomes)

        hashes = hashes_to_bytes(keys)
        request_hashes = _to_lower_hexadecimal(hashes)
        judges, n_characters = self._find_requests(hashes)  # the judge is −1 if the request is not in the plan
        plan_rows = map(_PlanRow, request_hashes, judges, n_characters, outcomes)
        for key, plan_row in zip(keys, plan_rows, strict=True):
            if plan_row.judge == -1:
                self._count_unknown_row(key)
            else:
                yield plan_row

    def _find_requests(self, hashes: np.ndarray) -> tuple[list[int], list[int]]:
        """Find the judge and the number of characters of each request, given its hash.

        A request that several judges share is assigned to the first of them.

        hashes : bytes array S32, shape (n_rows,), request hashes

        Returns two lists with one element per hash: the positions of the judges, −1 if the plan does not have the request; and
        the numbers of characters.
        """
        judges = np.full(len(hashes), -1)
        n_characters = np.zeros(len(hashes), dtype=np.int64)
        for judge, table in enumerate(self._request_tables):
            positions = table.find(hashes)  # −1 if the request is not for this judge
            is_new_match = (positions >= 0) & (judges < 0)
            judges[is_new_match] = judge
            n_characters[is_new_match] = table.characters[positions[is_new_match]]
        return judges.tolist(), n_characters.tolist()

    def _count_unknown_row(self, key: object) -> None:
        """Count a row that answers no request of the plan, and keep its key as an example if there are few."""
        self._counts.n_unknown += 1
        if len(self._counts.unknown_keys) < _MAX_EXAMPLES:
            self._counts.unknown_keys.append(str(key)[:_MAX_EXAMPLE_LENGTH])

    def _get_checked_outcome(self, row: _PlanRow) -> Completion | CallError:
        """Return the outcome in a row, after a check of the length and the token counts of an answer.

        If the answer is too long, an error is returned in its place. If its token counts are not possible, they are set to 0, and
        the answer is counted in `n_impossible_usages`. A failure is returned unchanged.
        """
        if isinstance(row.outcome, CallError):
            return row.outcome
        table = self._request_tables[row.judge]
        try:
            # The number of bytes of the request is not known. It is at most four times the number of characters, and the check
            # accepts token counts that are too large by this factor.
            completion, usage_error = check_usage(
                row.outcome,
                n_bytes=row.n_characters,
                n_messages=table.n_messages,
                answer_limit=self._answer_limits[row.judge],
            )
        except CallError as error:
            return error
        if usage_error is not None:
            self._counts.n_impossible_usages += 1
        return completion

    def _count_model(self, judge: int, completion: Completion) -> None:
        """Record the model that gave an answer, once per judge, model and fingerprint."""
        model = judge, completion.model, completion.fingerprint
        if model not in self._counted_models:
            self._counted_models.add(model)
            self._answering_models[judge].count([completion], [True])

    def _add_failures(self, failures: dict[str, Failure]) -> None:
        """Add failures to those that will be stored, except for rejections that the store has already.

        A rejection is the fault of its request, but only if the engine works: an engine with a wrong setting may reject all
        requests. Until the first answer, rejections are therefore collected in `_early_rejections`, and are not stored.

        failures : failure by request hash

        Raises: JudgeError [import-rejected] if `MAX_INITIAL_REJECTIONS` requests are rejected before any is answered.
        """
        stored_failures = self._store.failures(list(failures)) if failures else {}
        stored_rejections = {key for key, failure in stored_failures.items() if failure.kind == "rejected"}
        self._counts.n_stored += len(stored_rejections)
        new_failures = {key: failure for key, failure in failures.items() if key not in stored_rejections}
        if self._has_answer:  # the engine works, so the earlier rejections count, too
            self._failures |= self._early_rejections | new_failures
            self._early_rejections = {}
            return

        for key, failure in new_failures.items():
            if failure.kind == "rejected":
                self._early_rejections[key] = failure
            else:
                self._failures[key] = failure
        if len(self._early_rejections) >= MAX_INITIAL_REJECTIONS:
            self._raise_rejected()

    def _raise_rejected(self) -> None:
        """Raise JudgeError [import-rejected] because no request was answered."""
        last_rejection = list(self._early_rejections.values())[-1]
        raise JudgeError(
            f"The engine rejected all of the first {len(self._early_rejections):,} requests and answered none; "
            f"the last reason: {last_rejection.reason} The rejections are not stored, because the engine may be at fault. "
            "Check its model and parameters, or pass a file with answers of this engine before this one in the same command.",
            slug="import-rejected",
        )


def _to_lower_hexadecimal(hashes: np.ndarray) -> list[str]:
    """Return request hashes, a bytes array S32, in lower-case hexadecimal digits, unlike the keys of some rows."""
    digits = hashes.tobytes().hex()
    n_digits = 2 * KEY_BYTES  # two digits per byte
    return [digits[start : start + n_digits] for start in range(0, len(digits), n_digits)]
