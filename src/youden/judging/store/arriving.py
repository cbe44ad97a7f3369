"""Answers looked up, and answers as they arrive in the rows of a plan.

Which requests the store already knows, a chunk at a time.

Which model and build answered, by what replies say of themselves, and whether that changed while nobody looked.

Verdicts while they come in, in any order, and their counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from youden.judging.call.failures import Failure
from youden.judging.question.parsing import Reading
from youden.judging.store.answers import Payment, Store
from youden.nouns import MISSING_REASONS, Completion, Finding, Json, Plan, Request, Verdicts

CHUNK = 1000


@dataclass(frozen=True)
class Known:
    """One distinct request of a chunk, the rows that ask it, and what the store holds of it. ask: makes it, by row and key."""

    key: str
    rows: tuple[int, ...]
    completion: Completion | None
    failure: Failure | None
    ask: Callable[[int, str], Request]

    @cached_property
    def request(self) -> Request:
        """Made when it is looked at: what is answered needs none."""
        return self.ask(self.rows[0], self.key)

    def settled(
        self, is_answer: Callable[[Completion], bool], *, retry_failed: bool = False
    ) -> Completion | Failure | None:
        """What stands without a call: a stored answer, or a rejection; under `retry_failed` only what `is_answer`."""
        if self.completion is not None:
            return self.completion if not retry_failed or is_answer(self.completion) else None
        rejected = self.failure is not None and self.failure.kind == "rejected"
        return self.failure if rejected and not retry_failed else None


def look_up(
    keys: Iterable[tuple[int, str]], store: Store, *, ask: Callable[[int, str], Request], size: int = CHUNK
) -> Iterator[list[Known]]:
    """(row, key) in order, in chunks of `size` rows, identical requests of a chunk together. ask: as `Known` has it."""
    rest = iter(keys)
    while chunk := list(islice(rest, size)):
        rows: dict[str, list[int]] = {}
        for row, key in chunk:
            rows.setdefault(key, []).append(row)
        answers = store.answers(list(rows))
        failures = store.failures([key for key in rows if key not in answers])
        yield [Known(key, tuple(at), answers.get(key), failures.get(key), ask) for key, at in rows.items()]


class Served:
    """Counts answers by the model and fingerprint that gave them, those found in the store apart."""

    def __init__(self) -> None:
        self._n: Counter[tuple[str, str | None, bool]] = Counter()

    def count(self, completion: Completion, *, n: int, stored: bool) -> None:
        """`n` trials were answered by `completion`."""
        self._n[completion.model, completion.fingerprint, stored] += n

    def count_stored(self, completions: Iterable[Completion]) -> None:
        """Each of them answered one trial, from the store."""
        self._n.update((one.model, one.fingerprint, True) for one in completions)

    def names(self) -> list[str]:
        """Every model, with its fingerprint where it has one, in order of the alphabet: part of the signature."""
        return sorted({_name(model, fingerprint) for model, fingerprint, _ in self._n})

    def fresh(self) -> list[str]:
        """The names of those that answered in this run."""
        return sorted({_name(model, fingerprint) for model, fingerprint, stored in self._n if not stored})

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


_CODES = {reason: code for code, reason in enumerate(MISSING_REASONS)}


class VerdictColumns:
    """One row a trial, `not_asked` until `put`; `n_done` rows were put, `n_missing` of them without an answer."""

    def __init__(self, n_trials: int) -> None:
        self._counts: Counter[str] = Counter()
        self._answer = np.full(n_trials, np.nan)
        self._hard = np.full(n_trials, np.nan)
        self._missing = np.full(n_trials, _CODES["not_asked"], dtype=np.int8)
        self._key = np.zeros(n_trials, dtype="S64")
        self._tokens_in = np.zeros(n_trials, dtype=np.int32)
        self._tokens_out = np.zeros(n_trials, dtype=np.int32)
        self._usd = np.zeros(n_trials)
        self._seconds = np.zeros(n_trials)
        self._served = np.full(n_trials, -1, dtype=np.int32)
        self._models: dict[str, int] = {}
        self._usd_tried = 0.0
        self.served = Served()

    def put(
        self,
        rows: Sequence[int],
        key: str,
        reading: Reading,
        *,
        completion: Completion | None = None,
        stored: bool = False,
    ) -> None:
        """The same reading, of `completion`, for every trial of `rows`. stored: whether it was there before this run."""
        model = -1
        if completion is not None and completion.model:
            model = self._models.setdefault(completion.model, len(self._models))
            self.served.count(completion, n=len(rows), stored=stored)
        missing = _CODES[reading.missing]
        for row in rows:
            self._key[row] = key
            self._answer[row] = reading.answer
            self._hard[row] = reading.hard
            self._missing[row] = missing
            self._served[row] = model
        self._counts[reading.missing] += len(rows)

    def put_stored(self, found: Sequence[tuple[Sequence[int], str, Reading, Completion]]) -> None:
        """As `put` of what was there before this run, many at once: rows, key, reading and completion of each."""
        once = [(row, key, reading, said) for rows, key, reading, said in found for row in rows]
        if not once:
            return
        rows, keys, readings, said = zip(*once, strict=True)
        models = [self._models.setdefault(one.model, len(self._models)) if one.model else -1 for one in said]
        at = np.array(rows)
        self._key[at] = np.array(keys, dtype="S64")
        self._answer[at] = [reading.answer for reading in readings]
        self._hard[at] = [reading.hard for reading in readings]
        self._missing[at] = [_CODES[reading.missing] for reading in readings]
        self._served[at] = models
        self._counts.update(reading.missing for reading in readings)
        self.served.count_stored(one for one in said if one.model)

    def correct(self, key: str, reading: Reading, *, completion: Completion | None) -> None:
        """Another reading for the rows that were put under `key`."""
        rows = np.flatnonzero(self._key == key.encode()).tolist()
        if rows:
            self._counts[MISSING_REASONS[self._missing[rows[0]]]] -= len(rows)
            self.put(rows, key, reading, completion=completion)

    def bill(self, row: int, *, usd: float, completion: Completion | None = None) -> None:
        """What the call behind `row` cost; trials that share the call cost nothing more."""
        self._usd[row] = usd
        if completion is not None:
            self._tokens_in[row], self._tokens_out[row] = completion.tokens_in, completion.tokens_out
            self._seconds[row] = completion.seconds

    def bill_all(self, paid: Mapping[str, Payment], tried: Mapping[str, Payment]) -> None:
        """What was paid by request, in all passes, instead of what `bill` was told; `tried` is told apart from it."""
        keys, first = np.unique(self._key, return_index=True)
        for key, row in zip(keys.tolist(), first.tolist(), strict=True):
            name = key.decode()
            if (one := paid.get(name)) is not None:
                self._tokens_in[row], self._tokens_out[row] = one.tokens_in, one.tokens_out
                self._usd[row], self._seconds[row] = one.usd, one.seconds
            if (other := tried.get(name)) is not None:
                self._usd_tried += other.usd

    @property
    def n_done(self) -> int:
        return self._counts.total()

    @property
    def n_missing(self) -> int:
        return self._counts.total() - self._counts["answered"]

    def missing_in_words(self) -> str:
        """How many of the rows put have no answer, by reason; empty where all have one."""
        return ", ".join(f"{n} {reason}" for reason, n in sorted(self._counts.items()) if reason != "answered")

    def verdicts(self, plan: Plan, judge: Mapping[str, Json], *, warnings: tuple[Finding, ...] = ()) -> Verdicts:
        """The columns, frozen. Who served the answers is added to `judge`, a change of it to `warnings`."""
        warnings = (*warnings, *self.served.warnings())
        served: list[Json] = [*self.served.names()]
        if self.n_missing:
            said = (
                f"{self.n_missing} of {len(plan)} trials have no answer ({self.missing_in_words()}): missing, not a no."
            )
            warnings = (*warnings, Finding("missing", said, facts={"n": self.n_missing, "of": len(plan)}))
        return Verdicts(
            plan=plan,
            answer=self._answer,
            hard=self._hard,
            missing=self._missing,
            judge={**judge, "served": served},
            key=self._key,
            tokens_in=self._tokens_in,
            tokens_out=self._tokens_out,
            usd=self._usd,
            seconds=self._seconds,
            usd_tried=self._usd_tried,
            served=self._served,
            models=tuple(self._models),
            warnings=warnings,
        )
