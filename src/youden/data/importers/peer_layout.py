"""The public layout of peer-prediction files, read and checked one file at a time.

An error names the place in the file.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from youden.errors import ImportFormatError
from youden.text.misfits import misfit

EXAMPLES = "tvd_mi_individual_examples"
SCORE_TOLERANCE = 1e-9

_STEM = "tvd_mi_example_"
_NAME = re.compile(rf"{_STEM}(\d+)\.json", re.ASCII)

_Difference = Annotated[float, Field(ge=-1, le=1)]
_Count = Annotated[int, Field(ge=0)]
_Name = Annotated[str, Field(pattern=r"\S")]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class Metadata(_Strict):
    """How many calls of each arm answered."""

    num_p_comparisons: _Count
    num_q_comparisons: _Count


class Example(_Strict):
    """One item of a results folder. tvd_mi_matrix[i][k]: p − q of the ordered pair (i, k), diagonal 0."""

    condition_keys: list[_Name] = Field(min_length=2)
    tvd_mi_matrix: list[list[_Difference]]
    tvd_mi_scores: list[_Difference]
    metadata: Metadata

    @property
    def n_pairs(self) -> int:
        """Ordered pairs K(K−1), each of them one call an arm."""
        return len(self.condition_keys) * (len(self.condition_keys) - 1)

    @property
    def n_failed(self) -> int:
        """Calls of either arm that did not answer."""
        return 2 * self.n_pairs - self.metadata.num_p_comparisons - self.metadata.num_q_comparisons

    @property
    def judged(self) -> bool:
        """Whether both arms got an answer at all; without, D is not known."""
        return min(self.metadata.num_p_comparisons, self.metadata.num_q_comparisons) > 0


class Perspective(_Strict):
    """One agent of an agents file."""

    condition: _Name
    strategy: JsonValue = None


class Task(_Strict):
    """One item of an agents file: its source text and the responses in the order of the agents."""

    context: str | None = None
    responses: list[str | None]


class AgentsFile(_Strict):
    """The agents and their responses."""

    agent_perspectives: list[Perspective] = Field(min_length=1)
    tasks: list[Task] = Field(min_length=1)


_M = TypeVar("_M", bound=BaseModel)


def wrong(file: Path, problem: str, *, slug: str) -> ImportFormatError:
    """The error that names the file first."""
    return ImportFormatError(f"{file}: {problem}", slug=slug)


def example_files(folder: Path) -> list[Path]:
    """The `tvd_mi_example_<number>.json` of a folder by number; the aggregate is no item.

    Raises: ImportFormatError for no folder, no such file, or an item's file whose name has no number.
    """
    if not folder.is_dir():
        raise wrong(
            folder,
            f"there is no such folder. Give an agents file, or a folder that holds {EXAMPLES}.",
            slug="import-not-found",
        )
    files = list(folder.glob(f"{_STEM}*.json"))
    for file in files:
        if not _NAME.fullmatch(file.name):
            raise wrong(file, f"the item has no number. Name the file {_STEM}<number>.json.", slug="import-name")
    if not files:
        raise wrong(
            folder, f"it has no {_STEM}<number>.json. Give a folder with one for each item.", slug="import-empty"
        )
    return sorted(files, key=lambda file: (int(example_number(file)), file.name))


def example_number(file: Path) -> str:
    """The digits in an item's file name, as they stand there."""
    return file.stem.removeprefix(_STEM)


def load_agents(file: Path) -> AgentsFile:
    """An agents file. Raises: ImportFormatError, also where a task has more or fewer responses than there are agents."""
    data = _load(file, AgentsFile)
    _check_distinct(file, [said.condition for said in data.agent_perspectives])
    for number, task in enumerate(data.tasks):
        if len(task.responses) != len(data.agent_perspectives):
            raise wrong(
                file,
                f"tasks.{number}.responses has {len(task.responses)} entries for {len(data.agent_perspectives)} "
                "agent_perspectives. Give one response, or null, for each.",
                slug="import-shape",
            )
    return data


def load_example(file: Path) -> Example:
    """An item's file. Raises: ImportFormatError, also where matrix, scores and counts do not fit each other."""
    example = _load(file, Example)
    _check_distinct(file, example.condition_keys)
    K = len(example.condition_keys)
    lengths = {len(row) for row in example.tvd_mi_matrix}
    if len(example.tvd_mi_matrix) != K or lengths != {K} or len(example.tvd_mi_scores) != K:
        raise wrong(
            file,
            f"for {K} condition_keys tvd_mi_matrix has {len(example.tvd_mi_matrix)} rows of {sorted(lengths)} values and "
            f"tvd_mi_scores {len(example.tvd_mi_scores)}. Give {K} × {K} and {K}.",
            slug="import-shape",
        )
    matrix = np.array(example.tvd_mi_matrix)
    if np.diag(matrix).any():
        raise wrong(
            file,
            f"the diagonal of tvd_mi_matrix is {np.diag(matrix).tolist()}, not 0. Export it again.",
            slug="import-diagonal",
        )
    counts = example.metadata.num_p_comparisons, example.metadata.num_q_comparisons
    if max(counts) > example.n_pairs:
        raise wrong(
            file,
            f"num_p_comparisons and num_q_comparisons are {counts}; {K} agents have {example.n_pairs} pairs. Export it again.",
            slug="import-counts",
        )
    means = matrix.sum(axis=1) / (K - 1)
    gap = np.abs(means - np.array(example.tvd_mi_scores))
    if gap.max() > SCORE_TOLERANCE:
        worst = int(gap.argmax())
        raise wrong(
            file,
            f"tvd_mi_scores gives {example.condition_keys[worst]!r} {example.tvd_mi_scores[worst]!r}, the mean of its row in "
            f"tvd_mi_matrix is {float(means[worst])!r}. One of them is not of this item: export it again.",
            slug="import-scores",
        )
    return example


def _load(file: Path, model: type[_M]) -> _M:
    try:
        return model.model_validate_json(file.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        raise wrong(file, f"it cannot be read ({error.strerror}). Check the path.", slug="import-not-found") from error
    except ValidationError as error:
        said = misfit(error, whole="the file")
        raise wrong(file, f"{said}. Give a file in the public layout.", slug="import-format") from error


def _check_distinct(file: Path, conditions: list[str]) -> None:
    name, count = Counter(conditions).most_common(1)[0]
    if count > 1:
        raise wrong(file, f"{count} agents are called {name!r}. Give each a name of its own.", slug="import-agents")
