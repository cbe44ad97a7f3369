"""A Python function as a judge: it is given two responses and says whether they have the same source."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from youden.errors import JudgeError
from youden.registry import place_of
from youden.types import MISSING_REASONS, PAIRED, Plan, Verdicts

SameSource = Callable[[str, str], float | bool | None]
"""Of two responses: yes or no, or how likely, from 0 to 1; None where it cannot say."""


def answer_by(function: SameSource, plan: Plan) -> Verdicts:
    """The function's answer to every trial, in the plan's order. Nothing is stored: every call asks it anew.

    Raises: JudgeError [judge-function] where it fails, with the place, or says anything but a number from 0 to 1 or None.
    """
    name = getattr(function, "__qualname__", type(function).__name__)
    answer, responses = np.full(len(plan), np.nan), plan.pool.every
    one, two = plan.text_rows
    other = np.where(plan.arm == PAIRED, plan.item, plan.other_item)
    for n in range(len(plan)):
        texts = responses[one[n], plan.item[n]], responses[two[n], other[n]]
        try:
            said: object = function(*texts)
        except Exception as error:
            raise JudgeError(
                f"The judge {name} failed on trial {n}: {type(error).__name__}: {error} ({place_of(error)}). Correct it.",
                slug="judge-function",
            ) from error
        if said is None:
            continue
        if not isinstance(said, bool | int | float | np.number | np.bool_) or not 0 <= said <= 1:
            raise JudgeError(
                f"The judge {name} said {repr(said)[:60]} to trial {n}. A function as a judge takes two responses and returns "
                "True, False, or a number from 0 to 1, 1 for the same source; None where it cannot say.",
                slug="judge-function",
            )
        answer[n] = float(said)
    known = ~np.isnan(answer)
    return Verdicts(
        plan=plan,
        answer=answer,
        hard=np.where(known, np.round(answer), np.nan),
        missing=np.where(known, 0, MISSING_REASONS.index("unparsed")).astype(np.int8),
        judge={"name": name, "backend": "function", "module": getattr(function, "__module__", None)},
    )
