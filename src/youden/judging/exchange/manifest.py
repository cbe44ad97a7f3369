"""What an export says of itself, in `export.json` beside its files and in the metadata of its Parquet files.

It tells whose answers are wanted and to which plan, so that those to another one are turned down before they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from youden.errors import InputError
from youden.judging.config.reading import JudgeConfig
from youden.text.misfits import misfit

VERSION = 1
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

    version: int = VERSION
    plan: str = Field(pattern=r"^[0-9a-f]{64}$")
    trials: int = Field(ge=0)
    requests: int = Field(ge=0)
    model: str
    parameters: dict[str, JsonValue]
    judge: dict[str, JsonValue]
    files: list[str] = []

    @classmethod
    def of(cls, config: JudgeConfig, *, plan: str, trials: int, requests: int, files: Iterable[str]) -> Self:
        """What is said of these files."""
        return cls.model_validate(
            {
                "plan": plan,
                "trials": trials,
                "requests": requests,
                "model": config.model,
                "parameters": config.request_parameters,
                "judge": config.public(),
                "files": list(files),
            }
        )

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
        said = _Versioned.model_validate_json(text[:_MOST_BYTES])
        if said.version == VERSION:
            return Manifest.model_validate_json(text)
    except ValidationError as error:
        raise InputError(
            f"{where} does not say which export it is of: {misfit(error)}. Take the export.json that "
            "`youden plan CONFIG --export DIR` wrote, or move the answers away from it.",
            slug="export-unreadable",
        ) from None
    raise InputError(
        f"{where} is of version {said.version} of an export, and this youden reads version {VERSION}. "
        "Export the plan again with this one.",
        slug="export-version",
    )


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


class _Versioned(BaseModel):
    model_config = ConfigDict(strict=True)

    version: int


def _shown(value: JsonValue) -> str:
    return "left out" if value is None else repr(value)[:60]
