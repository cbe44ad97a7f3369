"""Imports the public peer-prediction data: an agents file becomes a pool, a results folder becomes rates of ordered pairs.

Nothing is made up that the data do not hold: which call failed, the other item of the independent arm, TPR and FPR apart.
Only D = p − q is public, so a pair's `tpr` is max(D, 0) and its `fpr` max(−D, 0): tpr − fpr is D to the last bit, and either
alone means nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from youden.data.importers.paper_groups import paper_groups
from youden.data.importers.peer_layout import EXAMPLES, example_files, example_number, load_agents, load_example, wrong
from youden.nouns import Agent, Item, Pool, Rates
from youden.nouns.arrays import Floats, Ids, freeze
from youden.text.names import acts

DIFFERENCE_ONLY = (
    "Imported: only D = TPR − FPR of each ordered pair is known. tpr = max(D, 0) and fpr = max(−D, 0) are a decomposition "
    "of D, not two rates."
)


@dataclass(frozen=True, eq=False)
class ImportedResults:
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

    def __post_init__(self) -> None:
        freeze([self.n_failed])


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
    files = example_files(inner)
    examples = [load_example(file) for file in files]
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
    ids = tuple(f"example-{example_number(file)}" for file in files)
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
        n_agents=len(agent_ids),
        n_items=len(item_ids),
        independent="twin",
        agent_ids=agent_ids,
        item_ids=item_ids,
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
