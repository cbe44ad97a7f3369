"""Check that higher scores of a table are better, so that the names are not those of losses or error rates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
"""Normalized names of losses and error rates, of which lower values are better."""
_POSSIBLE_LOSS = re.compile(
    r"(.*_)?(toxicity|toxic|bias|(over_?)?refusals?|hallucinations?|harmful(ness)?|jailbreaks?|attack_success|asr|violations?"
    r"|contamination|stereotypes?|invalid|failures?|timeouts?|distance|divergence|kl|ter)(_(score|rate))?"
)
"""Normalized names of scores of which lower values are often better."""
_ARROW = re.compile(r"\(?[↓⬇⇩▼🔽]\uFE0F?\)?")
"""Arrow in a name that says that lower values are better, as in "WER (↓)"."""


def check_direction(table: ScoreColumns, score_columns: Sequence[str], *, is_set_by_user: bool) -> None:
    """Check that no column of scores seems to be a loss or an error rate, of which lower values are better.

    score_columns : columns of scores
    is_set_by_user : whether the user set these columns; the first loss among them is then noted and accepted

    Raises: ImportFormatError [scores-direction] if a column seems to be a loss, and the user did not set the columns.
    """
    losses = [name for name in score_columns if _is_loss(name, table.numbers[name])]
    if not losses:
        return
    loss = losses[0]
    if is_set_by_user:
        _note_direction(table, loss)
        return
    problem = (
        f"lower values seem to be better in a column of scores, and an audit ranks the highest first: got {loss!r}."
    )
    remedy = (
        f"Leave the column out by --column {quote(f'ignore={loss}')}{_describe_reversal(loss, table.numbers[loss])}. If higher "
        "values are better, name all columns of scores by --column score=NAME,NAME."
    )
    raise import_error(table.source, f"{problem} {remedy}", slug="scores-direction")


def check_direction_of_averages(table: ScoreColumns, values_by_name: Mapping[str, Floats]) -> None:
    """Check that no average has the name of a loss, such as "Average WER": the scores are then losses, whatever their names.

    values_by_name : values of columns, models or items by name; NaN if missing

    Raises: ImportFormatError [scores-direction] if there is such an average, and the user did not set the columns of scores.
    """
    averages = [name for name in values_by_name if TOTAL.fullmatch(normalize_name(name))]
    losses = [name for name in averages if _is_loss(name, values_by_name[name])]
    if not losses:
        return
    if table.given.get("score"):
        _note_direction(table, losses[0])
        return
    problem = (
        "lower values seem to be better for an average of the scores, and an audit ranks the highest first: got "
        f"{losses[0]!r}."
    )
    remedy = (
        "Change the sign of all scores. If higher ones are better, name all columns of scores by --column "
        "score=NAME,NAME."
    )
    raise import_error(table.source, f"{problem} {remedy}", slug="scores-direction")


def note_models_named_like_losses(table: ScoreColumns, columns: Sequence[str]) -> None:
    """Add a note for each column that is read as a model, although it is named like a loss or an error rate."""
    for name in columns:
        if _is_loss(name, table.numbers[name]):
            remedy = f"if it is not one, leave it out by --column {quote(f'ignore={name}')}"
            table.notes.append(f"the column {name!r} is read as a model; {remedy}")


def check_metric_directions(table: ScoreColumns, score_columns: Sequence[str], name_columns: Sequence[str]) -> None:
    """Check that higher values are better for the metrics that a column such as "metric" names.

    If the user set the columns of scores, a note about the first loss is added instead of an error.

    score_columns : columns of scores
    name_columns : columns that name models and items

    Raises: ImportFormatError [scores-direction] if a metric seems to be a loss, and the user did not set the columns.
    """
    values = np.concatenate([table.numbers[name] for name in score_columns])
    for name in table.list_metric_columns(score_columns, name_columns):
        losses = [metric for metric in map(str, table.columns[name].unique_values) if _is_loss(metric, values)]
        if losses and table.given.get("score"):
            _note_direction(table, losses[0])
        elif losses:
            problem = (
                "lower values seem to be better for a metric, and an audit ranks the highest first: got "
                f"{format_excerpt(losses[0])} in the column {name!r}."
            )
            remedy = (
                f"Leave out its rows{_describe_reversal(losses[0], values)}. If higher values are better, name all columns of "
                "scores by --column score=NAME,NAME."
            )
            raise import_error(table.source, f"{problem} {remedy}", slug="scores-direction")


def check_item_directions(table: ScoreColumns, item_ids: Sequence[str], score: Floats) -> None:
    """Check that no item has the name of a loss or an error rate, of which lower scores are better.

    If the user set the columns of scores, each such item is accepted, and a note is added. Otherwise, it is an error,
    because the highest scores rank first.

    item_ids : ids of the items
    score : float array (n_models, n_items); NaN if missing

    Raises: ImportFormatError [scores-direction] if an item seems to be a loss, and the user did not set the columns.
    """
    loss_items = _find_loss_items(item_ids, score)
    are_columns_set_by_user = bool(table.given.get("score"))
    if are_columns_set_by_user:
        for item_id in loss_items:
            _note_direction(table, item_id)
    if are_columns_set_by_user or not loss_items:
        return

    problem = (
        "lower scores seem to be better on an item, and an audit ranks the highest first: got the item "
        f"{format_excerpt(loss_items[0])}."
    )
    reversal = _describe_reversal(loss_items[0], score[:, item_ids.index(loss_items[0])])
    remedy = (
        f"Leave out its rows{reversal}. If higher scores are better, name all columns of scores by --column "
        "score=NAME,NAME."
    )
    raise import_error(table.source, f"{problem} {remedy}", slug="scores-direction")


def note_possible_losses(table: ScoreColumns, names: Sequence[str]) -> None:
    """Add a note if columns or items are named like metrics of which lower values are often better, such as "toxicity"."""
    metrics = list(dict.fromkeys(names))
    possible_losses = _find_possible_losses(metrics) if len(metrics) <= MAX_METRICS else []
    if possible_losses:
        table.notes.append(
            f"the highest values of {format_names(possible_losses)} rank first: if lower ones are better, subtract them from "
            "their highest possible value, or leave them out"
        )


def _note_direction(table: ScoreColumns, loss: str) -> None:
    """Add a note, once, that the highest values of a loss rank first."""
    note = f"the highest values of {loss!r} rank first, although lower ones seem to be better"
    if note not in table.notes:
        table.notes.append(note)


def _is_loss(name: str, values: Floats) -> bool:
    """Return whether lower values of a column seem to be better.

    Parameters
    ----------
    name : str
        Name of the column.
    values : float array (n_rows,)
        Its values; NaN if missing.

    Returns
    -------
    bool
        True if the column has the name of a loss or of an error rate, or a sign such as ↓, and at least one positive value. If a
        loss has no positive value, its sign was probably changed, so that higher values are better.
    """
    has_arrow = _ARROW.search(name) is not None
    has_name_of_loss = has_arrow or _LOSS.fullmatch(normalize_name(name)) is not None
    return has_name_of_loss and bool((values > 0).any())


def _describe_reversal(name: str, values: Floats) -> str:
    """Describe how to replace a loss by a score of which higher values are better.

    Parameters
    ----------
    name : str
        Name of the loss.
    values : float array (n_values,)
        Its values; NaN and infinite values are ignored.

    Returns
    -------
    str
        A clause that begins with a comma, with an example such as "1 - WER". It is empty if a value exceeds 100, because the
        highest possible value is then unknown.
    """
    largest = values[np.isfinite(values)].max(initial=0.0)
    if largest > 100:
        return ""
    highest = 1 if largest <= 1 else 100
    example = format_excerpt(f"{highest} - {_ARROW.sub('', name).strip()}")
    return f", or subtract it from its highest possible value and rename it, such as {example}"


def _find_possible_losses(names: Iterable[str]) -> list[str]:
    """Find the names of metrics of which lower values are often better, but not always, such as "toxicity".

    Parameters
    ----------
    names : iterable of str
        Names of columns or items.

    Returns
    -------
    list of str
        The names that are found, in the same order.
    """
    return [name for name in names if _POSSIBLE_LOSS.fullmatch(normalize_name(name))]


def _find_loss_items(item_ids: Sequence[str], score: Floats) -> list[str]:
    """Find the items that are metrics of which lower values are better, such as an error rate.

    The name of the item decides (`_is_loss`). Three kinds of items are never returned:

    - The items of a table with more than 100 items, because these are usually tasks and not metrics.
    - An item whose positive scores are all 1, because it is probably a task that a model passes or fails.
    - An item without positive scores, because the sign of the loss was probably changed.

    Parameters
    ----------
    item_ids : sequence of str
        Ids of the items.
    score : float array (n_models, n_items)
        Scores; NaN if missing.

    Returns
    -------
    list of str
        Ids of the items for which lower scores seem to be better.
    """
    if len(item_ids) > MAX_METRICS:
        return []

    loss_items = []
    for item_id, item_scores in zip(item_ids, score.T, strict=True):
        is_graded = ((item_scores > 0) & (item_scores != 1)).any()
        if is_graded and _is_loss(item_id, item_scores):
            loss_items.append(item_id)
    return loss_items
