"""Return the errors of a run that is judged in batches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from youden.errors import IncompleteRunError, JudgeError, YoudenError
from youden.judging.call.failures import CallError, make_http_error, to_judge_error
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.offline.batch_providers import NOT_FOUND, BatchState, LineError
from youden.judging.store.leases import Job
from youden.text.sentences import format_count

_BAD_REQUEST = 400


def make_run_error(error: CallError, *, config: JudgeConfig, job: Job | None, store_name: str) -> YoudenError:
    """Make the error that ends the run because a batch could not be uploaded, started or polled.

    Parameters
    ----------
    error : CallError
        Error of the provider.
    config : JudgeConfig
        Config of the judge that the requests are for.
    job : Job or None
        Record of the batch; None if the batch was certainly not started.
    store_name : str
        Name of the store that contains the record, for the commands in the message.

    Returns
    -------
    IncompleteRunError or JudgeError
        IncompleteRunError [batch-unreachable] if the failure was transient. Otherwise a JudgeError: [batch-unknown] if
        the provider does not know the batch, or else the error that `to_judge_error` returns for the failure.
    """
    n_requests = "" if job is None else format_count(len(job.keys), "request")
    if job is not None and job.batch is not None and error.status == NOT_FOUND:
        return JudgeError(
            f"{config.address} does not know the batch {job.batch} of {n_requests} ({error.reason}). "
            f"Use the account that sent it, or run `youden store batches {store_name} --forget {job.batch}` to give up its "
            "answers. Then run the same command again.",
            slug="batch-unknown",
        )

    if error.kind != "transient":
        judge_error = to_judge_error(error, judge=config.name, address=config.address)
        if job is None or job.batch is not None:
            return judge_error
        return JudgeError(
            f"{judge_error.message} An earlier attempt may have started this batch of {n_requests}, so its "
            f"record is kept. To give it up and send the requests again, run `youden store batches {store_name} --forget "
            f"{job.id}`.",
            slug=judge_error.slug,
        )

    if job is None:
        return IncompleteRunError(
            f"A batch of '{config.name}' could not be sent to {config.address}: {error.reason} It was not started. Run the same "
            "command again.",
            slug="batch-unreachable",
        )
    max_cost = "" if math.isnan(job.usd) else f", which can cost up to {job.usd:.6g} USD,"
    name = job.batch or job.id
    return IncompleteRunError(
        f"The state of the batch {name} of {n_requests}{max_cost} at {config.address} is unknown: "
        f"{error.reason} It stays recorded, its requests are not sent again, and all answers are stored. Run the same command "
        f"again to check its state, or run `youden store batches {store_name} --forget {name}` to give it up and pay for its "
        "requests again.",
        slug="batch-unreachable",
    )


def batch_refused_error(job: Job, state: BatchState, *, judge: str) -> JudgeError:
    """Return the error [batch-refused] for a batch that the provider rejected as a whole.

    job : record of the batch
    state : final state of the batch, which contains the provider's reasons; the message lists the first three
    judge : name of the judge
    """
    reasons = "; ".join(f"{error.code}: {error.message}" for error in state.errors[:3]) or "no reason given"
    return JudgeError(
        f"The provider of '{judge}' rejected the batch {job.batch} of {format_count(len(job.keys), 'request')}: {reasons}. "
        "None of them was answered or paid for. Correct the judge's config, or wait if the reason is a limit, then run the same "
        "command again.",
        slug="batch-refused",
    )


def batch_cancelled_error(job: Job, *, n_unanswered: int) -> IncompleteRunError:
    """Make the error for a batch that was cancelled at the provider.

    job : record of the batch
    n_unanswered : number of its requests without an answer
    """
    return IncompleteRunError(
        f"The batch {job.batch} was cancelled at the provider: {n_unanswered:,} of its requests have no answer. All other "
        "answers are stored. Run the same command again to send the remaining requests.",
        slug="batch-cancelled",
    )


def iter_rejected_requests(job: Job, errors: Sequence[LineError]) -> Iterator[tuple[str, CallError]]:
    """Yield the requests because of which the provider rejected the whole batch: the hash and the error of each.

    Errors that name no line of the file of requests are left out.

    job : record of the batch, with the request hash of each line
    errors : errors that the provider reports, with the numbers of lines from 1
    """
    for error in errors:
        if error.line is not None and 1 <= error.line <= len(job.keys):
            request_hash = job.keys[error.line - 1]
            reason = f"{error.code}: {error.message}"
            call_error = make_http_error(_BAD_REQUEST, (error.code,), error.message, reason=reason)
            yield request_hash, call_error
