"""Import the public data of the peer-prediction paper: agents files and results folders.

A results folder holds only D = TPR − FPR of each ordered pair of agents; the import does not estimate the two rates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from youden.data.importers.foreign_files import import_error
from youden.text.printable import find_name_fault
from youden.text.regular_files import read_regular
from youden.text.sentences import format_count
from youden.text.yaml_text import format_validation_error
from youden.types import Agent, Item, Pool
from youden.types.planning import Split
from youden.types.pool import Floats, Ids, ReadOnly
from youden.types.results import Rates

_CONDITIONS_BY_GROUP: tuple[dict[str, str], ...] = (
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
"""Conditions by group, one mapping per domain of the paper: summaries (PubMed, SAMSum), reviews (ICLR), translations (OPUS)."""


def find_paper_groups(conditions: Collection[str]) -> dict[str, str]:
    """Return the groups of the agents in the experiments of the peer-prediction paper.

    In the paper, agents are called conditions. Each of its domains (summaries, reviews, translations) has its own conditions.

    conditions : names of the agents

    Returns the group by condition: "faithful", "strategic" or "low-effort". Variants of style have no group, and are left out.
    The groups of a domain are returned only if `conditions` contains all conditions of the domain that have a group.

    >>> find_paper_groups(["Faithful", "Poetic"])
    {}
    """
    names = set(conditions)
    for condition_lists in _CONDITIONS_BY_GROUP:
        group_by_condition: dict[str, str] = {}
        for group, condition_list in condition_lists.items():
            for condition in condition_list.split(", "):
                group_by_condition[condition] = group

        is_domain_complete = names.issuperset(group_by_condition)
        if is_domain_complete:
            return group_by_condition
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
    """Number of calls with an answer: paired trials (p) and independent trials (q)."""

    num_p_comparisons: _Count
    num_q_comparisons: _Count


class Example(_Strict):
    """An item of a results folder. `tvd_mi_matrix[i][k]` is D of the ordered pair (i, k); the diagonal is 0."""

    condition_keys: list[_Name] = Field(min_length=2)
    tvd_mi_matrix: list[list[_Difference]]
    tvd_mi_scores: list[_Difference]
    metadata: Metadata

    @property
    def n_pairs(self) -> int:
        """Number of ordered pairs, K(K−1); each has one call per trial type."""
        return len(self.condition_keys) * (len(self.condition_keys) - 1)

    @property
    def n_failed(self) -> int:
        """Number of failed calls, paired and independent trials together: the calls for which no answer is counted."""
        return 2 * self.n_pairs - self.metadata.num_p_comparisons - self.metadata.num_q_comparisons

    @property
    def is_judged(self) -> bool:
        """Whether each trial type has at least one answer; otherwise D is unknown."""
        return min(self.metadata.num_p_comparisons, self.metadata.num_q_comparisons) > 0


class Perspective(_Strict):
    """One agent of an agents file."""

    condition: _Name
    strategy: JsonValue = None


class Task(_Strict):
    """One item of an agents file: its source text, and the responses in the order of the agents."""

    context: str | None = None
    responses: list[str | None]


class PaperAgentsFile(_Strict):
    """An agents file: agents, and items with their responses."""

    agent_perspectives: list[Perspective] = Field(min_length=1)
    tasks: list[Task] = Field(min_length=1)


_M = TypeVar("_M", bound=BaseModel)


def _find_example_files(folder: Path) -> list[Path]:
    """List the files `tvd_mi_example_<number>.json` of a folder, one per item, sorted by number.

    Raises: ImportFormatError [import-not-found] if there is no such folder; [import-empty] if it has no such file;
        [import-name] if the name of a file has no number.
    """
    if not folder.is_dir():
        raise import_error(
            folder,
            f"there is no such folder. Pass an agents file, or a folder that contains {EXAMPLES}.",
            slug="import-not-found",
        )
    files = list(folder.glob(f"{_STEM}*.json"))
    for file in files:
        if not _NAME.fullmatch(file.name):
            raise import_error(
                file, f"its name has no number. Set the name to {_STEM}<number>.json.", slug="import-name"
            )
    if not files:
        raise import_error(
            folder, f"it has no file {_STEM}<number>.json. Pass a folder with one file per item.", slug="import-empty"
        )
    return sorted(files, key=lambda file: (int(_parse_example_number(file)), file.name))


def _parse_example_number(file: Path) -> str:
    """Return the number in the name of an item's file, with leading zeros, such as "007"."""
    return file.stem.removeprefix(_STEM)


def load_agents(file: Path) -> PaperAgentsFile:
    """Read and check an agents file, which holds the responses of all agents to all items.

    file : the JSON file

    Returns the agents of the file, and one task per item with a response of each agent.

    Raises: ImportFormatError [import-not-found] if the file cannot be read; [import-format] if it has a different layout;
        [import-agents] if two agents have the same name; [import-shape] if a task does not have one response per agent.
    """
    content = _read_json_file(file, PaperAgentsFile)
    agent_names = [perspective.condition for perspective in content.agent_perspectives]
    _check_unique_names(file, agent_names)

    n_agents = len(agent_names)
    for number, task in enumerate(content.tasks):
        n_responses = len(task.responses)
        if n_responses != n_agents:
            raise import_error(
                file,
                f"tasks.{number}.responses has {n_responses} entries for {n_agents} agent_perspectives. Set one response, or "
                "null, for each.",
                slug="import-shape",
            )
    return content


def _load_examples(files: Sequence[Path]) -> list[Example]:
    """Read the files of a results folder, and check that all of them have the same agents.

    In the paper, items are called examples, and agents are called conditions.

    files : files of the folder, one per item; at least one

    Returns the content of each file, in the order of `files`.

    Raises: ImportFormatError [import-agents] if two files have different agents, or the same agents in a different order, or if a
        name cannot be the id of an agent; others if the content of a file is not consistent (see `_load_example`).
    """
    examples = [_load_example(file) for file in files]
    agent_ids = examples[0].condition_keys
    _check_names(files[0], agent_ids)

    for file, example in zip(files, examples, strict=True):
        if example.condition_keys != agent_ids:
            difference = _describe_difference(agent_ids, example.condition_keys)
            raise import_error(
                file,
                f"it disagrees with {files[0].name} on agents: {difference}. "
                "Set the same condition_keys in the same order for all items.",
                slug="import-agents",
            )
    return examples


def _load_example(file: Path) -> Example:
    """Read the file of an item; raise ImportFormatError if its matrix, scores and counts do not fit together."""
    example = _read_json_file(file, Example)
    _check_unique_names(file, example.condition_keys)
    _check_shapes(file, example)
    diagonal = np.diag(np.array(example.tvd_mi_matrix))
    if diagonal.any():
        raise import_error(
            file,
            f"the diagonal of tvd_mi_matrix is not 0: got {diagonal.tolist()}. Export it again.",
            slug="import-diagonal",
        )

    counts = (example.metadata.num_p_comparisons, example.metadata.num_q_comparisons)
    if max(counts) > example.n_pairs:
        raise import_error(
            file,
            f"num_p_comparisons and num_q_comparisons exceed the {example.n_pairs} pairs of agents: got {counts}. Export it "
            "again.",
            slug="import-counts",
        )
    _check_scores(file, example)
    return example


def _check_shapes(file: Path, example: Example) -> None:
    """Check the sizes of the matrix and the list of scores of an item.

    With n agents, the matrix must have n rows and n columns, and the list n scores.

    file : file of the item, for the error message
    example : content of the file

    Raises: ImportFormatError [import-shape] if a size is different.
    """
    n_agents = len(example.condition_keys)
    n_rows = len(example.tvd_mi_matrix)
    row_lengths = {len(row) for row in example.tvd_mi_matrix}
    n_scores = len(example.tvd_mi_scores)
    is_matrix_square = n_rows == n_agents and row_lengths == {n_agents}
    if not is_matrix_square or n_scores != n_agents:
        raise import_error(
            file,
            f"for {n_agents} condition_keys tvd_mi_matrix has {n_rows} rows of {sorted(row_lengths)} values and "
            f"tvd_mi_scores {n_scores} values. Set {n_agents} × {n_agents} and {n_agents} values.",
            slug="import-shape",
        )


def _check_scores(file: Path, example: Example) -> None:
    """Check that the score of each agent is the mean of its row of the matrix, without the diagonal.

    A different score shows that the file was changed or damaged. The diagonal compares an agent with itself.

    file : file of the item, for the error message
    example : content of the file; the diagonal of its matrix is 0

    Raises: ImportFormatError [import-scores] if a score differs from the mean of its row by more than `SCORE_TOLERANCE`.
    """
    matrix = np.array(example.tvd_mi_matrix)
    # the sum of a row has n_agents - 1 terms, because the diagonal is 0
    means = matrix.sum(axis=1) / (len(matrix) - 1)
    deviations = np.abs(means - np.array(example.tvd_mi_scores))
    if deviations.max() > SCORE_TOLERANCE:
        worst = int(deviations.argmax())
        raise import_error(
            file,
            f"tvd_mi_scores gives {example.condition_keys[worst]!r} {example.tvd_mi_scores[worst]!r}, but the mean of its row in "
            f"tvd_mi_matrix is {float(means[worst])!r}. Export it again.",
            slug="import-scores",
        )


def _read_json_file(file: Path, content_class: type[_M]) -> _M:
    """Read a JSON file, and check that it has the keys and types of a pydantic class.

    content_class : class that declares the keys of the file, for example `PaperAgentsFile`

    Returns an instance of the class with the content of the file.

    Raises ImportFormatError [import-not-found] if the file cannot be read, or [import-format] if it is not JSON, lacks a
    key or has a value of a different type.
    """
    byte_order_mark = b"\xef\xbb\xbf"
    try:
        content = read_regular(file).removeprefix(byte_order_mark)
        return content_class.model_validate_json(content)
    except OSError as error:
        raise import_error(
            file, f"it cannot be read ({error.strerror}). Check the path.", slug="import-not-found"
        ) from error
    except ValidationError as error:
        problem = format_validation_error(error, subject="the file")
        raise import_error(file, f"{problem}. Pass a file in the public layout.", slug="import-format") from error


def _check_unique_names(file: Path, conditions: list[str]) -> None:
    """Raise ImportFormatError [import-agents] if two agents have the same name."""
    name, count = Counter(conditions).most_common(1)[0]
    if count > 1:
        raise import_error(
            file, f"{count} agents have the name {name!r}. Set a different name for each.", slug="import-agents"
        )


DIFFERENCE_ONLY = (
    "Imported: only D = TPR − FPR of each ordered pair is known. tpr = max(D, 0) and fpr = max(−D, 0) are a decomposition "
    "of D, not two rates."
)


@dataclass(frozen=True, eq=False)
class ImportedResults(ReadOnly):
    """Contents of a results folder.

    Attributes
    ----------
    name : str
        Name of the folder.
    agents : tuple of Agent
    rates : Rates
        One row per item and ordered pair. Only D = TPR − FPR is known: `tpr` is max(D, 0), and `fpr` is max(−D, 0). Each
        row counts one paired and one independent trial, none missing. Items with no answer of one trial type have no rows.
    n_failed : int32 array (n_items,)
        Number of failed calls of both trial types. The files hold 0 for a failed call, so that its pair is unknown.
    n_expected : int
        Number of calls per item, 2K(K−1).
    notes : tuple of str
        Limitations of all numbers that are computed from these rates.
    """

    name: str
    agents: tuple[Agent, ...]
    rates: Rates
    n_failed: Ids
    n_expected: int
    notes: tuple[str, ...]


def import_agents(path: str | PathLike[str]) -> Pool:
    """Import an agents file as a pool.

    The conditions become the ids of the agents. The tasks become the items `task-000`, `task-001`, …, with their
    contexts as prompts. If a response is null, the agent has no response to the item. The strategy of an agent is stored in its
    `meta`. If the agents are those of an experiment of the paper, they get the groups "faithful", "strategic" and "low-effort"
    (`find_paper_groups`); otherwise, they have no groups.

    Parameters
    ----------
    path : str or path
        The agents file.

    Returns
    -------
    Pool
        The agents, items and responses of the file; its name is that of the file without the suffix.

    Raises
    ------
    ImportFormatError
        [import-not-found], [import-format], [import-shape] or [import-agents], with file and location.
    """
    file = Path(path)
    data = load_agents(file)
    conditions = [perspective.condition for perspective in data.agent_perspectives]
    _check_names(file, conditions)

    agents = _make_agents(data.agent_perspectives, find_paper_groups(conditions))

    n_digits = max(3, len(str(len(data.tasks) - 1)))
    items = [Item(f"task-{number:0{n_digits}}", task.context) for number, task in enumerate(data.tasks)]
    texts = np.empty((len(agents), len(items)), dtype=np.object_)
    for number, task in enumerate(data.tasks):
        texts[:, number] = task.responses
    return Pool(agents=agents, items=tuple(items), texts=texts, name=file.stem)


def _make_agents(perspectives: Sequence[Perspective], groups: Mapping[str, str]) -> tuple[Agent, ...]:
    """Make the agents of a pool from the perspectives in an agents file.

    perspectives : agents in the file. The condition becomes the id, and the strategy, if there is one, the value "strategy"
        of `meta`.
    groups : group of each agent by its id; an agent that is missing here has no group
    """
    agents = []
    for perspective in perspectives:
        meta = {} if perspective.strategy is None else {"strategy": perspective.strategy}
        agents.append(Agent(perspective.condition, group=groups.get(perspective.condition), meta=meta))
    return tuple(agents)


def import_results(path: str | PathLike[str]) -> ImportedResults:
    """Import a results folder as rates of ordered pairs.

    Parameters
    ----------
    path : str or path
        The folder `tvd_mi_individual_examples`, or the folder that contains it.

    Returns
    -------
    ImportedResults
        Its rates are sorted by item, first agent and second agent. The ids of items are `example-0`, …, by number.

    Raises
    ------
    ImportFormatError
        [import-not-found], [import-empty] or [import-name] if the folder has no files of items; [import-format],
        [import-shape], [import-diagonal], [import-counts] or [import-scores] if a file is invalid; [import-agents] if
        items have different agents; [import-all-failed] if no item has an answer of each trial type.
    """
    folder = Path(path)
    examples_folder = folder if folder.name == EXAMPLES else folder / EXAMPLES
    files = _find_example_files(examples_folder)
    examples = _load_examples(files)
    conditions = examples[0].condition_keys
    judged = [position for position, example in enumerate(examples) if example.is_judged]
    if not judged:
        raise import_error(
            examples_folder,
            f"all comparisons failed: none of {len(files)} items has an answer of each trial type "
            "(num_p_comparisons, num_q_comparisons). Run the judge again before the import.",
            slug="import-all-failed",
        )

    item_ids = tuple(f"example-{_parse_example_number(file)}" for file in files)
    rates = _make_rates(
        np.array([examples[position].tvd_mi_matrix for position in judged]),
        np.array(judged, dtype=np.int32),
        agent_ids=tuple(conditions),
        item_ids=item_ids,
    )
    n_failed = [example.n_failed for example in examples]
    n_expected = 2 * examples[0].n_pairs
    n_without_rates = len(files) - len(judged)
    groups = find_paper_groups(conditions)
    return ImportedResults(
        name=examples_folder.resolve().parent.name,
        agents=tuple(Agent(condition, group=groups.get(condition)) for condition in conditions),
        rates=rates,
        n_failed=np.array(n_failed, dtype=np.int32),
        n_expected=n_expected,
        notes=_make_notes(item_ids, n_failed, n_calls_per_item=n_expected, n_without_rates=n_without_rates),
    )


def _make_rates(matrices: Floats, items: Ids, *, agent_ids: tuple[str, ...], item_ids: tuple[str, ...]) -> Rates:
    """Convert the differences D = TPR − FPR to rates, with one row per item and ordered pair of agents.

    Only the difference D is known, not the rates. It is stored in this way:

    - D ≥ 0: the TPR is D, and the FPR is 0.
    - D < 0: the TPR is 0, and the FPR is −D.

    matrices : float array (n_judged, n_agents, n_agents), D of each ordered pair on each judged item, in [−1, 1]
    items : int32 array (n_judged,), positions of the judged items in `item_ids`
    agent_ids, item_ids : ids of all agents and of all items
    """
    # ordered pairs of two different agents, which are the entries of a matrix outside of its diagonal
    is_pair = ~np.eye(len(agent_ids), dtype=np.bool_)
    first, second = np.nonzero(is_pair)
    n_pairs, n_judged = len(first), len(items)

    # one row per pair of the first judged item, then of the second, and so on
    difference = matrices[:, first, second].ravel()
    one_per_row = np.ones(n_judged * n_pairs, dtype=np.int32)
    return Rates(
        item=np.repeat(items, n_pairs),
        first=np.tile(first, n_judged).astype(np.int32),
        second=np.tile(second, n_judged).astype(np.int32),
        tpr=np.maximum(difference, 0.0),
        fpr=np.maximum(-difference, 0.0),
        n_paired=one_per_row,
        n_independent=one_per_row,
        n_missing=np.zeros_like(one_per_row),
        independent="matched",
        agent_ids=agent_ids,
        item_ids=item_ids,
        split=Split.without_holdout((len(agent_ids), len(item_ids))),
    )


def _make_notes(
    item_ids: tuple[str, ...], n_failed: list[int], *, n_calls_per_item: int, n_without_rates: int
) -> tuple[str, ...]:
    """Describe the limitations of imported results: unknown rates, failed calls and items without rates.

    item_ids : ids of all items
    n_failed : number of failed calls of each item
    n_calls_per_item : number of calls of one item, failed ones included
    n_without_rates : number of items without rates, because all their paired or all their independent trials failed
    """
    n_items = len(item_ids)
    n_calls = n_calls_per_item * n_items
    notes = [DIFFERENCE_ONLY]
    n_failed_by_item = Counter({item_id: n for item_id, n in zip(item_ids, n_failed, strict=True) if n > 0})
    if n_failed_by_item:
        most_failures = ", ".join(f"{item_id} {n}" for item_id, n in n_failed_by_item.most_common(5))
        notes.append(
            f"{n_failed_by_item.total()} of {n_calls} calls failed, on {len(n_failed_by_item)} of {n_items} items "
            f"(most: {most_failures}). The files contain 0 for a failed call, so it is unknown which calls failed."
        )
    if n_without_rates > 0:
        notes.append(
            f"No answer of one trial type, and no rates, on {n_without_rates} of {format_count(n_items, 'item')}."
        )
    return tuple(notes)


def _check_names(file: Path, names: Sequence[str]) -> None:
    """Raise ImportFormatError [import-agents] if a name cannot be the id of an agent."""
    for name in names:
        problem = find_name_fault(name)
        if problem:
            raise import_error(file, f"the agent {name[:60]!r} {problem}", slug="import-agents")


def _describe_difference(expected: list[str], actual: list[str]) -> str:
    """Describe the first difference between two different lists of agents, for an error message."""
    if len(expected) != len(actual):
        return f"{len(actual)} instead of {len(expected)}"
    pairs = list(zip(expected, actual, strict=True))
    position = next(position for position, (a, b) in enumerate(pairs) if a != b)
    return f"number {position + 1} is {actual[position]!r} instead of {expected[position]!r}"
