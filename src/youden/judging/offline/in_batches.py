"""Asks a whole plan through a provider's Batch API: a batch is noted in the store before anything of it leaves the
machine, and forgotten once its end is certain and its results are in the store.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from youden.errors import JudgeError, ShortRunError, YoudenError
from youden.judging.call.budget import Budget
from youden.judging.call.failures import CallError, ends_the_run, http_error, unless_echoed
from youden.judging.call.reply import check_usage_of
from youden.judging.config.judge_files import JudgeConfig, price
from youden.judging.offline.batch_leases import BatchLeases
from youden.judging.offline.batch_providers import NOT_FOUND, BatchProvider, BatchState, LineError
from youden.judging.offline.lines import Line, request_line, results, split_lines
from youden.judging.scheduler.calling import worst_price
from youden.judging.scheduler.options import Batching
from youden.judging.scheduler.outcomes import Outcomes
from youden.judging.store.leases import Job, new_id
from youden.judging.store.plan_answers import Call, look_up
from youden.text.sentences import counted
from youden.types import Completion


def ending(error: CallError, *, config: JudgeConfig, job: Job | None, noted_in: str) -> YoudenError:
    """A step that failed for good. job: the batch it was about, None for one that was surely not begun. noted_in: the store."""
    if job is not None and job.batch is not None and error.status == NOT_FOUND:
        return JudgeError(
            f"{config.address} does not know the batch {job.batch} of {counted(len(job.keys), 'request')} ({error.reason}). "
            f"Use the account that sent it; to give its answers up: `youden store batches {noted_in} --forget {job.batch}`. Then "
            "run the same again.",
            slug="batch-unknown",
        )
    if error.kind != "retry":
        ended = ends_the_run(error, judge=config.name, address=config.address)
        if job is None or job.batch is not None:
            return ended
        return JudgeError(
            f"{ended.message} An earlier try may have begun this batch of {counted(len(job.keys), 'request')}, "
            "so it stays noted; to give "
            f"it up and send them once more: `youden store batches {noted_in} --forget {job.id}`.",
            slug=ended.slug,
        )
    if job is None:
        return ShortRunError(
            f"A batch of '{config.name}' could not be sent to {config.address}: {error.reason} Nothing of it was begun; run the "
            "same again.",
            slug="batch-unreachable",
        )
    worst = "" if math.isnan(job.usd) else f" and can cost up to {job.usd:.6g} USD"
    return ShortRunError(
        f"Nobody knows what became of {counted(len(job.keys), 'request')} in the batch {job.batch or job.id} at "
        f"{config.address}: {error.reason} They stay noted{worst}, and are not sent again; what was answered is kept. Run the "
        "same again to look "
        f"again, or give them up and pay for them once more: `youden store batches {noted_in} --forget {job.batch or job.id}`.",
        slug="batch-unreachable",
    )


def refused(job: Job, state: BatchState, *, judge: str) -> JudgeError:
    """A batch that was not taken as a whole."""
    reasons = "; ".join(f"{error.code}: {error.message}" for error in state.errors[:3]) or "no reason given"
    return JudgeError(
        f"The provider of '{judge}' did not take the batch {job.batch} of {counted(len(job.keys), 'request')}: {reasons}. "
        "Nothing of it was asked or paid. Correct the judge's config, or wait where a limit is named, and run the same again.",
        slug="batch-refused",
    )


def cancelled(job: Job, *, n_left: int) -> ShortRunError:
    """A batch that somebody stopped. n_left: of its requests, those without an answer."""
    return ShortRunError(
        f"The batch {job.batch} was cancelled at the provider: {n_left:,} of its requests have no answer; the others are "
        "kept. Run the same again to ask for the rest.",
        slug="batch-cancelled",
    )


def turned_down(job: Job, errors: Sequence[LineError]) -> Iterator[tuple[str, CallError]]:
    """(key, error) of the lines for which the provider did not take the batch."""
    for error in errors:
        if error.line is not None and 0 < error.line <= len(job.keys):
            said = f"{error.code}: {error.message}"
            yield job.keys[error.line - 1], http_error(400, (error.code,), error.message, reason=said)


@dataclass
class _Watched:
    """A batch that is waited for. silent_since: when something was last known of it, None where that was the last time."""

    job: Job
    n_requests: int
    shown: str = ""
    silent_since: float | None = None


class InBatches:
    """Asks all of the work of `outcomes` that its store does not know. The judge's config has the prices of a batch."""

    def __init__(self, outcomes: Outcomes, *, provider: BatchProvider, budget: Budget, batching: Batching) -> None:
        self._outcomes = outcomes
        self._work, self._store, self._stop = outcomes.work, outcomes.store, outcomes.stop
        self._provider = provider
        self._config = outcomes.judge
        self._budget = budget
        self._batching = batching
        questions = self._config.questions()
        self._leases = BatchLeases(self._store, address=questions.address, model=questions.model)
        self._done = np.zeros(len(self._work), dtype=np.bool_)
        self._failed: dict[str, Call] = {}
        self._unreserved = 0.0
        self._short_of_money = False

    async def go(self) -> None:
        """Send, wait and merge until every row has an answer or a reason why not.

        Raises: JudgeError, BudgetError, TooManyMissingError once every batch under way is merged, or looked at.
        """
        async with self._leases.kept(on_failure=self._stop.stop_with):
            while not self._stop.stopped:
                self._leases.elsewhere = False
                under_way = await self._taken_up()
                if not under_way and not self._stop.stopped:
                    under_way = await self._send()
                await self._merge_all(under_way)
                if not under_way and not self._leases.elsewhere:
                    break
                if not under_way:
                    await self._batching.sleep(self._batching.poll)
            if not self._stop.stopped:
                self._outcomes.keep_failures()
        self._stop.raise_it(self._budget)
        if self._short_of_money:
            self._stop.stop(lambda: self._work.out_of_money(self._budget))
            self._stop.raise_it(self._budget)

    async def _taken_up(self) -> list[Job]:
        """Batches that an earlier process sent and left, begun where that was not reached."""
        found: list[Job] = []
        for left in self._leases.resume():
            unpriced = math.isnan(left.usd) and self._budget.cap < math.inf
            job = replace(left, usd=self._budget.cap) if unpriced else left
            self._budget.take(job.usd)
            if job.batch is not None:
                self._tell(f"batch {job.batch}: {counted(len(job.keys), 'request', 'was', 'were')} sent earlier")
                found.append(job)
            elif (begun := await self._begun(job, perhaps_before=True)) is not None:
                found.append(begun)
        return found

    async def _send(self) -> list[Job]:
        """Everything that has to be asked and that the cap allows, as batches under way."""
        self._short_of_money = False
        self._unreserved = 0.0
        sent: list[Job] = []
        limits = {"max_requests": self._batching.max_requests, "max_bytes": self._batching.max_bytes}
        for part in split_lines(self._lines(), **limits):
            fresh = self._leases.without_sent([line.key for line in part])
            lines = [line for line in part if line.key in fresh]
            self._unreserved -= math.fsum(line.usd for line in part)
            if not lines:
                continue
            job = await self._sent(lines)
            if job is None:
                break
            sent.append(job)
        return sent

    def _lines(self) -> Iterator[Line]:
        """What is to be asked, claimed, as far as the cap allows it."""
        seen: set[str] = set()
        for chunk in look_up(self._work.keys(), self._store, ask=self._work.request):
            wanted = [call for call in chunk if call.key not in seen and not self._is_done(call)]
            seen |= {call.key for call in wanted}
            mine = self._leases.acquire(wanted)
            for n, call in enumerate(mine):
                line = request_line(call.key, call.request, usd=worst_price(self._config, call.request))
                if not self._budget.fits(self._unreserved + line.usd):
                    self._short_of_money = True
                    self._leases.release([later.key for later in mine[n:]])
                    return
                self._unreserved += line.usd
                yield line

    def _is_done(self, call: Call) -> bool:
        """Whether it need not be asked any more: it came in this pass, the store has it, or it cannot be sent."""
        rows = call.rows
        if not self._done[rows[0]]:
            again = self._outcomes.retry_failed and call.key not in self._failed
            found = call.settled(self._work.is_answer, retry_failed=again)
            if found is None and self._work.fits(call.request):
                return False
            self._outcomes.found(call, found)
            self._done[rows] = True
        return True

    async def _sent(self, part: list[Line]) -> Job | None:
        """The batch of these lines, None where it could not be begun; then the run ends."""
        job = self._leases.note(math.fsum(line.usd for line in part), [line.key for line in part])
        self._budget.take(job.usd)
        try:
            file = await self._provider.upload(b"".join(line.text for line in part))
        except CallError as error:
            self._lose(job, error, begun=False)
            return None
        return await self._begun(self._leases.note_file(job, file), perhaps_before=False)

    async def _begun(self, job: Job, *, perhaps_before: bool) -> Job | None:
        self._leases.check()
        try:
            batch = await self._provider.start(job.file or "", perhaps_begun=perhaps_before)
        except CallError as error:
            self._lose(job, error, begun=not error.free)
            return None
        self._tell(f"batch {batch}: {counted(len(job.keys), 'request')} sent")
        return self._leases.note_batch(job, batch)

    def _lose(self, job: Job, error: CallError, *, begun: bool) -> None:
        """End the run. begun: whether it perhaps was; then it is looked for by the next run."""
        if not begun:
            self._leases.forget(job)
            self._budget.settle(job.usd, 0.0)
        self._end(error, job if begun else None)

    async def _merge_all(self, jobs: list[Job]) -> None:
        """Wait for every batch, and merge each as it ends. Where the run has to end, each is looked at once."""
        watched = [_Watched(job, len(job.keys)) for job in jobs]
        while watched:
            watched = [one for one in watched if not await self._is_over(one)]
            if self._stop.stopped:
                return
            if watched:
                await self._batching.sleep(self._batching.poll)

    async def _is_over(self, watched: _Watched) -> bool:
        """Whether all of a batch is merged."""
        job = watched.job
        try:
            state = await self._provider.look(job.batch or "")
            texts = [await self._provider.fetch(file) for file in state.files] if state.ended else []
        except CallError as error:
            self._hear_nothing(watched, error)
            return False
        shown = f"{state.status}, {state.n_done:,} of {watched.n_requests:,} done"
        if watched.shown != shown:
            watched.shown = shown
            self._tell(f"batch {job.batch}: {shown}")
        rest = self._merge(job, state, texts) if state.ended else job
        if rest is None:
            return True
        if rest is not job or not state.ended:
            watched.job, watched.silent_since = rest, None
        if state.ended:
            why = f"The provider says '{state.status}', and {len(rest.keys):,} results are not there."
            self._hear_nothing(watched, CallError(why, kind="retry"))
        return False

    def _hear_nothing(self, watched: _Watched, error: CallError) -> None:
        """Be patient with a provider that is away or says nothing that is known; end the run where that lasts too long."""
        now = time.monotonic()
        if error.kind == "retry" and watched.silent_since is None:
            watched.silent_since = now
            self._tell(
                f"batch {watched.job.batch}: nothing is known of it ({error.reason}); what was sent is kept there"
            )
        elif error.kind != "retry" or now - (watched.silent_since or now) >= self._config.outage:
            self._end(error, watched.job)

    def _merge(self, job: Job, state: BatchState, texts: list[bytes]) -> Job | None:
        """Results into the store, and the note of the batch out of it, in one transaction. Returns what of it is still open.

        An answer stands before a failure, the first before the second. A request that failed or never ran is sent again.
        """
        came: dict[str, Completion | CallError] = {}
        for key, outcome in chain.from_iterable(results(text) for text in texts):
            if not isinstance(came.get(key), Completion) and (key not in came or isinstance(outcome, Completion)):
                came[key] = outcome
        ours = {key: came[key] for key in job.keys if key in came}
        ours |= {} if came else dict(turned_down(job, state.errors))
        left = [key for key in job.keys if key not in ours]
        is_open = state.n_lines is None or len(came) < state.n_lines
        if is_open and not ours:
            return job
        if not is_open and state.status != "failed":
            never_ran = CallError(f"The batch {state.status} without running it.", kind="retry", free=True)
            ours |= dict.fromkeys(left, never_ran)
        settled, spent = self._keep_all(ours)
        rest = replace(job, keys=tuple(left), usd=job.usd - settled, id=new_id()) if is_open and left else None
        self._leases.settle(job, rest)
        self._store.flush()
        if rest is not None:
            self._budget.take(rest.usd)
        self._budget.settle(job.usd, spent)
        if rest is None and state.status == "failed" and not ours:
            self._stop.stop_with(refused(job, state, judge=self._config.name))
        elif rest is None and state.status == "cancelled":
            self._stop.stop_with(cancelled(job, n_left=sum(isinstance(one, CallError) for one in ours.values())))
        return rest

    def _keep_all(self, came: Mapping[str, Completion | CallError]) -> tuple[float, float]:
        """(USD that these requests could cost, USD that they did cost). Answers first: then failures are their trials' own."""
        rows: defaultdict[str, list[int]] = defaultdict(list)
        every_row = self._work.keys()
        for row, key in every_row:
            self._leases.renew()  # nothing else runs meanwhile
            if key in came:
                rows[key].append(row)
        self._leases.check()
        before = self._store.known(list(rows)) if self._outcomes.retry_failed else {}
        settled, spent = [], []
        for key in sorted(came, key=lambda one: isinstance(came[one], CallError)):
            if key in rows:
                call = self._failed.get(key) or Call(key, rows[key], before.get(key), self._work.request)
                settled.append(worst_price(self._config, call.request))
                spent.append(self._keep(call, came[key], worst=settled[-1]))
            elif isinstance(said := came[key], Completion):  # another plan asked it
                spent.append(price(self._config, said.tokens_in, said.tokens_out))
                self._outcomes.paid(key, spent[-1], said)
                self._store.add(key, said, waits=False)
        return math.fsum(settled), math.fsum(spent)

    def _keep(self, call: Call, outcome: Completion | CallError, *, worst: float) -> float:
        """USD spent on it. `worst`: taken where the provider does not say what was used, or did the work and lost it."""
        if isinstance(outcome, Completion):
            try:
                outcome, fault = check_usage_of(outcome, call.request, answer_limit=self._config.answer_limit)
            except CallError as error:
                outcome, usd = error, worst
            else:
                is_reported = bool(outcome.tokens_in or outcome.tokens_out)
                usd = price(self._config, outcome.tokens_in, outcome.tokens_out) if is_reported else worst
                if not is_reported:
                    self._budget.record_unreported(self._config.name, worst, fault)
        else:
            outcome = unless_echoed(outcome, call.request)
            usd = 0.0 if outcome.free else worst
        call.usd += usd
        self._outcomes.paid(call.key, usd, outcome if isinstance(outcome, Completion) else None)
        if isinstance(outcome, Completion):
            self._outcomes.answered(call, outcome)
            self._done[call.rows] = True
        else:
            call.attempts.n_failed += 1
            again = outcome.kind == "retry" and call.attempts.n_failed < self._config.max_tries
            self._done[call.rows] = self._outcomes.failed(call, outcome, again=again)
            self._failed[call.key] = call
        return usd

    def _end(self, error: CallError, job: Job | None) -> None:
        self._stop.stop_with(ending(error, config=self._config, job=job, noted_in=self._store.name))

    def _tell(self, what: str) -> None:
        self._batching.say(what)
        self._outcomes.log.tell("batch", says=what)
