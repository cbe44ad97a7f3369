"""The one loop that asks, alone or side by side with others.

The one loop that asks: everything that has a key and a request and that the store does not know.

Judging, calibrating and generating texts all go through it. `Routing` says what is left to ask, `Line` who is next, `Caller`
makes one try, `Keeping` keeps what came, `Ending` knows what ends a run, and a `Work` says what is asked.

Loops that ask side by side and end together: told to stop, they let calls in flight be answered and stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from youden.errors import ShortRunError, YoudenError
from youden.judging.asking.calling import Call, Caller
from youden.judging.asking.endings import Ending, awaited, away_too_long, drained
from youden.judging.asking.queue import Line, Routing
from youden.judging.asking.sight import Sight
from youden.judging.asking.work import Keeping, Work
from youden.judging.call.budget import OutOfMoneyError
from youden.judging.call.failures import TOO_MANY, CallError, Failure, RetryPolicy, ends_the_run, is_silence
from youden.judging.config.reading import JudgeConfig
from youden.judging.store.answers import LINGER, MOST_UNWRITTEN, Store
from youden.judging.store.team import BEAT, Team
from youden.nouns import Completion


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
        self._ending = ending
        self._sight = sight
        self._team = team
        self._policy = RetryPolicy(caller.config.max_tries, caller.config.backoff)
        self._line = Line(caller.config.concurrency)
        self._keeping = Keeping(work, store=store, backend=caller.backend, sight=sight, payer=payer)
        self._routing = Routing(
            work,
            line=self._line,
            keeping=self._keeping,
            caller=caller,
            store=store,
            ending=ending,
            sight=sight,
            retry_failed=retry_failed,
        )
        self._n_in_flight = self._n_cut = 0
        self._once = asyncio.Lock()
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
            self._keeping.keep_early()
        if self._routing.n_awaited:
            self._ending.stop_with(awaited(self._routing.n_awaited, store=self._store.name))

    def let_go(self) -> None:
        """Give up the claims on what was not asked; those in a store that cannot be written end by themselves."""
        if self._n_cut:
            self._sight.say(
                "cut", f"{self._n_cut:,} calls were cut off: they may cost, and the same command asks them again"
            )
        with suppress(YoudenError):
            self._store.flush()
            self._routing.claims.finish()

    def say_stopping(self, grace: float) -> None:
        """Tell who watches what happens now."""
        n = self._n_in_flight
        self._sight.say("stopping", f"stopping: {n:,} calls in flight get up to {grace:g} s to be answered and stored")

    async def _dispatch(self) -> None:
        try:
            if self._team is not None and self._team.others.n_asking:
                await self._join_in()
            await self._routing.route_all()
        except YoudenError as error:
            self._ending.stop_with(error)
        while self._line.open or self._routing.elsewhere:
            await self._line.something_moves()
        self._line.end()

    async def _join_in(self) -> None:
        """Where calls are paced, the others learn of this one before it sends its part."""
        self._share()
        if self._caller.pace.limited:
            await asyncio.sleep(2 * BEAT)

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
        while self._keeping.is_full and not self._ending.stopped:
            await self._keeping.some_written()
        if self._ending.stopped or self._routing.claims.doubtful:
            self._line.close(call)
            if not self._ending.stopped:
                self._routing.elsewhere[call.key] = call
            return
        self._n_in_flight += 1
        try:
            if self._caller.outage.is_stuck(call.tries):
                await self._look_with_another(call)
            completion = await self._caller.attempt(call)
        except asyncio.CancelledError:
            self._n_cut += 1
            self._keeping.pay(call.key, call.last_usd)
            raise
        except OutOfMoneyError:
            self._ending.stop(lambda: self._work.out_of_money(self._caller.budget))
            self._line.close(call)
        except CallError as error:
            self._keeping.pay(call.key, call.last_usd)
            await self._failed(call, error)
        else:
            self._keeping.pay(call.key, call.last_usd, completion)
            self._answered(call, completion)
        finally:
            self._n_in_flight -= 1

    def _answered(self, call: Call, completion: Completion) -> None:
        self._ending.answered()
        self._keeping.known_good = call
        self._keeping.keep_early()
        self._heard(answer=True)
        self._keeping.keep(call, completion)
        if self._team is not None:
            self._team.answered += 1
        outcome = self._keeping.put(call.rows, call.key, completion, usd=call.usd)
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
        if self._keeping.known_good is None:
            return
        other = Call(call.key, self._keeping.known_good.request, [])
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
            self._keeping.pay(call.key, other.usd)

    async def _give_up(self, call: Call, error: CallError) -> None:
        if self._caller.backend.live:
            async with self._once:
                if not self._ending.any_answered and not self._ending.stopped:
                    with suppress(CallError, OutOfMoneyError):
                        await self._look_with_another(call)
            self._ending.given_up(lambda: self._ends_the_run(error), n_requests=len(self._work))
        failure = Failure(error.kind, error.status, error.reason)
        if self._ending.any_answered:
            self._keeping.keep(call, failure)
        else:
            self._keeping.keep_later(call, failure)
        self._keeping.put(call.rows, call.key, failure, usd=call.usd)

    async def _now_and_then(self) -> None:
        """Write what came, hold what is claimed, and look for what others were asked."""
        looked = time.monotonic()
        while True:
            await self._keeping.time_to_write()
            try:
                if self._routing.claims.doubtful:
                    self._routing.elsewhere |= {call.key: call for call in self._line.recall()}
                await asyncio.to_thread(self._write)
                self._keeping.wait_no_more()
                self._share()
                if self._line.is_empty:
                    self._line.unpark()
                if time.monotonic() - looked >= LINGER and not self._ending.stopped:
                    await self._routing.look_elsewhere()
                    looked = time.monotonic()
                    self._line.moved()
            except YoudenError as error:
                self._ending.stop_with(error)

    def _write(self) -> None:
        self._store.flush()
        self._routing.claims.renew()

    def _share(self) -> None:
        """Take this member's part of what is allowed to all."""
        if self._team is not None:
            self._caller.share(1 + self._team.others.n_asking)
            self._sight.beside(self._team.others.n_asking, answered=self._team.others.answered)
            if self._team.lost is not None:
                self._ending.stop_with(self._team.lost)

    def _stop_sending(self) -> None:
        self._caller.stop()
        self._keeping.wait_no_more()
        self._routing.elsewhere.clear()
        self._line.close_sleepers()

    def _ends_the_run(self, error: CallError) -> YoudenError:
        return ends_the_run(error, judge=self._config.name, address=self._config.address)


async def ask_all(loops: Sequence[Loop], ending: Ending, *, grace: float) -> None:
    """Let loops that share an ending ask side by side. When this is cancelled, calls in flight get `grace` seconds.

    Raises: the reason of `ending`, once the calls in flight have ended; what a backend raises beside CallError; CancelledError.
    """

    def stop() -> None:
        for loop in loops:
            loop.say_stopping(grace)
        ending.stop(_interrupted)

    try:
        await drained(asyncio.create_task(_side_by_side(loops)), stop=stop, grace=grace)
    finally:
        for loop in loops:
            loop.let_go()
    ending.raise_reason()


async def _side_by_side(loops: Sequence[Loop]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for loop in loops:
                group.create_task(loop.go())
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None


def _interrupted() -> ShortRunError:
    return ShortRunError("The run was told to stop. What was answered is kept; run the same again.", slug="stopped")
