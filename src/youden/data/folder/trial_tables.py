"""`plan.parquet` and `verdicts.parquet`: trials as tables that a person can query, whole or a block of rows at a time."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, JsonValue

from youden.data.folder.parquet_tables import (
    Said,
    Table,
    counted,
    measured,
    named,
    plain,
    read_said,
    read_table,
    write_table,
)
from youden.data.folder.run_files import damaged
from youden.errors import RunFolderError
from youden.nouns import (
    MISSING_REASONS,
    Asked,
    Extensions,
    IndependentRule,
    Json,
    Plan,
    Rounds,
    Split,
    SplitRule,
    Trials,
    Verdicts,
)
from youden.nouns.pool import Bools, Positions

ARMS = ("paired", "independent")

ROWS_OF_A_PART = 4_000_000
"""Trials in a part of a plan or of verdicts; a table of more is a folder of parts, cut where slots end."""

_MEASURES = ("key", "tokens_in", "tokens_out", "usd", "seconds", "served")


class _Split(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    rule: SplitRule
    fraction: float
    seed: int
    train: str
    holdout: str


class _Turn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    start: int
    agents: tuple[int, ...]


class _Rounds(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    n_paired: int | None
    turns: tuple[_Turn, ...]


class PlanSaid(Said):
    noun: Literal["plan"] = "plan"
    design: str
    options: Mapping[str, JsonValue]
    independent: IndependentRule
    n_independent: int | None
    n_probes: int
    n_follow_ups: int
    rounds: _Rounds | None
    extensions: Extensions | None
    asked: Asked | None
    seed: int
    pool_digest: str
    characters: int
    notes: tuple[str, ...]
    agents: tuple[str, ...]
    items: tuple[str, ...]
    split: _Split


class VerdictsSaid(Said):
    noun: Literal["verdicts"] = "verdicts"
    plan_digest: str
    judge: Mapping[str, JsonValue]
    models: tuple[str, ...]
    warnings: tuple[str, ...]
    measured: tuple[str, ...]
    usd_tried: float | None


def write_plan(path: Path, plan: Plan) -> None:
    """Columns item, first, second, arm, other_item, replicate, slot; everything else of the plan in the metadata."""
    rounds = plan.rounds
    said = PlanSaid(
        design=plan.design,
        options=dict(plan.options),
        independent=plan.independent,
        n_independent=plan.n_independent,
        n_probes=plan.n_probes,
        n_follow_ups=plan.n_follow_ups,
        rounds=None if rounds is None else _Rounds.model_validate(rounds.said, strict=False),
        extensions=plan.extensions,
        asked=plan.asked,
        seed=plan.seed,
        pool_digest=plan.pool_digest,
        characters=plan.characters,
        notes=plan.notes,
        agents=plan.agent_ids,
        items=plan.item_ids,
        split=_Split(
            rule=plan.split.rule,
            fraction=plan.split.fraction,
            seed=plan.split.seed,
            train=_packed(plan.split.train),
            holdout=_packed(plan.split.holdout),
        ),
    )
    write_table(path, _trials(plan), said, cuts=cuts_of(plan))


def read_plan(path: Path) -> Plan:
    """The plan as it was written. Raises: RunFolderError."""
    table = read_table(path, PlanSaid)
    said = table.said
    trials = Trials(
        item=table.positions("item", said.items),
        first=table.positions("first", said.agents),
        second=table.positions("second", said.agents),
        arm=table.positions("arm", ARMS).astype(np.int8),
        other_item=table.positions("other_item", said.items, nulls=True),
        replicate=table.integers("replicate"),
        slot=table.integers("slot", nulls=True),
    )
    return _plan(path, said, trials)


def read_plan_alone(path: Path) -> Plan:
    """The plan without its trials. Raises: RunFolderError."""
    said = read_said(path, PlanSaid)
    return _plan(path, said, Trials.concat([]))


def _plan(path: Path, said: PlanSaid, trials: Trials) -> Plan:
    shape, rounds = (len(said.agents), len(said.items)), said.rounds
    return Plan(
        trials=trials,
        n_agents=shape[0],
        n_items=shape[1],
        split=Split(
            train=_unpacked(path, said.split.train, shape),
            holdout=_unpacked(path, said.split.holdout, shape),
            rule=said.split.rule,
            fraction=said.split.fraction,
            seed=said.split.seed,
        ),
        design=said.design,
        options=said.options,
        independent=said.independent,
        n_independent=said.n_independent,
        n_probes=said.n_probes,
        n_follow_ups=said.n_follow_ups,
        rounds=None
        if rounds is None
        else Rounds.from_said(
            rounds.n_paired, [(turn.start, turn.agents) for turn in rounds.turns], n_agents=len(said.agents)
        ),
        extensions=said.extensions,
        asked=said.asked,
        seed=said.seed,
        pool_digest=said.pool_digest,
        agent_ids=said.agents,
        item_ids=said.items,
        characters=said.characters,
        notes=said.notes,
    )


def write_verdicts(path: Path, verdicts: Verdicts) -> None:
    """The plan's columns, then answer, hard, missing (the reason), key, tokens_in, tokens_out, usd, seconds, served."""
    n = len(verdicts)
    columns = _trials(verdicts.plan) | {
        "answer": measured(verdicts.answer),
        "hard": measured(verdicts.hard).cast(pa.int8()),
        "missing": named(verdicts.missing - 1, MISSING_REASONS[1:]),
        "key": pa.nulls(n, pa.string())
        if verdicts.key is None
        else pa.array(verdicts.key.astype("S64")).cast(pa.string()),
        "tokens_in": pa.nulls(n, pa.int32()) if verdicts.tokens_in is None else plain(verdicts.tokens_in),
        "tokens_out": pa.nulls(n, pa.int32()) if verdicts.tokens_out is None else plain(verdicts.tokens_out),
        "usd": pa.nulls(n, pa.float64()) if verdicts.usd is None else measured(verdicts.usd),
        "seconds": pa.nulls(n, pa.float64()) if verdicts.seconds is None else measured(verdicts.seconds),
        "served": pa.nulls(n, pa.string()) if verdicts.served is None else named(verdicts.served, verdicts.models),
    }
    said = VerdictsSaid(
        plan_digest=verdicts.plan.digest,
        judge=dict(verdicts.judge),
        models=verdicts.models,
        warnings=verdicts.warnings,
        measured=tuple(name for name in _MEASURES if getattr(verdicts, name) is not None),
        usd_tried=None if isnan(verdicts.usd_tried) else verdicts.usd_tried,
    )
    write_table(path, columns, said, cuts=cuts_of(verdicts.plan))


def read_verdicts(path: Path, plan: Plan) -> Verdicts:
    """The verdicts on `plan`. Raises: RunFolderError, also where the file answers another plan."""
    table = read_table(path, VerdictsSaid)
    said = table.said
    if said.plan_digest != plan.digest or len(table) != len(plan):
        raise RunFolderError(
            f"{path} answers another plan: {len(table)} trials of plan {said.plan_digest[:12]}, while plan.parquet holds "
            f"{len(plan)} of {plan.digest[:12]}. Judge this plan with `youden judge CONFIG`; the store keeps what is paid for.",
            slug="run-other-plan",
        )
    has = set(said.measured)
    return Verdicts(
        plan=plan,
        answer=table.floats("answer"),
        hard=table.floats("hard"),
        missing=(table.positions("missing", MISSING_REASONS[1:], nulls=True) + 1).astype(np.int8),
        judge=said.judge,
        key=table.ascii("key") if "key" in has else None,
        tokens_in=table.integers("tokens_in") if "tokens_in" in has else None,
        tokens_out=table.integers("tokens_out") if "tokens_out" in has else None,
        usd=table.floats("usd") if "usd" in has else None,
        seconds=table.floats("seconds") if "seconds" in has else None,
        served=table.positions("served", said.models, nulls=True) if "served" in has else None,
        models=said.models,
        warnings=said.warnings,
        usd_tried=nan if said.usd_tried is None else said.usd_tried,
    )


class VerdictFiles(NamedTuple):
    """The files of verdicts, in the order of the plan's rows, and what they say beside them.

    plan_digest, n_trials: of the plan they answer; judge, models, warnings: as in `Verdicts`; measured: columns of it that the
    judge filled.
    """

    files: tuple[Path, ...]
    plan_digest: str
    n_trials: int
    judge: Mapping[str, Json]
    models: tuple[str, ...]
    warnings: tuple[str, ...]
    measured: tuple[str, ...]


def verdict_files(path: Path) -> VerdictFiles:
    """The verdicts at `path`, for a reader of its own. Raises: RunFolderError."""
    table = read_table(path, VerdictsSaid)
    said = table.said
    return VerdictFiles(
        table.files, said.plan_digest, len(table), said.judge, said.models, said.warnings, said.measured
    )


def verdicts_of(path: Path) -> tuple[str, Mapping[str, Json]]:
    """The digest of the plan that the verdicts answer, and the judge that gave them. Raises: RunFolderError."""
    said = read_said(path, VerdictsSaid)
    return said.plan_digest, said.judge


def _trials(plan: Plan) -> dict[str, pa.Array]:
    return {
        "item": named(plan.item, plan.item_ids),
        "first": named(plan.first, plan.agent_ids),
        "second": named(plan.second, plan.agent_ids),
        "arm": named(plan.arm, ARMS),
        "other_item": named(plan.other_item, plan.item_ids),
        "replicate": plain(plan.replicate),
        "slot": counted(plan.slot),
    }


def cuts_of(plan: Plan) -> list[int]:
    """Rows at which parts begin: after at most `ROWS_OF_A_PART`, at the end of a slot where there is one."""
    cuts, start = [], 0
    while len(plan) - start > ROWS_OF_A_PART:
        stop = start + ROWS_OF_A_PART
        same = np.flatnonzero(np.diff(plan.slot[start : stop + 1]) != 0)
        start = start + int(same[-1]) + 1 if len(same) else stop
        cuts.append(start)
    return cuts


def _packed(cells: Bools) -> str:
    return base64.b64encode(np.packbits(cells).tobytes()).decode()


def _unpacked(path: Path, packed: str, shape: tuple[int, int]) -> Bools:
    try:
        bits = np.frombuffer(base64.b64decode(packed, validate=True), dtype=np.uint8)
        return np.unpackbits(bits, count=shape[0] * shape[1]).astype(np.bool_).reshape(shape)
    except ValueError as error:
        raise damaged(path, f"the split is not one bit a cell ({error})") from error


class TrialBlock(dict[str, NDArray[Any]]):
    """Columns of verdicts by name, read when first asked for: positions for ids and words, NaN for no answer.

    start: the first row's position in the run; n_rows: how many there are. Raises: RunFolderError where a column does not fit.
    """

    def __init__(self, table: Table[VerdictsSaid], plan: Plan, start: int) -> None:
        super().__init__()
        self._table, self._plan, self.start = table, plan, start
        self.n_rows = len(table)

    def again(self) -> TrialBlock:
        """The same rows, with nothing read yet: what is read of them goes with them."""
        return TrialBlock(self._table, self._plan, self.start)

    def keys_of(self, rows: Positions) -> list[bytes]:
        """The keys of some, by their place in the block."""
        found: list[bytes] = self._table.ascii("key", rows).tolist()
        return found

    def __missing__(self, name: str) -> NDArray[Any]:
        self[name] = self._read(name)
        return self[name]

    def _read(self, name: str) -> NDArray[Any]:
        table, plan = self._table, self._plan
        if name in ("answer", "hard", "seconds"):
            return table.floats(name)
        if name == "key":
            return table.ascii(name)
        if name == "missing":
            return (table.positions(name, MISSING_REASONS[1:], nulls=True) + 1).astype(np.int8)
        names = {"arm": ARMS, "first": plan.agent_ids, "second": plan.agent_ids}.get(name, plan.item_ids)
        return table.positions(name, names, nulls=name == "other_item")


def verdict_blocks(path: Path, plan: Plan) -> Sequence[TrialBlock]:
    """The verdicts at `path` in the order of their rows; nothing of them is read yet.

    plan: the run's; its trials are not looked at. Raises: RunFolderError.
    """
    found: list[TrialBlock] = []
    for table in read_table(path, VerdictsSaid).blocks():
        found.append(TrialBlock(table, plan, found[-1].start + found[-1].n_rows if found else 0))
    return found
