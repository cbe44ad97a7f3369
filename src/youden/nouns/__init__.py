"""The nouns of the package: what each arrow of the path takes and gives.

It knows shapes, ranges and what a missing value means; it refuses to know how anything is computed, read or drawn.
Arrays are read-only; what can run to millions is held as columns, not objects.
"""

from youden.nouns.facts import AgentMove, CallFacts, GrowthFacts, HoldoutFacts, LinkFacts, RunFacts
from youden.nouns.judging import (
    MAX_MISSING,
    MISSING_REASONS,
    BatchJudge,
    Completion,
    Judge,
    Message,
    Progress,
    Request,
    Verdicts,
)
from youden.nouns.labels import Agreement, CellAgreement, Disagreement, LabelFacts, Validation
from youden.nouns.planning import (
    INDEPENDENT,
    PAIRED,
    Cost,
    Design,
    IndependentRule,
    PairedTrials,
    Plan,
    Priced,
    Split,
    SplitRule,
)
from youden.nouns.pool import Agent, Item, Json, Pool
from youden.nouns.results import Fit, IndependentRates, Rates, ScoreKind, ScoreRole, Scores, Signature

__all__ = [
    "INDEPENDENT",
    "MAX_MISSING",
    "MISSING_REASONS",
    "PAIRED",
    "Agent",
    "AgentMove",
    "Agreement",
    "BatchJudge",
    "CallFacts",
    "CellAgreement",
    "Completion",
    "Cost",
    "Design",
    "Disagreement",
    "Fit",
    "GrowthFacts",
    "HoldoutFacts",
    "IndependentRates",
    "IndependentRule",
    "Item",
    "Json",
    "Judge",
    "LabelFacts",
    "LinkFacts",
    "Message",
    "PairedTrials",
    "Plan",
    "Pool",
    "Priced",
    "Progress",
    "Rates",
    "Request",
    "RunFacts",
    "ScoreKind",
    "ScoreRole",
    "Scores",
    "Signature",
    "Split",
    "SplitRule",
    "Validation",
    "Verdicts",
]
