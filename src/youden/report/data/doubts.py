"""When not to believe a ranking: everything that was looked at, what speaks against it, and what says nothing.

A ranking may follow something else than ability: length, one group's presence, a coalition, pairs that agree far beyond what
their abilities explain, or nothing at all. Thresholds stand where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from youden.types.pool import Bools, Floats, or_none

FEWEST = 5
"""With fewer agents a rank correlation says nothing."""


class GroupLine:
    """How a group of agents agrees, and how much it decides.

    `inside`, `across` and `others` are the mean agreement of pairs within the group, with others, and among others; `share`
    is the share of the pool from which on agents that always agree would beat the group; all None if one is not known,
    `share` also if the group agrees less inside. Without the group as partners, the others rank at `correlation` to the full
    ranking, and `moved` moves most, by `most` places; None for too few others.

    Notes
    -----
    share = (FF − FB)/((FF − FB) + (1 − FB)) for agreements FF inside and FB across: at a share p of agents that always agree, and
    agree with the group as the others do, (1 − p)·FF + p·FB = (1 − p)·FB + p.
    """

    def __init__(self, group: str, pairs: PairMeans, inside: Bools, *, residual: Floats, agents: Sequence[str]) -> None:
        """residual : float array (n_agents, n_agents): agreement less what the pair's two effects explain."""
        self.group, self.n_agents = group, int(inside.sum())
        self.inside: float | None = None
        self.across: float | None = None
        self.others: float | None = None
        self.share: float | None = None
        self.correlation: float | None = None
        self.moved: str | None = None
        self.most = 0
        outside = ~inside
        own, across = _mean_over(pairs, inside, inside), _mean_over(pairs, inside, outside)
        if across < 1 and not np.isnan(own):
            gap = own - across
            self.inside, self.across, self.others = own, across, _mean_over(pairs, outside, outside)
            self.share = gap / (gap + (1 - across)) if gap > 0 else None
        if inside.all() or outside.sum() < FEWEST:
            return
        whole, part = (
            _row_means(residual[:, partners], pairs.met[:, partners])[outside]
            for partners in (np.ones_like(inside), outside)
        )
        self.correlation = _spearman(whole, part)
        if self.correlation is not None:
            moved = np.abs(tied_places(whole) - tied_places(part))
            self.most = int(moved.max())
            self.moved = agents[int(np.flatnonzero(outside)[moved.argmax()])]


def group_lines(pairs: PairMeans, groups: Sequence[str | None], agents: Sequence[str]) -> list[GroupLine]:
    """Describe each group of which something is known, those with an agreement first. groups: one per agent, or None."""
    residual = pairs.mean - effects_of_pairs(
        pairs.met.astype(np.float64), np.where(pairs.met, pairs.mean, 0.0).sum(axis=1)
    )
    lines = []
    for group in dict.fromkeys(group for group in groups if group is not None):
        inside = np.array([name == group for name in groups], dtype=np.bool_)
        lines.append(GroupLine(group, pairs, inside, residual=residual, agents=agents))
    known = [line for line in lines if line.inside is not None or line.correlation is not None]
    return sorted(known, key=lambda line: line.inside is None)


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


def agreeing_share(of: PairMeans, *, least: float) -> float | None:
    """Share of the pairs that met whose agreement is `least` or more; None without a pair."""
    pairs = np.triu(of.met, 1)
    return float((of.mean[pairs] >= least).mean()) if pairs.any() else None


def _row_means(value: Floats, met: Bools) -> Floats:
    n = met.sum(axis=1)
    total = np.where(met, value, 0.0).sum(axis=1)
    mean: Floats = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    return mean


def _mean_over(pairs: PairMeans, rows: Bools, columns: Bools) -> float:
    chosen = pairs.met & rows[:, None] & columns
    return float(pairs.mean[chosen].mean()) if chosen.any() else float("nan")


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


class PairGrid:
    """Agreement of pairs and its residual, float (n, n), best agents first; bins of `agents_per_row` agents in a large pool.

    `linked` marks tiles with linked pairs; `clusters` names the agents that links connect; `beyond` has the linked pairs, the
    largest residual first.
    """

    def __init__(
        self,
        pairs: PairMeans,
        links: LinkedPairs,
        agents: Sequence[str],
        ranked: Sequence[str],
        *,
        most: int = MOST_A_SIDE,
    ) -> None:
        position = {agent: k for k, agent in enumerate(agents)}
        order = np.array([position[agent] for agent in ranked], dtype=np.int64)
        square = np.ix_(order, order)
        size = self.agents_per_row = max(1, -(-len(order) // most))
        off_diagonal = ~np.eye(len(order), dtype=np.bool_)
        self.names = edges(ranked, size)
        self.agreement, self.residual = (
            binned(np.where(off_diagonal, matrix[square], np.nan), size, size)
            for matrix in (pairs.mean, links.residual)
        )
        self.linked = binned((links.linked[square] & off_diagonal).astype(np.float64), size, size) > 0
        self.clusters = [tuple(agents[k] for k in cluster) for cluster in links.clusters]
        first, second = np.nonzero(np.triu(links.linked, 1))
        beyond = [
            BeyondPair(agents[i], agents[k], float(pairs.mean[i, k]), float(links.residual[i, k]))
            for i, k in zip(first.tolist(), second.tolist(), strict=True)
        ]
        self.beyond = sorted(beyond, key=lambda pair: -np.nan_to_num(pair.residual))


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
    grid = PairGrid(pairs, linked_pairs(pairs), agents, [row.agent for row in summary.ranking])
    found = [
        _signal(summary),
        _agreeing(grid, summary),
        *_length(ability, evidence, summary),
        *_halves(summary),
        *_absence([line for line in lines if line.correlation is not None]),
        *_coalition([line for line in lines if line.inside is not None]),
        *_spread(agreeing_share(pairs, least=AGREED)),
    ]
    return Doubts(grid, tuple(lines), tuple(sorted(found, key=lambda doubt: doubt.severity != "warning")))


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
