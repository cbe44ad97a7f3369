"""Asks a whole plan through a provider's Batch API: a batch is noted in the store before anything of it leaves the
machine, and forgotten once its end is certain and its results are in the store.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from youden.errors import JudgeError, ShortRunError, YoudenError
from youden.judging.asking.calling import Unsaid, worst_price
from youden.judging.asking.endings import GIVEN_UP_AT_START, out_of_money, too_many, too_many_missing
from youden.judging.asking.progress_log import ProgressLog
from youden.judging.asking.terms import Asking, Batching
from youden.judging.call.budget import Budget
from youden.judging.call.failures import CallError, Failure, ends_the_run, fate
from youden.judging.call.reply import Usage, believed, with_usage
from youden.judging.config.reading import JudgeConfig, price
from youden.judging.outside.batch_claims import Holding
from youden.judging.outside.batch_providers import BatchProvider, BatchState, LineError
from youden.judging.outside.lines import Line, parts, request_line, results
from youden.judging.question.parsing import Reading, no_reading
from youden.judging.question.questions import Keyed, Questions
from youden.judging.store.answers import Store, payment_of
from youden.judging.store.claims import Job, Jobs, new_id
from youden.judging.store.plan_answers import Costs, Known, PlanAnswers, look_up, read_answers
from youden.nouns import Completion, Plan, Pool

NOT_FOUND = 404


def ending(error: CallError, *, config: JudgeConfig, job: Job | None, noted_in: str) -> YoudenError:
    """A step that failed for good. job: the batch it was about, None for one that was surely not begun. noted_in: the store."""
    if job is not None and job.batch is not None and error.status == NOT_FOUND:
        return JudgeError(
            f"{config.address} does not know the batch {job.batch} of {len(job.keys):,} requests ({error.reason}). "
            f"Use the account that sent it; to give its answers up: `youden store batches {noted_in} --forget {job.batch}`. Then "
            "run the same again.",
            slug="batch-unknown",
        )
    if error.kind != "retry":
        return ends_the_run(error, judge=config.name, address=config.address)
    if job is None:
        return ShortRunError(
            f"A batch of '{config.name}' could not be sent to {config.address}: {error.reason} Nothing of it was begun; run the "
            "same again.",
            slug="batch-unreachable",
        )
    worst = "" if math.isnan(job.usd) else f" and can cost up to {job.usd:.6g} USD"
    return ShortRunError(
        f"Nobody knows what became of {len(job.keys):,} requests in the batch {job.batch or job.id} at {config.address}: "
        f"{error.reason} They stay noted{worst}, and are not sent again; what was answered is kept. Run the same again to look "
        f"again, or give them up and pay for them once more: `youden store batches {noted_in} --forget {job.batch or job.id}`.",
        slug="batch-unreachable",
    )


def refused(job: Job, state: BatchState, *, judge: str) -> JudgeError:
    """A batch that was not taken as a whole."""
    reasons = "; ".join(f"{error.code}: {error.message}" for error in state.errors[:3]) or "no reason given"
    return JudgeError(
        f"The provider of '{judge}' did not take the batch {job.batch} of {len(job.keys):,} requests: {reasons}. "
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
            kind = fate(400, error.code)
            yield job.keys[error.line - 1], CallError(f"{error.code}: {error.message}", kind=kind, status=400)


def cost_of(outcome: Completion | CallError, config: JudgeConfig, *, worst: float) -> float:
    """USD of a line; `worst` where the provider does not say what was used, or did the work and lost it."""
    if isinstance(outcome, CallError):
        return 0.0 if outcome.free else worst
    told = outcome.tokens_in or outcome.tokens_out
    return price(config, outcome.tokens_in, outcome.tokens_out) if told else worst


@dataclass
class _Watched:
    """A batch that is waited for. silent_since: when something was last known of it, None where that was the last time."""

    job: Job
    n_requests: int
    shown: str = ""
    silent_since: float | None = None


class InBatches:
    """One run over a plan. Make it, `await go()`, read `columns`. `config` has the prices of a batch."""

    def __init__(
        self,
        plan: Plan,
        pool: Pool,
        *,
        provider: BatchProvider,
        config: JudgeConfig,
        questions: Questions,
        store: Store,
        jobs: Jobs,
        budget: Budget,
        asking: Asking,
        batching: Batching,
        sight: ProgressLog,
    ) -> None:
        self.found = PlanAnswers(plan)
        self.costs = Costs(len(plan))
        self._plan = plan
        self._pool = pool
        self._provider = provider
        self._config = config
        self._questions = questions
        self._store = store
        self._budget = budget
        self._asking = asking
        self._batching = batching
        self._sight = sight
        self._jobs = jobs
        self._tries: Counter[str] = Counter()
        self.unsaid = Unsaid()
        self._usd: defaultdict[str, float] = defaultdict(float)
        self._answers: dict[str, Completion] = {}
        self._early: dict[str, Failure] = {}
        self._holding = Holding(store, jobs)
        self._n_merged = 0
        self._n_missing = 0
        self._unreserved = 0.0
        self._short_of_money = False
        self._why: YoudenError | None = None

    async def go(self) -> None:
        """Send, wait and merge until every trial has an answer or a reason why not.

        Raises: JudgeError, BudgetError, TooManyMissingError once every batch under way is merged.
        """
        async with self._holding.kept(failed=self._end):
            await self._ask()
            if self._why is None:
                self._keep_failures(all_of_them=True)
        self._read_everything()
        if self._why is not None:
            raise self._why
        if self._too_many(self.found.n_missing, self.found.n_done):
            raise too_many_missing(
                self.found.n_missing,
                self.found.n_done,
                why=self.found.missing_in_words(),
                max_missing=self._asking.max_missing,
            )
        if self._short_of_money:
            raise out_of_money(self._budget, n_done=self.found.n_done, n=len(self._plan))

    async def _ask(self) -> None:
        while self._goes_on():
            self._holding.elsewhere = False
            under_way = await self._taken_up() or await self._send()
            await self._merge_all(list(under_way))
            if not under_way:
                if not self._holding.elsewhere:
                    return
                await self._batching.sleep(self._batching.poll)

    def _goes_on(self) -> bool:
        return self._why is None and not self._too_many(self._n_missing, self._n_merged)

    async def _taken_up(self) -> list[Job]:
        """Batches that an earlier process sent and left, begun where that was not reached."""
        found: list[Job] = []
        for left in self._holding.left():
            unpriced = math.isnan(left.usd) and self._budget.cap < math.inf
            job = replace(left, usd=self._budget.cap) if unpriced else left
            self._budget.take(job.usd)
            if job.batch is not None:
                self._tell(f"batch {job.batch}: {len(job.keys):,} requests were sent earlier")
                found.append(job)
            elif (begun := await self._begun(job, perhaps_before=True)) is not None:
                found.append(begun)
        return found

    async def _send(self) -> list[Job]:
        """Everything that has to be asked and that the cap allows, as batches under way."""
        self._short_of_money = False
        self._unreserved = 0.0
        sent: list[Job] = []
        for part in parts(self._lines(), self._batching.limits):
            fresh = self._holding.without_sent([line.key for line in part])
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
        seen: set[str] = set()
        for chunk in self._chunks():
            wanted = [known for known in chunk if known.key not in seen and self._is_wanted(known)]
            seen |= {known.key for known in wanted}
            mine = self._holding.take(wanted)
            for n, known in enumerate(mine):
                line = request_line(known.key, known.request, usd=worst_price(self._config, known.request))
                if not self._budget.fits(self._unreserved + line.usd):
                    self._short_of_money = True
                    self._holding.let_go([later.key for later in mine[n:]])
                    return
                self._unreserved += line.usd
                yield line

    def _is_wanted(self, known: Known) -> bool:
        return self._settled(known) is None and self._tries[known.key] < self._config.max_tries

    async def _sent(self, part: list[Line]) -> Job | None:
        """The batch of these lines, None where it could not be begun; then the run ends."""
        job = Job(math.fsum(line.usd for line in part), tuple(line.key for line in part))
        self._holding.note(job)
        self._budget.take(job.usd)
        try:
            file = await self._provider.upload(b"".join(line.text for line in part))
        except CallError as error:
            self._lose(job, error, begun=False)
            return None
        return await self._begun(self._jobs.uploaded(job, file), perhaps_before=False)

    async def _begun(self, job: Job, *, perhaps_before: bool) -> Job | None:
        self._holding.check()
        try:
            batch = await self._provider.start(job.file or "", perhaps_begun=perhaps_before)
        except CallError as error:
            self._lose(job, error, begun=not error.free)
            return None
        self._tell(f"batch {batch}: {len(job.keys):,} requests sent")
        return self._jobs.started(job, batch)

    def _lose(self, job: Job, error: CallError, *, begun: bool) -> None:
        """End the run. begun: whether it perhaps was; then it is looked for by the next run."""
        if not begun:
            self._jobs.forget(job)
            self._budget.settle(job.usd, 0.0)
        self._end(self._ending(error, job if begun else None))

    async def _merge_all(self, jobs: list[Job]) -> None:
        """Wait for every batch, and merge each as it ends. Where the run has to end, each is looked at once."""
        watched = [_Watched(job, len(job.keys)) for job in jobs]
        while watched:
            watched = [one for one in watched if not await self._is_over(one)]
            if self._why is not None:
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
        elif error.kind != "retry" or now - (watched.silent_since or now) >= self._config.fetching.outage:
            self._end(self._ending(error, watched.job))

    def _merge(self, job: Job, state: BatchState, texts: list[bytes]) -> Job | None:
        """Results into the store, and the note of the batch out of it, in one transaction. Returns what of it is still open.

        An answer stands before a failure, the first before the second. A request that failed or never ran is sent again.
        """
        came: dict[str, Completion | CallError] = {}
        for key, outcome in chain.from_iterable(results(text) for text in texts):
            if not isinstance(came.get(key), Completion) and (key not in came or isinstance(outcome, Completion)):
                came[key] = outcome
        told = {} if came else dict(turned_down(job, state.errors))
        ours = {key: came[key] for key in job.keys if key in came} | told
        ours |= dict(self._believed(ours))
        worst, left = job.usd / len(job.keys), [key for key in job.keys if key not in ours]
        rest: Job | None = None
        if state.n_lines is None or len(came) < state.n_lines:
            if not ours:
                return job
            if left:
                rest = replace(job, keys=tuple(left), usd=worst * len(left), id=new_id())
        elif state.status != "failed":
            ours |= dict.fromkeys(
                left, CallError(f"The batch {state.status} without running it.", kind="retry", free=True)
            )
        self._holding.check()
        spent = math.fsum(self._keep(key, outcome, worst=worst) for key, outcome in ours.items())
        self._holding.settle(job, rest)
        self._keep_failures()
        self._store.flush()
        if rest is not None:
            self._budget.take(rest.usd)
        self._budget.settle(job.usd, spent)
        if rest is None and state.status == "failed" and not ours:
            self._end(refused(job, state, judge=self._config.name))
        elif rest is None and state.status == "cancelled":
            self._end(cancelled(job, n_left=sum(isinstance(one, CallError) for one in ours.values())))
        return rest

    def _believed(self, came: Mapping[str, Completion | CallError]) -> Iterator[tuple[str, Completion]]:
        """(key, answer) of this plan's answers, each with what is believed of its use."""
        for _, key, request in self._questions.all(self._plan, self._pool):
            self._holding.renew()  # nothing else runs meanwhile
            outcome = came.get(key)
            if isinstance(outcome, Completion):
                usage = believed(outcome, request, answer_limit=self._config.answer_limit)
                if usage == Usage(0, 0, usage.doubt):
                    self.unsaid.count(worst_price(self._config, request), usage.doubt)
                yield key, with_usage(outcome, usage)

    def _keep(self, key: str, outcome: Completion | CallError, *, worst: float) -> float:
        """USD spent on it. `worst`: taken where the provider does not say what was used, or did the work and lost it."""
        usd = cost_of(outcome, self._config, worst=worst)
        completion = outcome if isinstance(outcome, Completion) else None
        if self._asking.books is not None and (usd or completion is not None):
            self._store.pay(self._asking.books.payer, key, payment_of(usd, completion))
        self._usd[key] += usd
        self._tries[key] += 1
        if isinstance(outcome, Completion):
            self._n_merged += 1
            self._n_missing += not self._is_answer(outcome)
            self._store.add(key, outcome, again=self._asking.retry_failed, waits=False)
            self._answers[key] = outcome
        elif outcome.kind == "stop":
            self._end(ends_the_run(outcome, judge=self._config.name, address=self._config.address))
        elif outcome.kind == "rejected" or self._tries[key] >= self._config.max_tries:
            self._n_merged += 1
            self._n_missing += 1
            self._early[key] = Failure(outcome.kind, outcome.status, outcome.reason)
        return usd

    def _keep_failures(self, *, all_of_them: bool = False) -> None:
        """Keep what failed once anything was answered: until then it may be the provider's fault, and no trial's own."""
        if self._answers or all_of_them:
            for key, failure in self._early.items():
                self._store.add(key, failure, again=self._asking.retry_failed, waits=False)
            self._early.clear()
        elif len(self._early) >= min(GIVEN_UP_AT_START, len(self._plan)):
            last = list(self._early.values())[-1]
            error = CallError(last.reason, kind=last.kind, status=last.status)
            self._end(ends_the_run(error, judge=self._config.name, address=self._config.address))

    def _chunks(self) -> Iterator[list[Known]]:
        of = self._plan, self._pool
        keys = self._asking.keys(self._questions, *of)
        return look_up(keys, self._store, ask=lambda row, key: self._questions.request_under(key, *of, row))

    def _settled(self, known: Known) -> Reading | None:
        """What is known without a batch; None where the judge has to be asked."""
        asked_again = self._asking.retry_failed and not self._tries[known.key]
        outcome = known.settled(self._is_answer, retry_failed=asked_again)
        if isinstance(outcome, Completion):
            return self._questions.read(outcome)
        if outcome is not None or known.key in self._early:
            return no_reading("failed")
        return None if self._questions.fits(known.request) else no_reading("not_asked")

    def _is_answer(self, completion: Completion) -> bool:
        return self._questions.read(completion).missing == "answered"

    def _read_everything(self) -> None:
        """What the store holds of the plan, and what it took in this pass."""

        def keys() -> Iterator[Keyed]:
            for row, key in self._asking.keys(self._questions, self._plan, self._pool):
                self.costs.fresh[row] = self._tries[key] > 0
                yield row, key

        of = self._questions, self._plan, self._pool
        self.found = read_answers(*of, self._store, keys(), fresh=self.costs.fresh, advance=self._sight.advance)
        paid = {key: payment_of(usd, self._answers.get(key)) for key, usd in self._usd.items()}
        self.costs = self.costs.by_books(self.found.key, paid)
        self._sight.advance(0, usd=float(self.costs.usd.sum()))

    def _too_many(self, n_missing: int, n_done: int) -> bool:
        return too_many(n_missing, n_done, max_missing=self._asking.max_missing)

    def _end(self, why: YoudenError) -> None:
        """Send no more. The first reason stands."""
        self._why = self._why or why

    def _ending(self, error: CallError, job: Job | None) -> YoudenError:
        return ending(error, config=self._config, job=job, noted_in=self._jobs.place)

    def _tell(self, what: str) -> None:
        self._batching.say(what)
        self._sight.tell("batch", says=what)
