"""Check that higher scores of a table are better, so that the names are not those of losses or error rates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from shlex import quote

import numpy as np

from youden.data.importers.column_names import normalize_name
from youden.data.importers.foreign_files import import_error
from youden.data.pools.spool import format_excerpt
from youden.data.score_columns import format_names
from youden.data.score_names import TOTAL
from youden.data.score_ranges import MAX_METRICS
from youden.data.score_roles import ScoreColumns
from youden.types.pool import Floats

_LOSS = re.compile(
    r"(?!(.*_)?(1|100|inverse|neg|negative|no|non|win)_)"  # such as "1 - WER" and "neg_log_loss"
    r"(?!(.*_)?(weight|hair|hearing|memory|vision|bone|blood|heat|and)_loss)"  # topics of questions
    r"((.*_)?lower_(is_)?better(_.*)?|errors?|(wer|cer|ppl|perplexity|rmse|ece)_.*"
    r"|(.*_)?(loss|nll|perplexity|ppl|bits_per_byte|bpb|wer|cer|eer|ece|mae|mse|rmse|mape|fid|lpips|brier(_score)?|fpr|fnr"
    r"|(calibration|absolute|squared|percentage|prediction|relative)_error"
    r"|(error|hallucination|failure|miss|false_positive|false_negative|false_alarm)_rate))"
)
"""Normalized names of losses and error rates, for which lower values are better."""
_POSSIBLE_LOSS = re.compile(
    r"(.*_)?(toxicity|toxic|bias|(over_?)?refusals?|hallucinations?|harmful(ness)?|jailbreaks?|attack_success|asr|violations?"
    r"|contamination|stereotypes?|invalid|failures?|timeouts?|distance|divergence|kl|ter)(_(score|rate))?"
)
"""Normalized names of scores for which lower values are often better."""
_ARROW = re.compile(r"\(?[↓⬇⇩▼🔽]\uFE0F?\)?")
"""Arrow in a name that says that lower values are better, as in "WER (↓)"."""


def check_direction(table: ScoreColumns, score_columns: Sequence[str]) -> None:
    """Check that no column of scores seems to be a loss or an error rate, for which lower values are better."""
    losses = [name for name in score_columns if _is_loss(name, table.numbers[name])]
    if losses:
        reversal = _describe_reversal(losses[0], table.numbers[losses[0]])
        remedy = f"Leave the column out by --column {quote(f'ignore={losses[0]}')}{reversal}"
        _refuse_loss(table, losses[0], "in a column of scores", remedy)


def check_direction_of_averages(table: ScoreColumns, values_by_name: Mapping[str, Floats]) -> None:
    """Check that no average has the name of a loss, such as "Average WER" (word error rate).

    Such a name shows that all scores are losses: lower values are better.

    values_by_name : values of each column, model or item by its name; NaN if missing
    """
    averages = [name for name in values_by_name if TOTAL.fullmatch(normalize_name(name))]
    losses = [name for name in averages if _is_loss(name, values_by_name[name])]
    if losses:
        _refuse_loss(table, losses[0], "for an average of the scores", "Change the sign of all scores")


def check_metric_directions(table: ScoreColumns, score_columns: Sequence[str], name_columns: Sequence[str]) -> None:
    """Check that higher values are better for the metrics that are named in a column such as "metric".

    A metric is refused if its name is that of a loss or error rate, or has an arrow such as ↓. It is accepted if no score of the
    table is above 0. If the user set the columns of scores, a note is added to the table instead of an error.

    table : columns of the table of scores
    score_columns : columns of scores; at least one
    name_columns : columns that name models and items. Of all other columns, those with a name such as "metric" are examined.

    Raises: ImportFormatError [scores-direction] if lower values of a metric seem to be better.
    """
    values = np.concatenate([table.numbers[name] for name in score_columns])
    for name in table.list_metric_columns(score_columns, name_columns):
        losses = [metric for metric in map(str, table.columns[name].unique_values) if _is_loss(metric, values)]
        if losses:
            remedy = f"Leave out its rows{_describe_reversal(losses[0], values)}"
            _refuse_loss(table, losses[0], f"for a metric in the column {name!r}", remedy)


def check_item_directions(table: ScoreColumns, item_ids: Sequence[str], score: Floats) -> None:
    """Check that no item is a metric for which lower scores are better, such as an error rate.

    The name of the item decides (`_is_loss`). Three kinds of items are always accepted:

    - items of a table with more than 100 items, which are usually tasks and not metrics;
    - an item whose positive scores are all 1, which is probably a task that a model passes or fails;
    - an item without positive scores, because its losses have probably been given a minus sign.

    If the user set the columns of scores, a note is added to the table instead of an error.

    table : columns of the table of scores
    item_ids : ids of the items
    score : float array (n_models, n_items); NaN if missing

    Raises: ImportFormatError [scores-direction] if lower scores on an item seem to be better.
    """
    if len(item_ids) > MAX_METRICS:
        return
    for item_id, item_scores in zip(item_ids, score.T, strict=True):
        is_graded = ((item_scores > 0) & (item_scores != 1)).any()
        if is_graded and _is_loss(item_id, item_scores):
            remedy = f"Leave out its rows{_describe_reversal(item_id, item_scores)}"
            _refuse_loss(table, item_id, "on an item", remedy)


def _refuse_loss(table: ScoreColumns, loss: str, location: str, remedy: str) -> None:
    """Raise ImportFormatError [scores-direction] because lower values of a metric are better; or only add a note.

    A note is enough if the user set the columns of scores.

    loss : name of a column, an average, a metric or an item
    location : where the loss was found, such as "on an item"
    remedy : sentence without a full stop
    """
    if not table.given.get("score"):
        problem = f"lower values seem to be better {location}, and an audit ranks the highest first: got {format_excerpt(loss)}."
        exception = "If higher values are better, name all columns of scores by --column score=NAME,NAME."
        raise import_error(table.source, f"{problem} {remedy}. {exception}", slug="scores-direction")

    note = f"the highest values of {loss!r} rank first, although lower ones seem to be better"
    if note not in table.notes:
        table.notes.append(note)


def note_models_named_like_losses(table: ScoreColumns, columns: Sequence[str]) -> None:
    """Add a note for each column that is read as a model, although it is named like a loss or an error rate."""
    for name in columns:
        if _is_loss(name, table.numbers[name]):
            remedy = f"if it is not one, leave it out by --column {quote(f'ignore={name}')}"
            table.notes.append(f"the column {name!r} is read as a model; {remedy}")


def note_possible_losses(table: ScoreColumns, names: Sequence[str]) -> None:
    """Add a note if columns or items are named like metrics for which lower values are often better, such as "toxicity"."""
    metrics = list(dict.fromkeys(names))
    possible_losses = [name for name in metrics if _POSSIBLE_LOSS.fullmatch(normalize_name(name))]
    if possible_losses and len(metrics) <= MAX_METRICS:
        table.notes.append(
            f"the highest values of {format_names(possible_losses)} rank first: if lower ones are better, subtract them from "
            "their highest possible value, or leave them out"
        )


def _is_loss(name: str, values: Floats) -> bool:
    """Return whether a column has the name of a loss or an error rate, or a sign such as ↓, and at least one positive value.

    If a loss has no positive value, its sign was probably changed, and higher values are better.

    values : float array (n_rows,), values of the column; NaN if missing
    """
    has_arrow = _ARROW.search(name) is not None
    has_name_of_loss = has_arrow or _LOSS.fullmatch(normalize_name(name)) is not None
    return has_name_of_loss and bool((values > 0).any())


def _describe_reversal(name: str, values: Floats) -> str:
    """Describe how to replace a loss by a score for which higher values are better.

    values : float array (n_values,), values of the loss; NaN and infinite values are ignored

    Returns a clause that begins with a comma, with an example such as "1 - WER". It is empty if a value exceeds 100, because the
    highest possible value is then unknown.
    """
    largest = values[np.isfinite(values)].max(initial=0.0)
    if largest > 100:
        return ""
    highest = 1 if largest <= 1 else 100
    example = format_excerpt(f"{highest} - {_ARROW.sub('', name).strip()}")
    return f", or subtract it from its highest possible value and rename it, such as {example}"
