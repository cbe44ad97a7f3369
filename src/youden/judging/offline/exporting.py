"""Write the requests of a plan into files that any engine can read: JSON lines or Parquet, and `export.json`.

`export.json` describes the judge to the engine that answers; an import needs only the request hashes. Requests are made
when they are written, so that a plan takes only a few bytes of memory per request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from youden.data.atomic import make_directory, move_into_place, remove_leftovers, scratch_directory
from youden.errors import InputError
from youden.judging.call.failures import is_final
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.offline.lines import make_request_line
from youden.judging.question.questions import Questions, iter_keys
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import CHUNK
from youden.types import Plan, Request
from youden.types.pool import Positions

KEY_BYTES = 32
"""Length of a request hash, a SHA-256."""


@dataclass(frozen=True, eq=False)
class RequestTable:
    """The distinct requests of one judge about a plan, in ascending order of their hashes.

    Attributes
    ----------
    config : JudgeConfig
        Config of the judge that the requests are for.
    request_hashes : bytes array S32, shape (n_requests,)
        Request hashes, ascending.
    first_trials : int array, shape (n_requests,)
        Position in the plan of the first trial that needs each request.
    characters : int array, shape (n_requests,)
        Total length of the messages of each request.
    n_messages : int
        Number of messages of each request.
    """

    config: JudgeConfig
    request_hashes: np.ndarray
    first_trials: Positions
    characters: Positions
    n_messages: int

    @classmethod
    def from_plan(cls, config: JudgeConfig, plan: Plan) -> RequestTable:
        """Make the table of all requests of a judge about a plan. Trials that need the same request share a row.

        Parameters
        ----------
        config : JudgeConfig
            A judge that makes calls (this is not checked). For a jury, make one table per judge.
        plan : Plan
            Trials to be judged, with their pool.

        Returns
        -------
        RequestTable
            One row per distinct request, in ascending order of the request hashes, with the position of the first trial that
            needs it.

        Raises
        ------
        InputError
            [plan-missing-text]: if the pool has no response for a trial.
        PlanError
            [plan-no-pool]: if the plan has no pool.
        """
        questions = config.questions()
        hash_by_trial = np.empty(len(plan), dtype=f"S{KEY_BYTES}")  # bytes need half the memory of hexadecimal digits
        for trial, hexadecimal_hash in iter_keys(questions, plan):
            hash_by_trial[trial] = bytes.fromhex(hexadecimal_hash)
        unique_hashes, first_trials = np.unique(hash_by_trial, return_index=True)
        characters = questions.count_characters(plan)[first_trials]

        # the prompt alone determines the number of messages, so it is counted for two empty texts
        example_messages = questions.prompt.messages("", "", hint=questions.hint)
        return cls(config, unique_hashes, first_trials, characters, len(example_messages))

    def find(self, request_hashes: np.ndarray) -> np.ndarray:
        """Find the positions of request hashes in this table.

        Parameters
        ----------
        request_hashes : bytes array S32, shape (n,)
            Hashes to find.

        Returns
        -------
        int array, shape (n,)
            Position of each hash; −1 if the table does not contain it.
        """
        n_requests = len(self.request_hashes)
        if n_requests == 0:
            return np.full(len(request_hashes), -1)
        insertion_points = np.searchsorted(self.request_hashes, request_hashes)
        candidates = np.minimum(insertion_points, n_requests - 1)
        is_found = self.request_hashes[candidates] == request_hashes
        positions: np.ndarray = np.where(is_found, candidates, -1)
        return positions

    def get_key(self, position: int) -> str:
        """Return the request hash at a position as 64 hexadecimal digits."""
        hash_bytes = bytes(self.request_hashes[position]).ljust(KEY_BYTES, b"\0")  # NumPy strips trailing zero bytes
        return hash_bytes.hex()

    def iter_requests(self, positions: Positions, plan: Plan) -> Iterator[tuple[str, Request]]:
        """Yield the hash and the request at each position; `plan` is the plan of this table."""
        questions = self.config.questions()
        for position in positions:
            trial = int(self.first_trials[position])
            yield self.get_key(position), questions.request(plan, trial)


def list_calling_judges(config: JudgeConfig) -> list[JudgeConfig]:
    """Return the judges of a config that make calls: the judge itself or, for a jury, its members.

    Raises: InputError [export-no-calls] if no judge makes calls.
    """
    judges = [judge for judge in config.judges or (config,) if judge.makes_calls]
    if not judges:
        raise InputError(
            f"The judge '{config.name}' makes no calls, so there is nothing to export or import. Run `youden judge` "
            "alone, or set a judge that makes calls.",
            slug="export-no-calls",
        )
    return judges


def hashes_to_bytes(keys: Sequence[object]) -> np.ndarray:
    """Convert request hashes from hexadecimal digits to a bytes array S32; anything else becomes empty."""
    return np.array([_hash_to_bytes(key) for key in keys], dtype=f"S{KEY_BYTES}")


def _hash_to_bytes(key: object) -> bytes:
    """Convert a request hash in hexadecimal to bytes; return no bytes if it is not a valid hash.

    key : value that should be a request hash
    """
    if not isinstance(key, str) or len(key) != 2 * KEY_BYTES:
        return b""
    try:
        digest = bytes.fromhex(key)
    except ValueError:
        return b""
    return digest if len(digest) == KEY_BYTES else b""  # fromhex skips spaces


VERSION = 2
MANIFEST = "export.json"
METADATA = b"youden"
"""Key of a Parquet file's metadata that holds the same as `export.json`."""

ROWS_PER_GROUP = 1000
"""Rows of a row group in a Parquet file, which a reader holds in memory at a time."""

Writer = Callable[[Path, Iterable[tuple[str, Request]], bytes], None]
"""Function of a path, pairs of request hash and request, and the manifest as JSON."""


def _write_lines(path: Path, requests: Iterable[tuple[str, Request]], _: bytes) -> None:
    """Write one line per request; its `custom_id` is its hash."""
    with path.open("wb") as file:
        file.writelines(make_request_line(key, request, usd=0.0).text for key, request in requests)


_MESSAGES_TYPE = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_PARQUET_COLUMNS = [("request_hash", pa.string()), ("messages", _MESSAGES_TYPE)]


def write_parquet(path: Path, requests: Iterable[tuple[str, Request]], manifest: bytes) -> None:
    """Write requests to a Parquet file with the columns `request_hash` (string) and `messages`.

    A value of `messages` is a list of structures with the fields `role` and `content`, both strings.

    path : file to write; an existing one is overwritten
    requests : pairs of request hash and request
    manifest : content of `export.json`, which becomes the value of the key `METADATA` ("youden") in the metadata of the file

    Raises OSError if the file cannot be written.
    """
    schema = pa.schema(_PARQUET_COLUMNS, metadata={METADATA: manifest})
    remaining = iter(requests)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while chunk := list(islice(remaining, ROWS_PER_GROUP)):
            request_hashes = pa.array([key for key, _ in chunk])
            messages = pa.array([_to_message_fields(request) for _, request in chunk], _MESSAGES_TYPE)
            writer.write_batch(pa.record_batch([request_hashes, messages], schema=schema))


def _to_message_fields(request: Request) -> list[dict[str, str]]:
    """Return the messages of a request as mappings of role and content."""
    return [{"role": message.role, "content": message.content} for message in request.messages]


WRITERS: Mapping[str, Writer] = {"jsonl": _write_lines, "parquet": write_parquet}


Format = Literal["jsonl", "parquet"]


def export_requests(
    plan: Plan,
    *,
    config: JudgeConfig,
    store: Store,
    folder: Path,
    format: Format = "jsonl",
    shards: int = 1,
) -> tuple[int, tuple[Path, ...]]:
    """Write the requests of a plan that have no answer in a store to files in a new folder.

    The folder appears when it is complete. The judges of a jury that make calls get one subfolder each: judge-1, judge-2, and
    so on. Requests that were rejected before, or exceed the context of the model, are left out. Memory grows by about 100 bytes
    per trial.

    Parameters
    ----------
    plan : Plan
        Trials whose requests are exported, with their pool.
    config : JudgeConfig
        Config of the judge that the requests are for.
    store : Store
        Store of the answers.
    folder : Path
        New or empty folder; missing parents are created.
    format : {"jsonl", "parquet"}, default "jsonl"
        Format of the files, `requests-N.jsonl` or `requests-N.parquet` with N from 0.
    shards : int, default 1
        Number of files of requests per judge, of equal size; fewer if there are fewer requests. A number below 1 counts as 1.

    Returns
    -------
    n_requests : int
        Number of requests written.
    files : tuple of Path
        The files of requests; each folder also gets `export.json`, which describes them. If the store has all answers,
        nothing is written and there are none.

    Raises
    ------
    InputError
        [export-not-empty] if the folder is not empty; [export-no-calls] if no judge makes calls; [export-failed] if a
        file cannot be written; [plan-missing-text] if the pool has no response for a trial.
    PlanError
        [plan-no-pool] if the plan has no pool.
    """
    judges = list_calling_judges(config)
    subfolders = [""]
    if config.judges:
        subfolders = [f"judge-{number}" for number in range(1, len(judges) + 1)]

    remove_leftovers(folder)
    _check_new_or_empty(folder)
    try:
        make_directory(folder.parent)
        with scratch_directory(folder.parent, name="youden") as scratch:
            tmp_folder = scratch / "new"
            n_requests = 0
            tmp_files: list[Path] = []
            for judge, subfolder in zip(judges, subfolders, strict=True):
                n_judge_requests, judge_files = _export_judge(
                    plan, config=judge, store=store, folder=tmp_folder / subfolder, format=format, shards=shards
                )
                n_requests += n_judge_requests
                tmp_files += judge_files
            if n_requests > 0:
                move_into_place(tmp_folder, folder)
    except OSError as error:
        raise InputError(
            f"The export cannot be written to {folder} ({error}). Free disk space, or pass a folder that can be written.",
            slug="export-failed",
        ) from None
    return n_requests, tuple(folder / file.relative_to(tmp_folder) for file in tmp_files)


def _check_new_or_empty(folder: Path) -> None:
    """Check that a folder does not exist or is empty. Raises: InputError [export-not-empty] if it is not."""
    if not folder.exists():
        return
    is_empty_folder = folder.is_dir() and not any(folder.iterdir())
    if not is_empty_folder:
        raise InputError(
            f"The folder {folder} exists and is not empty. Pass a new folder, so that requests and answers of two exports do not "
            "mix.",
            slug="export-not-empty",
        )


def _export_judge(
    plan: Plan, *, config: JudgeConfig, store: Store, folder: Path, format: Format, shards: int
) -> tuple[int, list[Path]]:
    """Write files with those requests of one judge that still need an answer.

    folder : folder for the files and their manifest; it is created if it does not exist
    format : format of the files, which is also their suffix
    shards : maximum number of files with requests

    Returns the number of requests, and the paths of the files with requests; no files if there are no requests.
    """
    table = RequestTable.from_plan(config, plan)
    unanswered_positions = np.fromiter(_iter_unanswered(table, store, plan), dtype=np.int64)  # in the table
    n_files = min(max(1, shards), len(unanswered_positions))
    positions_by_file = np.array_split(unanswered_positions, n_files) if n_files else []
    paths = [folder / f"requests-{number}.{format}" for number in range(n_files)]
    manifest = _make_manifest(config, n_requests=len(unanswered_positions), paths=paths)

    folder.mkdir(parents=True, exist_ok=True)
    for path, positions in zip(paths, positions_by_file, strict=True):
        WRITERS[format](path, table.iter_requests(positions, plan), orjson.dumps(manifest))
    indented_manifest = orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    (folder / MANIFEST).write_bytes(indented_manifest)
    return len(unanswered_positions), paths


def _make_manifest(config: JudgeConfig, *, n_requests: int, paths: Sequence[Path]) -> dict[str, Any]:
    """Make the manifest of an export, which describes the judge and the files of requests to the engine that answers.

    n_requests : number of requests in all files
    paths : paths of the files with requests, which are next to the manifest
    """
    questions = config.questions()
    return {
        "version": VERSION,
        "requests": n_requests,
        "model": questions.model,
        "parameters": dict(questions.parameters),
        "judge": config.public(),
        "files": [path.name for path in paths],
    }


def _iter_unanswered(table: RequestTable, store: Store, plan: Plan) -> Iterator[int]:
    """Yield the positions in `table` of the requests to export, in the order of the plan.

    A request is left out if it was answered or rejected before, or if it is too long for the model.
    """
    questions = table.config.questions()
    positions_in_plan_order: list[int] = np.argsort(table.first_trials).tolist()
    for start in range(0, len(positions_in_plan_order), CHUNK):
        next_positions = positions_in_plan_order[start : start + CHUNK]
        position_by_key = {table.get_key(position): position for position in next_positions}
        outcomes = store.get_outcomes(list(position_by_key))
        for key, position in position_by_key.items():
            needs_answer = not is_final(outcomes.get(key))
            if needs_answer and _fits_context(questions, plan, int(table.first_trials[position])):
                yield position


def _fits_context(questions: Questions, plan: Plan, trial: int) -> bool:
    """Return whether the request of a trial fits the context window of the model; True if its size is not known."""
    if questions.context is None:
        return True  # without making the request, which takes time
    return questions.fits(questions.request(plan, trial))
