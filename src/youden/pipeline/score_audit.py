"""Audit the ranking of an existing table of scores.

The ranking has the columns, and the facts have the keys, of a run. An ability is the mean score that is expected over
items like those of the table, in the unit of its scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from youden import __version__
from youden.data.folder.csv_tables import to_ranking_rows
from youden.data.folder.run_files import VERSION
from youden.data.score_tables import ScoreTable, read_scores
from youden.pipeline.abilities import LEVEL, Abilities, build_ranking_table, summarize_choice
from youden.pipeline.recommendation import list_first_names
from youden.stats.additive.score_means import (
    ScoreMeans,
    count_items_to_separate,
    estimate_score_means,
    find_smallest_removal,
    missingness_p_value,
    split_half_reliability,
)
from youden.stats.base.clusters import MIN_ITEMS, CentredCovariance
from youden.stats.trials.agent_rates import AgentRates
from youden.stats.trials.comparisons import Differences, describe_components, sort_best_first
from youden.streams import standalone_stream
from youden.text.sentences import format_count
from youden.types import Finding
from youden.types.facts import ChoiceFacts, RankingRow, RunFacts
from youden.types.pool import Bools, Floats, Json, or_none
from youden.types.recommendation import Recommendation
from youden.types.results import Signature

if TYPE_CHECKING:
    import pandas as pd

ALPHA_MISSING = 0.05
"""Significance level of the test whether cells are missing completely at random."""
N_RESIDUAL_ITEMS = 5
"""Number of items that are listed as fitted worst."""


@dataclass(frozen=True)
class AuditFacts:
    """What an audit states about a table, besides the facts of every ranking."""

    low: float
    """Lowest possible score."""
    high: float
    """Highest possible score."""
    notes: tuple[str, ...]
    """What was assumed or left out when the table was read."""
    missing_fraction: float
    """Fraction of the cells without a score."""
    missing_p: float
    """P-value of the hypothesis that cells are missing completely at random; 1 if none is."""
    reliability: float | None
    """Split-half reliability of the mean scores over items; None for fewer than 3 models."""
    groups: tuple[tuple[str, ...], ...]
    """Longest sets of consecutive models in the ranking of which no two differ significantly."""
    ties: Mapping[str, tuple[str, ...]]
    """Model → models that do not differ significantly from it, best first."""
    constant_pairs: tuple[tuple[str, str], ...]
    """Pairs of models whose scores differ by the same value on each common item."""
    removal_items: tuple[str, ...]
    """Fewest items without which another model is ahead of the first, the most influential first; empty if there are none."""
    removal_searched: bool
    """Whether at least one model can be compared with the first."""
    removal_first: str | None
    """The model that is then ahead of the first."""
    items_to_separate: int | None
    """Number of additional items with which the first two models would differ significantly with a probability of 80%; 0 if
    they do already, None if their scores are equal."""
    residual_items: tuple[str, ...]
    """Items with the largest residuals from the fit."""


@dataclass(frozen=True, eq=False)
class Audit:
    """Result of an audit.

    Attributes
    ----------
    source : str
        Name of the table.
    ranking : DataFrame
        One row per model, best first, with the columns of `ranking.csv`. `ability` is the mean score over items like these,
        `low`, `high` and `std_error` are its 95% interval and standard error, and `n_trials` is the number of items with a score.
    differences : Differences
        Differences of all pairs of models in the order of the ranking, row minus column, in the unit of the table.
    items : DataFrame
        One row per item: id, difficulty, number of models and of scores, and root mean square of the residuals.
    facts : RunFacts
        Estimators, choice of the best models and warnings, as in `fit.json` of a run.
    details : AuditFacts
        Reliability, groups, influential items and missing cells.
    recommendation : Recommendation
        The best model, or the models that may be the best.
    signature : str
        All that the numbers depend on.
    """

    source: str
    ranking: pd.DataFrame
    differences: Differences
    items: pd.DataFrame
    facts: RunFacts
    details: AuditFacts
    recommendation: Recommendation
    signature: str

    @property
    def rows(self) -> tuple[RankingRow, ...]:
        """The rows of the ranking as records, best first."""
        return to_ranking_rows(self.ranking)

    def to_json(self) -> dict[str, Json]:
        """Return the audit as JSON, with the keys of `youden fit --json` and the key `audit`.

        Returns
        -------
        dict
            JSON object.
        """
        return {
            "recommendation": asdict(self.recommendation),
            "ranking": [row.as_json for row in self.rows],
            "fit": asdict(self.facts),
            "calibration": None,
            "labels": None,
            "signature": self.signature,
            "audit": asdict(self.details),
        }

    @property
    def removal_fraction(self) -> float | None:
        """Smallest fraction of the items whose removal changes the first place; None if no removal does."""
        return len(self.details.removal_items) / len(self.items) if self.details.removal_items else None

    @property
    def summary(self) -> tuple[str, ...]:
        """Sentences that summarize the audit.

        They state how many cells have no score, how reliable the mean scores are, and which models do not differ significantly.
        They also state how many items decide the first place, how many more would separate the first two, and which fit worst.
        """
        details = self.details
        best, second = self.ranking["agent"].tolist()[:2]
        size = f"{len(self.ranking)} models on {len(self.items):,} items"
        missing = f"{100 * details.missing_fraction:.1f}% of the cells without a score"
        sentences = [f"{size}, {missing}; scores from {details.low:g} to {details.high:g}."]
        if details.reliability is not None:
            sentences.append(f"Split-half reliability over items (Spearman–Brown): {details.reliability:.3f}.")

        large_groups = [group for group in details.groups if len(group) > 1]
        sentences += [f"Not significantly different: {list_first_names(group)}." for group in large_groups]

        if details.constant_pairs:
            sentences.append(_describe_constant_pairs(details.constant_pairs))
        sentences.append(self._describe_removal(best))
        if details.items_to_separate:
            n_more = format_count(details.items_to_separate, "more item")
            power = "power 80%, if their difference is as estimated"
            sentences.append(f"{best} and {second} would differ significantly with {n_more} ({power}).")
        sentences.append(f"Items with the largest residuals: {', '.join(details.residual_items)}.")
        return tuple(sentences)

    def _describe_removal(self, best: str) -> str:
        """State whether another model would be first without some of the items."""
        if not self.details.removal_searched:
            unknown = "It is unknown whether removing items would change the first place"
            return f"{unknown}: {best} shares too few items with the other models."
        if self.removal_fraction is None:
            return f"No removal of items that favor {best} puts another model ahead of it."
        removed = f"{format_count(len(self.details.removal_items), 'item')} ({100 * self.removal_fraction:.1f}%)"
        return f"Without {removed}, {self.details.removal_first} is ahead of {best}."


def _describe_constant_pairs(pairs: Sequence[Sequence[str]]) -> str:
    """State in a sentence that the difference of two models is constant, for the first of these pairs."""
    n_others = len(pairs) - 1
    others = f" (and {format_count(n_others, 'more pair')} of models)" if n_others else ""
    reason = "so its interval follows from the number of items alone"
    return f"The difference of {' and '.join(pairs[0])}{others} is the same on each common item, {reason}."


def audit(
    table: str | Path | Sequence[str | Path] | pd.DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    score_range: tuple[float, float] | None = None,
) -> Audit:
    """Rank the models of a table of scores, with confidence intervals clustered by item.

    Parameters
    ----------
    table : path, sequence of paths or DataFrame
        Scores of two or more models on two or more items, higher is better: a table in long or wide form (CSV, TSV, Excel, JSON,
        JSON Lines or Parquet), or results of lm-eval, HELM, MTEB or SWE-bench. A score of 80% counts as 0.8, and yes as 1. The
        scores of a model on an item are averaged. If several files are passed, a file without a column of models has the scores
        of one model, which is named after the file.
    columns : mapping of str to str, optional
        Column of each role. The roles are "model", "item", "score" and "ignore". Several columns of a role are separated by
        commas; columns that together identify an item are joined by "+". Default: inferred from the table.
    score_range : tuple of (float, float), optional
        Lowest and highest possible score. Default: the first of 0 to 1, −1 to 1, 0 to 10 and 0 to 100 that contains all scores,
        or else the range of the scores.

    Returns
    -------
    Audit
        `ranking` is a table of the models, best first, with `agent` (the model), `ability` (its mean score), the bounds `low`
        and `high` of its 95% interval and `std_error`, in the unit of the scores. Other attributes are the `differences` of the
        models, `items`, `facts` with warnings, `details` on what limits the ranking, and the `recommendation`. No file is
        written.

    Raises
    ------
    ImportFormatError
        [scores-columns], [scores-direction], [scores-value], [scores-percent], [scores-scale], [scores-bounds], [scores-id],
        [scores-size], [scores-pairs], [scores-reports]: if the table cannot be used; the message names the option that resolves
        an ambiguity. Other slugs if a file cannot be read.
    ConfigError
        [scores-role]: if `columns` has another role; [scores-range]: if `score_range` is not two finite numbers in
        ascending order.

    Notes
    -----
    The estimand is the mean score of a model over the population that the items were sampled from. With missing cells,
    it is estimated by the additive model (model + item). Ranks, groups and significance use the standard errors of
    differences of models.

    Examples
    --------
    >>> import pandas as pd
    >>> import youden
    >>> table = pd.DataFrame({"item": ["a", "b", "c", "d"], "new": [1, 1, 1, 0], "old": [1, 0, 0, 0]})
    >>> ranking = youden.audit(table).ranking
    >>> ranking["agent"].tolist(), ranking["ability"].round(3).tolist(), ranking["rank_high"].tolist()
    (['new', 'old'], [0.75, 0.25], [2, 2])
    """
    import pandas as pd  # takes long to load

    scores = read_scores(table, columns=columns, score_range=score_range)

    # scores from 0 to 1 are fitted; results are converted back to the unit of the table
    unit = scores.high - scores.low
    score = (scores.score - scores.low) / unit
    means = estimate_score_means(score, level=LEVEL)
    has_score = scores.n_scores > 0
    abilities = Abilities(
        ability=scores.low + unit * np.clip(means.mean, 0, 1),  # with missing cells, the fit may leave the range
        covariance=CentredCovariance(unit**2 * means.covariance.covariance, means.covariance.df),
        n_trials=has_score.sum(axis=1).astype(np.int32),
        rates=AgentRates.unknown(len(score)),
        ranking="additive fit of scores (model + item)",
        method="Wilson, effective size by item, Student t; differences: paired by item, Student t",
        target="items-like-these",
        component=means.model.component_,
        limits=(scores.low, scores.high),
    )
    scaled = means.differences
    differences = replace(
        scaled, value=unit * scaled.value, std_error=unit * scaled.std_error, half_width=unit * scaled.half_width
    )

    # ranking, with intervals of the means instead of the distances from the average model
    ids = scores.model_ids
    best_first = sort_best_first(abilities.ability)
    ranking = build_ranking_table(abilities, ids, differences=differences)
    ranking["low"] = scores.low + unit * means.low[best_first]
    ranking["high"] = scores.low + unit * means.high[best_first]
    ranking["std_error"] = unit * means.std_error[best_first]
    ranking.attrs["agents"] = ranking["agent"].tolist()

    # items
    residual = unit * np.sqrt(np.nanmean(means.residual**2, axis=0))
    items = pd.DataFrame(
        {
            "item": list(scores.item_ids),
            "difficulty": unit * means.difficulty,
            "n_agents": has_score.sum(axis=0),
            "n_trials": scores.n_scores.sum(axis=0),
            "residual": residual,
        }
    )

    # recommendation, and what limits it
    choice = summarize_choice(abilities, ids, differences=differences)
    best = None if differences.unique_best is None else ids[differences.unique_best]
    names = [ids[model] for model in best_first]
    ranked = differences.subset(best_first)
    details = _describe_ranking_limits(scores, score, means, residual, ranked, names=names)
    incomparable = [name for name, width in zip(names[1:], ranked.half_width[0, 1:], strict=True) if np.isnan(width)]
    recommendation = _recommend_models(best, choice, incomparable)

    facts = RunFacts(
        version=VERSION,
        ranking=abilities.ranking,
        interval=abilities.method,
        level=LEVEL,
        estimator="clipped-linear model, least squares",
        status=means.model.status_,
        message=means.model.message_,
        kkt=means.model.kkt_,
        n_components=means.model.n_components_,
        r2=or_none(means.model.r2_),
        fpr=None,
        calls=None,
        holdout=None,
        links={},
        links_missing={},
        warnings=_find_warnings(means, details, len(scores.item_ids)),
        target=abilities.target,
        unique_best=best,
        n_significant_pairs=int(differences.significant.sum()) // 2,
        choice=choice,
        recommendation=recommendation,
    )
    return Audit(scores.source, ranking, ranked, items, facts, details, recommendation, _sign_audit(scores, facts))


def _describe_ranking_limits(
    table: ScoreTable,
    score: Floats,
    means: ScoreMeans,
    residual: Floats,
    differences: Differences,
    *,
    names: Sequence[str],
) -> AuditFacts:
    """Describe what limits a ranking of models, such as ties, influential items and missing scores.

    table : ids of the models and items, and the range of the scores
    score : float array (n_models, n_items), scores of the table on the scale from 0 to 1; NaN if missing
    means : mean scores of the models by the additive fit
    residual : float array (n_items,), root mean squared residual of the additive fit on each item
    differences : differences of the models in the order of `names`
    names : names of the models, best first
    """
    # models that do not differ significantly from another one; an unknown difference has no half-width (NaN)
    is_comparable = np.isfinite(differences.half_width)
    is_tied = is_comparable & ~differences.significant
    np.fill_diagonal(is_tied, val=False)
    ties = {name: tuple(compress(names, row)) for name, row in zip(names, is_tied, strict=True)}

    # pairs of models whose scores differ by the same value on each common item
    constant_pairs = [
        (table.model_ids[i], table.model_ids[k]) for i, k in np.argwhere(np.triu(means.is_constant)).tolist()
    ]

    # smallest set of items without which another model comes first
    removal = find_smallest_removal(score, means)
    removal_items, removal_first = (), None
    if removal:
        removal_items = tuple(table.item_ids[item] for item in removal.items)
        removal_first = table.model_ids[removal.agent]

    has_score = ~np.isnan(score)
    reliability = split_half_reliability(score, means.difficulty, rng=standalone_stream(0))
    most_deviating_items = np.argsort(-residual)[:N_RESIDUAL_ITEMS]
    return AuditFacts(
        low=table.low,
        high=table.high,
        notes=table.notes,
        missing_fraction=float((~has_score).mean()),
        missing_p=missingness_p_value(has_score, means.difficulty),
        reliability=or_none(reliability),
        groups=_find_groups(names, is_tied),
        ties=ties,
        constant_pairs=tuple(constant_pairs),
        removal_items=removal_items,
        removal_searched=bool(is_comparable[0, 1:].any()),
        removal_first=removal_first,
        items_to_separate=_count_items_for_leader(differences, len(table.item_ids)),
        residual_items=tuple(table.item_ids[item] for item in most_deviating_items),
    )


def _count_items_for_leader(differences: Differences, n_items: int) -> int | None:
    """Count the further items that would separate the first two models; 0 if they differ already, None if unknown."""
    difference, std_error = float(differences.value[0, 1]), float(differences.std_error[0, 1])
    n_needed = count_items_to_separate(difference, std_error, n_items)
    if n_needed is None:
        return None
    return 0 if differences.significant[0, 1] else max(n_needed, 1)


def _find_warnings(means: ScoreMeans, details: AuditFacts, n_items: int) -> tuple[Finding, ...]:
    """Return warnings about properties of a table of scores that limit its audit.

    The warnings are about few items, models that share no items, and scores that are not missing completely at random.

    means : additive fit of the scores; its components are sets of models that are connected by common items
    details : description of the table, with the p-value of the missing scores
    n_items : number of items of the table
    """
    findings = []
    if n_items < MIN_ITEMS:
        message = (
            f"The table has only {format_count(n_items, 'item')}. Intervals and ranks assume that items are a random sample. Two "
            "metrics of one benchmark are not: audit the scores on its items instead."
        )
        findings.append(Finding("items-few", message, facts={"n_items": n_items}))
    separate_sets = describe_components(means.model.component_)  # empty if common items connect all models
    if separate_sets:
        findings.append(Finding("fit", separate_sets))
    if details.missing_p < ALPHA_MISSING:
        message = (
            f"Cells are not missing completely at random (p = {details.missing_p:.2g}): their number depends on the model or on "
            "the item's difficulty. The fit allows for this, but not for models that skip items on which they would score low."
        )
        findings.append(Finding("scores-missing", message, facts={"p": details.missing_p}))
    return tuple(findings)


def _find_groups(names: Sequence[str], is_tied: Bools) -> tuple[tuple[str, ...], ...]:
    """Find groups of consecutive models that do not differ significantly from each other.

    Groups may overlap. A model that differs from its neighbors forms a group by itself.

    names : names of the models, best first
    is_tied : bool array (n_models, n_models), whether two models do not differ significantly

    Returns the names of the models of each group. A group that is a part of another one is left out.
    """
    groups = []
    last_end = 0
    for start in range(len(names)):
        # extend the group by the next model as long as it is tied with all models of the group
        end = start + 1
        while end < len(names) and is_tied[start:end, end].all():
            end += 1

        is_part_of_earlier_group = end <= last_end
        if not is_part_of_earlier_group:
            groups.append(tuple(names[start:end]))
            last_end = end
    return tuple(groups)


def _recommend_models(best: str | None, choice: ChoiceFacts | None, incomparable: Sequence[str]) -> Recommendation:
    """Recommend the model with a significantly higher mean score than all others.

    If there is none, list the models that may be the best. No model is recommended if some models share too few items with the
    first one to be compared with it.

    best : significantly best model; None if there is none
    choice : models that may be the best; None if some models cannot be compared
    incomparable : models that share too few items with the first one of the ranking

    Returns the recommendation with its sentence for the user.
    """
    if choice is None:
        reason = f"too few items in common with the first model to be compared: {list_first_names(incomparable)}"
        text = f"No recommendation: {reason}. Remove these models, or add scores on common items."
        return Recommendation("none", (), text, reason, decided_by="scores")

    if best is not None:
        text = f"Recommended: {best} has a significantly higher mean score than every other model."
        return Recommendation("recommended", (best,), text, decided_by="scores")

    if not choice.candidates:
        ruled_out = f"Every other model is ruled out as the best ({choice.level:.0%} confidence)"
        text = f"Recommended: {choice.agents[0]}. {ruled_out}, although not every difference is significant."
        return Recommendation("recommended", choice.agents, text, decided_by="scores")

    candidates = (*choice.agents, *choice.candidates)
    names = list_first_names(candidates)
    text = f"Candidates: {names} cannot be ruled out as the best ({100 * choice.level:.0f}% confidence)."
    return Recommendation("candidates", candidates, text, decided_by="scores")


def _sign_audit(scores: ScoreTable, facts: RunFacts) -> str:
    """Return the signature of an audit: all that its numbers depend on."""
    ids = repr((scores.model_ids, scores.item_ids))
    digest = hashlib.sha256(ids.encode() + scores.score.tobytes()).hexdigest()
    parts: dict[str, Json] = {"youden": __version__, "scores": digest[:12], "low": scores.low, "high": scores.high}
    return Signature(parts | {"ranking": facts.ranking, "interval": facts.interval, "target": facts.target}).text
