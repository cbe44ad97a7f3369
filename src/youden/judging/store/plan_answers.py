"""What a store holds of a plan: looked up before it is asked, and read into verdicts after.

Whoever asks only writes answers and failures into the store, and notes in `Costs` what they took; `read_answers` is the one
place where verdicts come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np

from youden.judging.call.failures import Attempts, Failure
from youden.judging.question.parsing import Reading, no_reading
from youden.judging.question.questions import Keyed, Questions
from youden.judging.store.answers import Store
from youden.judging.store.contract import Payment
from youden.types import MISSING_REASONS, Completion, Finding, Plan, Request, Verdicts
from youden.types.pool import Bools, Json

CHUNK = 1000

_NOT_ASKED, _FAILED = no_reading("not_asked"), no_reading("failed")
_CODES = {reason: code for code, reason in enumerate(MISSING_REASONS)}


@dataclass(eq=False)
class Call:
    """One distinct request, what the store knew of it when it was looked up, and what it went through since.

    rows: who waits for the answer. ask: makes the request, by row and key. usd: what its tries have cost so far; last_usd: the
    last one.
    """

    key: str
    rows: list[int]
    known: Completion | Failure | None
    ask: Callable[[int, str], Request]
    usd: float = 0.0
    last_usd: float = 0.0
    attempts: Attempts = field(default_factory=Attempts)

    @cached_property
    def request(self) -> Request:
        """Made when it is looked at: what is answered needs none."""
        return self.ask(self.rows[0], self.key)

    def settled(
        self, is_answer: Callable[[Completion], bool], *, retry_failed: bool = False
    ) -> Completion | Failure | None:
        """What stands without a call: a stored answer, or a rejection; under `retry_failed` only what `is_answer`."""
        found = self.known
        if isinstance(found, Completion):
            return found if not retry_failed or is_answer(found) else None
        return found if found is not None and found.kind == "rejected" and not retry_failed else None


def look_up(
    keys: Iterable[Keyed], store: Store, *, ask: Callable[[int, str], Request], size: int = CHUNK
) -> Iterator[list[Call]]:
    """(row, key) in order, in chunks of `size` rows, identical requests of a chunk together. ask: as `Call` has it."""
    rest = iter(keys)
    while chunk := list(islice(rest, size)):
        rows: dict[str, list[int]] = {}
        for row, key in chunk:
            rows.setdefault(key, []).append(row)
        found = store.known(list(rows))
        yield [Call(key, at, found.get(key), ask) for key, at in rows.items()]


class Costs:
    """What calls took, by row: each call in the row that asked it first, and 0 in all others.

    fresh: bool[N], whose answers came in this pass.
    """

    def __init__(self, n_trials: int) -> None:
        self.usd = np.zeros(n_trials)
        self.seconds = np.zeros(n_trials)
        self.tokens_in = np.zeros(n_trials, dtype=np.int32)
        self.tokens_out = np.zeros(n_trials, dtype=np.int32)
        self.fresh = np.zeros(n_trials, dtype=np.bool_)

    def add(self, rows: Sequence[int], payment: Payment) -> None:
        """A call that was made for `rows` in this pass."""
        self.fresh[list(rows)] = True
        self._put(rows[0], payment)

    def by_account(self, key: np.ndarray, paid: Mapping[str, Payment]) -> Costs:
        """Return what an account paid for the requests under `key`, S64[N], in all invocations."""
        booked = Costs(len(key))
        booked.fresh = self.fresh
        for name, row in zip(*(one.tolist() for one in np.unique(key, return_index=True)), strict=True):
            if (payment := paid.get(name.decode())) is not None:
                booked._put(row, payment)
        return booked

    def _put(self, row: int, payment: Payment) -> None:
        self.usd[row], self.seconds[row] = payment.usd, payment.seconds
        self.tokens_in[row], self.tokens_out[row] = payment.tokens_in, payment.tokens_out


class PlanAnswers:
    """The answers to the trials of `plan`, as `read_answers` finds them.

    key: S64[N]. n_done: trials that were answered, failed or cannot be asked; n_missing: of them, those without an answer.
    served: how many were answered by which model and build.
    """

    def __init__(self, plan: Plan) -> None:
        n = len(plan)
        self.key = np.zeros(n, dtype="S64")
        self.served = Served()
        self._plan = plan
        self._counts: Counter[str] = Counter()
        self._answer = np.full(n, np.nan)
        self._hard = np.full(n, np.nan)
        self._missing = np.full(n, _CODES["not_asked"], dtype=np.int8)
        self._served = np.full(n, -1, dtype=np.int32)
        self._models: dict[str, int] = {}

    @property
    def n_done(self) -> int:
        return self._counts.total()

    @property
    def n_missing(self) -> int:
        return self._counts.total() - self._counts["answered"]

    def put(self, rows: Sequence[int], keys: Sequence[str], read: Sequence[tuple[Reading, Completion | None]]) -> None:
        """What was read of some trials, many at once: their rows, keys, and readings with the answers that they are of."""
        at, readings = np.array(rows, dtype=np.int64), [reading for reading, _ in read]
        models = [one.model if one is not None else "" for _, one in read]
        self.key[at] = np.array(keys, dtype="S64")
        self._answer[at] = [reading.answer for reading in readings]
        self._hard[at] = [reading.hard for reading in readings]
        self._missing[at] = [_CODES[reading.missing] for reading in readings]
        self._served[at] = [self._models.setdefault(model, len(self._models)) if model else -1 for model in models]
        self._counts.update(reading.missing for reading in readings)

    def verdicts(
        self,
        judge: Mapping[str, Json],
        costs: Costs | None = None,
        *,
        usd_tried: float = 0.0,
        warnings: tuple[Finding, ...] = (),
    ) -> Verdicts:
        """As verdicts. Who served the answers is added to `judge`, a change of it to `warnings`. costs: None where nothing was
        asked. usd_tried: what the judge's trial paid for these answers."""
        costs = costs or Costs(len(self._plan))
        warnings = (*warnings, *self.served.warnings())
        served: list[Json] = [*self.served.names()]
        if self.n_missing:
            n, of = self.n_missing, len(self._plan)
            said = f"{n} of {of} trials {'has' if n == 1 else 'have'} no answer ({in_words(self._counts)}): missing, not a no."
            warnings = (*warnings, Finding("missing", said, facts={"n": n, "of": of}))
        return Verdicts(
            plan=self._plan,
            answer=self._answer,
            hard=self._hard,
            missing=self._missing,
            judge={**judge, "served": served},
            key=self.key,
            tokens_in=costs.tokens_in,
            tokens_out=costs.tokens_out,
            usd=costs.usd,
            seconds=costs.seconds,
            usd_tried=usd_tried,
            served=self._served,
            models=tuple(self._models),
            warnings=warnings,
        )


def read_answers(
    questions: Questions,
    plan: Plan,
    store: Store,
    keys: Iterable[Keyed],
    *,
    fresh: Bools | None = None,
    advance: Callable[..., None] = lambda n, *, missing, stored: None,
    missed: Callable[[str, int], None] = lambda key, row: None,
) -> PlanAnswers:
    """What `store` holds of every trial, by their `keys`.

    fresh: bool[N], whose answers came in this pass; None for nobody's. advance: told how many more trials were read, why they
    have no answer (`missing`), and whether that was there before (`stored`). missed: told the key and the row of each trial that
    the store knows nothing of, though it can be asked.
    """
    rest, found = iter(keys), PlanAnswers(plan)
    fresh = np.zeros(len(plan), dtype=np.bool_) if fresh is None else fresh
    while chunk := list(islice(rest, CHUNK)):
        known = store.known(sorted({key for _, key in chunk}))
        rows: list[int] = []
        keys_: list[str] = []
        read: list[tuple[Reading, Completion | None]] = []
        for row, key in chunk:
            outcome = known.get(key)
            if outcome is None and questions.fits(questions.request(plan, row)):
                missed(key, row)
                continue
            rows.append(row)
            keys_.append(key)
            if isinstance(outcome, Completion):
                read.append((questions.read(outcome), outcome))
            else:
                read.append((_NOT_ASKED if outcome is None else _FAILED, None))
        new = fresh[rows].tolist()
        found.put(rows, keys_, read)
        found.served.count((one, was) for (_, one), was in zip(read, new, strict=True) if one is not None)
        for (missing, was), n in Counter((one.missing, was) for (one, _), was in zip(read, new, strict=True)).items():
            advance(n, missing=missing, stored=not was)
    return found


def in_words(counts: Mapping[str, int]) -> str:
    """So many without an answer for each reason, in words.

    >>> in_words({"answered": 5, "refused": 2, "failed": 1})
    '1 failed, 2 refused'
    """
    return ", ".join(f"{n} {reason}" for reason, n in sorted(counts.items()) if reason != "answered")


class Served:
    """Counts answers by the model and fingerprint that gave them, those of this run apart from those found in the store."""

    def __init__(self) -> None:
        self._n: Counter[tuple[str, str | None, bool]] = Counter()

    def count(self, answers: Iterable[tuple[Completion, bool]]) -> None:
        """Each answered one trial, in this run or before."""
        self._n.update((one.model, one.fingerprint, fresh) for one, fresh in answers if one.model)

    def names(self) -> list[str]:
        """Every model, with its fingerprint where it has one, in order of the alphabet: part of the signature."""
        return sorted({_name(model, fingerprint) for model, fingerprint, _ in self._n})

    def fresh(self) -> list[str]:
        """The names of those that answered in this run."""
        return sorted({_name(model, fingerprint) for model, fingerprint, fresh in self._n if fresh})

    def warnings(self) -> tuple[Finding, ...]:
        """What to say where not all answers come from the same model and build."""
        if len(self.names()) < 2:
            return ()
        counts: Counter[str] = Counter()
        for (model, fingerprint, _), n in self._n.items():
            counts[_name(model, fingerprint)] += n
        who = ", ".join(f"{name} ({n:,} answers)" for name, n in sorted(counts.items()))
        said = f"The served model changed between answers: {who}. They may not mean the same; judge again to have one."
        return (Finding("served", said, facts={"served": sorted(counts)}),)

    def since(self, earlier: Collection[str]) -> tuple[Finding, ...]:
        """What to say where this run was served by another than those of `earlier` runs of the same judge."""
        new = sorted(set(self.fresh()) - set(earlier))
        if not earlier or not new:
            return ()
        said = (
            f"The served model changed since the store was last added to: {', '.join(sorted(earlier))} then, "
            f"{', '.join(new)} now. Answers of the two may not mean the same."
        )
        return (Finding("served", said, facts={"then": [*sorted(earlier)], "now": [*new]}),)


def _name(model: str, fingerprint: str | None) -> str:
    return model if fingerprint is None else f"{model} ({fingerprint})"
