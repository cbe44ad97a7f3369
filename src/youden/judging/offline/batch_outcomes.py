"""Find the outcomes of the requests of a batch that has ended in its result files."""

from __future__ import annotations

from collections.abc import Sequence

from youden.judging.call.failures import CallError
from youden.judging.offline.batch_errors import iter_rejected_requests
from youden.judging.offline.batch_providers import BatchState
from youden.judging.offline.lines import iter_results
from youden.judging.store.leases import Job
from youden.types import Completion


def find_outcomes(
    job: Job, state: BatchState, files: Sequence[bytes]
) -> tuple[dict[str, Completion | CallError], list[str]]:
    """Find the outcomes of the requests of a batch that has ended, and the requests whose results are still missing.

    - The outcome of a request with a result is this result.
    - Without any result, the outcomes are the errors of the requests because of which the provider rejected the batch.
    - A request without a result did not run if the files are complete, for example because the batch expired. Its outcome is then
      a transient failure, so that it may be sent again. If the status is "failed", it has no outcome.
    - If the files are not complete, the result is missing and will follow.

    job : record of the batch, with the hashes of its requests whose results are not stored yet
    state : final state of the batch. The files are complete if at least `state.n_lines` requests of the batch have a result, in
        the files or stored earlier. If `state.n_lines` is None, the files never count as complete.
    files : contents of the result files. Damaged lines are ignored, and results of requests of other batches are not returned.
        If a request has several results, the first answer counts, or else the first error.

    Returns the outcomes by request hash (an answer or the error of the request), and the hashes of the requests whose results
    are missing.
    """
    results = _merge_results(files)
    outcomes = {key: results[key] for key in job.keys if key in results}
    n_results = len(outcomes)
    if n_results == 0:
        outcomes |= dict(iter_rejected_requests(job, state.errors))
    keys_without_outcome = [key for key in job.keys if key not in outcomes]

    n_stored_earlier = max(0, (state.n_requests or 0) - len(job.keys))
    are_files_complete = state.n_lines is not None and n_stored_earlier + n_results >= state.n_lines
    if not are_files_complete:
        return outcomes, keys_without_outcome

    if state.status != "failed":
        did_not_run = CallError(f"The batch {state.status} without running it.", kind="transient", unbilled=True)
        outcomes |= dict.fromkeys(keys_without_outcome, did_not_run)
    return outcomes, []


def _merge_results(files: Sequence[bytes]) -> dict[str, Completion | CallError]:
    """Read the outcome of each request, by its hash, from the contents of result files.

    If a request has several results, an answer takes precedence over a failure, and the first answer over later ones.
    """
    outcomes: dict[str, Completion | CallError] = {}
    for file in files:
        for key, outcome in iter_results(file):
            is_answer = isinstance(outcome, Completion)
            had_answer = isinstance(outcomes.get(key), Completion)
            if key not in outcomes or (is_answer and not had_answer):
                outcomes[key] = outcome
    return outcomes
