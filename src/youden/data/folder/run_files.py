"""The JSON files of a run's folder: which command makes each file, what is said when one is missing or does not fit,
`pool.json` and `gates.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from youden.data.atomic import replacing
from youden.errors import InputError, RunFolderError
from youden.run_keys import Target
from youden.text.regular_files import read_regular
from youden.text.words import mean_lengths
from youden.text.yaml_text import misfit
from youden.types import Agent, Pool
from youden.types.pool import Floats, ReadOnly, or_none

T = TypeVar("T")

VERSION: Final = 1
"""Of every file. A reader takes this one alone."""

FITTED = (
    "rates.parquet",
    "scores.csv",
    "scores_row.csv",
    "holdout.csv",
    "ranking.csv",
    "pairs.parquet",
    "items.csv",
    "curl.csv",
    "moves.json",
    "signature.json",
    "ranking.json",
    "fit.json",
)
"""What a fit writes, in the order in which it takes its place."""

MADE_BY: Final = dict.fromkeys(FITTED, "youden fit RUN") | {
    "config.yaml": "youden plan CONFIG",
    "pool.json": "youden plan CONFIG",
    "plan.parquet": "youden plan CONFIG",
    "verdicts.parquet": "youden judge CONFIG",
    "moves.json": "youden study variance RUN",
    "labels.json": "youden fit RUN --labels FILE",
    "quality.csv": "youden quality RUN --labels FILE",
    "quality.json": "youden quality RUN --labels FILE",
    "report.html": "youden report RUN",
    "generation.json": "youden generate AGENTS ITEMS --out POOL",
}


class StrictFile(BaseModel):
    """What stands in a file, or in a part of one: no key that nobody knows, no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)


def missing(path: Path) -> RunFolderError:
    """The error for a file that is not there."""
    if not path.parent.is_dir():
        return RunFolderError(
            f"There is no run's folder at {path.parent}. Make one with `youden run CONFIG`, or correct the path.",
            slug="run-missing",
        )
    return RunFolderError(
        f"{path.parent} has no {path.name}. Make it with `{_made_by(path)}`; `youden run CONFIG` makes all files.",
        slug="run-file-missing",
    )


def damaged(path: Path, problem: str) -> RunFolderError:
    """The error for a file that is there and not what it has to be. `problem`: what was expected, what arrived."""
    return RunFolderError(
        f"{path}: {problem}. Make it again with `{_made_by(path)}`, or take it out of the folder.",
        slug="run-file-damaged",
    )


def _made_by(path: Path) -> str:
    return MADE_BY.get(path.name, MADE_BY["verdicts.parquet"])  # keys are called after their judge


def read_bytes(path: Path) -> bytes:
    """The file's content. Raises: RunFolderError [run-missing], [run-file-missing]."""
    if not path.is_file():
        raise missing(path)
    return path.read_bytes()


def parse(path: Path, text: bytes, kind: TypeAdapter[T]) -> T:
    """JSON of this version as what `kind` describes.

    Raises: RunFolderError [run-version], [run-file-damaged] naming the place in it.
    """
    try:
        version = json.loads(text)["version"]
    except RecursionError as error:
        raise damaged(path, "its lists and objects are nested too deeply") from error
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(path, f"it is no JSON object with a version ({error})") from error
    if version != VERSION:
        raise RunFolderError(
            f"{path} was written by another youden: it is version {version!r} of this file, and this one "
            f"reads version {VERSION} alone. Nothing was changed. Use the "
            "youden that wrote it, or make the run anew in another folder (--out).",
            slug="run-version",
        )
    try:
        return kind.validate_json(text)
    except ValidationError as error:
        raise damaged(path, misfit(error)) from error


@dataclass(frozen=True, eq=False)
class PoolSummary(ReadOnly):
    """A pool without its texts.

    digest: the pool's; None where the run was imported without texts. source: where the pool came from, as given.
    n_missing: cells without a response; None where that is not known.
    mean_length: float[K], mean words of each agent's responses, NaN for an agent without any; None where no text was seen.
    notes: what a reader of any number made from this pool has to know.
    """

    name: str
    digest: str | None
    source: str
    agents: tuple[Agent, ...]
    item_ids: tuple[str, ...]
    n_missing: int | None
    mean_length: Floats | None
    notes: tuple[str, ...] = field(default=())

    @property
    def agent_ids(self) -> tuple[str, ...]:
        return tuple(agent.id for agent in self.agents)

    @property
    def groups(self) -> dict[str, str | None]:
        """Agent → group."""
        return {agent.id: agent.group for agent in self.agents}

    @property
    def families(self) -> dict[str, str]:
        """Agent → family, of those that say one."""
        said = {agent.id: agent.meta.get("family") for agent in self.agents}
        return {agent: family for agent, family in said.items() if isinstance(family, str) and family}

    @classmethod
    def of(cls, pool: Pool, *, source: str) -> PoolSummary:
        """What a run keeps of its pool: who and what, not the texts."""
        ids, lengths = tuple(item.id for item in pool.items), mean_lengths(pool.texts)
        return cls(pool.name, pool.digest, source, pool.agents, ids, pool.n_missing, lengths)

    @classmethod
    def of_import(cls, agents: tuple[Agent, ...], item_ids: tuple[str, ...], *, source: str) -> PoolSummary:
        """Of a run that was imported without texts."""
        return cls(source, None, source, agents, item_ids, n_missing=None, mean_length=None)


class _AgentLine(StrictFile):
    id: str
    group: str | None
    mean_words: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    meta: Mapping[str, JsonValue]


class PoolFile(StrictFile):
    """`pool.json` as it stands in the folder."""

    version: int
    name: str
    digest: str | None
    source: str
    n_missing: int | None
    agents: list[_AgentLine]
    items: list[str]
    notes: list[str]

    @classmethod
    def of(cls, pool: PoolSummary) -> Self:
        """The file of a summary."""
        lengths = [None] * len(pool.agents) if pool.mean_length is None else map(or_none, pool.mean_length.tolist())
        return cls(
            version=VERSION,
            **{name: getattr(pool, name) for name in ("name", "digest", "source", "n_missing")},
            agents=[
                _AgentLine(id=agent.id, group=agent.group, mean_words=length, meta=dict(agent.meta))
                for agent, length in zip(pool.agents, lengths, strict=True)
            ],
            items=list(pool.item_ids),
            notes=list(pool.notes),
        )

    def summary(self) -> PoolSummary:
        """The noun."""
        lengths = [agent.mean_words for agent in self.agents]
        unmeasured = all(length is None for length in lengths)
        return PoolSummary(
            name=self.name,
            digest=self.digest,
            source=self.source,
            agents=tuple(Agent(line.id, line.group, dict(line.meta)) for line in self.agents),
            item_ids=tuple(self.items),
            n_missing=self.n_missing,
            mean_length=None if unmeasured else np.array(lengths, dtype=np.float64),
            notes=tuple(self.notes),
        )


FILE = "gates.json"


class _Analyses(StrictFile):
    """Interim analyses of one agent against one baseline. answers: digests of the answers of each, in order."""

    agent: str
    baseline: str
    target: Target
    answers: list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]


class GateLedger(StrictFile):
    """`gates.json`: the interim analyses of each agent and baseline, all with one target."""

    version: Literal[1] = 1
    looks: list[_Analyses]

    def _find(self, agent: str, baseline: str) -> _Analyses | None:
        return next((pair for pair in self.looks if (pair.agent, pair.baseline) == (agent, baseline)), None)

    def look(self, agent: str, baseline: str, *, answers: str, target: Target = "items-like-these") -> int:
        """Return the number, from 1 on, that the analysis of these answers has or would have.

        Raises
        ------
        InputError
            [gate-target]: if earlier analyses had another target.
        """
        pair = self._find(agent, baseline)
        if pair is None:
            return 1
        if pair.target != target:
            raise InputError(
                f"Earlier looks at '{agent}' against '{baseline}' were about {pair.target}, this one is about {target}; doing "
                f"both would spend the allowed error twice. Go on with --target {pair.target}, or begin with new answers and "
                "another --ledger.",
                slug="gate-target",
            )
        return pair.answers.index(answers) + 1 if answers in pair.answers else len(pair.answers) + 1

    def having(self, agent: str, baseline: str, *, answers: str, target: Target = "items-like-these") -> GateLedger:
        """Return this ledger with that analysis."""
        pair = self._find(agent, baseline)
        if pair is None:
            pair = _Analyses(agent=agent, baseline=baseline, target=target, answers=[])
        elif answers in pair.answers:
            return self
        longer = pair.model_copy(update={"answers": [*pair.answers, answers]})
        return GateLedger(looks=[*(other for other in self.looks if other is not pair), longer])


def read_ledger(path: Path) -> GateLedger:
    """Read the ledger at `path`; without a file, one without analyses. Raises: RunFolderError [gate-ledger]."""
    if not path.exists():
        return GateLedger(looks=[])
    try:
        ledger = GateLedger.model_validate_json(read_regular(path))
    except ValidationError as error:
        raise _damaged(path, misfit(error)) from error
    if len({(pair.agent, pair.baseline) for pair in ledger.looks}) < len(ledger.looks):
        raise _damaged(path, "two agents are there twice")
    return ledger


def write_ledger(path: Path, ledger: GateLedger) -> None:
    """Replace `path` in one step; pairs are sorted, so that the same analyses make the same file."""
    looks = sorted(ledger.looks, key=lambda pair: (pair.agent, pair.baseline))
    with replacing(path) as fresh:
        text = GateLedger(looks=looks).model_dump_json(indent=1)
        fresh.write_text(text + "\n", encoding="utf-8", newline="\n")


def _damaged(path: Path, problem: str) -> RunFolderError:
    return RunFolderError(
        f"{path} is no record of looks ({problem}). Put back the file as it was: it says how often the answers were looked at, "
        "and each look has to leave error to the next. Delete it only to begin with new answers.",
        slug="gate-ledger",
    )
