"""What a run or a generated pool asked and was answered, as a cassette: out of its folder and its store, into another
store, and compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from youden.data.folder.run_folder import RunFolder
from youden.errors import ConfigError
from youden.judging.backend_records import REPLAY
from youden.judging.call.failures import Failure
from youden.judging.config.judge_files import JudgeConfig, load_judge_of_run
from youden.judging.engine import only_judge
from youden.judging.offline.cassette_file import Cassette, Entry, read_cassette, recorded, redact, write_cassette
from youden.judging.question.questions import keys, trial_name
from youden.judging.store.answers import open_store, open_store_of_folder
from youden.pools.generation.generate import recorded as recorded_texts
from youden.pools.generation.generate import requests_of
from youden.pools.generation.generation import RECIPE, Generation, is_generated, read_generation, recorded_store
from youden.types import Completion, Plan
from youden.types.pool import Json

Found = tuple[tuple[dict[str, Json], ...], dict[str, Entry | None]]
"""The judges who were asked, and each distinct request's entry by its key, None where nobody has answered."""


@dataclass(frozen=True)
class CassetteExport:
    """What an export wrote. n_unanswered: distinct requests without an answer; further ones that would be built from those
    answers are not counted, for they are not known yet."""

    n_answers: int
    n_failures: int
    n_unanswered: int


@dataclass(frozen=True)
class CassetteImport:
    """Entries that are new to the store, and those it already had an answer to, which it keeps."""

    n_added: int
    n_kept: int


@dataclass(frozen=True, eq=False)
class _Asked:
    """What a run asked, and whom: of a replay, the judge that it repeats; of a jury, those of its judges that make calls."""

    plan: Plan
    judges: list[JudgeConfig]
    store: str


def export_cassette(path: Path, out: Path, *, redacted: bool = False) -> CassetteExport:
    """Write what the store of a run, or of a pool that `youden generate` made, holds of its requests.

    redacted: hashes in place of texts; of a judge's answers only.

    Raises: RunFolderError, PoolError, ConfigError [cassette-source], [cassette-no-calls], [cassette-redact],
    [store-missing]; PlanError [plan-other-pool].
    """
    judges, found = _found_of_pool(path, redacted) if is_generated(path) else _found_of_run(path, redacted)
    entries = {key: one for key, one in found.items() if one is not None}
    cassette = Cassette(judges, entries)
    write_cassette(out, cassette)
    return CassetteExport(cassette.n_answers, len(entries) - cassette.n_answers, len(found) - len(entries))


def import_cassette(file: Path, store: str | Path) -> CassetteImport:
    """Put every entry into `store`, made where there is none. Answers that it already has stay.

    Raises: InputError [cassette]; ConfigError, JudgeError for the store.
    """
    cassette = read_cassette(file)
    failed = [key for key, one in cassette.entries.items() if isinstance(one.outcome, Failure)]
    with open_store(store) as opened:
        there = opened.answers(list(cassette.entries)).keys() | opened.failures(failed).keys()
        for key in cassette.entries.keys() - there:
            opened.add(key, cassette.entries[key].outcome)
        for judge in cassette.judges:
            opened.remember_judge(judge)
    return CassetteImport(len(cassette.entries) - len(there), len(there))


def missing_requests(cassette: Cassette, path: Path) -> dict[str, str]:
    """Distinct requests of the run or generated pool at `path` that `cassette` has no entry for: key → which, in words.

    Of a generated pool, a response is left out where the reading that it is built from is missing too.

    Raises: as `export_cassette`.
    """
    if is_generated(path):
        wanted = requests_of(_generation_with_calls(path), lambda keys: _answers_of(cassette, keys))
        return {key: str(one) for key, one in wanted.items() if key not in cassette.entries}
    run, missing = _asked(RunFolder(path)), dict[str, str]()
    for judge in run.judges:
        for row, key in keys(judge.questions(), run.plan):
            if key not in cassette.entries:
                missing.setdefault(key, trial_name(run.plan, row))
    return missing


def _answers_of(cassette: Cassette, keys: Iterable[str]) -> dict[str, Completion]:
    outcomes = {key: cassette.entries[key].outcome for key in keys if key in cassette.entries}
    return {key: one for key, one in outcomes.items() if isinstance(one, Completion)}


def _found_of_pool(folder: Path, redacted: bool) -> Found:
    if redacted:
        raise ConfigError(
            f"{folder} was generated: what its models answered are the texts themselves, so a cassette without them would "
            "replay nothing. Leave out --redact, or export a judged run.",
            slug="cassette-redact",
        )
    generation = _generation_with_calls(folder)
    with open_store_of_folder(recorded_store(folder)) as store:
        return (), dict(recorded_texts(requests_of(generation, store.answers), store))


def _generation_with_calls(folder: Path) -> Generation:
    generation = read_generation(folder)
    if not generation.makes_calls:
        raise ConfigError(
            f"The agents of {folder} ask no model, so there is nothing to keep in a cassette: the same command makes the same "
            "pool.",
            slug="cassette-no-calls",
        )
    return generation


def _found_of_run(path: Path, redacted: bool) -> Found:
    run = _asked(RunFolder(path))
    found: dict[str, Entry | None] = {}
    with open_store_of_folder(run.store) as store:
        for judge in run.judges:
            questions, labels = judge.questions(), judge.loaded_prompt.labels
            for key, one in recorded(questions, run.plan, store):
                found[key] = redact(one, read=questions.read, labels=labels) if one and redacted else one
    return tuple(judge.public() for judge in run.judges), found


def _asked(folder: RunFolder) -> _Asked:
    if folder.path.is_dir() and not folder.has("config.yaml"):
        raise ConfigError(
            f"{folder.path} is no run's folder (no config.yaml), and no pool that `youden generate` has brought to its end "
            f"({RECIPE}). Give one of these; for a pool, the same `youden generate` goes on where it stopped.",
            slug="cassette-source",
        )
    config = folder.read_config()
    judge = load_judge_of_run(config)
    if judge.backend == REPLAY:
        with open_store_of_folder(config.store_place) as store:
            judge = judge.of or only_judge(store)
    judges = [one for one in judge.judges or (judge,) if one.makes_calls]
    if not judges:
        raise ConfigError(
            f"The judge '{judge.name}' makes no calls, so there is nothing to keep in a cassette. Give a run of another judge.",
            slug="cassette-no-calls",
        )
    return _Asked(folder.read_plan(), judges, config.store_place)
