"""Find the outcomes of the requests of a batch that has ended in its result files."""

from __future__ import annotations

from collections.abc import Sequence

from youden.judging.call.failures import CallError
from youden.judging.offline.batch_errors import rejected_lines
from youden.judging.offline.batch_providers import BatchState
from youden.judging.offline.lines import iter_results
from youden.judging.store.leases import Job
from youden.types import Completion


def find_outcomes(
    job: Job, state: BatchState, files: Sequence[bytes]
) -> tuple[dict[str, Completion | CallError], list[str]]:
    """Return the outcomes of a batch that has ended by request hash, and the hashes whose results will follow.

    job : record of the batch, with the hashes of its requests
    state : final state, with the number of result lines that the provider announces, None if it announces none, and the
        errors of rejected requests, which count if no file has a result
    files : contents of the result files; damaged lines and lines of other requests are ignored

    Results follow for the requests without a valid line if the files have fewer lines than announced, or if no number is
    announced. Otherwise, such a request did not run: it fails as transient, or has no outcome if the whole batch failed.
    """
    results = _merge_results(files)
    outcomes = {key: results[key] for key in job.keys if key in results}
    if not results:
        outcomes |= dict(rejected_lines(job, state.errors))
    keys_without_outcome = [key for key in job.keys if key not in outcomes]

    has_announced_lines = state.n_lines is not None and len(results) >= state.n_lines
    if not has_announced_lines:
        return outcomes, keys_without_outcome
    if state.status == "failed":
        return outcomes, []

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
