"""Share helpers of the import tests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from youden.data.importers import IMPORTERS
from youden.data.importers.pool_joiner import ImportedPool

TOOLS = Path(__file__).parent / "tools"


def tool(name: str, package: str) -> str:
    python = os.environ.get(name)
    if not python:
        pytest.skip(f"{name} does not name an interpreter with {package}")
    return python


def load(format_: str, *paths: Path, **columns: str) -> ImportedPool:
    return IMPORTERS.load(format_)(paths, columns=columns)


def write(path: Path, *rows: object, whole: object = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(whole) if whole is not None else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


def cells(imported: ImportedPool) -> dict[tuple[str, str], str | None]:
    pool = imported.pool
    return {
        (agent.id, item.id): pool.texts[k, j]
        for k, agent in enumerate(pool.agents)
        for j, item in enumerate(pool.items)
    }
