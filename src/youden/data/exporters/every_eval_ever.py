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

from youden.data.exporters.export_files import Exported, ExportOptions, create_export_folder, require_run
from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.text.printable import to_file_name
from youden.text.sentences import ABILITY
from youden.types import Pool
from youden.types.columns import fields_of
from youden.types.facts import RankingRow, RunFacts
from youden.types.pool import Json
from youden.types.results import Signature

SCHEMA_VERSION = "0.3.0"
NOT_STATED = "not-stated"
_OTHER_FIELDS = ("agent", "ability", "low", "high", "std_error")
_ABILITY = (
    "True-positive rate minus false-positive rate of the judge, averaged over the agent's partners and items. "
    + ABILITY
)


@dataclass(frozen=True)
class _Run:
    name: str
    pool: PoolSummary
    facts: RunFacts
    signature: Signature
    timestamp: str
    organization: str | None


def export_every_eval_ever(source: Pool | RunFolder, out: Path, /, *, terms: ExportOptions) -> Exported:
    """Export a fitted run as a folder with one file per agent that has an ability.

    Of the options, only `organization` applies. The notes name the agents without an ability.
    """
    folder = require_run(source, "eee")
    rows = folder.read_ranking()
    run = _Run(
        folder.path.resolve().name,
        folder.read_pool(),
        folder.read_facts(),
        folder.read_signature(),
        str(int(folder.file("ranking.csv").stat().st_mtime)),
        terms.organization,
    )
    ranked = [row for row in rows if row.ability is not None]
    with create_export_folder(out) as tmp_folder:
        for row in ranked:
            path = tmp_folder / _relative_path(run, row.agent)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(_to_evaluation(run, row), ensure_ascii=False, allow_nan=False, indent=1)
            path.write_text(text + "\n", encoding="utf-8", newline="\n")
    omitted = [row.agent for row in rows if row.ability is None]
    notes = (f"Agents without an ability are left out: {', '.join(omitted)}.",) if omitted else ()
    return Exported((out,), {"agents": len(ranked)}, notes)


def _to_evaluation(run: _Run, row: RankingRow) -> dict[str, Json]:
    """Return the content of an agent's file."""
    collection, model = _collection(run), _model_id(row.agent)
    standings: list[tuple[str, RankingRow]] = [("plain", row), *row.alternative_rankings.items()]
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
            "additional_details": _to_strings(
                {"signature": run.signature.text, "signature_digest": run.signature.digest, **run.signature.parts}
            ),
        },
        "model_info": {
            **_model_info(row.agent, model),
            "developer": model.partition("/")[0] if "/" in model else NOT_STATED,
        },
        "evaluation_results": [
            _to_result(run, name, standing) for name, standing in standings if standing.ability is not None
        ],
    }


def _to_result(run: _Run, name: str, standing: RankingRow) -> dict[str, Json]:
    """Return the result of an agent in the ranking called `name`."""
    facts = run.facts
    suffix = "" if name == "plain" else f".{name}"
    uncertainty: dict[str, Json] = {}
    if standing.std_error is not None:
        uncertainty["standard_error"] = {"value": standing.std_error, "method": facts.interval}
    if standing.low is not None and standing.high is not None:
        uncertainty["confidence_interval"] = {
            "lower": standing.low,
            "upper": standing.high,
            "confidence_level": facts.level,
            "method": facts.interval,
        }
    details: dict[str, Json] = {
        **{column: value for column, value in fields_of(standing).items() if column not in _OTHER_FIELDS},
        "n_agents": len(run.pool.agents),
        "interval_speaks_of": facts.target,
        "heads_the_ranking": name == facts.ranked_by,
    }
    metric: dict[str, Json] = {
        "evaluation_description": _ABILITY,
        "metric_id": f"youden.ability{suffix}",
        "metric_name": "Ability" if not suffix else f"Ability ({name})",
        "metric_kind": "ability",
        "metric_unit": "proportion",
        "lower_is_better": False,
        "score_type": "continuous",
        "min_score": "-Infinity",
        "max_score": "Infinity",
        "additional_details": _to_strings({"estimator": facts.ranking, "status": facts.status}),
    }
    if (scoring := _describe_judge(run.signature.parts)) is not None:
        metric["llm_scoring"] = scoring
    return {
        "evaluation_result_id": f"youden.ability{suffix}",
        "evaluation_name": f"youden.ability{suffix}",
        "source_data": {
            "dataset_name": run.pool.name,
            "source_type": "other",
            "additional_details": _to_strings({"pool_digest": run.pool.digest, "n_items": len(run.pool.item_ids)}),
        },
        "metric_config": metric,
        "score_details": {
            "score": standing.ability,
            "details": _to_strings(details),
            **({"uncertainty": uncertainty} if uncertainty else {}),
        },
    }


def _describe_judge(parts: Mapping[str, Json]) -> dict[str, Json] | None:
    """Describe the model that judged, or the models of a jury; None for a judge without a model."""
    detail = parts.get("judge_detail")
    if not isinstance(detail, dict):
        return None
    jury = detail.get("judges")
    candidates = jury if isinstance(jury, list) else [detail]
    judges = [judge for judge in candidates if isinstance(judge, dict) and judge.get("model")]
    if not judges:
        return None
    prompts = sorted({f"{judge.get('prompt')} (digest {judge.get('prompt_digest')})" for judge in judges})
    return {
        "judges": [
            {
                "model_info": _model_info(str(judge["model"]), str(judge["model"])),
                "additional_details": _to_strings(judge),
            }
            for judge in judges
        ],
        "input_prompt": f"Whether two responses come from the same item, with the prompt {', '.join(prompts)}.",
        "additional_details": _to_strings({"vote": detail.get("vote")}),
    }


def _model_info(name: str, model: str) -> dict[str, Json]:
    """Describe a model of which only the name and the id are known."""
    return {
        "name": name,
        "id": model,
        "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
    }


def _to_strings(values: Mapping[str, Json]) -> dict[str, Json]:
    """Convert values to strings, as the schema requires; drop those that are None."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        for key, value in values.items()
        if value is not None
    }


def _relative_path(run: _Run, agent: str) -> Path:
    """Return the path of an agent's file in the exported folder."""
    model = _model_id(agent)
    developer, _, model_name = model.partition("/") if "/" in model else (NOT_STATED, "", model)
    digest = hashlib.sha256(f"{run.signature.digest}\0{agent}".encode()).digest()
    file_name = f"{uuid.UUID(bytes=digest[:16], version=4)}.json"
    return Path("data", _collection(run), developer, model_name.replace("/", "_"), file_name)


def _collection(run: _Run) -> str:
    return f"youden_{to_file_name(run.pool.name)}"


def _model_id(agent: str) -> str:
    """Convert the id of an agent to a path.

    A component that cannot be a file name is changed, and a digest is appended to it.
    """
    return "/".join(to_file_name(part) for part in agent.split("/"))
