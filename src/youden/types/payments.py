"""Define the amounts that a run has paid over all commands; their total is limited by its cost cap.

The amounts are sums over the cost accounts of the run in its store, and not over the answers that the run uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class RunPayments:
    """Amounts that a run has paid over all commands, including those for answers that it no longer uses."""

    usd: float = 0.0
    """Known cost in USD of all requests that judged the run."""
    usd_unconfirmed: float = 0.0
    """Largest additional amount in USD that calls without a reply, including those of killed processes, may have cost. It counts
    towards the cost cap of the run."""
    usd_calibration: float = 0.0
    """Known cost in USD of the calibrations of the judge, which does not count towards the cost cap of the run."""
    n_unknown: int = 0
    """Number of requests whose cost is unknown, because their answers were imported or have no price."""

    @property
    def usd_under_cap(self) -> float:
        """Amount in USD that counts towards the cost cap of the run."""
        return self.usd + self.usd_unconfirmed

    @property
    def is_zero(self) -> bool:
        """Whether the run has paid nothing, and no cost is unknown."""
        return self == RunPayments()

    def describe(self) -> str:
        """Describe the amounts in one sentence, without a full stop.

        Examples
        --------
        >>> RunPayments(usd=0.18, usd_unconfirmed=0.02).describe()
        'this run has paid $0.1800 over all commands; calls without a reply may have cost up to $0.0200 more'
        """
        phrases = [f"this run has paid ${self.usd:.4f} over all commands"]
        if self.usd_unconfirmed:
            phrases.append(f"calls without a reply may have cost up to ${self.usd_unconfirmed:.4f} more")
        if self.usd_calibration:
            phrases.append(f"calibrations of its judge have cost ${self.usd_calibration:.4f}")
        if self.n_unknown:
            phrases.append(
                f"{self.n_unknown:,} of its requests have an unknown cost, because their answers were imported or have no price"
            )
        return "; ".join(phrases)


def round_up_usd(usd: float) -> float:
    """Round an amount in USD up to a millionth of a USD, except for the rounding error of a sum.

    Examples
    --------
    >>> 0.1 + 0.2, round_up_usd(0.1 + 0.2)
    (0.30000000000000004, 0.3)
    >>> round_up_usd(0.00000015)
    1e-06
    """
    picodollars = round(usd * 1e12)
    return math.ceil(picodollars / 1e6) / 1e6
