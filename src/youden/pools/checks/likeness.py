"""Agents that are too alike: clones, duplicates, rings, families, templates.

Two responses on an item are compared as sets of words. A ring shares words that nobody else uses and no prompt holds, other ones
on each item. A family is what `meta.family` says; naming one accuses nobody. A template repeats runs of words, or says little of
its items; one in ever new words passes where nothing is known of the sources.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform

from youden.pools.checks.checked import SampledTexts, listed
from youden.types import Finding, Pool
from youden.types.pool import Floats

NEAR = 0.65
"""Share of all their words that two responses have in common (Jaccard), from which they count as the same.

Honest agents who know the same source stay under it: at most .46 in the median of any pair on SAMSum, .37 on AlpacaEval.
"""

BEYOND = 0.5
"""How much of the way from the usual pair's share on the item to 1 they have to go besides: translations of one sentence share
most of their words, honestly."""

MOSTLY = 0.5
"""Share of common items with the same response, from which two agents count as clones."""

OFTEN = 0.05
"""Share of an agent's responses that are word for word another's, from which it is named."""

LEAST_COPIED = 8
"""Pieces between white space from which a response that is another's counts: shorter ones coincide."""

LEAST_WORDS = 3
LEAST_COMMON = 3


def clones_of(pool: Pool) -> tuple[tuple[str, ...], ...]:
    """Ids of agents whose texts show them to be one, a cluster each, from some 3,000 responses (20 items at least)."""
    return tuple(finding.agents for finding in find_clones(SampledTexts.of(pool, most=3_000)))


def find_clones(looked: SampledTexts) -> Iterator[Finding]:
    """One finding for each cluster of agents of whom any two give the same responses on half of their common items or more."""
    K = looked.pool.n_agents
    same = np.zeros((K, K), dtype=np.int32)
    common = np.zeros((K, K), dtype=np.int32)
    for rows, all_alike in looked.alike():
        long_enough = looked.n_words[rows] >= LEAST_WORDS
        agents, alike = looked.agent_of[rows[long_enough]], all_alike[np.ix_(long_enough, long_enough)]
        usual = float(np.median(alike[~np.eye(len(alike), dtype=np.bool_)])) if len(alike) > 1 else 0.0
        common[np.ix_(agents, agents)] += 1
        same[np.ix_(agents, agents)] += alike >= max(NEAR, usual + BEYOND * (1 - usual))
    np.fill_diagonal(same, 0)
    linked = (same >= MOSTLY * common) & (common >= min(LEAST_COMMON, len(looked.items))) & (same > 0)
    if not linked.any():
        return
    # Complete linkage: all pairs of a cluster are linked, so that a chain of likenesses is no cluster.
    label = fcluster(linkage(squareform(~linked, checks=False).astype(np.float64), "complete"), 0.5, "distance") - 1
    sizes = np.bincount(label)
    for cluster in np.flatnonzero(sizes > 1):
        members = np.flatnonzero(label == cluster)
        share = float(same[np.ix_(members, members)].sum() / max(1, common[np.ix_(members, members)].sum()))
        share *= len(members) / (len(members) - 1)
        ids = tuple(looked.pool.agents[k].id for k in members)
        yield Finding(
            "clones",
            f"{len(ids)} agents give the same responses, up to a third of the words, on {min(share, 1):.0%} of their items: "
            f"{listed(ids)}.",
            "Clones inflate each other's mutual information: each is paired with the others as a perfect partner, so all of "
            "them rise by about their share of the partners, whatever they say.",
            "Keep one of them, unless the clone is what you want to study.",
            agents=ids,
            facts={"share": min(share, 1.0)},
        )


def find_duplicates(pool: Pool, *, named: frozenset[str]) -> Iterator[Finding]:
    """Agents with responses of some length that are another's word for word on the same item, where that is not usual.

    named: agents that are named for something already, who count no more.
    """
    copies: Counter[int] = Counter()
    kept = [k for k, agent in enumerate(pool.agents) if agent.id not in named]
    for column in pool.texts.T:
        first: dict[str, int] = {}
        shared: set[int] = set()
        for k in kept:
            text = column[k]
            if text is not None and len(text.split()) >= LEAST_COPIED and first.setdefault(text, k) != k:
                shared |= {k, first[text]}
        copies.update(shared)
    n_own = pool.present.sum(axis=1)
    copying = [k for k in sorted(copies) if copies[k] >= max(2, OFTEN * n_own[k])]
    if not copying or 2 * len(copying) > len(kept):
        return
    ids = tuple(pool.agents[k].id for k in copying)
    worst = max(copies[k] / n_own[k] for k in copying)
    yield Finding(
        "duplicates",
        f"Responses of {listed(ids)} are another agent's word for word, at worst {worst:.0%} of an agent's.",
        "On these items the agents are each other's perfect partner, which lifts both.",
        "See whether a file was imported twice, or whether short answers coincide; then drop the copies.",
        agents=ids,
        facts={"share": float(worst)},
    )


RING = 0.5
"""Share of the items on which the same three or more agents, and nobody else, have a word that stands on this item only.

No set of honest agents of SAMSum, AlpacaEval or MT-Bench reaches it. A ring with a made-up word an item: 1.
"""

LEAST_RING = 3
LEAST_ITEMS = 8

LARGE = 0.4
"""Share of the agents from which a family counts as large."""

CLOSER = 1.25
"""How many times as many words pairs within a family share as pairs with others, from which the family is named."""


def find_rings(looked: SampledTexts, *, cloned: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """One finding for each set of three or more agents that share private words on half of the items or more.

    cloned: agents that are named as clones already; a set of which they are half shares all its words, not a token.
    """
    if len(looked.items) < LEAST_ITEMS:
        return
    times: Counter[tuple[int, ...]] = Counter()
    once = looked.idf >= np.log(len(looked.items)) - 1e-9
    for m, (low, high) in enumerate(looked.spans):
        holds = looked.holds[low:high].tocsc()
        n = np.diff(holds.indptr)
        private = once & (n >= LEAST_RING) & (2 * n <= max(2 * LEAST_RING, looked.pool.n_agents))
        private[looked.prompt_holds[[m]].indices] = False
        agents = looked.agent_of[low:high]
        times.update(
            {
                tuple(sorted(agents[holds.indices[holds.indptr[w] : holds.indptr[w + 1]]].tolist()))
                for w in np.flatnonzero(private)
            }
        )
    for ring, n_times in times.most_common():
        share = n_times / len(looked.items)
        if share < RING:
            break
        ids = tuple(looked.pool.agents[k].id for k in ring)
        if 2 * len(cloned.intersection(ids)) >= len(ids):
            continue
        yield Finding(
            "ring",
            f"{listed(ids, most=20)} share words that nobody else uses, on {share:.0%} of the items, other words on each.",
            "A token that only some agents know tells a judge which of their answers belong together, so they rise together "
            "whatever else they say.",
            "Read their answers to a few items; leave the ring out, or keep one of it.",
            agents=ids,
            facts={"share": share},
        )


def find_families(looked: SampledTexts) -> Iterator[Finding]:
    """One finding for each family (`meta.family`) that is a large part of the pool or whose agents share more words."""
    agents = looked.pool.agents
    family = [agent.meta.get("family") for agent in agents]
    named = sorted({name for name in family if isinstance(name, str)})
    if len(named) < 1:
        return
    alike = looked.mean_alike()
    for name in named:
        members = np.array([one == name for one in family])
        n = int(members.sum())
        if n < 2:
            continue
        within = alike[np.ix_(members, members)][~np.eye(n, dtype=np.bool_)]
        across = alike[np.ix_(members, ~members)]
        if np.isnan(within).all() or np.isnan(across).all():
            closer = 1.0
        else:
            closer = float(np.nanmean(within) / max(1e-9, np.nanmean(across)))
        share = n / len(agents)
        if closer < CLOSER and (n < 3 or share < LARGE):
            continue
        ids = tuple(agents[k].id for k in np.flatnonzero(members))
        yield Finding(
            "family",
            f"{n} of {len(agents)} agents are of the family '{name}': {listed(ids)}. Two of them share {closer:.2f} times as "
            "many words as one of them and another agent.",
            "Agents of one family agree for reasons that need not be right, and each is a partner of the others: a large or "
            "close family can lift all its agents.",
            "Read their places with care; see whether they hold when only agents of other families are their partners.",
            agents=ids,
            facts={"share": share},
        )


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

LEAST_ITEMS_OF_TEMPLATES = 8
LEAST_AGENTS = 4


def find_templates(looked: SampledTexts) -> Iterator[Finding]:
    """One finding for each agent with a fixed form, or with words that hardly depend on the item."""
    if len(looked.items) < LEAST_ITEMS_OF_TEMPLATES:
        return
    fixed = looked.agent_medians(recurring(looked))
    specific = _specific(looked)
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
        yield Finding(
            "template",
            what,
            "Its independent pairs look paired or its paired ones independent, so its score falls to near 0 and it ranks "
            "low. That is right if it says nothing of the item, and wrong if the import cut its responses.",
            "Read a few of its responses; if they are whole, leave it in as a low-effort agent.",
            agents=(agent.id,),
            facts={"share": measure},
        )


def _specific(looked: SampledTexts) -> Floats:
    """float[K]: an agent's specificity as a share of the median agent's, by prompts where all items have one; NaN where unknown.

    1 for an agent that says as much of what the others say of the item as most do, in whatever words the prompt has it.
    """
    by_others = _of_usual(looked, by_prompt=False)
    if not all(looked.pool.items[j].prompt for j in looked.items):
        return by_others
    return np.where(by_others >= LIKE_OTHERS, 1.0, _of_usual(looked, by_prompt=True))


def _of_usual(looked: SampledTexts, *, by_prompt: bool) -> Floats:
    specific = looked.agent_medians(specificity(looked, by_prompt=by_prompt))
    known = specific[~np.isnan(specific)]
    if len(known) < LEAST_AGENTS or np.median(known) == 0:
        return np.full(len(specific), np.nan)
    return np.asarray(specific / np.median(known))


def recurring(looked: SampledTexts) -> Floats:
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


def specificity(looked: SampledTexts, *, by_prompt: bool) -> Floats:
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
