"""What a run's `fit.json` says, as plain facts: how the ranking was made, how far it can be trusted, what it took, whom to take,
and the rankings beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, get_args

from youden.run_keys import Target
from youden.types.columns import Meaning, columns_of, fields_of
from youden.types.finding import Finding
from youden.types.pool import Json
from youden.types.recommendation import NOT_MADE, UNKNOWN_SIGNAL, JudgeSignalFacts, Recommendation
from youden.types.results import ScoreKind

StandingName = Literal["robust", "family", "trusted"]
STANDINGS: tuple[StandingName, ...] = get_args(StandingName)
RankedBy = Literal["plain", "robust", "trusted"]


@dataclass(frozen=True)
class PartnerRules:
    """Whose word counts, and which ranking heads the run.

    trusted: ids of the panel, empty for none; families: agent id → family, for the agents that have one; an agent without one
    is a family of its own. ranked_by: `trusted` needs a panel. clones: agents that their texts show to be one, linked whatever
    their answers say.
    """

    ranked_by: RankedBy = "plain"
    trusted: tuple[str, ...] = ()
    families: Mapping[str, str] = field(default_factory=dict)
    clones: tuple[tuple[str, ...], ...] = ()

    def changed(
        self,
        *,
        robust: bool | None = None,
        trusted: Sequence[str] | None = None,
        families: Mapping[str, str] | None = None,
    ) -> PartnerRules:
        """Return rules with the given changes. A panel or `robust` replaces the other; an empty panel ranks by the plain rule."""
        rules = self if families is None else replace(self, families=dict(families))
        if trusted is not None:
            return replace(rules, trusted=tuple(trusted), ranked_by="trusted" if trusted else "plain")
        return rules if robust is None else replace(rules, trusted=(), ranked_by="robust" if robust else "plain")


@dataclass(frozen=True)
class RankingRow:
    """One line of `ranking.csv`: an agent by one ranking. None: the ability or its interval cannot be given.

    standings: this agent in the rankings beside the plain one, where it has a place in them.
    """

    agent: Annotated[str, Meaning("the agent")]
    group: Annotated[str | None, Meaning("its kind")]
    ability: Annotated[
        float | None,
        Meaning("its mean score over items and partners; empty where nothing is known", standing=True),
    ]
    low: Annotated[float | None, Meaning("lower end of the 95 % interval", standing=True)]
    high: Annotated[float | None, Meaning("upper end of the 95 % interval", standing=True)]
    rank_low: Annotated[int, Meaning("the best place, so that the places of all agents hold at once", standing=True)]
    rank_high: Annotated[int, Meaning("the worst place, so that the places of all agents hold at once", standing=True)]
    n_trials: Annotated[int, Meaning("comparisons with an answer that the agent was part of", heading="trials")]
    error: Annotated[float | None, Meaning("standard error of its distance from the average agent", standing=True)]
    place_low: Annotated[int, Meaning("the best place that this agent can hold", standing=True)]
    place_high: Annotated[int, Meaning("the worst place that this agent can hold", standing=True)]
    standings: Mapping[StandingName, RankingRow] = field(default_factory=dict)

    @property
    def as_json(self) -> dict[str, Json]:
        """Column by column, and each standing with the columns that standings have."""
        return {
            **fields_of(self),
            "standings": {
                name: {column: getattr(row, column) for column in STANDING} for name, row in self.standings.items()
            },
        }


STANDING = tuple(column.name for column in columns_of(RankingRow) if column.standing)
"""Columns of `ranking.csv` that the rankings beside the plain one have too, with their name before: `robust_ability`, …"""


@dataclass(frozen=True)
class StandingMove:
    """An agent's place by the plain ranking and by this one; 1 is first."""

    agent: str
    plain: int
    place: int


@dataclass(frozen=True)
class StandingFacts:
    """What one of these rankings says.

    groups: clusters, families of two and more, or the panel. best, told_apart: as of the plain ranking. moves: agents whose place
    differs, furthest first. leader: that the plain ranking's leader falls in this one, in words, else empty. message: why there
    is no such ranking, else empty.
    """

    groups: tuple[tuple[str, ...], ...]
    best: str | None
    told_apart: int
    moves: tuple[StandingMove, ...]
    leader: str = ""
    message: str = ""


@dataclass(frozen=True)
class LinkFacts:
    """One link's line of the curl table.

    median, p95: of |Δ| over all rectangles, in the link's unit; over n_sampled of them where there are too many (None: all), with
    standard errors median_error and p95_error. sd: of the transformed observed scores, 0 where they are
    all equal. median_scaled, p95_scaled: divided by sd; r2: of ability − difficulty fitted on the link scale; these three
    are None where sd is 0, for nothing varies that could be scaled or explained.
    """

    median: float
    p95: float
    sd: float
    median_scaled: float | None
    p95_scaled: float | None
    r2: float | None
    n_rectangles: int
    n_sampled: int | None = None
    median_error: float | None = None
    p95_error: float | None = None


@dataclass(frozen=True)
class HoldoutFacts:
    """How well held-out cells were predicted: RMSE over n cells with its interval (None: too few cells)."""

    n_cells: int
    rule: str
    rmse: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class CallFacts:
    """What was asked and what came back. missing: reason → calls, by arm. usd: spent in all passes of the run, those that were
    interrupted too, None where a price is unknown; usd_calibration: how much of it its calibration paid for answers used here.

    n_reused: answered from the store by calls that were not made for this run, such as its calibration's or another run's; usd
    leaves out what other runs paid.
    """

    n_paired: int
    n_independent: int
    n_dense_calls: int
    n_cells: int
    missing_paired: dict[str, int] = field(default_factory=dict)
    missing_independent: dict[str, int] = field(default_factory=dict)
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0
    seconds_mean: float | None = None
    models: tuple[str, ...] = ()
    n_reused: int = 0
    usd_calibration: float | None = 0.0

    @property
    def n_calls(self) -> int:
        return self.n_paired + self.n_independent

    @property
    def usd_per_call(self) -> float | None:
        """Mean cost in USD of the calls that were made for this run; None if it made none or their price is unknown.

        Answers that the store had from another run, or from the calibration, say nothing of it.
        """
        n = self.n_calls - self.n_reused
        return None if self.usd is None or n < 1 else (self.usd - (self.usd_calibration or 0.0)) / n

    @property
    def n_missing(self) -> int:
        return sum(self.missing_paired.values()) + sum(self.missing_independent.values())


@dataclass(frozen=True)
class AgentMove:
    """An agent before and after a run grew. place: by ability, 1 is first, among the agents of that time.

    drift: how much abler it is by the new answers alone than by those before, on the scale of abilities, with its standard
    error; p: two-sided, Holm's correction for all agents; None where the new answers do not tell.
    """

    agent: str
    before: float | None
    after: float | None
    place_before: int
    place_after: int
    drift: float | None = None
    error: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class ExtensionFacts:
    """What the last extension of a run changed.

    joined, joined_items: agents and items that are new; n_calls: of both arms. level: how much higher the same comparisons of
    old agents are answered on the same items now, with its two-sided p; None where nothing of the kind was asked.
    answered_anew: the judge makes no calls, so that 'before' is what it says today of what was asked before.
    """

    kind: str
    n_calls: int
    joined: tuple[str, ...]
    joined_items: tuple[str, ...]
    moves: tuple[AgentMove, ...]
    level: float | None
    level_p: float | None
    answered_anew: bool = False


@dataclass(frozen=True)
class PartnerFacts:
    """How much the ranking owes to who else was in the pool, from random halves of the agents taken as partners.

    correlation: Spearman of the two halves' rankings, mean over n_splits; agents: those that move most, with the places between
    their two places on average.
    """

    correlation: float
    n_splits: int
    agents: tuple[tuple[str, float], ...]


CHANCE = "the chance that it is the best; told too high for the first where many are level"


@dataclass(frozen=True)
class ChoiceFacts:
    """The selected agents with their regret bound, by the ranking that heads the run.

    agents: the one that came first, or as many as the run looked for; within: how much better than each of them the best can be
    at most (of several: the last one that belongs among so many best), with `level`; 0 where they are told apart from everybody.
    as_good: others that may be the best, by ability. low, high: an interval of the first one's ability that allows for its having
    come first. chances: that an agent is the best, of all agents, highest first, see `CHANCE`; regret: by how much the best is
    better than the first one, on average. In units of abilities.
    """

    agents: tuple[str, ...]
    within: float
    level: float
    as_good: tuple[str, ...]
    low: float
    high: float
    chances: Mapping[str, float]
    regret: float


@dataclass(frozen=True)
class RunFacts:
    """The whole of `fit.json`.

    ranking: estimator and interval method behind `ranking.csv`; estimator: what abilities − difficulties come from.
    fpr: pooled false-positive rate, None without independent answers. links: per score kind, then per link; empty for a kind
    without a complete rectangle, then `links_missing` says why. growth: None for a run that was never extended. partners: None
    where too few agents were compared.

    target: what intervals are about; best: the agent told apart from everybody, None where there is none; told_apart: pairs of
    agents whose difference is told from 0. choice: the selected agents with their regret bound, None if some cannot be compared.
    signal: how well the judge discriminates; recommendation: what follows from `choice` and `signal`.

    ranked_by: the ranking that heads the run, which best, told_apart and the order of `ranking.csv` follow. standings: the
    rankings beside the plain one; families, trusted: what two of them were made from.
    """

    version: int
    ranking: str
    interval: str
    level: float
    estimator: str
    status: str
    message: str
    kkt: float
    n_components: int
    r2: float | None
    fpr: float | None
    calls: CallFacts | None
    holdout: HoldoutFacts | None
    links: dict[ScoreKind, dict[str, LinkFacts]]
    links_missing: dict[ScoreKind, str]
    warnings: tuple[Finding, ...]
    target: Target
    best: str | None
    told_apart: int
    choice: ChoiceFacts | None = None
    growth: ExtensionFacts | None = None
    partners: PartnerFacts | None = None
    ranked_by: RankedBy = "plain"
    standings: dict[StandingName, StandingFacts] = field(default_factory=dict)
    families: dict[str, str] = field(default_factory=dict)
    trusted: tuple[str, ...] = ()
    signal: JudgeSignalFacts = UNKNOWN_SIGNAL
    recommendation: Recommendation = NOT_MADE
