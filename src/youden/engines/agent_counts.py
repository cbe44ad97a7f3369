"""Count the trials of each agent while the trials of a run are read, for columns of the ranking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from youden.types import MISSING_REASONS, PAIRED, Plan
from youden.types.trials import FOLLOW_UP

_ANSWERED = 0
_PENDING = MISSING_REASONS.index("pending")


class AgentCounts:
    """Values by agent that are counted or summed over single trials.

    A column of the ranking may have the name of an attribute; it then contains the values of that attribute.

    Parameters
    ----------
    plan : Plan
        Plan of the run. Its `question` states what the answers mean.

    Attributes
    ----------
    n_unanswered : int array (n_agents,)
        Paired trials of each agent that have no answer, for example because the judge refused, or because the request was
        too long. Pending trials of an unfinished run are not counted.
    """

    def __init__(self, plan: Plan) -> None:
        self.n_unanswered = np.zeros(plan.n_agents, dtype=np.int64)

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Count the unanswered paired trials of each agent in a chunk, and add the counts to `n_unanswered`.

        A trial counts once for each of its two agents. Trials that still wait for an answer are not counted. Neither are
        follow-ups, which are additional trials that serve only to flag suspicious groups of agents.

        columns : arrays (n_trials,) by name of the column: those of the plan, and the answers
        """
        is_paired = (columns["trial_type"] == PAIRED) & (columns["role"] != FOLLOW_UP)
        has_answer = columns["missing_reason"] == _ANSWERED
        is_pending = columns["missing_reason"] == _PENDING
        is_unanswered = is_paired & ~has_answer & ~is_pending

        # count a trial once if both responses are of the same agent, as in pools of one or two agents
        first, second = columns["first"][is_unanswered], columns["second"][is_unanswered]
        agents = np.append(first, second[second != first])
        self.n_unanswered += np.bincount(agents, minlength=len(self.n_unanswered))
