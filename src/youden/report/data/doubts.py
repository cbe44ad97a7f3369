"""When not to believe a ranking: everything that was looked at, what speaks against it, and what says nothing.

A ranking may follow something else than ability: length, one group's presence, a coalition, pairs that agree far beyond what
their abilities explain, or nothing at all. Thresholds stand where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from youden.pipeline.text_length import length_correlation, length_finding
from youden.report.data.evidence import Evidence
from youden.report.data.grids import binned, edges
from youden.report.data.summary import Summary
from youden.stats.base.clusters import effects_of_pairs
from youden.stats.base.metrics import rank_correlation
from youden.stats.partners import LinkedPairs, PairMeans, linked_pairs
from youden.stats.trials.comparisons import tied_places
from youden.text.tables import Table, fixed
from youden.types.finding import Fact, Finding
from youden.types.pool import Bools, Floats, ReadOnly, or_none

FEWEST = 5
"""With fewer agents a rank correlation says nothing."""


@dataclass(frozen=True)
class GroupLine:
    """A user-named group: how it agrees, and the ranking with its agents scoring nobody.

    inside, across: mean agreement in the group, and with the others; others: of these with each other, as they answer now; None
    where nothing was seen of one of the first two. share: of the pool, in [0, 1], from which a coalition that always agrees
    stands above the group; None where the group agrees less inside than with others, and needs no coalition to lose.
    correlation: Spearman of the agents outside it, None where under 5 are left; moved, most: who moves most, and how many places.
    """

    group: str
    n_agents: int
    inside: float | None = None
    across: float | None = None
    others: float | None = None
    share: float | None = None
    correlation: float | None = None
    moved: str | None = None
    most: int = 0


def group_lines(of: PairMeans, groups: Sequence[str | None], agents: Sequence[str]) -> tuple[GroupLine, ...]:
    """One for each named group of which anything is known, those whose agreement is known first.

    share p* = (FF − FB)/((FF − FB) + (BB − FB)), F its agents, B a coalition: a share p of the pool that always agrees (BB = 1),
    and with the group as the others do (FB), then scores as high as the group: (1 − p)·FF + p·FB = (1 − p)·FB + p·BB.
    Without the group: with a the additive effects of all pairs, partners P say θ_i = mean of m_ik − a_k over k in P that i met.

    Source: none in the paper.
    """
    named = dict.fromkeys(group for group in groups if group is not None)
    rest = of.mean - effects_of_pairs(of.met.astype(np.float64), np.where(of.met, of.mean, 0.0).sum(axis=1))
    found = []
    for group in named:
        inside = np.array([one == group for one in groups], dtype=np.bool_)
        line = _without(rest, of.met, inside, agents, _agreement(of, inside, GroupLine(group, int(inside.sum()))))
        if line.inside is not None or line.correlation is not None:
            found.append(line)
    return tuple(sorted(found, key=lambda line: line.inside is None))


def groups_table(lines: Sequence[GroupLine]) -> Table:
    """A group a row."""
    rows = (
        [
            line.group,
            str(line.n_agents),
            fixed(line.inside, 2),
            fixed(line.across, 2),
            "–" if line.share is None else f"{100 * line.share:.0f} %",
            fixed(line.correlation, 2),
            f"{line.moved} ({line.most})" if line.most else "–",
        ]
        for line in lines
    )
    heads = ["group", "agents", "inside", "across", "loses from", "without it", "moves most"]
    return Table("Group by group", heads, "lrrrrrl", rows)


def _agreement(of: PairMeans, inside: Bools, line: GroupLine) -> GroupLine:
    own, across, others = (_over(of, *both) for both in ((inside, inside), (inside, ~inside), (~inside, ~inside)))
    if np.isnan(own) or np.isnan(across) or across >= 1:
        return line
    gap = own - across
    share = gap / (gap + (1 - across)) if gap > 0 else None
    return replace(line, inside=own, across=across, others=others, share=share)


def _without(rest: Floats, met: Bools, inside: Bools, agents: Sequence[str], line: GroupLine) -> GroupLine:
    outside = ~inside
    if inside.all() or not inside.any() or outside.sum() < FEWEST:
        return line
    whole, part = (_mean(rest[:, partners], met[:, partners])[outside] for partners in (outside | inside, outside))
    correlation = _spearman(whole, part)
    if correlation is None:
        return line
    moved = np.abs(tied_places(whole) - tied_places(part))
    most = int(np.argmax(moved))
    return replace(
        line, correlation=correlation, moved=agents[int(np.flatnonzero(outside)[most])], most=int(moved[most])
    )


def agreeing_share(of: PairMeans, *, least: float) -> float | None:
    """Share of the pairs that met whose agreement is `least` or more; None without a pair."""
    pairs = np.triu(of.met, 1)
    return float((of.mean[pairs] >= least).mean()) if pairs.any() else None


def _mean(value: Floats, met: Bools) -> Floats:
    n = met.sum(axis=1)
    total = np.where(met, value, 0.0).sum(axis=1)
    mean: Floats = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    return mean


def _over(of: PairMeans, one: Bools, two: Bools) -> float:
    pairs = of.met & one[:, None] & two
    return float(of.mean[pairs].mean()) if pairs.any() else float("nan")


def _spearman(one: Floats, two: Floats) -> float | None:
    both = ~np.isnan(one + two)
    if both.sum() < FEWEST:
        return None
    return or_none(rank_correlation(one[both], two[both]))


MOST_A_SIDE = 100
"""Above so many agents the matrices are drawn in bins, and say so."""


@dataclass(frozen=True)
class BeyondPair:
    """Two linked agents: how often they agree, and how far that is above a_i + a_k; both may be NaN for clones told by texts."""

    first: str
    second: str
    agreement: float
    residual: float


@dataclass(frozen=True, eq=False)
class PairGrid(ReadOnly):
    """float[n, n] each, agents best first, by `agents_per_row`; NaN where two never met.

    agreement: of pairs, both orders, items' own means taken off; residual: less a_i + a_k; linked: bool[n, n], a tile with a
    linked pair. names: at the edges. clusters: agents linked to each other; beyond: their pairs, the largest residual first.
    """

    names: tuple[str, ...]
    agreement: Floats
    residual: Floats
    linked: Bools
    agents_per_row: int
    clusters: tuple[tuple[str, ...], ...]
    beyond: tuple[BeyondPair, ...]


def pair_grid(
    of: PairMeans, found: LinkedPairs, agents: Sequence[str], ranked: Sequence[str], *, most: int = MOST_A_SIDE
) -> PairGrid:
    """agents: ids in matrix order; ranked: the same, best first."""
    place = {agent: k for k, agent in enumerate(agents)}
    order = np.array([place[agent] for agent in ranked], dtype=np.int64)
    square = np.ix_(order, order)
    size = max(1, -(-len(order) // most))
    off = ~np.eye(len(order), dtype=np.bool_)
    agreement, residual = (np.where(off, matrix[square], np.nan) for matrix in (of.mean, found.residual))
    first, second = np.nonzero(np.triu(found.linked & ~np.eye(len(agents), dtype=np.bool_)))
    beyond = [
        BeyondPair(agents[i], agents[k], float(of.mean[i, k]), float(found.residual[i, k]))
        for i, k in zip(first.tolist(), second.tolist(), strict=True)
    ]
    return PairGrid(
        names=edges(ranked, size),
        agreement=binned(agreement, size, size),
        residual=binned(residual, size, size),
        linked=binned((found.linked[square] & off).astype(np.float64), size, size) > 0,
        agents_per_row=size,
        clusters=tuple(tuple(agents[k] for k in cluster) for cluster in found.clusters),
        beyond=tuple(sorted(beyond, key=lambda pair: -np.nan_to_num(pair.residual))),
    )


HALVES = 0.8
WITHOUT = 0.9
"""Spearman below which random halves of the partners, or a group's absence, change too much."""
AGREED, MOSTLY = 0.8, 0.5
"""Where this share of the pairs agrees on this share of the items or more there is no spread. ICLR has .72, the paper's other
domains at most .30."""
MANY = 5


@dataclass(frozen=True, eq=False)
class Doubts:
    """pairs: None where no two agents met. doubts: those that speak against the ranking first."""

    pairs: PairGrid | None
    groups: tuple[GroupLine, ...]
    doubts: tuple[Finding, ...]

    @property
    def against(self) -> tuple[Finding, ...]:
        return tuple(doubt for doubt in self.doubts if doubt.severity == "warning")

    @property
    def silent(self) -> tuple[Finding, ...]:
        return tuple(doubt for doubt in self.doubts if doubt.severity != "warning")


def look_for_doubts(evidence: Evidence, summary: Summary) -> Doubts:
    """From the answers, the ranking and what the run knows of its texts."""
    agents, pairs = evidence.agent_ids, evidence.pairs
    group_of = {agent.id: agent.group for agent in evidence.pool.agents}
    groups = [group_of.get(agent) for agent in agents]
    ability_of = {row.agent: np.nan if row.ability is None else row.ability for row in summary.ranking}
    ability = np.array([ability_of[agent] for agent in agents])
    if pairs is None:
        return Doubts(None, (), (_signal(summary),))
    lines = group_lines(pairs, groups, agents)
    grid = pair_grid(pairs, linked_pairs(pairs), agents, [row.agent for row in summary.ranking])
    found = [
        _signal(summary),
        _agreeing(grid, summary),
        *_length(ability, evidence, summary),
        *_halves(summary),
        *_absence([line for line in lines if line.correlation is not None]),
        *_coalition([line for line in lines if line.inside is not None]),
        *_spread(agreeing_share(pairs, least=AGREED)),
    ]
    return Doubts(grid, lines, tuple(sorted(found, key=lambda doubt: doubt.severity != "warning")))


def _doubt(slug: str, says: str, *, speaks: bool, agents: tuple[str, ...] = (), **facts: Fact) -> Finding:
    """speaks: whether it speaks against the ranking."""
    return Finding(slug, says, severity="warning" if speaks else "note", agents=agents, facts=facts)


def _signal(summary: Summary) -> Finding:
    """Report whether the judge separates these agents."""
    signal, reason = summary.facts.signal, summary.facts.recommendation.reason
    p_value = signal.p_equal_abilities
    has_signal = signal.discriminates and signal.separates_agents
    if has_signal:
        text = f"The judge separates these agents: {signal.j_text} ({signal.level:.0%}); equal abilities: p = {p_value:.2g}."
    else:
        text = f"{reason[:1].upper()}{reason[1:]}."
    return _doubt(
        "signal",
        text,
        speaks=not has_signal,
        j=signal.j,
        low=signal.j_low,
        high=signal.j_high,
        p_equal_abilities=p_value,
    )


def _agreeing(grid: PairGrid, summary: Summary) -> Finding:
    if not grid.beyond:
        robust = summary.facts.standings.get("robust")
        if robust is None or not robust.groups:
            return _doubt("pairs", "No pair agrees far beyond what its two abilities explain.", speaks=False)
        alike = "; ".join(", ".join(group) for group in robust.groups)
        return _doubt(
            "pairs",
            f"The robust ranking counts as one partner, for their texts are alike: {alike}. By the answers, no pair of them "
            "agrees far beyond what its two abilities explain.",
            speaks=True,
            agents=tuple(agent for group in robust.groups for agent in group),
        )
    named = "; ".join(
        f"{pair.first} and {pair.second} ({pair.agreement:.2f}, {pair.residual:+.2f} beyond)"
        for pair in grid.beyond[:MANY]
    )
    more = f" and {len(grid.beyond) - MANY} more" if len(grid.beyond) > MANY else ""
    return _doubt(
        "pairs",
        f"Pairs that agree far beyond their abilities: {named}{more}. Copies, a shared template or a private word look like "
        "this, and so do agents of one family. They lift each other: read their texts, and rank with `--robust`.",
        speaks=True,
        agents=tuple(dict.fromkeys(agent for pair in grid.beyond for agent in (pair.first, pair.second))),
        n=len(grid.beyond),
    )


def _length(ability: Floats, evidence: Evidence, summary: Summary) -> Iterator[Finding]:
    """Yield the length warnings of the fit; without any, a note on how abilities correlate with length."""
    warnings = [finding for finding in summary.warnings if finding.slug == "length"]
    correlation = length_correlation(ability, evidence.pool.mean_length)
    if warnings or correlation is None:
        yield from warnings
    else:
        yield length_finding(*correlation)


def _halves(summary: Summary) -> Iterator[Finding]:
    if summary.partners is not None and summary.facts.partners is not None:
        correlation = summary.facts.partners.correlation
        yield _doubt("halves", summary.partners, speaks=correlation < HALVES, correlation=correlation)


def _absence(lines: Sequence[GroupLine]) -> Iterator[Finding]:
    if not lines:
        return
    worst = min(lines, key=lambda line: line.correlation or 0.0)
    correlation = worst.correlation or 0.0
    text = (
        f"Without one group as partners the other agents rank alike at ρ = {correlation:.2f} or more; least without "
        f"“{worst.group}”" + (f", where {worst.moved} moves {worst.most} places." if worst.most else ".")
    )
    yield _doubt("groups", text, speaks=correlation < WITHOUT, group=worst.group, correlation=correlation)


def _coalition(lines: Sequence[GroupLine]) -> Iterator[Finding]:
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
    now = [line.group for line in shares if (line.others or 0.0) > (line.inside or 0.0)]
    if now:
        text += f". As they answer now, agents outside {', '.join(f'“{group}”' for group in now)} agree more than those inside"
    yield _doubt("coalition", f"{text}.", speaks=False)


def _spread(share: float | None) -> Iterator[Finding]:
    if share is None:
        return
    text = f"{share:.0%} of all pairs agree on {AGREED:.0%} of the items or more"
    if share >= MOSTLY:
        text += (
            ": there is hardly any spread in this pool. What is left to rank may be length or style; harder items, or a judge "
            "that looks closer, would tell more."
        )
        yield _doubt("spread", text, speaks=True, share=share)
    else:
        yield _doubt("spread", f"{text}.", speaks=False, share=share)
