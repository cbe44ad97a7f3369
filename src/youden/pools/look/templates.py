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

LEAST_ITEMS = 8
LEAST_AGENTS = 4


def find_templates(looked: LookedAt) -> list[Finding]:
    """One finding for each agent with a fixed form, or with words that hardly depend on the item."""
    if len(looked.items) < LEAST_ITEMS:
        return []
    fixed = looked.agent_medians(recurring(looked))
    specific = looked.agent_medians(specificity(looked))
    usual = np.nanmedian(specific) if (~np.isnan(specific)).sum() >= LEAST_AGENTS else np.nan
    findings = []
    for k, agent in enumerate(looked.pool.agents):
        if fixed[k] >= FIXED:
            what = (
                f"Agent '{agent.id}' repeats itself: in its median response {fixed[k]:.0%} of the three-word runs stand in a "
                "tenth or more of its other responses."
            )
            measure = float(fixed[k])
        elif usual > 0 and specific[k] < GENERIC * usual:
            what = (
                f"Agent '{agent.id}' says little of its items: its words have {specific[k] / usual:.0%} as much to do with the "
                "item as the median agent's."
            )
            measure = float(specific[k] / usual)
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


def recurring(looked: LookedAt) -> Floats:
    """float[R]: the share of a text's runs of three words that stand in a tenth or more of its agent's texts; NaN for none."""
    runs, text_of = _runs(looked)
    agent = looked.agent_of[text_of]
    n_texts = np.bincount(looked.agent_of, minlength=looked.pool.n_agents)
    _, run = np.unique(np.stack([agent.astype(np.uint64), runs]), axis=1, return_inverse=True)
    pair = np.unique(np.stack([run.astype(np.int64), text_of]), axis=1)
    n_holding = np.bincount(pair[0], minlength=int(run.max(initial=-1)) + 1)
    comes_back = n_holding[run] >= np.maximum(2, RECURS * n_texts[agent])
    total = np.bincount(text_of, minlength=len(looked)).astype(np.float64)
    hits = np.bincount(text_of, weights=comes_back.astype(np.float64), minlength=len(looked)).astype(np.float64)
    return _shares(hits, total)


def _runs(
    looked: LookedAt,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Each run of three words as one number, and the text it stands in."""
    start = looked.texts.start[: len(looked) + 1]
    ids = looked.texts.ids[: start[-1]].astype(np.uint64)
    text_of = np.repeat(np.arange(len(looked)), np.diff(start))
    whole = text_of[RUN - 1 :] == text_of[: len(text_of) - RUN + 1]
    base = np.uint64(looked.texts.n_words + 1)
    runs = ids[: len(ids) - RUN + 1].copy()
    for k in range(1, RUN):
        runs = runs * base + ids[k : len(ids) - RUN + 1 + k]
    return runs[whole], text_of[: len(text_of) - RUN + 1][whole]


def specificity(looked: LookedAt) -> Floats:
    """float[R]: the share of a text's words, weighted by idf, that are about its item, in [0, 1]; NaN where none has weight.

    With a prompt: Σ idf over the words that the prompt holds / Σ idf over all words of the text. Without one, each word counts
    as far as the item's other responses hold it.
    """
    weights = csr_array(looked.holds.multiply(looked.idf))
    mass = np.asarray(weights.sum(axis=1), dtype=np.float64)
    has_prompt = np.array([bool(looked.pool.items[j].prompt) for j in looked.items])
    if has_prompt.all():
        shared = np.asarray(weights.multiply(looked.prompt_holds[looked.item_of]).sum(axis=1), dtype=np.float64)
    else:
        shared = np.zeros(len(looked))
        for m in range(len(looked.items)):
            low, high = looked.bounds[m], looked.bounds[m + 1]
            others = np.asarray(looked.holds[low:high].sum(axis=0), dtype=np.float64)
            own = weights[low:high]
            shared[low:high] = (own @ others - np.asarray(own.sum(axis=1))) / max(1, high - low - 1)
    return _shares(shared, mass)


def _shares(part: Floats, whole: Floats) -> Floats:
    shares = np.full(len(whole), np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares
