"""Declare the columns of every table in a run's folder.

Writers, readers, schemas, exporters and the documentation all use these declarations.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated, Final, get_args

from youden.run_keys import Target
from youden.types import MISSING_REASONS
from youden.types.columns import Meaning, TableColumn, columns_of
from youden.types.facts import ALTERNATIVE_RANKINGS, AlternativeRanking, RankingRow
from youden.types.label_facts import QualityRow
from youden.types.trials import ROLES

TRIAL_TYPES = ("paired", "independent", "self")


@dataclass(frozen=True)
class ItemRow:
    """One row of `items.csv`.

    Attributes
    ----------
    item : str
        Id of the item.
    difficulty : float or None
        Difficulty of the item, on the scale of abilities; None if no score of the item was observed.
    n_agents : int
        Number of agents with a score on the item.
    n_trials : int
        Number of answered trials of the item.
    """

    item: Annotated[str, Meaning("id of the item")]
    difficulty: Annotated[
        float | None, Meaning("how far scores on it are below ability; empty if no score was observed")
    ]
    n_agents: Annotated[int, Meaning("number of agents with a score on it")]
    n_trials: Annotated[int, Meaning("number of its trials with an answer")]


CURL = (
    TableColumn("link", "text", "name of the link: identity, probit or logit"),
    TableColumn("sd", "number", "standard deviation of the scores on the link's scale"),
    TableColumn("x", "number", "size of a curl, on the link's scale"),
    TableColumn("share", "number", "share of rectangles whose curl has at most this size"),
    TableColumn("std_error", "number", "standard error of the share if rectangles were sampled; else 0"),
)
TARGET = TableColumn(
    "target", "text", "what intervals and ranks describe, the same in every row", words=get_args(Target)
)


def ranking_columns(
    alternatives: Collection[AlternativeRanking] = ALTERNATIVE_RANKINGS, *, self_trials: bool = False
) -> tuple[TableColumn, ...]:
    """List the columns of a `ranking.csv`.

    The plain ranking scores each agent by all its comparisons. An alternative ranking uses a different scoring rule, for example
    only comparisons with trusted agents.

    Parameters
    ----------
    alternatives : collection of str, optional
        Names of the alternative rankings in the file: "robust", "family" or "trusted". Default: all.
    self_trials : bool, default False
        Whether the file has the columns of self-consistency, which come from trials that compare two responses of one agent.

    Returns
    -------
    tuple of TableColumn
        Columns in the order of the file. The columns of the plain ranking, which are the fields of `RankingRow`, come first. The
        column `target` follows, which states what the intervals describe. The columns of the alternative rankings come last.
        Their names begin with the name of the ranking, as in `robust_ability`.
    """
    plain_columns = list(columns_of(RankingRow))
    if not self_trials:
        plain_columns = [column for column in plain_columns if not column.name.startswith("self_consistency")]

    # alternative rankings repeat only some of the plain columns, such as the ability
    repeated_columns = [column for column in plain_columns if column.alternative]
    alternative_columns: list[TableColumn] = []
    for ranking in ALTERNATIVE_RANKINGS:
        if ranking in alternatives:
            # null for an agent that the alternative ranking leaves out
            alternative_columns += [
                replace(column, name=f"{ranking}_{column.name}", null=True) for column in repeated_columns
            ]
    return (*plain_columns, TARGET, *alternative_columns)


TRIALS = (
    TableColumn("item", "text", "item of the first response", entity="items"),
    TableColumn("first", "text", "agent whose response the judge reads first", entity="agents"),
    TableColumn("second", "text", "agent whose response the judge reads second", entity="agents"),
    TableColumn(
        "trial_type",
        "text",
        "trial type: paired if both responses are to one item, self if both are by one agent in a run that compares agents",
        words=TRIAL_TYPES,
    ),
    TableColumn(
        "other_item",
        "text",
        "item of the second response; null in paired trials",
        entity="items",
        null=True,
    ),
    TableColumn("replicate", "whole", "0, or the number of the repetition"),
    TableColumn("block", "whole", "block of a cyclic plan; null in other designs", null=True),
    TableColumn(
        "role",
        "text",
        "purpose: `main` compares all agents, `anchor` compares new agents with the first ones; `matched` and `pooled` estimate "
        "false-positive rates, a `probe` serves only their alarm, a `follow-up` only the search for flagged groups, "
        "a `self` trial only the self-consistency of its agent",
        words=ROLES,
    ),
    TableColumn(
        "step", "whole", "0 for the first plan, else the number of the extension or round that added the trial"
    ),
    TableColumn(
        "weight_first",
        "number",
        "weight of the answer for the first agent: 1, 0, or the inverse of its sampling probability",
    ),
    TableColumn("weight_second", "number", "weight of the answer for the second agent"),
)
REPEATS = (
    TableColumn(
        "first_repeat",
        "whole",
        "number of the first agent's response, from 1; only if agents have several responses to an item",
    ),
    TableColumn("second_repeat", "whole", "number of the second agent's response"),
)
ANSWERS = (
    TableColumn(
        "answer", "share", "answer in [0, 1], fractional if the judge is soft or graded; null if missing", null=True
    ),
    TableColumn("hard_answer", "bit", "answer as 0 or 1; for the mean of a jury, 1 if it is at least 0.5", null=True),
    TableColumn(
        "missing_reason",
        "text",
        "null if there is an answer, else the reason why there is none",
        words=MISSING_REASONS[1:],
        null=True,
    ),
    TableColumn(
        "request_hash",
        "hash",
        "SHA-256 of the request, under which the store keeps the answer; null for judges without calls",
        null=True,
    ),
    TableColumn("tokens_in", "whole", "paid tokens of the request", null=True),
    TableColumn("tokens_out", "whole", "paid tokens of the answer", null=True),
    TableColumn("usd", "number", "cost over all invocations of the run", unit="USD", null=True),
    TableColumn("seconds", "number", "duration of the call", unit="seconds", null=True),
    TableColumn(
        "response_model", "text", "model that answered, as reported by the provider", entity="models", null=True
    ),
)
VOTE = "vote_"
"""Prefix of the columns with the answers of a jury's judges."""


def vote_column(number: int) -> TableColumn:
    """Return the column with the answers of one judge of a jury.

    Parameters
    ----------
    number : int
        Number of the judge, from 1.

    Returns
    -------
    TableColumn
        Column of numbers from 0 to 1, which may be missing.
    """
    return TableColumn(f"{VOTE}{number}", "share", "answer of this judge of the jury", null=True)


RATES = (
    *TRIALS[:3],
    # numbers, not shares: an imported run has D, from -1 to 1, as its TPR
    TableColumn("tpr", "number", "proportion of yes answers in paired trials; null if none was answered", null=True),
    TableColumn(
        "fpr", "number", "proportion of yes answers in independent trials; null if none was answered", null=True
    ),
    TableColumn("n_paired", "whole", "number of paired trials with an answer"),
    TableColumn("n_independent", "whole", "number of independent trials with an answer"),
    TableColumn("n_missing", "whole", "number of trials of both types without an answer"),
)
PAIRS = (
    *TRIALS[1:3],
    TableColumn("agreement", "number", "mean TPR over items, minus the pair's own FPR if it has one", null=True),
    TableColumn("mean", "number", "mean answer in both orders, minus the means of the items", null=True),
    TableColumn("std_error", "number", "standard error of the mean", null=True),
    TableColumn("n", "number", "number of answers in the mean", null=True),
    TableColumn(
        "significantly_better",
        "bit",
        "1 if the first agent is significantly better than the second, 0 if not, null if they were not compared",
        null=True,
    ),
    TableColumn("difference", "number", "ability of the first agent minus ability of the second", null=True),
    TableColumn(
        "half_width", "number", "half-width of the 95% interval of the difference, for this pair alone", null=True
    ),
    TableColumn(
        "p_holm",
        "number",
        "p-value of the hypothesis that the first agent is not better, adjusted for all pairs of the table by Holm's method",
        null=True,
    ),
)

COLUMNS: Final[dict[str, tuple[TableColumn, ...]]] = {
    "ranking.csv": ranking_columns(self_trials=True),
    "items.csv": columns_of(ItemRow),
    "curl.csv": CURL,
    "quality.csv": columns_of(QualityRow),
    "plan.parquet": (*TRIALS, *REPEATS),
    "verdicts.parquet": (*TRIALS, *REPEATS, *ANSWERS),
    "rates.parquet": RATES,
    "pairs.parquet": PAIRS,
}
"""File of a run → its columns, in order. It has those of `REPEATS` only if agents have several responses to an item."""
