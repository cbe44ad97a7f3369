"""What is settled once, before a run asks anything: its cap, its patience, who watches, and whether it goes in batches.

Money is spent under a cap only, and only under a cap that can be kept: `check_cap` is the one place that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from youden.errors import ConfigError
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.question.questions import Keys, keys
from youden.judging.store.worker_group import Team
from youden.run_keys import MAX_MISSING
from youden.types import Progress


def _say_nothing(_: str) -> None:
    return


Mode = Literal["calls", "batch"]

POLL_SECONDS = 30.0
"""Default time between two requests for the status of batches."""


@dataclass(frozen=True)
class Batching:
    """How batches of a provider's Batch API are sent and waited for.

    Attributes
    ----------
    poll : float
        Seconds between two requests for their status.
    max_requests, max_bytes : int
        Largest number of requests, and size, of one of the provider's files.
    say : callable
        Called with a line of text for each change.
    sleep : callable
        Waits for a number of seconds.
    folder : path or None
        Where `batch_provider: folder` writes its files if the store is not a file; a run uses `batches` in its folder.
    """

    poll: float = POLL_SECONDS
    max_requests: int = 50_000
    max_bytes: int = 200_000_000
    say: Callable[[str], None] = _say_nothing
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    folder: Path | None = None


def batch_options(
    mode: Mode,
    *,
    poll: float = POLL_SECONDS,
    on_status: Callable[[str], None] | None = None,
    folder: str | Path | None = None,
) -> Batching | None:
    """Make the options of batches; None if the judge is called. Raises: ConfigError [judge-mode], [judge-poll]."""
    if mode not in get_args(Mode):
        raise ConfigError(
            f"The mode of a judge must be 'calls' or 'batch': got {mode!r}. Pass one of the two.", slug="judge-mode"
        )
    if not poll > 0:
        raise ConfigError(f"poll must be above 0 seconds: got {poll:g}. Pass the seconds to wait.", slug="judge-poll")
    if mode == "calls":
        return None
    return Batching(poll, say=on_status or _say_nothing, folder=None if folder is None else Path(folder))


def calibration_account(account: str) -> str:
    """Return the cost account of the calibrations of the judge of a run with this account."""
    return f"{account} (calibration)"


@dataclass(frozen=True)
class Asking:
    """The terms of a run, made once where it begins.

    max_cost: USD it may spend; None for no cap. max_missing: share of trials without an answer above which it stops early.
    retry_failed: whether what was refused, cut off, unparsed or rejected is asked again. progress: shown how far it is.
    log: a file that gets a line of JSON for every call and failure. batching: send everything through the provider's Batch
    API, at its prices, instead of calling. grace: seconds that calls in flight get, once the run is told to stop, to be answered
    and stored. account: cost account of the payments in the store. stored_only: nothing is asked; where the store does not
    hold every answer the run ends. team: who asks the same run from other processes. keys: where the keys of a plan come from.
    """

    max_cost: float | None = None
    max_missing: float = MAX_MISSING
    retry_failed: bool = False
    progress: Progress | None = None
    log: Path | None = None
    batching: Batching | None = None
    grace: float = 8.0
    account: str | None = None
    stored_only: bool = False
    team: Team | None = None
    keys: Keys = keys


def check_cap(configs: Iterable[JudgeConfig], max_cost: float | None) -> None:
    """Whether all of `configs` may be asked under `max_cost` USD; a jury stands for its judges.

    Raises: ConfigError [max-cost], [max-cost-needed], [price-unknown], [answer-unbounded].
    """
    if max_cost is not None and not max_cost >= 0:
        raise ConfigError(f"max_cost is {max_cost}. Give an amount of USD, 0 or more.", slug="max-cost")
    for config in configs:
        if config.may_cost and max_cost is None:
            raise ConfigError(
                f"Asking '{config.name}' can cost money, and no cap was given. Set max_cost in the config or --max-cost (USD); "
                "for a server of your own say `price: 0` in its config.",
                slug="max-cost-needed",
            )
        for one in config.judges or (config,):
            if max_cost is not None and one.makes_calls:
                _check_price(one, max_cost)


def _check_price(config: JudgeConfig, max_cost: float) -> None:
    if config.price_in is None or config.price_out is None:
        raise ConfigError(
            f"There is a cap of {max_cost:g} USD, but the price of '{config.name}' is unknown. "
            "Set price_in and price_out (USD per million tokens) in its config; `price: 0` for a server of your own.",
            slug="price-unknown",
        )
    if config.price_out > 0 and config.answer_limit is None:
        raise ConfigError(
            f"There is a cap of {max_cost:g} USD, but nothing bounds the answers of '{config.name}'. "
            "Set max_tokens, or max_completion_tokens under parameters.",
            slug="answer-unbounded",
        )
