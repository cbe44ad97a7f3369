"""Judge a plan by a Python function that gets two responses and decides whether they have the same source."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from youden.errors import JudgeError
from youden.registry import locate_exception
from youden.types import MISSING_REASONS, PAIRED, Plan, Verdicts

SameSource = Callable[[str, str], float | bool | None]
"""Function of two responses that returns a bool, a probability of the same source, or None for no answer."""


def judge_by_function(function: SameSource, plan: Plan) -> Verdicts:
    """Answer every trial of a plan by a function, in the plan's order.

    The function is called for all trials each time; its answers are not stored.

    Parameters
    ----------
    function : callable
        Called as ``function(text_a, text_b)``; returns a bool, a number in [0, 1] (1 = same source), or None
        for no answer.
    plan : Plan
        The plan, with its pool.

    Returns
    -------
    Verdicts
        One answer per trial; NaN, with the reason "unparsed", if the function returned None.

    Raises
    ------
    JudgeError
        [judge-function] if the function raises an exception or returns anything else.
    """
    name = getattr(function, "__qualname__", type(function).__name__)
    answer, responses = np.full(len(plan), np.nan), plan.pool.all_texts
    first_rows, second_rows = plan.text_rows
    second_items = np.where(plan.trial_type == PAIRED, plan.item, plan.other_item)
    for n in range(len(plan)):
        texts = responses[first_rows[n], plan.item[n]], responses[second_rows[n], second_items[n]]
        try:
            result: object = function(*texts)
        except Exception as error:
            raise JudgeError(
                f"The judge {name} failed on trial {n}: {type(error).__name__}: {error} ({locate_exception(error)}). Correct the "
                "function.",
                slug="judge-function",
            ) from error
        if result is None:
            continue
        if not isinstance(result, bool | int | float | np.number | np.bool_) or not 0 <= result <= 1:
            raise JudgeError(
                f"The judge {name} must return True, False, a number from 0 to 1, or None: got {repr(result)[:60]} for trial "
                f"{n}. Return True or 1 for the same source, and None for no answer.",
                slug="judge-function",
            )
        answer[n] = float(result)

    has_answer = ~np.isnan(answer)
    return Verdicts(
        plan=plan,
        answer=answer,
        hard_answer=np.where(has_answer, np.round(answer), np.nan),
        missing_reason=np.where(has_answer, 0, MISSING_REASONS.index("unparsed")).astype(np.int8),
        judge={"name": name, "backend": "function", "module": getattr(function, "__module__", None)},
    )
