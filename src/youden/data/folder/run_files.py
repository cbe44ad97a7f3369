"""Read and write `gates.json`, and define what all files of a run's folder share.

Every file has a version, and an error about a file names the command that writes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from youden.data.atomic import atomic_write
from youden.errors import InputError, RunFolderError
from youden.run_keys import Target
from youden.text.printable import format_command
from youden.text.regular_files import read_regular
from youden.text.yaml_text import format_validation_error

T = TypeVar("T")

VERSION: Final = 2
"""Version of every file; readers refuse any other version."""

FIT_FILES = (
    "rates.parquet",
    "scores.csv",
    "scores_row.csv",
    "holdout.csv",
    "ranking.csv",
    "pairs.parquet",
    "items.csv",
    "curl.csv",
    "variance_components.json",
    "signature.json",
    "ranking.json",
    "fit.json",
)
"""Files that a fit writes, in the order in which they replace those of the previous fit."""

COMMAND_BY_FILE: Final = dict.fromkeys(FIT_FILES, "youden fit RUN") | {
    "config.yaml": "youden plan CONFIG",
    "pool.json": "youden plan CONFIG",
    "plan.parquet": "youden plan CONFIG",
    "verdicts.parquet": "youden judge CONFIG",
    "variance_components.json": "youden study variance RUN",
    "labels.json": "youden fit RUN --labels FILE",
    "quality.csv": "youden quality RUN --labels FILE",
    "quality.json": "youden quality RUN --labels FILE",
    "report.html": "youden report RUN",
    "generation.json": "youden generate AGENTS ITEMS --out POOL",
}
"""File → command that writes it."""


class StrictFile(BaseModel):
    """Content of a file; unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


def missing_file_error(path: Path) -> RunFolderError:
    """Return the error that a file of a run does not exist.

    path : the missing file

    Returns the error [run-missing] if its folder does not exist either; else [run-file-missing].
    """
    if not path.parent.is_dir():
        return RunFolderError(
            f"There is no run folder at {path.parent}. Run `youden run CONFIG` to create one, or check the path.",
            slug="run-missing",
        )
    return RunFolderError(
        f"{path.parent} has no {path.name}. Run `{_format_repair_command(path)}` to write it, or `youden run CONFIG` to write "
        "all files.",
        slug="run-file-missing",
    )


def damaged_file_error(path: Path, problem: str) -> RunFolderError:
    """Return the error that a file of a run does not have the expected content.

    Parameters
    ----------
    path : Path
        The file.
    problem : str
        What is wrong with the content, as a clause that begins in lower case and has no full stop.

    Returns
    -------
    RunFolderError
        [run-file-damaged].
    """
    return RunFolderError(
        f"{path}: {problem}. Run `{_format_repair_command(path)}` to write the file again, or remove it from the folder.",
        slug="run-file-damaged",
    )


def _format_repair_command(path: Path) -> str:
    """Return the command that writes a file of a run, with the path of the run, for error messages."""
    # files of request hashes are named after their judge; they are written together with the verdicts
    default = COMMAND_BY_FILE["verdicts.parquet"]
    command = COMMAND_BY_FILE.get(path.name, default)
    return command.replace("RUN", format_command([str(path.parent)]))


def read_bytes(path: Path) -> bytes:
    """Read a file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    bytes
        The content of the file.

    Raises
    ------
    RunFolderError
        [run-missing], [run-file-missing]: if the folder or the file does not exist.
    """
    if not path.is_file():
        raise missing_file_error(path)
    return path.read_bytes()


def parse_versioned_json(path: Path, content: bytes, adapter: TypeAdapter[T]) -> T:
    """Check the version of a JSON file of a run, and convert its content to an object.

    Parameters
    ----------
    path : Path
        File that the content comes from; errors name it.
    content : bytes
        JSON object with a key `version`.
    adapter : TypeAdapter
        Pydantic's converter from JSON to the class of the object.

    Returns
    -------
    object
        An object of the class of `adapter`.

    Raises
    ------
    RunFolderError
        [run-version]: if another version of youden wrote the file, that is, if `version` is not the one version that this
        release reads; [run-file-damaged]: if the content is not a JSON object, is nested too deeply, lacks a key, or has an
        unknown key or a value of a different type; the message names the key.
    """
    # the version comes first, because a file of another version may have other keys
    try:
        version = json.loads(content)["version"]
    except RecursionError as error:
        raise damaged_file_error(path, "its lists and objects are nested too deeply") from error
    except (ValueError, TypeError, KeyError) as error:
        raise damaged_file_error(path, f"it is not a JSON object with a version ({error})") from error
    if version != VERSION:
        raise RunFolderError(
            f"{path} was written by another version of youden: got version {version!r} of this file, and this one reads only "
            f"version {VERSION}. Nothing was changed. Run the version of youden that wrote it, or make the run again in another "
            "folder (--out).",
            slug="run-version",
        )
    try:
        return adapter.validate_json(content)
    except ValidationError as error:
        raise damaged_file_error(path, format_validation_error(error)) from error


GATES_FILE = "gates.json"


GateQuantity = Literal["ability", "quality"]
"""Quantity that a gate compares."""


class _Analyses(StrictFile):
    """Interim analyses of one agent against one baseline.

    `answers` has the digest of the answers to each analysis, in order. `margins` has the smallest margin so far for each
    quantity that was compared; it is empty in files of earlier versions of youden.
    """

    agent: str
    baseline: str
    target: Target
    margins: dict[GateQuantity, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    answers: list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]


class GateLedger(StrictFile):
    """Content of `gates.json`: interim analyses of agents against baselines.

    An interim analysis tests, with the answers so far, whether the agent is no worse than the baseline.
    All analyses of one agent against one baseline have the same target.
    """

    version: Literal[2] = 2
    analyses: list[_Analyses]

    def _find_analyses(self, agent: str, baseline: str) -> _Analyses | None:
        """Return the analyses of an agent against a baseline; None if there are none."""
        for analyses in self.analyses:
            if analyses.agent == agent and analyses.baseline == baseline:
                return analyses
        return None

    def analysis_number(self, agent: str, baseline: str, *, answers: str, target: Target = "items-like-these") -> int:
        """Return the number of an interim analysis of an agent against a baseline.

        Each analysis of new answers spends a part of alpha, the probability of a wrong decision. The number determines this
        part. Repeating an analysis of the same answers spends nothing. Analyses of ability and quality are counted together.

        Parameters
        ----------
        agent, baseline : str
            Ids of the agents that are compared.
        answers : str
            SHA-256 (hex) of the analyzed answers.
        target : {"items-like-these", "these-items"}, default "items-like-these"
            What the intervals describe: items like those of the run, or exactly these items.

        Returns
        -------
        int
            Number of the analysis, from 1. If the same answers were analyzed before, it is the number of this earlier
            analysis; otherwise, the next number. The ledger is not changed; `with_analysis` adds the analysis.

        Raises
        ------
        InputError
            [gate-target]: if earlier analyses of this agent against this baseline had another target.
        """
        earlier = self._find_analyses(agent, baseline)
        if earlier is None:
            return 1
        if earlier.target != target:
            raise InputError(
                f"Earlier interim analyses of '{agent}' against '{baseline}' had the target {earlier.target}, this one has "
                f"{target}; doing both would spend alpha twice. Set --target {earlier.target}, or start with new answers and "
                "another --ledger.",
                slug="gate-target",
            )
        if answers in earlier.answers:
            return earlier.answers.index(answers) + 1
        return len(earlier.answers) + 1

    def get_smallest_margin(self, agent: str, baseline: str, *, by: GateQuantity = "ability") -> float | None:
        """Return the smallest margin of the earlier analyses of an agent against a baseline.

        Parameters
        ----------
        agent, baseline : str
            Ids of the agents that are compared.
        by : {"ability", "quality"}, default "ability"
            Quantity that was compared; only analyses of this quantity count. The margin has its unit.

        Returns
        -------
        float or None
            The margin, greater than 0; None if no margin is recorded.
        """
        earlier = self._find_analyses(agent, baseline)
        return None if earlier is None else earlier.margins.get(by)

    def with_analysis(
        self,
        agent: str,
        baseline: str,
        *,
        answers: str,
        margin: float,
        by: GateQuantity = "ability",
        target: Target = "items-like-these",
    ) -> GateLedger:
        """Return a copy of the ledger with another interim analysis of an agent against a baseline.

        Parameters
        ----------
        agent, baseline : str
            Ids of the agents that are compared.
        answers : str
            SHA-256 (64 lower-case hex digits) of the analyzed answers. If the ledger already has an analysis of these two agents
            with these answers, no analysis is added, but the margin is still recorded.
        margin : float
            Margin of the analysis, greater than 0, in the unit of `by`. The ledger keeps the smallest one for each quantity.
        by : {"ability", "quality"}, default "ability"
            Quantity that is compared.
        target : {"items-like-these", "these-items"}, default "items-like-these"
            What the intervals describe: items like those of the run, or exactly these items. Recorded with the first
            analysis of this agent against this baseline, and ignored after it.

        Returns
        -------
        GateLedger
            A new ledger. No file is written; see `write_ledger`.

        Raises
        ------
        pydantic.ValidationError
            If `margin` is not greater than 0 or `answers` is not such a hash. Only the first analysis of the agents is checked.
        """
        earlier = self._find_analyses(agent, baseline)
        if earlier is None:
            first_analysis = _Analyses(
                agent=agent, baseline=baseline, target=target, margins={by: margin}, answers=[answers]
            )
            return GateLedger(analyses=[*self.analyses, first_analysis])

        margins = {**earlier.margins, by: min(margin, earlier.margins.get(by, margin))}
        distinct_answers = list(dict.fromkeys([*earlier.answers, answers]))
        extended = earlier.model_copy(update={"margins": margins, "answers": distinct_answers})
        other_pairs = [analyses for analyses in self.analyses if analyses is not earlier]
        return GateLedger(analyses=[*other_pairs, extended])


def read_ledger(path: Path) -> GateLedger:
    """Read the ledger of a gate: the file that lists the analyses of the gate so far.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    GateLedger
        The ledger. It has no analyses if the file does not exist.

    Raises
    ------
    RunFolderError
        [gate-ledger]: if the file is not a ledger.
    """
    if not path.exists():
        return GateLedger(analyses=[])
    try:
        ledger = GateLedger.model_validate_json(read_regular(path))
    except ValidationError as error:
        raise _damaged_ledger_error(path, format_validation_error(error)) from error
    compared_pairs = {(pair.agent, pair.baseline) for pair in ledger.analyses}
    if len(compared_pairs) < len(ledger.analyses):
        raise _damaged_ledger_error(path, "a pair of agents occurs twice")
    return ledger


def write_ledger(path: Path, ledger: GateLedger) -> None:
    """Write a ledger, which atomically replaces an existing one.

    Parameters
    ----------
    path : Path
        The file.
    ledger : GateLedger
        Its pairs are sorted, so that the same analyses give the same file.
    """
    analyses = sorted(ledger.analyses, key=lambda pair: (pair.agent, pair.baseline))
    with atomic_write(path) as tmp_path:
        text = GateLedger(analyses=analyses).model_dump_json(indent=1)
        tmp_path.write_text(text + "\n", encoding="utf-8", newline="\n")


def _damaged_ledger_error(path: Path, problem: str) -> RunFolderError:
    """Return the error that a file is not a ledger; `problem` is a clause without a full stop."""
    return RunFolderError(
        f"{path} is not a record of interim analyses ({problem}). Restore the file: it records how often the answers were "
        "analyzed, and each analysis spends a part of alpha. Remove it only to start with new answers.",
        slug="gate-ledger",
    )
