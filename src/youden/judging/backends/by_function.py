"""Judge a plan by a Python function that gets two responses and decides whether they have the same source."""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import iscoroutine

import numpy as np

from youden.errors import JudgeError
from youden.registry import locate_exception
from youden.types import MISSING_REASONS, PAIRED, Plan, Progress, Verdicts

SameSource = Callable[[str, str], float | bool | None]
"""Function of two responses that returns a bool, a probability of the same source, or None for no answer."""


def judge_by_function(function: SameSource, plan: Plan, progress: Progress | None = None) -> Verdicts:
    """Call a function for every trial of a plan, in the plan's order, and return its answers as verdicts.

    The answers are not stored, so the function is called again for each plan.

    Parameters
    ----------
    function : callable
        Called as ``function(text_a, text_b)``; returns a bool, a number in [0, 1] (1 = same source), or None for no answer. It
        must not be async.
    plan : Plan
        Trials to be judged, with the pool of their texts.
    progress : Progress, optional
        Receives the progress. It is started and stopped by this function. Default: no progress is reported.

    Returns
    -------
    Verdicts
        One answer per trial, in [0, 1]; NaN, with the reason "unparsed", if the function returned None. The hard answer is 1 if
        the answer is at least 0.5, else 0. No cost is recorded.

    Raises
    ------
    JudgeError
        [judge-function] if the function raises an exception or returns anything else, for example NaN or a coroutine.
    PlanError
        [plan-no-pool] if the plan has no pool; [plan-other-pool] if the pool of its run has changed.
    """
    texts = plan.pool.all_texts
    first_rows, second_rows = plan.text_rows
    second_items = np.where(plan.trial_type == PAIRED, plan.item, plan.other_item)
    answer = np.empty(len(plan))
    if progress is not None:
        progress.start(len(plan), what=_get_name(function))
    try:
        for trial in range(len(plan)):
            text_a = texts[first_rows[trial], plan.item[trial]]
            text_b = texts[second_rows[trial], second_items[trial]]
            answer[trial] = _call_function(function, text_a, text_b, trial=trial)
            if progress is not None and np.isnan(answer[trial]):
                progress.advance(failed=1, reason="unparsed")
            elif progress is not None:
                progress.advance()
    finally:
        if progress is not None:
            progress.stop()

    has_answer = ~np.isnan(answer)
    return Verdicts(
        plan=plan,
        answer=answer,
        hard_answer=np.where(has_answer, answer >= 0.5, np.nan),
        missing_reason=np.where(has_answer, 0, MISSING_REASONS.index("unparsed")).astype(np.int8),
        judge={"name": _get_name(function), "backend": "function", "module": getattr(function, "__module__", None)},
    )


def _call_function(function: SameSource, text_a: str, text_b: str, *, trial: int) -> float:
    """Ask a judge that is a Python function whether two texts have the same source, and check what it returns.

    function : returns True, False, a number from 0 to 1 (1 = same source), or None if it cannot decide
    text_a, text_b : the two responses of the trial
    trial : position of the trial in the plan, for error messages

    Returns the answer as a number from 0 to 1; NaN if the function returned None.
    Raises: JudgeError [judge-function] if the function raises an exception, is async, or returns anything else.
    """
    try:
        result: object = function(text_a, text_b)
    except Exception as error:
        raise JudgeError(
            f"The judge {_get_name(function)} failed on trial {trial}: {type(error).__name__}: {error} "
            f"({locate_exception(error)}). Correct the function.",
            slug="judge-function",
        ) from error

    if result is None:
        return math.nan
    if iscoroutine(result):
        result.close()  # without it, Python warns that the coroutine was never awaited
        name = _get_name(function)
        raise JudgeError(
            f"The judge {name} is an async function: got a coroutine for trial {trial}. In a script, pass a function that waits "
            f"for it, such as `lambda a, b: asyncio.run({name}(a, b))`.",
            slug="judge-function",
        )
    if not isinstance(result, bool | int | float | np.integer | np.floating | np.bool_) or not 0 <= result <= 1:
        raise JudgeError(
            f"The judge {_get_name(function)} must return True, False, a number from 0 to 1, or None: got {repr(result)[:60]} "
            f"for trial {trial}. Return 1 for yes (the same source, or the first response is better), 0 for no, and None for no "
            "answer.",
            slug="judge-function",
        )
    return float(result)


def _get_name(function: SameSource) -> str:
    name: str = getattr(function, "__qualname__", type(function).__name__)
    return name
