"""Agents whose answers are other agents' answers: copied from one or many of them, reworded, or strung together.

Runs of five words that stand in the item's prompt are nobody's and do not count. Where answers coincide by nature, as in
translation, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from youden.nouns.arrays import Bools, Floats
from youden.pools.look.findings import Finding, listed
from youden.pools.look.looked_at import LookedAt

RUN = 5
BORROWED = 0.6
"""Share of its runs of five words that stand in other agents' answers to the item, in an agent's median answer.

Honest agents: at most .33 on SAMSum, .27 on AlpacaEval, .11 on MT-Bench. Copies, mosaics and concatenations: .8 to 1.
"""

ALIKE = 0.6
"""Share of all their words (Jaccard) that an agent's median answer has in common with the nearest answer of another agent.

Honest agents: at most .51. Answers of others with three in ten words replaced by synonyms: .7 to .8.
"""

NATURAL = 0.4
"""Where the median agent's answer reaches this share without the one in question, answers coincide by nature: nobody is named."""

HOLDS = 0.8
PART = 0.7
STRUNG = 1.5
"""How many others' answers an agent's answer holds in the mean: .8 of their runs, which are at most .7 of its own.

Honest agents: at most .41. Concatenations of two and three: 2 and 3.
"""

LEAST_RUNS = 5
LEAST_WORDS = 8
LEAST_AGENTS = 4


@dataclass(frozen=True, eq=False)
class _Answers:
    """holds: int8[R, U], whether a text holds a run (of its item, not in its prompt); n: int[R], how many it holds."""

    looked: LookedAt
    holds: csr_array[np.int8]
    n: Floats

    @classmethod
    def of(cls, looked: LookedAt) -> _Answers:
        run, text_of = looked.runs(RUN)
        n_texts = len(looked)
        item = np.concatenate([looked.item_of, np.arange(len(looked.items))])[text_of]
        _, own = np.unique(run ^ (item.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)), return_inverse=True)
        asked = np.zeros(int(own.max(initial=-1)) + 1, dtype=np.bool_)
        asked[own[text_of >= n_texts]] = True
        kept = (text_of < n_texts) & ~asked[own]
        ones = np.ones(int(kept.sum()), dtype=np.int8)
        holds = csr_array((ones, (text_of[kept], own[kept])), shape=(n_texts, len(asked)))
        holds.sum_duplicates()
        holds.data[:] = 1
        return cls(looked, holds, np.diff(holds.indptr).astype(np.float64))

    def borrowed(self, counted: Bools) -> Floats:
        """float[R]: the share of a text's runs that stand in a text of another agent that counts; NaN for a text of few runs."""
        theirs = np.asarray(self.holds[counted[self.looked.agent_of]].sum(axis=0), dtype=np.float64)
        own = counted[self.looked.agent_of].astype(np.float64)
        elsewhere = np.bincount(
            np.repeat(np.arange(len(own)), np.diff(self.holds.indptr)),
            weights=theirs[self.holds.indices] > np.repeat(own, np.diff(self.holds.indptr)),
            minlength=len(own),
        )
        shares = np.full(len(own), np.nan)
        np.divide(elsewhere, self.n, out=shares, where=self.n >= LEAST_RUNS)
        return shares

    def nearest(self, counted: Bools) -> Floats:
        """float[R]: the largest share of words in common with another agent's text that counts; NaN for a text of few words."""
        looked = self.looked
        best = np.full(len(looked), np.nan)
        for rows, alike in looked.alike():
            theirs = counted[looked.agent_of[rows]] & (looked.n_words[rows] >= LEAST_WORDS)
            if theirs.any():
                np.fill_diagonal(alike, 0.0)
                best[rows] = alike[:, theirs].max(axis=1)
        best[looked.n_words[: len(looked)] < LEAST_WORDS] = np.nan
        return best

    def held(self) -> Floats:
        """float[K]: how many other agents' whole answers an agent's answer holds, in the mean."""
        looked = self.looked
        n_held = np.zeros(len(looked))
        for low, high in looked.spans:
            holds = self.holds[low:high].astype(np.float32)
            shared, n = (holds @ holds.T).toarray(), self.n[low:high]
            part = (n >= LEAST_RUNS) & (n <= PART * n[:, None])
            n_held[low:high] = (part & (shared >= HOLDS * n)).sum(axis=1)
        K = looked.pool.n_agents
        total = np.bincount(looked.agent_of, weights=n_held, minlength=K)
        return np.asarray(total / np.maximum(1, np.bincount(looked.agent_of, minlength=K)))


def find_borrowing(
    looked: LookedAt, *, cloned: frozenset[str] = frozenset(), known: frozenset[str] = frozenset()
) -> list[Finding]:
    """At most two findings: agents that string others' answers together, and agents whose answers are others'.

    The agent that borrows most is named first and counts no more, so that those it borrows from are not named with it.
    cloned: agents that are named as clones already. known: agents that are named for something else, who count for nobody:
    many of them are another agent's answers and a trick.
    """
    agents = looked.pool.agents
    if len(agents) < LEAST_AGENTS:
        return []
    answers = _Answers.of(looked)
    counted = np.array([agent.id not in known for agent in agents])
    is_clone = np.array([agent.id in cloned for agent in agents])
    held = answers.held()
    strung = np.flatnonzero((held >= STRUNG) & ~is_clone)
    counted[strung] = False
    named = is_clone | ~counted
    findings = [_strung(tuple(agents[k].id for k in strung), float(held[strung].max()))] if len(strung) else []
    shares: dict[int, float] = {}
    runs, words = (looked.agent_medians(each) for each in (answers.borrowed(counted), answers.nearest(counted)))
    while True:
        share = np.fmax(np.where(runs >= BORROWED, runs, 0.0), np.where(words >= ALIKE, words, 0.0))
        share[named] = 0.0
        most = int(np.argmax(share))
        if share[most] == 0:
            break
        counted[most], named[most] = False, True
        by_runs = runs[most] >= BORROWED
        runs, words = (looked.agent_medians(each) for each in (answers.borrowed(counted), answers.nearest(counted)))
        others = (runs if by_runs else words)[counted & ~is_clone]
        if not np.isnan(others).all() and np.nanmedian(others) >= NATURAL:
            break
        shares[most] = float(share[most])
    if shares:
        findings.append(_borrowed(tuple(agents[k].id for k in sorted(shares)), min(shares.values())))
    return findings


def _strung(ids: tuple[str, ...], held: float) -> Finding:
    return Finding(
        "concatenation",
        f"{listed(ids, most=20)} string other agents' answers together: an answer holds up to {held:.1f} others' whole ones.",
        "Such an answer agrees with everybody whom it holds, so it rises to the top though it says nothing of its own.",
        "Leave it out, unless an ensemble of the others is what you want to rank.",
        agents=ids,
        measure=held,
    )


def _borrowed(ids: tuple[str, ...], share: float) -> Finding:
    return Finding(
        "borrowed-answers",
        f"{listed(ids, most=20)} answer with other agents' answers: {share:.0%} or more of the median answer, in runs of five "
        "words or in words, stands in other answers to the item.",
        "Whoever repeats what others say agrees with them by construction, and ranks above what it can do by itself.",
        "See where the answers come from; leave out what is a copy.",
        agents=ids,
        measure=share,
    )
