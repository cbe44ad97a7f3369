"""Export the requests and answers of a run or of a generated pool as a cassette, import them, and find missing ones.

A cassette is a file of recorded requests, each with its outcome (an answer or a failure). With it, a run or pool can be
repeated without calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.judging.backend_records import REPLAY
from youden.judging.call.failures import Failure
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.engine import load_only_judge
from youden.judging.offline.cassette_file import Cassette, Entry, iter_entries, read_cassette, redact, write_cassette
from youden.judging.question.questions import describe_trial, iter_keys
from youden.judging.store.answers import open_store, open_store_of_folder
from youden.pools.generation.agent_requests import iter_recorded_entries
from youden.pools.generation.generate import collect_requests
from youden.pools.generation.generation import RECIPE, Generation, is_generated, read_generation, read_store_location
from youden.types import Completion, Plan
from youden.types.pool import Json

Entries = tuple[tuple[dict[str, Json], ...], dict[str, Entry | None]]
"""Settings of the judges, and request hash → entry of a cassette; None for a request without an outcome."""


@dataclass(frozen=True)
class CassetteExport:
    """Result of an export.

    Attributes
    ----------
    n_answers, n_failures : int
        Number of requests with an answer, and with a failure.
    n_unanswered : int
        Number of distinct requests without an outcome. Requests that depend on a missing answer cannot be built, and
        are not counted.
    """

    n_answers: int
    n_failures: int
    n_unanswered: int


@dataclass(frozen=True)
class CassetteImport:
    """Result of an import.

    Attributes
    ----------
    n_added : int
        Number of entries that were added to the store.
    n_kept : int
        Number of requests that already had an outcome in the store, which was kept.
    """

    n_added: int
    n_kept: int


@dataclass(frozen=True, eq=False)
class _JudgedRun:
    """Plan, judges and store of a run.

    The judges are those that make calls: the members of a jury, or the judge that a replay repeats.
    """

    plan: Plan
    judges: list[JudgeConfig]
    store: str


def export_cassette(path: Path, out: Path, *, redacted: bool = False) -> CassetteExport:
    """Write the requests and outcomes of a run, or of a pool, as a cassette.

    A cassette is a file of requests and answers. It can be replayed without calls. The outcomes are read from the store that the
    run or pool names.

    Parameters
    ----------
    path : Path
        Folder of the run, or of the generated pool.
    out : Path
        File to write; an existing one is replaced, and missing folders are created.
    redacted : bool, default False
        Whether texts are replaced by hashes; for runs only.

    Returns
    -------
    CassetteExport
        Numbers of answers and failures in the cassette, and number of requests that are left out because the store has no
        outcome for them.

    Raises
    ------
    ConfigError
        [cassette-source]: if the folder is neither that of a run nor that of a generated pool; [cassette-no-calls]: if the run
        or pool makes no calls; [cassette-redact]: if a pool is to be redacted; [store-missing]: if the store does not exist;
        [store-not-opened]: if the store is on a network and the user did not name it.
    PlanError
        [plan-other-pool]: if the pool of the run has changed.
    RunFolderError, PoolError
        If a file cannot be read.
    """
    read_entries = _read_pool_entries if is_generated(path) else _read_run_entries
    judges, entry_by_request = read_entries(path, redacted)
    entries = {key: entry for key, entry in entry_by_request.items() if entry is not None}
    cassette = Cassette(judges, entries)
    write_cassette(out, cassette)
    n_failures = len(entries) - cassette.n_answers
    n_unanswered = len(entry_by_request) - len(entries)
    return CassetteExport(cassette.n_answers, n_failures, n_unanswered=n_unanswered)


def import_cassette(file: Path, store: str | Path) -> CassetteImport:
    """Add the entries of a cassette to a store.

    Parameters
    ----------
    file : Path
        The cassette.
    store : str or Path
        Path or URL of the store; it is created if it does not exist. If the store already has an outcome of a request,
        this outcome is kept.

    Returns
    -------
    CassetteImport
        Number of entries that were added, and number of entries that were not, because the store already had an outcome
        of their requests.

    Raises
    ------
    InputError
        [cassette]: if the file is not a cassette.
    ConfigError, JudgeError
        If the store cannot be opened.
    """
    cassette = read_cassette(file)
    failures = [key for key, entry in cassette.entries.items() if isinstance(entry.outcome, Failure)]
    with open_store(store) as opened:
        stored_answers = opened.answers(list(cassette.entries))
        stored_failures = opened.failures(failures)
        keys_in_store = stored_answers.keys() | stored_failures.keys()
        for key in cassette.entries.keys() - keys_in_store:
            opened.add(key, cassette.entries[key].outcome)
        for judge in cassette.judges:
            opened.remember_judge(judge)
    return CassetteImport(n_added=len(cassette.entries) - len(keys_in_store), n_kept=len(keys_in_store))


def find_missing_requests(cassette: Cassette, path: Path) -> dict[str, str]:
    """Find requests of a run, or of a generated pool, whose answers a cassette lacks.

    Parameters
    ----------
    cassette : Cassette
        Recorded requests and answers.
    path : Path
        Folder of the run or of the pool.

    Returns
    -------
    dict of str to str
        Request hash → description of the request. Requests that depend on a missing answer cannot be built, and are not listed.

    Raises
    ------
    ConfigError
        [cassette-source]: if the folder is neither that of a run nor that of a generated pool; [cassette-no-calls]: if the
        run or pool makes no calls.
    RunFolderError, PoolError, PlanError
        If a file cannot be read, or the pool of the run has changed.
    """
    if is_generated(path):
        generation = _read_generation(path)
        requests = collect_requests(generation, partial(_find_answers, cassette))
        return {key: str(request) for key, request in requests.items() if key not in cassette.entries}

    run = _read_judged_run(RunFolder(path))
    description_by_key: dict[str, str] = {}  # of the first trial with each request
    for judge in run.judges:
        for row, key in iter_keys(judge.questions(), run.plan):
            if key not in cassette.entries and key not in description_by_key:
                description_by_key[key] = describe_trial(run.plan, row)
    return description_by_key


def _find_answers(cassette: Cassette, keys: Iterable[str]) -> dict[str, Completion]:
    """Return the recorded completions of the requests with these hashes; requests that failed or are missing are left out."""
    outcomes = {key: cassette.entries[key].outcome for key in keys if key in cassette.entries}
    return {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, Completion)}


def _read_pool_entries(folder: Path, redacted: bool) -> Entries:
    """Read the requests of a generated pool, and their answers in its store.

    folder : folder of the pool
    redacted : whether to replace texts by hashes; must be False, because a replay restores the responses of the pool from the
        texts

    Returns the settings of the judges, an empty tuple because a pool has none, and the entries of the cassette by request hash.
    An entry is None if the request has no outcome. Raises: ConfigError [cassette-redact] if `redacted` is True.
    """
    if redacted:
        raise ConfigError(
            f"{folder} is a generated pool: its responses are the answers of models, so a cassette without texts could not be "
            "replayed. Remove --redact, or export a judged run.",
            slug="cassette-redact",
        )
    generation = _read_generation(folder)
    with open_store_of_folder(read_store_location(folder)) as store:
        requests = collect_requests(generation, store.answers)
        entry_by_request = dict(iter_recorded_entries(requests, store))
    return (), entry_by_request


def _read_generation(folder: Path) -> Generation:
    """Read from the folder of a generated pool how it was generated: its agents, items and instructions.

    Raises ConfigError [cassette-no-calls] if its agents query no model.
    """
    generation = read_generation(folder)
    if not generation.makes_calls:
        raise ConfigError(
            f"The agents of {folder} use no model, so there is nothing to export. Run the same command to make the same pool "
            "again.",
            slug="cassette-no-calls",
        )
    return generation


def _read_run_entries(path: Path, redacted: bool) -> Entries:
    """Read the requests of a judged run, and their answers in its store.

    path : folder of the run
    redacted : whether to replace texts by hashes

    Returns the settings of the judges without their secrets, and the entries of a cassette by request hash. An entry is None if
    the request has no outcome.
    """
    run = _read_judged_run(RunFolder(path))
    entries: dict[str, Entry | None] = {}
    with open_store_of_folder(run.store) as store:
        for judge in run.judges:
            questions = judge.questions()
            labels = judge.loaded_prompt.labels
            for request_hash, entry in iter_entries(questions, run.plan, store):
                if redacted and entry is not None:
                    entries[request_hash] = redact(entry, read=questions.read, labels=labels)
                else:
                    entries[request_hash] = entry
    return tuple(judge.public() for judge in run.judges), entries


def _read_judged_run(folder: RunFolder) -> _JudgedRun:
    """Read what a cassette of a run is made from: the plan, the judges that make calls, and the location of the store.

    A judge that replays stored answers is replaced by the judge that gave them, and a jury by its members.

    Raises ConfigError [cassette-source] if there is no run, and [cassette-no-calls] if no judge makes calls.
    """
    if folder.path.is_dir() and not folder.has("config.yaml"):
        raise ConfigError(
            f"{folder.path} is neither the folder of a run (it has no config.yaml) nor a completely generated pool (it has no "
            f"{RECIPE}). Pass one of these; to complete a pool, run the same `youden generate` again.",
            slug="cassette-source",
        )
    config = folder.read_config()
    judge = load_judge_of_run(config)
    if judge.backend == REPLAY:
        with open_store_of_folder(config.store_location) as store:
            # the config of the replay need not name the judge if the store has answers of only one judge
            judge = judge.replay_of or load_only_judge(store)

    members_of_jury = judge.judges
    all_judges = members_of_jury or (judge,)
    judges = [single_judge for single_judge in all_judges if single_judge.makes_calls]
    if not judges:
        raise ConfigError(
            f"The judge '{judge.name}' makes no calls, so there is nothing to export. Pass a run with another judge.",
            slug="cassette-no-calls",
        )
    return _JudgedRun(folder.read_plan(), judges, config.store_location)
