"""Test that scores as columns of cells equal matrices of scores, for any order of trials and number of chunks."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.protocol import scores as scores_module
from youden.protocol.scores import index_cells
from youden.types import Scores
from youden.types import cells as cells_module
from youden.types.cells import CellIndex
from youden.types.planning import Split
from youden.types.pool import Bools, Floats, Ids
from youden.types.results import Rates, ScoreKind

SIZES = {"seed": st.integers(0, 2**32 - 1), "n_agents": st.integers(2, 7), "n_items": st.integers(1, 9)}


def rates_of(rng: np.random.Generator, n_agents: int, n_items: int) -> Rates:
    """Return rates of distinct ordered pairs in random order; some lack an answer of one trial type."""
    rows = rng.permutation(n_items * n_agents * n_agents)[: rng.integers(1, 40)]
    n = len(rows)
    item, first, second = (part.astype(np.int32) for part in np.unravel_index(rows, (n_items, n_agents, n_agents)))
    n_paired, n_independent = rng.integers(0, 4, (2, n)).astype(np.int32)
    tpr, fpr = rng.random((2, n))
    return Rates(
        item=item,
        first=first,
        second=second,
        tpr=np.where(n_paired > 0, tpr, np.nan),
        fpr=np.where(n_independent > 0, fpr, np.nan),
        n_paired=n_paired,
        n_independent=n_independent,
        n_missing=np.zeros(n, dtype=np.int32),
        independent="matched" if rng.random() < 0.5 else "pooled",
        agent_ids=tuple(f"a{i}" for i in range(n_agents)),
        item_ids=tuple(f"p{j}" for j in range(n_items)),
        split=Split.without_holdout((n_agents, n_items)),
    )


def matched(rates: Rates, kind: str, fpr: float, kept: Bools) -> tuple[Floats, Floats]:
    """Return the mean of D and the number of answers of each cell, by a loop over pairs."""
    total, n, weight = np.zeros((3, rates.n_agents, rates.n_items))
    for row in range(len(rates)):
        minus = rates.fpr[row] if rates.independent == "matched" else fpr
        if np.isnan(difference := rates.tpr[row] - minus):
            continue
        for agent in [rates.first[row]] if kind == "row" else [rates.first[row], rates.second[row]]:
            cell = agent, rates.item[row]
            total[cell] += difference
            n[cell] += 1
            weight[cell] += rates.n_paired[row]
    observed = (n > 0) & kept
    return np.where(observed, total / np.maximum(n, 1), np.nan), np.where(observed, weight, 0.0)


@settings(max_examples=40, deadline=None)
@given(**SIZES, at_once=st.sampled_from([1, 8, 2**20]), kind=st.sampled_from(["row", "symmetric"]))
def test_scores_equal_those_of_a_loop_over_pairs(
    seed: int, n_agents: int, n_items: int, at_once: int, kind: ScoreKind
) -> None:
    rng = np.random.default_rng(seed)
    rates = rates_of(rng, n_agents, n_items)
    values = rng.random((n_agents, n_items)) < 0.3
    n = rates.n_independent
    fpr = float((np.nan_to_num(rates.fpr) * n).sum() / max(1, n.sum()))
    with patch.object(scores_module, "CELLS_IN_CACHE", at_once):
        everything = rates.training_scores(kind=kind)
        split = Split(~values, values, "paper", 0.3, 0)
        later = replace(rates, split=split).holdout_scores(kind=kind)
    for scores, kept in ((everything, np.ones_like(values)), (later, values)):
        value, weight = matched(rates, kind, fpr, kept)
        np.testing.assert_allclose(scores.value, value, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(scores.weight, weight)
        again = Scores.from_matrices(
            scores.value,
            scores.weight,
            role=scores.role,
            kind=scores.kind,
            agent_ids=scores.agent_ids,
            item_ids=scores.item_ids,
        ).cells
        for column, repeated in zip(scores.cells[1:], again[1:], strict=True):
            np.testing.assert_array_equal(column, repeated)
        np.testing.assert_array_equal(scores.cells.cell_index.agent, again.cell_index.agent)
        np.testing.assert_array_equal(scores.cells.cell_index.item, again.cell_index.item)


@settings(max_examples=30, deadline=None)
@given(**SIZES, n_trials=st.integers(0, 30), at_once=st.sampled_from([1, 8, 2**20]))
def test_cells_are_ordered_by_item_and_every_trial_knows_its_cell(
    seed: int, n_agents: int, n_items: int, n_trials: int, at_once: int
) -> None:
    rng = np.random.default_rng(seed)
    item = rng.integers(0, n_items, n_trials, dtype=np.int32)
    sides: Ids = rng.integers(0, n_agents, (2, n_trials), dtype=np.int32)
    with patch.object(cells_module, "CELLS_IN_CACHE", at_once), patch.object(scores_module, "CELLS_IN_CACHE", at_once):
        index, rows = index_cells(item, *sides, n_agents=n_agents, n_items=n_items)
        values = rng.normal(size=len(index))
        blocks = [block for (block,) in index.iter_matrices(values)]
    assert sorted(set(zip(np.tile(item, 2).tolist(), sides.ravel().tolist(), strict=True))) == list(
        zip(index.item.tolist(), index.agent.tolist(), strict=True)
    )
    for row, side in zip(rows, sides, strict=True):
        np.testing.assert_array_equal(index.agent[row], side)
        np.testing.assert_array_equal(index.item[row], item)
    np.testing.assert_array_equal(np.concatenate(blocks, axis=1), index.to_matrix(values, empty=0.0))
    by_agent = np.lexsort((index.item, index.agent))
    np.testing.assert_array_equal(index.by_agent, by_agent)
    again = CellIndex.from_mask(index.to_mask())
    np.testing.assert_array_equal(again.agent, index.agent)
    np.testing.assert_array_equal(again.item, index.item)


@given(**SIZES, at_once=st.sampled_from([1, 2**20]))
def test_cells_are_found_by_their_positions(seed: int, n_agents: int, n_items: int, at_once: int) -> None:
    cells = CellIndex.from_mask(np.random.default_rng(seed).random((n_agents, n_items)) < 0.5)
    with patch.object(cells_module, "CELLS_IN_CACHE", at_once):
        result = cells.find(cells.agent[:, None].astype(np.int64), cells.item[:, None].astype(np.int64))
    assert result.tolist() == [[n] for n in range(len(cells))]


def test_the_fields_of_a_result_are_read_only() -> None:
    scores = rates_of(np.random.default_rng(1), 5, 4).training_scores()
    for column in (scores.value, scores.weight, scores.cells.value, scores.cells.cell_index.item):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0
    with pytest.raises(AttributeError):
        scores.role = "holdout"  # type: ignore[misc]
