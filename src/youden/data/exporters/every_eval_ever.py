"""Writes a run in the schema of Every Eval Ever 0.3, in which a file holds one model: each agent's ability is one result.

The places of the files are those of its datastore, `data/<collection>/<developer>/<model>/<uuid>.json`, so that its validator
takes them. Who made an agent a run does not know; nor does it keep a prompt's text, so a judge's prompt is its name and digest.

Source: every-eval-ever 0.3.0, `eval.schema.json` and `validator/validation_core.py`.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from youden.data.exporters.export_files import Exported, ExportOptions, fresh_folder, of_run
from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.text.printable import path_part
from youden.types import Pool
from youden.types.columns import fields_of
from youden.types.facts import RankingRow, RunFacts
from youden.types.pool import Json
from youden.types.results import Signature

SCHEMA_VERSION = "0.3.0"
NOT_STATED = "not-stated"
_SAID_ELSEWHERE = ("agent", "ability", "low", "high", "error")
_ABILITY = (
    "How well others' responses let the judge recognise the same source: true-positive rate less false-positive rate, over the "
    "agent's partners and items. Relative to this pool, this judge and these items. It rewards restating what "
    "others can be matched to (obscure or bureaucratic styles stand high, terse references low), and is no proof of correctness."
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
    """A folder with a file for each agent that has an ability; those without one are named in the notes.

    Raises: ConfigError [export-source], [export-exists]; RunFolderError where the run is not fitted.
    """
    folder = of_run(source, "eee")
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
    with fresh_folder(out) as fresh:
        for row in ranked:
            place = fresh / _place(run, row.agent)
            place.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(_log(run, row), ensure_ascii=False, allow_nan=False, indent=1)
            place.write_text(text + "\n", encoding="utf-8", newline="\n")
    left = [row.agent for row in rows if row.ability is None]
    notes = (f"Left out, for they have no ability: {', '.join(left)}.",) if left else ()
    return Exported((out,), {"agents": len(ranked)}, notes)


def _log(run: _Run, row: RankingRow) -> dict[str, Json]:
    collection, model = _collection(run), _model_id(row.agent)
    standings: list[tuple[str, RankingRow]] = [("plain", row), *row.standings.items()]
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
            "additional_details": _texts(
                {"signature": run.signature.text, "signature_digest": run.signature.digest, **run.signature.parts}
            ),
        },
        "model_info": {
            **_unknown_model(row.agent, model),
            "developer": model.partition("/")[0] if "/" in model else NOT_STATED,
        },
        "evaluation_results": [
            _result(run, name, standing) for name, standing in standings if standing.ability is not None
        ],
    }


def _result(run: _Run, name: str, standing: RankingRow) -> dict[str, Json]:
    facts, own = run.facts, "" if name == "plain" else f".{name}"
    uncertainty: dict[str, Json] = {}
    if standing.error is not None:
        uncertainty["standard_error"] = {"value": standing.error, "method": facts.interval}
    if standing.low is not None and standing.high is not None:
        uncertainty["confidence_interval"] = {
            "lower": standing.low,
            "upper": standing.high,
            "confidence_level": facts.level,
            "method": facts.interval,
        }
    details: dict[str, Json] = {
        **{column: value for column, value in fields_of(standing).items() if column not in _SAID_ELSEWHERE},
        "n_agents": len(run.pool.agents),
        "interval_speaks_of": facts.target,
        "heads_the_ranking": name == facts.ranked_by,
    }
    metric: dict[str, Json] = {
        "evaluation_description": _ABILITY,
        "metric_id": f"youden.ability{own}",
        "metric_name": "Ability" if not own else f"Ability ({name})",
        "metric_kind": "ability",
        "metric_unit": "proportion",
        "lower_is_better": False,
        "score_type": "continuous",
        "min_score": "-Infinity",
        "max_score": "Infinity",
        "additional_details": _texts({"estimator": facts.ranking, "status": facts.status}),
    }
    if (scoring := _scoring(run.signature.parts)) is not None:
        metric["llm_scoring"] = scoring
    return {
        "evaluation_result_id": f"youden.ability{own}",
        "evaluation_name": f"youden.ability{own}",
        "source_data": {
            "dataset_name": run.pool.name,
            "source_type": "other",
            "additional_details": _texts({"pool_digest": run.pool.digest, "n_items": len(run.pool.item_ids)}),
        },
        "metric_config": metric,
        "score_details": {
            "score": standing.ability,
            "details": _texts(details),
            **({"uncertainty": uncertainty} if uncertainty else {}),
        },
    }


def _scoring(parts: Mapping[str, Json]) -> dict[str, Json] | None:
    """The judge, where it is a model, or models that vote; None for one that computes."""
    detail = parts.get("judge_detail")
    if not isinstance(detail, dict):
        return None
    members = detail.get("judges")
    judges = [one for one in (members if isinstance(members, list) else [detail]) if isinstance(one, dict)]
    asked = [one for one in judges if one.get("model")]
    if not asked:
        return None
    prompts = sorted({f"{one.get('prompt')} (digest {one.get('prompt_digest')})" for one in asked})
    return {
        "judges": [
            {"model_info": _unknown_model(str(one["model"]), str(one["model"])), "additional_details": _texts(one)}
            for one in asked
        ],
        "input_prompt": f"Whether two responses come from the same item, by the prompt {', '.join(prompts)}.",
        "additional_details": _texts({"vote": detail.get("vote")}),
    }


def _unknown_model(name: str, model: str) -> dict[str, Json]:
    """What is known of a model: how it is called."""
    return {
        "name": name,
        "id": model,
        "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
    }


def _texts(values: Mapping[str, Json]) -> dict[str, Json]:
    """The schema takes strings only; None is left out."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        for key, value in values.items()
        if value is not None
    }


def _place(run: _Run, agent: str) -> Path:
    model = _model_id(agent)
    developer, _, rest = model.partition("/") if "/" in model else (NOT_STATED, "", model)
    unique = hashlib.sha256(f"{run.signature.digest}\0{agent}".encode()).digest()
    name = f"{uuid.UUID(bytes=unique[:16], version=4)}.json"
    return Path("data", _collection(run), developer, rest.replace("/", "_"), name)


def _collection(run: _Run) -> str:
    return f"youden_{path_part(run.pool.name)}"


def _model_id(agent: str) -> str:
    """The agent's id as the parts of a path; a part that could not be one becomes like itself, with a digest."""
    return "/".join(path_part(part) for part in agent.split("/"))
