"""Agents whose responses hardly depend on the item.

There are two signs: runs of words that come back in response after response, and words that have little to do with the item.
A template in ever new words passes where nothing is known of the sources.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from youden.nouns.arrays import Floats
from youden.pools.look.findings import Finding
from youden.pools.look.looked_at import LookedAt

RUN = 3
RECURS = 0.1
"""A run of three words recurs if it stands in this share of an agent's responses, or in more."""

FIXED = 0.3
"""An agent is a template if this share of the runs in its median response recur, or more."""

GENERIC = 0.3
"""An agent's words have little to do with the item if its specificity is below this share of the median agent's."""

LIKE_OTHERS = 0.75
"""From this share of the median agent's overlap with other responses, an agent is no template, as a human reference that keeps
its distance from the prompt's words. The templates of SAMSum reach .33 to .69."""

LEAST_ITEMS = 8
LEAST_AGENTS = 4


def find_templates(looked: LookedAt) -> list[Finding]:
    """One finding for each agent with a fixed form, or with words that hardly depend on the item."""
    if len(looked.items) < LEAST_ITEMS:
        return []
    fixed = looked.agent_medians(recurring(looked))
    specific = _specific(looked)
    findings = []
    for k, agent in enumerate(looked.pool.agents):
        if fixed[k] >= FIXED:
            what = (
                f"Agent '{agent.id}' repeats itself: in its median response {fixed[k]:.0%} of the three-word runs stand in a "
                "tenth or more of its other responses."
            )
            measure = float(fixed[k])
        elif specific[k] < GENERIC:
            what = (
                f"Agent '{agent.id}' says little of its items: its words have {specific[k]:.0%} as much to do with the "
                "item as the median agent's."
            )
            measure = float(specific[k])
        else:
            continue
        findings.append(
            Finding(
                "template",
                what,
                "Its independent pairs look paired or its paired ones independent, so its score falls to near 0 and it ranks "
                "low. That is right if it says nothing of the item, and wrong if the import cut its responses.",
                "Read a few of its responses; if they are whole, leave it in as a low-effort agent.",
                agents=(agent.id,),
                measure=measure,
            )
        )
    return findings


def _specific(looked: LookedAt) -> Floats:
    """float[K]: an agent's specificity as a share of the median agent's, by prompts where all items have one; NaN where unknown.

    1 for an agent that says as much of what the others say of the item as most do, in whatever words the prompt has it.
    """
    by_others = _of_usual(looked, by_prompt=False)
    if not all(looked.pool.items[j].prompt for j in looked.items):
        return by_others
    return np.where(by_others >= LIKE_OTHERS, 1.0, _of_usual(looked, by_prompt=True))


def _of_usual(looked: LookedAt, *, by_prompt: bool) -> Floats:
    specific = looked.agent_medians(specificity(looked, by_prompt=by_prompt))
    known = specific[~np.isnan(specific)]
    if len(known) < LEAST_AGENTS or np.median(known) == 0:
        return np.full(len(specific), np.nan)
    return np.asarray(specific / np.median(known))


def recurring(looked: LookedAt) -> Floats:
    """float[R]: the share of a text's runs of three words that stand in a tenth or more of its agent's texts; NaN for none."""
    runs, text_of = looked.runs(RUN)
    runs, text_of = runs[text_of < len(looked)], text_of[text_of < len(looked)]
    agent = looked.agent_of[text_of]
    n_texts = np.bincount(looked.agent_of, minlength=looked.pool.n_agents)
    _, run = np.unique(np.stack([agent.astype(np.uint64), runs]), axis=1, return_inverse=True)
    pair = np.unique(np.stack([run.astype(np.int64), text_of]), axis=1)
    n_holding = np.bincount(pair[0], minlength=int(run.max(initial=-1)) + 1)
    comes_back = n_holding[run] >= np.maximum(2, RECURS * n_texts[agent])
    total = np.bincount(text_of, minlength=len(looked)).astype(np.float64)
    hits = np.bincount(text_of, weights=comes_back.astype(np.float64), minlength=len(looked)).astype(np.float64)
    return _shares(hits, total)


def specificity(looked: LookedAt, *, by_prompt: bool) -> Floats:
    """float[R]: the share of a text's words, weighted by idf, that are about its item, in [0, 1]; NaN where none has weight.

    by_prompt: Σ idf over the words that the prompt holds / Σ idf over all words of the text. Else each word counts as far as
    the item's other responses hold it.
    """
    weights = csr_array(looked.holds.multiply(looked.idf))
    mass = np.asarray(weights.sum(axis=1), dtype=np.float64)
    if by_prompt:
        shared = np.asarray(weights.multiply(looked.prompt_holds[looked.item_of]).sum(axis=1), dtype=np.float64)
        return _shares(shared, mass)
    shared = np.zeros(len(looked))
    for low, high in looked.spans:
        others = np.asarray(looked.holds[low:high].sum(axis=0), dtype=np.float64)
        own = weights[low:high]
        shared[low:high] = (own @ others - np.asarray(own.sum(axis=1))) / max(1, high - low - 1)
    return _shares(shared, mass)


def _shares(part: Floats, whole: Floats) -> Floats:
    shares = np.full(len(whole), np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares
