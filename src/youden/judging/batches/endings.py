"""How a run in batches says why it ends, and what can be done next; what a line cost that failed or did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from youden.errors import JudgeError, ShortRunError, YoudenError
from youden.judging.asking.endings import away_too_long
from youden.judging.batches.provider import BatchState, LineError
from youden.judging.call.failures import CallError, ends_the_run, fate, is_silence
from youden.judging.config.reading import JudgeConfig, price
from youden.judging.store.jobs import Job
from youden.nouns import Completion

NOT_FOUND = 404


def ending(error: CallError, *, config: JudgeConfig, job: Job | None, noted_in: str) -> YoudenError:
    """A step that failed for good. job: the batch it was about, where there is one. noted_in: the store."""
    if job is not None and error.status == NOT_FOUND:
        return JudgeError(
            f"{config.address} does not know the batch {job.batch} of {len(job.keys):,} requests ({error.reason}). "
            f"Use the account that sent it; to give its answers up: `youden store batches {noted_in} --forget {job.batch}`. Then "
            "run the same again.",
            slug="batch-unknown",
        )
    if job is not None and is_silence(error):
        return away_too_long(error, judge=config.name, address=config.address, outage=config.fetching.outage)
    if error.kind == "retry" and error.status is not None:
        return JudgeError(
            f"The batches of '{config.name}' at {config.address} cannot be reached for now: {error.reason} "
            "What was sent is kept there; run the same again to go on.",
            slug="batch-unreachable",
        )
    return ends_the_run(error, judge=config.name, address=config.address)


def refused(job: Job, state: BatchState, *, judge: str) -> JudgeError:
    """A batch that was not taken as a whole."""
    reasons = "; ".join(f"{error.code}: {error.message}" for error in state.errors[:3]) or "no reason given"
    return JudgeError(
        f"The provider of '{judge}' did not take the batch {job.batch} of {len(job.keys):,} requests: {reasons}. "
        "Nothing of it was asked or paid. Correct the judge's config, or wait where a limit is named, and run the same again.",
        slug="batch-refused",
    )


def cancelled(job: Job, *, n_kept: int) -> ShortRunError:
    """A batch that somebody stopped."""
    return ShortRunError(
        f"The batch {job.batch} was cancelled at the provider: {n_kept:,} of {len(job.keys):,} results came and are kept. "
        "Run the same again to ask for the rest.",
        slug="batch-cancelled",
    )


def turned_down(job: Job, errors: Sequence[LineError]) -> Iterator[tuple[str, CallError]]:
    """(key, error) of the lines for which the provider did not take the batch."""
    for error in errors:
        if error.line is not None and 0 < error.line <= len(job.keys):
            kind = fate(400, error.code)
            yield job.keys[error.line - 1], CallError(f"{error.code}: {error.message}", kind=kind, status=400)


def cost_of(outcome: Completion | CallError, config: JudgeConfig, *, worst: float) -> float:
    """USD of a line; `worst` where the provider does not say what was used, or did the work and lost it."""
    if isinstance(outcome, CallError):
        return 0.0 if outcome.free else worst
    told = outcome.tokens_in or outcome.tokens_out
    return price(config, outcome.tokens_in, outcome.tokens_out) if told else worst
