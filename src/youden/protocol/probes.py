"""Places some independent calls, the probes, where texts on different items look unusually alike: templates, clones.

Which texts are alike is told by shared words, which cost nothing. Probes count for nothing in the pooled rate, which stays
unbiased; only the false-positive alarm reads them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from youden.nouns import INDEPENDENT, MISSING_REASONS, Plan, Pool, Trials, Verdicts
from youden.nouns.arrays import Bools, Floats
from youden.protocol.independent import pooled
from youden.text.words import segment

SCREENED = 10
"""Comparisons screened for every independent call."""
MOST = 0.25
"""Largest share of the independent calls that may be probes."""
_FAR = 6 * 1.4826
_LEAST = 0.5


def draw_probes(pool: Pool, eligible: Bools, n: int, rng: np.random.Generator) -> Trials:
    """Up to n/4 of 10·n evenly drawn comparisons whose texts share unusually many words, most alike first.

    Unusual: shared idf mass over the smaller text's above ½ and 6 robust SDs (from the MAD) above the median of those screened.
    """
    most = int(n * MOST)
    if most == 0 or not pool.lengths.any():
        return pooled(eligible, 0, rng)
    screened = pooled(eligible, SCREENED * n, rng)
    alike = _alike(pool, screened)
    middle = float(np.median(alike))
    far = middle + _FAR * float(np.median(np.abs(alike - middle)))
    order = np.argsort(-alike, kind="stable")
    return screened.take(order[alike[order] > max(far, _LEAST)][:most])


def probes_of(plan: Plan) -> Bools:
    """Which trials are probes: bool[N]; the first `n_probes` of the independent arm."""
    rows = np.zeros(len(plan), dtype=np.bool_)
    rows[np.flatnonzero(plan.arm == INDEPENDENT)[: plan.n_probes]] = True
    return rows


def without_probes(result: Verdicts) -> Verdicts:
    """The verdicts as if no probe had been asked."""
    rows = probes_of(result.plan)
    if not rows.any():
        return result
    return replace(
        result,
        answer=np.where(rows, np.nan, result.answer),
        hard=np.where(rows, np.nan, result.hard),
        missing=np.where(rows, MISSING_REASONS.index("not_asked"), result.missing).astype(np.int8),
    )


def _alike(pool: Pool, trials: Trials) -> Floats:
    """Shared idf mass over the smaller text's mass: float[M] in [0, 1], 0 where a text has no word."""
    from youden.text.similarity import idf, shared_mass, word_matrix

    one = pool.texts[trials.first, trials.item].tolist()
    texts = [*one, *pool.texts[trials.second, trials.other_item].tolist()]
    row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    matrix = word_matrix(segment(row_of))[[row_of[text] for text in texts]]
    weights = idf(np.asarray(matrix.sum(axis=0), dtype=np.float64), float(matrix.shape[0]))
    mass = np.asarray(matrix @ weights, dtype=np.float64)
    n = len(one)
    smaller = np.minimum(mass[:n], mass[n:])
    shared = shared_mass(matrix, np.arange(n), np.arange(n, 2 * n), weights=weights)
    return np.divide(shared, smaller, out=np.zeros(n), where=smaller > 0)
