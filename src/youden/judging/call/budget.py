"""Keep the spending of a run under its cap, and estimate the cost of calls that got no reply.

The largest possible cost of a call is reserved before it is sent, and settled by its actual cost afterwards. The cap
can therefore be exceeded only if a provider bills more than the largest possible cost. For a call without a reply, the
cap counts that largest cost; the cost that is reported is estimated from the usage of other answers.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from dataclasses import dataclass

from youden.text.sentences import format_count
from youden.types import Finding
from youden.types.finding import Fact

PICODOLLARS_PER_USD = 1e12
"""Reservations are integers in picodollars, so that their sums are exact in any order."""


class OutOfMoneyError(Exception):
    """The next call could exceed the cap, and no call in flight can release any reservation."""


@dataclass
class UncertainCosts:
    """Calls of one model whose cost is not certain.

    Attributes
    ----------
    n_unreported : int
        Answers whose reported token counts are missing or not possible.
    usd_unreported : float
        The most that they can have cost, in USD.
    example : str or None
        Why the token counts of one such answer are not possible; None if no answer has such counts.
    n_lost : int
        Calls that were sent and got no usable reply.
    usd_lost, max_usd_lost : float
        USD booked for them (what such calls usually cost), and the most that they can have cost.
    """

    n_unreported: int = 0
    usd_unreported: float = 0.0
    example: str | None = None
    n_lost: int = 0
    usd_lost: float = 0.0
    max_usd_lost: float = 0.0

    def describe_unreported_usage(self, model: str) -> str:
        """Describe the cost that is counted for answers whose reported numbers of tokens are missing or impossible.

        Each of these answers is counted at the maximum cost of its call. The provider may charge less.

        model : name of the model

        Returns sentences for the user; "" if all answers have possible token counts.
        """
        if not self.n_unreported:
            return ""
        example = "" if self.example is None else f" (one of them: {self.example})"
        return (
            f"{format_count(self.n_unreported, 'answer')} of '{model}' reported no credible token usage{example}. The maximum "
            f"cost, {self.usd_unreported:.6g} USD, is booked. Check the provider's bill."
        )

    def findings(self, model: str) -> tuple[Finding, ...]:
        """Return messages for the user (findings) on calls whose cost on the provider's bill may differ from the counted cost.

        There is at most one finding on answers without valid token counts, and one on calls without a reply. Among its `facts`
        are the number of calls ("n") and their counted cost in USD ("usd").

        model : name of the model
        """
        findings = []
        if self.n_unreported:
            usage_facts: dict[str, Fact] = {"n": self.n_unreported, "usd": self.usd_unreported, "doubted": model}
            usage_message = self.describe_unreported_usage(model)
            findings.append(Finding("bill", usage_message, facts=usage_facts))
        if self.n_lost:
            lost_facts: dict[str, Fact] = {"n": self.n_lost, "usd": self.usd_lost, "most": self.max_usd_lost}
            findings.append(Finding("bill", self._describe_lost_calls(), facts=lost_facts))
        return tuple(findings)

    def _describe_lost_calls(self) -> str:
        """Describe the cost that is counted for calls without a usable reply, for the user."""
        return (
            f"{format_count(self.n_lost, 'attempt')} to send a request failed and may be billed: the judge sent no reply, or an "
            "empty or invalid one. Failed attempts are repeated; an answer that is still missing is counted as such. The "
            f"attempts are booked at their estimated cost, {self.usd_lost:.6g} USD. The cost cap counts their maximum cost, "
            f"{self.max_usd_lost:.6g} USD."
        )


class Budget:
    """The cap on the cost of a run, and what was spent under it.

    Several event loops may use a budget, one after another.

    Parameters
    ----------
    cap : float or None
        USD that may be spent; None for no cap.

    Attributes
    ----------
    cap : float
        USD that may be spent; infinite without a cap.
    spent : float
        USD spent so far; NaN if a price is unknown.
    uncertain : dict of str to UncertainCosts
        Calls whose cost is not certain, by model.
    """

    def __init__(self, cap: float | None) -> None:
        self.cap = math.inf if cap is None else cap
        self.spent = 0.0
        self.uncertain: defaultdict[str, UncertainCosts] = defaultdict(UncertainCosts)
        self._reserved = 0
        self._awaited_settlements: list[asyncio.Future[None]] = []  # one for each task that waits in `reserve`

    @property
    def spent_by_all(self) -> float:
        """USD spent under the cap, including the spending of other processes that share it."""
        return self.spent

    @property
    def remedy(self) -> str:
        """What the user can do when the cap is reached, as a clause."""
        if self.spent_by_all == 0:
            return "Set a higher max_cost, because this cap allows no call"
        return "Set a higher max_cost, or run the same command again, which may spend the same amount again"

    @property
    def booked(self) -> float:
        """USD booked so far. Calls without a usable reply count at their estimated cost; in `spent`, at their maximum cost."""
        return self.spent - sum(costs.max_usd_lost - costs.usd_lost for costs in self.uncertain.values())

    def record_unreported(self, model: str, usd: float, usage_error: str | None) -> None:
        """Record an answer whose token counts were not reported or are not valid, so that the report can warn about its cost.

        The cost of the answer is not added to the spending here: `settle` counts it.

        Parameters
        ----------
        model : str
            Name of the model.
        usd : float
            Cost that is counted for the answer, in USD. Answers that cost nothing or an unknown amount (NaN) are not recorded.
        usage_error : str or None
            Description of the reported token counts and of why these counts are not possible; None if no counts were reported.
            Only the first description for each model is kept, as an example for the report.
        """
        is_paid = usd > 0  # False also for NaN, an unknown cost
        if is_paid:
            costs = self.uncertain[model]
            costs.n_unreported += 1
            costs.usd_unreported += usd
            if costs.example is None:
                costs.example = usage_error

    def record_lost_call(self, model: str, usd: float, max_usd: float) -> None:
        """Record a call that was sent and got no reply, for the findings on the run.

        The cost of the call is not added to the spending here: `settle` counts it.

        Parameters
        ----------
        model : str
            Name of the model.
        usd : float
            Estimated cost that is counted for the call, in USD.
        max_usd : float
            Largest possible cost of the call, in USD. If it is 0 or unknown (NaN), the call is not recorded.
        """
        is_paid = max_usd > 0  # False also for NaN, an unknown cost
        if is_paid:
            costs = self.uncertain[model]
            costs.n_lost += 1
            costs.usd_lost += usd
            costs.max_usd_lost += max_usd

    def describe_uncertain_costs(self) -> str:
        """Describe, by model, the costs counted for answers without valid token counts and for calls without a usable reply.

        Returns sentences for the user; "" if all costs are certain.
        """
        findings = [finding for model, costs in self.uncertain.items() for finding in costs.findings(model)]
        return " ".join(finding.message for finding in findings)

    def can_reserve(self, usd: float) -> bool:
        """Return whether a cost in USD fits the cap, in addition to what is spent and reserved."""
        if self.cap == math.inf:
            return True
        reserved_picodollars = self._reserved + math.ceil(usd * PICODOLLARS_PER_USD)
        return self.spent + reserved_picodollars / PICODOLLARS_PER_USD <= self.cap

    async def reserve(self, usd: float) -> None:
        """Reserve the largest possible cost of a call. Wait for calls in flight while the cap does not allow it.

        Parameters
        ----------
        usd : float
            Largest possible cost of the call, in USD.

        Raises
        ------
        OutOfMoneyError
            If the cap does not allow the call, and no call is in flight that could release its reservation.
        """
        while not self.can_reserve(usd):
            if not self._reserved:
                raise OutOfMoneyError
            settlement = asyncio.get_running_loop().create_future()  # done when `settle` is called
            self._awaited_settlements.append(settlement)
            await settlement
        self.reserve_unconditionally(usd)

    def reserve_unconditionally(self, usd: float) -> None:
        """Reserve a cost in USD, even if this exceeds the cap."""
        if self.cap != math.inf:
            self._reserved += math.ceil(usd * PICODOLLARS_PER_USD)

    def settle(self, reserved: float, spent: float) -> None:
        """Replace the reservation of a call by its actual cost, and wake the tasks that wait for a reservation.

        Parameters
        ----------
        reserved : float
            USD that were passed to `reserve`; ignored without a cap.
        spent : float
            Actual cost in USD; 0 for a call that was not sent. If it is NaN (an unknown cost), `Budget.spent` becomes NaN, and a
            cap allows no further call.
        """
        self.spent += spent
        if self.cap == math.inf:
            return
        self._reserved -= math.ceil(reserved * PICODOLLARS_PER_USD)
        self._wake_waiting_tasks()

    def count_batch(self, batch_id: str, usd: float) -> None:
        """Do nothing: this cap holds for one command, and does not count batches that earlier commands left in progress.

        Parameters
        ----------
        batch_id : str
            Id of the batch.
        usd : float
            Largest possible cost of the batch in USD; NaN if unknown.
        """

    def _wake_waiting_tasks(self) -> None:
        """Let all tasks that wait in `reserve` check again whether the cap allows their call."""
        settlements = self._awaited_settlements
        self._awaited_settlements = []
        for settlement in settlements:
            if not settlement.done():
                settlement.set_result(None)


MIN_OBSERVATIONS = 20
"""Number of answers from which usage is estimated."""

MARGIN = 1.25
"""Factor by which the largest observed usage is multiplied to get the estimate."""


class TypicalUsage:
    """Estimates the token usage of calls without a reply from the usage that other answers reported."""

    def __init__(self) -> None:
        self._n_observations = 0
        self._max_fraction_in = 0.0  # of the largest possible number of tokens of a request
        self._max_tokens_out = 0

    def observe(self, tokens_in: int, tokens_out: int, *, max_tokens_in: int) -> None:
        """Add the usage of an answer to the largest observed usage, from which `estimate` computes its results.

        Parameters
        ----------
        tokens_in, tokens_out : int
            Reported tokens of the request and of the answer. The caller has checked that they are possible.
        max_tokens_in : int
            Largest possible number of tokens of the request, above 0.
        """
        self._n_observations += 1
        self._max_fraction_in = max(self._max_fraction_in, tokens_in / max_tokens_in)
        self._max_tokens_out = max(self._max_tokens_out, tokens_out)

    def estimate(self, max_tokens_in: int, max_tokens_out: int) -> tuple[int, int]:
        """Estimate the token usage of a call without a reply.

        With f the largest observed fraction tokens_in / max_tokens_in, the request is estimated at 1.25·f·max_tokens_in
        tokens. The answer is estimated at 1.25 times the largest observed number of tokens. Both are rounded up. Until 20 answers
        (`MIN_OBSERVATIONS`) have been observed, the estimate is the largest possible usage.

        Parameters
        ----------
        max_tokens_in, max_tokens_out : int
            Largest possible numbers of tokens of the request and of the answer.

        Returns
        -------
        tokens_in, tokens_out : int
            Estimated numbers of tokens, at most the largest possible numbers.

        Examples
        --------
        >>> usage = TypicalUsage()
        >>> for _ in range(MIN_OBSERVATIONS):
        ...     usage.observe(100, 1, max_tokens_in=400)
        >>> usage.estimate(800, 50)
        (250, 2)
        """
        if self._n_observations < MIN_OBSERVATIONS:
            return max_tokens_in, max_tokens_out
        tokens_in = math.ceil(MARGIN * self._max_fraction_in * max_tokens_in)
        tokens_out = math.ceil(MARGIN * self._max_tokens_out)
        return min(tokens_in, max_tokens_in), min(tokens_out, max_tokens_out)
