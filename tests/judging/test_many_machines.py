"""Run the recipes of docs/how-to/many-machines.md with toy engines."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from commands import Youden, write_config, write_small_run
from toy_engine import decide

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "many-machines.md"


def section(name: str, language: str) -> str:
    """Return the last code block in this language below the heading."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {name}", 1)[1].split("\n## ")[0]
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return blocks[-1]


@pytest.fixture
def machines_folder(tmp_path: Path) -> Path:
    judge = yaml.safe_load(section("The judge's config", "yaml"))
    write_small_run(tmp_path, "judged", judge=judge)
    write_small_run(tmp_path, "odds", judge=judge | {"decision": "logprobs"})
    return tmp_path


def imported(youden: Youden, config: str, answers: str) -> dict[str, Any]:
    ended = youden("judge", config, "--import", answers, "--json")
    assert ended.code == 0, ended.err
    assert "110 answers added" in ended.err
    calls: dict[str, Any] = json.loads(ended.out)["calls"]
    return calls


@pytest.fixture
def vllm_on_path(tmp_path: Path) -> dict[str, str]:
    """Create an environment in which `vllm` is the toy engine."""
    (tmp_path / "bin").mkdir()
    toy = tmp_path / "bin" / "vllm"
    toy.write_text(f'#!/bin/sh\nexec {sys.executable} {(Path(__file__).parents[1] / "toy_engine.py")} "$@"\n')
    toy.chmod(0o755)
    return os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


@pytest.mark.slow
def test_vllm_run_batch_in_a_slurm_array_answers_a_run(
    youden: Youden, machines_folder: Path, vllm_on_path: dict[str, str]
) -> None:
    job = section("`vllm run-batch` in a Slurm array", "bash")
    assert re.search(r"#SBATCH --array=0-7$", job, re.MULTILINE)
    assert "--shards 8" in section("`vllm run-batch` in a Slurm array", "")
    assert youden("plan", "judged.yaml", "--export", "export", "--shards", "2").code == 0
    for task in range(2):
        environment = vllm_on_path | {"SLURM_ARRAY_TASK_ID": str(task)}
        subprocess.run(["bash", "-c", job], cwd=machines_folder, env=environment, check=True)
    imported(youden, "judged.yaml", "export")


@pytest.mark.slow
def test_a_folder_exchanged_with_another_machine_answers_a_run(
    youden: Youden, machines_folder: Path, vllm_on_path: dict[str, str]
) -> None:
    config = yaml.safe_load((machines_folder / "judged.yaml").read_text())
    config["judge"]["batch_provider"] = "folder"
    write_config(machines_folder / "judged.yaml", **config)
    asking = [sys.executable, "-m", "youden", "judge", "judged.yaml", "--mode", "batch", "--poll", "0.2"]
    with subprocess.Popen(asking, cwd=machines_folder, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        next(line for line in waiting.stderr if "requests sent" in line)
        subprocess.run(
            ["bash", "-c", section("Exchange through a folder", "bash")],
            cwd=machines_folder,
            env=vllm_on_path,
            check=True,
        )
        remainder = waiting.stderr.read()
    assert waiting.returncode == 0, remainder
    assert "110 of 110 answered" in remainder


class RayData:
    """Substitute for Ray as the recipe uses it: rows in blocks through three stages, with one file per block named as by Ray."""

    def __init__(self) -> None:
        self.blocks: list[list[dict[str, Any]]] = []
        self.ray, self.data, self.llm = (ModuleType(name) for name in ("ray", "ray.data", "ray.data.llm"))
        vars(self.ray).update(data=self.data)
        vars(self.data).update(read_parquet=self.read_parquet)
        vars(self.llm).update(build_processor=self.build_processor, vLLMEngineProcessorConfig=SimpleNamespace)

    def read_parquet(self, files: list[str], *, override_num_blocks: int) -> RayData:
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        size = -(-len(rows) // override_num_blocks)
        self.blocks = [rows[begin : begin + size] for begin in range(0, len(rows), size)]
        return self

    def build_processor(
        self, config: Any, *, preprocess: Callable[..., Any], postprocess: Callable[..., Any]
    ) -> Callable[[RayData], RayData]:
        assert config.should_continue_on_error

        def processor(data: RayData) -> RayData:
            data.blocks = [[postprocess(self.engine(preprocess(row))) for row in block] for block in data.blocks]
            return data

        return processor

    @staticmethod
    def engine(row: dict[str, Any]) -> dict[str, Any]:
        """Add the columns of vLLM's stage."""
        text = decide(0, row).text
        assert row["sampling_params"]["max_tokens"] >= 1
        alternatives = {7: ("YES", 0), 9: ("NO", 1)}
        output = {
            key: {"logprob": -0.1 if token == text else -2.4, "rank": rank, "decoded_token": token}
            for key, (token, rank) in alternatives.items()
        }
        return row | {
            "generated_text": text,
            "generated_tokens": [7 if text == "YES" else 9],
            "num_input_tokens": 100,
            "num_generated_tokens": 1,
            "logprobs": [output] if "logprobs" in row["sampling_params"] else None,
            "__inference_error__": None,
        }

    def write_parquet(self, folder: str) -> None:
        Path(folder).mkdir()
        run = uuid.uuid4().hex
        for number, block in enumerate(self.blocks):
            pq.write_table(pa.Table.from_pylist(block), Path(folder, f"{run}_{number:06}_000000.parquet"))


@pytest.mark.parametrize("config", ["judged.yaml", "odds.yaml"])
def test_ray_data_answers_a_run(
    youden: Youden, machines_folder: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    toy = RayData()
    for module in (toy.ray, toy.data, toy.llm):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert youden("plan", config, "--export", "export", "--format", "parquet", "--shards", "2").code == 0
    exec(section("Ray Data", "python"), {})  # noqa: S102
    assert imported(youden, config, "answers")["usd"] is None


class Spark:
    """Substitute for Spark as the recipe uses it: partitions as small pandas frames, with Spark's file names."""

    builder: Any

    def __init__(self) -> None:
        self.rows = pa.table({})
        self.partitions = 1
        self.read = SimpleNamespace(parquet=self._read)
        self.write = SimpleNamespace(mode=lambda how: SimpleNamespace(parquet=self._write) if how == "append" else None)

    def _read(self, *files: str) -> Spark:
        self.rows = pa.concat_tables([pq.read_table(file) for file in files])
        return self

    def repartition(self, n: int) -> Spark:
        self.partitions = n
        return self

    def mapInPandas(self, answered: Callable[..., Iterator[pd.DataFrame]], columns: str) -> Spark:  # noqa: N802
        frames = (batch.to_pandas() for batch in self.rows.to_batches(max_chunksize=40))
        created = pd.concat(list(answered(frames)))
        assert [text.split()[0] for text in columns.split(", ")] == list(created.columns)
        self.rows = pa.Table.from_pandas(created, preserve_index=False)
        return self

    def _write(self, folder: str) -> None:
        Path(folder).mkdir()
        Path(folder, "_SUCCESS").touch()
        Path(folder, ".part-00000.snappy.parquet.crc").write_bytes(b"crc")
        pq.write_table(self.rows, Path(folder, f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"), compression="snappy")


class LLM:
    """Substitute for vLLM's class as the recipe uses it."""

    def __init__(self, *, model: str) -> None:
        assert model

    def chat(self, chats: list[list[dict[str, str]]], _: Any) -> list[SimpleNamespace]:
        output = [
            SimpleNamespace(text=decide(0, {"messages": c}).text, finish_reason="stop", token_ids=[7]) for c in chats
        ]
        return [SimpleNamespace(prompt_token_ids=[1] * 100, outputs=[text]) for text in output]


def test_spark_answers_a_run(youden: Youden, machines_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Spark()
    Spark.builder = SimpleNamespace(getOrCreate=lambda: toy)
    modules: dict[str, dict[str, type]] = {
        "pyspark": {},
        "pyspark.sql": {"SparkSession": Spark},
        "vllm": {"LLM": LLM, "SamplingParams": SimpleNamespace},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    assert youden("plan", "judged.yaml", "--export", "export", "--format", "parquet", "--shards", "3").code == 0
    exec(section("Spark", "python"), {})  # noqa: S102
    imported(youden, "judged.yaml", "answers")
