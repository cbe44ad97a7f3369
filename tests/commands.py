"""Capture the output of a command, and write small input files; the fixture `youden` runs commands."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from small_pools import make_pool
from youden.data.pools.pool_reader import write_pool


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    def well(self) -> Ended:
        """Check that the command exited with 0, and return its output."""
        assert self.code == 0, self.err
        return self

    @property
    def said(self) -> Any:
        """Return the parsed JSON output of a successful command."""
        return json.loads(self.well().out)

    def refuses(self, slug: str) -> bool:
        """Return whether the command exited with 2 and an error of this slug."""
        return self.code == 2 and self.err.rstrip().endswith(f"[{slug}]")


Youden = Callable[..., Ended]


def write_pool_table(path: Path, *, n_agents: int = 5, n_items: int = 12, group: str = "g") -> None:
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", "item", "text", "prompt", "group"])
        for i in range(n_agents):
            for j in range(n_items):
                own = " ".join(f"w{j}x{k}" for k in rng.choice(20, size=4 + 2 * i, replace=False))
                writer.writerow([f"a{i}", f"i{j}", own, f"prompt {j}", group])


def write_config(path: Path, **keys: object) -> None:
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items()), encoding="utf-8")


def write_small_run(folder: Path, name: str = "r", **keys: object) -> None:
    """Write a pool of five agents and eight items, and the config NAME.yaml with 110 calls on it."""
    write_pool(make_pool(5, 8), folder / "pool")
    write_config(folder / f"{name}.yaml", **{"pool": "pool", "calls": 110, "independent": "pooled:20"} | keys)


def wire_judge(url: str, **keys: object) -> dict[str, Any]:
    """Return the config of a free judge at `url` that needs no key."""
    judge = {"backend": "wire", "model": "m", "base_url": url, "api_key_env": None, "price": 0, "backoff": 0.001}
    return {**judge, **keys}


def everything_in(folder: Path) -> bytes:
    """Return the contents of all files."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
