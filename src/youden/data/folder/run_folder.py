"""Write and read the files of a run's folder.

Each step of a run has one type and one file. A file is replaced atomically, and reading it gives an equal object.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from pydantic import JsonValue, TypeAdapter

from youden.data.atomic import atomic_write, atomic_write_many
from youden.data.folder import csv_tables, rate_tables, trial_tables
from youden.data.folder.calibration_file import CalibrationRecord, find_calibration
from youden.data.folder.csv_tables import RankingFile
from youden.data.folder.joined_pools import read_run_pools
from youden.data.folder.parquet_tables import ParquetTable, read_table_metadata
from youden.data.folder.pool_summary import PoolFile, PoolSummary
from youden.data.folder.run_config import FitSettings, RunConfig, dump_run_config, read_run_config
from youden.data.folder.run_files import (
    FIT_FILES,
    VERSION,
    StrictFile,
    parse_versioned_json,
    read_bytes,
)
from youden.data.folder.table_columns import ItemRow
from youden.data.folder.trial_tables import VerdictsMetadata
from youden.errors import RunFolderError, YoudenError
from youden.text.printable import format_command
from youden.types import Plan, Pool, Scores, Verdicts
from youden.types.cells import Pairs
from youden.types.facts import PartnerRules, RankingRow, RunFacts
from youden.types.label_facts import QualityFacts, Validation
from youden.types.payments import RunPayments
from youden.types.pool import Json
from youden.types.results import CurlCurve, Rates, ScoreKind, Signature, VarianceFacts

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

_SCORE_FILES: dict[ScoreKind, str] = {"symmetric": "scores.csv", "row": "scores_row.csv"}


@cache
def _get_adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the converter between JSON and objects of a class."""
    return TypeAdapter(kind)


class SignatureFile(StrictFile):
    """Content of `signature.json`."""

    version: int
    text: str
    digest: str
    parts: dict[str, JsonValue]


class JudgedFiles(NamedTuple):
    """Plan of a run without its trials, and table of its verdicts."""

    plan: Plan
    verdicts: ParquetTable[VerdictsMetadata]


@dataclass(frozen=True)
class RunFolder:
    """Folder of a run.

    Every `read_…` and `open_…` raises RunFolderError: [run-missing] or [run-file-missing] if the folder or the file
    does not exist, [run-version] if another version of youden wrote the file, [run-file-damaged] if it does not have
    the expected content. Every `write_…` creates the folder if necessary and replaces the file atomically. A table
    without a required column raises RunFolderError [run-columns].

    This object caches the plan, the verdicts, the pool and the items, and reads them again only if their files change.

    Attributes
    ----------
    path : Path
        Path of the folder, which may not exist yet.
    """

    path: Path
    _cache: dict[str, tuple[object, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def file(self, name: str) -> Path:
        """Return the path of a file of the run by its name, such as "fit.json"; the file may not exist."""
        return self.path / name

    def has(self, name: str) -> bool:
        """Return whether the run has a file of this name, such as "fit.json"."""
        return self.file(name).exists()

    def format_command(self) -> str:
        """Return the command line that makes this run again."""
        if self.has("config.yaml"):
            return format_command(["youden", "run", str(self.file("config.yaml"))])
        kind = "battles" if self.has("plan.parquet") else "peer-prediction"
        return format_command(["youden", "import", kind, self.read_pool().source, "--out", str(self.path)])

    def write_text(self, name: str, text: str) -> None:
        """Write a text file of the run in UTF-8."""
        with atomic_write(self.file(name)) as tmp_path:
            tmp_path.write_text(text, encoding="utf-8", newline="\n")

    def write_config(self, config: RunConfig) -> None:
        """Write config.yaml, with paths relative to the folder."""
        self.write_text("config.yaml", dump_run_config(config, self.path))

    def read_config(self) -> RunConfig:
        """Read config.yaml; raise ConfigError if a key is unknown or its value is not allowed."""
        read_bytes(self.file("config.yaml"))
        return read_run_config(self.file("config.yaml"), {})

    def find_config(self) -> RunConfig | None:
        """Read config.yaml; return None if it cannot be read."""
        with suppress(YoudenError):
            return self.read_config()
        return None

    def write_pool(self, pool: PoolSummary) -> None:
        """Write pool.json, which does not contain the responses."""
        self._write_json("pool.json", PoolFile.from_summary(pool))

    def read_pool(self) -> PoolSummary:
        """Read pool.json: the name, agents and items of the pool, without the responses."""
        return self._read_json("pool.json", PoolFile).to_summary()

    def write_notes(self, notes: tuple[str, ...]) -> None:
        """Replace the notes in pool.json, which are caveats about every number of the run."""
        self.write_pool(replace(self.read_pool(), notes=notes))

    def read_notes(self) -> tuple[str, ...]:
        """Read the notes in pool.json."""
        return self.read_pool().notes

    def write_plan(self, plan: Plan) -> None:
        """Write plan.parquet, the table of the planned trials; the plan is also cached."""
        trial_tables.write_plan(self.file("plan.parquet"), plan)
        self._cache["plan.parquet"] = (_get_file_state(self.file("plan.parquet")), plan)

    def read_plan(self) -> Plan:
        """Read plan.parquet; the pool of the plan is read only when it is first used."""

        def read(path: Path) -> Plan:
            return replace(trial_tables.read_plan(path), source=self.read_judged_pool)

        return self._read_cached("plan.parquet", read)

    def write_verdicts(self, verdicts: Verdicts) -> None:
        """Write verdicts.parquet, the table of the judge's answers to all trials; the verdicts are also cached."""
        trial_tables.write_verdicts(self.file("verdicts.parquet"), verdicts)
        self._cache["verdicts.parquet"] = (_get_file_state(self.file("verdicts.parquet")), verdicts)

    def read_verdicts(self, plan: Plan) -> Verdicts:
        """Read the verdicts (judge's answers) on a plan.

        The verdicts refer to the object `plan`. Cached verdicts that refer to another object are read again, even if that
        object is an equal plan.

        Raise RunFolderError [run-other-plan] if the file contains verdicts on another plan.
        """
        _, cached_verdicts = self._cache.get("verdicts.parquet", (None, None))
        if cached_verdicts is not None and cached_verdicts.plan is not plan:
            del self._cache["verdicts.parquet"]

        read = partial(trial_tables.read_verdicts, plan=plan)
        return self._read_cached("verdicts.parquet", read)

    @property
    def is_judged(self) -> bool:
        """Whether verdicts.parquet has an outcome of every trial; False for the answers so far of an unfinished run."""
        return self.has("verdicts.parquet") and not self._read_verdicts_metadata().n_pending

    def check_judged(self) -> None:
        """Raise RunFolderError [run-unjudged] if the run has no answers yet, [run-partial] if it is unfinished."""
        if not self.has("verdicts.parquet"):
            raise self.make_unjudged_error()
        n_pending = self._read_verdicts_metadata().n_pending
        if n_pending:
            raise RunFolderError(
                f"{self.path} is unfinished: {n_pending:,} of its calls have no outcome yet. Run `{self.format_command()}` to "
                "finish it first.",
                slug="run-partial",
            )

    @property
    def asks_preference(self) -> bool:
        """Whether the run asks which of two responses is better; False without a plan."""
        return self.has("plan.parquet") and self.read_plan_without_trials().question == "preference"

    def check_information(self) -> None:
        """Raise RunFolderError [run-preference] if the run asks which of two responses is better."""
        if self.asks_preference:
            uses = "extended, gated and compared" if self.has("config.yaml") else "gated and compared"
            raise RunFolderError(
                f"{self.path} asks which response is better (question: preference). It can be {uses} with other runs, but has "
                "no true- and false-positive rates, which are needed here. Use a run with `question: information`.",
                slug="run-preference",
            )

    def check_not_imported(self) -> None:
        """Raise RunFolderError [extend-imported] if the run was imported without the config of a judge."""
        if self.has("pool.json") and not self.has("config.yaml"):
            raise RunFolderError(
                f"{self.path} was imported, so that no judge can be queried on it. Import the further answers together with the "
                "earlier ones.",
                slug="extend-imported",
            )

    def make_unjudged_error(self, reason: str = "") -> RunFolderError:
        """Return the error for a run that has no answers yet; `reason` is the end of its first sentence."""
        state = f"{self.path} has no answers that could be ranked yet{reason}"
        return RunFolderError(f"{state}. Run `{self.format_command()}` to judge it first.", slug="run-unjudged")

    def read_plan_without_trials(self) -> Plan:
        """Read plan.parquet without its trials, which is fast."""
        return trial_tables.read_plan_without_trials(self.file("plan.parquet")).plan

    def open_judged_files(self) -> JudgedFiles:
        """Read the plan without its trials, and open the table of its verdicts, without reading its rows.

        Raise RunFolderError [run-other-plan] if the verdicts belong to another plan.
        """
        plan, digest = trial_tables.read_plan_without_trials(self.file("plan.parquet"))
        verdicts = trial_tables.open_verdict_table(self.file("verdicts.parquet"), plan_digest=digest)
        return JudgedFiles(plan, verdicts)

    def read_judged_plan_digest(self) -> str:
        """Read the digest of the plan to which verdicts.parquet belongs."""
        return self._read_verdicts_metadata().plan_digest

    def read_recorded_judge(self) -> Mapping[str, Json]:
        """Read the settings of the judge whose answers are in verdicts.parquet."""
        return self._read_verdicts_metadata().judge

    def read_saved_payments(self) -> RunPayments:
        """Read what the run had paid when its verdicts were written; zero amounts without verdicts."""
        return self._read_verdicts_metadata().paid if self.has("verdicts.parquet") else RunPayments()

    def _read_verdicts_metadata(self) -> VerdictsMetadata:
        """Read the metadata of verdicts.parquet, such as the judge and the number of pending trials, without its rows."""
        return read_table_metadata(self.file("verdicts.parquet"), VerdictsMetadata)

    def cache_pool(self, pool: Pool, config: RunConfig) -> None:
        """Keep the pool of the run in memory until a pool file that `config` names changes."""
        self._cache["pool"] = (_get_pool_file_states(config), pool)

    def read_judged_pool(self) -> Pool:
        """Read the pool of the run, with the agents, items and responses that extensions have added.

        The pool is read from the files that config.yaml names, or from the cache if none of them has changed.

        Raise PoolError if a pool cannot be read, ConfigError or RunFolderError if config.yaml cannot be read.
        """
        config = self.read_config()
        states_when_cached, cached_pool = self._cache.get("pool", (None, None))
        current_states = _get_pool_file_states(config)
        if states_when_cached == current_states:
            return cast(Pool, cached_pool)

        pool = read_run_pools(config)[-1]
        self.cache_pool(pool, config)
        return pool

    def find_judged_pool(self) -> Pool | None:
        """Read the pool of the run; None if it cannot be read, or has changed since the run was judged."""
        with suppress(YoudenError):
            pool = self.read_judged_pool()
            if pool.digest == self.read_pool().digest:
                return pool
        return None

    def _read_cached(self, name: str, read: Callable[[Path], T]) -> T:
        """Return the content of a file from the cache; read the file if it has changed or is not cached."""
        state = _get_file_state(self.file(name))
        cached_state, cached_content = self._cache.get(name, (None, None))
        if state is not None and state == cached_state:
            return cast(T, cached_content)

        content = read(self.file(name))
        self._cache[name] = (state, content)
        return content

    @contextmanager
    def replace_fit_files(self, config: RunConfig | None = None) -> Iterator[RunFolder]:
        """Replace all files of a fit together.

        Parameters
        ----------
        config : RunConfig, optional
            Config with the settings of the fit, which replaces config.yaml. Default: config.yaml is not changed.

        Yields
        ------
        RunFolder
            A temporary folder for the new files. If the block succeeds, they replace those of the previous fit, and
            fit.json is replaced last. Otherwise the run is unchanged.
        """
        names = FIT_FILES if config is None else ("config.yaml", *FIT_FILES)
        with atomic_write_many(self.path, names) as tmp_folder:
            if config is not None:
                (tmp_folder / "config.yaml").write_text(
                    dump_run_config(config, self.path), encoding="utf-8", newline="\n"
                )
            yield RunFolder(tmp_folder)

    def remove(self, name: str) -> None:
        """Delete a file of the run if it exists."""
        self.file(name).unlink(missing_ok=True)

    def write_rates(self, rates: Rates) -> None:
        """Write the rates of pairs of agents to rates.parquet, without the sums of independent trials (`detail`)."""
        self.write_rate_chunks([(0, rates)], rates)

    def write_rate_chunks(self, chunks: Iterable[tuple[int, Rates]], template: Plan | Rates) -> None:
        """Write rates.parquet from chunks (consecutive items), and replace an existing one atomically.

        The field `detail` of the rates, with sums of the answers to independent trials, is not written.

        Parameters
        ----------
        chunks : iterable of (int, Rates)
            For each chunk, the position of its first item among all items, and the true- and false-positive rates of its
            items, which are numbered from 0 in each chunk. There is at least one chunk, and the chunks are in the order of
            the items. Only one chunk is in memory at a time.
        template : Plan or Rates
            Object with the agents, the items and the split (training and held-out cells) of the whole run, which are stored
            as metadata.
        """
        rate_tables.write_rates(self.file("rates.parquet"), chunks, template)

    def read_rates(self) -> Rates:
        """Read the rates of pairs of agents from rates.parquet; their field `detail` is None."""
        return rate_tables.read_rates(self.file("rates.parquet"))

    def write_scores(self, kind: ScoreKind, scores: Scores) -> None:
        """Write the scores from which abilities are estimated, to the file of their kind: symmetric or row."""
        csv_tables.write_scores(self.file(_SCORE_FILES[kind]), scores)

    def read_scores(self, kind: ScoreKind) -> Scores:
        """Read the scores of one kind; each score of an agent on an item has the weight 1."""
        self.check_information()
        return csv_tables.read_scores(self.file(_SCORE_FILES[kind]), kind=kind, role="train")

    def write_holdout(self, scores: Scores) -> None:
        """Write holdout.csv: scores of agents on items that were held out, so that no ability depends on them."""
        csv_tables.write_scores(self.file("holdout.csv"), scores)

    def read_holdout(self, kind: ScoreKind = "symmetric") -> Scores:
        """Read holdout.csv, the scores that were held out; the file does not state their kind, so `kind` must be correct."""
        return csv_tables.read_scores(self.file("holdout.csv"), kind=kind, role="holdout")

    def write_ranking(self, ranking: pd.DataFrame) -> None:
        """Write ranking.csv from a table with one row per agent, best first."""
        csv_tables.write_ranking(self.file("ranking.csv"), ranking)

    def read_ranking(self) -> tuple[RankingRow, ...]:
        """Read ranking.csv, best agent first."""
        return csv_tables.read_ranking(self.file("ranking.csv"))

    def write_pairs(self, pairs: Pairs, *, agents: tuple[str, ...]) -> None:
        """Write pairs.parquet, after the ranking of the same fit; `agents` are ids, by position in the pairs."""
        rate_tables.write_pairs(
            self.file("pairs.parquet"), pairs, agents=agents, ranking_digest=self._digest("ranking.csv")
        )

    def read_pairs(self) -> Pairs:
        """Read pairs.parquet; raise RunFolderError [pairs-stale] if another fit wrote the ranking."""
        return rate_tables.read_pairs(self.file("pairs.parquet"), ranking=self.file("ranking.csv"))

    def _digest(self, *names: str) -> str:
        """Return the SHA-256 (hexadecimal) of the contents of files of the run, one after the other."""
        content = b"".join(read_bytes(self.file(name)) for name in names)
        return hashlib.sha256(content).hexdigest()

    def write_ranking_json(self, run: str) -> None:
        """Write ranking.json from the other files of the fit; `run` is the name of the run."""
        content = RankingFile.from_rows(
            run, self.read_ranking(), facts=self.read_facts(), signature=self.read_signature()
        )
        self._write_json("ranking.json", content)

    def write_items(self, items: pd.DataFrame) -> None:
        """Write items.csv from a table with one row per item."""
        csv_tables.write_items(self.file("items.csv"), items)

    def read_items(self) -> tuple[ItemRow, ...]:
        """Read items.csv, in the order of the pool."""
        return self._read_cached("items.csv", csv_tables.read_items)

    def count_compared_items(self, pool: PoolSummary) -> int:
        """Count the items with an answered trial; all items of the pool if there is no items.csv."""
        if not self.has("items.csv"):
            return len(pool.item_ids)
        return sum(item.n_trials > 0 for item in self.read_items())

    @property
    def fit_settings(self) -> FitSettings:
        """Settings of the fit, from config.yaml or, for an imported run, from fit.json."""
        if self.has("config.yaml"):
            return self.read_config().fit_settings
        if not self.has("fit.json"):
            return FitSettings("items-like-these", PartnerRules())
        facts = self.read_facts()
        return FitSettings(facts.target, PartnerRules(facts.ranked_by, facts.trusted, facts.families))

    def find_calibration(self) -> CalibrationRecord | None:
        """Find the stored calibration of the judge; None without one."""
        if not self.has("verdicts.parquet"):
            return None
        return find_calibration(self.path.resolve().parent, self.read_recorded_judge(), pool=self.read_pool().digest)

    @property
    def calibration(self) -> str | None:
        """One line about the stored calibration of the judge; None without one."""
        record = self.find_calibration()
        return None if record is None else record.describe(pool=self.read_pool().digest)

    def find_quality(self) -> QualityFacts | None:
        """Read quality.json; None if there is none, or if it belongs to an earlier ranking."""
        if not self.has("quality.json"):
            return None
        facts = self.read_quality()
        return facts if facts.tables_digest == self.compute_tables_digest() else None

    def write_curl(self, curves: Sequence[CurlCurve]) -> None:
        """Write curl.csv: how far symmetric scores deviate from the additive model, one curve per link function."""
        csv_tables.write_curl(self.file("curl.csv"), curves)

    def read_curl(self) -> tuple[CurlCurve, ...]:
        """Read curl.csv, one curve per link function."""
        return csv_tables.read_curl(self.file("curl.csv"))

    def write_facts(self, facts: RunFacts) -> None:
        """Write fit.json: facts about the fit, such as its estimator, its intervals and the selected agents."""
        self._write_json("fit.json", facts)

    def read_facts(self) -> RunFacts:
        """Read fit.json, the facts about the fit."""
        return self._read_json("fit.json", RunFacts)

    def write_signature(self, signature: Signature) -> None:
        """Write signature.json: everything that the numbers of the run depend on, as a text and by name."""
        file = SignatureFile(version=VERSION, text=signature.text, digest=signature.digest, parts=dict(signature.parts))
        self._write_json("signature.json", file)

    def read_signature(self) -> Signature:
        """Read the signature of the run from signature.json."""
        return Signature(self._read_json("signature.json", SignatureFile).parts)

    def compute_tables_digest(self) -> str:
        """Compute the SHA-256 (hex) of the ranking and the symmetric scores; a run that asks for preferences has no scores."""
        tables = ["ranking.csv"] if self.asks_preference else ["ranking.csv", "scores.csv"]
        return self._digest(*tables)

    def write_labels(self, validation: Validation) -> None:
        """Write labels.json: how well the ranking agrees with labels of the agents."""
        self._write_json("labels.json", validation)

    def read_labels(self) -> Validation:
        """Read labels.json; its `tables_digest` shows to which ranking it belongs."""
        return self._read_json("labels.json", Validation)

    def write_variance_components(self, variance_components: VarianceFacts) -> None:
        """Write the variance components of the ranking (variance_components.json)."""
        self._write_json("variance_components.json", variance_components)

    def read_variance_components(self) -> VarianceFacts:
        """Read the variance components of the ranking (variance_components.json)."""
        return self._read_json("variance_components.json", VarianceFacts)

    def write_quality(self, facts: QualityFacts) -> None:
        """Write the estimates of quality from labels: one row per agent in quality.csv, and all facts in quality.json."""
        csv_tables.write_quality(self.file("quality.csv"), facts.agents)
        self._write_json("quality.json", facts)

    def read_quality(self) -> QualityFacts:
        """Read quality.json; its `tables_digest` shows to which ranking it belongs."""
        return self._read_json("quality.json", QualityFacts)

    def _write_json(self, name: str, value: Any) -> None:
        """Write an object of a declared class to a JSON file of the run."""
        encoded = _get_adapter(value.__class__).dump_json(value, indent=1)
        self.write_text(name, encoded.decode() + "\n")

    def _read_json(self, name: str, kind: type[T]) -> T:
        """Read a JSON file of the run as an object of a declared class."""
        file = self.file(name)
        content: T = parse_versioned_json(file, read_bytes(file), _get_adapter(cast(Any, kind)))
        return content


def _get_pool_file_states(config: RunConfig) -> tuple[object, ...]:
    """Return the paths and states of all files of the run's pools; the value changes if a file is replaced."""
    added_pools = (step.added_pool for step in config.extensions)
    paths = [Path(path).resolve() for path in (config.pool, *added_pools) if path is not None]
    files: list[Path] = []
    for path in paths:
        files += sorted(path.iterdir()) if path.is_dir() else [path]
    return tuple((file, _get_file_state(file)) for file in files)


def _get_file_state(file: Path) -> object:
    """Return a value that changes if the file is replaced; None if it does not exist."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
