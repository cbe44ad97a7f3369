"""Test that the schemas describe the files of a run: real files fit them and damaged ones do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from commands import Youden, write_config, write_pool_table
from schema_files import SCHEMAS, content, validator
from youden.data.folder.run_files import COMMAND_BY_FILE, GATES_FILE, GateLedger, write_ledger
from youden.resources import find_resource_folders
from youden.text.yaml_text import read_yaml

WITHOUT = {"report.html", "generation.json"}
"""A page for people, and a file of pools."""


def test_every_file_of_a_run_has_a_schema() -> None:
    assert set(SCHEMAS) == (set(COMMAND_BY_FILE) | {GATES_FILE}) - WITHOUT


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_a_valid_json_schema(name: str) -> None:
    checker = validator(name)
    Draft202012Validator.check_schema(checker.schema)
    assert str(checker.schema["$id"]).startswith(f"urn:youden:run:{name}:")


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"calls": 300, "robust": True, "families": {"a0": "x", "a1": "x", "a2": "y"}}, id="standings"),
        pytest.param({"calls": 200, "independent": "pooled:20"}, id="cyclic", marks=pytest.mark.slow),
        pytest.param({"design": "dense", "holdout": 0.2}, id="held out", marks=pytest.mark.slow),
        pytest.param(
            {"design": "adaptive", "top": 1, "calls": 240, "independent": "pooled:12"},
            id="adaptive",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_file_of_a_real_run_fits_its_schema(youden: Youden, tmp_path: Path, keys: dict[str, object]) -> None:
    write_pool_table(tmp_path / "p.csv", n_agents=8)
    write_config(tmp_path / "c.yaml", pool="p.csv", out="run", **keys)
    (tmp_path / "labels.csv").write_text("agent,score\n" + "".join(f"a{k},{k}\n" for k in range(6)), encoding="utf-8")
    (tmp_path / "few.csv").write_text(
        "agent,item,ok\n" + "".join(f"a{k},i{k},{k % 2}\n" for k in range(6)), encoding="utf-8"
    )
    assert youden("run", "c.yaml", "--labels", "labels.csv").code == 0
    assert youden("quality", "run", "--labels", "few.csv").code == 0
    ledger = GateLedger(analyses=[]).with_analysis("a0", "a1", answers="0" * 64, margin=0.05)
    write_ledger(tmp_path / "run" / GATES_FILE, ledger)
    there = [name for name in SCHEMAS if (tmp_path / "run" / name).exists()]
    assert set(SCHEMAS) - set(there) <= {"holdout.csv", "pairs.parquet"}
    for name in there:
        errors = list(validator(name).iter_errors(content(tmp_path / "run" / name)))
        assert not errors, f"{name}: {errors[0].message} at {errors[0].json_path}"


def test_an_invalid_file_does_not_fit_its_schema(mine: Path) -> None:
    run = mine / "runs" / "mine"
    ranking = content(run / "ranking.csv")
    damaged: tuple[object, ...] = (
        [{**ranking[0], "ability": "high"}],
        [{"agent": "a"}],
        [{**ranking[0], "more": 1}],
        {},
    )
    for wrong in damaged:
        assert not validator("ranking.csv").is_valid(wrong)
    verdicts = content(run / "verdicts.parquet")
    row = verdicts["rows"][0]
    for wrong_row in ({**row, "answer": 1.5}, {**row, "trial_type": "other"}, {**row, "item": None}):
        assert not validator("verdicts.parquet").is_valid({**verdicts, "rows": [wrong_row]})
    output = content(run / "ranking.json")
    for case in ({**output, "ranked_by": "mood"}, {**output, "agents": [{"agent": "a"}]}, {**output, "more": 1}):
        assert not validator("ranking.json").is_valid(case)


def test_ranking_json_agrees_with_ranking_csv_and_describes_its_fields(mine: Path) -> None:
    run = mine / "runs" / "mine"
    output, lines, facts, signature = (
        content(run / name) for name in ("ranking.json", "ranking.csv", "fit.json", "signature.json")
    )
    for checker, line in zip(output["agents"], lines, strict=True):
        assert {name: checker[name] for name in line if name in checker} == {
            name: line[name] for name in line if name in checker
        }
    for name in ("level", "target", "interval", "ranking", "unique_best"):
        assert output[name] == facts[name]
    assert {checker["agent"]: checker["p_best"] for checker in output["agents"]} == facts["choice"]["p_best"]
    assert sum(facts["choice"]["p_best"].values()) == pytest.approx(1)
    assert output["signature"] == signature["text"]


def test_a_handwritten_config_fits_its_schema_and_a_typo_does_not() -> None:
    schema = validator("config.yaml")
    written = [
        path for root in find_resource_folders("configs", local=False)[:1] for path in (root / "runs").glob("*.yaml")
    ]
    assert written
    for path in written:
        schema.validate(read_yaml(path))
    schema.validate({"pool": "mine.csv", "judge": {"backend": "openai", "model": "m"}})
    damaged: tuple[object, ...] = ({"pool": "mine.csv", "cals": 3}, {"pool": "mine.csv", "calls": 0}, {"calls": 3})
    for wrong in damaged:
        assert not schema.is_valid(wrong)
    assert "USD" in schema.schema["properties"]["max_cost"]["description"]
