"""What an export is of, and how it is written: into files that any engine can read, lines or Parquet, with a note beside them.

The note `export.json` says whose answers are wanted and to which plan, so that answers to another one are turned down before they
are read. A plan's distinct requests are held as a few bytes each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from youden.data.atomic import make_directory, remove_leftovers, take_place, workplace
from youden.errors import InputError
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.offline.lines import request_line
from youden.judging.question.questions import Questions, keys
from youden.judging.store.answers import Store
from youden.judging.store.plan_answers import CHUNK
from youden.text.yaml_text import misfit
from youden.types import Plan, Request
from youden.types.pool import Positions

BYTES = 32
"""Of a key: a sha256."""


@dataclass(frozen=True, eq=False)
class Requests:
    """Each request of `plan` once. key: bytes S32[M], in ascending order; row: the first trial that asks it; characters: of its
    messages; n_messages: of each. digests: sha256 (hex) of the first trials' keys, by how many they are."""

    config: JudgeConfig
    key: np.ndarray
    row: Positions
    characters: Positions
    n_messages: int
    digests: Mapping[int, str]

    @classmethod
    def of(cls, config: JudgeConfig, plan: Plan, *, lengths: Collection[int] = ()) -> Requests:
        """All that `config` is asked. lengths: of the first trials, whose digests are wanted."""
        questions = config.questions()
        every, digests = _digests(questions, plan, lengths=lengths)
        key, row = np.unique(every, return_index=True)
        n_messages = len(questions.prompt.messages("", "", hint=questions.hint))
        return cls(config, key, row, questions.characters(plan)[row], n_messages, digests)

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """int64[N]: where each of these keys, bytes S32[N], stands in `key`, −1 for one that is not asked."""
        if not len(self.key):
            return np.full(len(wanted), -1)
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        found: np.ndarray = np.where(self.key[at] == wanted, at, -1)
        return found

    def name(self, at: int) -> str:
        """The key at this place, in hex."""
        return bytes(self.key[at]).ljust(BYTES, b"\0").hex()  # NumPy leaves out zeros at the end


def asked_judges(config: JudgeConfig) -> list[JudgeConfig]:
    """The judge, or those of a jury, that are asked by calls. Raises: InputError [export-no-calls] where none is."""
    asked = [one for one in config.judges or (config,) if one.makes_calls]
    if not asked:
        raise InputError(
            f"The judge '{config.name}' answers without calls, so there is nothing to export or import. Run `youden judge` "
            "alone, or name a judge that is asked.",
            slug="export-no-calls",
        )
    return asked


def as_bytes(keys: Sequence[object]) -> np.ndarray:
    """bytes S32[N]: what keys in hex stand for, empty for what is no key."""
    return np.array([_bytes_of_key(key) for key in keys], dtype=f"S{BYTES}")


def _bytes_of_key(key: object) -> bytes:
    try:
        found = bytes.fromhex(key) if isinstance(key, str) and len(key) == 2 * BYTES else b""
    except ValueError:
        return b""
    return found if len(found) == BYTES else b""


def _digests(questions: Questions, plan: Plan, *, lengths: Collection[int]) -> tuple[np.ndarray, dict[int, str]]:
    every = np.empty(len(plan), dtype=f"S{BYTES}")
    hasher, digests = hashlib.sha256(), {}
    for row, key in keys(questions, plan):
        if row in lengths:
            digests[row] = hasher.hexdigest()
        every[row] = one = bytes.fromhex(key)
        hasher.update(one)
    if len(plan) in lengths:
        digests[len(plan)] = hasher.hexdigest()
    return every, digests


VERSION: Literal[1] = 1
NAME = "export.json"
METADATA = b"youden"
"""The key of a Parquet file's metadata under which it holds what `export.json` says."""

_MOST_BYTES = 1_000_000


class Manifest(BaseModel):
    """One export of one judge's requests.

    trials: of the plan when it was exported, without trials of suspected pairs; plan: sha256 (hex) of their requests' keys, in
    order. requests: how many were exported; files: their names. model, parameters: what is sent beside messages; judge: the
    judge's public config.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    version: Literal[1]
    plan: str = Field(pattern=r"^[0-9a-f]{64}$")
    trials: int = Field(ge=0)
    requests: int = Field(ge=0)
    model: str
    parameters: dict[str, JsonValue]
    judge: dict[str, JsonValue]
    files: list[str] = []

    def other_judge(self, config: JudgeConfig) -> str:
        """What of the judge differs from `config`, in words; empty where nothing does."""
        now = config.public()
        return "; ".join(
            f"{name} was {_shown(self.judge.get(name))} and is {_shown(now.get(name))}"
            for name in sorted(now.keys() | self.judge.keys())
            if name != "name" and now.get(name) != self.judge.get(name)
        )


def read_manifest(text: bytes, *, where: Path) -> Manifest:
    """What `text` says. Raises: InputError [export-unreadable], [export-version]."""
    try:
        found = Manifest.model_validate_json(text[:_MOST_BYTES])
    except ValidationError as error:
        if any(one["loc"] == ("version",) and one["type"] == "literal_error" for one in error.errors()):
            raise InputError(
                f"{where} is of another version of an export than {VERSION}, which this youden reads. Export the plan again "
                "with this one.",
                slug="export-version",
            ) from None
        raise InputError(
            f"{where} does not say which export it is of: {misfit(error)}. Take the export.json that "
            "`youden plan CONFIG --export DIR` wrote, or move the answers away from it.",
            slug="export-unreadable",
        ) from None
    return found


def refuse_other_plan(where: Path, manifest: Manifest, asked: Sequence[tuple[JudgeConfig, str | None]]) -> None:
    """Whether an export is of this plan, as it is or as it was before it grew.

    asked: each judge, and the digest that its requests have now up to the export's last trial; None where the plan has not so
    many yet, so that only the judge can be looked at.

    Raises: InputError [export-other-plan].
    """
    differences = [manifest.other_judge(config) for config, _ in asked]
    if any(
        manifest.plan == digest or (digest is None and not said)
        for (_, digest), said in zip(asked, differences, strict=True)
    ):
        return
    why = f" The judge is another one: {differences[0]}." if all(differences) else ""
    raise InputError(
        f"{where} is of an export of another plan (digest {manifest.plan[:12]}).{why} Name the config that was exported, or "
        "export this plan.",
        slug="export-other-plan",
    )


def _shown(value: JsonValue) -> str:
    return "left out" if value is None else repr(value)[:60]


ROWS = 1000
"""Of a group in a Parquet file: what a reader holds in memory at once."""

Writer = Callable[[Path, Iterable[tuple[str, Request]], Manifest], None]


def _write_lines(path: Path, requests: Iterable[tuple[str, Request]], manifest: Manifest) -> None:
    """One line a request; its `custom_id` is its key."""
    with path.open("wb") as file:
        file.writelines(request_line(key, request, usd=0.0).text for key, request in requests)


def write_parquet(path: Path, requests: Iterable[tuple[str, Request]], manifest: Manifest) -> None:
    """The columns `key` and `messages` (a list of role and content); what `export.json` says is in the file's metadata."""
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    schema = pa.schema(
        [("key", pa.string()), ("messages", pa.list_(message))], metadata={METADATA: manifest.model_dump_json()}
    )
    rest = iter(requests)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while chunk := list(islice(rest, ROWS)):
            messages = [one for _, request in chunk for one in request.messages]
            ends = [0]
            for _, request in chunk:
                ends.append(ends[-1] + len(request.messages))
            said = [pa.array([one.role for one in messages]), pa.array([one.content for one in messages])]
            lists = pa.ListArray.from_arrays(
                pa.array(ends, pa.int32()), pa.StructArray.from_arrays(said, fields=[*message])
            )
            writer.write_batch(pa.record_batch([pa.array([key for key, _ in chunk]), lists], schema=schema))


WRITERS: Mapping[str, Writer] = {"jsonl": _write_lines, "parquet": write_parquet}


Format = Literal["jsonl", "parquet"]


@dataclass(frozen=True)
class ExportedPlan:
    """What was written: requests, and the files they are in; none where the store holds every answer."""

    requests: int
    files: tuple[Path, ...]


def export_requests(
    plan: Plan,
    *,
    config: JudgeConfig,
    store: Store,
    folder: Path,
    format: Format = "jsonl",
    shards: int = 1,
) -> ExportedPlan:
    """Write every request of `config` that `store` has no answer to into the new `folder`, in `shards` files alike in size.

    A jury's judges that are asked by calls get a folder each. The folder is there when it is whole. Memory does not grow but by
    some 100 bytes a trial.

    Raises: InputError [export-there], [export-no-calls], [export-failed].
    """
    members = asked_judges(config)
    names = [f"judge-{number}" for number in range(1, len(members) + 1)] if config.judges else [""]
    remove_leftovers(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{folder} is there already and is not empty. Export into a new folder, so that requests and answers of two exports "
            "do not mix.",
            slug="export-there",
        )
    try:
        make_directory(folder.parent)
        with workplace(folder.parent, name="youden") as place:
            part = place / "new"
            done = [
                _exported(plan, config=one, store=store, folder=part / name, format=format, shards=shards)
                for one, name in zip(members, names, strict=True)
            ]
            if any(one.requests for one in done):
                take_place(part, folder)
    except OSError as error:
        raise InputError(
            f"The export cannot be written to {folder} ({error}). Make room, or give a folder that can be written.",
            slug="export-failed",
        ) from None
    files = tuple(folder / file.relative_to(part) for one in done for file in one.files)
    return ExportedPlan(sum(one.requests for one in done), files)


def _exported(
    plan: Plan, *, config: JudgeConfig, store: Store, folder: Path, format: Format, shards: int
) -> ExportedPlan:
    n_own = len(plan) - plan.n_follow_ups
    asked = Requests.of(config, plan, lengths={n_own})
    questions = config.questions()
    rest = np.fromiter(_wanted(asked, store, questions, plan), dtype=np.int64)
    n_files = min(shards, len(rest))
    names = [f"requests-{number}.{format}" for number in range(n_files)]
    manifest = Manifest(
        version=VERSION,
        plan=asked.digests[n_own],
        trials=n_own,
        requests=len(rest),
        model=questions.model,
        parameters=dict(questions.parameters),
        judge=config.public(),
        files=names,
    )
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        begin, end = (len(rest) * at // n_files for at in (number, number + 1))
        requests = ((asked.name(at), questions.request(plan, int(asked.row[at]))) for at in rest[begin:end])
        WRITERS[format](folder / name, requests, manifest)
    (folder / NAME).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return ExportedPlan(len(rest), tuple(folder / name for name in names))


def _wanted(asked: Requests, store: Store, questions: Questions, plan: Plan) -> Iterator[int]:
    """Where the requests stand that have neither an answer nor a rejection in `store` and can be sent, in the plan's order."""
    rest = iter(np.argsort(asked.row).tolist())
    while chunk := {asked.name(at): at for at in islice(rest, CHUNK)}:
        answers = store.answers(list(chunk))
        failures = store.failures([key for key in chunk if key not in answers])
        for key, at in chunk.items():
            if key in answers or (key in failures and failures[key].kind == "rejected"):
                continue
            if questions.context is None or questions.fits(questions.request(plan, int(asked.row[at]))):
                yield at
