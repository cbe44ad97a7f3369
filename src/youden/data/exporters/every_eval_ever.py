"""Export a run in the schema of Every Eval Ever 0.3: one file per agent, whose result is the agent's ability.

The files have the paths of its datastore, `data/<collection>/<developer>/<model>/<uuid>.json`, so that its validator
accepts them. A run records neither the developer of an agent nor the text of a prompt: the developer is not stated
unless the agent's id contains one, and a judge's prompt is represented by its name and digest.

References: every-eval-ever 0.3.0, `eval.schema.json` and `validator/validation_core.py`.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from youden.data.exporters.export_files import Exported, ExportOptions, create_export_folder, require_run_with_rates
from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.text.printable import to_file_name
from youden.text.sentences import ABILITY
from youden.types import Pool
from youden.types.arguments import check_unused
from youden.types.columns import fields_of
from youden.types.facts import RankingRow, RunFacts
from youden.types.pool import Json
from youden.types.results import Signature

SCHEMA_VERSION = "0.3.0"
NOT_STATED = "not-stated"
_FIELDS_OF_SCHEMA = ("agent", "ability", "low", "high", "std_error")
"""Columns of a ranking that the schema has keys for."""
_ABILITY = (
    "True-positive rate minus false-positive rate of the judge, averaged over the agent's partners and items. "
    + ABILITY
)


@dataclass(frozen=True)
class _Run:
    """Facts of a run that the files of all its agents contain; `timestamp` is in seconds since 1970."""

    name: str
    pool: PoolSummary
    facts: RunFacts
    signature: Signature
    timestamp: str
    organization: str | None


def export_every_eval_ever(source: Pool | RunFolder, out: Path, /, *, options: ExportOptions) -> Exported:
    """Export a fitted run as a folder with one file per agent that has an ability.

    Parameters
    ----------
    source : Pool or RunFolder
        The run; a pool is an error.
    out : Path
        Folder to write.
    options : ExportOptions
        Options of the export; `raw_cells` is an error.

    Returns
    -------
    Exported
        The folder, the number of exported agents, and a note that names the agents without an ability.

    Raises
    ------
    ConfigError
        [export-source]: if the source is a pool; [export-exists]: if `out` is a file or is not empty;
        [option-unused]: if an option has no effect.
    RunFolderError
        If the run is not fitted.
    """
    check_unused("The format eee", raw_cells=options.raw_cells)
    folder = require_run_with_rates(source, "eee")
    rows = folder.read_ranking()
    fit_time = folder.file("ranking.csv").stat().st_mtime
    run = _Run(
        folder.path.resolve().name,
        folder.read_pool(),
        folder.read_facts(),
        folder.read_signature(),
        timestamp=str(int(fit_time)),
        organization=options.organization,
    )

    ranked = [row for row in rows if row.ability is not None]
    with create_export_folder(out) as tmp_folder:
        for row in ranked:
            _write_evaluation(run, row, tmp_folder)
    omitted = [row.agent for row in rows if row.ability is None]
    notes = (f"Agents without an ability are left out: {', '.join(omitted)}.",) if omitted else ()
    return Exported((out,), {"agents": len(ranked)}, notes)


def _write_evaluation(run: _Run, row: RankingRow, folder: Path) -> None:
    """Write the file of one agent, whose content is `_to_evaluation`, to the folder of an export."""
    path = folder / _make_relative_path(run, row.agent)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_to_evaluation(run, row), ensure_ascii=False, allow_nan=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def _to_evaluation(run: _Run, row: RankingRow) -> dict[str, Json]:
    """Return the content of the JSON file of one agent, in the layout of the Every Eval Ever schema.

    run : the run to export, with its pool and the facts about its calls
    row : the agent's row in the main ranking, with its rows in the alternative rankings
    """
    collection = _get_collection_name(run)
    model = _make_model_id(row.agent)
    developer = model.partition("/")[0] if "/" in model else NOT_STATED
    details = {"signature": run.signature.text, "signature_digest": run.signature.digest, **run.signature.parts}
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{collection}/{model}/{run.timestamp}",
        "retrieved_timestamp": run.timestamp,
        "source_metadata": {
            "source_name": f"youden run {run.name}",
            "source_type": "evaluation_run",
            "source_organization_name": run.organization or NOT_STATED,
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": "youden",
            "version": str(run.signature.parts.get("youden", "unknown")),
            "additional_details": _to_strings(details),
        },
        "model_info": {**_describe_model(name=row.agent, model_id=model), "developer": developer},
        "evaluation_results": _list_evaluation_results(run, row),
    }


def _list_evaluation_results(run: _Run, row: RankingRow) -> list[Json]:
    """Return the results of an agent in the plain ranking, and in the alternative ones in which it has an ability."""
    results: list[Json] = []
    rows_by_ranking: list[tuple[str, RankingRow]] = [("plain", row), *row.alternative_rankings.items()]
    for ranking_name, ranking_row in rows_by_ranking:
        if ranking_row.ability is not None:
            results.append(_to_evaluation_result(run, ranking_name, ranking_row))
    return results


def _to_evaluation_result(run: _Run, name: str, row: RankingRow) -> dict[str, Json]:
    """Return the result of an agent in a ranking, as an entry of `evaluation_results` in the schema.

    run : the run to export
    name : name of the ranking: "plain", or an alternative ranking such as "robust"
    row : the agent's row in this ranking
    """
    metric_id = "youden.ability" if name == "plain" else f"youden.ability.{name}"
    pool_details: dict[str, Json] = {"pool_digest": run.pool.digest, "n_items": len(run.pool.item_ids)}
    return {
        "evaluation_result_id": metric_id,
        "evaluation_name": metric_id,
        "source_data": {
            "dataset_name": run.pool.name,
            "source_type": "other",
            "additional_details": _to_strings(pool_details),
        },
        "metric_config": _describe_metric(run, name, metric_id=metric_id),
        "score_details": _to_score_details(run, name, row),
    }


def _to_score_details(run: _Run, name: str, row: RankingRow) -> dict[str, Json]:
    """Convert one agent's row of a ranking to the object `score_details` of the schema of Every Eval Ever.

    run : the run to export
    name : name of the ranking: "plain", or an alternative ranking such as "robust"
    row : the agent's row in this ranking

    Returns up to three keys:

    - `score`: the ability
    - `uncertainty`: its standard error and its interval, if there are any
    - `details`: columns for which the schema has no key, and three values that are equal for all agents

    These three values are `n_agents` (the number of agents), `interval_speaks_of` (which items the intervals describe) and
    `heads_the_ranking` (whether the run reports this ranking first).
    """
    facts = run.facts
    details: dict[str, Json] = {key: value for key, value in fields_of(row).items() if key not in _FIELDS_OF_SCHEMA}
    details["n_agents"] = len(run.pool.agents)
    details["interval_speaks_of"] = facts.target
    details["heads_the_ranking"] = name == facts.ranked_by

    score_details: dict[str, Json] = {"score": row.ability, "details": _to_strings(details)}
    uncertainty = _describe_uncertainty(row, facts)
    if uncertainty:
        score_details["uncertainty"] = uncertainty
    return score_details


def _describe_uncertainty(row: RankingRow, facts: RunFacts) -> dict[str, Json]:
    """Convert the uncertainty of an ability to the object `uncertainty` of the schema of Every Eval Ever.

    row : row of a ranking, with the ability of one agent
    facts : facts about the run, with the method and the confidence level of its intervals

    Returns the standard error and the confidence interval, each only if the ability has it.
    """
    uncertainty: dict[str, Json] = {}
    if row.std_error is not None:
        uncertainty["standard_error"] = {"value": row.std_error, "method": facts.interval}
    if row.low is not None and row.high is not None:
        uncertainty["confidence_interval"] = {
            "lower": row.low,
            "upper": row.high,
            "confidence_level": facts.level,
            "method": facts.interval,
        }
    return uncertainty


def _describe_metric(run: _Run, name: str, *, metric_id: str) -> dict[str, Json]:
    """Return the `metric_config` of a ranking: what an ability is, how it was estimated, and which judge answered.

    name : name of the ranking
    """
    facts = run.facts
    description = _ABILITY if facts.partial is None else f"{facts.partial.text} {_ABILITY}"
    metric: dict[str, Json] = {
        "evaluation_description": description,
        "metric_id": metric_id,
        "metric_name": "Ability" if name == "plain" else f"Ability ({name})",
        "metric_kind": "ability",
        "metric_unit": "proportion",
        "lower_is_better": False,
        "score_type": "continuous",
        "min_score": "-Infinity",
        "max_score": "Infinity",
        "additional_details": _to_strings({"estimator": facts.ranking, "status": facts.status}),
    }
    judge = _describe_judge(run.signature.parts)
    if judge is not None:
        metric["llm_scoring"] = judge
    return metric


def _describe_judge(signature_parts: Mapping[str, Json]) -> dict[str, Json] | None:
    """Describe the judge of a run as an object `llm_scoring` of the schema of Every Eval Ever.

    A jury is described by all its judges.

    signature_parts : all inputs that determine the results of a run, by name, as in signature.json; `judge_detail` contains
        the settings of the judge

    Returns None if no judge has a model.
    """
    settings = signature_parts.get("judge_detail")
    if not isinstance(settings, dict):
        return None
    judges = _list_judges_with_model(settings)
    if not judges:
        return None

    descriptions: list[Json] = []
    prompts = set()
    for judge in judges:
        model = str(judge["model"])
        model_info: Json = _describe_model(name=model, model_id=model)
        descriptions.append({"model_info": model_info, "additional_details": _to_strings(judge)})
        prompts.add(f"{judge.get('prompt')} (digest {judge.get('prompt_digest')})")
    return {
        "judges": descriptions,
        "input_prompt": f"Whether two responses come from the same item, with the prompt {', '.join(sorted(prompts))}.",
        "additional_details": _to_strings({"vote": settings.get("vote")}),
    }


def _list_judges_with_model(settings: dict[str, Json]) -> list[dict[str, Json]]:
    """List the settings of the judges that query a model: those of a jury, or of the single judge.

    settings : settings of the judge of a run; the key "judges" lists the judges of a jury
    """
    judges = settings.get("judges")
    if not isinstance(judges, list):
        judges = [settings]
    return [judge for judge in judges if isinstance(judge, dict) and judge.get("model")]


def _describe_model(*, name: str, model_id: str) -> dict[str, Json]:
    """Return the `model_info` object of a model whose deployment and availability are unknown."""
    return {
        "name": name,
        "id": model_id,
        "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
    }


def _to_strings(values: Mapping[str, Json]) -> dict[str, Json]:
    """Convert the values of a mapping to strings, as the schema requires.

    A value of a different type, such as a number or a list, becomes JSON text. Values of None are dropped.
    """
    strings: dict[str, Json] = {}
    for key, value in values.items():
        if isinstance(value, str):
            strings[key] = value
        elif value is not None:
            strings[key] = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return strings


def _make_relative_path(run: _Run, agent: str) -> Path:
    """Return the path of an agent's file in the exported folder."""
    developer, slash, model_name = _make_model_id(agent).partition("/")
    if not slash:
        developer, model_name = NOT_STATED, developer
    digest = hashlib.sha256(f"{run.signature.digest}\0{agent}".encode()).digest()
    file_name = f"{uuid.UUID(bytes=digest[:16], version=4)}.json"
    return Path("data", _get_collection_name(run), developer, model_name.replace("/", "_"), file_name)


def _get_collection_name(run: _Run) -> str:
    """Return the name of the collection in the datastore, which contains the name of the pool."""
    return f"youden_{to_file_name(run.pool.name)}"


def _make_model_id(agent: str) -> str:
    """Convert the id of an agent to a path.

    A component that cannot be a file name is changed, and a digest is appended to it.
    """
    return "/".join(to_file_name(part) for part in agent.split("/"))
