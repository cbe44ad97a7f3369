"""Several judges as one: what most of them say, or the mean of what they say.

Nothing is guessed for a judge that did not answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from youden.nouns import MISSING_REASONS, Plan, Pool, Verdicts
from youden.nouns.arrays import Codes


class Jury:
    """Combines `ballots`, one judge's verdicts each, by `vote`.

    majority: the yes or no that more than half of all judges gave. mean: of all judges' answers, and yes from 1/2 on.
    A trial without a majority, or under `mean` without one judge's answer, is missing for the reason of the first judge
    that has none. Each judge's own answers stay in the store, where `{backend: replay, of: NAME}` finds them.
    """

    name = "jury"

    def __init__(self, ballots: Sequence[Verdicts], *, vote: str, name: str = "jury") -> None:
        self.name = name
        self._ballots = ballots
        self._vote = vote

    def answer_many(self, pool: Pool, plan: Plan) -> Verdicts:
        """The jury's verdicts; usd, tokens and seconds are sums over its judges."""
        ballots = self._ballots
        hard = np.stack([each.hard for each in ballots])
        if self._vote == "majority":
            n_yes, n_no = (hard == 1).sum(axis=0), (hard == 0).sum(axis=0)
            decided = np.maximum(n_yes, n_no) * 2 > len(ballots)
            answer = np.where(decided, (n_yes > n_no).astype(float), np.nan)
            verdict = answer
        else:
            answer = np.mean([each.answer for each in ballots], axis=0)
            verdict = np.where(np.isnan(answer), np.nan, (answer >= 0.5).astype(float))
        missing = _first_reason(np.stack([each.missing for each in ballots]))
        return Verdicts(
            plan=plan,
            answer=answer,
            hard=verdict.copy(),
            missing=np.where(np.isnan(answer), missing, 0).astype(np.int8),
            judge={
                "name": self.name,
                "backend": "jury",
                "vote": self._vote,
                "judges": [dict(each.judge) for each in ballots],
            },
            tokens_in=np.sum([_or_zeros(each.tokens_in, plan) for each in ballots], axis=0, dtype=np.int32),
            tokens_out=np.sum([_or_zeros(each.tokens_out, plan) for each in ballots], axis=0, dtype=np.int32),
            usd=np.sum([_or_zeros(each.usd, plan) for each in ballots], axis=0, dtype=float),
            seconds=np.sum([_or_zeros(each.seconds, plan) for each in ballots], axis=0, dtype=float),
            models=tuple(dict.fromkeys(model for each in ballots for model in each.models)),
            usd_tried=sum(each.usd_tried for each in ballots),
            warnings=tuple(f"{each.judge.get('name')}: {warning}" for each in ballots for warning in each.warnings),
        )


def _first_reason(missing: Codes) -> Codes:
    """int8[N]: the first reason that is not 'answered' of each column; 'unparsed' where all answered and disagree."""
    first = np.take_along_axis(missing, (missing != 0).argmax(axis=0)[None], axis=0)[0]
    return np.asarray(np.where(first == 0, MISSING_REASONS.index("unparsed"), first))


def _or_zeros(column: np.ndarray | None, plan: Plan) -> np.ndarray:
    return np.zeros(len(plan)) if column is None else column
