"""Define how the calls of a run are made: its cap, limits, progress display and batches.

Money is spent only under a cap, and only if the cap can be enforced; `check_cap` is the only place that decides this.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Literal, get_args

from youden.errors import ConfigError
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.question.questions import KeySource, iter_keys
from youden.judging.store.worker_group import WorkerGroup
from youden.run_keys import MAX_MISSING
from youden.types import Progress
from youden.types.arguments import check_argument


def _ignore(_: str) -> None:
    """Ignore a line of text."""
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
    say: Callable[[str], None] = _ignore
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    folder: Path | None = None


def make_batch_options(
    mode: Mode,
    *,
    poll: float = POLL_SECONDS,
    on_status: Callable[[str], None] | None = None,
    folder: str | Path | None = None,
) -> Batching | None:
    """Make the options for sending requests in batches, or return None if requests are sent one by one.

    A batch is a file of many requests. The provider answers it within a day, at a lower price than single requests.

    Parameters
    ----------
    mode : {"calls", "batch"}
        Whether requests are sent one by one or in batches.
    poll : float, default 30
        Seconds between two requests for the status of batches. It is checked, but has no effect, for the mode "calls".
    on_status : callable, optional
        Called with a line of text for each change. Default: nothing is reported.
    folder : str or Path, optional
        Folder for the files of batches, if the judge exchanges them with an external engine (`batch_provider: folder`) and the
        store is not a file. If the store is a file, `folder` is ignored, and the folder `batches` next to the store is used.

    Returns
    -------
    Batching or None
        None for the mode "calls".

    Raises
    ------
    ConfigError
        [judge-mode]: if the mode is unknown. [argument-type], [judge-poll]: if `poll` is not a finite number above 0.
    """
    if mode not in get_args(Mode):
        raise ConfigError(
            f"The mode of a judge must be 'calls' or 'batch': got {mode!r}. Pass one of the two.", slug="judge-mode"
        )
    check_argument("poll", poll, Real, "Pass the seconds to wait, such as 30.0.")
    if not 0 < poll < math.inf:
        raise ConfigError(
            f"poll must be a finite number of seconds above 0: got {poll:g}. Pass the seconds to wait.",
            slug="judge-poll",
        )
    if mode == "calls":
        return None
    folder_path = None if folder is None else Path(folder)
    return Batching(poll, say=on_status or _ignore, folder=folder_path)


@dataclass(frozen=True)
class JudgingOptions:
    """How the calls of a run are made.

    Attributes
    ----------
    max_cost : float or None
        USD that may be spent; None for no cap.
    max_missing : float
        Largest fraction of trials without an answer, in [0, 1]; the run stops early above it.
    retry_failed : bool
        Whether to resend requests whose stored outcome is a refusal, a truncated or unparsed answer, or a rejection.
    progress : Progress or None
        Receives progress updates.
    log : Path or None
        File that gets one line of JSON for each call and failure.
    batching : Batching or None
        Options of batches, to send all requests through the provider's Batch API at batch prices; None to send calls.
    grace : float
        Seconds that calls in flight may take after a stop signal.
    account : str or None
        Cost account of the payments in the store; None to record none.
    stored_only : bool
        Whether nothing is sent; the run then ends if the store does not contain all answers.
    read_only : bool
        With `stored_only`: whether the store is opened for reading and not changed.
    allows_pending : bool
        With `stored_only`: whether trials without a stored outcome are pending instead.
    team : WorkerGroup or None
        The other processes that work on the run; None if there are none.
    keys : callable
        Source of the keys of a plan.
    unanswered : set of str
        Hashes of the requests that were sent with these options and got no answer. `retry_failed` does not resend them, even
        if another plan is judged with the same options.
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
    read_only: bool = False
    allows_pending: bool = False
    team: WorkerGroup | None = None
    keys: KeySource = iter_keys
    unanswered: set[str] = field(default_factory=set, compare=False, repr=False)

    def retries(self, key: str) -> bool:
        """Return whether a request is resent if its stored outcome is not an answer; `key` is its hash."""
        return self.retry_failed and key not in self.unanswered


def check_cap(configs: Iterable[JudgeConfig], max_cost: float | None) -> None:
    """Check that calls that can cost money have a cap on their cost, and that the cap can be enforced.

    Parameters
    ----------
    configs : iterable of JudgeConfig
        For a jury, all its judges are checked.
    max_cost : float or None
        USD that may be spent; None for no cap.

    Raises
    ------
    ConfigError
        [max-cost], [argument-type]: if the cap is negative, NaN or no number. [max-cost-needed]: if calls can cost money
        and no cap is set. With a cap, [price-unknown]: if a price is unknown; [answer-unbounded]: if answers cost money and
        their length has no limit.
    """
    check_argument("max_cost", max_cost, Real | None, "Set an amount in USD, such as 2.0.")
    if max_cost is not None and not max_cost >= 0:
        raise ConfigError(
            f"max_cost must be a number of USD from 0 on: got {max_cost!r}. Set an amount in USD.", slug="max-cost"
        )
    for config in configs:
        if config.can_cost_money and max_cost is None:
            raise ConfigError(
                f"Calls of '{config.name}' can cost money, but no cap is set. Set max_cost in the "
                "config or --max-cost (USD); for "
                "your own server, set `price: 0` in its config.",
                slug="max-cost-needed",
            )
        for judge in config.judges or (config,):
            if max_cost is not None and judge.makes_calls:
                _check_price(judge, max_cost)


def _check_price(config: JudgeConfig, max_cost: float) -> None:
    """Raise ConfigError if the cost of a call has no known upper limit, so that the cap cannot be enforced.

    config : judge that makes calls
    max_cost : cost cap in USD
    """
    if config.price_in is None or config.price_out is None:
        raise ConfigError(
            f"The cap of {max_cost:g} USD cannot be enforced: the price of '{config.name}' is unknown. "
            "Set price_in and price_out (USD per million tokens) in its config; for your own server, set `price: 0`.",
            slug="price-unknown",
        )
    if config.price_out > 0 and config.answer_limit is None:
        raise ConfigError(
            f"The cap of {max_cost:g} USD cannot be enforced: the answers of '{config.name}' have no length limit. "
            "Set max_tokens, or max_completion_tokens under parameters.",
            slug="answer-unbounded",
        )
