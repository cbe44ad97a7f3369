"""Define the recommendation of a run, and the evidence that its judge discriminates.

`pipeline/recommendation.py` makes the recommendation, and every output prints its `text`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from youden.run_keys import Question

RecommendationForm = Literal["recommended", "candidates", "none"]
RecommendationSource = Literal["agreement", "preference", "self_consistency", "labels", "scores"]

MIN_AGENTS_FOR_COPYING = 8
"""Minimum number of agents of a robust ranking; `benchmarks/few_agents.py` measures how much fewer agents can show."""

MIN_RANKED_AGENTS = 3
"""Minimum number of agents of a ranking; the responses of fewer agents are compared within each agent."""


def explain_few_agents(n_agents: int) -> str:
    """Explain what a ranking of few agents cannot show, in two sentences; empty if there are enough agents.

    Fewer than `MIN_RANKED_AGENTS` agents are ranked by the similarity of their own responses. With fewer than
    `MIN_AGENTS_FOR_COPYING` agents, copying cannot be detected.
    """
    if n_agents >= MIN_AGENTS_FOR_COPYING:
        return ""
    if n_agents < MIN_RANKED_AGENTS:
        return (
            "Ability is self-consistency here: each agent is compared with its own repeated responses only. A high value means "
            "stable responses; they need not be correct, and no other agent corroborates them."
        )
    return (
        f"With only {n_agents} agents, copying cannot be distinguished from agreement, and the result holds for these "
        "partners only."
    )


@dataclass(frozen=True)
class JudgeSignalFacts:
    """How well the judge of a run discriminates between paired and independent trials, and whether its agents differ.

    Attributes
    ----------
    tpr, fpr : float or None
        Mean answer to the paired and to the independent trials of the run, in [0, 1]. None if it is not known.
    j : float or None
        Youden's J = TPR − FPR. If a run was imported without the two rates, the mean of D.
    j_low, j_high : float or None
        Confidence bounds of J at `level`.
    level : float
        Confidence level.
    method : str
        Method of the interval.
    p_equal_abilities : float or None
        P-value of the hypothesis that all abilities are equal. None if agents cannot be compared.
    alpha : float
        Significance level of that test.
    question : {"information", "preference"}
        What the judge was asked.
    """

    tpr: float | None = None
    fpr: float | None = None
    j: float | None = None
    j_low: float | None = None
    j_high: float | None = None
    level: float = 0.95
    method: str = ""
    p_equal_abilities: float | None = None
    alpha: float = 0.05
    question: Question = "information"

    @property
    def discriminates(self) -> bool:
        """Whether the interval of J lies above 0. A judge that is asked for preferences has no J; only its ranking is tested."""
        return self.question == "preference" or (self.j_low is not None and self.j_low > 0)

    @property
    def separates_agents(self) -> bool:
        """Whether the abilities vary by more than their sampling error."""
        return self.p_equal_abilities is not None and self.p_equal_abilities <= self.alpha

    @property
    def j_text(self) -> str:
        """J with its interval, such as `J = 0.02 [-0.03, 0.07]`."""
        if self.j is None or self.j_low is None or self.j_high is None:
            return "J is unknown"
        return f"J = {self.j:.2f} [{self.j_low:.2f}, {self.j_high:.2f}]"

    @property
    def judge_reason(self) -> str:
        """Reason why the answers of the judge do not support a recommendation; empty if the judge discriminates.

        Youden's J of a judge is its true-positive rate minus its false-positive rate. The judge discriminates if the interval of
        J lies above 0. The reason states whether J is unknown, below 0, or too uncertain.
        """
        if self.discriminates:
            return ""
        was_fitted_by_earlier_version = not self.method
        if was_fitted_by_earlier_version:
            reason = "J is unknown, because an earlier version fitted the run"
        elif self.j_high is None:
            reason = "J is unknown, because it needs answers to both trial types on two items or more"
        elif self.j_high < 0:
            reason = f"{self.j_text} lies below 0: it says yes more often to responses to different items"
        else:
            reason = f"the {self.level:.0%} interval of {self.j_text} includes 0"
        return f"this judge does not separate these agents; {reason}"

    @property
    def judge_remedy(self) -> str:
        """Imperative sentence that tells the user what to do if the judge does not discriminate; see `judge_reason`."""
        was_fitted_by_earlier_version = not self.method
        if was_fitted_by_earlier_version:
            return "Run `youden fit RUN`."
        if self.j_high is None:  # J is unknown
            return "Add items or independent trials, or judge the trials that have no answer."
        if self.j_high < 0:
            return "Check its prompt and its answers (`youden doctor`), or use another judge."
        return "Use another judge (`youden calibrate` tests judges), or add calls if J is small but above 0."


@dataclass(frozen=True)
class Recommendation:
    """What a run recommends.

    Attributes
    ----------
    form : {"recommended", "candidates", "none"}
        One selection that suffices, several agents that cannot be ruled out as the best, or no recommendation.
    agents : tuple of str
        The recommended agents or all candidates, best first; empty if `form` is "none".
    text : str
        The recommendation as a reader sees it. It begins with "Recommended: ", "Candidates: " or "No recommendation: ";
        before these, the outputs of an unfinished run state how many of its calls are done.
    reason : str
        Reason for having no recommendation; else empty.
    caution : str
        What the judge cannot show, as in the first sentence of `text`; empty if nothing limits the recommendation.
    decided_by : {"agreement", "preference", "self_consistency", "labels", "scores"}
        What decides: agreement between agents, preferences of the judge, the self-consistency of agents, the quality that is
        estimated from labels, or the scores of an audit.
    """

    form: RecommendationForm
    agents: tuple[str, ...]
    text: str
    reason: str = ""
    caution: str = ""
    decided_by: RecommendationSource = "agreement"


UNKNOWN_SIGNAL = JudgeSignalFacts()
NOT_MADE = Recommendation(
    "none",
    (),
    "No recommendation: an earlier version fitted this run. Run `youden fit RUN`.",
    "fitted by an earlier version",
)
"""Defaults for a fit.json of an earlier version, which lacks these facts."""
