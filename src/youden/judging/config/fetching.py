"""How a judge's answers are fetched: key, pace, retries and price. None of it changes an answer or its key."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from youden.judging.call.concurrency import START

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Fetching(BaseModel):
    """Prices are USD per million tokens; None is unknown, 0 is known. Times are seconds.

    `concurrency` is the most calls in flight, `start_concurrency` how many at first. `seconds_per_call` is what a call is
    thought to take; only the minutes of a plan rest on it. `outage` is how long a server that answered may be away before the run
    stops; 0 counts every failure as a try of its call. `batch_discount` is the share of the price that the provider takes
    off in a batch. `batch_provider` is who works batches off: None for the backend's own, `folder` for whoever takes files
    from a folder and puts results beside them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    api_key_env: str | None = Field(default="OPENAI_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    concurrency: Positive = 64
    start_concurrency: Positive = START
    requests_per_minute: Rate | None = None
    tokens_per_minute: Rate | None = None
    seconds_per_call: Seconds | None = None
    timeout: Seconds = 60.0
    max_tries: Positive = 6
    backoff: Seconds = 0.5
    outage: Annotated[float, Field(ge=0)] = 900.0
    price_in: Price | None = None
    price_out: Price | None = None
    batch_discount: Annotated[float, Field(ge=0, le=1)] = 0.0
    batch_provider: str | None = Field(default=None, min_length=1)

    def unpaced(self) -> Self:
        """Without limits of requests and tokens a minute."""
        return self.model_copy(update={"requests_per_minute": None, "tokens_per_minute": None})

    def at_batch_prices(self) -> Self:
        """At the prices of a batch."""

        def off(usd: float | None) -> float | None:
            return None if usd is None else usd * (1 - self.batch_discount)

        prices = {"price_in": off(self.price_in), "price_out": off(self.price_out)}
        return self.model_copy(update={**prices, "batch_discount": 0.0})
