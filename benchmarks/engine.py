"""Measure the judging engine against its bars, bare HTTP clients and other engines.

The server is a separate process. Parts run in processes of their own: `engine_parts.py`, `engine_kills.py` and `peers.py`.

`benchmarks/peers.sh DIR && python benchmarks/engine.py --peers DIR [--smoke] [--only PART …] [--out FILE]` prints JSON and exits
with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from results import print_results

FOLDER = Path(__file__).parent
BARE_CLIENTS = ("bare_aiohttp", "bare_openai")
OTHER_ENGINES = ("litellm", "inspect_ai", "async_batch_llm")
BARE_CLIENT_OF_BACKEND = {"openai": "bare_openai", "wire": "bare_aiohttp"}
Measured = dict[str, Any]


class Server:
    """Process of `chat_server.py`, and its commands."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, str(FOLDER / "chat_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.url = self._read_line()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def set_behavior(self, behavior: str) -> None:
        """Change how the server answers, and reset its counts."""
        self._send(f"temper {behavior}")

    def stats(self) -> Measured:
        """Return the counts of requests."""
        measured: Measured = json.loads(self._send("stats"))
        return measured

    def _send(self, command: str) -> str:
        """Send a command, and return the reply."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        return self._read_line()

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@dataclass(frozen=True)
class Setup:
    """Server, folder of other engines, and whether sizes are small, as used by all parts."""

    server: Server
    peers: Path | None
    smoke: bool

    def run_part(self, name: str, **options: Any) -> Measured:
        """Run a part of `engine_parts.py` in its own process."""
        return run_json(
            [sys.executable, str(FOLDER / "engine_parts.py"), name, json.dumps({"url": self.server.url} | options)]
        )

    def run_peer(self, name: str, n: int, concurrency: int) -> Measured:
        """Send n requests by another client, in its own process and environment."""
        python = (
            sys.executable if name in BARE_CLIENTS or self.peers is None else str(self.peers / name / "bin" / "python")
        )
        return run_json([python, str(FOLDER / "peers.py"), name, self.server.url, str(n), str(concurrency)])

    def size(self, full: int, smoke: int) -> int:
        """Return the full size, or the small one of a smoke run."""
        return smoke if self.smoke else full


def run_json(command: list[str]) -> Measured:
    """Run a process, and return the JSON of its last line; exit if it fails."""
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{process.stderr[-2000:]}")
    measured: Measured = json.loads(process.stdout.strip().splitlines()[-1])
    return measured


def measure_medians(n: int, measure: Callable[[], Measured]) -> Measured:
    """Measure n times, and return the median of each figure."""
    runs = [measure() for _ in range(n)]
    return {name: statistics.median(figures[name] for figures in runs) for name in runs[0]}


def measure_cpu(setup: Setup) -> Measured:
    """Measure CPU milliseconds per call, and the median ratio to a bare client.

    Clients alternate within a round, so that other load on the machine affects all of them.
    """
    setup.server.set_behavior("plain")
    n_rounds = setup.size(7, 1)
    engines = OTHER_ENGINES if setup.peers is not None else ()
    by_concurrency: dict[str, dict[str, Measured]] = {}
    for concurrency in (64,) if setup.smoke else (64, 512):
        calls = {name: setup.size(2000 if name in OTHER_ENGINES else 5000, 300) for name in (*BARE_CLIENTS, *engines)}
        runs: dict[str, list[Measured]] = {}
        for _ in range(n_rounds):
            for name in (*BARE_CLIENTS, *engines):
                if not (name == "inspect_ai" and concurrency > 64):
                    runs.setdefault(name, []).append(setup.run_peer(name, calls[name], concurrency))
            for backend in BARE_CLIENT_OF_BACKEND:
                measured = setup.run_part("cpu", backend=backend, n=setup.size(5000, 300), concurrency=concurrency)
                runs.setdefault(f"youden {backend}", []).append(measured)
        by_concurrency[str(concurrency)] = {
            name: {
                figure: statistics.median(measured[figure] for measured in measurements) for figure in measurements[0]
            }
            for name, measurements in runs.items()
        }
        for backend, bare in BARE_CLIENT_OF_BACKEND.items():
            pairs = zip(runs[f"youden {backend}"], runs[bare], strict=True)
            ratios = [youden["cpu_ms"] / bare_measured["cpu_ms"] for youden, bare_measured in pairs]
            by_concurrency[str(concurrency)][f"youden {backend}"]["times_bare"] = statistics.median(ratios)
    bars = {}
    for concurrency_key, by_name in by_concurrency.items():
        ms = {name: measurements["cpu_ms"] for name, measurements in by_name.items()}
        if concurrency_key == "64":
            bars["openai ≤ 1.15 × its SDK at 64"] = by_name["youden openai"]["times_bare"] <= 1.15
            # it was 2 before every answer was flushed to the disk and every request leased
            bars["wire ≤ 2.5 × bare aiohttp at 64"] = by_name["youden wire"]["times_bare"] <= 2.5
        if "async_batch_llm" in ms:
            bars[f"wire below async-batch-llm at {concurrency_key}"] = ms["youden wire"] < ms["async_batch_llm"]
        for name in ("litellm", "inspect_ai"):
            if name in ms:
                bars[f"wire 5 × below {name} at {concurrency_key}"] = 5 * ms["youden wire"] <= ms[name]
    return {"in_flight": by_concurrency, "bars": bars}


def measure_paced_requests(setup: Setup) -> Measured:
    """Measure 5,000 waiting requests with a limit of 500 per second."""

    def measure_pacing() -> Measured:
        setup.server.set_behavior("plain")
        measured = setup.run_part("pacing", seconds=setup.size(10, 2), waiting=setup.size(5000, 500), per_second=500)
        stats = setup.server.stats()
        window = round(1 / stats["bin"])
        arrived = stats["arrived"]
        return measured | {"most_in_a_second": max(sum(arrived[k : k + window]) for k in range(len(arrived)))}

    figures = measure_medians(setup.size(3, 1), measure_pacing)
    bars = {
        "pacing ≤ 2 × asyncio.sleep": figures["times_asyncio_sleep"] <= 2,
        "no second over by 3 %": figures["most_in_a_second"] <= 515,
    }
    return figures | {"bars": bars}


def measure_replay(setup: Setup) -> Measured:
    """Measure a replay of 30 × 200 dense answers from the store, with texts of 1.5 kB."""
    figures = setup.run_part("replay", n_agents=setup.size(30, 10), n_items=setup.size(200, 20))
    bars = {
        "≥ 30,000 answers a second": figures["answers_per_second"] >= 30_000,
        "plan, replay, fit ≤ 20 s": figures["seconds"] <= 20,
        "≤ 1 GB": figures["mb"] <= 1024,
    }
    return figures | {"bars": bars}


def measure_storing(setup: Setup) -> Measured:
    """Measure answers per second of an SQLite store, with commits that survive a power cut and with commits that do not."""
    figures = setup.run_part("storing", n=setup.size(50_000, 5000), n_rounds=setup.size(5, 1))
    return figures | {"bars": {"≥ 2,000 answers a second on the disk": figures["answers_per_second_full"] >= 2000}}


def measure_faults(setup: Setup) -> Measured:
    """Measure a run in which a fifth of the replies are broken, and the engine's own latency without faults."""
    setup.server.set_behavior("faulty")
    figures = setup.run_part("faults", n=setup.size(200_000, 2000), concurrency=64)
    figures["requests"] = setup.server.stats()["n"]
    setup.server.set_behavior("slow")
    figures["without_faults"] = setup.run_part("faults", n=setup.size(20_000, 1000), concurrency=32)["overhead_ms"]
    bars = {
        "every trial answered or counted": figures["answered"] + figures["counted"] == figures["trials"]
        and not figures["not_asked"],
        "memory grows < 50 MB": figures["mb_grown"] < 50,
    }
    return figures | {"bars": bars}


def measure_storm(setup: Setup) -> Measured:
    """Measure a run in which half of the calls get HTTP 429 for ten seconds."""
    setup.server.set_behavior("storm")
    figures = setup.run_part("storm", seconds=setup.size(28, 14), concurrency=64)
    per_second = figures["per_second"]
    steady_rate = statistics.median(per_second[21:-2]) if len(per_second) > 24 else 0
    recovered_rate = statistics.median(per_second[16:20]) if len(per_second) > 20 else 0
    bars = {"all done": figures["answered"] == figures["trials"]}
    if not setup.smoke:
        bars["back to 90 % within 10 s"] = recovered_rate >= 0.9 * steady_rate
    return figures | {"steady": steady_rate, "after": recovered_rate, "bars": bars}


def measure_budget(setup: Setup) -> Measured:
    """Measure whether runs with random token usage exceed `max_cost`."""
    figures = setup.run_part("budget", n_runs=setup.size(50, 5))
    return figures | {"bars": {"never beyond the cap": figures["most_beyond_cap_usd"] <= 0}}


def measure_kills(setup: Setup) -> Measured:
    """Kill a run of 5,000 calls with SIGKILL at random times, and compare it with an uninterrupted run."""
    sizes = {"n_kills": setup.size(25, 2), "n_agents": setup.size(10, 4), "n_items": setup.size(28, 10)}
    figures = run_json([sys.executable, str(FOLDER / "engine_kills.py"), json.dumps(sizes)])
    bars = {
        "requests ≤ trials + kills × bound": figures["requests"]
        <= figures["trials"] + figures["kills"] * figures["bound"],
        "rates, scores, ranking, answers as uninterrupted": figures["equal"],
    }
    return figures | {"bars": bars}


def measure_start_up(setup: Setup) -> Measured:
    """Measure the import and `--help` in new processes."""
    code_by_name = {
        "import_seconds": "import youden",
        "help_seconds": "import sys; sys.argv = ['youden', '--help']; from youden import cli; cli.main()",
    }
    seconds = {}
    for name, code in code_by_name.items():
        times = []
        for _ in range(setup.size(5, 3)):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
        seconds[name] = statistics.median(times)
    bars = {"import ≤ 0.3 s": seconds["import_seconds"] <= 0.3, "--help ≤ 0.5 s": seconds["help_seconds"] <= 0.5}
    return seconds | {"bars": bars}


def measure_first_request(setup: Setup) -> Measured:
    """Measure CPU seconds from `youden run` to the first request, by backend, and of `youden plan` on 30 × 200.

    The bars are multiples of the CPU time of `import openai` in the same run, because the speed of machines differs.
    """
    n = setup.size(5, 1)
    cpu_seconds = {
        "python": measure_median_cpu(n, "-c", "pass"),
        "import openai": measure_median_cpu(n, "-c", "import openai"),
    }
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        for size, n_agents, n_items in (("small", 6, 12), ("large", 30, 200)):
            lines = ["agent,item,text"]
            lines += [f"a{i},i{j},{'word ' * 60}{i} {j}" for i in range(n_agents) for j in range(n_items)]
            (folder / f"{size}.csv").write_text("\n".join(lines), encoding="utf-8")
        for backend in BARE_CLIENT_OF_BACKEND:
            judge = f"{{backend: {backend}, model: m, base_url: URL, api_key_env: null, price: 0, concurrency: 1}}"
            config = f"pool: small.csv\ncalls: 100\nindependent: pooled:20\nout: r-{backend}\njudge: {judge}\n"
            (folder / f"{backend}.yaml").write_text(config, encoding="utf-8")
            cpu_seconds[f"run, {backend}"] = statistics.median(
                _measure_cpu_until_first_request(folder, backend, config) for _ in range(n)
            )
        (folder / "plan.yaml").write_text("pool: large.csv\njudge: lexical\nout: r-plan\n", encoding="utf-8")
        cpu_seconds["plan"] = measure_median_cpu(n, "-m", "youden", "plan", "plan.yaml", cwd=folder)
    times_openai = {name: seconds / cpu_seconds["import openai"] for name, seconds in cpu_seconds.items()}
    bars = {
        f"run, {backend}: first request ≤ 2.9 × import openai": times_openai[f"run, {backend}"] <= 2.9
        for backend in BARE_CLIENT_OF_BACKEND
    }
    bars["plan on 30 × 200 ≤ 2.3 × import openai"] = times_openai["plan"] <= 2.3
    return {"cpu_seconds": cpu_seconds, "times_import_openai": times_openai, "bars": bars}


def _measure_cpu_until_first_request(folder: Path, backend: str, config: str) -> float:
    """Return the CPU seconds of `youden run` until its first request, to a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        (folder / f"{backend}.yaml").write_text(config.replace("URL", url), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "youden", "run", f"{backend}.yaml"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            listener.settimeout(120)
            connection, _ = listener.accept()
            with connection:
                connection.recv(1)
                process.kill()
                return wait_for_cpu_seconds(process)
        finally:
            process.kill()
            process.wait()


def measure_median_cpu(n: int, *arguments: str, cwd: Path | None = None) -> float:
    """Return the median CPU seconds of n processes `python ARGUMENTS`, after one that fills the caches."""
    cpu_seconds = []
    for _ in range(n + 1):
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        cpu_seconds.append(wait_for_cpu_seconds(process))
        assert process.returncode == 0, arguments
    return statistics.median(cpu_seconds[1:])


def wait_for_cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """Wait for the end of a process, and return its CPU seconds, user and system."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


PARTS: dict[str, Callable[[Setup], Measured]] = {
    "start_up": measure_start_up,
    "first_request": measure_first_request,
    "cpu": measure_cpu,
    "pacing": measure_paced_requests,
    "replay": measure_replay,
    "storing": measure_storing,
    "budget": measure_budget,
    "storm": measure_storm,
    "kills": measure_kills,
    "faults": measure_faults,
}


def main() -> None:
    """Run the parts, print JSON, and exit with 1 if a bar is missed; bars do not count in a smoke run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, help="folder of environments made by benchmarks/peers.sh")
    parser.add_argument("--smoke", action="store_true", help="run small sizes; no bar counts")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    tests = str(FOLDER.parent / "tests")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
    with Server() as server:
        setup = Setup(server, arguments.peers, arguments.smoke)
        results = {}
        for name in arguments.only:
            print(f"{name} …", file=sys.stderr, flush=True)
            results[name] = PARTS[name](setup)
    print_results(results, arguments.out)
    missed = [bar for part in results.values() for bar, is_met in part["bars"].items() if not is_met]
    if missed and not arguments.smoke:
        sys.exit(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
