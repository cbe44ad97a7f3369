"""When not to believe a ranking: everything that was looked at, what speaks against it, and what says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from youden.report.data.doubts.dependence import (
    Breakdown,
    WithoutGroup,
    agreeing_share,
    breakdowns,
    length_correlation,
    without_groups,
)
from youden.report.data.doubts.pairs import PairGrid, pair_grid
from youden.report.data.evidence import Evidence
from youden.report.data.summary import Summary
from youden.stats.robust.links import linked_pairs

LIKE_LENGTH = 0.7
"""Spearman with length from which the ranking is told to be mostly that of length, either way round."""
HALVES = 0.8
WITHOUT = 0.9
"""Spearman below which random halves of the partners, or a group's absence, change too much."""
AGREED, MOSTLY = 0.8, 0.5
"""Where this share of the pairs agrees on this share of the items or more there is no spread. ICLR has .72, the paper's other
domains at most .30."""
MANY = 5


@dataclass(frozen=True)
class Doubt:
    """One thing that was looked at. speaks: whether it speaks against the ranking."""

    slug: str
    title: str
    text: str
    speaks: bool


@dataclass(frozen=True)
class GroupLine:
    """A user-named group's breakdown and the ranking without it, None where one of them was not made."""

    group: str
    n_agents: int
    inside: float | None
    across: float | None
    share: float | None
    correlation: float | None
    moved: str | None
    most: int


@dataclass(frozen=True, eq=False)
class Doubts:
    """pairs: None where no two agents met. doubts: those that speak against the ranking first."""

    pairs: PairGrid | None
    without: tuple[WithoutGroup, ...]
    breakdowns: tuple[Breakdown, ...]
    doubts: tuple[Doubt, ...]

    @property
    def groups(self) -> tuple[GroupLine, ...]:
        """Group by group."""
        broken = {line.group: line for line in self.breakdowns}
        without = {line.group: line for line in self.without}
        return tuple(_group_line(broken.get(group), without.get(group)) for group in dict.fromkeys((*broken, *without)))

    @property
    def against(self) -> tuple[Doubt, ...]:
        return tuple(doubt for doubt in self.doubts if doubt.speaks)

    @property
    def silent(self) -> tuple[Doubt, ...]:
        return tuple(doubt for doubt in self.doubts if not doubt.speaks)


def _group_line(one: Breakdown | None, two: WithoutGroup | None) -> GroupLine:
    return GroupLine(
        group=one.group if one is not None else two.group if two is not None else "",
        n_agents=one.n_agents if one is not None else two.n_agents if two is not None else 0,
        inside=None if one is None else one.inside,
        across=None if one is None else one.across,
        share=None if one is None else one.share,
        correlation=None if two is None else two.correlation,
        moved=None if two is None else two.moved,
        most=0 if two is None else two.most,
    )


def look_for_doubts(evidence: Evidence, summary: Summary) -> Doubts:
    """From the answers, the ranking and what the run knows of its texts."""
    agents, pairs = evidence.agent_ids, evidence.pairs
    group_of = {agent.id: agent.group for agent in evidence.pool.agents}
    groups = [group_of.get(agent) for agent in agents]
    ability_of = {row.agent: np.nan if row.ability is None else row.ability for row in summary.ranking}
    ability = np.array([ability_of[agent] for agent in agents])
    if pairs is None:
        return Doubts(None, (), (), ())
    without = without_groups(pairs, groups, agents)
    lost = breakdowns(pairs, groups)
    grid = pair_grid(pairs, linked_pairs(pairs), agents, [row.agent for row in summary.ranking])
    found = [
        _agreeing(grid, summary),
        *_length(length_correlation(ability, evidence.pool.mean_length)),
        *_halves(summary),
        *_without(without),
        *_coalition(lost),
        *_spread(agreeing_share(pairs, least=AGREED)),
    ]
    return Doubts(grid, without, lost, tuple(sorted(found, key=lambda doubt: not doubt.speaks)))


def _agreeing(grid: PairGrid, summary: Summary) -> Doubt:
    title = "Pairs that agree far beyond their abilities"
    if not grid.beyond:
        robust = summary.facts.standings.get("robust")
        if robust is None or not robust.groups:
            return Doubt("pairs", title, "No pair agrees far beyond what its two abilities explain.", speaks=False)
        alike = "; ".join(", ".join(group) for group in robust.groups)
        return Doubt(
            "pairs",
            "Agents that are alike in their texts",
            f"The robust ranking counts as one partner, for their texts are alike: {alike}. By the answers, no pair of them "
            "agrees far beyond what its two abilities explain.",
            speaks=True,
        )
    named = "; ".join(
        f"{pair.first} and {pair.second} ({pair.agreement:.2f}, {pair.residual:+.2f} beyond)"
        for pair in grid.beyond[:MANY]
    )
    more = f" and {len(grid.beyond) - MANY} more" if len(grid.beyond) > MANY else ""
    return Doubt(
        "pairs",
        title,
        f"Pairs that agree far beyond their abilities: {named}{more}. Copies, a shared template or a private word look like "
        "this, and so do agents of one family. They lift each other: read their texts, and rank with `--robust`.",
        speaks=True,
    )


def _length(rho: float | None) -> Iterator[Doubt]:
    if rho is None:
        return
    longer = "longer" if rho >= 0 else "shorter"
    if abs(rho) >= LIKE_LENGTH:
        text = (
            f"The ranking correlates with mean length at ρ = {rho:.2f}: {longer} answers stand higher. Whether they are better "
            "or only easier to match, agreement cannot tell."
        )
    else:
        text = f"The ranking correlates with mean length at ρ = {rho:.2f}."
    yield Doubt("length", "Length", text, speaks=abs(rho) >= LIKE_LENGTH)


def _halves(summary: Summary) -> Iterator[Doubt]:
    if summary.partners is not None and summary.facts.partners is not None:
        speaks = summary.facts.partners.correlation < HALVES
        yield Doubt("halves", "Random halves of the partners", summary.partners, speaks=speaks)


def _without(lines: tuple[WithoutGroup, ...]) -> Iterator[Doubt]:
    if not lines:
        return
    worst = min(lines, key=lambda line: line.correlation)
    text = (
        f"Without one group as partners the other agents rank alike at ρ = {worst.correlation:.2f} or more; least without "
        f"“{worst.group}”" + (f", where {worst.moved} moves {worst.most} places." if worst.most else ".")
    )
    yield Doubt("groups", "Each group's presence", text, speaks=worst.correlation < WITHOUT)


def _coalition(lines: tuple[Breakdown, ...]) -> Iterator[Doubt]:
    if not lines:
        return
    shares = [line for line in lines if line.share is not None]
    lost = [line.group for line in lines if line.share is None]
    text = "; ".join(
        f"“{line.group}” would lose to agents that always agree from {line.share:.0%} of the pool" for line in shares
    )
    if lost:
        text += (
            "; " if text else ""
        ) + f"{', '.join(f'“{group}”' for group in lost)} agree less inside than with others"
    now = [line.group for line in shares if line.others > line.inside]
    if now:
        text += f". As they answer now, agents outside {', '.join(f'“{group}”' for group in now)} agree more than those inside"
    yield Doubt("coalition", "How large a coalition would win", f"{text}.", speaks=False)


def _spread(share: float | None) -> Iterator[Doubt]:
    if share is None:
        return
    text = f"{share:.0%} of all pairs agree on {AGREED:.0%} of the items or more"
    if share >= MOSTLY:
        text += (
            ": there is hardly any spread in this pool. What is left to rank may be length or style; harder items, or a judge "
            "that looks closer, would tell more."
        )
        yield Doubt("spread", "No spread in the pool", text, speaks=True)
    else:
        yield Doubt("spread", "Spread in the pool", f"{text}.", speaks=False)
