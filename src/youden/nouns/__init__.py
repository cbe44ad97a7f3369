"""The nouns of the package: what each arrow of the path takes and gives, with shapes, ranges and what a missing value means.

Arrays are read-only; what can run to millions is held as columns, not objects.
"""

from youden.nouns.extension import Block, Extension, ExtensionKind, Extensions, Rounds
from youden.nouns.facts import AgentMove, CallFacts, ExtensionFacts, HoldoutFacts, LinkFacts, PartnerFacts, RunFacts
from youden.nouns.judging import (
    MAX_MISSING,
    MISSING_REASONS,
    Completion,
    Judge,
    Message,
    PlanJudge,
    Progress,
    Request,
    Verdicts,
)
from youden.nouns.labels import Agreement, CellAgreement, Disagreement, LabelFacts, Validation
from youden.nouns.pairs import Pairs
from youden.nouns.planning import (
    Asked,
    Cost,
    Design,
    Drawn,
    IndependentRule,
    Plan,
    Priced,
    Slotted,
    Split,
    SplitRule,
)
from youden.nouns.pool import Agent, Item, Json, Pool
from youden.nouns.results import (
    CurlCurve,
    IndependentRates,
    Rates,
    ScoreKind,
    ScoreRole,
    Scores,
    Signature,
    Target,
)
from youden.nouns.standings import PartnerRules, RankedBy, Standing, StandingFacts, StandingMove, StandingName
from youden.nouns.trials import INDEPENDENT, PAIRED, Trials

__all__ = [
    "INDEPENDENT",
    "MAX_MISSING",
    "MISSING_REASONS",
    "PAIRED",
    "Agent",
    "AgentMove",
    "Agreement",
    "Asked",
    "Block",
    "CallFacts",
    "CellAgreement",
    "Completion",
    "Cost",
    "CurlCurve",
    "Design",
    "Disagreement",
    "Drawn",
    "Extension",
    "ExtensionFacts",
    "ExtensionKind",
    "Extensions",
    "HoldoutFacts",
    "IndependentRates",
    "IndependentRule",
    "Item",
    "Json",
    "Judge",
    "LabelFacts",
    "LinkFacts",
    "Message",
    "Pairs",
    "PartnerFacts",
    "PartnerRules",
    "Plan",
    "PlanJudge",
    "Pool",
    "Priced",
    "Progress",
    "RankedBy",
    "Rates",
    "Request",
    "Rounds",
    "RunFacts",
    "ScoreKind",
    "ScoreRole",
    "Scores",
    "Signature",
    "Slotted",
    "Split",
    "SplitRule",
    "Standing",
    "StandingFacts",
    "StandingMove",
    "StandingName",
    "Target",
    "Trials",
    "Validation",
    "Verdicts",
]
