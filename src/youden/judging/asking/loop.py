"""The one loop that asks: everything that has a key and a request and that the store does not know.

Judging, calibrating and generating texts all go through it. `Line` says who is next, `Caller` makes one try, `Ending` knows
what ends a run, and a `Work` says what is asked and takes what came of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from youden.errors import YoudenError
from youden.judging.asking.calling import Call, Caller
from youden.judging.asking.endings import Ending, awaited, away_too_long
from youden.judging.asking.line import MOST_ASLEEP, Line
from youden.judging.asking.sight import Sight
from youden.judging.asking.work import Work
from youden.judging.call.budget import OutOfMoneyError
from youden.judging.call.failures import CallError, Failure, ends_the_run, is_silence
from youden.judging.call.retry import TOO_MANY, RetryPolicy
from youden.judging.config.reading import JudgeConfig
from youden.judging.store.answers import LINGER, MOST_UNWRITTEN, Store
from youden.judging.store.lookup import Known, look_up
from youden.judging.store.payments import payment_of
from youden.judging.store.team import BEAT, Team
from youden.nouns import Completion

CHUNK = 128
"""Requests looked up at once: a few milliseconds of work, so that replies do not wait for it."""


def at_risk(config: JudgeConfig) -> int:
    """Most calls that were sent and whose answers are not on disk, whenever the process dies."""
    return config.concurrency + MOST_UNWRITTEN


class Loop:
    """Asks one backend all of `work` that `store` does not know.

    The store is used by other threads alone, so that no reply waits for it.

    retry_failed: also what was rejected or is no answer. payer: under whose name the store notes what is paid; None for nobody's.
    team: who else asks the same run.
    """

    def __init__(
        self,
        work: Work,
        *,
        caller: Caller,
        store: Store,
        ending: Ending,
        sight: Sight,
        retry_failed: bool = False,
        payer: str | None = None,
        team: Team | None = None,
    ) -> None:
        self._work = work
        self._caller = caller
        self._config = caller.config
        self._store = store
        self._claims = store.claims()
        self._under_way = store.under_way()
        self._ending = ending
        self._sight = sight
        self._retry_failed = retry_failed
        self._payer = payer
        self._team = team
        self._policy = RetryPolicy(caller.config.max_tries, caller.config.backoff)
        self._line = Line(caller.config.concurrency)
        self._early: list[tuple[Call, Failure]] = []
        self._elsewhere: dict[str, Call] = {}
        self._n_in_flight = self._n_cut = self._n_awaited = 0
        self._known_good: Call | Known | None = None
        self._once = asyncio.Lock()
        self._to_write = asyncio.Event()
        self._written = asyncio.Event()
        ending.on_stop.append(self._stop_sending)

    async def go(self) -> None:
        """Ask until every row has an answer or a reason why not, or the run has to end."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._config.concurrency):
                    group.create_task(self._work_off())
                beside = group.create_task(self._now_and_then())
                group.create_task(self._dispatch()).add_done_callback(lambda _: beside.cancel())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            self._line.close_sleepers()
        if not self._ending.stopped:
            self._keep_early()
        if self._n_awaited:
            self._ending.stop_with(awaited(self._n_awaited, store=self._store.name))

    def let_go(self) -> None:
        """Give up the claims on what was not asked; those in a store that cannot be written end by themselves."""
        if self._n_cut:
            self._sight.say(
                "cut", f"{self._n_cut:,} calls were cut off: they may cost, and the same command asks them again"
            )
        with suppress(YoudenError):
            self._store.flush()
            self._claims.finish()

    def say_stopping(self, grace: float) -> None:
        """Tell who watches what happens now."""
        n = self._n_in_flight
        self._sight.say("stopping", f"stopping: {n:,} calls in flight get up to {grace:g} s to be answered and stored")

    async def _dispatch(self) -> None:
        try:
            await self._route_all()
        except YoudenError as error:
            self._ending.stop_with(error)
        while self._line.open or self._elsewhere:
            await self._line.something_moves()
        self._line.end()

    async def _route_all(self) -> None:
        at_once = self._config.concurrency
        if self._team is not None and self._team.others.n_asking:
            await self._join_in()
        if n := await asyncio.to_thread(self._count_awaited):
            self._sight.say("batches", str(awaited(n, store=self._store.name)))
        chunks = look_up(self._work.keys(), self._store, ask=self._work.request, size=CHUNK)
        while chunk := await asyncio.to_thread(next, chunks, None):
            asked = [known for known in chunk if not self._settle(known)]
            for begin in range(0, len(asked), at_once):
                while self._is_full and not self._ending.stopped:
                    await self._line.something_moves()
                if self._ending.stopped:
                    return
                await self._route(asked[begin : begin + at_once])

    def _count_awaited(self) -> int:
        """Rows whose requests are in batches under way, and not answered."""
        sent, keys = self._under_way.keys(), self._work.keys()
        rows = ((row, key) for row, key in keys if key in sent) if sent else ()
        chunks = look_up(rows, self._store, ask=self._work.request)
        is_answer, again = self._work.is_answer, self._retry_failed
        return sum(len(one.rows) for chunk in chunks for one in chunk if not one.settled(is_answer, retry_failed=again))

    @property
    def _is_full(self) -> bool:
        return self._line.is_full or len(self._elsewhere) >= MOST_ASLEEP

    def _settle(self, known: Known) -> bool:
        """Whether it need not be asked: the store has what came of it, or it cannot be sent."""
        found = known.settled(self._work.is_answer, retry_failed=self._retry_failed)
        if found is not None:
            self._take(known, found)
            return True
        if not self._work.fits(known.request):
            self._put(known.rows, known.key, None, stored=True)
            return True
        return False

    def _take(self, asked: Call | Known, found: Completion | Failure) -> None:
        """Take what the store holds."""
        if isinstance(found, Completion):
            self._caller.outage.answered_before = True
            self._known_good = asked
        self._record(asked, found)
        self._put(asked.rows, asked.key, found, stored=True)

    async def _join_in(self) -> None:
        """Where calls are paced, the others learn of this one before it sends its part."""
        self._share()
        if self._caller.pace.limited:
            await asyncio.sleep(2 * BEAT)

    async def _route(self, asked: Sequence[Known]) -> None:
        """Join what is under way, here or elsewhere, and ask the rest."""
        new = []
        for known in asked:
            under_way = self._line.open.get(known.key) or self._elsewhere.get(known.key)
            if under_way is not None:
                under_way.rows.extend(known.rows)
            else:
                before = known.completion or known.failure
                new.append(Call(known.key, known.request, list(known.rows), before))
        await self._ask_or_await(new)

    async def _ask_or_await(self, calls: Sequence[Call]) -> None:
        """Claim the calls and ask them, but for those that somebody else claims, sent in a batch or has answered meanwhile."""
        if not calls:
            return
        mine, sent, now = await asyncio.to_thread(self._claimed, [call.key for call in calls])
        done = []
        for call in calls:
            found = now.get(call.key)
            settled = isinstance(found, Completion) or (found is not None and found.kind == "rejected")
            if found is not None and settled and found != call.known:
                self._elsewhere.pop(call.key, None)
                self._take(call, found)
                done.append(call.key)
            elif call.key in sent:
                self._elsewhere.pop(call.key, None)
                self._n_awaited += len(call.rows)
                done.append(call.key)
            elif call.key in mine:
                self._elsewhere.pop(call.key, None)
                self._line.add(call)
            elif not self._ending.stopped:
                self._elsewhere[call.key] = call
        if done:
            await asyncio.to_thread(self._claims.finish, done)

    def _claimed(self, keys: Sequence[str]) -> tuple[set[str], frozenset[str], dict[str, Completion | Failure]]:
        """Those of `keys` that this loop claims, all keys then in batches, and what the store holds of `keys` after that.

        In this order: whoever sends a batch claims its keys until it is noted, and forgets it when its answers are stored.
        """
        return self._claims.take(keys), self._under_way.keys(), self._store.known(keys)

    async def _work_off(self) -> None:
        concurrency, more = self._caller.concurrency, True
        while more:
            await concurrency.acquire()
            try:
                call = await self._line.next()
                more = call is not None
                if call is not None:
                    await self._try_in_turn(call)
            finally:
                concurrency.release()

    async def _try_in_turn(self, call: Call) -> None:
        if self._caller.outage.is_on:
            async with self._caller.outage.turn():
                await self._try(call)
        else:
            await self._try(call)

    async def _try(self, call: Call) -> None:
        """One try, and what follows from it."""
        while self._store.n_unwritten >= MOST_UNWRITTEN and not self._ending.stopped:
            self._written.clear()
            await self._written.wait()
        if self._ending.stopped or self._claims.doubtful:
            self._line.close(call)
            if not self._ending.stopped:
                self._elsewhere[call.key] = call
            return
        self._n_in_flight += 1
        try:
            if self._caller.outage.is_stuck(call.tries):
                await self._look_with_another(call)
            completion = await self._caller.attempt(call)
        except asyncio.CancelledError:
            self._n_cut += 1
            self._pay(call)
            raise
        except OutOfMoneyError:
            self._ending.stop(lambda: self._work.out_of_money(self._caller.budget))
            self._line.close(call)
        except CallError as error:
            self._pay(call)
            await self._failed(call, error)
        else:
            self._pay(call, completion)
            self._answered(call, completion)
        finally:
            self._n_in_flight -= 1

    def _pay(self, call: Call, completion: Completion | None = None) -> None:
        """Note what the last try cost."""
        if self._payer is not None and (call.last_usd or completion is not None):
            self._store.pay(self._payer, call.key, payment_of(call.last_usd, completion))

    def _answered(self, call: Call, completion: Completion) -> None:
        self._ending.answered()
        self._known_good = call
        self._keep_early()
        self._heard(answer=True)
        self._keep(call, completion)
        if self._team is not None:
            self._team.answered += 1
        outcome = self._put(call.rows, call.key, completion, usd=call.usd)
        self._sight.answered(call.key, completion, outcome=outcome, usd=call.usd)
        self._line.close(call)

    async def _failed(self, call: Call, error: CallError) -> None:
        """Try again later, give up on the call, or end the run."""
        self._sight.tell("failure", key=call.key, kind=error.kind, status=error.status, reason=error.reason)
        if error.status == TOO_MANY and error.kind == "retry":
            self._sight.throttled()
        stopped, outage = self._ending.stopped, self._caller.outage
        was_on = outage.is_on
        if not stopped and not self._caller.backend.has_others and outage.befell(call.tries, error):
            self._line.park(call)
            self._away(error, was_on=was_on)
            return
        if not is_silence(error):
            self._heard(answer=False)
        if error.kind == "stop":
            self._ending.stop(lambda: self._ends_the_run(error))
        elif not stopped and (seconds := self._policy.wait(call.tries, error)) is not None:
            self._line.sleep(call, seconds)
            return
        elif not (stopped and error.kind == "retry"):
            await self._give_up(call, error)
        self._line.close(call)

    def _away(self, error: CallError, *, was_on: bool) -> None:
        """The server is away: say so once, and end the run when it is for too long."""
        judge, address, longest = self._config.name, self._config.address, self._caller.outage.longest
        if not was_on:
            self._sight.say(
                "away",
                f"'{judge}' at {address} is away ({error.reason}); one call at a time looks whether it is back, for up to "
                f"{longest:g} s",
            )
        if self._caller.outage.is_over_time:
            self._ending.stop(lambda: away_too_long(error, judge=judge, address=address, outage=longest))

    def _heard(self, *, answer: bool) -> None:
        seconds = self._caller.outage.heard(answer=answer)
        if seconds is not None:
            self._line.unpark()
            self._sight.say("back", f"'{self._config.name}' is back after {seconds:.0f} s")

    async def _look_with_another(self, call: Call) -> None:
        """Ask what was answered before, at the expense of `call`: whether the server is away, or such calls as this break it.

        Raises: CallError where it is away.
        """
        if self._known_good is None:
            return
        other = Call(call.key, self._known_good.request, [])
        try:
            await self._caller.attempt(other)
        except CallError as error:
            if is_silence(error) or error.kind == "stop":
                raise
            self._heard(answer=False)
        else:
            self._ending.answered()
            self._heard(answer=True)
        finally:
            call.usd += other.usd
            if self._payer is not None and other.usd:
                self._store.pay(self._payer, call.key, payment_of(other.usd, None))

    async def _give_up(self, call: Call, error: CallError) -> None:
        if self._caller.backend.live:
            async with self._once:
                if not self._ending.any_answered and not self._ending.stopped:
                    with suppress(CallError, OutOfMoneyError):
                        await self._look_with_another(call)
            self._ending.given_up(lambda: self._ends_the_run(error), n_requests=len(self._work))
        failure = Failure(error.kind, error.status, error.reason)
        if self._ending.any_answered:
            self._keep(call, failure)
        else:
            self._early.append((call, failure))
        self._put(call.rows, call.key, failure, usd=call.usd)

    def _keep_early(self) -> None:
        """Keep what failed before anything was answered: until then it may be the server's fault, and no trial's own."""
        while self._early:
            self._keep(*self._early.pop())

    def _keep(self, call: Call, outcome: Completion | Failure) -> None:
        self._record(call, outcome)
        self._store.add(call.key, outcome, again=call.known is not None, waits=False)
        if self._store.n_unwritten >= MOST_UNWRITTEN // 2:
            self._to_write.set()

    def _record(self, asked: Call | Known, outcome: Completion | Failure) -> None:
        if self._caller.backend.record is not None:
            self._caller.backend.record(asked.request, outcome)

    def _put(
        self,
        rows: Sequence[int],
        key: str,
        outcome: Completion | Failure | None,
        *,
        usd: float = 0.0,
        stored: bool = False,
    ) -> str:
        reason = self._work.put(rows, key, outcome, usd=usd, stored=stored)
        self._sight.advance(len(rows), missing=reason, usd=usd, stored=stored)
        return reason

    async def _now_and_then(self) -> None:
        """Write what came, hold what is claimed, and look for what others were asked."""
        looked = time.monotonic()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    await self._to_write.wait()
            self._to_write.clear()
            try:
                if self._claims.doubtful:
                    self._elsewhere |= {call.key: call for call in self._line.recall()}
                await asyncio.to_thread(self._write)
                self._written.set()
                self._share()
                if self._line.is_empty:
                    self._line.unpark()
                if time.monotonic() - looked >= LINGER and not self._ending.stopped:
                    await self._ask_or_await(list(self._elsewhere.values()))
                    looked = time.monotonic()
                    self._line.moved()
            except YoudenError as error:
                self._ending.stop_with(error)

    def _write(self) -> None:
        self._store.flush()
        self._claims.renew()

    def _share(self) -> None:
        """Take this member's part of what is allowed to all."""
        if self._team is not None:
            self._caller.share(1 + self._team.others.n_asking)
            self._sight.beside(self._team.others.n_asking, answered=self._team.others.answered)
            if self._team.lost is not None:
                self._ending.stop_with(self._team.lost)

    def _stop_sending(self) -> None:
        self._caller.stop()
        self._written.set()
        self._elsewhere.clear()
        self._line.close_sleepers()

    def _ends_the_run(self, error: CallError) -> YoudenError:
        return ends_the_run(error, judge=self._config.name, address=self._config.address)
