"""A run's folder: one file for each noun of the path, each written whole and read back as it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from pydantic import JsonValue, TypeAdapter

from youden.data.atomic import replacing, replacing_together
from youden.data.folder import csv_tables, trial_tables
from youden.data.folder.calibration_file import find_calibration
from youden.data.folder.csv_tables import RankingFile
from youden.data.folder.joined_pools import read_run_pool
from youden.data.folder.parquet_tables import ParquetTable
from youden.data.folder.run_config import FitTerms, RunConfig, config_at, dump_run_config
from youden.data.folder.run_files import FITTED, VERSION, PoolFile, PoolSummary, StrictFile, parse, read_bytes
from youden.data.folder.table_columns import ItemRow
from youden.data.folder.trial_tables import VerdictsMetadata
from youden.errors import RunFolderError, YoudenError
from youden.text.printable import typed
from youden.types import Plan, Pool, Scores, Verdicts
from youden.types.cells import Pairs
from youden.types.facts import PartnerRules, RankingRow, RunFacts
from youden.types.label_facts import QualityFacts, Validation
from youden.types.pool import Json
from youden.types.recommendation import Recommendation
from youden.types.results import CurlCurve, Rates, ScoreKind, Signature, WhatMoves

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

_SCORES: dict[ScoreKind, str] = {"symmetric": "scores.csv", "row": "scores_row.csv"}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class SignatureFile(StrictFile):
    version: int
    text: str
    digest: str
    parts: dict[str, JsonValue]


class JudgedFiles(NamedTuple):
    """A run's plan without its trials, and the table of its verdicts."""

    plan: Plan
    verdicts: ParquetTable[VerdictsMetadata]


@dataclass(frozen=True)
class RunFolder:
    """The folder at `path`, made when something is first written.

    Every `read_…` raises RunFolderError for a file that is missing (with the command that makes it), damaged, or of another
    version; every `write_…` replaces the file in one step.

    The plan, the verdicts, the pool and the items are kept in memory by this object, and read again only where their files have
    changed.
    """

    path: Path
    _known: dict[str, tuple[object, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def file(self, name: str) -> Path:
        """Where the file called `name` is, or would be."""
        return self.path / name

    def has(self, name: str) -> bool:
        """Whether there is a file called `name`."""
        return self.file(name).exists()

    def command(self) -> str:
        """The command that makes this run again."""
        if self.has("config.yaml"):
            return typed(["youden", "run", str(self.file("config.yaml"))])
        return typed(["youden", "import", "peer-prediction", self.read_pool().source, "--out", str(self.path)])

    def write_text(self, name: str, text: str) -> None:
        """Any text, in UTF-8."""
        with replacing(self.file(name)) as fresh:
            fresh.write_text(text, encoding="utf-8", newline="\n")

    def write_config(self, config: RunConfig) -> None:
        self.write_text("config.yaml", dump_run_config(config, self.path))

    def read_config(self) -> RunConfig:
        read_bytes(self.file("config.yaml"))
        return config_at(self.file("config.yaml"), {})

    def recorded_config(self) -> RunConfig | None:
        """Return the config in the folder, or None if there is none that can be read."""
        with suppress(YoudenError):
            return self.read_config()
        return None

    def write_pool(self, pool: PoolSummary) -> None:
        self._write_json("pool.json", PoolFile.of(pool))

    def read_pool(self) -> PoolSummary:
        return self._read_json("pool.json", PoolFile).summary()

    def write_notes(self, notes: tuple[str, ...]) -> None:
        """Keep, with the pool, what a reader of any number of this run has to know."""
        self.write_pool(replace(self.read_pool(), notes=notes))

    def read_notes(self) -> tuple[str, ...]:
        return self.read_pool().notes

    def write_plan(self, plan: Plan) -> None:
        trial_tables.write_plan(self.file("plan.parquet"), plan)
        self._known["plan.parquet"] = _state(self.file("plan.parquet")), plan

    def read_plan(self) -> Plan:
        """Read the plan; its pool is read when it is first used."""
        return self._once("plan.parquet", lambda file: replace(trial_tables.read_plan(file), source=self.run_pool))

    def write_verdicts(self, verdicts: Verdicts) -> None:
        trial_tables.write_verdicts(self.file("verdicts.parquet"), verdicts)
        self._known["verdicts.parquet"] = _state(self.file("verdicts.parquet")), verdicts

    def read_verdicts(self, plan: Plan) -> Verdicts:
        """The verdicts on `plan`; verdicts on another plan are refused."""
        known = self._known.get("verdicts.parquet")
        if known is not None and known[1].plan is not plan:
            del self._known["verdicts.parquet"]
        return self._once("verdicts.parquet", lambda file: trial_tables.read_verdicts(file, plan))

    def refuse_unjudged(self) -> None:
        """Raises: RunFolderError [run-unjudged] where there are no answers yet."""
        if not self.has("verdicts.parquet"):
            raise RunFolderError(
                f"{self.path} has no answers yet that this could go on from. Judge it first: {self.command()}",
                slug="run-unjudged",
            )

    def read_plan_alone(self) -> Plan:
        """The plan without its trials."""
        return trial_tables.read_plan_alone(self.file("plan.parquet")).plan

    def judged_files(self) -> JudgedFiles:
        """The plan without its trials, and the table of its verdicts, no row of which is read yet."""
        plan, digest = trial_tables.read_plan_alone(self.file("plan.parquet"))
        return JudgedFiles(plan, trial_tables.read_verdict_table(self.file("verdicts.parquet"), of=digest))

    def judged_plan(self) -> str:
        """The digest of the plan whose answers verdicts.parquet holds."""
        return trial_tables.read_verdicts_metadata(self.file("verdicts.parquet")).plan_digest

    def judged_by(self) -> Mapping[str, Json]:
        """The judge that gave the answers in verdicts.parquet, as it signed them."""
        return trial_tables.read_verdicts_metadata(self.file("verdicts.parquet")).judge

    def remember(self, pool: Pool, config: RunConfig) -> None:
        """Keep the pool of `config`, texts and all, for whoever asks this object."""
        self._known["pool"] = _states(config), pool

    def run_pool(self) -> Pool:
        """The pool that was judged, its extensions included. Raises: PoolError, ConfigError, RunFolderError."""
        config = self.read_config()
        if self._known.get("pool", (None, None))[0] != _states(config):
            self.remember(read_run_pool(config), config)
        pool: Pool = self._known["pool"][1]
        return pool

    def _once(self, name: str, read: Callable[[Path], T]) -> T:
        state = _state(self.file(name))
        if state is None or self._known.get(name, (None, None))[0] != state:
            self._known[name] = state, read(self.file(name))
        found: T = self._known[name][1]
        return found

    @contextmanager
    def fitting(self) -> Iterator[RunFolder]:
        """A folder for all that a fit writes. Its files take the places of an earlier fit's when the block ends well, fit.json
        last; else the run is as it was."""
        with replacing_together(self.path, FITTED) as fresh:
            yield RunFolder(fresh)

    def remove(self, name: str) -> None:
        """Take out a file that no longer belongs to the run."""
        self.file(name).unlink(missing_ok=True)

    def write_rates(self, rates: Rates) -> None:
        """All but `detail`, which the verdicts hold."""
        self.write_rates_of_items([(0, rates)], rates)

    def write_rates_of_items(self, blocks: Iterable[tuple[int, Rates]], of: Plan | Rates) -> None:
        """Write rates that come in chunks of items, each with its first item. of: has their agents, items and split."""
        trial_tables.write_rates(self.file("rates.parquet"), blocks, of)

    def read_rates(self) -> Rates:
        """Read the rates with their split; `detail` is None."""
        return trial_tables.read_rates(self.file("rates.parquet"))

    def write_scores(self, kind: ScoreKind, scores: Scores) -> None:
        csv_tables.write_scores(self.file(_SCORES[kind]), scores)

    def read_scores(self, kind: ScoreKind) -> Scores:
        """Training scores; `weight` is 1 where seen, for the file holds no counts of trials."""
        return csv_tables.read_scores(self.file(_SCORES[kind]), kind=kind, role="train")

    def write_holdout(self, scores: Scores) -> None:
        csv_tables.write_scores(self.file("holdout.csv"), scores)

    def read_holdout(self, kind: ScoreKind = "symmetric") -> Scores:
        """Scores of held-out cells, of the kind they were written as; `weight` as in `read_scores`."""
        return csv_tables.read_scores(self.file("holdout.csv"), kind=kind, role="holdout")

    def write_ranking(self, ranking: pd.DataFrame) -> None:
        csv_tables.write_ranking(self.file("ranking.csv"), ranking)

    def read_ranking(self) -> tuple[RankingRow, ...]:
        return csv_tables.read_ranking(self.file("ranking.csv"))

    def write_pairs(self, pairs: Pairs, *, agents: tuple[str, ...]) -> None:
        """Of the fit that wrote the ranking."""
        trial_tables.write_pairs(
            self.file("pairs.parquet"), pairs, agents=agents, ranking_digest=self._digest("ranking.csv")
        )

    def read_pairs(self) -> Pairs:
        """What the fit that wrote the ranking knows of pairs. Raises: RunFolderError; [pairs-stale] for those of another fit."""
        return trial_tables.read_pairs(self.file("pairs.parquet"), ranking=self.file("ranking.csv"))

    def _digest(self, *names: str) -> str:
        return hashlib.sha256(b"".join(read_bytes(self.file(name)) for name in names)).hexdigest()

    def write_ranking_json(self, run: str) -> None:
        """ranking.csv, and what it takes to read it, as one file of JSON. run: its name.

        Raises: RunFolderError where the run is not fitted.
        """
        made = RankingFile.of(run, self.read_ranking(), facts=self.read_facts(), signature=self.read_signature())
        self._write_json("ranking.json", made)

    def write_items(self, items: pd.DataFrame) -> None:
        csv_tables.write_items(self.file("items.csv"), items)

    def read_items(self) -> tuple[ItemRow, ...]:
        return self._once("items.csv", csv_tables.read_items)

    def n_compared(self, pool: PoolSummary) -> int:
        """Of `pool`'s items, how many hold an answered comparison; all of them where the run has no items.csv."""
        return sum(item.n_trials > 0 for item in self.read_items()) if self.has("items.csv") else len(pool.item_ids)

    @property
    def terms(self) -> FitTerms:
        """What the run is fitted by. An import has no config: its fit.json remembers."""
        if self.has("config.yaml"):
            return self.read_config().terms
        if not self.has("fit.json"):
            return FitTerms("items-like-these", PartnerRules())
        facts = self.read_facts()
        return FitTerms(facts.target, PartnerRules(facts.ranked_by, facts.trusted, facts.families))

    @property
    def recommendation(self) -> Recommendation | None:
        """What fit.json recommends; None if the run is not fitted."""
        return self.read_facts().recommendation if self.has("fit.json") else None

    @property
    def calibration(self) -> str | None:
        """One line on the stored calibration of the run's judge; None if there is none. Raises: RunFolderError."""
        if not self.has("verdicts.parquet"):
            return None
        pool = self.read_pool().digest
        record = find_calibration(self.path.resolve().parent, self.judged_by(), pool=pool)
        return None if record is None else record.text(pool=pool)

    def write_curl(self, curves: Sequence[CurlCurve]) -> None:
        """How the curl of the symmetric scores is distributed, on every link."""
        csv_tables.write_curl(self.file("curl.csv"), curves)

    def read_curl(self) -> tuple[CurlCurve, ...]:
        return csv_tables.read_curl(self.file("curl.csv"))

    def write_facts(self, facts: RunFacts) -> None:
        self._write_json("fit.json", facts)

    def read_facts(self) -> RunFacts:
        return self._read_json("fit.json", RunFacts)

    def write_signature(self, signature: Signature) -> None:
        file = SignatureFile(version=VERSION, text=signature.text, digest=signature.digest, parts=dict(signature.parts))
        self._write_json("signature.json", file)

    def read_signature(self) -> Signature:
        return Signature(self._read_json("signature.json", SignatureFile).parts)

    def tables_digest(self) -> str:
        """sha256 (hex) of the ranking and the symmetric scores as they stand in their files."""
        return self._digest("ranking.csv", "scores.csv")

    def write_labels(self, found: Validation) -> None:
        self._write_json("labels.json", found)

    def read_labels(self) -> Validation:
        """What labels said of a ranking: this one, if `tables` is the digest of its tables."""
        return self._read_json("labels.json", Validation)

    def write_moves(self, found: WhatMoves) -> None:
        """What moves the ranking that stands there."""
        self._write_json("moves.json", found)

    def read_moves(self) -> WhatMoves:
        """What `fit` or `youden study variance` found."""
        return self._read_json("moves.json", WhatMoves)

    def write_quality(self, found: QualityFacts) -> None:
        """quality.csv and quality.json."""
        csv_tables.write_quality(self.file("quality.csv"), found.agents)
        self._write_json("quality.json", found)

    def read_quality(self) -> QualityFacts:
        """What labels and ability said together: of this ranking, if `tables` is the digest of its tables."""
        return self._read_json("quality.json", QualityFacts)

    def _write_json(self, name: str, value: Any) -> None:
        self.write_text(name, _adapter(value.__class__).dump_json(value, indent=1).decode() + "\n")

    def _read_json(self, name: str, kind: type[T]) -> T:
        file, of = self.file(name), cast(Any, kind)
        found: T = parse(file, read_bytes(file), _adapter(of))
        return found


def _states(config: RunConfig) -> tuple[object, ...]:
    """What differs where a file of the run's pools was replaced."""
    steps = (step.added_pool for step in config.extensions)
    places = [Path(place).resolve() for place in (config.pool, *steps) if place is not None]
    files = (file for place in places for file in (sorted(place.iterdir()) if place.is_dir() else [place]))
    return tuple((file, _state(file)) for file in files)


def _state(file: Path) -> object:
    """What differs where the file was replaced; None where there is none."""
    try:
        said = file.stat()
    except OSError:
        return None
    return said.st_ino, said.st_mtime_ns, said.st_size
