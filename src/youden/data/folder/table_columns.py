"""The columns of every table in a run's folder, declared once: writers, readers, schemas, exporters and the book go by them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated, Final, get_args

from youden.run_keys import Target
from youden.types import MISSING_REASONS
from youden.types.columns import Meaning, TableColumn, columns_of
from youden.types.facts import STANDINGS, RankingRow, StandingName
from youden.types.label_facts import QualityRow
from youden.types.trials import ROLES

ARMS = ("paired", "independent")


@dataclass(frozen=True)
class ItemRow:
    """One line of `items.csv`. difficulty: None for an item never seen."""

    item: Annotated[str, Meaning("its id")]
    difficulty: Annotated[float | None, Meaning("how far it lies below ability; empty for an item never seen")]
    n_agents: Annotated[int, Meaning("agents with a score on it")]
    n_trials: Annotated[int, Meaning("its comparisons with an answer")]


CURL = (
    TableColumn("link", "text", "identity, probit, logit"),
    TableColumn("sd", "number", "SD of the scores on that scale"),
    TableColumn("x", "number", "a size of curl, on the link's scale"),
    TableColumn("share", "number", "the share of rectangles with no more than that"),
    TableColumn("error", "number", "its standard error, where rectangles were sampled; else 0"),
)
TARGET = TableColumn(
    "target", "text", "what intervals and places describe, in every line the same", words=get_args(Target)
)


def ranking_columns(standings: Collection[StandingName] = STANDINGS) -> tuple[TableColumn, ...]:
    """Of `ranking.csv`, with the rankings beside the plain one that a run has, in their order."""
    plain = columns_of(RankingRow)
    beside = (
        replace(column, name=f"{name}_{column.name}", null=True)
        for name in STANDINGS
        if name in standings
        for column in plain
        if column.standing
    )
    return (*plain, TARGET, *beside)


TRIALS = (
    TableColumn("item", "text", "what the first response answers", of="items"),
    TableColumn("first", "text", "the agent whose response the judge reads first", of="agents"),
    TableColumn("second", "text", "the agent whose response the judge reads second", of="agents"),
    TableColumn("arm", "text", "whether both responses answer one item", words=ARMS),
    TableColumn(
        "other_item",
        "text",
        "what the second response answers, where that is another item; null in the paired arm",
        of="items",
        null=True,
    ),
    TableColumn("replicate", "whole", "0, or which repetition"),
    TableColumn("slot", "whole", "the slot of a cyclic plan; null in other designs", null=True),
    TableColumn(
        "role",
        "text",
        "what it is for: `plan` compares everybody, `placing` some agents with the first ones; `twin` and `pooled` are for rates "
        "of false positives, a `probe` for their alarm alone, a `follow-up` for links alone",
        words=ROLES,
    ),
    TableColumn("step", "whole", "0 for the first plan, else which extension or round asked, from 1 on"),
    TableColumn(
        "weight_first", "number", "what its answer counts for the first agent: 1, 0, or one over the chance of it"
    ),
    TableColumn("weight_second", "number", "the same for the second agent"),
)
REPEATS = (
    TableColumn(
        "first_repeat", "whole", "which of its responses the first agent shows, from 1; only where some have several"
    ),
    TableColumn("second_repeat", "whole", "the same of the second agent"),
)
ANSWERS = (
    TableColumn("answer", "share", "in [0, 1]: soft or graded where the judge is; null where missing", null=True),
    TableColumn("hard", "bit", "0 or 1", null=True),
    TableColumn(
        "missing", "text", "null where there is an answer, else why there is none", words=MISSING_REASONS[1:], null=True
    ),
    TableColumn("key", "key", "sha256 of the request, its name in the store; null for judges without calls", null=True),
    TableColumn("tokens_in", "whole", "tokens of the request that were paid for", null=True),
    TableColumn("tokens_out", "whole", "tokens of the answer that were paid for", null=True),
    TableColumn("usd", "number", "what it cost over all passes of the run", unit="USD", null=True),
    TableColumn("seconds", "number", "what the call took", unit="seconds", null=True),
    TableColumn("served", "text", "the model that the provider says it served", of="models", null=True),
)
VOTE = "vote_"


def vote_column(number: int) -> TableColumn:
    """What a judge of a jury answered, from 1; only where a jury judged."""
    return TableColumn(f"{VOTE}{number}", "share", "what this judge of the jury answered", null=True)


RATES = (
    *TRIALS[:3],
    TableColumn("tpr", "share", "share of yes to paired trials; null where none answered", null=True),
    TableColumn("fpr", "share", "share of yes to independent trials; null where none answered", null=True),
    TableColumn("n_paired", "whole", "paired trials with an answer"),
    TableColumn("n_independent", "whole", "independent trials with an answer"),
    TableColumn("n_missing", "whole", "trials of either arm without an answer"),
)
PAIRS = (
    *TRIALS[1:3],
    TableColumn("agreement", "number", "mean TPR over items, less the pair's own FPR where it has one", null=True),
    TableColumn("mean", "number", "mean answer to both orders, items' own means taken off", null=True),
    TableColumn("error", "number", "its standard error", null=True),
    TableColumn("n", "number", "the answers behind it", null=True),
    TableColumn(
        "above",
        "bit",
        "1 where the first is told to be better than the second, 0 where it is not, null where they are not compared",
        null=True,
    ),
)

COLUMNS: Final[dict[str, tuple[TableColumn, ...]]] = {
    "ranking.csv": ranking_columns(),
    "items.csv": columns_of(ItemRow),
    "curl.csv": CURL,
    "quality.csv": columns_of(QualityRow),
    "plan.parquet": (*TRIALS, *REPEATS),
    "verdicts.parquet": (*TRIALS, *REPEATS, *ANSWERS),
    "rates.parquet": RATES,
    "pairs.parquet": PAIRS,
}
"""File of a run → its columns, in their order; `REPEATS` only where agents have several responses to an item."""
