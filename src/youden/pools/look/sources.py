"""Agents that hand back their source instead of a response.

Runs of words that stand in the prompt are counted, whether or not quoting was asked for.
"""

from __future__ import annotations

import numpy as np

from youden.nouns.arrays import Floats
from youden.pools.look.findings import Finding, listed
from youden.pools.look.looked_at import LookedAt
from youden.text.copying import COPYING_SHARE, N_GRAM, copied_shares

NEAR = 0.5
"""Share of all their words (Jaccard) that an agent's median response and its prompt have in common, from which it rewords it.

No honest agent of SAMSum, AlpacaEval, MT-Bench or field-notes reaches it; a source with three in ten words reworded does.
"""

NATURAL = 0.3
"""Where the median agent reaches this share, the task is to keep to the prompt's words, and nobody is named for that."""

LEAST_WORDS = 8


def find_copies(looked: LookedAt) -> list[Finding]:
    """One finding for agents whose median response is half or more taken from its item's prompt word for word; one for others
    whose median response shares half of all words with it."""
    shares = np.full(len(looked), np.nan)
    for m, j in enumerate(looked.items):
        if looked.pool.items[j].prompt:
            low, high = looked.bounds[m], looked.bounds[m + 1]
            shares[low:high] = copied_shares((looked.texts[r] for r in range(low, high)), looked.texts[len(looked) + m])
    medians = looked.agent_medians(shares)
    copying = np.flatnonzero(np.nan_to_num(medians) >= COPYING_SHARE)
    near = looked.agent_medians(_alike(looked))
    known = near[~np.isnan(near)]
    natural = not known.size or np.median(known) >= NATURAL
    rewording = np.flatnonzero(np.nan_to_num(near) >= NEAR) if not natural else np.array([], dtype=np.int64)
    rewording = np.setdiff1d(rewording, copying)
    said = f"in {{their}} median response {{share}} of the {N_GRAM}-word runs stand in the item's prompt"
    reworded = "{their} median response and its prompt have {share} of all their words in common"
    findings = []
    for found, shares_of, how in ((copying, medians, said), (rewording, near, reworded)):
        if len(found):
            ids = tuple(looked.pool.agents[k].id for k in found)
            least, alone = float(shares_of[found].min()), len(found) == 1
            share = f"{least:.0%}" if alone or least >= 1 else f"{least:.0%} or more"
            told = how.format(their="its" if alone else "their", share=share)
            findings.append(_finding(ids, told, float(shares_of[found].max())))
    return findings


def _alike(looked: LookedAt) -> Floats:
    """float[R]: the share of all words of a response and its prompt that both hold; NaN without a prompt or for short ones."""
    prompts = looked.prompt_holds[looked.item_of]
    both = np.asarray(looked.holds.multiply(prompts).sum(axis=1), dtype=np.float64)
    size, asked = (np.asarray(each.sum(axis=1), dtype=np.float64) for each in (looked.holds, prompts))
    alike = np.full(len(looked), np.nan)
    np.divide(both, size + asked - both, out=alike, where=(asked >= LEAST_WORDS) & (size >= LEAST_WORDS))
    return alike


def _finding(ids: tuple[str, ...], how: str, share: float) -> Finding:
    return Finding(
        "source-copying",
        f"{listed(ids, most=20)} {'copies its' if len(ids) == 1 else 'copy their'} source: {how}.",
        "Copied text shares words with everybody who keeps to the source, so a judge that compares words ranks such agents "
        "far too high, and a judge that reads ranks them too high as well: a source is what all responses have in common.",
        "Leave them out, or judge with a model and read their places with care.",
        agents=ids,
        measure=share,
    )
