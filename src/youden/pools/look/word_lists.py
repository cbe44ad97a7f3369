"""Agents that answer in lists of words: keywords without sentences, or the prompt's rare words one after the other.

Function words are those that come back in an agent's own answers, whatever its language. Where scripts or tasks leave few of
them to the usual agent, nothing is said of keywords.
"""

from __future__ import annotations

import numpy as np

from youden.nouns.arrays import Floats
from youden.pools.look.findings import Finding, listed
from youden.pools.look.looked_at import LookedAt

COMES_BACK = 0.2
"""A word is a function word of an agent if it stands in this share of its answers, or in more."""

FEW = 0.15
"""An agent lists keywords if the share of function words in its median answer is under this part of the usual agent's.

No honest agent of SAMSum, AlpacaEval, MT-Bench or field-notes (telegram style among them) is under it.
"""

USUAL = 0.1
"""Where the usual agent's share of function words is lower than this, nobody is named."""

RARE = 0.1
"""A word is rare if it stands in the prompts, and in the answers, of less than this share of the items."""

LISTED = 0.5
"""Share of the prompt's rare words (25 of them at most) that an agent's median answer says in one go, with none between.

Honest agents: at most .25. A weak answer and 25 rare words of the prompt: .9 to 1.
"""

MOST_RARE = 25
LEAST_RARE = 4
LEAST_WORDS = 10
LEAST_ITEMS = 8
LEAST_AGENTS = 4


def find_word_lists(looked: LookedAt) -> list[Finding]:
    """One finding for all agents that list keywords, and one for all that list their prompts' words."""
    pool = looked.pool
    if len(looked.items) < LEAST_ITEMS or pool.n_agents < LEAST_AGENTS:
        return []
    findings = []
    functional = looked.agent_medians(function_words(looked))
    known = functional[~np.isnan(functional)]
    usual = float(np.median(known)) if known.size else 0.0
    keywords = np.flatnonzero(functional < FEW * usual)
    if usual >= USUAL and len(keywords):
        ids = tuple(pool.agents[k].id for k in keywords)
        share = float(functional[keywords].max())
        findings.append(
            Finding(
                "keywords",
                f"{listed(ids, most=20)} list keywords: {share:.0%} of the words in the median answer are ones that hold "
                f"sentences together, of the usual agent's {usual:.0%}.",
                "A list of the words that an item calls for agrees with every answer that uses them, and says nothing.",
                "Read a few of the answers; leave the agent out if it was asked for sentences.",
                agents=ids,
                measure=share,
            )
        )
    listing = looked.agent_medians(prompt_words(looked))
    named = np.flatnonzero(listing >= LISTED)
    if len(named):
        ids = tuple(pool.agents[k].id for k in named)
        share = float(listing[named].min())
        findings.append(
            Finding(
                "prompt-words",
                f"{listed(ids, most=20)} list words of the prompt: the median answer says {share:.0%} or more of its rare words "
                "one after the other.",
                "Rare words of the prompt stand in every answer that keeps to it, so such a list agrees with all of them.",
                "Read a few of the answers; leave the agent out if the list was added to be found alike.",
                agents=ids,
                measure=share,
            )
        )
    return findings


def function_words(looked: LookedAt) -> Floats:
    """float[R]: the share of a text's words that stand in a fifth or more of its agent's texts; NaN for a text of few words, and
    for all of an agent whose texts mostly are."""
    shares = np.full(len(looked), np.nan)
    for k in range(looked.pool.n_agents):
        own = np.flatnonzero(looked.agent_of == k)
        if len(own) < LEAST_ITEMS or np.median(looked.n_words[own]) < LEAST_WORDS:
            continue
        back = np.asarray(looked.holds[own].sum(axis=0)) >= COMES_BACK * len(own)
        for r in own:
            if looked.n_words[r] >= LEAST_WORDS:
                shares[r] = back[looked.texts.ids[looked.texts.start[r] : looked.texts.start[r + 1]]].mean()
    return shares


def prompt_words(looked: LookedAt) -> Floats:
    """float[R]: the longest stretch of a text that is rare words of its prompt only, as a share of them (of 25 at most).

    NaN where the prompt has fewer than four rare words, or there is none.
    """
    n_items = len(looked.items)
    in_prompts: Floats = np.asarray(looked.prompt_holds.sum(axis=0), dtype=np.float64)
    rare = (in_prompts < RARE * n_items) & (np.exp(-looked.idf) < RARE)
    shares = np.full(len(looked), np.nan)
    for m, (low, high) in enumerate(looked.spans):
        asked = looked.prompt_holds[[m]].indices
        asked = asked[rare[asked]]
        if len(asked) < LEAST_RARE:
            continue
        start = looked.texts.start[low : high + 1]
        inside = np.isin(looked.texts.ids[start[0] : start[-1]], asked)
        for r in range(low, high):
            own = inside[start[r - low] - start[0] : start[r - low + 1] - start[0]]
            breaks = np.flatnonzero(np.concatenate([[True], ~own, [True]]))
            shares[r] = (np.diff(breaks).max() - 1) / min(MOST_RARE, len(asked))
    return shares
