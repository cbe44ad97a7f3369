"""The paper's designs over cells: row, column, hybrid, nlogn.

Which cells come first is each design's own. What they share: cells are chosen, repaired to a connected d-core, and compared with
partners. Every cell gets the smallest share at which the design takes it; the cells of a share are then nested, and the largest
share that a budget allows is found by bisection over the same random numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import log
from typing import ClassVar

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs.cyclic import OverTrials, check_shared
from youden.protocol.designs.repair import (
    check_connected,
    check_count,
    check_degrees,
    check_flag,
    check_positive,
    check_share,
    compare,
    n_comparisons,
    repair,
)
from youden.types import Drawn, Trials
from youden.types.planning import IndependentRule
from youden.types.pool import Bools, Floats

_BISECTIONS = 24
_DEFAULT_SHARE = 1 / 3
"""Of the cells, where neither a design's own options nor a budget say one."""
SHARED_OPTIONS = ("d_core", "partners", "pairs", "repair")


@dataclass(frozen=True, kw_only=True)
class CellDesign(OverTrials, ABC):
    """Chooses cells; each is compared with `partners` others on its item (None: all, as the row score has it).

    n_paired: budget; without a share of the design's own, the largest share that fits is taken, and where not even the d-core
    fits with all partners, as many partners as fit. d_core: least items an agent and agents an item. repair: add random
    eligible cells up to the d-core and until all are connected; without it the design is refused where it falls short.
    pairs: see `compare`.
    """

    d_core: int = 3
    partners: int | None = None
    repair: bool = True
    name: ClassVar[str]
    own: ClassVar[tuple[str, ...]]
    options: ClassVar[tuple[str, ...]]
    holdout: ClassVar[float] = 0.2
    independent: ClassVar[IndependentRule] = "twin"

    def __post_init__(self) -> None:
        check_count("d_core", self.d_core)
        check_count("partners", self.partners)
        super().__post_init__()
        check_flag("repair", self.repair)

    @abstractmethod
    def threshold(self, eligible: Bools, key: Floats) -> Floats:
        """float[K, J]: a share above this takes the cell; inf where not eligible. key: random in [0, 1)."""

    @abstractmethod
    def share(self, eligible: Bools) -> float | None:
        """The share its own options ask for; None where a budget (or the default) decides."""

    @abstractmethod
    def remedies(self, eligible: Bools) -> tuple[str, str]:
        """What to raise where an agent, and where an item, is left with too few cells."""

    def choose(self, eligible: Bools, rng: np.random.Generator) -> Bools:
        """The chosen cells, bool[K, J], by the design's own share (the default one where it has none), repaired.

        Raises: PlanError [d-core], [not-connected].
        """
        key, threshold = self._drawn(eligible, rng)
        share = self.share(eligible)
        return self._mended(eligible, key, threshold < (_DEFAULT_SHARE if share is None else share))

    def draw(self, eligible: Bools, rng: np.random.Generator) -> Drawn:
        """Comparisons of the chosen cells. Raises: PlanError [d-core], [not-connected], [budget-cells]."""
        partners = self.partners
        if self.n_paired is None or self.share(eligible) is not None:
            chosen = self.choose(eligible, rng)
        else:
            key, threshold = self._drawn(eligible, rng)
            least = self._mended(eligible, key, threshold < self._least_share(eligible))
            if partners is None and self._n(least, eligible, None) > self.n_paired:
                partners = max(1, min(self.n_paired // int(least.sum()), len(eligible) - 1))
            chosen = self._largest(eligible, key, threshold, n_partners=partners)
        n = self._n(chosen, eligible, partners)
        if self.n_paired is not None and n > self.n_paired:
            raise PlanError(
                f"The {self.name} design takes {n:,} paired calls here; the budget allows {self.n_paired:,}. "
                f"Raise calls, lower {' or '.join((*self.own, 'd_core'))}, or set partners below {len(eligible) - 1}.",
                slug="budget-cells",
            )
        trials = compare(chosen, eligible, n_partners=partners, pairs=self.pairs, rng=rng)
        return Drawn(trials, self.notes(eligible, trials) if len(trials) else ())

    def notes(self, eligible: Bools, trials: Trials) -> tuple[str, ...]:
        """What a reader of the plan has to know of what was asked for and is not there."""
        if self.partners is not None or self.pairs != "ordered":
            return ()
        n_items = eligible.shape[1]
        most = int(np.bincount(trials.first.astype(np.int64) * n_items + trials.item).max())
        if most == int(eligible.sum(axis=0).max()) - 1:
            return ()
        return (
            f"the budget does not reach the smallest {self.name} design with every partner: "
            f"each cell is compared with {most} of {len(eligible) - 1} others",
        )

    def _drawn(self, eligible: Bools, rng: np.random.Generator) -> tuple[Floats, Floats]:
        check_shared(eligible)
        remedy = "No more responded, or may be trained on. Lower d_core or the holdout, or drop it."
        check_degrees(eligible, d=self.d_core, design=self.name, remedies=(remedy, remedy))
        key = rng.random(eligible.shape)
        return key, self.threshold(eligible, key)

    def _mended(self, eligible: Bools, key: Floats, chosen: Bools) -> Bools:
        if self.repair:
            return repair(chosen, eligible, key=key, d=self.d_core)
        check_degrees(chosen, d=self.d_core, design=self.name, remedies=self.remedies(eligible))
        check_connected(chosen)
        return chosen

    def _least_share(self, eligible: Bools) -> float:
        return 0.0 if self.repair else _DEFAULT_SHARE

    def _largest(self, eligible: Bools, key: Floats, threshold: Floats, *, n_partners: int | None) -> Bools:
        """The cells of the largest share whose comparisons fit the budget; those of the least share where none fits."""
        if self._n(eligible, eligible, n_partners) <= (self.n_paired or 0):
            return eligible
        low, high = self._least_share(eligible), 1.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            chosen = self._mended(eligible, key, threshold < middle)
            fits = self._n(chosen, eligible, n_partners) <= (self.n_paired or 0)
            low, high = (middle, high) if fits else (low, middle)
        return self._mended(eligible, key, threshold < low)

    def _n(self, chosen: Bools, eligible: Bools, n_partners: int | None) -> int:
        return n_comparisons(chosen, eligible, n_partners=n_partners, pairs=self.pairs)


class _OfEachLine(CellDesign):
    """A share of the cells of each agent (axis 1) or each item (axis 0)."""

    axis: ClassVar[int]

    def threshold(self, eligible: Bools, key: Floats) -> Floats:
        rank = np.where(eligible, key, np.inf).argsort(axis=self.axis).argsort(axis=self.axis)
        n = np.maximum(eligible.sum(axis=self.axis, keepdims=True), 1)
        part = 0.0 if self.share(eligible) is not None else key.sum(axis=self.axis, keepdims=True) % 1
        return np.where(eligible, (rank + part) / n, np.inf)

    def remedies(self, eligible: Bools) -> tuple[str, str]:
        (own,), least = self.own, int(eligible.sum(axis=self.axis).min())
        short = f"Raise {own} above {(self.d_core - 1) / least:.2f} or lower d_core."
        other = f"Raise {own}, lower d_core, or set repair: true."
        return (short, other) if self.axis else (other, short)


@dataclass(frozen=True, kw_only=True)
class Row(_OfEachLine):
    """⌈alpha · n_i⌉ random ones of the n_i items that agent i may be judged on.

    Under a budget the counts are alpha · n_i rounded up or down at random, so that it is spent.

    Source: the paper's row sampling, alpha ∈ {.15, .30, .45}.
    """

    alpha: float | None = None
    name: ClassVar[str] = "row"
    own: ClassVar[tuple[str, ...]] = ("alpha",)
    axis: ClassVar[int] = 1
    options: ClassVar[tuple[str, ...]] = (*own, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("alpha", self.alpha)

    def share(self, eligible: Bools) -> float | None:
        return self.alpha


@dataclass(frozen=True, kw_only=True)
class Column(_OfEachLine):
    """⌈beta · m_j⌉ random ones of the m_j agents that item j may be judged by.

    Under a budget the counts are beta · m_j rounded up or down at random, so that it is spent.

    Source: the paper's column sampling, beta ∈ {.15, .30, .45}.
    """

    beta: float | None = None
    name: ClassVar[str] = "column"
    own: ClassVar[tuple[str, ...]] = ("beta",)
    axis: ClassVar[int] = 0
    options: ClassVar[tuple[str, ...]] = (*own, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("beta", self.beta)

    def share(self, eligible: Bools) -> float | None:
        return self.beta


@dataclass(frozen=True, kw_only=True)
class Hybrid(CellDesign):
    """Each cell on its own with probability alpha · beta. Source: the paper's hybrid sampling."""

    alpha: float | None = None
    beta: float | None = None
    name: ClassVar[str] = "hybrid"
    own: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    options: ClassVar[tuple[str, ...]] = (*own, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("alpha", self.alpha)
        check_share("beta", self.beta)
        if (self.alpha is None) != (self.beta is None):
            raise PlanError(
                f"The hybrid design takes each cell with probability alpha · beta; alpha is {self.alpha}, beta is {self.beta}. "
                "Give both, or neither and a budget.",
                slug="design-option",
            )

    def threshold(self, eligible: Bools, key: Floats) -> Floats:
        return np.where(eligible, key, np.inf)

    def share(self, eligible: Bools) -> float | None:
        return None if self.alpha is None or self.beta is None else self.alpha * self.beta

    def remedies(self, eligible: Bools) -> tuple[str, str]:
        remedy = "Raise alpha or beta, lower d_core, or set repair: true."
        return remedy, remedy


@dataclass(frozen=True, kw_only=True)
class NLogN(CellDesign):
    """N = C·(K+J)·ln(K+J) cells, uniformly without replacement; capped at all there are, and said.

    c: C; without it and without a budget 1.6, a third of 30 × 200 cells.
    Source: the paper's efficient sampling, C ∈ {.5, 1, 2, 3, 5}; with C = 1.6 it covers the 33 % that its tables report.
    """

    c: float | None = None
    name: ClassVar[str] = "nlogn"
    own: ClassVar[tuple[str, ...]] = ("c",)
    options: ClassVar[tuple[str, ...]] = (*own, *SHARED_OPTIONS)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("c", self.c)
        if self.c is None and self.n_paired is None:
            object.__setattr__(self, "c", 1.6)

    def threshold(self, eligible: Bools, key: Floats) -> Floats:
        cells = np.flatnonzero(eligible)
        threshold = np.full(eligible.size, np.inf)
        threshold[cells[np.argsort(key.ravel()[cells])]] = np.arange(len(cells)) / len(cells)
        return threshold.reshape(eligible.shape)

    def share(self, eligible: Bools) -> float | None:
        return None if self.c is None else _n_cells(self.c, eligible) / int(eligible.sum())

    def remedies(self, eligible: Bools) -> tuple[str, str]:
        remedy = "Raise c, lower d_core, or set repair: true."
        return remedy, remedy

    def notes(self, eligible: Bools, trials: Trials) -> tuple[str, ...]:
        """C that exceeds the matrix is capped, and said."""
        said = super().notes(eligible, trials)
        n, n_all = 0 if self.c is None else _n_cells(self.c, eligible), int(eligible.sum())
        if n <= n_all:
            return said
        return (
            *said,
            f"c = {self.c:g} asks for {n:,} cells; there are {n_all:,} to learn from: capped at all of them",
        )


def _n_cells(c: float, eligible: Bools) -> int:
    n = sum(eligible.shape)
    return int(c * n * log(n) + 0.5)
