"""Base classes of the designs over cells, from the paper: row, column, hybrid and n log n. A cell is one agent on one item.

The designs differ in the order in which they choose cells. Each cell has a threshold, the smallest sampling fraction at
which the design chooses it, so the cells of larger fractions contain those of smaller ones. The largest fraction that
fits a budget is found by bisection over the same random numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from youden.errors import PlanError
from youden.protocol.designs.cyclic import TrialDesign, check_shared_items
from youden.protocol.designs.parts.repair import (
    check_connected,
    check_count,
    check_degrees,
    check_flag,
    count_comparisons,
    draw_comparisons,
    repair,
)
from youden.types import DesignResult, Trials
from youden.types.planning import IndependentRule
from youden.types.pool import Bools, Floats

_BISECTIONS = 24
_DEFAULT_FRACTION = 1 / 3
"""Sampling fraction if neither the options of a design nor a budget determine one."""
SHARED_OPTIONS = ("d_core", "partners", "pairs", "repair")


@dataclass(frozen=True, kw_only=True)
class CellDesign(TrialDesign, ABC):
    """Base class of the designs over cells: cells are chosen, and each is compared with partners on its item.

    The d-core condition requires at least `d_core` chosen cells of each agent and on each item.

    Attributes
    ----------
    n_paired : int or None
        Maximum number of paired calls. If the design's own options set no sampling fraction, the largest one that fits is used.
        If even the smallest choice of cells does not fit with all partners, each cell gets as many partners as fit.
    pairs : {"ordered", "unordered"}, default "ordered"
        Whether pairs may be judged in both orders.
    d_core : int, default 3
        Minimum number of cells per agent and per item.
    partners : int, optional
        Number of partners of each cell; None for all, as the row score of the paper requires.
    repair : bool, default True
        Whether to add random eligible cells until the d-core is reached and all cells are connected. If False, a design
        that falls short raises an error.
    """

    d_core: int = 3
    partners: int | None = None
    repair: bool = True
    name: ClassVar[str]
    own_options: ClassVar[tuple[str, ...]]
    options: ClassVar[tuple[str, ...]]
    default_holdout: ClassVar[float] = 0.2
    default_independent: ClassVar[IndependentRule] = "matched"

    def __post_init__(self) -> None:
        check_count("d_core", self.d_core)
        check_count("partners", self.partners)
        super().__post_init__()
        check_flag("repair", self.repair)

    @abstractmethod
    def compute_thresholds(self, eligible: Bools, random_key: Floats) -> Floats:
        """Compute the threshold of each cell for the sampling fraction.

        The design chooses the cells whose threshold is below the sampling fraction, so that a larger fraction adds cells
        and removes none.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells that may be chosen.
        random_key : float array (n_agents, n_items)
            A random number in [0, 1) for each cell.

        Returns
        -------
        float array (n_agents, n_items)
            Thresholds, at least 0. Cells with a threshold of 1 or more are never chosen; cells that are not eligible have inf.
        """

    @abstractmethod
    def get_fraction(self, eligible: Bools) -> float | None:
        """Return the sampling fraction that the design's own options set; None if they set none.

        eligible : bool array (n_agents, n_items)
        """

    @abstractmethod
    def get_remedies(self, eligible: Bools) -> tuple[str, str]:
        """Return two instructions for an error message: if an agent has too few cells, and if an item has.

        eligible : bool array (n_agents, n_items)
        """

    def choose(self, eligible: Bools, rng: np.random.Generator) -> Bools:
        """Choose a random fraction of the eligible cells (agent, item): the sampling fraction of the options, or 1/3.

        With the option `repair`, random eligible cells are then added until two conditions are met:

        - Each agent and each item has at least `d_core` cells.
        - All cells are connected: a chain of cells leads from each cell to any other cell. Neighbors in the chain have the same
          agent or the same item.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells that may be chosen.
        rng : numpy.random.Generator
            Source of all random numbers.

        Returns
        -------
        bool array (n_agents, n_items)
            True for the chosen cells, all of them eligible.

        Raises
        ------
        PlanError
            [nothing-shared]: if no item has two eligible agents; [d-core]: if an agent or item has fewer than `d_core`
            eligible cells; [not-connected]: if the eligible cells form several components. Without `repair`, [d-core] and
            [not-connected] are also raised if the chosen cells do not meet the condition.
        """
        self._check_eligible(eligible)
        random_key = rng.random(eligible.shape)
        threshold = self.compute_thresholds(eligible, random_key)

        fraction = self.get_fraction(eligible)
        if fraction is None:
            fraction = _DEFAULT_FRACTION
        is_sampled = threshold < fraction
        return self._complete_or_check(is_sampled, eligible, random_key)

    def draw(self, eligible: Bools, rng: np.random.Generator) -> DesignResult:
        """Choose cells (agent, item), and draw comparisons of each cell with other agents on its item, its partners.

        By default, all eligible agents on the item are partners, even if their cells are not chosen; the option `partners` limits
        their number. If the options set a sampling fraction, or if there is no budget of `n_paired` trials, the cells are those
        of `choose`. Otherwise, as many cells are chosen as fit the budget.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells (agent, item) that may be compared.
        rng : numpy.random.Generator
            Source of all random numbers.

        Returns
        -------
        DesignResult
            Paired `trials` without blocks, and `notes` for readers of the plan (tuple of str).

        Raises
        ------
        PlanError
            The errors of `choose`; [budget-cells]: if the comparisons exceed the budget. Either the sampling fraction in the
            options is too large for the budget, or the budget is too small for any choice of cells.
        """
        n_partners = self.partners
        if self.n_paired is None or self.get_fraction(eligible) is not None:
            chosen = self.choose(eligible, rng)
        else:
            chosen, n_partners = self._choose_within_budget(eligible, rng, self.n_paired)

        n_comparisons = self._count_comparisons(chosen, eligible, n_partners)
        if self.n_paired is not None and n_comparisons > self.n_paired:
            options = " or ".join((*self.own_options, "d_core"))
            max_partners = len(eligible) - 1
            raise PlanError(
                f"The {self.name} design exceeds the budget of {self.n_paired:,} paired calls: got {n_comparisons:,}. Set more "
                f"calls, a smaller {options}, or partners below {max_partners}.",
                slug="budget-cells",
            )

        trials = draw_comparisons(chosen, eligible, n_partners=n_partners, pairs=self.pairs, rng=rng)
        notes = self.get_notes(eligible, trials) if len(trials) else ()
        return DesignResult(trials, notes)

    def get_notes(self, eligible: Bools, trials: Trials) -> tuple[str, ...]:
        """Return a note for readers of the plan if the budget was too small to compare cells with all their partners.

        The partners of a cell (agent, item) are the other agents with which it is compared on its item. There is a note if all
        cells have fewer partners than the largest number that an item allows. A subclass may add other notes.

        Parameters
        ----------
        eligible : bool array (n_agents, n_items)
            Cells that may be compared.
        trials : Trials
            The drawn trials, at least one.

        Returns
        -------
        tuple of str
            One note, without a full stop, or none. The number of partners is not checked if the option `partners` is set, or if
            `pairs` is "unordered".
        """
        if self.partners is not None or self.pairs == "unordered":
            return ()

        # with ordered pairs, a trial is a comparison of the cell of its first text
        n_items = eligible.shape[1]
        cell_by_trial = trials.first.astype(np.int64) * n_items + trials.item
        n_partners_by_cell = np.bincount(cell_by_trial)
        max_partners = int(n_partners_by_cell.max())

        n_agents_by_item = eligible.sum(axis=0)
        max_possible_partners = int(n_agents_by_item.max()) - 1
        if max_partners == max_possible_partners:
            return ()
        return (
            f"the budget is too small for the {self.name} design with all partners: "
            f"each cell is compared with {max_partners} of {max_possible_partners} others",
        )

    def _check_eligible(self, eligible: Bools) -> None:
        """Check that a choice of cells is possible.

        eligible : bool array (n_agents, n_items), cells that may be chosen

        Raises PlanError [nothing-shared] if no item has two eligible agents, [d-core] if an agent or item has fewer than
        `d_core` eligible cells.
        """
        check_shared_items(eligible)
        remedy = "There are no more training cells. Set a smaller d_core or holdout, or remove the agent or item."
        check_degrees(eligible, d=self.d_core, design=self.name, remedies=(remedy, remedy))

    def _complete_or_check(self, sampled: Bools, eligible: Bools, random_key: Floats) -> Bools:
        """Return the cells of a plan: the sampled cells, and further ones that are needed to rank the agents.

        A ranking needs at least `d_core` cells of each agent and of each item, and all cells must be connected (see `choose`).
        With the option `repair`, eligible cells are added until this is the case. Without it, the sampled cells must be enough.

        sampled : bool array (n_agents, n_items), cells below the sampling fraction
        eligible : bool array (n_agents, n_items), cells that may be added
        random_key : float array (n_agents, n_items); eligible cells with the smallest numbers are added first

        Raises PlanError [not-connected] if the cells (with `repair`, all eligible cells) are not connected. Without `repair`,
        also raises [d-core] if an agent or item has too few cells.
        """
        if self.repair:
            return repair(sampled, eligible, key=random_key, d=self.d_core)
        check_degrees(sampled, d=self.d_core, design=self.name, remedies=self.get_remedies(eligible))
        check_connected(sampled)
        return sampled

    def _choose_within_budget(self, eligible: Bools, rng: np.random.Generator, budget: int) -> tuple[Bools, int | None]:
        """Choose as many cells as a budget of paired calls allows.

        Each chosen cell is compared with its partners, other agents on the same item. The number of partners is limited only if
        the smallest possible choice of cells exceeds the budget with all partners. If it exceeds the budget even with this
        limit, it is returned anyway.

        eligible : bool array (n_agents, n_items), cells (agent, item) that may be chosen
        rng : source of all random numbers
        budget : maximum number of paired calls

        Returns the chosen cells, bool array (n_agents, n_items), and the maximum number of partners of each cell, None for all.
        """
        self._check_eligible(eligible)
        random_key = rng.random(eligible.shape)
        threshold = self.compute_thresholds(eligible, random_key)

        def choose_by_fraction(fraction: float) -> Bools:
            return self._complete_or_check(threshold < fraction, eligible, random_key)

        def fits_budget(cells: Bools, n_partners: int | None) -> bool:
            return self._count_comparisons(cells, eligible, n_partners) <= budget

        min_fraction = 0.0 if self.repair else _DEFAULT_FRACTION
        smallest_choice = choose_by_fraction(min_fraction)
        n_partners = self.partners
        if n_partners is None and not fits_budget(smallest_choice, None):
            n_affordable = budget // int(smallest_choice.sum())
            n_partners = max(1, min(n_affordable, len(eligible) - 1))
        if fits_budget(eligible, n_partners):
            return eligible, n_partners  # the budget is large enough to choose all cells

        # bisection for the largest sampling fraction that fits the budget
        low, high = min_fraction, 1.0
        for _ in range(_BISECTIONS):
            fraction = (low + high) / 2
            if fits_budget(choose_by_fraction(fraction), n_partners):
                low = fraction
            else:
                high = fraction
        return choose_by_fraction(low), n_partners

    def _count_comparisons(self, chosen: Bools, eligible: Bools, n_partners: int | None) -> int:
        """Count the comparisons of the chosen cells with up to `n_partners` partners each; None for all."""
        return count_comparisons(chosen, eligible, n_partners=n_partners, pairs=self.pairs)


class LineDesign(CellDesign):
    """Base class of the designs that choose a fraction of the cells of each agent (axis 1) or of each item (axis 0)."""

    axis: ClassVar[int]

    def compute_thresholds(self, eligible: Bools, random_key: Floats) -> Floats:
        """Compute thresholds by which the same fraction of cells is chosen for each agent, or for each item.

        A cell is chosen if its threshold is below the sampling fraction. The cells of one agent, or of one item, are called a
        line. The eligible cells of a line are ranked by `random_key`, from 0, and the rank is divided by their number. For
        example, four cells have the thresholds 0, 0.25, 0.5 and 0.75 in random order, and a fraction of 0.5 chooses two of them.
        Without a sampling fraction in the options, a random number in [0, 1) is added to all ranks of a line.

        eligible : bool array (n_agents, n_items), cells that may be compared
        random_key : float array (n_agents, n_items), random numbers in [0, 1)

        Returns a float array (n_agents, n_items), inf for cells that are not eligible.
        """
        # `argsort`, applied twice, ranks the cells of a line; cells that are not eligible come last
        eligible_key = np.where(eligible, random_key, np.inf)
        order = eligible_key.argsort(axis=self.axis)
        rank = order.argsort(axis=self.axis).astype(np.float64)

        # with these offsets, lines get their next cell at different fractions, so that a budget can be spent almost completely
        if self.get_fraction(eligible) is None:
            key_sum = random_key.sum(axis=self.axis, keepdims=True)
            offset = key_sum % 1  # the fractional part of a sum of such random numbers is uniform in [0, 1)
            rank += offset

        n_eligible_on_line = eligible.sum(axis=self.axis, keepdims=True)
        return np.where(eligible, rank / np.maximum(n_eligible_on_line, 1), np.inf)

    def get_remedies(self, eligible: Bools) -> tuple[str, str]:
        """Return instructions for an error message: if an agent has too few cells, and if an item has."""
        (option,) = self.own_options
        n_fewest = int(eligible.sum(axis=self.axis).min())
        line_remedy = f"Set {option} above {(self.d_core - 1) / n_fewest:.2f}, or a smaller d_core."
        other_remedy = f"Set a larger {option}, a smaller d_core, or repair: true."
        lines_are_agents = self.axis == 1
        return (line_remedy, other_remedy) if lines_are_agents else (other_remedy, line_remedy)
