"""Files in the layouts of current tools become a pool and a ranking; other layouts are refused before anything is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from layout_files import Layout
from layouts import LAYOUTS, REFUSED

from commands import Youden
from youden import read_pool
from youden.data.folder.run_config import load_run_config
from youden.types import Pool


def topics(pool: Pool) -> list[set[str]]:
    """Return the topics that the responses to each item name."""
    texts = [[text for text in column if text] for column in pool.texts.T]
    return [{text.split("topic")[1].split()[0] for text in column} for column in texts]


def check(pool: Pool, layout: Layout) -> None:
    assert sorted(agent.id for agent in pool.agents) == sorted(layout.agents)
    assert pool.n_items == layout.n_items
    assert len({item.prompt for item in pool.items if item.prompt}) == layout.n_prompts
    assert pool.n_missing == 0
    assert pool.n_responses == len(layout.agents) * layout.n_items * layout.n_repeats
    assert all(len(named) == 1 for named in topics(pool))
    assert all(text.startswith("Rule ") and text.endswith(".") for row in pool.texts for text in row)


QUICK = ("inspect_json", "openai_batch_with_inputs")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in LAYOUTS]
)
def test_init_and_run_accept_every_layout_with_agents_items_and_prompts(
    youden: Youden, tmp_path: Path, name: str
) -> None:
    layout = LAYOUTS[name](tmp_path)
    youden("init", layout.path, "--out", "c.yaml", "--judge", "lexical").well()
    check(read_pool(tmp_path / load_run_config(tmp_path / "c.yaml").pool), layout)
    youden("run", "c.yaml").well()


@pytest.mark.parametrize("name", LAYOUTS)
def test_import_accepts_every_layout_with_agents_items_and_prompts(youden: Youden, tmp_path: Path, name: str) -> None:
    layout = LAYOUTS[name](tmp_path)
    youden("import", layout.format, layout.path, "--out", "pool").well()
    check(read_pool(tmp_path / "pool"), layout)


def files_in(folder: Path) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("command", ["init", "import"])
def test_an_unknown_layout_is_refused_before_anything_is_written(
    youden: Youden, tmp_path: Path, name: str, command: str
) -> None:
    place = REFUSED[name](tmp_path)
    before = files_in(tmp_path)
    words = ("init", place) if command == "init" else ("import", "table", place, "--out", "pool")
    ended = youden(*words)
    assert ended.code == 2
    assert "--column text=" in ended.err
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("dropped", [(), ("id",), ("source",), ("id", "source")])
def test_transcripts_of_inspect_logs_are_read_with_and_without_message_ids(
    youden: Youden, tmp_path: Path, dropped: Sequence[str]
) -> None:
    layout = LAYOUTS["inspect_json"](tmp_path)
    for file in (tmp_path / layout.path).glob("*_rules_*.json"):
        log = json.loads(file.read_text("utf-8"))
        for sample in log["samples"]:
            for message in (*sample["input"], *sample["messages"]):
                for key in dropped:
                    message.pop(key, None)
        file.write_text(json.dumps(log), encoding="utf-8")
    youden("import", "inspect", layout.path, "--text", "transcript", "--out", "pool").well()
    pool = read_pool(tmp_path / "pool")
    assert pool.n_responses == len(layout.agents) * layout.n_items
    assert all(text.startswith("assistant: Rule ") for row in pool.texts for text in row)
