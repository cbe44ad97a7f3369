"""Measure the share of mutants (small faults in src) that the core tests find: `python benchmarks/mutants.py --out A.json`.

`--tree DIR` names the checkout to test, by default this one; it is copied and not changed. `--compare A.json B.json` prints the
difference of two shares with Newcombe's 95 % interval and Fisher's exact p, and exits with 1 if B finds significantly fewer.

A first run of the core tests records which functions each test enters (`--map FILE` keeps the record). A mutant is then tested by
the `--tests-per-mutant` tests that enter its function and the fewest others; a mutant outside functions, by the tests that enter
any function of its file. It is found if a test fails twice or does not end in time. Mutants are drawn from packages in proportion
to their size, and from operators in turn. Some mutants change nothing observable, so only differences of shares count.

mutmut and cosmic-ray were considered. Neither draws a sample; mutmut replaces functions by dispatchers, which async code and
tests of signatures notice, and cosmic-ray runs the same command for each mutant, whichever tests reach it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from scipy import stats

from mutants_copy import Copy, Tests
from mutants_sites import SOURCE, Mutant, find_mutants, insert_probes
from results import print_results


def draw(mutants: Sequence[Mutant], n: int, seed: int) -> list[Mutant]:
    """Draw `n` mutants: by package in proportion to their number, within a package from each operator in turn."""
    rng = random.Random(seed)
    by_package: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_package[Path(mutant.file).relative_to(SOURCE).parts[0]].append(mutant)
    exact_quotas = {
        package: n * len(candidates_of_package) / len(mutants) for package, candidates_of_package in by_package.items()
    }
    quotas = {package: int(exact_quota) for package, exact_quota in exact_quotas.items()}
    for package in sorted(exact_quotas, key=lambda name: quotas[name] - exact_quotas[name])[: n - sum(quotas.values())]:
        quotas[package] += 1
    drawn = []
    for package, candidates in by_package.items():
        rng.shuffle(candidates)
        n_drawn: Counter[str] = Counter()
        keys = []
        for mutant in candidates:
            keys.append((n_drawn[mutant.operator], rng.random()))
            n_drawn[mutant.operator] += 1
        order = sorted(range(len(candidates)), key=keys.__getitem__)
        drawn += [candidates[k] for k in order[: quotas[package]]]
    return drawn


def choose_tests(mutant: Mutant, tests: Tests, max_tests: int) -> list[str]:
    """Return the passing tests that enter the mutant's function and the fewest others, those of a file together."""
    prefix = f"{mutant.file}:"
    entering = []
    for test, record in tests.items():
        functions = record["functions"]
        enters = mutant.function in functions if mutant.function else any(name.startswith(prefix) for name in functions)
        if enters and record.get("passed"):
            entering.append((len(functions), test))
    chosen = [test for _, test in sorted(entering)[:max_tests]]
    files = list(dict.fromkeys(test.split("::")[0] for test in chosen))
    return sorted(chosen, key=lambda test: files.index(test.split("::")[0]))


def try_mutant(mutant: Mutant, checkout: Copy, tests: Tests, max_tests: int) -> dict[str, Any]:
    """Run the tests chosen for a mutant until one fails."""
    chosen = choose_tests(mutant, tests, max_tests)
    failed_test = None
    if chosen:
        with checkout.replaced(Path(mutant.file), mutant.start, mutant.end, mutant.after):
            failed_test = checkout.first_failure(
                chosen, timeout=60 + 5 * sum(tests[test]["seconds"] for test in chosen)
            )
            if (
                failed_test in chosen
                and checkout.first_failure([failed_test], timeout=60 + 5 * tests[failed_test]["seconds"]) is None
            ):
                failed_test = None  # a flaky test
    return {**asdict(mutant), "tests": len(chosen), "found": failed_test is not None, "by": failed_test}


def record_tests(tree: Path, test_paths: list[str], workers: int) -> Tests:
    """Run the core tests on a copy whose functions record that they are entered."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Copy(tree, Path(folder))
        for path in sorted((checkout.path / SOURCE).rglob("*.py")):
            path.write_bytes(insert_probes(path.relative_to(checkout.path), path.read_bytes()))
        tests = checkout.pytest(*test_paths, *(["-n", str(workers)] if workers > 1 else []))[1]
        if not tests:
            raise SystemExit(checkout.log.read_text(encoding="utf-8"))
        return tests


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Draw mutants of a checkout and try each."""
    tree = arguments.tree.resolve()
    if arguments.map and arguments.map.exists():
        tests = json.loads(arguments.map.read_text(encoding="utf-8"))
    else:
        tests = record_tests(tree, arguments.tests, arguments.workers)
        if arguments.map:
            arguments.map.write_text(json.dumps(tests), encoding="utf-8")
    paths = sorted(path.relative_to(tree) for path in (tree / SOURCE / arguments.package).rglob("*.py"))
    drawn = draw([mutant for path in paths for mutant in find_mutants(tree, path)], arguments.n, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        free: SimpleQueue[Copy] = SimpleQueue()
        for k in range(arguments.workers):
            free.put(Copy(tree, Path(folder) / str(k)))

        def attempt(mutant: Mutant) -> dict[str, Any]:
            checkout = free.get()
            result = try_mutant(mutant, checkout, tests, arguments.tests_per_mutant)
            free.put(checkout)
            print(f"{mutant.file}:{mutant.line}: {mutant.operator}: {result['by'] or 'not found'}", file=sys.stderr)
            return result

        with ThreadPoolExecutor(arguments.workers) as pool:
            results = list(pool.map(attempt, drawn))
    n_found = sum(result["found"] for result in results)
    n_untested = sum(not result["tests"] for result in results)
    totals = {"mutants": len(results), "found": n_found, "entered by no test": n_untested}
    return {**totals, **compute_share(n_found, len(results)), "seed": arguments.seed, "results": results}


def compute_share(n_found: int, n: int) -> dict[str, float]:
    """Return a share with its 95 % interval by Wilson."""
    interval = stats.binomtest(n_found, n).proportion_ci(0.95, method="wilson")
    return {"share": n_found / n, "low": float(interval.low), "high": float(interval.high)}


def compare(a: dict[str, Any], b: dict[str, Any]) -> dict[str, float]:
    """Return the difference of two shares, B − A, with its 95 % interval by Newcombe and Fisher's one-sided p for B < A."""
    difference = b["share"] - a["share"]
    low = difference - ((b["share"] - b["low"]) ** 2 + (a["high"] - a["share"]) ** 2) ** 0.5
    high = difference + ((b["high"] - b["share"]) ** 2 + (a["share"] - a["low"]) ** 2) ** 0.5
    table = np.array([[result["found"], result["mutants"] - result["found"]] for result in (b, a)])
    p = float(stats.fisher_exact(table, alternative="less").pvalue)
    return {"a": a["share"], "b": b["share"], "difference": difference, "low": low, "high": high, "p_fewer": p}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help="a checkout; it is not changed")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--map", type=Path, help="which functions each test enters: read if it exists, else written")
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--tests-per-mutant", type=int, default=200)
    parser.add_argument("--package", default="", help="a package below src/youden. [default: all]")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="tests to choose from")
    parser.add_argument("--smoke", action="store_true", help="six mutants of `text`, by its own tests")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("A", "B"))
    arguments = parser.parse_args()
    if arguments.compare:
        difference = compare(*(json.loads(path.read_text(encoding="utf-8")) for path in arguments.compare))
        print(json.dumps(difference, indent=2))
        sys.exit(difference["high"] < 0)
    if arguments.smoke:
        arguments.n, arguments.package, arguments.tests = 6, "text", ["tests/text"]
    result = run(arguments)
    print_results(result, arguments.out)
    if arguments.smoke:
        assert result["mutants"] == 6
        assert result["found"] >= 1


if __name__ == "__main__":
    main()
