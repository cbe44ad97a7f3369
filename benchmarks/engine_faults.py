"""A matrix of faults × backends: how a run ends that meets them, what it loses, asks twice and reports beside its bill.

`python benchmarks/engine_faults.py [--smoke] [--only BACKEND …] [--out FILE]` prints JSON. Every third reply is broken, until the
server is well and the same command goes on. Ends with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
allowed_servers: Any = import_module("allowed_servers")
fuzzing: Any = import_module("fuzzing")
twists: Any = import_module("twists")

Twist = twists.Twist
Measured = dict[str, Any]

_ODDS = ("choices", 0, "logprobs", "content", 0, "top_logprobs", 0, "logprob")
FAULTS: dict[str, Any] = {
    "none": None,
    **{f"model: {value}": Twist("field", ("model",), value) for value in (["m"], None, 5)},
    **{f"fingerprint: {value}": Twist("field", ("system_fingerprint",), value) for value in (["a"], None, {"a": 1})},
    **{
        f"content: {value}": Twist("field", ("choices", 0, "message", "content"), value) for value in (5, ["YES"], None)
    },
    **{f"logprob: {value}": Twist("field", _ODDS, value) for value in (800, 0.5, "nan", "inf", None, float("nan"))},
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


async def measure(backend: str, fault: str) -> Measured:
    """One run through a fault, and the same run on the healed server.

    outcome, resumed: 'answered', the slug of an error, or the name of an exception that nobody should see. missing: trials
    without an answer at the end. asked_twice: completions made once more for a request that had one. billed_of_reported: of
    the first pass, None where it ended without verdicts.
    """
    course = fuzzing.Course(backend, (None, None, FAULTS[fault]), "logprobs" if fault.startswith("logprob") else "text")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "v.db")
        async with fuzzing.server_of(course) as server:
            first, outcome = await _passed(server, course, path, retry_failed=False)
            billed = fuzzing.bill_of(server)
            fuzzing.heal(server)
            last, resumed = await _passed(server, course, path, retry_failed=True)
            n_twice = server.bill.n_paid_twice
    reported = None if first is None else float(first.usd.sum())
    return {
        "outcome": outcome,
        "resumed": resumed,
        "missing": None if last is None else int((~last.answered).sum()),
        "asked_twice": n_twice,
        "billed_usd": billed,
        "reported_usd": reported,
        "billed_of_reported": billed / reported if reported else None,
    }


async def _passed(server: Any, course: Any, path: Path, *, retry_failed: bool) -> tuple[Any, str]:
    try:
        passed = await fuzzing.judged(server.url, course, path, retry_failed=retry_failed, cap=None)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"[:100]
    if passed.error is not None:
        return None, passed.error.slug
    n_missing = int((~passed.verdicts.answered).sum())
    return passed.verdicts, f"{n_missing} missing" if n_missing else "answered"


BARS: dict[str, Callable[[Measured], bool]] = {
    "ends in answers or an error of youden's own": lambda found: ":" not in found["outcome"] + found["resumed"],
    "whole once the server is well": lambda found: found["missing"] == 0,
    "reports at least its bill": lambda found: (
        found["reported_usd"] is None or found["billed_usd"] <= found["reported_usd"] * (1 + 1e-9)
    ),
}


def main() -> None:
    """Print the matrix; end with 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a few faults: whether it all runs")
    parser.add_argument("--only", nargs="+", choices=fuzzing.ASKED_BY, default=list(fuzzing.ASKED_BY))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, dict[str, Measured]] = {}
    missed = []
    with tempfile.TemporaryDirectory() as configuration:
        allowed_servers.allow_test_servers(Path(configuration))
        os.environ["XDG_CONFIG_HOME"] = configuration
        for backend in options.only:
            print(f"{backend} …", file=sys.stderr, flush=True)
            for fault in SMOKE if options.smoke else FAULTS:
                measured = asyncio.run(measure(backend, fault))
                found.setdefault(backend, {})[fault] = measured
                missed += [f"{backend}, {fault}: {bar}" for bar, met in BARS.items() if not met(measured)]
    text = json.dumps({"matrix": found, "missed": missed}, indent=1, ensure_ascii=False)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
    if missed:
        sys.exit(f"missed: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
