"""Check that every benchmark runs: run each at a small size, and print its CPU seconds.

Each command runs in a fork of this process, which has imported the slow libraries. Its output is printed only if it fails.

`python benchmarks/smokes.py [TEXT …]` runs the commands that contain one of the texts, by default all. It stops at the first
failure and exits with 1.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: threads do not survive a fork

import runpy
import shlex
import sys
import tempfile
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parent
IMPORTED = (
    "pandas",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "scipy.stats",
    "youden.pipeline.fitted_run",
    "youden.cli",
)
COMMANDS = """
lexical.py --smoke --only speed labels attacks
report.py --smoke
cyclic.py --seeds 4
stats_solver.py --smoke
stats_curl.py --smoke
stats_intervals.py --smoke
stats_baselines.py --smoke
uncertainty.py --smoke
own_rates.py --smoke
own_rates_decisions.py --smoke
divided_calls.py --smoke
estimators.py --smoke
preferences.py --smoke
large_pools.py 40 40
importing.py --smoke
engine.py --smoke --only cpu pacing replay storing
engine_faults.py --smoke
workers.py --smoke --only speed limits --stores sqlite
planning.py --trials 100000
ranking.py
walks.py
mutants.py --smoke
start.py --smoke
calibrate.py --smoke
best.py --smoke
precision.py --smoke
extend.py --seeds 4
gate.py --smoke
no_signal.py --smoke
rejudge.py --smoke
exchange.py --smoke
robust.py --smoke
flagged_groups.py --smoke
few_agents.py --smoke
quality.py --smoke
parts.py --smoke
scale.py --smoke --no-page
repeats.py --smoke
audit.py --smoke
replication.py --smoke
"""


def run_in_fork(command: str) -> tuple[int, float, str]:
    """Run a command, and return its exit code, its CPU seconds with those of its children, and its output."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = os.fork()
        if process == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            sys.argv = shlex.split(command)
            runpy.run_path(str(FOLDER / sys.argv[0]), run_name="__main__")
            sys.exit()
        _, status, usage = os.wait4(process, 0)
        output.seek(0)
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, output.read()


def main() -> None:
    texts = sys.argv[1:] or [""]
    for module in IMPORTED:
        import_module(module)
    for command in COMMANDS.split("\n")[1:-1]:
        if not any(text in command for text in texts):
            continue
        code, seconds, output = run_in_fork(command)
        print(f"{seconds:6.1f} CPU s  {command}", flush=True)
        if code != 0:
            print(output)
            sys.exit(1)


if __name__ == "__main__":
    main()
