"""Draws the independent arm, comparisons of texts on different items, whose yes is a false positive: twins of paired trials, and
probes.

Probes are placed where texts on different items look unusually alike: templates, clones. Which are is told by shared words, which
cost nothing. Probes count for nothing in the pooled rate, which stays unbiased; only the false-positive alarm reads them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.run_keys import INDEPENDENT
from youden.streams import stream
from youden.text.words import segment
from youden.types import Plan, Pool, Trials
from youden.types.planning import IndependentRule
from youden.types.pool import Bools, Floats, Positions
from youden.types.trials import PROBE, TWIN, count_earlier


def plan_rows(plan: Plan, rows: Bools | Positions) -> Plan:
    """Some trials of a plan as a plan. rows: bool[N], or positions in order."""
    trials = plan.trials.take(rows)
    return replace(plan, trials=trials, characters=characters(plan.pool, trials))


def same_trials(plan: Plan, other: Plan) -> Positions:
    """int64[N]: the row of `other` that asks what each row of `plan` asks (agents, items, arm, replicate, repeats); −1: none."""
    agent = {name: k for k, name in enumerate(plan.agent_ids)}
    item = {name: k for k, name in enumerate(plan.item_ids)}
    mine = _asked(plan, np.arange(plan.n_agents), np.arange(plan.n_items))
    theirs = _asked(
        other,
        np.array([agent.get(name, -1) for name in other.agent_ids], dtype=np.int64),
        np.array([item.get(name, -1) for name in other.item_ids], dtype=np.int64),
    )
    _, place = np.unique(np.concatenate([mine, theirs]), axis=0, return_inverse=True)
    found = np.full(int(place.max(initial=-1)) + 1, -1, dtype=np.int64)
    known = (theirs[:, :3] >= 0).all(axis=1)
    found[place[len(mine) :][known]] = np.flatnonzero(known)
    return np.asarray(found[place[: len(mine)]])


def _asked(plan: Plan, agent: Positions, item: Positions) -> Positions:
    other = np.where(plan.other_item >= 0, item[np.maximum(plan.other_item, 0)], -1)
    asked = plan.trials if plan.trials.first_repeat is not None else plan.trials.of_first_repeats()
    columns = [agent[plan.first], agent[plan.second], item[plan.item], other, plan.arm, plan.replicate]
    columns += [asked.columns()[name] for name in ("first_repeat", "second_repeat")]
    return np.stack(columns, axis=1).astype(np.int64)


def with_more(plan: Plan, more: Trials) -> Plan:
    """The plan with trials behind its own, which keep their places; a comparison that was asked already counts on."""
    more = with_repeats(more, plan.pool, plan.seed, after=plan.trials)
    trials = Trials.concat([plan.trials, more]).counted()
    return replace(plan, trials=trials, characters=characters(plan.pool, trials))


def characters(pool: Pool, trials: Trials) -> int:
    """Characters of all judged texts together."""
    lengths = np.ascontiguousarray(pool.every_length.T)  # trials on an item stand together, and so should its lengths
    (item, other_item), (one, two) = trials.text_cells, trials.text_rows(pool.n_agents)
    return int(lengths[item, one].sum() + lengths[other_item, two].sum())


def with_repeats(trials: Trials, pool: Pool, seed: int, *, after: Trials | None = None) -> Trials:
    """Which of its responses each agent shows in each trial, where agents have several.

    A cell (agent, item) shows the one that it showed least so far in this arm, and among these goes round from one drawn for the
    cell: so a larger budget and an extension begin as the smaller one does. after: the trials before these.
    """
    if pool.further is None:
        return trials
    size = pool.repeats
    firsts = np.empty((pool.n_agents, pool.n_items), dtype=np.int64)
    for k in range(pool.n_agents):  # whole rounds of responses, so that an agent's cells begin with each about as often
        rounds = np.tile(np.arange(size), (-(-pool.n_items // size), 1))
        firsts[k] = stream("repeats", seed, k).permuted(rounds, axis=1).ravel()[: pool.n_items]
    parts = (
        [trials] if after is None else [after if after.first_repeat is not None else after.of_first_repeats(), trials]
    )
    n_before = 0 if after is None else len(after)
    cells = [np.concatenate([_cells(part, side, pool.n_items) for part in parts]) for side in (0, 1)]
    code = np.stack(cells, axis=1).ravel()  # both texts of a trial, trial after trial
    touched, cell = np.unique(code, return_inverse=True)
    agent, item = np.divmod(touched // 2, pool.n_items)
    n_own = pool.n_repeats[agent, item].astype(np.int64)
    begin = firsts[agent, item] % np.maximum(n_own, 1)
    turn = (np.arange(size) - begin[:, None]) % np.maximum(n_own, 1)[:, None]
    shown = np.zeros((len(touched), size), dtype=np.int64)
    if after is not None:
        earlier = np.stack([parts[0].columns()[name] for name in ("first_repeat", "second_repeat")], axis=1).ravel()
        np.add.at(shown, (cell[: 2 * n_before], earlier - 1), 1)
    rest = cell[2 * n_before :]
    nth = count_earlier(rest)
    found = np.empty(len(rest), dtype=np.int32)
    lacking = np.arange(size) >= n_own[:, None]
    by_turn = np.argsort(nth, kind="stable")
    for rows in np.split(by_turn, np.flatnonzero(np.diff(nth[by_turn])) + 1 if len(rest) else []):
        at = rest[rows]
        least = np.where(lacking[at], np.iinfo(np.int64).max, shown[at] * size + turn[at]).argmin(axis=1)
        shown[at, least] += 1
        found[rows] = least + 1
    return replace(trials, first_repeat=found[0::2].copy(), second_repeat=found[1::2].copy())


def _cells(trials: Trials, side: int, n_items: int) -> Positions:
    """int64[N]: agent and item of each trial's first or second text, and its arm, as one number."""
    agent, item = (trials.first, trials.second)[side].astype(np.int64), trials.text_cells[side]
    return 2 * (agent * n_items + item) + trials.arm


N_POOLED = 100
"""Default number of pooled independent calls: 0 positive answers of 100 mean a rate under 3 % at 95 %."""
OWN_FROM = 0.2
"""Share of the dense calls from which on a pooled arm that nobody numbered grows, so that agents get rates of their own."""
OWN_SHARE = 0.1
"""Share of the budget that it takes then: with less, the agent of the paper's data with most false positives is not covered."""
OWN_LEAST = 100
"""Independent calls each agent takes part in, below which own rates are noise and the arm stays as it is."""
_TRIES = 20
_BARREN_PASSES = 20


class IndependentArm(NamedTuple):
    """Independent trials that were asked for: one per paired trial, or `n` pooled ones (None: the default number)."""

    rule: IndependentRule
    n: int | None


def independent_arm(asked: str) -> IndependentArm:
    """Read "twin", "pooled" or "pooled:N".

    Raises
    ------
    PlanError
        [independent-rule]: if `asked` is none of these.

    Examples
    --------
    >>> independent_arm("pooled:300")
    IndependentArm(rule='pooled', n=300)
    """
    match = INDEPENDENT.fullmatch(asked)
    if match is None:
        raise PlanError(
            f"independent: got '{asked}'. Set twin, pooled or pooled:N, with a whole number N.", slug="independent-rule"
        )
    return IndependentArm("twin" if match["twin"] else "pooled", int(match["n"]) if match["n"] else None)


def enough_for_own_rates(n: int, *, budget: int, n_agents: int, n_dense: int) -> int:
    """How many calls a pooled arm of `n` makes within `budget`: more where each agent's own rate can be told, else n.

    >>> enough_for_own_rates(100, budget=32_480, n_agents=29, n_dense=162_400)
    3248
    >>> enough_for_own_rates(100, budget=3_248, n_agents=29, n_dense=162_400)
    100
    """
    own = int(OWN_SHARE * min(budget, n_dense))
    return own if budget >= OWN_FROM * n_dense and 2 * own >= OWN_LEAST * n_agents else n


def twins(paired: Trials, eligible: Bools, rng: np.random.Generator) -> Trials:
    """For every paired trial one independent trial of the same ordered pair: first's text against second's on another item.

    The other item is uniform over the second agent's eligible cells but this one (the paper's q). A second agent with one
    eligible item has no twin.
    """
    counts = eligible.sum(axis=1)
    cells = np.flatnonzero(eligible.ravel()) % eligible.shape[1]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    position = np.cumsum(eligible, axis=1) - 1
    keep = counts[paired.second] > 1
    item, first, second = paired.item[keep], paired.first[keep], paired.second[keep]
    step = 1 + np.floor(rng.random(len(item)) * (counts[second] - 1)).astype(np.int64)
    other = cells[starts[second] + (position[second, item] + step) % counts[second]]
    return Trials.independent(item, first, second, other.astype(np.int32)).marked(TWIN)


def pooled(eligible: Bools, n: int, rng: np.random.Generator) -> Trials:
    """n different independent trials spread evenly: pass after pass, every agent stands once first and once second.

    Partners are a random cyclic shift apart in a random order; items are uniform over each agent's eligible cells, and differ.
    A pair that has nothing new to compare is passed over. Fewer than n where n different ones cannot be found.

    Raises: PlanError [independent] where there is nothing independent at all.
    """
    agents = np.flatnonzero(eligible.any(axis=1))
    items_of = {int(agent): np.flatnonzero(eligible[agent]).tolist() for agent in agents}
    rows: dict[tuple[int, int, int, int], None] = {}
    barren = 0
    while len(rows) < n and barren < _BARREN_PASSES and len(agents) > 1:
        before = len(rows)
        order = rng.permutation(agents)
        shift = int(rng.integers(1, len(agents)))
        for first, second in zip(order.tolist(), np.roll(order, -shift).tolist(), strict=True):
            for _ in range(_TRIES):
                item, other = (here[rng.integers(len(here))] for here in (items_of[first], items_of[second]))
                if item != other and (item, first, second, other) not in rows:
                    rows[item, first, second, other] = None
                    break
        barren = 0 if len(rows) > before else barren + 1
    if n > 0 and not rows:
        raise PlanError(
            "Independent comparisons need two agents with responses on two items. Add responses, or set independent: pooled:0.",
            slug="independent",
        )
    return Trials.independent(*np.array(list(rows)[:n], dtype=np.int32).reshape(-1, 4).T)


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
    return screened.take(order[alike[order] > max(far, _LEAST)][:most]).marked(PROBE, first=0.0, second=0.0)


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
