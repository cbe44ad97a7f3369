"""Records in the `fit.json` of a run: estimators, costs, checks, selection and alternative rankings.

They hold only plain values, so that a report needs no array and JSON has the same structure as the classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Literal, get_args

from youden.run_keys import Target
from youden.types.columns import Meaning, columns_of, fields_of
from youden.types.finding import Finding
from youden.types.payments import RunPayments
from youden.types.pool import Json
from youden.types.recommendation import NOT_MADE, UNKNOWN_SIGNAL, JudgeSignalFacts, Recommendation
from youden.types.results import ScoreKind

AlternativeRanking = Literal["robust", "family", "trusted"]
"""Name of an alternative ranking."""
ALTERNATIVE_RANKINGS: tuple[AlternativeRanking, ...] = get_args(AlternativeRanking)
"""All alternative rankings, in the order in which they are displayed."""
RankedBy = Literal["plain", "robust", "trusted"]
"""Ranking that the run reports first."""


@dataclass(frozen=True)
class PartnerRules:
    """How an agent's partners, the agents that it was compared with, are weighted, and which ranking is reported first."""

    ranked_by: RankedBy = "plain"
    """Ranking that the run reports first; "trusted" requires `trusted`."""
    trusted: tuple[str, ...] = ()
    """Ids of the trusted panel; empty if there is none."""
    families: Mapping[str, str] = field(default_factory=dict)
    """Agent id → family. An agent that is not listed forms a family alone."""
    clones: tuple[tuple[str, ...], ...] = ()
    """Groups of agents with nearly identical texts; they are flagged without regard to their answers."""

    def with_changes(
        self,
        *,
        robust: bool | None = None,
        trusted: Sequence[str] | None = None,
        families: Mapping[str, str] | None = None,
    ) -> PartnerRules:
        """Return a copy of these rules in which the given arguments replace the old values.

        In the trusted ranking, an agent is compared only with the agents of a trusted panel.

        Parameters
        ----------
        robust : bool, optional
            True to report the robust ranking first, in which a group of suspiciously similar agents counts as one agent; False
            for the plain ranking. Both remove a trusted panel. Ignored if `trusted` is given.
        trusted : sequence of str, optional
            Ids of the agents of the trusted panel. The trusted ranking is then reported first. An empty sequence removes the
            panel and reports the plain ranking first.
        families : mapping, optional
            Agent id → family; replaces all old families. In the family ranking, agents of one family do not score each other.

        Returns
        -------
        PartnerRules
            New rules. If an argument is None, it changes nothing. The groups of near-duplicate agents (`clones`) are kept.
        """
        rules = self
        if families is not None:
            rules = replace(rules, families=dict(families))

        if trusted is not None:
            ranked_by: RankedBy = "trusted" if trusted else "plain"
            return replace(rules, trusted=tuple(trusted), ranked_by=ranked_by)
        if robust is not None:
            ranked_by = "robust" if robust else "plain"
            return replace(rules, trusted=(), ranked_by=ranked_by)
        return rules


@dataclass(frozen=True)
class RankingRow:
    """Row of `ranking.csv`: one agent in the plain ranking. The annotations describe the columns.

    `ability`, `low`, `high` and `std_error` are None if they cannot be estimated.
    """

    agent: Annotated[str, Meaning("id of the agent")]
    group: Annotated[str | None, Meaning("group of the agent, for display; may be empty")]
    ability: Annotated[
        float | None,
        Meaning("mean score over items and partners; empty if it cannot be estimated", alternative=True),
    ]
    low: Annotated[float | None, Meaning("lower bound of the 95% confidence interval", alternative=True)]
    high: Annotated[float | None, Meaning("upper bound of the 95% confidence interval", alternative=True)]
    simultaneous_rank_low: Annotated[
        int, Meaning("best rank of the simultaneous 95% rank interval, for all agents", alternative=True)
    ]
    simultaneous_rank_high: Annotated[
        int, Meaning("worst rank of the simultaneous 95% rank interval", alternative=True)
    ]
    n_trials: Annotated[
        int,
        Meaning(
            "number of answered paired trials from which its ability is estimated; a trial counts for both agents",
            heading="trials",
        ),
    ]
    std_error: Annotated[
        float | None, Meaning("standard error of the distance from the average ability", alternative=True)
    ]
    rank_low: Annotated[int, Meaning("best rank of the 95% rank interval of this agent alone", alternative=True)]
    rank_high: Annotated[int, Meaning("worst rank of the 95% rank interval of this agent alone", alternative=True)]
    self_consistency: Annotated[
        float | None,
        Meaning("J = TPR − FPR of self-trials, only in runs with `self_trials`; empty without two responses", "self"),
    ] = None
    self_consistency_low: Annotated[
        float | None, Meaning("lower bound of its 95% interval", "self low", in_terminal=False)
    ] = None
    self_consistency_high: Annotated[
        float | None, Meaning("upper bound of its 95% interval", "self high", in_terminal=False)
    ] = None
    n_unanswered: Annotated[
        int | None,
        Meaning(
            "number of its paired trials that the judge did not answer, for example refusals; empty for imported scores"
        ),
    ] = None
    alternative_rankings: Mapping[AlternativeRanking, RankingRow] = field(default_factory=dict)
    """The same agent in the alternative rankings that include it."""

    @property
    def as_json(self) -> dict[str, Json]:
        """The row as JSON; the rows of alternative rankings have the columns `ALTERNATIVE_COLUMNS`."""
        alternatives: dict[str, Json] = {}
        for name, row in self.alternative_rankings.items():
            alternatives[name] = {column: getattr(row, column) for column in ALTERNATIVE_COLUMNS}
        return {**fields_of(self), "alternative_rankings": alternatives}


ALTERNATIVE_COLUMNS = tuple(column.name for column in columns_of(RankingRow) if column.alternative)
"""Columns that alternative rankings have, too; in `ranking.csv` with the ranking as prefix, such as `robust_ability`."""


@dataclass(frozen=True)
class RankChange:
    """Rank of an agent in the plain ranking and in an alternative ranking; 1 is best."""

    agent: str
    """Id of the agent."""
    plain: int
    """Rank in the plain ranking."""
    rank: int
    """Rank in the alternative ranking."""


@dataclass(frozen=True)
class AlternativeRankingFacts:
    """Summary of an alternative ranking."""

    groups: tuple[tuple[str, ...], ...]
    """Groups of agents by which partners are weighted: flagged agents, families of two or more, or the trusted panel."""
    unique_best: str | None
    """Agent that is significantly better than every other; None if there is none."""
    n_significant_pairs: int
    """Number of significantly different pairs of agents."""
    rank_changes: tuple[RankChange, ...]
    """Agents whose rank differs from the plain ranking, largest difference first."""
    leader_change: str = ""
    """Sentence that states how the first agent of the plain ranking loses ranks; empty if it does not."""
    leader_change_agents: tuple[str, ...] = ()
    """Agents that this sentence names."""
    message: str = ""
    """Reason why this ranking could not be computed; empty if it was."""


@dataclass(frozen=True)
class LinkFacts:
    """Curl of the scores on one link, a transformation of the scores: how far they are from additive.

    Δ is the interaction of two agents and two items (a rectangle), 0 if the transformed scores are additive.
    """

    median: float
    """Median of |Δ| over the rectangles, in the unit of the link."""
    p95: float
    """95th percentile of |Δ|, in the unit of the link."""
    sd: float
    """Standard deviation of the transformed observed scores; 0 if all are equal."""
    median_scaled: float | None
    """`median` / `sd`; None if `sd` is 0."""
    p95_scaled: float | None
    """`p95` / `sd`; None if `sd` is 0."""
    r2: float | None
    """R² of ability − difficulty, fitted on the scale of the link; None if `sd` is 0."""
    n_rectangles: int
    """Number of rectangles of observed scores."""
    n_sampled: int | None = None
    """Number of rectangles that were measured; None if all were."""
    median_error: float | None = None
    """Standard error of `median`; None if all rectangles were measured."""
    p95_error: float | None = None
    """Standard error of `p95`; None if all rectangles were measured."""


@dataclass(frozen=True)
class HoldoutFacts:
    """Prediction error of the fit on held-out cells."""

    n_cells: int
    """Number of held-out cells that could be predicted."""
    rule: str
    """Holdout rule."""
    rmse: float
    """Root mean squared error, in score units."""
    low: float | None
    """Lower 95% confidence bound of `rmse`; None if there are too few cells."""
    high: float | None
    """Upper 95% confidence bound of `rmse`; None if there are too few cells."""


@dataclass(frozen=True)
class CallFacts:
    """Calls of a run: how many were planned, what they cost, and how many have no answer."""

    n_paired: int
    """Number of paired trials."""
    n_independent: int
    """Number of independent trials."""
    n_dense_calls: int
    """Number of calls of the dense design, 2·K·(K − 1)·J."""
    n_cells: int
    """Number of cells in paired trials."""
    missing_paired: dict[str, int] = field(default_factory=dict)
    """Reason → number of paired trials without an answer; pending trials are not counted."""
    missing_independent: dict[str, int] = field(default_factory=dict)
    """Reason → number of independent trials without an answer; pending trials are not counted."""
    tokens_in: int = 0
    """Tokens of the requests."""
    tokens_out: int = 0
    """Tokens of the answers."""
    usd: float | None = 0.0
    """Cost in USD of all invocations of the run, interrupted ones included, but not what other runs paid for reused
    answers; None if a price is unknown.
    """
    seconds_mean: float | None = None
    """Mean wall time of a call in seconds; None if it was not measured."""
    models: tuple[str, ...] = ()
    """Models that answered, by the names that the server returned."""
    n_reused: int = 0
    """Number of answers from the store that were not requested by this run, but by its calibration or another run."""
    usd_calibration: float | None = 0.0
    """Part of `usd` that the calibration of the run paid for answers that are used here."""
    paid: RunPayments = field(default_factory=RunPayments)
    """What the run has paid over all commands, including the cost of answers that it does not use."""
    n_shared: int = 0
    """Number of answers that came with another trial's request in this run, because both trials show the same two texts. Those
    in `n_reused` do not count."""
    n_free: int = 0
    """Number of independent trials that the budget does not limit, because calls to the judge cost nothing."""
    n_pending: int = 0
    """Number of trials without an outcome so far; 0 unless the run is unfinished."""
    n_self: int = 0
    """Number of self-trials of a run that also compares agents."""
    missing_self: dict[str, int] = field(default_factory=dict)
    """Reason → number of these self-trials without an answer; pending trials are not counted."""

    @property
    def n_calls(self) -> int:
        """Number of trials of all types."""
        return self.n_paired + self.n_independent + self.n_self

    @property
    def usd_per_call(self) -> float | None:
        """Mean cost in USD of the calls made for this run; None if there are none or their price is unknown.

        Reused answers and the cost of the calibration do not count.
        """
        n_made = self.n_done - self.n_reused
        if self.usd is None or n_made < 1:
            return None
        return (self.usd - (self.usd_calibration or 0.0)) / n_made

    @property
    def n_done(self) -> int:
        """Number of trials of all types with an outcome: an answer, or the reason why there is none."""
        return self.n_calls - self.n_pending

    @property
    def n_answered(self) -> int:
        """Number of trials of all types with an answer."""
        return self.n_done - self.n_missing

    @property
    def n_missing(self) -> int:
        """Number of trials of all types that are done and have no answer."""
        by_type = (self.missing_paired, self.missing_independent, self.missing_self)
        return sum(sum(reasons.values()) for reasons in by_type)


@dataclass(frozen=True)
class AgentChange:
    """Change of an agent from before an extension of the run to after it."""

    agent: str
    """Id of the agent."""
    before: float | None
    """Ability before the extension; None if it could not be estimated."""
    after: float | None
    """Ability after the extension; None if it could not be estimated."""
    rank_before: int
    """Rank by ability among the agents before the extension; 1 is best."""
    rank_after: int
    """Rank by ability among the agents after the extension; 1 is best."""
    drift: float | None = None
    """Ability by the new answers alone minus ability by the earlier answers; None if the new answers do not
    determine it."""
    std_error: float | None = None
    """Standard error of `drift`; None if `drift` is None."""
    p_holm: float | None = None
    """Two-sided p-value of `drift`, with Holm's correction for all agents; None if `drift` is None."""


@dataclass(frozen=True)
class ExtensionFacts:
    """Changes made by the last extension of a run."""

    kind: str
    """What was added: "agents", "items", "repeats" or "calls"."""
    n_calls: int
    """Number of calls of both trial types that it added."""
    joined: tuple[str, ...]
    """Ids of the added agents."""
    joined_items: tuple[str, ...]
    """Ids of the added items."""
    agent_changes: tuple[AgentChange, ...]
    """Changes of the agents that were there before."""
    judge_drift: float | None
    """Judge drift: mean change of the answers to comparisons of the first agents on the same items; None if the
    extension repeats no such comparison.
    """
    judge_drift_p: float | None
    """Two-sided p-value of `judge_drift`; None if `judge_drift` is None."""
    answers_recomputed: bool = False
    """Whether the answers before the extension were computed again, because the judge makes no calls and stores none."""


@dataclass(frozen=True)
class PartnerFacts:
    """Split-half reliability of the ranking over partners, the agents with which an agent was compared.

    It shows how much the ranking depends on which other agents are in the pool.
    """

    split_half_rho: float
    """Mean Spearman correlation of the rankings by two random halves of the partners."""
    n_splits: int
    """Number of random splits."""
    agents: tuple[tuple[str, float], ...]
    """Agents whose rank depends most on the half, each with the mean difference of its two ranks."""


CHANCE = "posterior probability of being the best; too high for the first agent if many are nearly level"
"""Description of the values of `ChoiceFacts.p_best`."""


@dataclass(frozen=True)
class ChoiceFacts:
    """The selected agents with their regret bound, by the ranking that the run reports first; in units of ability."""

    agents: tuple[str, ...]
    """Selected agents, by ability: the first of the ranking, or as many as the run searched for."""
    regret_bound: float
    """Regret bound: upper confidence bound on the ability of the best agent minus that of the selected one; 0 if the
    selected agent is significantly better than every other. If T agents are selected, it bounds the ability of the T-th
    best agent minus that of the worst selected one.
    """
    level: float
    """Confidence level of the regret bound."""
    candidates: tuple[str, ...]
    """Other candidates, by ability: agents that cannot be ruled out as the best (or among the T best)."""
    ability_low: float
    """Lower bound of the ability of the first agent, adjusted for its selection as the first."""
    ability_high: float
    """Upper bound of the ability of the first agent."""
    p_best: Mapping[str, float]
    """Agent id → posterior probability that it is the best, highest first; too high for the first if many agents have
    nearly equal abilities.
    """
    expected_regret: float
    """Expected regret: posterior mean of the ability of the best agent minus that of the first selected agent."""
    abilities: Mapping[str, float] = field(default_factory=dict)
    """Agent id → ability of the selected agents and of the agent that follows them, best first; empty in a `fit.json` of an
    earlier version.
    """


@dataclass(frozen=True)
class AgentRate:
    """False-positive rate of an agent: its mean answer to independent trials, shrunk towards the mean of all agents."""

    agent: str
    """Id of the agent."""
    rate: float
    """The rate, which is subtracted from the agent's mean answer to paired trials."""
    low: float | None
    """Lower bound of its 95% interval; None without an interval."""
    high: float | None
    """Upper bound of its 95% interval; None without an interval."""
    n_trials: int
    """Number of answered independent trials of the agent."""


@dataclass(frozen=True)
class RateFacts:
    """False-positive rates of the agents, and their part in the intervals of abilities."""

    agents: tuple[AgentRate, ...]
    """One entry per agent, the largest rate first."""
    variance_share: float | None
    """Mean fraction of an ability's variance that is due to the rates; None if abilities have no intervals, or if each
    pair of agents has its own independent trials.
    """
    calls_to_halve: int | None
    """Additional independent calls that about halve the standard errors of the rates; None if abilities have no interval."""


@dataclass(frozen=True)
class PartialFacts:
    """How many calls of an unfinished run its ranking is based on."""

    n_done: int
    """Number of trials with an outcome."""
    n_calls: int
    """Number of trials of the plan, as far as its rounds are known."""

    @property
    def text(self) -> str:
        """The mark of a partial ranking, with which its recommendation begins."""
        return f"Partial ranking: {self.n_done:,} of {self.n_calls:,} calls of this run are done."

    def to_finding(self) -> Finding:
        """Return the mark as a finding."""
        return Finding("partial", self.text, remedy="Run the same command again to finish the run.", facts=asdict(self))


FOLLOWS_POSITION = 0.95
"""Position effect from which the answers of a judge follow the position and show nothing about the agents."""
POSITION_REMEDY = "Judge every comparison in both orders, or use another judge."


@dataclass(frozen=True)
class PreferenceFacts:
    """Properties of a judge's preferences, for a run that asks which of two responses is better."""

    n_answers: int
    """Number of answers."""
    tie_fraction: float
    """Fraction of the answers that are ties."""
    position_effect: float | None
    """Position bias: win rate of the first response minus its loss rate between agents of equal ability; None if the orders do
    not determine it."""
    position_low: float | None
    """Lower bound of its 95% interval; None if its standard error cannot be estimated."""
    position_high: float | None
    """Upper bound of its 95% interval."""
    length_correlation: float | None = None
    """Pearson correlation of the preference for the first response with the log ratio of the lengths of both responses; None
    without texts, or if either is constant."""

    @property
    def has_position_bias(self) -> bool:
        """Whether the interval of the position effect excludes 0."""
        return (self.position_low or 0.0) > 0 or (self.position_high or 0.0) < 0

    @property
    def follows_position(self) -> bool:
        """Whether nearly all answers name the same position, whichever agents are compared."""
        return abs(self.position_effect or 0.0) >= FOLLOWS_POSITION

    @property
    def position_problem(self) -> str:
        """Reason why preferences may be an effect of the position, which is unknown; empty if the orders determine it."""
        if self.position_effect is not None:
            return ""
        return (
            "the orders of the battles do not determine the position bias, so that a preference for the first response cannot be "
            "ruled out"
        )

    @property
    def position_text(self) -> str:
        """Sentence on the position bias: its value with an interval, or the reason why it is unknown."""
        if self.position_effect is None:
            return "Position bias: unknown, because the orders of the responses do not separate it from the abilities."
        if self.position_low is None or self.position_high is None:
            return (
                "Position bias: unknown, because the answers are too few or too uniform to estimate its standard error."
            )
        low, effect, high = 100 * self.position_low, 100 * self.position_effect, 100 * self.position_high
        return (
            "Position bias: in 100 comparisons of equal agents, the wins minus losses of the first response are "
            f"{effect:.1f} (95% interval {low:.1f} to {high:.1f})."
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences on position bias, ties and length."""
        r = "unknown" if self.length_correlation is None else f"{self.length_correlation:.2f}"
        return (
            self.position_text,
            f"{self.tie_fraction:.0%} of the {self.n_answers:,} answers are ties.",
            f"Correlation of the preference with the log ratio of both lengths: {r}.",
        )


@dataclass(frozen=True)
class RunFacts:
    """Contents of `fit.json`."""

    version: int
    """Version of the file format."""
    ranking: str
    """Estimator of the abilities in `ranking.csv`."""
    interval: str
    """Method of their intervals."""
    level: float
    """Confidence level of the intervals."""
    estimator: str
    """Estimator of ability − difficulty, which predicts the scores of cells."""
    status: str
    """Result of that fit: "ok", "disconnected" (several components) or "not_converged"."""
    message: str
    """Explanation of `status`; empty if it is "ok"."""
    kkt: float
    """Largest absolute residual of the optimality (Karush–Kuhn–Tucker) conditions at the solution."""
    n_components: int
    """Number of connected components of agents and items; abilities of different components are not comparable."""
    r2: float | None
    """R² of the predicted scores; None if the scores do not vary."""
    fpr: float | None
    """Pooled false-positive rate; None if no independent trial was answered."""
    calls: CallFacts | None
    """Calls of the run; None for an imported run."""
    holdout: HoldoutFacts | None
    """Prediction error on held-out cells; None if none could be predicted."""
    links: dict[ScoreKind, dict[str, LinkFacts]]
    """Score kind → link → curl, the deviation from additive scores; empty for a score kind without two agents that both have
    scores on two items.
    """
    links_missing: dict[ScoreKind, str]
    """Score kind → reason why it has no curl."""
    warnings: tuple[Finding, ...]
    """Findings that a reader of the ranking should know."""
    target: Target
    """Population that the intervals refer to."""
    unique_best: str | None
    """Agent that is significantly better than every other; None if there is none."""
    n_significant_pairs: int
    """Number of significantly different pairs of agents."""
    choice: ChoiceFacts | None = None
    """Selected agents; None if some agents cannot be compared."""
    extension: ExtensionFacts | None = None
    """Changes by the last extension; None if the run was never extended."""
    partners: PartnerFacts | None = None
    """Split-half reliability over partners; None if too few agents were compared."""
    ranked_by: RankedBy = "plain"
    """Ranking that the run reports first; `unique_best`, `n_significant_pairs` and the order of `ranking.csv` are those
    of this ranking.
    """
    alternative_rankings: dict[AlternativeRanking, AlternativeRankingFacts] = field(default_factory=dict)
    """Alternative rankings by name."""
    families: dict[str, str] = field(default_factory=dict)
    """Agent id → family, for the family-balanced ranking."""
    trusted: tuple[str, ...] = ()
    """Ids of the panel of the trusted ranking."""
    signal: JudgeSignalFacts = UNKNOWN_SIGNAL
    """How well the judge discriminates between paired and independent trials."""
    recommendation: Recommendation = NOT_MADE
    """Recommendation that follows from `choice` and `signal`."""
    rates: RateFacts | None = None
    """False-positive rates of the agents; None if no independent trial was answered."""
    partial: PartialFacts | None = None
    """How much of the run is done, if it is unfinished; None for a finished run."""
    preference: PreferenceFacts | None = None
    """Position bias, ties and correlation with length of a run that asks for preferences; None for other runs."""
