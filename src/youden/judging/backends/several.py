"""Combine several judges: distribute requests over servers of one model, and let a jury vote.

Each request goes to the server with the fewest calls in flight. A server that fails is left out, and after a wait,
which doubles with each further failure, one call probes whether it works again. A failed call is sent to the next
server if it cost nothing and its request did not cause the failure; all other failures are raised.

A jury answers with the majority or the mean of its judges. No answer is assumed for a judge that gave none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from youden.errors import JudgeError
from youden.judging.call.failures import TOO_MANY_REQUESTS, CallError, is_no_response
from youden.text.sentences import format_count
from youden.types import MISSING_REASONS, Completion, Finding, Judge, Plan, Request, Verdicts
from youden.types.pool import Codes, Floats

FAILURE_THRESHOLD = 3
"""Consecutive failures after which a server is left out. One is enough if it rejects all calls or is unreachable."""

MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 1.0, 30.0
"""Shortest and longest time until a server that is left out is probed again. Also those for which a server that replies with
HTTP 429 gets no requests if another server works."""


@dataclass
class _Server:
    """State of one server."""

    address: str
    """Public address."""
    judge: Judge
    """Judge that sends requests to it."""
    n_in_flight: int = 0
    """Number of calls in flight."""
    n_failed: int = 0
    """Number of consecutive failures."""
    n_left_out: int = 0
    """Number of times that it was left out."""
    wait: float = 0.0
    """Seconds until it is probed again; 0 while it is not left out."""
    probe_time: float = 0.0
    """Time at which it is probed again, by the clock of the judge."""
    is_probed: bool = False
    """Whether a call is probing it."""
    throttled_until: float = 0.0
    """Time, by the clock of the judge, until which other servers are preferred because of a reply with HTTP 429."""
    last_failure: str = ""
    """Reason of its last failure."""

    @property
    def is_left_out(self) -> bool:
        """Whether the server gets no requests other than probes, which test whether it works again."""
        return self.wait > 0

    def is_due_for_probe(self, now: float) -> bool:
        """Return whether it is time to probe the server: it is left out, its wait is over, and no call is probing it."""
        return self.is_left_out and now >= self.probe_time and not self.is_probed

    def begin_call(self) -> bool:
        """Count a call that is about to be sent to the server, and return whether the call probes the server."""
        is_probe = self.is_left_out
        self.is_probed |= is_probe
        self.n_in_flight += 1
        return is_probe

    def end_call(self, *, is_probe: bool) -> None:
        """Remove a call that has ended from the counts; `is_probe` is the value that `begin_call` returned for the call."""
        self.n_in_flight -= 1
        if is_probe:
            self.is_probed = False

    def record_success(self) -> None:
        """Reset the failures, and send requests to the server again."""
        self.n_failed = 0
        self.wait = 0.0

    def record_failure(self, reason: str, *, now: float, affects_all_calls: bool, was_probe: bool) -> None:
        """Record a failed call. The server is left out after a failure that affects all calls, or after three in a row.

        A server that is left out gets its first probe, a call that tests whether it works again, after 1 second. Each failed
        probe doubles this time, up to 30 seconds. Other failed calls to a server that is left out only increase `n_failed`.

        reason : why the call failed
        now : time by the clock of the judge, in seconds
        affects_all_calls : whether every other call to the server would have failed, too
        was_probe : whether the call tested a server that is left out
        """
        self.n_failed += 1
        self.last_failure = reason
        if self.is_left_out:
            if was_probe:  # otherwise, the call was sent before the server was left out
                self.wait = min(MAX_WAIT_SECONDS, 2 * self.wait)
                self.probe_time = now + self.wait
            return

        if affects_all_calls or self.n_failed >= FAILURE_THRESHOLD:
            self.n_left_out += 1
            self.wait = MIN_WAIT_SECONDS
            self.probe_time = now + self.wait


class RoundRobin:
    """A judge that distributes its requests over several servers of one model.

    Parameters
    ----------
    servers : mapping of str to Judge
        Judges by the public address of their server.
    clock : callable, default time.monotonic
        Clock in seconds.
    """

    def __init__(self, servers: Mapping[str, Judge], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._servers = [_Server(address, judge) for address, judge in servers.items()]
        self.name = self._servers[0].judge.name
        self._clock = clock
        self._last_position = -1

    @property
    def has_fallback_server(self) -> bool:
        """Whether at least one server is not left out."""
        return any(not server.is_left_out for server in self._servers)

    async def answer(self, request: Request) -> Completion:
        """Send a request to one server after another until one replies.

        Raises
        ------
        CallError
            If all servers fail, or if a failure is specific to the request or may have cost something. Its reason
            begins with the address of the last server.
        """
        tried: list[_Server] = []
        while True:
            server = self._select_server(tried)
            tried.append(server)
            try:
                return await self._send_to_server(server, request)
            except CallError as error:
                is_throttled = error.status == TOO_MANY_REQUESTS
                can_try_next = error.unbilled and (is_throttled or _is_independent_of_request(error))
                if len(tried) == len(self._servers) or not can_try_next:
                    raise _with_address(error, server.address) from None

    def warnings(self) -> tuple[Finding, ...]:
        """Return a warning for each server that failed so often that it was left out: it got no requests for some time."""
        findings = []
        for server in self._servers:
            if server.n_left_out == 0:
                continue
            at_end = ", also at the end" if server.is_left_out else ""
            message = (
                f"The server {server.address} failed and was left out {format_count(server.n_left_out, 'time')}{at_end} "
                f"(the last failure: {server.last_failure}). Other servers answered instead."
            )
            findings.append(Finding("server", message, facts={"address": server.address, "n": server.n_left_out}))
        return tuple(findings)

    async def aclose(self) -> None:
        """Close all connections."""
        for server in self._servers:
            if hasattr(server.judge, "aclose"):
                await server.judge.aclose()

    def _select_server(self, tried: Collection[_Server]) -> _Server:
        """Select the server for a request.

        The first of the following servers is selected:

        1. A server that is left out because of failures, if it is time to test whether it works again (a probe).
        2. The working server with the fewest calls in flight. Servers without a recent reply with HTTP 429 come first.
        3. If no server works, the server whose probe is due next.

        tried : servers that failed for this request, which are not selected again
        """
        now = self._clock()

        # begin after the server that was selected last, so that servers with equally many calls take turns
        next_position = self._last_position + 1
        rotated = [*self._servers[next_position:], *self._servers[:next_position]]
        untried = [server for server in rotated if server not in tried]

        due_for_probe = [server for server in untried if server.is_due_for_probe(now)]
        if due_for_probe:
            return min(due_for_probe, key=lambda server: server.probe_time)
        working = [server for server in untried if not server.is_left_out]
        if not working:
            return min(untried, key=lambda server: server.probe_time)
        unthrottled = [server for server in working if now >= server.throttled_until]
        selected = min(unthrottled or working, key=lambda server: server.n_in_flight)
        self._last_position = self._servers.index(selected)
        return selected

    async def _send_to_server(self, server: _Server, request: Request) -> Completion:
        """Send a request to one server, and record whether the server works.

        A call that is cancelled because no reply came in time counts as a failure of the server.

        Returns the reply.
        Raises: CallError if the call fails for any reason.
        """
        is_probe = server.begin_call()
        try:
            reply = await server.judge.answer(request)
        except CallError as error:
            if error.status == TOO_MANY_REQUESTS:
                wait = min(error.retry_after or MIN_WAIT_SECONDS, MAX_WAIT_SECONDS)
                server.throttled_until = self._clock() + wait
            if _shows_working_server(error):
                server.record_success()
            else:
                affects_all_calls = _is_independent_of_request(error) and error.unbilled
                server.record_failure(
                    error.reason, now=self._clock(), affects_all_calls=affects_all_calls, was_probe=is_probe
                )
            raise
        except asyncio.CancelledError:
            server.record_failure("no reply in time", now=self._clock(), affects_all_calls=False, was_probe=is_probe)
            raise
        else:
            server.record_success()
            return reply
        finally:
            server.end_call(is_probe=is_probe)


def _shows_working_server(error: CallError) -> bool:
    """Return whether an error shows that the server works: it rejected only this request, or gets too many of them (429)."""
    return error.kind == "rejected" or error.status == TOO_MANY_REQUESTS


def _is_independent_of_request(error: CallError) -> bool:
    """Return whether a failure is not specific to the request: the server is unreachable, or rejects every call."""
    return error.kind == "fatal" or is_no_response(error)


def _with_address(error: CallError, address: str) -> CallError:
    """Return the error with the server's address in its reason."""
    reason = f"{address}: {error.reason}"
    return CallError(
        reason, kind=error.kind, status=error.status, retry_after=error.retry_after, unbilled=error.unbilled
    )


class Jury:
    """Combines the verdicts of several judges.

    Each judge's own answers stay in the store, where the judge `{backend: replay, replay_of: NAME}` finds them.

    Parameters
    ----------
    ballots : sequence of Verdicts
        Verdicts of each judge on the same plan.
    vote : {"majority", "mean"}
        "majority": the median of the hard answers of an odd number of judges, in which a preference may be a tie (1/2);
        missing if it depends on missing answers. "mean": the mean of the judges' answers, and a hard answer of yes if it
        is at least 1/2; missing if a judge gave no answer. A missing answer has the reason of the first judge without an
        answer.
    name : str, default "jury"
        Name of the jury.
    """

    name = "jury"

    def __init__(self, ballots: Sequence[Verdicts], *, vote: str, name: str = "jury") -> None:
        self.name = name
        self._ballots = ballots
        self._vote = vote

    def answer_many(self, plan: Plan) -> Verdicts:
        """Combine the verdicts of the judges. Cost, tokens and seconds are sums over the judges.

        Parameters
        ----------
        plan : Plan
            Plan that all judges judged.

        Returns
        -------
        Verdicts
            Verdicts of the jury. Their `votes` contain the answers of each judge.

        Raises
        ------
        JudgeError
            [judge-plan] if the verdicts of a judge are on another plan.
        """
        ballots = self._ballots
        if any(ballot.plan is not plan for ballot in ballots):
            raise JudgeError(
                f"The ballots of '{self.name}' are not on the plan that was passed to the jury. Pass the plan of the ballots.",
                slug="judge-plan",
            )

        # one row per judge: (n_judges, n_trials)
        answers = np.stack([ballot.answer for ballot in ballots])
        if plan.question == "preference":
            decisions = (np.sign(answers - 0.5) + 1) / 2  # 1 for the first response, 0.5 for a tie, 0 for the second
        else:
            decisions = np.stack([ballot.hard_answer for ballot in ballots])
        answer, hard_answer = self._combine_answers(answers, decisions)

        # a trial of an unfinished run is pending until all judges have answered it
        missing_reasons = np.stack([ballot.missing_reason for ballot in ballots])
        pending = MISSING_REASONS.index("pending")
        is_pending = (missing_reasons == pending).any(axis=0)
        answer[is_pending] = hard_answer[is_pending] = np.nan

        first_reason = np.where(is_pending, pending, _find_first_reason(missing_reasons))
        missing_reason = np.where(np.isnan(answer), first_reason, 0).astype(np.int8)
        return Verdicts(
            plan=plan,
            answer=answer,
            hard_answer=hard_answer,
            missing_reason=missing_reason,
            judge={
                "name": self.name,
                "backend": "jury",
                "vote": self._vote,
                "judges": [dict(ballot.judge) for ballot in ballots],
            },
            tokens_in=_sum_columns([ballot.tokens_in for ballot in ballots], plan, np.int32),
            tokens_out=_sum_columns([ballot.tokens_out for ballot in ballots], plan, np.int32),
            usd=_sum_columns([ballot.usd for ballot in ballots], plan, float),
            seconds=_sum_columns([ballot.seconds for ballot in ballots], plan, float),
            models=tuple(dict.fromkeys(model for ballot in ballots for model in ballot.models)),
            usd_calibration=sum(ballot.usd_calibration for ballot in ballots),
            votes=answers,
            warnings=tuple(_with_judge_name(warning, ballot) for ballot in ballots for warning in ballot.warnings),
        )

    def _combine_answers(self, answers: Floats, decisions: Floats) -> tuple[Floats, Floats]:
        """Combine the answers of all judges to one answer of the jury per trial, by the majority or by the mean.

        answers : float array (n_judges, n_trials), answers in [0, 1]; NaN if the judge gave none
        decisions : float array (n_judges, n_trials), answers as decisions: 0 for no, 1 for yes, 0.5 for a tie of preferences; NaN
            if the judge gave none

        Returns the answers and the hard answers of the jury, two new float arrays (n_trials,). With the vote "majority", both are
        NaN if no decision has the majority. With the vote "mean", both are NaN if a judge gave no answer.
        """
        if self._vote == "majority":
            majority = _find_majority(decisions)
            return majority, np.where(np.isnan(majority), np.nan, majority == 1)

        mean = np.mean(answers, axis=0)  # NaN if a judge has no answer
        is_yes = (mean >= 0.5).astype(float)
        return mean, np.where(np.isnan(mean), np.nan, is_yes)


def _find_majority(decisions: Floats) -> Floats:
    """Return each trial's majority decision, float array (n_trials,); NaN if it depends on missing decisions.

    The majority decision of an odd number of judges is the median of their decisions. If one judge prefers the first
    response, one the second, and one neither, it is a tie.

    decisions : float array (n_judges, n_trials), 0, 1, 0.5 for a tie of preferences, or NaN if missing
    """
    is_missing = np.isnan(decisions)
    low = np.median(np.where(is_missing, 0, decisions), axis=0)
    high = np.median(np.where(is_missing, 1, decisions), axis=0)
    return np.where(low == high, low, np.nan)


def _with_judge_name(warning: Finding, ballot: Verdicts) -> Finding:
    """Return a finding with the name of the judge whose verdicts it is about, in the message and in the facts."""
    name = str(ballot.judge.get("name"))
    return replace(warning, message=f"{name}: {warning.message}", facts={**warning.facts, "judge": name})


def _find_first_reason(missing_reasons: Codes) -> Codes:
    """For each trial, return the reason of the first judge without an answer; 0 if all judges answered.

    missing_reasons : int array (n_judges, n_trials), codes of `MISSING_REASONS`; 0 if the judge answered
    """
    first_judge = np.argmax(missing_reasons != 0, axis=0)
    first_reasons: Codes = missing_reasons[first_judge, np.arange(missing_reasons.shape[1])]
    return first_reasons


def _sum_columns(columns: Sequence[np.ndarray | None], plan: Plan, dtype: type) -> np.ndarray:
    """Sum columns over the judges: array (n_trials,). A column that is None counts as zeros."""
    filled = [np.zeros(len(plan)) if column is None else column for column in columns]
    total: np.ndarray = np.sum(filled, axis=0, dtype=dtype)
    return total
