"""Write and read the trials of a run as Parquet tables: `plan.parquet` and `verdicts.parquet`.

Everything except a table's rows is stored as JSON in its metadata. Verdicts may not fit in memory, and can be read a
chunk (consecutive rows) at a time.
"""

from __future__ import annotations

import base64
from collections.abc import Container, Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue, create_model

from youden.data.folder.parquet_tables import (
    ParquetTable,
    TableMetadata,
    encode_table,
    read_table,
    read_table_metadata,
    write_table,
)
from youden.data.folder.run_files import StrictFile, damaged_file_error
from youden.data.folder.table_columns import ANSWERS, REPEATS, TRIALS, VOTE, vote_column
from youden.errors import RunFolderError
from youden.run_keys import SplitRule
from youden.types import Finding, Plan, Rounds, Trials, Verdicts
from youden.types.columns import TableColumn
from youden.types.payments import RunPayments
from youden.types.planning import Split
from youden.types.pool import Bools, Floats, Positions

ROWS_PER_GROUP = 1 << 20
"""Maximum number of trials in a row group of a plan or of verdicts."""

_REQUIRED_ANSWER_COLUMNS, _OPTIONAL_ANSWER_COLUMNS = ANSWERS[:3], ANSWERS[3:]
"""Columns of verdicts that every judge provides (answer and reason), and those that some judges do not provide."""
_COLUMNS = {column.name: column for column in (*TRIALS, *REPEATS, *ANSWERS)}
_REASON_OFFSET = 1
"""Difference of the codes of `Verdicts.missing_reason` and of the table.

The codes of `Verdicts` are positions in MISSING_REASONS, whose first entry is "answered". The column of the table has no word
for this entry: its codes are smaller by 1, and −1, which is stored as null, means "answered".
"""


class SplitFields(StrictFile):
    """A split in the metadata of a table; the cells are packed as bits."""

    rule: SplitRule
    fraction: float
    seed: int
    train: str
    holdout: str

    @classmethod
    def from_split(cls, split: Split) -> SplitFields:
        """Convert a split, whose arrays mark the training and the held-out cells, to fields that JSON can store."""
        return cls(
            rule=split.rule,
            fraction=split.fraction,
            seed=split.seed,
            train=_encode_bits(split.train),
            holdout=_encode_bits(split.holdout),
        )

    def to_split(self, path: Path, shape: tuple[int, int]) -> Split:
        """Decode the stored split: which cells (an agent and an item) are for training, and which are held out.

        path : file of the fields, for error messages; it is not read
        shape : number of agents and of items, which is the shape of the decoded bool arrays

        Returns the split: bool arrays `train` and `holdout` (n_agents, n_items), and the rule, fraction and seed.

        Raises: RunFolderError [run-file-damaged] if the fields have fewer bits than this shape has cells, or are not base64.
        """
        train = _decode_bits(path, self.train, shape)
        holdout = _decode_bits(path, self.holdout, shape)
        return Split(train, holdout, rule=self.rule, fraction=self.fraction, seed=self.seed)


class _Round(StrictFile):
    start: int
    agents: tuple[int, ...]


class _Rounds(StrictFile):
    n_paired: int | None
    turns: tuple[_Round, ...]


class _PlanMetadata(TableMetadata):
    type: Literal["plan"] = "plan"
    options: Mapping[str, JsonValue]
    rounds: _Rounds | None
    agents: tuple[str, ...]
    items: tuple[str, ...]
    split: SplitFields
    digest: str


_CONVERTED_FIELDS = ("trials", "agent_ids", "item_ids", "source")
"""Fields of a plan that its metadata does not contain, or contains under a different name."""
_UNCHANGED_FIELDS: dict[str, Any] = {
    name: (hint, ...)
    for name, hint in get_type_hints(Plan).items()
    if name in Plan.__dataclass_fields__ and name not in (*_CONVERTED_FIELDS, *_PlanMetadata.model_fields)
}
"""Fields of a plan that its metadata contains unchanged, with their types in the form that `create_model` expects."""
PlanMetadata = create_model("PlanMetadata", __base__=_PlanMetadata, **_UNCHANGED_FIELDS)
"""Metadata of plan.parquet: all of a plan except its trials."""


class VerdictsMetadata(TableMetadata):
    """Metadata of verdicts.parquet.

    `measured` lists the optional columns for which the judge provided values. `n_pending` is the number of trials
    without an outcome, if the run is unfinished.
    """

    type: Literal["verdicts"] = "verdicts"
    plan_digest: str
    judge: Mapping[str, JsonValue]
    models: tuple[str, ...]
    warnings: tuple[Finding, ...]
    measured: tuple[str, ...]
    usd_calibration: float | None
    paid: RunPayments = RunPayments()
    n_pending: int = 0


def write_plan(path: Path, plan: Plan) -> None:
    """Write a plan to a Parquet file, with one row per trial; the other fields of the plan are in its metadata."""
    rounds = None
    if plan.rounds is not None:
        rounds = _Rounds.model_validate(plan.rounds.to_json, strict=False)
    metadata = PlanMetadata(
        **{name: getattr(plan, name) for name in _UNCHANGED_FIELDS},
        options=dict(plan.options),
        rounds=rounds,
        agents=plan.agent_ids,
        items=plan.item_ids,
        split=SplitFields.from_split(plan.split),
        digest=plan.digest,
    )
    columns = plan.trials.columns()
    table = encode_table(_get_trial_columns(columns), columns, _get_ids_by_entity(plan))
    write_table(path, table, metadata, group_size=ROWS_PER_GROUP)


def read_plan(path: Path) -> Plan:
    """Read a plan from its file.

    The field `source` of the plan is not set, so the plan cannot load the texts of its pool.

    Raises: RunFolderError if the file is missing, damaged or of another version.
    """
    table = read_table(path, PlanMetadata)
    metadata = table.metadata
    ids_by_entity = {"agents": metadata.agents, "items": metadata.items}
    columns = table.read(_get_trial_columns(table.names), ids_by_entity)
    return _make_plan(path, metadata, Trials(**columns))


def _get_trial_columns(names: Container[str]) -> Sequence[TableColumn]:
    """Return the columns of a table of trials: those that every run has, and the columns of repeats that are in `names`."""
    return (*TRIALS, *(column for column in REPEATS if column.name in names))


class PlanWithoutTrials(NamedTuple):
    """A plan with an empty list of trials, and the digest of the complete plan."""

    plan: Plan
    digest: str


def read_plan_without_trials(path: Path) -> PlanWithoutTrials:
    """Read a plan without its trials; raise RunFolderError if the file is missing, damaged or of another version."""
    metadata = read_table_metadata(path, PlanMetadata)
    return PlanWithoutTrials(_make_plan(path, metadata, Trials.concat([])), metadata.digest)


def _make_plan(path: Path, metadata: _PlanMetadata, trials: Trials) -> Plan:
    """Make a plan from the trials and the metadata in a file of a run.

    Most metadata are fields of the plan (`_UNCHANGED_FIELDS`). Two fields are stored in a different form and converted here:
    the split into training and held-out data, and the rounds of an adaptive plan.

    path : file of the plan, which error messages name
    metadata : metadata of the file
    trials : trials of the plan; no trials if only the other fields are needed
    """
    n_agents = len(metadata.agents)
    n_items = len(metadata.items)

    rounds = None
    if metadata.rounds is not None:
        # each round is stored as its first trial and the agents that it compares
        stored_rounds = [(stored.start, stored.agents) for stored in metadata.rounds.turns]
        rounds = Rounds.from_json(metadata.rounds.n_paired, stored_rounds, n_agents=n_agents)

    unchanged_fields = {name: getattr(metadata, name) for name in _UNCHANGED_FIELDS}
    return Plan(
        trials=trials,
        split=metadata.split.to_split(path, (n_agents, n_items)),
        rounds=rounds,
        agent_ids=metadata.agents,
        item_ids=metadata.items,
        options=metadata.options,
        **unchanged_fields,
    )


def write_verdicts(path: Path, verdicts: Verdicts) -> None:
    """Write the verdicts on a plan to a Parquet file, with one row per trial.

    The settings of the judge and the digest of the plan become metadata of the file.

    path : file to write; an existing file is replaced
    verdicts : answers to all trials of a plan. Each trial is one row, in the order of the plan: first the columns of the trial,
        then those of the answer, then one column per vote of a jury.
    """
    trials = verdicts.plan.trials.columns()
    columns = [*_get_trial_columns(trials), *ANSWERS]
    values = {**trials, **{column.name: getattr(verdicts, column.name) for column in ANSWERS}}
    values["missing_reason"] = verdicts.missing_reason - _REASON_OFFSET  # the table has no code for "answered"
    if verdicts.votes is not None:
        for judge_number, votes in enumerate(verdicts.votes, 1):
            column = vote_column(judge_number)
            columns.append(column)
            values[column.name] = votes

    ids_by_entity = _get_ids_by_entity(verdicts.plan)
    ids_by_entity["models"] = verdicts.models
    table = encode_table(columns, values, ids_by_entity)
    write_table(path, table, _make_verdicts_metadata(verdicts), group_size=ROWS_PER_GROUP)


def _make_verdicts_metadata(verdicts: Verdicts) -> VerdictsMetadata:
    """Make the metadata of verdicts: everything except the columns of answers."""
    measured = [column.name for column in _OPTIONAL_ANSWER_COLUMNS if getattr(verdicts, column.name) is not None]
    return VerdictsMetadata(
        plan_digest=verdicts.plan.digest,
        judge=dict(verdicts.judge),
        models=verdicts.models,
        warnings=verdicts.warnings,
        measured=tuple(measured),
        usd_calibration=None if isnan(verdicts.usd_calibration) else verdicts.usd_calibration,
        paid=verdicts.paid,
        n_pending=verdicts.n_pending,
    )


def read_verdicts(path: Path, plan: Plan) -> Verdicts:
    """Read the verdicts on a plan.

    path : file that `write_verdicts` wrote
    plan : plan that was judged

    Returns the answers to the trials of `plan`, in their order. An optional field for which the judge provided no values, such as
    `usd` or `seconds`, is None.

    Raises: RunFolderError [run-other-plan] if the file contains verdicts on another plan; [run-missing], [run-file-missing] if
        the folder or the file does not exist; [run-version] if another version of youden wrote it; [run-file-damaged] if it
        does not have the expected content.
    """
    table = open_verdict_table(path, plan_digest=plan.digest)
    metadata = table.metadata
    provided_columns = [column for column in _OPTIONAL_ANSWER_COLUMNS if column.name in metadata.measured]
    answers = table.read([*_REQUIRED_ANSWER_COLUMNS, *provided_columns], {"models": metadata.models})
    answers["missing_reason"] = answers["missing_reason"] + _REASON_OFFSET  # the table has no code for "answered"

    usd_calibration = nan if metadata.usd_calibration is None else metadata.usd_calibration
    return Verdicts(
        plan=plan,
        **answers,
        judge=metadata.judge,
        models=metadata.models,
        warnings=metadata.warnings,
        usd_calibration=usd_calibration,
        paid=metadata.paid,
        votes=_read_votes(table),
    )


def _read_votes(table: ParquetTable[VerdictsMetadata]) -> Floats | None:
    """Read the votes of a jury, as an array (n_judges, n_trials); None for a single judge."""
    n_judges = sum(name.startswith(VOTE) for name in table.names)
    if n_judges == 0:
        return None
    columns = [vote_column(judge_number) for judge_number in range(1, n_judges + 1)]
    votes_by_column = table.read(columns, ids_by_entity={})
    return np.stack(list(votes_by_column.values()))


def open_verdict_table(path: Path, *, plan_digest: str) -> ParquetTable[VerdictsMetadata]:
    """Open the table of the verdicts on a plan, and check that it belongs to the plan; its rows are not read yet.

    path : the file
    plan_digest : digest of the plan that was judged

    Returns a table whose columns can be read one by one.

    Raises: RunFolderError [run-other-plan] if the file contains verdicts on another plan, that is, if it records another
        digest; the errors of `read_table` if the file cannot be read.
    """
    table = read_table(path, VerdictsMetadata)
    stored_digest = table.metadata.plan_digest
    if stored_digest != plan_digest:
        raise RunFolderError(
            f"{path} contains answers to another plan than plan.parquet: got {stored_digest[:12]}, expected {plan_digest[:12]}. "
            "Run `youden judge CONFIG` to judge this plan; answers in the store are not paid for again.",
            slug="run-other-plan",
        )
    return table


def _get_ids_by_entity(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the ids of a plan by entity, "agents" and "items"."""
    return {"agents": plan.agent_ids, "items": plan.item_ids}


def _encode_bits(cells: Bools) -> str:
    """Encode a boolean array with one bit per element, in base64."""
    return base64.b64encode(np.packbits(cells).tobytes()).decode()


def _decode_bits(path: Path, packed: str, shape: tuple[int, int]) -> Bools:
    """Decode the training or the held-out cells of a split, a boolean array that `_encode_bits` encoded.

    path : file of the split, for errors
    packed : base64 text of the bits, row by row
    shape : number of agents and number of items

    Raises: RunFolderError [run-file-damaged] if `packed` is not base64, or if it has fewer bits than the array has cells.
    """
    try:
        packed_bits = np.frombuffer(base64.b64decode(packed, validate=True), dtype=np.uint8)
    except ValueError as error:
        raise damaged_file_error(path, f"the split does not have one bit per cell ({error})") from error

    n_agents, n_items = shape
    bits = np.unpackbits(packed_bits)
    if len(bits) < n_agents * n_items:
        problem = f"the split does not have one bit per cell: got {len(bits)} bits for {n_agents * n_items} cells"
        raise damaged_file_error(path, problem)
    is_marked = bits[: n_agents * n_items].astype(np.bool_)
    return is_marked.reshape(shape)


class VerdictChunk(dict[str, NDArray[Any]]):
    """A chunk of verdicts.parquet, as a dictionary of its columns, each of which is read on first access.

    A chunk consists of consecutive rows. A column is an array (n_rows,). Names and values are those of `Trials` and
    `Verdicts`. Access raises RunFolderError [run-file-damaged] if a column is not valid.

    Parameters
    ----------
    table : ParquetTable
        The rows.
    plan : Plan
        Plan of the run, from which only the ids of agents and items are used.
    start : int
        Position of the chunk's first row in the plan.
    """

    def __init__(self, table: ParquetTable[VerdictsMetadata], plan: Plan, start: int) -> None:
        super().__init__()
        self._table, self._plan, self.start = table, plan, start
        self.n_rows = len(table)

    def __contains__(self, name: object) -> bool:
        """Return whether the table has the column, even if it has not been read."""
        return super().__contains__(name) or name in self._table.names

    def unread_copy(self) -> VerdictChunk:
        """Return a chunk of the same rows that has read no columns yet, so that the memory of this one can be released."""
        return VerdictChunk(self._table, self._plan, self.start)

    def read_request_hashes(self, rows: Positions) -> list[bytes]:
        """Read the request hashes (SHA-256, 64 hexadecimal digits) of some rows.

        rows : int array (n,), positions in the chunk
        """
        hashes: list[bytes] = self._table.read_ascii("request_hash", rows).tolist()
        return hashes

    def __missing__(self, name: str) -> NDArray[Any]:
        self[name] = self._read(name)
        return self[name]

    def _read(self, name: str) -> NDArray[Any]:
        """Read a column of the chunk as an array (n_rows,); reasons for missing answers have the codes of `Verdicts`."""
        column = _COLUMNS.get(name) or vote_column(int(name.removeprefix(VOTE)))
        (values,) = self._table.read([column], _get_ids_by_entity(self._plan)).values()
        return values + _REASON_OFFSET if name == "missing_reason" else values


def open_verdict_chunks(table: ParquetTable[VerdictsMetadata], plan: Plan) -> Sequence[VerdictChunk]:
    """Split a table of verdicts into chunks of consecutive rows, without reading rows.

    Parameters
    ----------
    table : ParquetTable
        Verdicts of a run.
    plan : Plan
        Plan of the run, from which only the ids of agents and items are used.

    Returns
    -------
    sequence of VerdictChunk
        In the order of the rows.

    Raises
    ------
    RunFolderError
        If the table cannot be read.
    """
    chunks: list[VerdictChunk] = []
    start = 0
    for row_group in table.row_groups():
        chunk = VerdictChunk(row_group, plan, start)
        chunks.append(chunk)
        start += chunk.n_rows
    return chunks
