"""Check whether a ranking may reflect something other than ability: length, one group, a coalition, or flagged groups.

Every check returns a finding, also if it found no problem, so that a report lists what was checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from youden.pipeline.text_length import length_correlation, make_length_finding
from youden.report.data.evidence import Evidence
from youden.report.data.grids import average_bins, label_bins
from youden.report.data.summary import Summary
from youden.stats.base.metrics import rank_correlation
from youden.stats.base.pair_chunks import fit_pair_effects
from youden.stats.flagged_groups import fit_robust_effects
from youden.stats.partners import PairMeans
from youden.stats.trials.comparisons import rank_with_ties
from youden.text.tables import Table, format_decimal
from youden.types.finding import Fact, Finding
from youden.types.pool import Bools, Floats, Positions, or_none
from youden.types.recommendation import explain_few_agents

MIN_AGENTS = 5
"""Minimum number of agents for a rank correlation."""


class GroupLine:
    """Agreement within a group of agents, and the influence of the group on the ranking.

    Attributes
    ----------
    group : str
        Name of the group.
    n_agents : int
        Number of its agents.
    inside, across, outside : float or None
        Mean agreement of pairs within the group, of its agents with other agents, and among other agents; None if one
        of these is unknown.
    min_coalition_share : float or None
        A coalition is a set of agents that always agree with each other. It ranks above the group if it is at least this
        fraction of the pool. None if the group agrees less inside than across.
    correlation : float or None
        Spearman correlation of the ranking of the other agents with and without the group as partners; None if there
        are too few others.
    most_moved : str or None
        Agent whose rank changes most without the group; None if `correlation` is None.
    max_change : int
        Change of its rank.

    Notes
    -----
    min_coalition_share = (FF − FB)/((FF − FB) + (1 − FB)) for agreements FF inside and FB across. This is the share p at
    which the mean agreements of the group and of the coalition are equal: (1 − p)·FF + p·FB = (1 − p)·FB + p, if the coalition
    agrees with the group as other agents do.
    """

    def __init__(
        self, group: str, pairs: PairMeans, is_member: Bools, *, residual: Floats, agents: Sequence[str]
    ) -> None:
        """Measure one group.

        Parameters
        ----------
        group : str
            Name of the group.
        pairs : PairMeans
            Mean agreement of each pair of agents.
        is_member : bool array (n_agents,)
            Whether an agent belongs to the group.
        residual : float array (n_agents, n_agents)
            Agreement of agents i (row) and k (column) minus the effect of agent k. The mean of a row therefore estimates the
            effect of agent i.
        agents : sequence of str
            Ids of the agents, by position.
        """
        self.group = group
        self.n_agents = int(is_member.sum())
        self.inside: float | None = None
        self.across: float | None = None
        self.outside: float | None = None
        self.min_coalition_share: float | None = None
        self.correlation: float | None = None
        self.most_moved: str | None = None
        self.max_change = 0
        is_outside = ~is_member
        within_group = _average_agreement(pairs, is_member, is_member)
        across = _average_agreement(pairs, is_member, is_outside)
        if across < 1 and not np.isnan(within_group):
            gap = within_group - across
            self.inside, self.across = within_group, across
            self.outside = _average_agreement(pairs, is_outside, is_outside)
            self.min_coalition_share = gap / (gap + (1 - across)) if gap > 0 else None
        if is_member.all() or is_outside.sum() < MIN_AGENTS:
            return

        # abilities of the other agents by all partners, and without the group as partners
        by_all = _average_rows(residual, pairs.compared)[is_outside]
        without_group = _average_rows(residual[:, is_outside], pairs.compared[:, is_outside])[is_outside]
        self.correlation = _spearman(by_all, without_group)
        if self.correlation is not None:
            change = np.abs(rank_with_ties(by_all) - rank_with_ties(without_group))
            outside_positions = np.flatnonzero(is_outside)
            self.max_change = int(change.max())
            self.most_moved = agents[int(outside_positions[change.argmax()])]


def measure_groups(pairs: PairMeans, groups: Sequence[str | None], agents: Sequence[str]) -> list[GroupLine]:
    """Measure the agreement within each group of agents, and the influence of the group on the ranking of other agents.

    Parameters
    ----------
    pairs : PairMeans
        Mean agreement of each pair of agents: symmetric float arrays (n_agents, n_agents), NaN for pairs that were not compared.
    groups : sequence of str or None
        Name of the group of each agent; None if it has none.
    agents : sequence of str
        Ids of the agents, in the order of `groups` and of the rows of `pairs`.

    Returns
    -------
    list of GroupLine
        One entry per group. `inside`, `across` and `outside` are the mean agreements within the group, of its agents with other
        agents, and among other agents. `correlation` is the influence of the group. `most_moved` is the agent whose rank changes
        most without the group, and `max_change` is the absolute change. If the influence is unknown, `max_change` is 0; other
        unknown measures are None. If `outside` is the only unknown agreement, it is NaN. A group is left out if neither agreement
        nor influence could be measured. Groups with a known agreement come first; otherwise, groups are in the order of their
        first agents.

    Notes
    -----
    The influence of a group is Spearman's ρ between two rankings of the other agents: with and without the agents of the
    group as partners. It needs at least five agents outside the group.
    """
    # In the additive model, the agreement of a pair is the sum of the effects of the row and the column.
    # Each entry minus the effect of its column is therefore an estimate of the effect of its row.
    agreement_sum = np.where(pairs.compared, pairs.mean, 0.0).sum(axis=1)
    effect = fit_pair_effects(pairs.compared.astype(np.float64), agreement_sum)
    residual = pairs.mean - effect[None, :]

    measured_groups = []
    names_of_groups = [name for name in dict.fromkeys(groups) if name is not None]
    for group_name in names_of_groups:
        is_member = np.array([name == group_name for name in groups], dtype=np.bool_)
        measures = GroupLine(group_name, pairs, is_member, residual=residual, agents=agents)
        if measures.inside is not None or measures.correlation is not None:
            measured_groups.append(measures)
    return sorted(measured_groups, key=lambda measures: measures.inside is None)


def build_groups_table(lines: Sequence[GroupLine]) -> Table:
    """Tabulate the agreement of agents within and across groups, and the influence of each group on the ranking.

    The table has one row per group, with these columns:

    - "inside", "across": agreement of the agents of the group with each other, and with other agents
    - "loses from": percentage of the pool that, by always agreeing with each other, would rank above the group
    - "without it": correlation of the rankings of the other agents with and without the group as partners
    - "moves most": agent whose rank differs most between these rankings
    """
    rows = []
    for line in lines:
        inside, across = format_decimal(line.inside, 2), format_decimal(line.across, 2)
        coalition = "–" if line.min_coalition_share is None else f"{100 * line.min_coalition_share:.0f}%"
        correlation = format_decimal(line.correlation, 2)
        most_moved_agent = f"{line.most_moved} ({line.max_change})" if line.max_change else "–"
        rows.append([line.group, str(line.n_agents), inside, across, coalition, correlation, most_moved_agent])
    headings = ["group", "agents", "inside", "across", "loses from", "without it", "moves most"]
    return Table("Group by group", headings, "lrrrrrl", rows)


def agreeing_fraction(pairs: PairMeans, *, min_agreement: float) -> float | None:
    """Return the fraction of compared pairs that agree on at least `min_agreement` of the items; None without such pairs."""
    is_compared = np.triu(pairs.compared, 1)
    if not is_compared.any():
        return None
    return float((pairs.mean[is_compared] >= min_agreement).mean())


def _average_rows(value: Floats, is_selected: Bools) -> Floats:
    """Average the selected values in each row of a matrix; NaN for a row without any."""
    n = is_selected.sum(axis=1)
    total = np.where(is_selected, value, 0.0).sum(axis=1)
    mean: Floats = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    return mean


def _average_agreement(pairs: PairMeans, rows: Bools, columns: Bools) -> float:
    """Average the agreement of the compared pairs of one agent in `rows` and one in `columns`, bool arrays (n_agents,).

    NaN if no such pair was compared.
    """
    is_selected = pairs.compared & rows[:, None] & columns
    return float(pairs.mean[is_selected].mean()) if is_selected.any() else float("nan")


def _spearman(x: Floats, y: Floats) -> float | None:
    """Compute Spearman's ρ over positions that are valid in both arrays; None if there are too few, or if one is constant."""
    valid = ~np.isnan(x + y)
    if valid.sum() < MIN_AGENTS:
        return None
    return or_none(rank_correlation(x[valid], y[valid]))


MAX_AGENTS_PER_SIDE = 100
"""Number of agents above which matrices of pairs are drawn in bins; the figure states it."""


@dataclass(frozen=True)
class GroupAgreement:
    """Agreement of a group of flagged agents."""

    agents: tuple[str, ...]
    """Ids of the agents."""
    agreement: float
    """Mean agreement of its pairs; NaN if none was compared."""
    residual: float
    """Mean agreement minus the sum of the effects of both agents; NaN if no pair was compared."""

    def __str__(self) -> str:
        ids = ", ".join(self.agents)
        if np.isnan(self.agreement):
            return ids
        return f"{ids} (agreement {self.agreement:.2f}, residual {self.residual:+.2f})"


class PairGrid:
    """Agreement of pairs and its residual for drawing, best agents first; in bins for a large pool.

    Attributes
    ----------
    agents_per_row : int
        Number of agents in a bin.
    names : tuple of str
        Labels of the bins.
    agreement, residual : float array (n_bins, n_bins)
        Mean agreement, and mean agreement minus the sum of the effects of both agents.
    flagged : bool array (n_bins, n_bins)
        Whether a bin contains two agents of one flagged group.
    groups : list of GroupAgreement
        Flagged groups.
    """

    def __init__(
        self, pairs: PairMeans, groups: Sequence[tuple[str, ...]], agents: Sequence[str], ranked: Sequence[str]
    ) -> None:
        """Arrange the agreement of pairs of agents in a matrix, with the agents in the order of the ranking.

        Parameters
        ----------
        pairs : PairMeans
            Mean agreement of each pair of agents.
        groups : sequence of (tuple of str)
            Ids of the agents of each flagged group.
        agents, ranked : sequence of str
            Ids of the agents by position, and the same ids in the order of the ranking, best first.
        """
        position_by_agent = {agent: position for position, agent in enumerate(agents)}
        effect = fit_robust_effects(pairs)
        residual = pairs.mean - effect[:, None] - effect[None, :]

        is_flagged = np.zeros(residual.shape)
        self.groups = []
        for group in groups:
            members = np.array([position_by_agent[agent] for agent in group])
            is_flagged[np.ix_(members, members)] = 1.0
            self.groups.append(_measure_flagged_group(group, members, pairs, residual))

        # matrices with the agents in the order of the ranking, NaN on the diagonal
        order = np.array([position_by_agent[agent] for agent in ranked], dtype=np.int64)
        ranked_square = np.ix_(order, order)
        off_diagonal = ~np.eye(len(order), dtype=np.bool_)
        agreement = np.where(off_diagonal, pairs.mean[ranked_square], np.nan)
        ranked_residual = np.where(off_diagonal, residual[ranked_square], np.nan)

        bin_size = max(1, math.ceil(len(order) / MAX_AGENTS_PER_SIDE))
        self.agents_per_row = bin_size
        self.names = label_bins(ranked, bin_size)
        self.agreement = average_bins(agreement, bin_size, bin_size)
        self.residual = average_bins(ranked_residual, bin_size, bin_size)
        self.flagged = average_bins(is_flagged[ranked_square] * off_diagonal, bin_size, bin_size) > 0


def _measure_flagged_group(
    group: tuple[str, ...], members: Positions, pairs: PairMeans, residual: Floats
) -> GroupAgreement:
    """Average the agreement and the residual agreement over all pairs of agents in a flagged group.

    Both means are NaN if no pair was compared.

    members : int array (n_members,), positions of the agents of the group
    residual : float array (n_agents, n_agents), agreement minus the effects of both agents
    """
    first_members, second_members = np.triu_indices(len(members), 1)  # each pair once
    first, second = members[first_members], members[second_members]
    is_compared = pairs.compared[first, second]
    if not is_compared.any():
        return GroupAgreement(group, np.nan, np.nan)
    mean_agreement = float(pairs.mean[first, second][is_compared].mean())
    mean_residual = float(residual[first, second][is_compared].mean())
    return GroupAgreement(group, mean_agreement, mean_residual)


MIN_SPLIT_HALF_RHO = 0.8
"""Spearman correlation below which random halves of the partners change the ranking too much."""
MIN_RHO_WITHOUT_GROUP = 0.9
"""Spearman correlation below which the absence of one group changes the ranking too much."""
HIGH_AGREEMENT = 0.8
"""Fraction of the items on which two agents agree for the pair to count as agreeing."""
MAX_AGREEING_PAIRS = 0.5
"""A pool has too little spread if at least this fraction of its pairs agree. ICLR has .72, the paper's other domains at
most .30."""


@dataclass(frozen=True, eq=False)
class RankingChecks:
    """Results of all checks of a ranking."""

    pairs: PairGrid | None
    """Agreement of pairs; None if no two agents were compared."""
    groups: tuple[GroupLine, ...]
    """Agreement and influence of groups."""
    findings: tuple[Finding, ...]
    """One or more findings per check, warnings first."""

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that question the ranking."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    @property
    def passed(self) -> tuple[Finding, ...]:
        """Findings of checks that detected no problem."""
        return tuple(finding for finding in self.findings if finding.severity != "warning")


def check_ranking(evidence: Evidence, summary: Summary) -> RankingChecks:
    """Check whether a ranking may reflect something other than ability: collusion, length, or the choice of agents.

    Parameters
    ----------
    evidence : Evidence
        Tables of the run.
    summary : Summary
        Summary of the run.

    Returns
    -------
    RankingChecks
        Agreement of the pairs and groups of agents, and the findings of all checks, warnings first. A check without a problem
        has a finding, too. If no two agents were compared, only the judge's discrimination of the agents is checked.
    """
    agents = evidence.agent_ids
    pairs = evidence.pairs
    if pairs is None:
        return RankingChecks(None, (), (_check_signal(summary),))

    group_by_agent = evidence.pool.groups
    groups = [group_by_agent.get(agent) for agent in agents]
    measured_groups = measure_groups(pairs, groups, agents)

    robust_ranking = summary.facts.alternative_rankings.get("robust")
    flagged_groups = () if robust_ranking is None else robust_ranking.groups
    ranked_agents = [row.agent for row in summary.ranking]
    pair_grid = PairGrid(pairs, flagged_groups, agents, ranked_agents)

    findings = list(_iter_check_findings(evidence, summary, pair_grid, measured_groups))
    fraction_of_agreeing_pairs = agreeing_fraction(pairs, min_agreement=HIGH_AGREEMENT)
    findings += _check_widespread_agreement(fraction_of_agreeing_pairs)
    findings.sort(key=lambda finding: finding.severity != "warning")
    return RankingChecks(pair_grid, tuple(measured_groups), tuple(findings))


def _iter_check_findings(
    evidence: Evidence, summary: Summary, pair_grid: PairGrid, groups: Sequence[GroupLine]
) -> Iterator[Finding]:
    """Run the checks of a ranking for which pairs of agents were measured, and yield their findings.

    evidence : tables of the fit
    summary : ranking and facts of the run
    pair_grid : measures of all pairs of agents
    groups : measures of each group of agents
    """
    yield _check_signal(summary)
    yield _check_pairs(pair_grid, n_agents=len(evidence.agent_ids))

    ability_by_agent = {row.agent: row.ability for row in summary.ranking}
    ability = np.array([ability_by_agent[agent] for agent in evidence.agent_ids], dtype=np.float64)  # None becomes NaN
    yield from _check_length(ability, evidence, summary)
    yield from _check_split_half(summary)
    yield from _check_group_influence([line for line in groups if line.correlation is not None])
    yield from _check_coalitions([line for line in groups if line.inside is not None])


def _make_finding(slug: str, message: str, *, is_problem: bool, agents: tuple[str, ...] = (), **facts: Fact) -> Finding:
    """Make the finding of a check: a warning if it is a problem, otherwise a note."""
    return Finding(slug, message, severity="warning" if is_problem else "note", agents=agents, facts=facts)


def _check_signal(summary: Summary) -> Finding:
    """Report whether the answers of the judge distinguish the agents, by two tests.

    The judge must discriminate (J = TPR − FPR is significantly above 0), and the abilities must differ significantly.
    """
    signal = summary.facts.signal
    p_value = signal.p_equal_abilities
    passes_both_tests = signal.discriminates and signal.separates_agents
    if passes_both_tests:
        text = f"The judge separates these agents: {signal.j_text} ({signal.level:.0%}); equal abilities: p = {p_value:.2g}."
    else:
        failed_test = summary.facts.recommendation.reason  # states which test failed
        text = f"{failed_test[:1].upper()}{failed_test[1:]}."
    return _make_finding(
        "signal",
        text,
        is_problem=not passes_both_tests,
        j=signal.j,
        low=signal.j_low,
        high=signal.j_high,
        p_equal_abilities=p_value,
    )


def _check_pairs(grid: PairGrid, *, n_agents: int) -> Finding:
    """Report the flagged groups of agents, or that there are none, or that the run has too few agents to flag any.

    A group is flagged if its agents have similar texts, or agree more than any group of honest agents in recorded runs.

    grid : agreement of all pairs, with the flagged groups
    n_agents : number of agents of the run
    """
    few_agents = explain_few_agents(n_agents)
    if few_agents:
        return _make_finding("few-agents", few_agents, is_problem=True, n=n_agents)
    if not grid.groups:
        return _make_finding("pairs", "No group of agents agrees more than honest groups on record.", is_problem=False)

    group_texts = "; ".join(map(str, grid.groups))
    return _make_finding(
        "pairs",
        f"These agents have similar texts, or agree more than any honest group on record: {group_texts}. "
        "Copies, a shared template or a code word have this effect. Such agents raise each other's abilities. Check their "
        "texts, and rank with `--robust`.",
        is_problem=True,
        agents=tuple(agent for group in grid.groups for agent in group.agents),
        n=len(grid.groups),
    )


def _check_length(ability: Floats, evidence: Evidence, summary: Summary) -> Iterator[Finding]:
    """Report the warnings of the fit about length; if there are none, how abilities correlate with the length of responses."""
    warnings = [finding for finding in summary.warnings if finding.slug == "length"]
    correlation = length_correlation(ability, evidence.pool.mean_length)
    if warnings or correlation is None:
        yield from warnings
    else:
        yield make_length_finding(*correlation)


def _check_split_half(summary: Summary) -> Iterator[Finding]:
    """Report how well the rankings by two random halves of the partners agree, if it was measured."""
    if summary.partners_text is not None and summary.facts.partners is not None:
        correlation = summary.facts.partners.split_half_rho
        yield _make_finding(
            "halves", summary.partners_text, is_problem=correlation < MIN_SPLIT_HALF_RHO, correlation=correlation
        )


def _check_group_influence(groups: Sequence[GroupLine]) -> Iterator[Finding]:
    """Report the group on which the ranking of the other agents depends most.

    The other agents are ranked twice: with all comparisons, and without their comparisons with the group. The lower the
    correlation of the two rankings, the more the ranking depends on the group.

    groups : groups for which this correlation is known; nothing is reported without such groups
    """
    if not groups:
        return

    most_influential = min(groups, key=lambda group: group.correlation or 0.0)
    correlation = most_influential.correlation or 0.0
    text = (
        f"If a single group is left out as partners, the ranking of the other agents correlates with the full ranking at ρ = "
        f"{correlation:.2f} or more. It changes most without “{most_influential.group}”"
    )
    moved_agents: tuple[str, ...] = ()
    if most_influential.most_moved is not None and most_influential.max_change:
        moved_agents = (most_influential.most_moved,)
        text += f", where {most_influential.most_moved} moves by {most_influential.max_change} ranks"
    yield _make_finding(
        "groups",
        f"{text}.",
        is_problem=correlation < MIN_RHO_WITHOUT_GROUP,
        agents=moved_agents,
        group=most_influential.group,
        correlation=correlation,
    )


def _check_coalitions(groups: Sequence[GroupLine]) -> Iterator[Finding]:
    """Report how large a coalition, a set of agents that always agree, must be to rank above each group of agents.

    The size is `min_coalition_share`, a fraction of the pool. It is None for a divided group, whose agents do not agree more with
    each other than with other agents.

    groups : groups with a known agreement; nothing is reported if there are none
    """
    if not groups:
        return

    sentences = []
    united_groups = [group for group in groups if group.min_coalition_share is not None]
    if united_groups:
        sizes = [
            f"above “{group.group}” from {group.min_coalition_share:.0%} of the pool on" for group in united_groups
        ]
        sentences.append(f"Agents that always agree would rank {', '.join(sizes)}.")

    divided_groups = [group.group for group in groups if group.min_coalition_share is None]
    if divided_groups:
        sentences.append(f"Agents of {_quote_all(divided_groups)} agree less with each other than with other agents.")

    # groups whose agents agree less with each other than the agents outside of the group do
    less_united_groups = [group.group for group in united_groups if (group.outside or 0.0) > (group.inside or 0.0)]
    if less_united_groups:
        sentences.append(
            f"At present, agents outside {_quote_all(less_united_groups)} agree more with each other than those inside."
        )
    yield _make_finding("coalition", " ".join(sentences), is_problem=False)


def _quote_all(names: Sequence[str]) -> str:
    """Quote names, and join them by commas."""
    return ", ".join(f"“{name}”" for name in names)


def _check_widespread_agreement(fraction: float | None) -> Iterator[Finding]:
    """Report whether most pairs of agents agree on most items, so that the agents hardly differ.

    `fraction` is the fraction of pairs that agree on most items. If no pair was compared, it is None, and nothing is reported.
    """
    if fraction is None:
        return
    text = f"{fraction:.0%} of all pairs agree on {HIGH_AGREEMENT:.0%} of the items or more."
    is_problem = fraction >= MAX_AGREEING_PAIRS
    if is_problem:
        text += (
            " The agents hardly differ, so the ranking may follow length or style. Add harder items, or use a judge that "
            "discriminates better."
        )
    yield _make_finding("spread", text, is_problem=is_problem, share=fraction)
