"""Which model and build answered, by what replies say of themselves, and whether that changed while nobody looked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from youden.nouns import Completion


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

    def warnings(self) -> tuple[str, ...]:
        """What to say where not all answers come from the same model and build."""
        if len(self.names()) < 2:
            return ()
        counts: Counter[str] = Counter()
        for (model, fingerprint, _), n in self._n.items():
            counts[_name(model, fingerprint)] += n
        who = ", ".join(f"{name} ({n:,} answers)" for name, n in sorted(counts.items()))
        return (
            f"The served model changed between answers: {who}. They may not mean the same; judge again to have one.",
        )

    def since(self, earlier: Collection[str]) -> tuple[str, ...]:
        """What to say where this run was served by another than those of `earlier` runs of the same judge."""
        new = sorted(set(self.fresh()) - set(earlier))
        if not earlier or not new:
            return ()
        return (
            f"The served model changed since the store was last added to: {', '.join(sorted(earlier))} then, "
            f"{', '.join(new)} now. Answers of the two may not mean the same.",
        )


def _name(model: str, fingerprint: str | None) -> str:
    return model if fingerprint is None else f"{model} ({fingerprint})"
