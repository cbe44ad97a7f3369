"""What the paper's cell designs share: cells chosen, repaired to a connected d-core, and compared with partners.

Which cells come first is in each design's own file.

Every cell gets the smallest share at which the design takes it; the cells of a share are then nested, and the largest share
that a budget allows is found by bisection over the same random numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from youden.errors import PlanError
from youden.nouns import Drawn, IndependentRule, Trials
from youden.nouns.arrays import Bools, Floats
from youden.protocol.designs.checks import PairRule, check_count, check_flag, check_pairs
from youden.protocol.designs.cyclic import check_shared
from youden.protocol.designs.partners import compare, n_comparisons
from youden.protocol.designs.repair import check_connected, check_degrees, repair

_BISECTIONS = 24
SHARED_OPTIONS = ("d_core", "partners", "pairs", "repair")


@dataclass(frozen=True, kw_only=True)
class CellDesign(ABC):
    """Chooses cells; each is compared with `partners` others on its item (None: all, as the row score has it).

    n_paired: budget; without a share of the design's own, the largest share that fits is taken, and where not even the d-core
    fits with all partners, as many partners as fit. d_core: least items an agent and agents an item. repair: add random
    eligible cells up to the d-core and until all are connected; without it the design is refused where it falls short.
    pairs: see `compare`.
    """

    n_paired: int | None = None
    d_core: int = 3
    partners: int | None = None
    pairs: PairRule = "ordered"
    repair: bool = True
    name: ClassVar[str]
    own: ClassVar[tuple[str, ...]]
    options: ClassVar[tuple[str, ...]]
    holdout: ClassVar[float] = 0.2
    percent: ClassVar[float | None] = None
    judges_holdout: ClassVar[bool] = False
    independent: ClassVar[IndependentRule] = "twin"

    def __post_init__(self) -> None:
        check_count("d_core", self.d_core)
        check_count("partners", self.partners)
        check_pairs(self.pairs)
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

    @property
    @abstractmethod
    def default_share(self) -> float: ...

    def choose(self, eligible: Bools, rng: np.random.Generator) -> Bools:
        """The chosen cells, bool[K, J], by the design's own share (the default one where it has none), repaired.

        Raises: PlanError [d-core], [not-connected].
        """
        key, threshold = self._drawn(eligible, rng)
        share = self.share(eligible)
        return self._mended(eligible, key, threshold < (self.default_share if share is None else share))

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
                f"Raise calls or percent, lower {' or '.join((*self.own, 'd_core'))}, or set partners below {len(eligible) - 1}.",
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
        return 0.0 if self.repair else self.default_share

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
