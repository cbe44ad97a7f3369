"""Send all requests of a plan through a provider's Batch API.

A batch is recorded in the store before any of its requests is sent, and its record is deleted only when its final state
is known and its results are in the store. So an interrupted run resumes its batches, and no request is sent twice.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from youden.judging.call.budget import Budget
from youden.judging.call.failures import CallError, to_rejection_if_quoted
from youden.judging.call.reply import check_usage_for
from youden.judging.config.judge_files import call_cost
from youden.judging.offline.batch_errors import batch_cancelled_error, batch_refused_error, make_run_error
from youden.judging.offline.batch_leases import BatchLeases
from youden.judging.offline.batch_outcomes import find_outcomes
from youden.judging.offline.batch_providers import BatchProvider, BatchState
from youden.judging.offline.lines import RequestLine, make_request_line, split_lines
from youden.judging.scheduler.calling import max_call_cost
from youden.judging.scheduler.options import Batching
from youden.judging.scheduler.outcomes import Outcomes, book_cost
from youden.judging.store.batch_payers import release_unspent
from youden.judging.store.leases import Job, new_id
from youden.judging.store.plan_answers import Call, iter_call_lists
from youden.text.sentences import format_count
from youden.types import Completion


@dataclass
class _PolledBatch:
    """A batch in progress, which is polled until all of its results are stored."""

    job: Job
    """Record of the batch; once some of its results are stored, record of its requests without a result."""
    n_requests: int
    """Number of requests that were sent."""
    last_status: str = ""
    """Status that was reported last."""
    failing_since: float | None = None
    """Monotonic time since which its state is unknown; None if the last poll succeeded."""


class BatchRunner:
    """Sends the requests of all trials without a stored outcome in batches, and stores the results.

    Parameters
    ----------
    outcomes : Outcomes
        Work, judge and store. The config of the judge has the prices of batches.
    make_provider : callable
        Function without arguments that returns the provider of the batches. It is called when the provider is first
        needed, and looks up the API key.
    budget : Budget
        Cost cap of the run.
    batching : Batching
        Limits of a batch, interval of polls, and receiver of status lines.
    """

    def __init__(
        self, outcomes: Outcomes, *, make_provider: Callable[[], BatchProvider], budget: Budget, batching: Batching
    ) -> None:
        self._outcomes = outcomes
        self._work, self._store, self._stop = outcomes.work, outcomes.store, outcomes.stop
        self._make_provider = make_provider
        self._opened: BatchProvider | None = None
        self._config = outcomes.judge
        self._budget = budget
        self._batching = batching
        questions = self._config.questions()
        self._leases = BatchLeases(
            self._store, address=questions.address, model=questions.model, account=outcomes.options.account
        )
        self._done = np.zeros(len(self._work), dtype=np.bool_)  # per trial: whether it has a final outcome
        self._failed_calls: dict[str, Call] = {}  # calls that failed in this run, by request hash
        # Largest possible cost of the request lines that are made and that no batch contains yet. It counts towards the cap in
        # addition to the budget, which reserves only the costs of batches.
        self._unsent_lines_usd = 0.0
        self._is_over_cap = False

    @property
    def _provider(self) -> BatchProvider:
        """Provider of the batches, made on first use. Raises: JudgeError [judge-no-key] if its API key is missing."""
        if self._opened is None:
            self._opened = self._make_provider()
        return self._opened

    async def aclose(self) -> None:
        """Close the connection of the provider, if one was opened."""
        if self._opened is not None:
            await self._opened.aclose()

    async def run(self) -> None:
        """Send batches, wait for them and store their results until every trial has an outcome.

        Raises
        ------
        JudgeError, IncompleteRunError
            If a batch fails, or its state remains unknown.
        BudgetError
            If the cost cap does not suffice for all trials.
        TooManyMissingError
            If too many trials have no answer.
        """
        async with self._leases.hold(on_failure=self._stop.request_stop_with_error):
            needs_round = True
            while needs_round and not self._stop.is_stopped:
                needs_round = await self._run_round()
            if not self._stop.is_stopped:
                self._outcomes.store_failures()

        if self._is_over_cap:  # reported only if the run was not stopped for another reason
            self._stop.request_stop(lambda: self._work.make_budget_error(self._budget))
        self._stop.raise_if_stopped(self._budget)

    async def _run_round(self) -> bool:
        """Send batches, wait for their results, and store them. If an earlier process left batches, only wait for these.

        If only requests that other processes are sending remain, wait for one polling interval.

        Returns whether another round is needed, because some trials may have no outcome yet.
        """
        self._leases.waits_for_other_process = False
        jobs = await self._resume_batches()
        if not jobs and not self._stop.is_stopped:
            jobs = await self._send_batches()

        if jobs:
            await self._poll_until_results_stored(jobs)
        elif self._leases.waits_for_other_process:
            await self._batching.sleep(self._batching.poll)
        else:
            return False
        return True

    async def _resume_batches(self) -> list[Job]:
        """Take over the batches that an earlier process left in progress, and reserve the costs of those that this run has sent.

        A batch of another run is taken over only if it contains a request of this plan.

        Returns the records of the batches, without those that could not be started.
        """
        keys_of_other_runs = self._leases.read_keys_of_other_runs()
        row_keys = self._work.iter_row_keys() if keys_of_other_runs else ()
        needed_keys = {key for _, key in row_keys if key in keys_of_other_runs}

        jobs = [await self._resume_batch(job) for job in self._leases.resume(needed_keys)]
        return [job for job in jobs if job is not None]

    async def _resume_batch(self, recorded_job: Job) -> Job | None:
        """Take over one batch that an earlier process left in progress.

        If this run has sent the batch, its largest possible cost is reserved in the budget. The earlier process may have uploaded
        the file of requests without recording the id of the batch. In this case, the provider is asked whether the batch exists.
        If it does not exist, it is started now.

        recorded_job : record of the batch in the store; its cost is NaN if it is not known

        Returns the record with the id of the batch; None if the batch cannot be started, which ends the run.
        """
        job = recorded_job
        has_own_cap = self._leases.was_sent_by_this_run(job) and self._budget.cap < math.inf
        if math.isnan(job.usd) and has_own_cap:
            # reserve the whole cap, so that no other request is sent until the cost is known
            job = replace(job, usd=self._budget.cap)
        self._reserve(job)

        if job.batch is None:
            return await self._start_batch(job, maybe_started=True)
        self._report_message(f"batch {job.batch}: {format_count(len(job.keys), 'request', 'was', 'were')} sent earlier")
        return job

    async def _send_batches(self) -> list[Job]:
        """Send the requests that still need an outcome in one or more batches, as many as the cost cap allows.

        If a batch cannot be started, the run ends, and no further batch is sent.

        Returns the stored records of the batches that were started.
        """
        self._is_over_cap = False
        self._unsent_lines_usd = 0.0
        jobs: list[Job] = []
        batches = split_lines(
            self._iter_lines(), max_requests=self._batching.max_requests, max_bytes=self._batching.max_bytes
        )
        for batch_lines in batches:
            unsent_keys = self._leases.release_requests_sent_by_others([line.key for line in batch_lines])
            lines_to_send = [line for line in batch_lines if line.key in unsent_keys]

            # subtract what `_iter_lines` has added, because `_send_lines` reserves the costs of the lines that are sent
            self._unsent_lines_usd -= math.fsum(line.usd for line in batch_lines)
            if not lines_to_send:
                continue
            job = await self._send_lines(lines_to_send)
            if job is None:
                break
            jobs.append(job)
        return jobs

    def _iter_lines(self) -> Iterator[RequestLine]:
        """Yield the requests to send, as lines of a batch file, until the cost cap is reached.

        The largest possible cost of each line is added to `_unsent_lines_usd`. At the first request that the cap does not
        allow, `_is_over_cap` is set. The leases on this and the later requests are released, so that other processes may send
        them.
        """
        for leased_calls in self._iter_leased_calls():
            for position, call in enumerate(leased_calls):
                max_usd = max_call_cost(self._config, call.request)
                is_affordable = self._budget.can_reserve(self._unsent_lines_usd + max_usd)
                if not is_affordable:
                    self._is_over_cap = True
                    unsent_keys = [unsent_call.key for unsent_call in leased_calls[position:]]
                    self._leases.release(unsent_keys)
                    return
                self._unsent_lines_usd += max_usd
                yield make_request_line(call.key, call.request, usd=max_usd)

    def _iter_leased_calls(self) -> Iterator[list[Call]]:
        """Acquire leases on the requests that need an outcome, and yield lists of their calls.

        A request that several trials share is yielded once. Requests that other processes have leased or answered are left out.
        """
        visited_keys: set[str] = set()
        for calls in iter_call_lists(self._work.iter_row_keys(), self._store, make_request=self._work.request):
            calls_to_send = []
            for call in calls:
                if call.key in visited_keys or self._end_if_outcome_known(call):
                    continue
                visited_keys.add(call.key)
                calls_to_send.append(call)
            yield self._leases.acquire(calls_to_send)

    def _end_if_outcome_known(self, call: Call) -> bool:
        """End a call whose outcome is stored, or whose request is too long for the model; return whether the call ended.

        With the option `retry_failed`, the requests that were rejected in an earlier run are sent again. A rejection in this
        run always ends the call.
        """
        rows = call.rows
        if self._done[rows[0]]:
            return True

        retries_stored_failure = self._outcomes.options.retries(call.key)
        final_outcome = call.final_outcome(self._work.is_answer, retry_failed=retries_stored_failure)
        must_be_sent = final_outcome is None and self._work.fits(call.request)
        if must_be_sent:
            return False
        self._outcomes.record_unsent(call, final_outcome)
        self._done[rows] = True
        return True

    async def _send_lines(self, lines: list[RequestLine]) -> Job | None:
        """Send request lines as one batch: record it, upload the file, and start the batch.

        The record is stored before anything is sent, so that an interrupted run can resume the batch.

        Returns the record with the ids of file and batch; None if a step failed, which ends the run.
        """
        provider = self._provider  # raises an error about its key before the batch is recorded
        max_usd = math.fsum(line.usd for line in lines)
        job = self._leases.record_batch(max_usd, [line.key for line in lines])
        self._reserve(job)  # `_iter_lines` has checked that the cost fits the cap
        try:
            file = await provider.upload(b"".join(line.text for line in lines))
        except CallError as error:
            self._end_run_before_start(job, error)
            return None
        job_with_file = self._leases.record_file_id(job, file)
        return await self._start_batch(job_with_file, maybe_started=False)

    async def _start_batch(self, job: Job, *, maybe_started: bool) -> Job | None:
        """Start the batch of an uploaded file, and record its id.

        If this fails, the run ends. The record of the batch stays in the store if the provider may have started the batch, for
        example after a timeout. The next run then looks for the batch before it sends the requests again.

        job : record of the batch, with the id of the file
        maybe_started : whether an earlier process may have started the batch already

        Returns the record with the id of the batch, or None if the provider reports an error.
        Raises: JudgeError [lease-lost] if the leases of this process may have expired.
        """
        self._leases.check()
        try:
            batch_id = await self._provider.start(job.file or "", maybe_started=maybe_started)
        except CallError as error:
            is_surely_not_started = error.unbilled  # False if the provider may have started the batch
            if is_surely_not_started:
                self._end_run_before_start(job, error)
            else:
                self._end_run(error, job)
            return None
        self._report_message(f"batch {batch_id}: {format_count(len(job.keys), 'request')} sent")
        return self._leases.record_batch_id(job, batch_id)

    def _end_run_before_start(self, job: Job, error: CallError) -> None:
        """End the run because a batch was not started, delete its record, and release its reserved cost.

        job : record of the batch
        error : why the batch was not started
        """
        self._leases.delete_record(job)
        self._settle(job, 0.0)
        self._end_run(error, None)

    async def _poll_until_results_stored(self, jobs: list[Job]) -> None:
        """Poll batches until all have ended and their results are stored.

        If the run has to stop, the method returns after the current round, in which each batch is polled once.
        """
        pending = [_PolledBatch(job, len(job.keys)) for job in jobs]
        while pending:
            pending = [batch for batch in pending if not await self._poll_batch(batch)]
            if self._stop.is_stopped:
                return
            if pending:
                await self._batching.sleep(self._batching.poll)

    async def _poll_batch(self, batch: _PolledBatch) -> bool:
        """Ask the provider for the state of a batch once, and store the results if the batch has ended.

        If the provider cannot be reached, the failure is shown to the user. A failure that lasts too long ends the run.

        batch : batch in progress; its record and its state are updated

        Returns whether all results are stored, so that the batch need not be polled again.
        """
        batch_id = batch.job.batch or ""
        result_files: list[bytes] = []
        try:
            state = await self._provider.status(batch_id)
            if state.ended:
                result_files = [await self._provider.fetch(file_id) for file_id in state.files]
        except CallError as error:
            self._report_poll_failure(batch, error)
            return False

        self._report_status(batch, state)
        if not state.ended:
            batch.failing_since = None
            return False
        return self._store_results_and_check_missing(batch, state, result_files)

    def _store_results_and_check_missing(self, batch: _PolledBatch, state: BatchState, files: list[bytes]) -> bool:
        """Store the results of a batch that has ended, and return whether all of its requests have a result now.

        If results are missing, this counts as a failed poll: the run ends after `max_outage` seconds without a new result.

        batch : the batch; its record is replaced by one of the requests without a result
        state : final state of the batch, as the provider reports it
        files : contents of the result files
        """
        remaining_job = self._store_results(batch.job, state, files)
        if remaining_job is None:
            return True
        has_new_results = len(remaining_job.keys) < len(batch.job.keys)
        if has_new_results:
            batch.job = remaining_job
            batch.failing_since = None  # the time limit for missing results begins again

        reason = f"The provider reports '{state.status}', but {len(remaining_job.keys):,} results are missing."
        self._report_poll_failure(batch, CallError(reason, kind="transient"))
        return False

    def _report_status(self, batch: _PolledBatch, state: BatchState) -> None:
        """Report the status of a batch if it has changed since the last poll."""
        status = f"{state.status}, {state.n_done:,} of {batch.n_requests:,} done"
        if batch.last_status != status:
            batch.last_status = status
            self._report_message(f"batch {batch.job.batch}: {status}")

    def _report_poll_failure(self, batch: _PolledBatch, error: CallError) -> None:
        """Report a failed poll; end the run if the failure is not transient, or lasts for `max_outage` seconds.

        batch : the batch; the time of the first failure is recorded in it
        error : why the poll failed
        """
        now = time.monotonic()
        if error.kind != "transient":
            self._end_run(error, batch.job)
        elif batch.failing_since is None:
            batch.failing_since = now
            self._report_message(
                f"batch {batch.job.batch}: its state is unknown ({error.reason}); it stays at the provider"
            )
        elif now - batch.failing_since >= self._config.max_outage:
            self._end_run(error, batch.job)

    def _store_results(self, job: Job, state: BatchState, files: list[bytes]) -> Job | None:
        """Store the results of a batch that has ended, and delete its record in the same transaction.

        If some requests have no result yet, a record of these requests replaces the old one. In the budget, the actual cost of
        the results replaces their reserved cost. The end of the run is requested if the provider refused or cancelled the batch.

        job : record of the batch
        state : final state of the batch, as the provider reports it
        files : contents of the result files

        Returns the record of the requests without a result: None if all have one, and `job` itself if none has one.
        """
        outcomes, missing_keys = find_outcomes(job, state, files)
        if missing_keys and not outcomes:
            return job

        reserved_usd, spent_usd = self._store_outcomes(job, outcomes)
        if not missing_keys:
            self._leases.replace_record(job, None)
            self._store.flush()
            self._settle(job, spent_usd)
            self._end_run_if_not_completed(job, state, outcomes)
            return None

        remaining_job = replace(job, keys=tuple(missing_keys), usd=job.usd - reserved_usd, id=new_id())
        self._leases.replace_record(job, remaining_job)
        self._store.flush()
        self._settle(job, spent_usd, remaining_usd=remaining_job.usd)
        return remaining_job

    def _reserve(self, job: Job) -> None:
        """Reserve the largest possible cost of a batch in the budget of this run, if this run has sent the batch."""
        if self._leases.was_sent_by_this_run(job):
            self._budget.reserve_unconditionally(job.usd)

    def _settle(self, job: Job, spent_usd: float, *, remaining_usd: float = 0.0) -> None:
        """Replace the reserved cost of a batch by its actual cost, in the budget of the run that sent the batch.

        spent_usd : actual cost of the results
        remaining_usd : largest possible cost of the requests without a result, which stays reserved
        """
        if self._leases.was_sent_by_this_run(job):
            if remaining_usd:
                self._budget.reserve_unconditionally(remaining_usd)  # first, so that no other call can use the amount
            self._budget.settle(job.usd, spent_usd)
        elif job.account is not None:
            release_unspent(self._store, job.account, job.usd - remaining_usd - spent_usd)

    def _end_run_if_not_completed(
        self, job: Job, state: BatchState, outcomes: Mapping[str, Completion | CallError]
    ) -> None:
        """Request the end of the run if the provider refused a batch as a whole, or if the batch was cancelled.

        job : record of the batch
        state : final state of the batch, as the provider reports it
        outcomes : outcome of each request by its hash; empty if the provider refused the batch
        """
        if state.status == "failed" and not outcomes:
            self._stop.request_stop_with_error(batch_refused_error(job, state, judge=self._config.name))
        elif state.status == "cancelled":
            n_unanswered = sum(isinstance(outcome, CallError) for outcome in outcomes.values())
            self._stop.request_stop_with_error(batch_cancelled_error(job, n_unanswered=n_unanswered))

    def _store_outcomes(self, job: Job, outcomes: Mapping[str, Completion | CallError]) -> tuple[float, float]:
        """Store the outcomes of the requests of a batch, and sum their costs.

        The batch of an earlier process may also contain requests that this plan does not need. Their answers are stored, but not
        their failures.

        job : record of the batch, with the cost account of the run that has sent it
        outcomes : answer or failure of each request, by its hash

        Returns two sums in USD: the largest possible cost of the requests of this plan, and the actual cost of all requests.
        """
        rows_by_key = self._find_rows(outcomes)
        self._leases.check()

        # with `retry_failed`, requests that failed in an earlier run were sent again: their calls need the stored failure
        stored_outcomes = self._store.get_outcomes(list(rows_by_key)) if self._outcomes.options.retry_failed else {}

        # store answers first: they show that the server works, so that failures are due to their requests
        answers = {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, Completion)}
        failures = {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, CallError)}
        answers_first: dict[str, Completion | CallError] = {**answers, **failures}
        max_costs, actual_costs = [], []
        for key, outcome in answers_first.items():
            if key in rows_by_key:
                call = self._failed_calls.get(key)  # a call that failed before keeps its cost and attempts
                if call is None:
                    call = Call(key, rows_by_key[key], stored_outcomes.get(key), self._work.request)
                max_cost = max_call_cost(self._config, call.request)
                max_costs.append(max_cost)
                actual_costs.append(self._store_outcome(job, call, outcome, max_cost=max_cost))
            else:
                actual_costs.append(self._store_outcome_of_other_plan(job, key, outcome))
        return math.fsum(max_costs), math.fsum(actual_costs)

    def _find_rows(self, outcomes: Mapping[str, Completion | CallError]) -> dict[str, list[int]]:
        """Find the rows of this plan that wait for outcomes, by request hash. The leases are renewed meanwhile."""
        rows_by_key: defaultdict[str, list[int]] = defaultdict(list)
        for row, key in self._work.iter_row_keys():
            self._leases.renew()  # the task that renews them does not run during this loop
            if key in outcomes:
                rows_by_key[key].append(row)
        return rows_by_key

    def _store_outcome_of_other_plan(self, job: Job, key: str, outcome: Completion | CallError) -> float:
        """Store and pay for an outcome that no row of this plan needs, and return its cost in USD. A failure is not stored.

        If the cost is not reported, it is the mean largest possible cost of the requests of the batch.
        """
        completion = outcome if isinstance(outcome, Completion) else None
        if completion is not None and completion.tokens_in + completion.tokens_out > 0:
            usd = call_cost(self._config, completion.tokens_in, completion.tokens_out)
        else:
            is_unbilled = isinstance(outcome, CallError) and outcome.unbilled
            usd = 0.0 if is_unbilled else job.usd / len(job.keys)

        book_cost(self._store, job.account, key, usd, completion)
        if completion is not None:
            self._store.add(key, completion, may_flush=False)
        return usd

    def _store_outcome(self, job: Job, call: Call, outcome: Completion | CallError, *, max_cost: float) -> float:
        """Store the outcome of a call, and return its cost in USD, which the run that has sent the batch pays.

        A call that failed may be sent again in a later batch, if the failure is transient and `max_tries` allows it.

        job : record of the batch
        max_cost : largest possible cost of the call in USD. It is booked if the provider does not report the usage, and for
            a failed call that may be billed.
        """
        checked_outcome, usd = self._check_and_price_outcome(call, outcome, max_cost=max_cost)
        if self._leases.was_sent_by_this_run(job):
            call.usd += usd
        if isinstance(checked_outcome, Completion):
            book_cost(self._store, job.account, call.key, usd, checked_outcome)
            self._outcomes.record_answer(call, checked_outcome)
            self._done[call.rows] = True
        else:
            book_cost(self._store, job.account, call.key, usd, None)
            self._record_failure(call, checked_outcome)
        return usd

    def _record_failure(self, call: Call, failure: CallError) -> None:
        """Record that a call failed. Unless it may be sent again, its trials are done."""
        call.attempts.n_failed += 1
        may_retry = failure.kind == "transient" and call.attempts.n_failed < self._config.max_tries
        self._done[call.rows] = self._outcomes.record_failure(call, failure, may_retry=may_retry)
        self._failed_calls[call.key] = call  # with its cost and number of attempts, for the next attempt

    def _check_and_price_outcome(
        self, call: Call, outcome: Completion | CallError, *, max_cost: float
    ) -> tuple[Completion | CallError, float]:
        """Check the outcome of a call against the limits of its request, and compute its cost.

        The cost of an answer follows from its reported numbers of tokens. If they are missing or impossible, or if the answer is
        too long, the cost is the largest possible one. A failed call has the same cost, unless the provider does not bill it.

        outcome : answer or failure that the provider reports
        max_cost : largest possible cost of the call in USD

        Returns the answer, or an error if the call failed or the answer is too long; and the cost in USD.
        """
        if isinstance(outcome, CallError):
            failure = to_rejection_if_quoted(outcome, call.request)
            cost_of_failure = 0.0 if failure.unbilled else max_cost
            return failure, cost_of_failure

        try:
            completion, usage_error = check_usage_for(outcome, call.request, answer_limit=self._config.answer_limit)
        except CallError as error:
            return error, max_cost

        has_usage = completion.tokens_in > 0 or completion.tokens_out > 0
        if not has_usage:
            self._budget.record_unreported(self._config.name, max_cost, usage_error)
            return completion, max_cost
        return completion, call_cost(self._config, completion.tokens_in, completion.tokens_out)

    def _end_run(self, error: CallError, job: Job | None) -> None:
        """End the run because of a failure; `job` is the record of the batch, or None if it was not started."""
        self._stop.request_stop_with_error(
            make_run_error(error, config=self._config, job=job, store_name=self._store.name)
        )

    def _report_message(self, message: str) -> None:
        """Show a message about a batch to the user, and write it to the log."""
        self._batching.say(message)
        self._outcomes.log.write_event("batch", message=message)
