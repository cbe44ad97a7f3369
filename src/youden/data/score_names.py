"""Normalized names of the columns of tables of scores: scores, averages, statistics, and numbers that are not scores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from youden.data.importers.column_names import is_about_responses, normalize_name

SCORE_NAMES = {"score", "scores", "value", "main_score"}
"""Normalized names of the column of scores in a long table, which has one row per model and item."""
TOTAL = re.compile(
    r"all(_(models|systems|agents|items|tasks|benchmarks|datasets))?|σ|(mean|median|sum)(_.*)?|(.*_)?(average|avg|overall|total)(_.*)?"
    r"|(durchschnitt|mittelwert|gesamt|insgesamt|summe|moyenne|promedio)(_.*)?|(平均|合計|总分|總分)(_.*)?"
)
"""Normalized names of averages and totals."""
_DEVIATION = re.compile(
    r"(.*_)?(std|stdev|stddev|std_dev|std_?err(or)?|standard_(deviation|error)|sem|variance|\d+_ci|ci_\d+)"
)
"""Normalized names of standard deviations and errors."""
_STATISTIC = re.compile(r"sd|se|n|min(imum)?|max(imum)?|count|range|ci|var|q1|q3|iqr")
"""Normalized names of statistics, which may also name models or items if no other statistic is next to them."""
NO_SCORE = re.compile(
    r"(.*_)?rank(ing)?(_.*)?|(δ|delta)(_.*)?|(.*_)?(stderr|stddev|std|std_error|se|ci)|(number_of_|num_|n_|#_?)?param(eter)?s?(_.)?|(model_)?size(_.*)?"
    r"|memory(_usage)?(_.*)?|max_tokens|embedding_dim.*|context(_(length|window|size|k))?|(.*_)?(price|cost|usd|latency)"
    r"|((n|num|avg|mean|total|input|output|completion)_)*tokens(_s|_per_second)?|(speed|throughput)(_(tok|tokens)_.*)?"
    r"|(latency|(run)?time|duration)(_(s|ms|sec|seconds|min|h))?|(task_)?weights?"
    r"|temperature|top_[kp]|(num|number_of|#)_.*|n_(samples|items|examples|questions)|co[2₂].*|(column|unnamed)_\d+(_\d+)*"
)
"""Normalized names of columns of numbers that are not scores."""
WHOLE_NUMBER = re.compile(
    r"no|#|(.*_)?id|(release_)?(date|year)|((n|num|few)_)*shots?|votes|n|count|(hub_)?likes|hub|seed|version"
    r"|zero_shot|repeat|epoch|trial|attempt"
)
"""Normalized names of columns that usually contain whole numbers that are not scores, but may also be named after a model."""
_ITEM_FACT = re.compile(
    r"(.*_)?(difficulty|complexity|length|max(imum)?_(score|points|marks)|points|marks|level|(n|num)_\w+|word_count|answer|target)"
)
"""Normalized names of columns of numbers that describe items, such as their difficulty."""
ROW_LABEL = re.compile(
    r"index|idx|index_level_\d+|level_0|column_1|unnamed_0(_\d+)*|row(_?(id|index|no|num|number|nr))?|nr|no|#"
)
"""Normalized names of columns that may number the rows, such as the index of a table saved by pandas."""
METRICS = {"metric", "metric_name", "measure", "filter"}


def find_statistics(names: Sequence[str]) -> set[str]:
    """Find names of averages, totals and other statistics among the names of models or items.

    Names such as "SD" and "min" are ambiguous, because a model or an item may have them. They count only if
    the name before or after them may be that of a statistic, too.

    >>> sorted(find_statistics(["gpt", "SD", "claude"])), sorted(find_statistics(["gpt", "claude", "mean", "SD"]))
    ([], ['SD', 'mean'])

    names : names in the order of the table
    """
    statistics = set(filter(_is_average_or_deviation, names))
    for may_be_statistics, neighbors in groupby(names, key=_may_be_statistic):
        block = list(neighbors)
        if may_be_statistics and len(block) > 1:
            statistics.update(block)
    return statistics


def _is_average_or_deviation(name: str) -> bool:
    """Return whether a name is certainly that of an average, a total, or a standard deviation or error."""
    normalized = normalize_name(name)
    return bool(TOTAL.fullmatch(normalized) or _DEVIATION.fullmatch(normalized)) or name.startswith("±")


def _may_be_statistic(name: str) -> bool:
    """Return whether a name is that of a statistic, such as "mean", or may be, such as "min"."""
    return _is_average_or_deviation(name) or bool(_STATISTIC.fullmatch(normalize_name(name)))


def describes_item(name: str) -> bool:
    """Return whether a column of numbers describes the item of a row, judged by its name, such as "difficulty" or "gold"."""
    normalized = normalize_name(name)
    is_fact = is_about_responses(name) or _ITEM_FACT.fullmatch(normalized) is not None
    return is_fact and normalized not in SCORE_NAMES
