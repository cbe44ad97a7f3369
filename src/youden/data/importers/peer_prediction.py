"""Imports the public peer-prediction data: an agents file becomes a pool, a results folder becomes rates of ordered
pairs. Nothing is made up that the data do not hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from youden.data.importers.foreign_files import wrong
from youden.text.printable import acts
from youden.text.regular_files import read_regular
from youden.text.yaml_text import misfit
from youden.types import Agent, Item, Pool
from youden.types.planning import Split
from youden.types.pool import Floats, Ids, ReadOnly
from youden.types.results import Rates

_GROUPS: tuple[dict[str, str], ...] = (
    {
        "faithful": "Faithful, Objective, Comprehensive, Neutral Tone",
        "strategic": (
            "Fact Manipulation, Selective Omission, Misleading Emphasis, Sentiment Flip, Conspiracy Theory, "
            "Contradictory, Context Removal, False Attribution, Agenda Push, Cherry Pick"
        ),
        "low-effort": "Low Effort, Ultra Concise, Template Response, Surface Skim, Minimal Detail",
    },
    {
        "faithful": "Reference, Faithful, Objective Analysis, Thorough Evaluation",
        "strategic": (
            "Method Shift, Question Shift, Contribution Misrepresent, Result Manipulation, Assumption Attack, "
            "Dismissive Expert, Agenda Push, Benchmark Obsessed"
        ),
        "low-effort": "Low Effort, Generic, Surface Skim, Template Fill, Checklist Review",
    },
    {
        "faithful": "Original, Formal, Technical, Academic, Objective, Cultural",
        "strategic": "All Positive, All Negative, Misleading, Contradictory",
        "low-effort": "Low Effort, Exaggerate, Understate, Sarcastic",
    },
)
"""Of each domain (summaries: PubMed, SAMSum; reviews: ICLR; translations: OPUS): group → its conditions."""


def paper_groups(conditions: Collection[str]) -> dict[str, str]:
    """Condition → faithful, strategic or low-effort; style variants are in no group.

    A domain's groups apply only where every name in them is among `conditions`; where none do, nothing is returned.

    >>> paper_groups(["Faithful", "Poetic"])
    {}

    Source: the groups behind the paper's ranking AUC.
    """
    for domain in _GROUPS:
        groups = {name: group for group, names in domain.items() for name in names.split(", ")}
        if groups.keys() <= set(conditions):
            return groups
    return {}


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


class PaperAgentsFile(_Strict):
    """The agents and their responses."""

    agent_perspectives: list[Perspective] = Field(min_length=1)
    tasks: list[Task] = Field(min_length=1)


_M = TypeVar("_M", bound=BaseModel)


def _example_files(folder: Path) -> list[Path]:
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
    return sorted(files, key=lambda file: (int(_example_number(file)), file.name))


def _example_number(file: Path) -> str:
    """The digits in an item's file name, as they stand there."""
    return file.stem.removeprefix(_STEM)


def load_agents(file: Path) -> PaperAgentsFile:
    """An agents file. Raises: ImportFormatError, also where a task has more or fewer responses than there are agents."""
    data = _load(file, PaperAgentsFile)
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


def _load_example(file: Path) -> Example:
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
        return model.model_validate_json(read_regular(file).removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        raise wrong(file, f"it cannot be read ({error.strerror}). Check the path.", slug="import-not-found") from error
    except ValidationError as error:
        said = misfit(error, whole="the file")
        raise wrong(file, f"{said}. Give a file in the public layout.", slug="import-format") from error


def _check_distinct(file: Path, conditions: list[str]) -> None:
    name, count = Counter(conditions).most_common(1)[0]
    if count > 1:
        raise wrong(file, f"{count} agents are called {name!r}. Give each a name of its own.", slug="import-agents")


DIFFERENCE_ONLY = (
    "Imported: only D = TPR − FPR of each ordered pair is known. tpr = max(D, 0) and fpr = max(−D, 0) are a decomposition "
    "of D, not two rates."
)


@dataclass(frozen=True, eq=False)
class ImportedResults(ReadOnly):
    """What a results folder holds.

    rates: D of ordered pairs, decomposed (see the module); n_paired = n_independent = 1 a pair, n_missing 0, detail None.
        An item with an arm in which no call answered has no rows.
    n_failed: int32[J], calls of either arm that failed, of `n_expected` = 2K(K−1) an item. They left 0 and cannot be located.
    notes: what a reader of any number made from these rates has to know.
    """

    name: str
    agents: tuple[Agent, ...]
    rates: Rates
    n_failed: Ids
    n_expected: int
    notes: tuple[str, ...]


def import_agents(path: str | PathLike[str]) -> Pool:
    """The pool of an agents file: agent ids are its conditions, items `task-000`, … with the context as prompt.

    A null response is a missing cell. A strategy goes into the agent's meta. Groups are the paper's, where all its names occur.

    Raises: ImportFormatError with the file and the place in it.
    """
    file = Path(path)
    data = load_agents(file)
    _check_names(file, [said.condition for said in data.agent_perspectives])
    groups = paper_groups([said.condition for said in data.agent_perspectives])
    digits = max(3, len(str(len(data.tasks) - 1)))
    texts = np.empty((len(data.agent_perspectives), len(data.tasks)), dtype=np.object_)
    for number, task in enumerate(data.tasks):
        texts[:, number] = task.responses
    return Pool(
        agents=tuple(
            Agent(
                said.condition,
                group=groups.get(said.condition),
                meta={} if said.strategy is None else {"strategy": said.strategy},
            )
            for said in data.agent_perspectives
        ),
        items=tuple(Item(f"task-{number:0{digits}}", task.context) for number, task in enumerate(data.tasks)),
        texts=texts,
        name=file.stem,
    )


def import_results(path: str | PathLike[str]) -> ImportedResults:
    """The rates of a folder that holds `tvd_mi_individual_examples` (or is it): items `example-0`, … in numeric order.

    D[i, k] = tpr − fpr of the ordered pair (i, k) on an item, exactly; rows by item, then first, then second agent.

    Raises: ImportFormatError with the file and the reason: no items, items that disagree on agents or their order, a matrix that
        is not K × K, values outside [−1, 1], stored row scores that are not the row means, no item that was judged.
    """
    folder = Path(path)
    inner = folder if folder.name == EXAMPLES else folder / EXAMPLES
    files = _example_files(inner)
    examples = [_load_example(file) for file in files]
    conditions = examples[0].condition_keys
    _check_names(files[0], conditions)
    for file, example in zip(files, examples, strict=True):
        if example.condition_keys != conditions:
            raise wrong(
                file,
                f"it disagrees with {files[0].name} on agents: {_difference(conditions, example.condition_keys)}. "
                "All items of a folder need the same condition_keys in the same order.",
                slug="import-agents",
            )
    judged = [position for position, example in enumerate(examples) if example.judged]
    if not judged:
        raise wrong(
            inner,
            f"all comparisons failed: on none of {len(files)} items did both arms get an answer "
            "(num_p_comparisons, num_q_comparisons). Judge again, then import.",
            slug="import-all-failed",
        )
    ids = tuple(f"example-{_example_number(file)}" for file in files)
    n_failed = [example.n_failed for example in examples]
    n_expected = 2 * examples[0].n_pairs
    groups = paper_groups(conditions)
    return ImportedResults(
        name=inner.resolve().parent.name,
        agents=tuple(Agent(condition, group=groups.get(condition)) for condition in conditions),
        rates=_rates(
            np.array([examples[position].tvd_mi_matrix for position in judged]),
            np.array(judged, dtype=np.int32),
            agent_ids=tuple(conditions),
            item_ids=ids,
        ),
        n_failed=np.array(n_failed, dtype=np.int32),
        n_expected=n_expected,
        notes=_notes(ids, n_failed, n_expected=n_expected, n_unjudged=len(files) - len(judged)),
    )


def _rates(matrices: Floats, items: Ids, *, agent_ids: tuple[str, ...], item_ids: tuple[str, ...]) -> Rates:
    first, second = np.nonzero(~np.eye(len(agent_ids), dtype=np.bool_))
    difference = matrices[:, first, second].ravel()
    ones = np.ones(len(difference), dtype=np.int32)
    return Rates(
        item=np.repeat(items, len(first)),
        first=np.tile(first, len(items)).astype(np.int32),
        second=np.tile(second, len(items)).astype(np.int32),
        tpr=np.maximum(difference, 0.0),
        fpr=np.maximum(-difference, 0.0),
        n_paired=ones,
        n_independent=ones,
        n_missing=np.zeros_like(ones),
        independent="twin",
        agent_ids=agent_ids,
        item_ids=item_ids,
        split=Split.whole((len(agent_ids), len(item_ids))),
    )


def _notes(ids: tuple[str, ...], n_failed: list[int], *, n_expected: int, n_unjudged: int) -> tuple[str, ...]:
    notes = [DIFFERENCE_ONLY]
    failed = Counter({name: n for name, n in zip(ids, n_failed, strict=True) if n})
    if failed:
        worst = ", ".join(f"{name} {n}" for name, n in failed.most_common(5))
        notes.append(
            f"{failed.total()} of {n_expected * len(ids)} calls failed, on {len(failed)} of {len(ids)} items "
            f"(most: {worst}). A failed call left 0 and cannot be located."
        )
    if n_unjudged:
        notes.append(f"On {n_unjudged} of {len(ids)} items one arm got no answer at all; they have no rates.")
    return tuple(notes)


def _check_names(file: Path, names: Sequence[str]) -> None:
    for name in names:
        if problem := acts(name):
            raise wrong(file, f"the agent {name[:60]!r} {problem}", slug="import-agents")


def _difference(expected: list[str], arrived: list[str]) -> str:
    if len(expected) != len(arrived):
        return f"{len(arrived)} instead of {len(expected)}"
    pairs = enumerate(zip(expected, arrived, strict=True), 1)
    return next(f"number {n} is {b!r} instead of {a!r}" for n, (a, b) in pairs if a != b)
