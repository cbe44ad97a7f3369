"""Measure the effects of each fault on runs of each backend: outcome, missing answers, repeated requests, and reported cost.

Every third reply has the fault, until the server is repaired and the same command is repeated.

`python benchmarks/engine_faults.py [--smoke] [--only BACKEND …] [--out FILE]` prints JSON and exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from results import print_results

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
allowed_servers: Any = import_module("allowed_servers")
fuzzing: Any = import_module("fuzzing")
twists: Any = import_module("twists")

Twist = twists.Twist
Measured = dict[str, Any]

_LOGPROB_PATH = ("choices", 0, "logprobs", "content", 0, "top_logprobs", 0, "logprob")
FAULTS: dict[str, Any] = {
    "none": None,
    **{f"model: {value}": Twist("field", ("model",), value) for value in (["m"], None, 5)},
    **{f"fingerprint: {value}": Twist("field", ("system_fingerprint",), value) for value in (["a"], None, {"a": 1})},
    **{
        f"content: {value}": Twist("field", ("choices", 0, "message", "content"), value) for value in (5, ["YES"], None)
    },
    **{
        f"logprob: {value}": Twist("field", _LOGPROB_PATH, value)
        for value in (800, 0.5, "nan", "inf", None, float("nan"))
    },
    **{
        f"{name}: {value}": Twist("field", ("usage", name), value)
        for name in ("prompt_tokens", "completion_tokens")
        for value in (-100_000, 0, 10**15, 2**64, "few", None)
    },
    "no usage": Twist("no field", ("usage",)),
    "no choices": Twist("no field", ("choices",)),
    "content twice": Twist("twice", ("choices", 0, "message", "content"), "Hm."),
    **{str(status): Twist("status", value=(status, "0")) for status in twists.STATUSES},
    **{f"503, Retry-After: {after}": Twist("status", value=(503, after)) for after in twists.RETRY_AFTER},
    **{f"200, error {code}": Twist("error inside", value=code) for code in twists.CODES},
    **{form: Twist("form", value=form) for form in twists.FORMS},
    **{f"harmless: {form}": Twist("harmless", value=form) for form in twists.HARMLESS},
    "cut in the middle": Twist("cut", value=0.5),
    "short": Twist("short", value=0.5),
    "dropped before billing": Twist("dropped", value=False),
    "dropped after billing": Twist("dropped", value=True),
}
SMOKE = ("none", "model: ['m']", "503", "cut in the middle", "harmless: more choices")


async def measure_fault(backend: str, fault: str) -> Measured:
    """Run through a fault, and run again on the repaired server.

    - outcome, resumed: 'answered', the slug of an error, or an exception that is not one of youden's
    - missing: trials without an answer at the end
    - repeated: completions for a request that already had one
    - billed_of_reported: billed over reported cost of the first invocation; None if it gave no verdicts
    """
    course = fuzzing.Course(backend, (None, None, FAULTS[fault]), "logprobs" if fault.startswith("logprob") else "text")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "v.db")
        async with fuzzing.server_of(course) as server:
            verdicts, outcome = await _run(server, course, path, retry_failed=False)
            billed = fuzzing.bill_of(server)
            fuzzing.heal(server)
            resumed_verdicts, resumed = await _run(server, course, path, retry_failed=True)
            n_repeated = server.bill.n_paid_twice
    reported = None if verdicts is None else float(verdicts.usd.sum())
    return {
        "outcome": outcome,
        "resumed": resumed,
        "missing": None if resumed_verdicts is None else int((~resumed_verdicts.answered).sum()),
        "repeated": n_repeated,
        "billed_usd": billed,
        "reported_usd": reported,
        "billed_of_reported": billed / reported if reported else None,
    }


async def _run(server: Any, course: Any, path: Path, *, retry_failed: bool) -> tuple[Any, str]:
    """Judge the plan, and return the verdicts or None, and the outcome in words."""
    try:
        result = await fuzzing.judged(server.url, course, path, retry_failed=retry_failed, cap=None)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"[:100]
    if result.error is not None:
        return None, result.error.slug
    n_missing = int((~result.verdicts.answered).sum())
    return result.verdicts, f"{n_missing} missing" if n_missing else "answered"


BARS: dict[str, Callable[[Measured], bool]] = {
    "ends in answers or an error of youden": lambda figures: ":" not in figures["outcome"] + figures["resumed"],
    "complete after the server is repaired": lambda figures: figures["missing"] == 0,
    "reports at least its bill": lambda figures: (
        figures["reported_usd"] is None or figures["billed_usd"] <= figures["reported_usd"] * (1 + 1e-9)
    ),
}


def main() -> None:
    """Print the matrix, and exit with 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="measure a few faults")
    parser.add_argument("--only", nargs="+", choices=fuzzing.ASKED_BY, default=list(fuzzing.ASKED_BY))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    matrix: dict[str, dict[str, Measured]] = {}
    missed = []
    with tempfile.TemporaryDirectory() as config_folder:
        allowed_servers.allow_test_servers(Path(config_folder))
        os.environ["XDG_CONFIG_HOME"] = config_folder
        for backend in arguments.only:
            print(f"{backend} …", file=sys.stderr, flush=True)
            for fault in SMOKE if arguments.smoke else FAULTS:
                measured = asyncio.run(measure_fault(backend, fault))
                matrix.setdefault(backend, {})[fault] = measured
                missed += [f"{backend}, {fault}: {bar}" for bar, is_met in BARS.items() if not is_met(measured)]
    print_results({"matrix": matrix, "missed": missed}, arguments.out)
    if missed:
        sys.exit(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
