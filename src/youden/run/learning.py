"""What is estimated from a run's answers, each thing once: scores, fit, abilities, and who is told apart by them."""

from __future__ import annotations

from dataclasses import dataclass

from youden.nouns import Rates, Scores, Split, Target, Verdicts
from youden.nouns.arrays import Ids
from youden.protocol.scores import holdout_scores, pooled_fpr, train_scores
from youden.run.estimates.abilities import abilities_of
from youden.run.estimates.ability import Abilities
from youden.run.estimates.fitted import answers_of, fitted_abilities
from youden.run.estimates.places_table import told_apart
from youden.run.ranking import components_of
from youden.stats.additive.clipped_linear import ClippedLinear
from youden.stats.trials.places import Differences


@dataclass(frozen=True, eq=False)
class Estimated:
    """What is estimated from the answers, each thing once.

    scores: symmetric ones, for training; found, apart: what ranks, and who is told apart by it; component: int32[K], which
    agents are linked.
    """

    split: Split | None
    scores: Scores
    holdout: Scores | None
    model: ClippedLinear
    found: Abilities
    component: Ids
    apart: Differences


@dataclass(frozen=True, eq=False)
class Learned(Estimated):
    """The same, with what it was estimated from. result: None where only rates are known."""

    result: Verdicts | None
    rates: Rates


def learn(
    rates: Rates,
    *,
    split: Split | None = None,
    result: Verdicts | None = None,
    target: Target = "items-like-these",
) -> Learned:
    """Scores, fit and abilities from rates; with `result`, the trials themselves rank a cyclic plan."""
    scores = train_scores(rates, split)
    model = ClippedLinear().fit(scores)
    by_trials = abilities_of(result, target=target) if result is not None else None
    found = by_trials or fitted_abilities(model, scores, answers_of(rates, split), fpr=pooled_fpr(rates), target=target)
    component = components_of(result) if by_trials and result is not None else model.component_
    return Learned(
        result=result,
        rates=rates,
        split=split,
        scores=scores,
        holdout=holdout_scores(rates, split) if split is not None and split.n_holdout else None,
        model=model,
        found=found,
        component=component,
        apart=told_apart(found, component=component),
    )
