"""The file of looks: which two agents were compared on which answers, so that looking again at the same is no new look.

They stand in `gates.json`, with what they spoke of: two targets would be two chances to pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from youden.data.atomic import replacing
from youden.errors import InputError, RunFolderError
from youden.nouns import Target
from youden.text.misfits import misfit

FILE = "gates.json"


class _Pair(BaseModel):
    """answers: digests of the answers that were looked at, the first look first."""

    model_config = ConfigDict(extra="forbid", strict=True)

    agent: str
    baseline: str
    target: Target
    answers: list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]


class LedgerFile(BaseModel):
    """`gates.json` as it stands in the folder."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1] = 1
    looks: list[_Pair]


@dataclass(frozen=True)
class GateLedger:
    """Looks by (agent, baseline): the digests of the answers each of them saw, in order, and the target all of them had."""

    looks: dict[tuple[str, str], tuple[str, ...]]
    targets: dict[tuple[str, str], Target] = field(default_factory=dict)

    def look(self, agent: str, baseline: str, *, answers: str, target: Target = "items-like-these") -> int:
        """Which look, from 1 on, this is or would be. Raises: InputError [gate-target] after looks of another target."""
        seen = self.looks.get((agent, baseline), ())
        if seen and (before := self.targets[agent, baseline]) != target:
            raise InputError(
                f"Earlier looks at '{agent}' against '{baseline}' spoke of {before}, this one of {target}; both would spend "
                f"error twice. Go on with --target {before}, or begin with new answers and another --ledger.",
                slug="gate-target",
            )
        return seen.index(answers) + 1 if answers in seen else len(seen) + 1

    def having(self, agent: str, baseline: str, *, answers: str, target: Target = "items-like-these") -> GateLedger:
        """This ledger with that look."""
        pair, seen = (agent, baseline), self.looks.get((agent, baseline), ())
        if answers in seen:
            return self
        return GateLedger({**self.looks, pair: (*seen, answers)}, {**self.targets, pair: target})


def read_ledger(path: Path) -> GateLedger:
    """The ledger at `path`, without a look where there is no file. Raises: RunFolderError [gate-ledger]."""
    if not path.exists():
        return GateLedger({})
    try:
        pairs = LedgerFile.model_validate_json(path.read_bytes()).looks
    except ValidationError as error:
        raise _damaged(path, misfit(error)) from error
    looks = {(pair.agent, pair.baseline): tuple(dict.fromkeys(pair.answers)) for pair in pairs}
    if len(looks) < len(pairs):
        raise _damaged(path, "two agents are there twice")
    return GateLedger(looks, {(pair.agent, pair.baseline): pair.target for pair in pairs})


def write_ledger(path: Path, ledger: GateLedger) -> None:
    """Replaces `path` in one step; pairs sorted, so that the same looks make the same file."""
    pairs = [
        _Pair(agent=a, baseline=b, target=ledger.targets[a, b], answers=list(seen))
        for (a, b), seen in sorted(ledger.looks.items())
    ]
    with replacing(path) as fresh:
        fresh.write_text(LedgerFile(looks=pairs).model_dump_json(indent=1) + "\n", encoding="utf-8", newline="\n")


def _damaged(path: Path, problem: str) -> RunFolderError:
    return RunFolderError(
        f"{path} is no record of looks ({problem}). Put back the file as it was: it says how often the answers were looked at, "
        "and each look has to leave error to the next. Delete it only to begin with new answers.",
        slug="gate-ledger",
    )
