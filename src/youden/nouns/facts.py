"""What a run's `fit.json` says: how the ranking was made, how far it can be trusted, what it took."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from youden.nouns.arrays import Bools, or_none
from youden.nouns.judging import MISSING_REASONS, Verdicts
from youden.nouns.results import ScoreKind, Target
from youden.nouns.standings import RankedBy, StandingFacts, StandingName
from youden.nouns.trials import PAIRED


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

    @classmethod
    def of(cls, result: Verdicts) -> CallFacts:
        """Counted over a run's answers."""
        plan = result.plan
        paired = plan.arm == PAIRED
        timed = result.seconds[result.seconds > 0] if result.seconds is not None else np.empty(0)

        def missing(arm: Bools) -> dict[str, int]:
            counts = np.bincount(result.missing[arm], minlength=len(MISSING_REASONS))
            return {name: int(n) for name, n in zip(MISSING_REASONS[1:], counts[1:], strict=True) if n}

        return cls(
            n_paired=int(paired.sum()),
            n_independent=int((~paired).sum()),
            n_dense_calls=plan.n_dense_calls,
            n_cells=plan.n_cells,
            missing_paired=missing(paired),
            missing_independent=missing(~paired),
            tokens_in=0 if result.tokens_in is None else int(result.tokens_in.sum()),
            tokens_out=0 if result.tokens_out is None else int(result.tokens_out.sum()),
            usd=or_none(result.total_usd),
            seconds_mean=float(timed.mean()) if len(timed) else None,
            models=result.models,
            n_reused=int(result.reused.sum()),
            usd_calibration=or_none(result.usd_tried),
        )

    @property
    def n_calls(self) -> int:
        return self.n_paired + self.n_independent

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


@dataclass(frozen=True)
class RunFacts:
    """The whole of `fit.json`.

    ranking: estimator and interval method behind `ranking.csv`; estimator: what abilities − difficulties come from.
    fpr: pooled false-positive rate, None without independent answers. links: per score kind, then per link; empty for a kind
    without a complete rectangle, then `links_missing` says why. growth: None for a run that was never extended. partners: None
    where too few agents were compared.

    target: what the intervals speak of; best: the agent told apart from everybody, None where there is none; told_apart: pairs of
    agents whose difference is told from 0.

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
    warnings: tuple[str, ...]
    target: Target
    best: str | None
    told_apart: int
    growth: ExtensionFacts | None = None
    partners: PartnerFacts | None = None
    ranked_by: RankedBy = "plain"
    standings: dict[StandingName, StandingFacts] = field(default_factory=dict)
    families: dict[str, str] = field(default_factory=dict)
    trusted: tuple[str, ...] = ()
