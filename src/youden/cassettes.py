"""What a run asked and was answered, as a cassette: out of its folder and its store, into another store, and compared.

It knows which files a run's requests are rebuilt from; it refuses to know the format of a cassette.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from youden.data.joining import read_run_pool
from youden.data.run_folder import RunFolder
from youden.errors import ConfigError, InputError
from youden.judging.cassette import Cassette, Entry, read_cassette, recorded, redact, write_cassette
from youden.judging.engine import only_judge
from youden.judging.failures import Failure
from youden.judging.judge_config import JudgeConfig, load_judge_config
from youden.judging.registry import REPLAY
from youden.judging.store import open_store
from youden.types import Plan, Pool


@dataclass(frozen=True)
class Exported:
    """What an export wrote, and how many distinct requests of the run nobody has answered."""

    n_answers: int
    n_failures: int
    n_unanswered: int


@dataclass(frozen=True)
class Imported:
    """Entries that are new to the store, and those it already had an answer to, which it keeps."""

    n_added: int
    n_kept: int


@dataclass(frozen=True, eq=False)
class _Asked:
    """What a run asked, and whom: of a replay, the judge that it repeats; of a jury, those of its judges that make calls."""

    plan: Plan
    pool: Pool
    judges: list[JudgeConfig]
    store: str


def export_cassette(folder: RunFolder, out: Path, *, redacted: bool = False) -> Exported:
    """Write what the run's store holds of the run's requests. `redacted`: hashes in place of texts.

    Raises: RunFolderError, PoolError, ConfigError [cassette-no-calls], [store-missing]; InputError [plan-other-pool].
    """
    run = _asked(folder)
    found: dict[str, Entry | None] = {}
    with open_store(run.store, read_only=True) as store:
        for judge in run.judges:
            questions, labels = judge.questions(), judge.loaded_prompt.labels
            for key, one in recorded(questions, run.plan, run.pool, store):
                found[key] = redact(one, read=questions.read, labels=labels) if one and redacted else one
    entries = {key: one for key, one in found.items() if one is not None}
    cassette = Cassette(tuple(judge.public() for judge in run.judges), entries)
    write_cassette(out, cassette)
    return Exported(cassette.n_answers, len(entries) - cassette.n_answers, len(found) - len(entries))


def import_cassette(file: Path, store: str | Path) -> Imported:
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
    return Imported(len(cassette.entries) - len(there), len(there))


def missing_keys(cassette: Cassette, folder: RunFolder) -> list[str]:
    """Keys of the run's distinct requests that `cassette` has no entry for. Raises: as `export_cassette`."""
    run = _asked(folder)
    trials = (trial for judge in run.judges for trial in judge.questions().all(run.plan, run.pool))
    asked = dict.fromkeys(key for _, key, _ in trials)
    return [key for key in asked if key not in cassette.entries]


def _asked(folder: RunFolder) -> _Asked:
    config = folder.read_config()
    pool, plan = read_run_pool(config), folder.read_plan()
    if plan.pool_digest != pool.digest:
        raise InputError(
            f"The pool of {folder.path} has changed since its plan was made (digest {plan.pool_digest[:12]}, "
            f"now {pool.digest[:12]}), so its requests cannot be rebuilt. Put the pool back as it was.",
            slug="plan-other-pool",
        )
    judge = load_judge_config(config.judge)
    if judge.backend == REPLAY:
        with open_store(config.store_place, read_only=True) as store:
            judge = judge.of or only_judge(store)
    judges = [one for one in judge.judges or (judge,) if one.makes_calls]
    if not judges:
        raise ConfigError(
            f"The judge '{judge.name}' makes no calls, so there is nothing to keep in a cassette. Give a run of another judge.",
            slug="cassette-no-calls",
        )
    return _Asked(plan, pool, judges, config.store_place)
