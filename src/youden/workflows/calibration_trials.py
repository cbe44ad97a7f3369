"""Trials whose truth is known by construction, from a run's own plan and beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from youden.errors import PlanError
from youden.protocol.independent import characters, pooled
from youden.streams import own_stream, stream
from youden.text.transforms import Step, apply_steps
from youden.types import INDEPENDENT, PAIRED, Agent, Plan, Pool, Trials
from youden.types.planning import Asked, Split
from youden.types.pool import Bools, Codes, Floats, Ids, Positions, ReadOnly
from youden.types.trials import ASKED, PROBE

Kind = Literal["paired", "reversed", "again", "independent", "uneven", "even", "itself", "clone", "template"]


class KnownAnswer(NamedTuple):
    """of_150: how many of 150 calls are of a kind, of more or fewer in proportion; says: what is asked, and the true answer."""

    of_150: int
    arm: str
    says: str


MEANS: dict[Kind, KnownAnswer] = {
    "paired": KnownAnswer(36, "paired", "two agents on one item, at random from the run's plan: yes"),
    "reversed": KnownAnswer(36, "paired", "the same, the other text first: yes"),
    "again": KnownAnswer(10, "paired", "the same, asked once more: yes"),
    "independent": KnownAnswer(30, "independent", "two agents on two items: no"),
    "uneven": KnownAnswer(10, "paired", "two agents on one item, of most unlike length: yes"),
    "even": KnownAnswer(10, "independent", "two agents on two items, long and of most alike length: no"),
    "itself": KnownAnswer(6, "planted", "a response against itself: yes"),
    "clone": KnownAnswer(6, "planted", "a response against its sentences in another order, as a list: yes"),
    "template": KnownAnswer(6, "planted", "a response against a text that says nothing of any item: no"),
}
KINDS = tuple(MEANS)
ARMS = tuple(dict.fromkeys(one.arm for one in MEANS.values()))

LEAST = 10
"""Paired and independent trials without which nothing can be said of a judge."""

_MORE = 400
"""Independent trials drawn beside a run's own, for where it has too few."""
_CHOICE = 30
"""Trials by length are chosen among the run's own alone where it has at least so many, else among those drawn beside it too."""
_CLONE = (Step("reorder"), Step("bullets"))


@dataclass(frozen=True, eq=False)
class KnownTruth(ReadOnly):
    """A calibration's trials.

    plan: all of them; pool: the run's, with two planted agents after its own where they are asked about.
    kind: int8[N], index into KINDS. of: int32[N], the row that a reversed trial or one asked again repeats, −1 elsewhere.
    in_run: bool[N], whether the run's plan asks the same. most: calls that could be made of this plan.
    """

    plan: Plan
    kind: Codes
    of: Ids
    in_run: Bools
    most: int

    @property
    def pool(self) -> Pool:
        return self.plan.pool

    def rows(self, *kinds: Kind) -> Positions:
        """Positions of the trials of these kinds, ascending."""
        return np.flatnonzero(np.isin(self.kind, [KINDS.index(kind) for kind in kinds]))

    def rows_of_arm(self, arm: str) -> Positions:
        """Positions of the trials of an arm, planted ones being one by themselves."""
        return self.rows(*(kind for kind in KINDS if MEANS[kind].arm == arm))


def draw_known_truth(plan: Plan, *, calls: int, seed: int) -> KnownTruth:
    """About `calls` trials in the proportions of MEANS, drawn from `plan` where it has them; fewer where the pool is small.

    Paired and independent trials are simple random samples of the plan's, no pair of agents twice on an item and no probe among
    them; more calls contain the trials of fewer. Planted texts are made of responses at least as long as the median one.

    Raises: PlanError [calibrate-small] under 10 paired or independent trials.
    """
    rng, pool = stream("known truth", seed), plan.pool
    n = {kind: round(calls * means.of_150 / 150) for kind, means in MEANS.items()}
    length = np.array([[len(text or "") for text in row] for row in pool.texts], dtype=np.float64)
    shortest, middle = np.quantile(length[pool.present], [0.25, 0.5]).tolist()
    paired, uneven = _parted(_distinct_pairs(plan, rng.permutation(np.flatnonzero(plan.arm == PAIRED))))
    independent, even = _parted(rng.permutation(np.flatnonzero((plan.arm == INDEPENDENT) & (plan.role != PROBE))))
    drawn_from = _with_more_independent(plan, stream("known independent trials", seed))
    more = np.arange(len(plan), len(drawn_from))
    independent = np.append(independent, more[0::2])
    if len(even) < _CHOICE:
        even = np.append(even, more[1::2])
    # texts under the lower quartile may say too little for anybody; long ones of two items are what a judge by length mistakes
    uneven = _by_length(drawn_from, uneven, length, least=shortest, unlike=True)
    even = _by_length(drawn_from, even, length, least=middle, unlike=False)
    drawn = plan.trials.take(paired[: n["paired"]])
    turned, again = (drawn.take(slice(n[kind])) for kind in ("reversed", "again"))
    parts: dict[Kind, Trials] = {
        "paired": drawn,
        "reversed": turned.turned(),
        "again": again,
        "independent": drawn_from.trials.take(independent[: n["independent"]]),
        "uneven": plan.trials.take(uneven[: n["uneven"]]),
        "even": drawn_from.trials.take(even[: n["even"]]),
        **_planted(pool, length >= max(1.0, middle), n, stream("planted texts", seed)),
    }
    kind = np.repeat(np.arange(len(KINDS), dtype=np.int8), [len(parts[name]) for name in KINDS])
    n_paired, n_independent = (int((kind == KINDS.index(name)).sum()) for name in ("paired", "independent"))
    if min(n_paired, n_independent) < LEAST:
        raise PlanError(
            f"The pool '{pool.name}' is too small to calibrate a judge on: its run has {n_paired} paired and {n_independent} "
            f"independent trials to draw from, and {LEAST} of each are the least. "
            "Add agents or items, raise the run's calls, or calibrate on a larger pool of the same kind.",
            slug="calibrate-small",
        )
    augmented = _with_planted(pool, parts["clone"], parts["template"])
    asked = _as_plan(plan, augmented, [parts[name] for name in KINDS], kind)
    return KnownTruth(
        plan=asked,
        kind=kind,
        of=_repeats(kind),
        in_run=_also_in(plan, asked),
        most=150 * min(len(paired) // MEANS["paired"].of_150, len(independent) // MEANS["independent"].of_150),
    )


def _parted(rows: Positions) -> tuple[Positions, Positions]:
    """One half for random trials, the other to choose from by length, so that the random ones stay random."""
    return rows[: -(-len(rows) // 2)], rows[-(-len(rows) // 2) :]


def _with_more_independent(plan: Plan, rng: np.random.Generator) -> Plan:
    """The plan with independent trials after its own, for where it has too few."""
    return replace(plan, trials=Trials.concat([plan.trials, pooled(plan.pool.present, _MORE, rng)]))


def _distinct_pairs(plan: Plan, rows: Positions) -> Positions:
    """`rows` in their order without those that compare two agents a second time on an item."""
    low, high = np.minimum(plan.first, plan.second)[rows], np.maximum(plan.first, plan.second)[rows]
    _, kept = np.unique(np.stack([plan.item[rows], low, high]), axis=1, return_index=True)
    return rows[np.sort(kept)]


def _repeats(kind: Codes) -> Ids:
    """int32[N]: the paired trial, which stand at the plan's start, that a reversed one or one asked again repeats; else −1."""
    of = np.full(len(kind), -1, dtype=np.int32)
    for name in ("reversed", "again"):
        rows = np.flatnonzero(kind == KINDS.index(name))
        of[rows] = np.arange(len(rows))
    return of


def _by_length(plan: Plan, rows: Positions, length: Floats, *, least: float, unlike: bool) -> Positions:
    """`rows` whose texts are most unlike, or most alike, in length first; those with a text under `least` characters last."""
    other = np.where(plan.other_item[rows] >= 0, plan.other_item[rows], plan.item[rows])
    one, two = length[plan.first[rows], plan.item[rows]], length[plan.second[rows], other]
    ratio = np.abs(np.log((one + 1) / (two + 1)))
    return rows[np.lexsort([-ratio if unlike else ratio, np.minimum(one, two) < least])]


def _planted(pool: Pool, telling: Bools, n: Mapping[Kind, int], rng: np.random.Generator) -> dict[Kind, Trials]:
    """Responses against themselves, against their clones (each on an item of its own) and against the template."""
    agent, item = (index.astype(np.int32) for index in np.nonzero(pool.present & telling))
    order = rng.permutation(len(item))
    clones = order[np.sort(np.unique(item[order], return_index=True)[1])]
    rest = order[~np.isin(order, clones)]
    itself, clone, template = rest[0::2][: n["itself"]], clones[: n["clone"]], rest[1::2][: n["template"]]
    planted = [np.full(len(cells), pool.n_agents + k, dtype=np.int32) for k, cells in enumerate((clone, template))]
    return {
        "itself": Trials.paired(item[itself], agent[itself], agent[itself]),
        "clone": Trials.paired(item[clone], agent[clone], planted[0]),
        "template": Trials.paired(item[template], agent[template], planted[1]),
    }


def _with_planted(pool: Pool, clones: Trials, templates: Trials) -> Pool:
    """The pool with the agents that are planted, who respond where they are asked about only."""
    texts = np.full((2, pool.n_items), None, dtype=object)
    for agent, item in zip(clones.first.tolist(), clones.item.tolist(), strict=True):
        texts[0, item] = apply_steps(str(pool.texts[agent, item]), _CLONE, own_stream(item))
    texts[1, templates.item] = apply_steps("", [Step("template")], own_stream(0))
    return pool.with_agents([Agent("planted clone"), Agent("planted template")], [texts])


def _also_in(plan: Plan, asked: Plan) -> Bools:
    """bool[N]: which trials of `asked` stand in `plan`."""
    there = np.isin(plan.item, asked.item)
    planned = set(_trials(plan, there))
    return np.array([trial in planned for trial in _trials(asked, np.ones(len(asked), dtype=np.bool_))])


def _trials(plan: Plan, rows: Bools) -> Iterator[tuple[int, ...]]:
    trials = plan.trials if plan.trials.first_repeat is not None else plan.trials.of_first_repeats()
    columns = [trials.columns()[name] for name in ASKED if name not in ("arm", "slot")]
    return zip(*(column[rows].tolist() for column in columns), strict=True)


def _as_plan(plan: Plan, pool: Pool, parts: Sequence[Trials], kind: Codes) -> Plan:
    """Without slots; asked once, or a second time where the kind is `again`."""
    again = (kind == KINDS.index("again")).astype(np.int32)
    trials = replace(Trials.concat(parts).anew(), replicate=again, slot=np.full(len(kind), -1, dtype=np.int32))
    return replace(
        plan,
        trials=trials,
        split=Split(pool.present.copy(), np.zeros_like(pool.present), "shared", 0.0, plan.seed),
        design="calibration",
        options={},
        n_independent=None,
        rounds=None,
        extensions=None,
        asked=Asked(),
        pool_digest=pool.digest,
        agent_ids=tuple(agent.id for agent in pool.agents),
        characters=characters(pool, trials),
        notes=(),
        source=pool,
    )
