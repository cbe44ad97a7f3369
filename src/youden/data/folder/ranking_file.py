"""`ranking.json`: the ranking with what it takes to read it, for programs that show or compare rankings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict

from youden.data.folder.run_files import VERSION
from youden.data.folder.sheets import RankingRow
from youden.nouns import RankedBy, RunFacts, Signature, Standing, StandingName, Target


class RankedAgentLine(BaseModel):
    """One agent, as in `ranking.csv`; standings: in the rankings beside the plain one."""

    model_config = ConfigDict(extra="forbid", strict=True)

    agent: str
    group: str | None
    ability: float | None
    low: float | None
    high: float | None
    rank_low: int
    rank_high: int
    n_trials: int
    error: float | None
    place_low: int
    place_high: int
    standings: dict[StandingName, Standing]


class RankingFile(BaseModel):
    """`ranking.json` as it stands in the folder. Agents are in the order of `ranking.csv`, by the ranking `ranked_by`.

    ranking, interval: estimator and method behind the numbers; level: of the intervals; target: what they speak of, and best: who
    is told apart from everybody, as in `fit.json`. signature: everything the numbers depend on; digest: of all of it.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    version: int
    run: str
    ranked_by: RankedBy
    ranking: str
    interval: str
    level: float
    target: Target
    best: str | None
    told_apart: int
    agents: list[RankedAgentLine]
    signature: str
    digest: str

    @classmethod
    def of(cls, run: str, rows: Sequence[RankingRow], *, facts: RunFacts, signature: Signature) -> Self:
        """The file of a fitted run."""
        return cls(
            version=VERSION,
            run=run,
            ranked_by=facts.ranked_by,
            ranking=facts.ranking,
            interval=facts.interval,
            level=facts.level,
            target=facts.target,
            best=facts.best,
            told_apart=facts.told_apart,
            agents=[RankedAgentLine(**vars(row)) for row in rows],
            signature=signature.text,
            digest=signature.digest,
        )
