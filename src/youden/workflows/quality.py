"""Quality of a run's agents from few labels and their ability together; the ranking and all its files stay as they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from youden.data.folder.run_files import VERSION
from youden.data.folder.run_folder import RunFolder
from youden.data.label_tables import LabelTable
from youden.errors import ConfigError, StatisticsError
from youden.stats.small_areas import FEWEST_AGENTS, SmallAreas, quality_of_labels
from youden.text.sentences import with_interval
from youden.text.tables import Table, fixed
from youden.types.label_facts import QualityFacts, QualityRow
from youden.types.pool import Floats, Positions, or_none
from youden.workflows.gate_answers import GateAnswers, QualityDifference
from youden.workflows.labels import first, open_labels

if TYPE_CHECKING:
    import pandas as pd

    Labels = str | PathLike[str] | Sequence[str | PathLike[str]] | pd.DataFrame

LITTLE = 0.1
"""A share of explained variance below which ability is said to tell nothing here."""


@dataclass(frozen=True, eq=False)
class LabelledAnswers:
    """agent, item: int[N], one row an answer; value: float[N], its mean label on the labels' scale. label: the column's name;
    item_ids: str[N]."""

    agent: Positions
    item: Positions
    value: Floats
    label: str
    scale: tuple[float, float]
    item_ids: tuple[str, ...]

    @property
    def unit(self) -> Floats:
        """float[N] in [0, 1]."""
        low, high = self.scale
        return (self.value - low) / (high - low)


def read_answers(
    folder: RunFolder,
    labels: Labels,
    *,
    label: str | None = None,
    scale: tuple[float, float] | None = None,
) -> LabelledAnswers:
    """Read the labels of answers of a run's agents.

    Parameters
    ----------
    folder : RunFolder
        A fitted run.
    labels : path, sequence of paths, or DataFrame
        Tables of labels; or columns agent, item and a label. Labels of other agents are left out.
    label : str, optional
        Column of the label, if the tables have several. Default for a DataFrame: "label".
    scale : (float, float), default (0, 1)
        Lowest and highest possible label.

    Returns
    -------
    LabelledAnswers

    Raises
    ------
    ConfigError
        [quality-items] for labels of agents alone; [quality-column], [quality-scale], [quality-none]; as `open_labels`.
    """
    ids = [row.agent for row in folder.read_ranking()]
    if not isinstance(labels, str | PathLike | Sequence):
        return _answers_of_frame(labels, ids, label=label or "label", scale=scale)
    agents = folder.read_pool().agents
    tables = [open_labels(path, agents, repeated=True) for path in _paths_of(labels)]
    rows, names = [], []
    for table in tables:
        name = _column(table, label)
        names.append(name)
        value = table.value[:, table.names.index(name)].tolist()
        rows += [
            (agent, item, said)
            for agent, item, said in zip(table.agents, table.items or (), value, strict=True)
            if agent in set(ids) and not np.isnan(said)
        ]
    return _answers(ids, rows, label=" and ".join(dict.fromkeys(names)), scale=scale)


def _paths_of(labels: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[Path]:
    return [Path(labels)] if isinstance(labels, str | PathLike) else [Path(path) for path in labels]


def _answers_of_frame(
    frame: pd.DataFrame, ids: Sequence[str], *, label: str, scale: tuple[float, float] | None
) -> LabelledAnswers:
    if missing := [name for name in ("agent", "item", label) if name not in frame]:
        raise ConfigError(
            f"The labels have no column {', '.join(missing)}: got {', '.join(map(str, frame))}. Rename the columns to agent and "
            "item, and pass the label's name as `label`.",
            slug="quality-column",
        )
    known = frame[frame["agent"].astype(str).isin(ids) & frame[label].notna()]
    columns = (known["agent"].astype(str), known["item"].astype(str), known[label].astype(float))
    return _answers(ids, list(zip(*columns, strict=True)), label=label, scale=scale)


def _column(table: LabelTable, label: str | None) -> str:
    if table.items is None:
        raise ConfigError(
            f"{table.source} labels agents, not answers: it has no column item. Quality needs to know how many answers were "
            "labelled. Give a line for each label, with its agent and item.",
            slug="quality-items",
        )
    if label is None and len(table.names) == 1:
        return table.names[0]
    if label is None or label not in table.names:
        raise ConfigError(
            f"{table.source} has the labels {', '.join(table.names)}; {label or 'none'} was named. Name one of them (--label).",
            slug="quality-column",
        )
    return label


def _answers(
    ids: Sequence[str], rows: Sequence[tuple[str, str, float]], *, label: str, scale: tuple[float, float] | None
) -> LabelledAnswers:
    if not rows:
        raise ConfigError("There is no label of a ranked agent's answer. Label some.", slug="quality-none")
    low, high = scale or (0.0, 1.0)
    outside = [value for *_, value in rows if not low <= value <= high]
    if outside or not low < high:
        raise ConfigError(
            f"There are labels such as {outside[0] if outside else rows[0][2]:g}, on a scale from {low:g} to {high:g}. Say "
            "the lowest and the highest value there can be, such as --scale 1,5.",
            slug="quality-scale",
        )
    at = {agent: k for k, agent in enumerate(ids)}
    items = {item: j for j, item in enumerate(dict.fromkeys(row[1] for row in rows))}
    said: dict[tuple[int, int], list[float]] = {}
    for agent, item, one in rows:
        said.setdefault((at[agent], items[item]), []).append(one)
    cells = np.array(list(said), dtype=np.int64)
    value = np.array([sum(values) / len(values) for values in said.values()])
    named = tuple(items)
    return LabelledAnswers(
        cells[:, 0], cells[:, 1], value, label, (low, high), tuple(named[j] for j in cells[:, 1].tolist())
    )


def quality_of_run(folder: RunFolder, answers: LabelledAnswers) -> SmallAreas:
    """Agents in the order of the ranking, which alone gives ability, and its error."""
    facts, rows = folder.read_facts(), folder.read_ranking()
    ability, error = (
        np.array(column, dtype=np.float64) for column in ([row.ability for row in rows], [row.error for row in rows])
    )
    return quality_of_labels(answers.agent, answers.item, answers.unit, ability=ability, error=error, level=facts.level)


def quality_rows(ids: Sequence[str], answers: LabelledAnswers, found: SmallAreas) -> list[QualityRow]:
    """Best first; agents of which nothing is known last."""
    low, high = answers.scale

    def said(value: float) -> float | None:
        return or_none(low + (high - low) * value)

    n = np.bincount(answers.agent, minlength=len(ids))
    total = np.bincount(answers.agent, weights=answers.value, minlength=len(ids))
    best = found.best()
    order = np.argsort(-np.nan_to_num(found.quality, nan=-1.0), kind="stable").tolist()
    return [
        QualityRow(
            agent=ids[k],
            n_labels=int(n[k]),
            label_mean=float(total[k] / n[k]) if n[k] else None,
            quality=said(found.quality[k]),
            low=said(found.low[k]),
            high=said(found.high[k]),
            label_share=float(found.share[k]),
            place=None if np.isnan(found.quality[k]) else place,
            best=float(best[k]),
            expected=said(found.expected[k]),
            off_line=int(found.off_line[k]),
        )
        for place, k in enumerate(order, 1)
    ]


def estimate_quality(
    folder: RunFolder,
    labels: Labels,
    *,
    label: str | None = None,
    scale: tuple[float, float] | None = None,
) -> QualityFacts:
    """Write quality.csv and quality.json of a fitted run; nothing else of it changes.

    Parameters and errors: as `read_answers`.
    """
    answers = read_answers(folder, labels, label=label, scale=scale)
    sources = map(str, _paths_of(labels)) if isinstance(labels, str | PathLike | Sequence) else ["DataFrame"]
    found = quality_of_run(folder, answers)
    ids = [row.agent for row in folder.read_ranking()]
    rows = quality_rows(ids, answers, found)
    ends = answers.scale[1] - answers.scale[0]
    facts = QualityFacts(
        version=VERSION,
        tables=folder.tables_digest(),
        sources=tuple(sources),
        label=answers.label,
        scale=answers.scale,
        level=found.level,
        n_labels=len(answers.value),
        best=rows[0].agent,
        within=ends * found.within(ids.index(rows[0].agent)),
        line=found.line,
        items=found.items,
        words=(),
        agents=tuple(rows),
    )
    facts = QualityFacts(**{**facts.__dict__, "words": tuple(quality_words(facts))})
    folder.write_quality(facts)
    return facts


def quality_words(found: QualityFacts) -> Iterator[str]:
    """What it comes to, a sentence each."""
    top = found.agents[0]
    yield (
        f"Best by quality: {top.agent}, {fixed(top.quality, 2)} [{fixed(top.low, 2)}, {fixed(top.high, 2)}]; nobody is better "
        f"by more than {found.within:.2f} ({found.level:.0%}). It is the best with probability {top.best:.2f}."
    )
    if found.line is None:
        yield f"Fewer than {FEWEST_AGENTS} agents have labels, so that labels alone speak."
        return
    line = found.line
    if line.explained < LITTLE:
        yield f"Ability says next to nothing of this label (that it says nothing at all: {line.no_slope:.0%})."
    else:
        yield (
            f"Ability explains {line.explained:.0%} of the differences in quality, with "
            f"{with_interval(line.slope, line.low, line.high)} logits for one SD; that it says nothing: {line.no_slope:.0%}."
        )
    if line.labels_alone > found.n_labels:
        yield f"Labels alone would have needed about {line.labels_alone:,} for what {found.n_labels:,} told with ability."
    off = [row for row in found.agents if row.off_line]
    if off:
        said = [f"{row.agent} (ability says {row.expected:.2f}, labels say {row.label_mean:.2f})" for row in off]
        yield f"Off the line, so read them: {', '.join(first(said))}."


def quality_table(found: QualityFacts) -> Table:
    """A row an agent, 80 letters wide where names are short; labels' shares stand in quality.csv alone."""
    return Table(
        f"quality by '{found.label}', {found.n_labels:,} labelled answers ({found.level:.0%} intervals)",
        ["place", "agent", "quality", "interval", "labels", "mean", "line says", "off line"],
        "rlrcrrrl",
        (
            [
                "–" if row.place is None else str(row.place),
                row.agent,
                fixed(row.quality, 2),
                f"{fixed(row.low, 2)}–{fixed(row.high, 2)}",
                str(row.n_labels),
                fixed(row.label_mean, 2),
                fixed(row.expected, 2),
                "yes" if row.off_line else "",
            ]
            for row in found.agents
        ),
    )


def difference_of_quality(found: SmallAreas, one: int, other: int, *, level: float) -> tuple[float, float, float]:
    """(mean, low, high) of one agent's quality less another's, the agents taken as independent given the line.

    Raises: StatisticsError [quality-unknown] where nothing is known of one of them.
    """
    if np.isnan(found.quality[[one, other]]).any():
        raise StatisticsError("One of the two agents has neither labels nor a line. Label it.", slug="quality-unknown")
    gap = (found.at[:, None] - found.at).ravel()
    weight = (found.density[one][:, None] * found.density[other]).ravel()
    order = np.argsort(gap)
    below = np.cumsum(weight[order])
    low, high = (float(gap[order][np.searchsorted(below, p)]) for p in ((1 - level) / 2, (1 + level) / 2))
    return float(found.quality[one] - found.quality[other]), low, high


def with_quality(seen: GateAnswers, folder: RunFolder, answers: LabelledAnswers | None) -> GateAnswers:
    """Add the quality by these labels to the answers of a gate, which are then others; None adds nothing."""
    if answers is None:
        return seen
    found, ids = quality_of_run(folder, answers), [row.agent for row in folder.read_ranking()]
    n, ends = np.bincount(answers.agent, minlength=len(ids)), answers.scale[1] - answers.scale[0]

    def difference(agent: str, baseline: str, level: float) -> QualityDifference:
        one, other = ids.index(agent), ids.index(baseline)
        value, low, high = difference_of_quality(found, one, other, level=level)
        return QualityDifference(ends * value, ends * low, ends * high, int(n[one] + n[other]))

    said = sorted(zip(answers.agent.tolist(), answers.item_ids, answers.value.tolist(), strict=True))
    return replace(
        seen,
        digest=hashlib.sha256(f"{seen.digest} {answers.scale} {said}".encode()).hexdigest(),
        method=f"by {len(said):,} labelled answers and ability together",
        quality=difference,
    )
