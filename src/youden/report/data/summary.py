"""What a run says in a few lines: the ranking, the facts behind it, the warnings. The terminal and `--json` show no more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from youden.data.folder.run_folder import RunFolder
from youden.pipeline.alternative_rankings import standing_line
from youden.pipeline.extension_facts import describe_extension
from youden.report.data.ranking_tables import (
    RankedAgent,
    current_labels,
    current_quality,
    headed_by,
    rank_agents,
    shown,
    shown_columns,
)
from youden.text.sentences import items_compared
from youden.text.tables import Table, bar, fixed, two_sided
from youden.types.columns import TableColumn
from youden.types.facts import LinkFacts
from youden.types.results import ABOUT, ScoreKind

ABILITY = (
    "Ability is how well others' responses let the judge recognise the same source, relative to this pool, this judge and these "
    "items. It rewards restating what others can be matched to (obscure or bureaucratic styles stand high, terse references "
    "low), and is no proof of correctness."
)


Link = tuple[ScoreKind, str, LinkFacts]
"""Which scores, by which link, and what their curl is."""


def links_table(links: Iterable[Link]) -> Table:
    """The curl of the scores on each link; sampled figures with their standard errors."""
    rows = (
        [
            scores,
            link,
            _with_error(curl.median, curl.median_error),
            _with_error(curl.p95, curl.p95_error),
            *(fixed(value, 2) for value in (curl.median_scaled, curl.p95_scaled)),
            fixed(curl.r2),
        ]
        for scores, link, curl in links
    )
    return two_sided("Curl", ["scores", "link"], ["median", "P95", "median per SD", "P95 per SD", "R²"], rows)


def _with_error(value: float, error: float | None) -> str:
    return fixed(value) if error is None else f"{fixed(value)} ± {fixed(error, 4)}"


MOST_CHANCES = 5


class Summary:
    """What the terminal, the first lines of a report and `--json` show of a fitted run.

    `n_compared` counts the items on which agents were compared; `n_missing_cells` is None for an imported run; `warnings` are
    findings of the run and of its labels; `labels`, `quality` and `moves` are None if they are not there or out of date.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Raises: RunFolderError if the folder has no fitted run."""
        facts, pool, signature = folder.read_facts(), folder.read_pool(), folder.read_signature()
        self.labels, stale = current_labels(folder)
        self.name, self.facts, self.calls = folder.path.resolve().name, facts, facts.calls
        self.n_agents, self.n_items, self.n_compared = len(pool.agents), len(pool.item_ids), folder.n_compared(pool)
        self.n_missing_cells = pool.n_missing
        leaders = (one.leader for one in facts.standings.values() if one.leader and facts.ranked_by == "plain")
        self.headline = " ".join([facts.recommendation.text, *leaders])
        self.warnings = facts.warnings if stale is None else (*facts.warnings, stale)
        self.ranking = rank_agents(headed_by(folder.read_ranking(), facts.ranked_by), pool, facts.choice)
        self.links = [(kind, link, row) for kind, table in facts.links.items() for link, row in table.items()]
        self.quality = current_quality(folder)
        self.moves = folder.read_moves() if folder.has("moves.json") else None
        judge = signature.parts.get("judge")
        self.judge, self.judged_on = judge if isinstance(judge, str) else None, _day(folder)
        self.signature, self.command, self.calibration = signature.text, folder.command(), folder.calibration

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """What the ranking shows of each agent beside places, ability and interval."""
        return shown_columns(self.ranking)

    def table(self, *, bar_cells: int, most: int | None = None) -> Table:
        """The ranking, best first. bar_cells: letters of an interval's bar, 0 for none; most: agents shown, None for all."""
        with_bar = bar_cells > 0
        grouped = any(agent.group for agent in self.ranking)
        heads = [
            "places",
            "agent",
            *["group"] * grouped,
            "ability",
            f"{self.facts.level:.0%} interval",
            *[""] * with_bar,
        ]
        rows = [
            [
                agent.places,
                agent.agent,
                *[agent.group or "–"] * grouped,
                fixed(agent.ability),
                f"{fixed(agent.low)} … {fixed(agent.high)}",
                *([_bar(agent, bar_cells)] if with_bar else []),
                *(shown(agent, column) for column in self.columns),
            ]
            for agent in self.ranking[:most]
        ]
        return Table(
            f"{self.name}: {self.n_agents} agents on {self.items}",
            [*heads, *(column.heading for column in self.columns)],
            "rl" + "l" * grouped + "rl" + "c" * with_bar + "r" * len(self.columns),
            rows,
        )

    @property
    def items(self) -> str:
        """`40 items`, or `40 items, of which 30 were compared`."""
        return items_compared(self.n_items, self.n_compared)

    @property
    def compared(self) -> str:
        """`30 of 40 items compared`, or `all 40 items compared`."""
        whole = self.n_compared == self.n_items
        return f"{f'all {self.n_items:,}' if whole else f'{self.n_compared:,} of {self.n_items:,}'} items compared"

    @property
    def spent(self) -> str:
        """`8,448 calls, $0.00`, or what is not known of it."""
        if self.calls is None:
            return "calls and cost not recorded"
        return f"{self.calls.n_calls:,} calls, {'cost ' if self.calls.usd is None else ''}{self.cost}"

    @property
    def cost(self) -> str:
        """`$1.20`, spent in all passes; `unknown` where a price is not known."""
        usd = None if self.calls is None else self.calls.usd
        if usd is None:
            return "unknown"
        return f"${usd:,.2f}" if usd == 0 or usd >= 0.01 else f"${usd:.4f}"

    @property
    def target(self) -> str:
        """What intervals and places describe, in one sentence."""
        return f"Intervals and places describe how these agents would do on {ABOUT[self.facts.target]}."

    @property
    def chances(self) -> str | None:
        """Probability of each agent of being the best, highest first; None if no other agent than those selected may be the best,
        if agents cannot be compared, or if the judge does not discriminate."""
        found = self.facts.choice
        if found is None or not found.as_good or not self.facts.signal.discriminates:
            return None
        shown = list(found.chances.items())[:MOST_CHANCES]
        rest = (
            f"; all others: {max(1 - sum(chance for _, chance in shown), 0.0):.2f}"
            if len(found.chances) > len(shown)
            else ""
        )
        return (
            f"Chance to be the best: {', '.join(f'{agent} {chance:.2f}' for agent, chance in shown)}{rest}. Where many agents "
            "are nearly level, the chance of the first is overstated."
        )

    @property
    def partners(self) -> str | None:
        """What the ranking owes to who else was in the pool, in words; None where that was not measured."""
        found = self.facts.partners
        if found is None:
            return None
        named = ", ".join(f"{agent} ({moved:.1f} places)" for agent, moved in found.agents)
        return (
            f"Two random halves of the partners rank agents alike at ρ = {found.correlation:.2f} (mean of {found.n_splits} "
            "splits; some of what differs is the chance of few answers)."
            + (f" Who else was in the pool matters most for {named}." if named else "")
        )

    @property
    def rectangles(self) -> str:
        """Which rectangles the curl is of, in words."""
        for _, _, curl in self.links:
            if curl.n_sampled is not None:
                return f"sampled: {curl.n_sampled:,} of {curl.n_rectangles:,} rectangles"
        return "exact over all rectangles"

    @property
    def standings(self) -> tuple[str, ...]:
        """What the rankings beside the plain one say, a sentence each."""
        return tuple(
            standing_line(name, facts, heads=name == self.facts.ranked_by)
            for name, facts in self.facts.standings.items()
            if not facts.message
        )

    @property
    def percent_of_dense(self) -> float | None:
        """Calls as percent of the dense design's 2K(K−1)J."""
        return None if self.calls is None else 100 * self.calls.n_calls / self.calls.n_dense_calls

    @property
    def moved(self) -> tuple[str, ...]:
        """What the last extension changed; empty for a run that was never extended."""
        return () if self.facts.growth is None else describe_extension(self.facts.growth)

    @property
    def missing_reasons(self) -> tuple[tuple[str, int], ...]:
        """Calls without an answer, by arm and reason."""
        if self.calls is None:
            return ()
        arms = (("paired", self.calls.missing_paired), ("independent", self.calls.missing_independent))
        return tuple((f"{arm} {reason}", n) for arm, reasons in arms for reason, n in reasons.items())


def _bar(agent: RankedAgent, cells: int) -> str:
    if agent.bar is None:
        return ""
    return bar(agent.bar.low, agent.bar.middle, agent.bar.low + agent.bar.width, cells=cells)


def _day(folder: RunFolder) -> str:
    answers = next((name for name in ("verdicts.parquet", "rates.parquet") if folder.has(name)), "ranking.csv")
    return datetime.fromtimestamp(folder.file(answers).stat().st_mtime, UTC).date().isoformat()
