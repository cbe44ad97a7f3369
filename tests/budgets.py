"""Run random commands under a cost cap, and compare the server's bill with the cap and the reported cost.

The cap of each command limits what this command may add; `youden gate` sends no request and must not be billed.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from click.testing import CliRunner, Result

from commands import wire_judge, write_config
from judged import CALLING, model_at
from small_pools import make_pool, part_of
from unruly_server import Bill, Body, Sent, UnrulyBatchServer, UnrulyServer, reply_to, sent
from wire_server import running
from youden.cli import youden
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import YoudenError

Usage = Literal["honest", "missing", "negative", "huge", "late", "odd"]
Command = Literal["run", "extend", "rejudge", "calibrate", "gate"]
USAGES: tuple[Usage, ...] = get_args(Usage)
COMMANDS: tuple[Command, ...] = get_args(Command)
PRICE = 1000.0
TIMEOUT = 0.3
TYPICAL = 15.0
"""USD that about 80 calls cost."""


@dataclass(frozen=True)
class Budget:
    """A command under a cap, as a fraction of its cost, with a server whose replies sometimes report a wrong usage."""

    seed: int
    command: Command
    usage: Usage
    batched: bool
    backend: str
    share: float
    cap: float
    concurrency: int


@dataclass(frozen=True)
class Spent:
    """Amounts in USD: the cap, the server's bill and the reported cost (None if the command ended before
    reporting).

    `code` is the exit code.
    """

    cap: float
    billed: float
    reported: float | None
    code: int
    output: str


def drawn(seed: int) -> Budget:
    dice = random.Random(seed)
    command = dice.choice(COMMANDS)
    return Budget(
        seed=seed,
        command=command,
        usage=dice.choice(USAGES),
        batched=command == "run" and dice.random() < 0.4,
        backend=dice.choice(CALLING),
        share=dice.choice((0.2, 0.5, 1.0)),
        cap=dice.choice((0.1, 0.4, 0.8, 3.0)),
        concurrency=dice.choice((1, 8, 64)),
    )


def spend(budget: Budget, folder: Path) -> Spent:
    """Run one command and return what it spent; errors other than those of youden propagate."""
    if budget.batched:
        with running(UnrulyBatchServer()) as batches:
            return _spent(budget, folder, batches)
    with running(UnrulyServer()) as server:
        return _spent(budget, folder, server)


def _spent(budget: Budget, folder: Path, server: Any) -> Spent:
    pool = make_pool(7, 12)
    write_pool(part_of(pool, slice(5)), folder / "old")
    write_pool(part_of(pool, slice(5, None)), folder / "new")
    priced = wire_judge(server.url, price=PRICE, concurrency=budget.concurrency, max_tries=2)
    priced |= {
        "backend": budget.backend,
        "model": model_at(budget.backend),
        "timeout": TIMEOUT if budget.usage == "late" else 60,
    }
    priced |= {"backend": "openai", "model": "m", "batch_discount": 0.5} if budget.batched else {}
    write_config(folder / "judge.yaml", **priced)
    write_config(folder / "second.yaml", **(priced | {"model": priced["model"].replace("m", "b")}))
    write_config(folder / "r.yaml", pool=str(folder / "old"), calls=150, independent="pooled:30", out=str(folder / "run"),
                 judge=str(folder / "judge.yaml"), store=str(folder / "r.db"))  # fmt: skip
    bill: Bill = server.bill
    if budget.command in ("extend", "rejudge", "gate"):
        command = _command("run", str(folder / "r.yaml"), "--max-cost", "1000000")
        assert command.exit_code == 0, command.output
    _lie(server, budget)
    before = bill.usd(PRICE)
    cap = budget.cap * TYPICAL
    ended = _command(*_words(budget, folder, cap))
    billed = (bill.usd(PRICE) - before) * (0.5 if budget.batched else 1.0)
    reported = _reported(budget, folder, ended, usd_before=before)
    return Spent(cap, billed, reported, ended.exit_code, ended.output[-500:])


def _words(budget: Budget, folder: Path, cap: float) -> tuple[str, ...]:
    run, money = str(folder / "run"), ("--max-cost", f"{cap:.9f}", "--json")
    match budget.command:
        case "run":
            words = ("judge", str(folder / "r.yaml"), *money)
            return (*words, "--mode", "batch", "--poll", "0.01") if budget.batched else words
        case "extend":
            return ("extend", "agents", run, str(folder / "new"), "--calls", "60", *money)
        case "rejudge":
            out = ("--out", str(folder / "again"), "--store", str(folder / "again.db"))
            return ("rejudge", run, "--judge", str(folder / "second.yaml"), "--calls", "100", *out, *money)
        case "calibrate":
            judge, store = str(folder / "judge.yaml"), str(folder / "tried.db")
            return ("calibrate", str(folder / "old"), "--judge", judge, "--calls", "60", "--store", store, *money)
        case "gate":
            return ("gate", run, "--agent", "a0", "--baseline", "a1", "--json")


def _command(*words: str) -> Result:
    ended = CliRunner().invoke(youden, list(words))
    error = ended.exception
    if error is not None and not isinstance(error, SystemExit | YoudenError):
        raise error
    if isinstance(error, YoudenError):
        ended.exit_code = error.exit_code
        ended.output_bytes += f"\n{error}".encode()
    return ended


def _reported(budget: Budget, folder: Path, ended: Result, *, usd_before: float) -> float | None:
    """Return the reported cost in USD: that of the written answers, or that in the message of the cap.

    The message of an extension states the total cost of the run, which includes what was billed before.
    """
    if match := re.search(r"([0-9.e-]+) USD were spent", ended.output):
        return float(match[1]) - (usd_before if budget.command == "extend" else 0)
    out = {"run": "run", "rejudge": "again"}.get(budget.command)
    if out is None or not RunFolder(folder / out).has("verdicts.parquet"):
        return None
    run_folder = RunFolder(folder / out)
    return run_folder.read_verdicts(run_folder.read_plan()).total_usd


def _lie(server: Any, budget: Budget) -> None:
    dice = random.Random(budget.seed)

    def usage(body: Body) -> tuple[dict[str, Any], float]:
        reply = reply_to(body)
        if dice.random() >= budget.share:
            return reply, 0.0
        match budget.usage:
            case "missing":
                del reply["usage"]
            case "negative":
                reply["usage"] = {"prompt_tokens": -100_000, "completion_tokens": -5}
            case "huge":
                reply["usage"] = {"prompt_tokens": 10**15, "completion_tokens": 10**15}
            case "odd":
                reply["usage"] = dice.choice(
                    [{"prompt_tokens": 0, "completion_tokens": 1}, {"prompt_tokens": "9"}, [], 5]
                )
            case "late":
                return reply, 2 * TIMEOUT
            case "honest":
                pass
        return reply, 0.0

    def script(_n: int, _key: str, body: Body) -> Sent:
        reply, delay = usage(body)
        return sent(reply, delay=delay if dice.random() < 0.1 else 0.0)

    def twist(_n: int, result: dict[str, Any]) -> Sent:
        body = next(
            line["body"] for lines in server.inputs for line in lines if line["custom_id"] == result["custom_id"]
        )
        return sent({**result, "response": {**result["response"], "body": usage(body)[0]}})

    if isinstance(server, UnrulyBatchServer):
        server.twist = twist
    else:
        server.script = script
