"""The judging engine against its bars, bare clients and other engines, over a server in a process of its own.

It knows bars and how parts are run; it refuses to know how any part measures.
`benchmarks/peers.sh DIR && python benchmarks/engine.py --peers DIR [--smoke] [--only PART …] [--out FILE]` prints JSON and
ends with 1 where a bar is missed.
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

HERE = Path(__file__).parent
BARE = ("bare_aiohttp", "bare_openai")
OTHERS = ("litellm", "inspect_ai", "async_batch_llm")
BARE_OF = {"openai": "bare_openai", "wire": "bare_aiohttp"}
Measured = dict[str, Any]


class Server:
    """The server's process, and the commands it takes."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "chat_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.url = self._said()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def become(self, temper: str) -> None:
        self._tell(f"temper {temper}")

    def stats(self) -> Measured:
        measured: Measured = json.loads(self._tell("stats"))
        return measured

    def _tell(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        return self._said()

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@dataclass(frozen=True)
class Bench:
    """What all parts need."""

    server: Server
    peers: Path | None
    smoke: bool

    def part(self, name: str, **options: Any) -> Measured:
        return run(
            [sys.executable, str(HERE / "engine_parts.py"), name, json.dumps({"url": self.server.url} | options)]
        )

    def peer(self, name: str, n: int, concurrency: int) -> Measured:
        python = sys.executable if name in BARE or self.peers is None else str(self.peers / name / "bin" / "python")
        return run([python, str(HERE / "peers.py"), name, self.server.url, str(n), str(concurrency)])

    def size(self, full: int, smoke: int) -> int:
        return smoke if self.smoke else full


def run(words: list[str]) -> Measured:
    """The JSON that a process prints last."""
    ended = subprocess.run(words, check=False, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{ended.stderr[-2000:]}")
    measured: Measured = json.loads(ended.stdout.strip().splitlines()[-1])
    return measured


def median_of(n: int, measure: Callable[[], Measured]) -> Measured:
    """The median of every figure."""
    runs = [measure() for _ in range(n)]
    return {name: statistics.median(one[name] for one in runs) for name in runs[0]}


def cpu(bench: Bench) -> Measured:
    """CPU ms a call, and how many times a bare client's: paired in rounds, so that a busy minute hits both; the median."""
    bench.server.become("plain")
    n_rounds = bench.size(7, 1)
    others = OTHERS if bench.peers is not None else ()
    found: dict[str, dict[str, Measured]] = {}
    for concurrency in (64, 512):
        calls = {name: bench.size(2000 if name in OTHERS else 5000, 300) for name in (*BARE, *others)}
        runs: dict[str, list[Measured]] = {}
        for _ in range(n_rounds):
            for name in (*BARE, *others):
                if not (name == "inspect_ai" and concurrency > 64):
                    runs.setdefault(name, []).append(bench.peer(name, calls[name], concurrency))
            for backend in BARE_OF:
                measured = bench.part("cpu", backend=backend, n=bench.size(5000, 300), concurrency=concurrency)
                runs.setdefault(f"youden {backend}", []).append(measured)
        found[str(concurrency)] = {
            name: {figure: statistics.median(one[figure] for one in each) for figure in each[0]}
            for name, each in runs.items()
        }
        for backend, bare in BARE_OF.items():
            pairs = zip(runs[f"youden {backend}"], runs[bare], strict=True)
            times = [ours["cpu_ms"] / theirs["cpu_ms"] for ours, theirs in pairs]
            found[str(concurrency)][f"youden {backend}"]["times_bare"] = statistics.median(times)
    bars = {}
    for at, by_name in found.items():
        ms = {name: each["cpu_ms"] for name, each in by_name.items()}
        if at == "64":
            bars["openai ≤ 1.15 × its SDK at 64"] = by_name["youden openai"]["times_bare"] <= 1.15
            bars["wire ≤ 2 × bare aiohttp at 64"] = by_name["youden wire"]["times_bare"] <= 2
        if "async_batch_llm" in ms:
            bars[f"wire below async-batch-llm at {at}"] = ms["youden wire"] < ms["async_batch_llm"]
        for name in ("litellm", "inspect_ai"):
            if name in ms:
                bars[f"wire 5 × below {name} at {at}"] = 5 * ms["youden wire"] <= ms[name]
    return {"in_flight": found, "bars": bars}


def pacing(bench: Bench) -> Measured:
    """500 a second allowed, 5,000 waiting."""

    def once() -> Measured:
        bench.server.become("plain")
        measured = bench.part("pacing", seconds=bench.size(10, 2), waiting=bench.size(5000, 500), per_second=500)
        stats = bench.server.stats()
        window = round(1 / stats["bin"])
        arrived = stats["arrived"]
        return measured | {"most_in_a_second": max(sum(arrived[k : k + window]) for k in range(len(arrived)))}

    found = median_of(bench.size(3, 1), once)
    bars = {
        "pacing ≤ 6 % of a core": found["cpu_share"] <= 0.06,
        "no second over by 3 %": found["most_in_a_second"] <= 515,
    }
    return found | {"bars": bars}


def replay(bench: Bench) -> Measured:
    """30 × 200 dense, texts of 1.5 kB, from the store."""
    found = bench.part("replay", n_agents=bench.size(30, 10), n_items=bench.size(200, 20))
    bars = {
        "≥ 30,000 answers a second": found["answers_per_second"] >= 30_000,
        "plan, replay, fit ≤ 20 s": found["seconds"] <= 20,
        "≤ 1 GB": found["mb"] <= 1024,
    }
    return found | {"bars": bars}


def storing(bench: Bench) -> Measured:
    """Answers into an SQLite store whose commits survive a power cut, and into one whose commits do not."""
    found = bench.part("storing", n=bench.size(50_000, 5000), n_rounds=bench.size(5, 3))
    return found | {"bars": {"≥ 2,000 answers a second on the disk": found["answers_per_second_full"] >= 2000}}


def faults(bench: Bench) -> Measured:
    """A fifth of the replies broken in every way; then the same latency without faults, for the engine's own."""
    bench.server.become("faulty")
    found = bench.part("faults", n=bench.size(200_000, 2000), concurrency=64)
    found["requests"] = bench.server.stats()["n"]
    bench.server.become("slow")
    found["without_faults"] = bench.part("faults", n=bench.size(20_000, 1000), concurrency=32)["overhead_ms"]
    bars = {
        "every trial answered or counted": found["answered"] + found["counted"] == found["trials"]
        and not found["not_asked"],
        "memory grows < 50 MB": found["mb_grown"] < 50,
    }
    return found | {"bars": bars}


def storm(bench: Bench) -> Measured:
    """Half of all calls turned down for ten seconds."""
    bench.server.become("storm")
    found = bench.part("storm", seconds=bench.size(28, 14), concurrency=64)
    per_second = found["per_second"]
    steady = statistics.median(per_second[21:-2]) if len(per_second) > 24 else 0
    after = statistics.median(per_second[16:20]) if len(per_second) > 20 else 0
    bars = {"all done": found["answered"] == found["trials"]}
    if not bench.smoke:
        bars["back to 90 % within 10 s"] = after >= 0.9 * steady
    return found | {"steady": steady, "after": after, "bars": bars}


def budget(bench: Bench) -> Measured:
    """max_cost in runs with random token use."""
    found = bench.part("budget", n_runs=bench.size(50, 5))
    return found | {"bars": {"never beyond the cap": found["most_beyond_cap_usd"] <= 0}}


def kills(bench: Bench) -> Measured:
    """SIGKILL at random moments of a 5,000-call run."""
    sizes = {"n_kills": bench.size(25, 2), "n_agents": bench.size(10, 4), "n_items": bench.size(28, 10)}
    found = run([sys.executable, str(HERE / "engine_kills.py"), json.dumps(sizes)])
    bars = {
        "requests ≤ trials + kills × bound": found["requests"] <= found["trials"] + found["kills"] * found["bound"],
        "rates, scores, ranking, answers as uninterrupted": found["equal"],
    }
    return found | {"bars": bars}


def start_up(bench: Bench) -> Measured:
    """Import and help, in fresh processes."""
    asked = {
        "import_seconds": "import youden",
        "help_seconds": "import sys; sys.argv = ['youden', '--help']; from youden import cli; cli.main()",
    }
    found = {}
    for name, code in asked.items():
        times = []
        for _ in range(bench.size(5, 3)):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - began)
        found[name] = statistics.median(times)
    bars = {"import ≤ 0.3 s": found["import_seconds"] <= 0.3, "--help ≤ 0.5 s": found["help_seconds"] <= 0.5}
    return found | {"bars": bars}


def first_request(bench: Bench) -> Measured:
    """CPU seconds from `youden run` to the first request, by backend, and of `youden plan` on 30 × 200; Python's own and what
    `import openai` takes stand beside."""
    n = bench.size(5, 1)
    found = {
        "python": median_cpu(n, "-c", "pass"),
        "import openai": median_cpu(n, "-c", "import openai"),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, n_agents, n_items in (("small", 6, 12), ("large", 30, 200)):
            lines = ["agent,item,text"]
            lines += [f"a{i},i{j},{'word ' * 60}{i} {j}" for i in range(n_agents) for j in range(n_items)]
            (folder / f"{what}.csv").write_text("\n".join(lines), encoding="utf-8")
        for backend in BARE_OF:
            judge = f"{{backend: {backend}, model: m, base_url: URL, api_key_env: null, price: 0, concurrency: 1}}"
            config = f"pool: small.csv\ncalls: 100\nindependent: pooled:20\nout: r-{backend}\njudge: {judge}\n"
            (folder / f"{backend}.yaml").write_text(config, encoding="utf-8")
            found[f"run, {backend}"] = statistics.median(_until_asked(folder, backend, config) for _ in range(n))
        (folder / "plan.yaml").write_text("pool: large.csv\njudge: lexical\nout: r-plan\n", encoding="utf-8")
        found["plan"] = median_cpu(n, "-m", "youden", "plan", "plan.yaml", cwd=folder)
    bars = {f"run, {backend}: first request ≤ 1.5 CPU s": found[f"run, {backend}"] <= 1.5 for backend in BARE_OF}
    return {"cpu_seconds": found, "bars": bars | {"plan on 30 × 200 ≤ 1.2 CPU s": found["plan"] <= 1.2}}


def _until_asked(folder: Path, backend: str, config: str) -> float:
    """CPU seconds of `youden run` until a server that never answers hears from it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        (folder / f"{backend}.yaml").write_text(config.replace("URL", url), encoding="utf-8")
        run = subprocess.Popen(
            [sys.executable, "-m", "youden", "run", f"{backend}.yaml"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            listening.settimeout(120)
            connection, _ = listening.accept()
            with connection:
                connection.recv(1)
                run.kill()
                return ended_cpu(run)
        finally:
            run.kill()
            run.wait()


def median_cpu(n: int, *words: str, cwd: Path | None = None) -> float:
    """CPU seconds of `python words`, the median of n processes; one before them fills the caches."""
    taken = []
    for _ in range(n + 1):
        run = subprocess.Popen([sys.executable, *words], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        taken.append(ended_cpu(run))
        assert run.returncode == 0, words
    return statistics.median(taken[1:])


def ended_cpu(run: subprocess.Popen[bytes]) -> float:
    """Wait for a process; the CPU seconds it took, user and system."""
    _, status, used = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


PARTS = {
    each.__name__: each
    for each in (start_up, first_request, cpu, pacing, replay, storing, budget, storm, kills, faults)
}


def main() -> None:
    """Run the parts, print JSON, end with 1 where a bar is missed (in a smoke run no bar counts)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, help="where benchmarks/peers.sh made the other engines' environments")
    parser.add_argument("--smoke", action="store_true", help="small sizes: whether it all runs, not how fast")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tests = str(HERE.parent / "tests")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
    with Server() as server:
        bench = Bench(server, options.peers, options.smoke)
        found = {}
        for name in options.only:
            print(f"{name} …", file=sys.stderr, flush=True)
            found[name] = PARTS[name](bench)
    text = json.dumps(found, indent=1, ensure_ascii=False)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    missed = [bar for part in found.values() for bar, met in part["bars"].items() if not met]
    if missed and not options.smoke:
        sys.exit(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
