"""The trials that cost each agent most, from a run's trials in blocks of rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from youden.nouns import PAIRED, Plan
from youden.nouns.arrays import Floats, Positions
from youden.report.data.answers.predictions import Predictions
from youden.report.data.answers.repeats import cell_keys
from youden.report.data.trials import TrialRows

N_SHOWN = 5
"""Trials of one agent."""
AT_ONCE = 65_536
"""Trials that are looked at together; what was found in those before leaves few of them to be sorted."""


class WorstTrials:
    """For each agent the answered trials that lie furthest below what one would expect, worst first; of several trials of two
    texts the worst.

    With p_i the score that the fit predicts for an agent on the item and p̄ their mean over agents, a paired trial of i and k is
    expected at p_i + p_k − p̄, an independent one at 0, where a yes costs.
    """

    def __init__(self, plan: Plan, predicted: Predictions | None) -> None:
        self._plan, self._predicted = plan, predicted
        self._mean = np.full(plan.n_items, 0.5)
        if predicted is not None:
            everybody = np.arange(plan.n_agents)
            for j in range(plan.n_items):
                self._mean[j] = _known(predicted.at(everybody, j)).mean()
        # agent, side, row, and the two cells of a trial
        self._kept: Positions = np.empty((5, 0), dtype=np.int64)
        self._short: Floats = np.empty(0)
        self._bar = np.full(plan.n_agents, -np.inf)

    def add(self, rows: TrialRows) -> None:
        """Of the next rows."""
        columns = rows.columns
        names = ("missing", "answer", "arm", "item", "first", "second")
        missing, answer, arm, item, first, second = (columns[name] for name in names)
        cells = cell_keys(columns, self._plan)
        for start in range(0, len(arm), AT_ONCE):
            some = start + np.flatnonzero(missing[start : start + AT_ONCE] == 0)
            short = np.where(
                arm[some] == PAIRED, self._expected(first[some], second[some], item[some]) - answer[some], answer[some]
            )
            for side, agent in enumerate((first[some], second[some])):
                near = np.flatnonzero(short >= self._bar[agent])
                at = some[near]
                pair = np.sort([cells[0][at], cells[1][at]], axis=0)
                found = np.stack([agent[near], np.full(len(near), side), rows.start + at, *pair])
                self._kept = np.concatenate([self._kept, found], axis=1)
                self._short = np.append(self._short, short[near])
            self._thin_out()

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """Of each agent."""
        ends = np.searchsorted(self._kept[0], np.arange(self._plan.n_agents + 1)).tolist()
        return tuple(tuple(self._kept[2, start:stop].tolist()) for start, stop in pairwise(ends))

    def _expected(self, first: Positions, second: Positions, item: Positions) -> Floats:
        if self._predicted is None:
            return np.full(len(first), 0.5)
        one, two = (_known(self._predicted.at(agent, item)) for agent in (first, second))
        return np.asarray(one + two - self._mean[item])

    def _thin_out(self) -> None:
        """Keep the worst of each agent, each pair of texts once."""
        agent, side, row, low, high = self._kept
        order = np.lexsort((row, side, -self._short, high, low, agent))
        texts = self._kept[[0, 3, 4]][:, order]
        order = order[np.append(True, (texts[:, 1:] != texts[:, :-1]).any(axis=0))[: len(order)]]
        order = order[np.lexsort((row[order], side[order], -self._short[order], agent[order]))]
        begin = np.searchsorted(agent[order], np.arange(self._plan.n_agents + 1))
        place = np.arange(len(order)) - begin[agent[order]]
        last = order[place == N_SHOWN - 1]
        self._bar[agent[last]] = self._short[last]
        order = order[place < N_SHOWN]
        self._kept, self._short = self._kept[:, order], self._short[order]


def _known(predicted: Floats) -> Floats:
    """Predictions, .5 where the fit gives none."""
    return np.nan_to_num(predicted, nan=0.5)
