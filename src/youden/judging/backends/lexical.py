"""The embedded judge: two responses come from the same item if they share words that few items have.

It sees neither meaning nor order nor contradiction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from youden.errors import ConfigError, JudgeError, PlanError
from youden.streams import own_stream
from youden.text.similarity import (
    COPYING_SHARE,
    N_GRAM,
    copied_shares,
    copying_agents,
    groups_holding,
    idf,
    shared_mass,
    word_matrix,
)
from youden.text.words import Segmented, segment
from youden.types import PAIRED, Finding, Plan, Pool, Verdicts
from youden.types.pool import Floats, Ids, Json

Index = NDArray[np.int64]

VERSION = 2
N_FOLDS = 5
MIN_ITEMS = 8
SCALE_QUANTILE = 0.95
FITTING_PAIRS = 20_000
MOST_MEDIANS = 2.0
"""A text's words count in full up to so many times the mass of the item's median text; a longer text's in proportion less."""

_BASELINE = (
    "The lexical judge is a similarity baseline: it sees shared words only, is blind to contradiction and paraphrase, and is "
    "fond of length. Read its ranking beside the ranking by length alone, and let a language model judge before concluding."
)


@dataclass(frozen=True)
class Lexical:
    """Judges a whole plan by shared words, without calls.

    similarity = Σ idf(w) over the words in both texts, idf(w) = log(J / items whose responses hold w), times
    min(1, 2 medians / mass) of each text: its mass is Σ idf over its words that another text holds too, the median is over the
    item's texts. Up to two medians a longer text may win by saying more; beyond, adding words wins nothing.
    Soft answer clip(similarity / 95th percentile of paired similarities, 0, 1); hard answer similarity ≥ the
    threshold that maximises TPR − FPR. idf, scale and threshold of a trial are fitted on the items outside the folds (of 5)
    of its own items; which pairs are paired and which independent is known there by construction, not by label.

    seed: of the folds and of the pairs that scale and threshold are fitted on.
    """

    seed: int = 0

    name: ClassVar[str] = "lexical"

    def __post_init__(self) -> None:
        if type(self.seed) is not int or self.seed < 0:
            raise ConfigError(
                f"The lexical judge's seed is {self.seed!r}. Give a whole number, 0 or more.", slug="judge-parameters"
            )

    def answer_many(self, plan: Plan) -> Verdicts:
        """Answer every trial of the plan; no answer is missing.

        Raises: PlanError [plan-missing-text]; JudgeError [lexical-few-items] if fewer than 8 items have responses,
        [lexical-nothing-shared] if the items to fit on do not determine a scale.
        """
        pool = plan.pool
        item_of, agent_of = np.nonzero(pool.every_present.T)
        once = np.flatnonzero(agent_of < pool.n_agents)  # two responses of one agent are no pair to fit on
        other_item = np.where(plan.arm == PAIRED, plan.item, plan.other_item)
        first, second = _rows_asked(plan, other_item=other_item, rows=(agent_of, item_of))
        texts = segment([*pool.every.T[pool.every_present.T], *(item.prompt or "" for item in pool.items)])

        rng = own_stream(self.seed)
        fold = _folds(np.unique(item_of), rng, n_items=pool.n_items)
        fold_1, fold_2 = fold[plan.item], fold[other_item]
        kept_out = N_FOLDS * np.minimum(fold_1, fold_2) + np.maximum(fold_1, fold_2)
        models = np.unique(kept_out)[:, None]
        fits_on = (fold >= 0) & (fold != models // N_FOLDS) & (fold != models % N_FOLDS)

        matrix = word_matrix(texts)[: len(item_of)]
        held = groups_holding(matrix, item_of, n_groups=pool.n_items)
        weights = idf(fits_on.astype(np.float64) @ held, fits_on.sum(axis=1, keepdims=True))
        can_count = (weights.max(axis=0, initial=0.0) > 0) & (matrix.sum(axis=0) > 1)
        matrix, weights = matrix[:, can_count], weights[:, can_count]

        share = _kept_shares(matrix @ weights.T, item_of)

        arms = []
        for paired in (True, False):
            one, two = (once[rows] for rows in sample_pairs(item_of[once], rng, paired=paired))
            mass = shared_mass(matrix, one, two, weights=np.ascontiguousarray(weights.T))
            mass *= share[one] * share[two]
            arms.append((mass.T, fits_on[:, item_of[one]] & fits_on[:, item_of[two]]))
        (paired_mass, paired_fits), (independent_mass, independent_fits) = arms

        answer, hard = np.empty(len(plan)), np.empty(len(plan))
        for m, model in enumerate(models):
            scale, threshold = _fit_cut(paired_mass[m, paired_fits[m]], independent_mass[m, independent_fits[m]])
            trial = np.flatnonzero(kept_out == model)
            mass = shared_mass(matrix, first[trial], second[trial], weights=weights[m])
            mass *= share[first[trial], m] * share[second[trial], m]
            answer[trial] = np.clip(mass / scale, 0.0, 1.0)
            hard[trial] = mass >= threshold

        return Verdicts(
            plan=plan,
            answer=answer,
            hard=hard,
            missing=np.zeros(len(plan), dtype=np.int8),
            judge=self.describe(),
            warnings=(
                Finding("lexical", _BASELINE),
                *_without_prompts(pool),
                *_copying_warnings(pool, texts, rows=(agent_of, item_of)),
            ),
        )

    def describe(self) -> dict[str, Json]:
        """Everything that an answer depends on besides the texts."""
        return {
            "name": self.name,
            "version": VERSION,
            "similarity": "sum of idf over shared words, idf over items, each text capped at two medians of its item",
            "words": "NFKC, casefolded; pairs of characters in scripts without spaces",
            "folds": N_FOLDS,
            "seed": self.seed,
            "scale_quantile": SCALE_QUANTILE,
            "fitting_pairs": FITTING_PAIRS,
        }


def _rows_asked(plan: Plan, *, other_item: Ids, rows: tuple[Index, Index]) -> tuple[Index, Index]:
    pool = plan.pool
    row = np.full(pool.every.shape, -1)
    row[rows] = np.arange(len(rows[0]))
    one, two = plan.text_rows
    first, second = row[one, plan.item], row[two, other_item]
    missing = np.flatnonzero((first < 0) | (second < 0))
    if missing.size:
        trial = missing[0]
        agent, item = (plan.first, plan.item) if first[trial] < 0 else (plan.second, other_item)
        raise PlanError(
            f"The plan asks for texts that pool '{pool.name}' does not have, in {missing.size} of {len(plan)} trials: first in "
            f"trial {trial}, agent '{plan.agent_ids[agent[trial]]}' on item '{plan.item_ids[item[trial]]}'. "
            "Make the plan from this pool.",
            slug="plan-missing-text",
        )
    return first, second


def _folds(items: Index, rng: np.random.Generator, *, n_items: int) -> Index:
    """int[J]: the fold of each of `items`, −1 for an item without responses."""
    if len(items) < MIN_ITEMS:
        raise JudgeError(
            f"The lexical judge needs at least {MIN_ITEMS} items with responses, to fit on others than it judges; there are "
            f"{len(items)}. Add items, or use another judge.",
            slug="lexical-few-items",
        )
    fold = np.full(n_items, -1)
    fold[items] = rng.permutation(len(items)) % N_FOLDS
    return fold


def sample_pairs(
    item_of: Index, rng: np.random.Generator, *, paired: bool, limit: int = FITTING_PAIRS
) -> tuple[Index, Index]:
    """At most `limit` distinct ordered pairs of texts, uniformly: of the same item (paired) or of two items (independent).

    item_of: int[R], the item of each text, ascending. Returns the rows of the first and of the second texts.
    """
    size = np.bincount(item_of)
    start = (np.cumsum(size) - size)[item_of]
    size = size[item_of]
    n_partners = size - 1 if paired else len(item_of) - size
    end = np.cumsum(n_partners)
    index = rng.choice(end[-1], size=min(int(end[-1]), limit), replace=False, shuffle=False)
    first = np.searchsorted(end, index, side="right")
    partner = index - (end - n_partners)[first]
    skipped = (partner + start[first] >= first) if paired else (partner >= start[first]) * size[first]
    return first, partner + skipped + (start[first] if paired else 0)


def _fit_cut(paired: Floats, independent: Floats) -> tuple[float, float]:
    """Return (scale, threshold), in nats of idf.

    Scale: the 95th percentile of paired similarities. Threshold: the lowest that maximises TPR − FPR of 'similarity ≥ it'.

    Raises: JudgeError [lexical-nothing-shared] if a trial type has no pairs or the scale is 0.
    """
    scale = float(np.quantile(paired, SCALE_QUANTILE)) if paired.size and independent.size else 0.0
    if scale == 0.0:
        raise JudgeError(
            f"The lexical judge cannot set its scale: among the items to fit on, {paired.size} pairs of responses to the same "
            f"item were drawn and {np.count_nonzero(paired)} of them share a word that not all items have. "
            "Give it items that two agents or more answered, in words; for other texts use another judge.",
            slug="lexical-nothing-shared",
        )
    candidates = np.unique(paired)
    tpr = 1 - np.searchsorted(np.sort(paired), candidates) / paired.size
    fpr = 1 - np.searchsorted(np.sort(independent), candidates) / independent.size
    return scale, float(candidates[np.argmax(tpr - fpr)])


def _kept_shares(mass: Floats, item_of: Index) -> Floats:
    """float[R, M] in (0, 1]: min(1, 2 medians / mass) of each text under each model, the median over the item's texts.

    mass: float[R, M] ≥ 0; item_of: int[R], ascending.
    """
    shares = np.ones(mass.shape)
    for own in np.split(np.arange(len(item_of)), np.flatnonzero(np.diff(item_of)) + 1):
        most = MOST_MEDIANS * np.median(mass[own], axis=0)
        np.divide(most, mass[own], out=shares[own[0] : own[-1] + 1], where=(mass[own] > most) & (most > 0))
    return shares


def _without_prompts(pool: Pool) -> list[Finding]:
    if any(item.prompt is not None for item in pool.items):
        return []
    return [
        Finding(
            "no-prompts",
            "The pool has no prompts, so nobody could look whether agents copy their sources, which this judge rewards.",
        )
    ]


def _copying_warnings(pool: Pool, texts: Segmented, *, rows: tuple[Index, Index]) -> list[Finding]:
    """texts: the responses, item by item as `rows` (agents, items) has them, then the prompts."""
    agent_of, item_of = rows
    shares = np.full(pool.every.shape, np.nan)
    ends = np.searchsorted(item_of, np.arange(pool.n_items + 1))
    for j, item in enumerate(pool.items):
        if item.prompt is not None:
            here = range(ends[j], ends[j + 1])
            shares[agent_of[here], j] = copied_shares((texts[r] for r in here), texts[len(item_of) + j])
    return [
        Finding(
            "copying",
            f"Agent '{pool.agents[copying.agent].id}' copies its prompts: in its median response {copying.share:.0%} of the "
            f"{N_GRAM}-word runs stand in the item's prompt (named from {COPYING_SHARE:.0%}). Copied text shares words with "
            "everybody who keeps to the prompt, so this judge ranks the agent higher than its responses deserve.",
            agents=(pool.agents[copying.agent].id,),
            facts={"share": copying.share},
        )
        for copying in copying_agents(np.hstack(np.split(shares, pool.repeats)))
    ]
