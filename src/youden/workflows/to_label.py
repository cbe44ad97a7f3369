"""Choose which responses of a run to label next, and write them to a table that does not name the agents.

The number of labels of an agent depends on what is known about it; the items are drawn at random, so that mean labels
stay unbiased. A search for the best agent uses one random order of items for all agents, so that they share items;
otherwise each agent has a separate order. A JSON file next to the table records the choice.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from youden.data.atomic import atomic_write
from youden.data.folder.run_files import VERSION
from youden.data.folder.run_folder import RunFolder
from youden.data.label_tables import label_key_path
from youden.errors import ConfigError, PlanError
from youden.pipeline.fitted_run import check_fit
from youden.streams import stream
from youden.text.spreadsheet_cells import guard
from youden.types import Item
from youden.types.arguments import check_argument
from youden.types.pool import Bools, Floats, Json, Objects, Positions
from youden.workflows.quality import LabeledAnswers, fit_quality

LabelsFor = Literal["best", "all"]
_REASONS: dict[LabelsFor, str] = {
    "best": "each label goes to the agent whose label improves the selection of the best most; all share one order of items",
    "all": "each label goes to the agent whose quality it makes most precise; each agent has its own order of items",
}
_ID_LETTERS = "bcdfghjkmnpqrstvwxz"
"""Letters of ids: without vowels and digits, so that a spreadsheet changes no id into a word, a number or a date."""
_ID_LENGTH = 10


@dataclass(frozen=True)
class ToLabel:
    """Files with the responses to label.

    Attributes
    ----------
    table : Path
        CSV file with one response per row and an empty column `label`.
    key : Path
        JSON file with the agent and the item of each row.
    given : dict of str to int
        Number of responses in the table by agent; agents without one are left out.
    n_known : int
        Number of responses that had labels before.
    notes : tuple of str
        Sentences on existing labels of agents and items that are not in the run.
    """

    table: Path
    key: Path
    given: dict[str, int]
    n_known: int
    notes: tuple[str, ...] = ()


class _ChosenResponse(NamedTuple):
    """A response by its id in the table, and the positions of its agent in the ranking and of its item in the pool."""

    id: str
    agent: int
    item: int


def choose_to_label(
    folder: RunFolder,
    n: int,
    out: Path,
    *,
    purpose: LabelsFor = "all",
    labeled: LabeledAnswers | None = None,
    show_agents: bool = False,
    seed: int = 0,
) -> ToLabel:
    """Choose the next responses to label and write them to a table, in random order.

    A JSON file next to the table has the agent, the item and the repeat of each response. If an agent has several responses to an
    item, one of them is drawn at random. Missing folders are created.

    Parameters
    ----------
    folder : RunFolder
        A fitted run.
    n : int
        Number of responses to choose, at least 1. If fewer than `n` are without a label, all of them are chosen.
    out : Path
        CSV file to write, with the suffix .csv. Its columns are id, prompt, text, the other agents' texts on the item, and an
        empty label. Texts that a spreadsheet would run as a formula begin with an apostrophe. The JSON file has the same name
        with the suffix .json.
    purpose : {"all", "best"}, default "all"
        Purpose of the labels: "all" narrows the intervals of all agents, "best" helps to select the best agent.
    labeled : LabeledAnswers, optional
        Responses that have a label already and are not chosen again. The number of new labels per agent depends on their labels.
        Default: no response has a label.
    show_agents : bool, default False
        Add the agent of each row in a column `shown_agent`.
    seed : int, default 0
        Seed of the random choice.

    Returns
    -------
    ToLabel
        `table` and `key` are the paths of the two files; `given` has the number of chosen responses by agent id.

    Raises
    ------
    ConfigError
        [label-number] if `n` is below 1; [argument-type] if `n` is not an integer; [label-purpose] if `purpose` is unknown;
        [label-out] if `out` is not a .csv or one of the two files exists; [nothing-to-label] if every response has a label.
    RunFolderError, PoolError
        If the run is not fitted, or its pool cannot be read; [run-preference] if it asks for preferences;
        [fit-stale], [run-other-plan] if it was planned or judged again since it was fitted.
    PlanError
        [plan-other-pool] if its pool has changed since it was planned.
    """
    check_argument("n", n, Integral, "Set a whole number of responses, such as 50.")
    if n < 1:
        raise ConfigError(
            f"The number of responses to label must be at least 1: got {n}. Set, for example, 50.", slug="label-number"
        )
    if purpose not in _REASONS:
        choices = " or ".join(map(repr, _REASONS))
        raise ConfigError(f"The purpose of labels is unknown: got {purpose!r}. Pass {choices}.", slug="label-purpose")
    _check_output_files(out)
    folder.check_information()
    check_fit(folder)
    responses = _RankedResponses.read(folder, seed=seed)
    answers = _make_no_answers() if labeled is None else labeled

    # number of responses to label, by agent
    is_unlabeled = _find_unlabeled(responses, answers)
    n_unlabeled = is_unlabeled.sum(axis=1)
    n_chosen = fit_quality(folder, answers).allocate_labels(n, n_unlabeled, for_best=purpose == "best")
    if not n_chosen.any():
        raise ConfigError(
            "Every response of this run has a label already. Run `youden quality` to use these labels.",
            slug="nothing-to-label",
        )

    rng = stream("answers to label", seed)
    cells = _draw_cells(is_unlabeled, n_chosen, is_shared_order=purpose == "best", rng=rng)
    chosen = [_ChosenResponse(responses.make_id(agent, item), agent, item) for agent, item in cells]
    key_file = label_key_path(out)
    key = {
        "version": VERSION,
        "run": folder.path.resolve().name,
        "signature": folder.read_signature().text,
        "for": purpose,
        "why": _REASONS[purpose],
        "seed": seed,
        "n_known": len(answers.value),
        "answers": responses.list_key_records(chosen, n_chosen / np.maximum(n_unlabeled, 1)),
    }
    with atomic_write(key_file) as tmp_path:
        tmp_path.write_text(json.dumps(key, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    _write_table(out, *responses.make_table(chosen, rng, show_agents=show_agents))

    n_chosen_by_agent = {responses.agent_ids[k]: count for k, count in enumerate(n_chosen.tolist()) if count}
    return ToLabel(out, key_file, n_chosen_by_agent, len(answers.value), answers.notes)


@dataclass(frozen=True, eq=False)
class _RankedResponses:
    """One response of each agent of a run to each item, in the order of its ranking.

    Attributes
    ----------
    agent_ids : list of str
        Ids of the agents.
    items : tuple of Item
        Items of the pool.
    texts : object array (n_agents, n_items)
        Text of the response; None without a response.
    repeat : int64 array (n_agents, n_items)
        Number of the response among those of the agent to the item, from 1.
    """

    agent_ids: list[str]
    items: tuple[Item, ...]
    texts: Objects
    repeat: Positions

    @classmethod
    def read(cls, folder: RunFolder, *, seed: int) -> _RankedResponses:
        """Read the responses of the ranked agents of a run.

        If an agent has several responses to an item, one of those with a text is drawn at random.

        folder : folder of a fitted run
        seed : seed of this draw

        Returns the texts and repeat numbers (from 1), arrays (n_agents, n_items), with the agents in the order of the ranking. A
        cell without a response has the text None or "", and the repeat number 1. Raises PlanError [plan-other-pool] if the pool
        has changed since the run was judged, and RunFolderError or PoolError if a file is missing or damaged.
        """
        pool = folder.read_judged_pool()
        judged_digest = folder.read_pool().digest
        if judged_digest is not None and pool.digest != judged_digest:
            raise PlanError(
                f"The pool of {folder.path} has other texts than those that were judged: got the digest {pool.digest[:12]} "
                f"instead of {judged_digest[:12]}. Restore the pool as it was judged, or make a new run.",
                slug="plan-other-pool",
            )
        agent_ids = [row.agent for row in folder.read_ranking()]
        position_by_id = {agent.id: position for position, agent in enumerate(pool.agents)}
        positions = [position_by_id[agent_id] for agent_id in agent_ids]
        all_texts = pool.all_texts.reshape(-1, pool.n_agents, pool.n_items)  # (n_repeats, n_agents, n_items)
        ranked_texts = all_texts[:, positions]

        # draw the response with the largest random number; −1 without a response, or if it is empty
        random_number = stream("answers to label", seed, 1).random(ranked_texts.shape)
        random_number[~ranked_texts.astype(np.bool_)] = -1
        drawn = random_number.argmax(axis=0)
        texts = np.take_along_axis(ranked_texts, drawn[None], axis=0)[0]
        return cls(agent_ids, pool.items, texts, repeat=drawn + 1)

    def make_id(self, agent: int, item: int) -> str:
        """Make the id of a response. The id does not show the agent.

        Ids differ between agents and between items, also in different tables, so that rows of several tables can be combined.
        Repeats of an agent on an item share one id.

        agent, item : positions of the agent in the ranking, and of the item in the pool, from 0

        Returns 10 lower-case consonants, a hash of the ids of the agent and of the item.
        """
        names = json.dumps([self.agent_ids[agent], self.items[item].id])
        number = int.from_bytes(hashlib.sha256(names.encode()).digest())
        letters = []
        for _ in range(_ID_LENGTH):
            number, letter = divmod(number, len(_ID_LETTERS))
            letters.append(_ID_LETTERS[letter])
        return "".join(letters)

    def list_key_records(self, chosen: Sequence[_ChosenResponse], probability: Floats) -> list[dict[str, Json]]:
        """List the agent, the item and the repeat of each chosen response, for the later assignment of labels to agents.

        chosen : chosen responses
        probability : float array (n_agents,), probability that a response of the agent was chosen, in the order of the ranking

        Returns one dictionary per response, in the same order, with the keys id, agent and item (ids), repeat (from 1) and
        probability (that of its agent).
        """
        return [
            {
                "id": response.id,
                "agent": self.agent_ids[response.agent],
                "item": self.items[response.item].id,
                "repeat": int(self.repeat[response.agent, response.item]),
                "probability": float(probability[response.agent]),
            }
            for response in chosen
        ]

    def make_table(
        self, chosen: Sequence[_ChosenResponse], rng: np.random.Generator, *, show_agents: bool
    ) -> tuple[list[str], list[list[str]]]:
        """Make the table of chosen responses: its header, and one row per response.

        The columns are id, shown_agent if requested, prompt, text, one column other_1, other_2, … per other agent, and label.
        A row is shorter than the header: it ends before the column label, and even earlier if some of the other agents have no
        text on the item.

        chosen : responses, one per row
        rng : source of the random order of the other agents' texts on the item
        show_agents : whether the table has the agent of each response

        Returns the header, and the rows in the order of `chosen`.
        """
        rows = []
        for id_, agent, item in chosen:
            shown_agent = [self.agent_ids[agent]] if show_agents else []
            other_texts = _shuffle_other_texts(self.texts[:, item], agent, rng)
            rows.append([id_, *shown_agent, self.items[item].prompt or "", str(self.texts[agent, item]), *other_texts])

        agent_header = ["shown_agent"] if show_agents else []
        other_headers = [f"other_{number}" for number in range(1, len(self.agent_ids))]
        return ["id", *agent_header, "prompt", "text", *other_headers, "label"], rows


def _make_no_answers() -> LabeledAnswers:
    """Make an empty table of labeled responses."""
    no_positions: Positions = np.zeros(0, dtype=np.int64)
    return LabeledAnswers(no_positions, no_positions, np.zeros(0), "label", (0.0, 1.0), ())


def _shuffle_other_texts(texts: Objects, agent: int, rng: np.random.Generator) -> list[str]:
    """Return the texts of all agents but one on an item, object array (n_agents,), in random order, without empty ones."""
    shuffled = rng.permutation(len(texts)).tolist()
    return [str(texts[position]) for position in shuffled if position != agent and texts[position]]


def _check_output_files(out: Path) -> None:
    """Check the path `out` of the table to label.

    Raises ConfigError [label-out] if it is not the path of a CSV file, or if a file would be replaced: the table, or
    the JSON file with the agents and items of its rows (`label_key_path`).
    """
    if out.suffix.lower() != ".csv":
        raise ConfigError(
            f"The table must be a .csv file: got {out}. Set a name such as to-label.csv.", slug="label-out"
        )
    existing = [file for file in (out, label_key_path(out)) if file.exists()]
    if existing:
        raise ConfigError(
            f"{existing[0]} exists already and may contain labels. Set another --out, and pass this file as --labels.",
            slug="label-out",
        )


def _find_unlabeled(responses: _RankedResponses, answers: LabeledAnswers) -> Bools:
    """Find the responses that have a text and no label yet: bool array (n_agents, n_items).

    responses : responses of all agents, in the order of the ranking
    answers : labeled responses, whose agents are positions in the ranking
    """
    is_unlabeled = responses.texts.astype(np.bool_)  # False without a text, or if it is empty
    item_positions = {item.id: position for position, item in enumerate(responses.items)}
    for agent, item in zip(answers.agent.tolist(), answers.item_ids, strict=True):
        if item in item_positions:
            is_unlabeled[agent, item_positions[item]] = False
    return is_unlabeled


def _draw_cells(
    is_unlabeled: Bools, max_per_agent: Positions, *, is_shared_order: bool, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Draw unlabeled responses of each agent.

    Returns the positions of their agents and items, in random order.

    is_unlabeled : bool array (n_agents, n_items), responses that may be drawn
    max_per_agent : int array (n_agents,), maximum number of responses to draw of each agent
    is_shared_order : whether all agents share one random order of items, so that they are labeled on the same items
    """
    n_items = is_unlabeled.shape[1]
    shared_order = rng.permutation(n_items)
    cells = []  # agent and item of each response
    for agent, count in enumerate(max_per_agent.tolist()):
        item_order = shared_order if is_shared_order else rng.permutation(n_items)
        unlabeled_items = item_order[is_unlabeled[agent, item_order]]
        cells += [(agent, item) for item in unlabeled_items[:count].tolist()]

    return [cells[position] for position in rng.permutation(len(cells)).tolist()]


def _write_table(out: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write rows as a CSV file. Each row has an id and spreadsheet-safe texts; missing fields are empty."""
    with atomic_write(out) as tmp_path, tmp_path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for id_, *texts in rows:
            n_missing = len(header) - len(texts) - 1
            writer.writerow([id_, *map(to_safe_cell, texts), *[""] * n_missing])


def to_safe_cell(text: str) -> str:
    """Make a text safe for a spreadsheet: remove NUL characters and quote what would be run as a formula."""
    return guard(text.replace("\x00", ""))
