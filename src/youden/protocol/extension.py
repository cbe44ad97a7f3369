"""Extends a plan by agents, items or calls. Its own trials keep their places.

Agents that join are placed by trials against the anchors, the agents of the first plan, without comparing the anchors anew. More
calls go on where a larger budget would have: they are the slots that the plan's design draws next.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace
from itertools import chain, islice

import numpy as np

from youden.errors import PlanError
from youden.protocol.blocks import extensions_of, first_in_slots
from youden.protocol.designs import DESIGNS
from youden.protocol.designs.cyclic import numbered
from youden.protocol.designs.repair import PairRule
from youden.protocol.independent import N_POOLED, twins, with_more
from youden.streams import Stream, stream
from youden.text.sentences import counted
from youden.types import PAIRED, Design, Plan, Pool, Trials
from youden.types.plan_steps import Extension, ExtensionKind
from youden.types.planning import Slotted
from youden.types.pool import Bools, Ids
from youden.types.trials import PLACING, PLAN

Comparison = tuple[int, int, int]
_TRIES = 20


def trials_against_anchors(
    eligible: Bools,
    rng: np.random.Generator,
    *,
    scored: tuple[int, ...],
    n_anchors: int,
    n_paired: int,
    asked: Set[Comparison],
    pairs: PairRule,
    items: Ids,
    start: int,
    together: bool = False,
) -> Trials:
    """In every slot, on one item, each scored agent stands once first and once second, against two different anchors.

    Items come in the order `items`, round and round; anchors in one random order at a random shift a slot, so that a scored agent
    meets all of them about as often. A comparison (item, first, second) in `asked` is not asked again, nor, where `pairs` is
    unordered, its reverse: the next anchor takes its place. Slots are numbered from `start`, and drawn while they fit
    `n_paired`; fewer where everything was asked. together: the scored ones meet the same two anchors in a slot, so that neither
    sets them apart.

    eligible: bool[K, J]. scored: positions of agents. n_anchors: the anchors are agents 0 … n_anchors − 1; a scored one is never
    compared with itself.
    """
    order = rng.permutation(n_anchors).tolist()
    shifts = rng.permutation(n_anchors)
    taken = set(asked)
    taken.update((item, two, one) for item, one, two in asked if pairs == "unordered")
    rows: list[tuple[int, int, int, int]] = []
    barren = 0
    for s in range(len(items) * n_anchors):
        item = int(items[s % len(items)])
        shift = int(shifts[(s + s // len(items)) % n_anchors])
        slot: list[Comparison] = []
        for place, agent in enumerate(scored):
            if not eligible[agent, item]:
                continue
            at = shift if together else shift + place * n_anchors // len(scored)
            others = (k for k in _cycle(order, at) if k != agent and eligible[k, item])
            second = next((k for k in others if (item, agent, k) not in taken), None)
            others = (k for k in _cycle(order, at + n_anchors // 2) if k not in (agent, second) and eligible[k, item])
            first = next((k for k in others if (item, k, agent) not in taken), None)
            found = [(item, agent, second)] if second is not None else []
            found += [(item, first, agent)] if first is not None else []
            taken.update(found, ((item, two, one) for item, one, two in found if pairs == "unordered"))
            slot += found
        if len(rows) + len(slot) > n_paired:
            break
        rows += [(*row, start) for row in slot]
        start += bool(slot)
        barren = 0 if slot else barren + 1
        if barren == len(items):
            break
    columns = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    return Trials.paired(*columns[:3], slot=columns[3])


def _independent_against_anchors(
    eligible: Bools, rng: np.random.Generator, *, scored: tuple[int, ...], n_anchors: int, n: int
) -> Trials:
    """n independent trials spread over `scored`, each by turns first and second, against anchors' texts on other items.

    Fewer where there are not so many.
    """
    rows: dict[tuple[int, int, int, int], None] = {}
    for number in range(_TRIES * n):
        agent, anchor = scored[number % len(scored)], int(rng.integers(n_anchors))
        own, other = np.flatnonzero(eligible[agent]), np.flatnonzero(eligible[anchor])
        if len(rows) == n:
            break
        if agent == anchor or not (len(own) and len(other)):
            continue
        a, b = int(rng.choice(own)), int(rng.choice(other))
        if a != b:
            rows[(a, agent, anchor, b) if number // len(scored) % 2 == 0 else (b, anchor, agent, a)] = None
    return Trials.independent(*np.array(list(rows), dtype=np.int32).reshape(-1, 4).T)


def _cycle(order: list[int], start: int) -> Iterator[int]:
    return (order[(start + i) % len(order)] for i in range(len(order)))


LEAST_SLOTS = 6
"""Slots an agent that joins gets at least: fewer tell no variance."""


def add_agents(plan: Plan, pool: Pool, *, calls: int | None = None) -> Plan:
    """`plan` with the agents of `pool` that stand behind its own, each compared with a balanced set of anchors.

    calls: of both arms; None: as many trials as the plan's agents have on average.

    Raises: PlanError [grow-adaptive], [grow-calls] for too few.
    """
    new = tuple(range(plan.n_agents, pool.n_agents))
    n_each = 2 * int((plan.role == PLAN).sum()) / extensions_of(plan).anchors
    extender = _Extender(plan, pool)
    budget = extender.paired_of(calls, default=int(n_each + 0.5) * len(new), n_scored=len(new))
    if budget < LEAST_SLOTS * 2 * len(new):
        raise PlanError(
            f"{budget} paired calls place {len(new)} agents by fewer than {LEAST_SLOTS} slots each. "
            f"Give at least {extender.calls_of(LEAST_SLOTS * 2 * len(new), n_scored=len(new))} calls.",
            slug="grow-calls",
        )
    return extender.made("agents", [extender.anchored(new, budget)], budget, calls=calls, scored=new)


def add_items(plan: Plan, pool: Pool, *, calls: int | None = None) -> Plan:
    """`plan` with the items of `pool` that stand behind its own: slots of everybody on the new items alone.

    calls: as in `add_agents`; None: as many a new item as the plan's have on average.

    Raises: PlanError [grow-adaptive], [grow-cells] for a design without slots, [grow-calls].
    """
    extender = _Extender(plan, pool)
    n_new = pool.n_items - plan.n_items
    per_item = int((plan.arm == PAIRED).sum()) / plan.n_items
    budget = extender.paired_of(calls, default=int(per_item * n_new + 0.5), n_scored=pool.n_agents)
    return extender.made(
        "items", extender.turns(budget, {len(extender.extensions.item_sets): n_new}), budget, calls=calls
    )


def add_calls(
    plan: Plan,
    *,
    calls: int,
    focus: tuple[int, ...] = (),
    top: int | None = None,
    within: float | None = None,
) -> Plan:
    """`plan` with more slots, the very ones a larger budget would have drawn; with `focus`, slots of those agents alone.

    calls: of both arms (a pooled independent arm is not asked again, so all of them are paired). top, within: of a search, see
    `Extension`; its `focus` meets the same partners.

    Raises: PlanError [grow-adaptive], [grow-cells], [grow-calls], [grow-all] where everything was asked.
    """
    extender = _Extender(plan, plan.pool)
    budget = calls // 2 if plan.independent == "twin" else calls
    if focus:
        drawn = [extender.anchored(focus, budget, together=top is not None)]
        return extender.made("calls", drawn, budget, calls=calls, scored=focus, search=(top, within))
    return extender.made("calls", extender.turns(budget, extender.all_items()), budget, calls=calls)


def add_repeats(plan: Plan, pool: Pool, *, calls: int | None = None) -> Plan:
    """`plan` with the further responses of `pool`: more slots, in which each agent shows those first that it showed least.

    calls: as in `add_agents`; None: as many a response as those have that were shown. Nothing that was asked is asked otherwise.

    Raises: as `add_calls`.
    """
    extender, shown = _Extender(plan, pool), plan.trials.columns()
    n_shown = max((int(shown[name].max()) for name in ("first_repeat", "second_repeat") if name in shown), default=1)
    per_repeat = int((plan.arm == PAIRED).sum()) / n_shown
    budget = extender.paired_of(calls, default=int(per_repeat * (pool.repeats - n_shown)), n_scored=pool.n_agents)
    return extender.made("repeats", extender.turns(budget, extender.all_items()), budget, calls=calls)


class _Extender:
    """One step of one plan: numbers slots, remembers what was asked."""

    def __init__(self, plan: Plan, pool: Pool) -> None:
        if plan.rounds is not None:
            raise PlanError(
                "A plan in rounds chooses its own calls as it goes. Raise its calls, or set a smaller width, and "
                "run it again: what was answered is not asked again.",
                slug="grow-adaptive",
            )
        self.plan, self.pool, self.extensions = plan, pool, extensions_of(plan)
        self.train = pool.present.copy()
        self.train[: plan.n_agents, : plan.n_items] = plan.split.train
        self.next_slot = int(plan.slot.max(initial=-1)) + 1
        self.rng = stream("extension", plan.seed, len(self.extensions.steps))
        self.pairs: PairRule = "unordered" if plan.options.get("pairs") == "unordered" else "ordered"

    def all_items(self) -> dict[int, int]:
        """How many items each set of them has."""
        return {number: len(items) for number, items in enumerate(self.extensions.item_sets)}

    def design(self) -> Design:
        """The design that drew the plan."""
        make = DESIGNS.load(self.plan.design)
        return make(
            n_paired=None, **{name: self.plan.options[name] for name in make.options if name in self.plan.options}
        )

    def paired_of(self, calls: int | None, *, default: int, n_scored: int) -> int:
        """Paired calls among `calls` of both arms."""
        if calls is None:
            return default
        return calls // 2 if self.plan.independent == "twin" else max(0, calls - self.n_independent(n_scored))

    def calls_of(self, n_paired: int, *, n_scored: int) -> int:
        """Calls of both arms that hold `n_paired` paired ones."""
        return 2 * n_paired if self.plan.independent == "twin" else n_paired + self.n_independent(n_scored)

    def n_independent(self, n_scored: int) -> int:
        """Independent calls of a pooled arm for agents that join: as many each as the anchors got."""
        asked = self.plan.n_independent
        whole = N_POOLED if asked is None else asked
        return -(-whole * n_scored // self.extensions.anchors) if n_scored < self.pool.n_agents else 0

    def anchored(
        self, scored: tuple[int, ...], n_paired: int, *, items: Ids | None = None, together: bool = False
    ) -> Trials:
        """Slots that place `scored`, on items they were asked about least first."""
        plan = self.plan
        sides = np.isin(plan.first, scored) | np.isin(plan.second, scored)
        rows = np.flatnonzero(sides & (plan.arm == PAIRED))
        asked: set[Comparison] = set(
            zip(plan.item[rows].tolist(), plan.first[rows].tolist(), plan.second[rows].tolist(), strict=True)
        )
        order = self.judged_items() if items is None else items
        times = np.bincount(plan.item[rows], minlength=self.pool.n_items)
        start = self.next_slot
        trials = trials_against_anchors(
            self.train,
            self.rng,
            scored=scored,
            n_anchors=self.extensions.anchors,
            n_paired=n_paired,
            asked=asked,
            pairs=self.pairs,
            items=order[np.argsort(times[order], kind="stable")],
            start=start,
            together=together,
        )
        self.next_slot = int(trials.slot.max(initial=start - 1)) + 1
        return trials.marked(PLACING, first=np.isin(trials.first, scored), second=np.isin(trials.second, scored))

    def judged_items(self) -> Ids:
        """Items of the plan, those first that its slots took first, so that they are compared on what anchors were."""
        paired = self.plan.item[self.plan.arm == PAIRED]
        seen, at = np.unique(paired, return_index=True)
        rest = np.setdiff1d(np.arange(self.plan.n_items), seen)
        return np.concatenate([seen[np.argsort(at)], self.rng.permutation(rest)]).astype(np.int32)

    def turns(self, n_paired: int, sizes: dict[int, int]) -> list[Trials]:
        """Turns on sets of items, in proportion to their sizes: a turn is a slot of all anchors and one of each later group."""
        slotted = self.design()
        if not (first_in_slots(self.plan) and isinstance(slotted, Slotted)):
            raise PlanError(
                f"A plan of the design '{self.plan.design}' has no slots to go on with. Make a run with a larger budget and the "
                "same store (what was answered is not asked again), or name agents to focus on.",
                slug="grow-cells",
            )
        groups, size = self.extensions.joined, self.largest_slot(())
        n_turns = n_paired // size
        if n_turns < 1:
            raise PlanError(
                f"{n_paired} paired calls are less than one slot of everybody, {size}. Give at least {size} calls, "
                "or name agents to focus on.",
                slug="grow-calls",
            )
        share = np.floor(np.cumsum(list(sizes.values())) / sum(sizes.values()) * n_turns + 0.5).astype(int)
        drawn: list[Trials] = []
        owed = 0
        for set_, n in zip(sizes, np.diff(share, prepend=0).tolist(), strict=True):
            found, items = self.complete(slotted, set_, n + owed)
            drawn.append(found)
            n_slots = len(np.unique(found.slot))
            owed += n - n_slots
            drawn += [self.anchored(group, 2 * len(group) * n_slots, items=items) for group in groups]
        return drawn

    def complete(self, slotted: Slotted, set_: int, n_slots: int) -> tuple[Trials, Ids]:
        """The next slots of all anchors on a set of items, and those items. Where agents responded several times, everything may
        be compared as often."""
        sets = self.extensions.item_sets
        items = sets[set_] if set_ < len(sets) else range(self.plan.n_items, self.pool.n_items)
        of_all = (self.plan.role == PLAN) & np.isin(self.plan.item, items)
        n_done = len(np.unique(self.plan.slot[of_all & (self.plan.slot >= 0)]))
        eligible = self.train[: self.extensions.anchors, items.start : items.stop]
        name: Stream = "trials" if set_ == 0 else "slots on new items"
        number = (set_,) if set_ else ()
        again = ([], *([n] for n in range(1, self.pool.repeats)))
        passes = (slotted.slots(eligible, stream(name, self.plan.seed, *number, *n)) for n in again)
        going_on = islice(chain.from_iterable(passes), n_done, n_done + n_slots)
        start = self.next_slot
        chosen = numbered(list(going_on), start=start)
        trials = replace(chosen, item=chosen.item + np.int32(items.start))
        self.next_slot = int(trials.slot.max(initial=start - 1)) + 1
        order = np.array(list(dict.fromkeys(trials.item.tolist())), dtype=np.int32)
        rest = np.setdiff1d(np.arange(items.start, items.stop, dtype=np.int32), order)
        return trials, np.concatenate([order, rest])

    def made(
        self,
        kind: ExtensionKind,
        drawn: list[Trials],
        budget: int,
        *,
        calls: int | None,
        scored: tuple[int, ...] = (),
        search: tuple[int | None, float | None] = (None, None),
    ) -> Plan:
        """The plan with what was drawn after its own. Raises: PlanError [grow-all] where that is nothing."""
        plan, pool = self.plan, self.pool
        paired = Trials.concat(drawn)
        if len(paired) == 0:
            raise PlanError(
                "Every slot there is was asked already. Add items or agents; where pairs are left, focus on an agent finds them.",
                slug="grow-all",
            )
        apart = self.apart(paired, kind, scored)
        focus = scored if kind == "calls" else ()
        step = Extension(kind, pool.n_agents, pool.n_items, pool.digest, calls, focus, *search)
        extensions = replace(self.extensions, steps=(*self.extensions.steps, step))
        more = Trials.concat([paired, apart])
        number = np.full(len(more), len(extensions.steps), dtype=np.int32)
        holdout = np.zeros_like(self.train)
        holdout[: plan.n_agents, : plan.n_items] = plan.split.holdout
        on_pool = replace(
            plan,
            split=replace(plan.split, train=self.train, holdout=holdout),
            pool_digest=pool.digest,
            agent_ids=tuple(agent.id for agent in pool.agents),
            item_ids=tuple(item.id for item in pool.items),
            source=pool,
        )
        return replace(
            with_more(on_pool, replace(more, step=number)),
            extensions=extensions,
            notes=(
                *plan.notes,
                self.note(kind, len(paired), len(apart), scored)
                + ("" if budget - len(paired) < self.largest_slot(scored) else f" of {budget:,}: no more are left"),
            ),
        )

    def largest_slot(self, scored: tuple[int, ...]) -> int:
        """Paired calls of a turn, or of a slot for `scored` alone: a budget is not split below it."""
        return 2 * len(scored) if scored else self.extensions.anchors + 2 * sum(map(len, self.extensions.joined))

    def apart(self, paired: Trials, kind: ExtensionKind, scored: tuple[int, ...]) -> Trials:
        """The independent arm of what was drawn; where that only places agents, so does its independent arm."""
        if self.plan.independent == "twin":
            found = twins(paired, self.train, self.rng)
        else:
            n = self.n_independent(len(scored)) if kind == "agents" else 0
            found = _independent_against_anchors(
                self.train, self.rng, scored=scored or (0,), n_anchors=self.extensions.anchors, n=n
            )
        return found if (paired.role == PLAN).any() else found.marked(PLACING)

    def note(self, kind: ExtensionKind, n_paired: int, n_independent: int, scored: tuple[int, ...]) -> str:
        """What a reader is told of the step."""
        asked = f"{n_independent:,} independent and {n_paired:,} paired calls"
        if kind == "agents":
            who = f"{counted(len(scored), 'agent')} joined, compared with {self.extensions.anchors} of the first plan"
        elif kind == "items":
            who = f"{counted(self.pool.n_items - self.plan.n_items, 'item')} joined"
        elif kind == "repeats":
            who = f"responses joined, now {self.pool.n_responses:,}, up to {self.pool.repeats} of an agent to an item"
        else:
            names = ", ".join(self.plan.agent_ids[agent] for agent in scored)
            who = f"more calls on {names}" if scored else "more calls"
        return f"step {len(self.extensions.steps) + 1}: {who}: {asked}"
