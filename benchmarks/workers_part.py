"""One worker of `benchmarks/workers.py`: `CONFIG STORE LEADS LEASE`. Prints `ready`, waits for a line, judges, prints JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from youden.data.folder.run_config import load_run_config
from youden.errors import YoudenError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.scheduler.calling import max_call_cost
from youden.judging.store import leases, worker_group
from youden.judging.store.answers import Store
from youden.judging.store.worker_group import join_as_worker
from youden.pipeline.judged_run import collect_answers, judge_run, plan_run
from youden.pipeline.offline import plan_worker_run, run_worker


def worst_of(config: Path) -> float:
    """The most that one call of the run can cost, in USD."""
    planned = plan_worker_run(load_run_config(config, {"max_cost": 1.0}))
    judge = load_judge_config(planned.config.judge)
    return max(max_call_cost(judge, request) for _, _, request in judge.questions().iter_requests(planned.plan))


def main() -> None:
    path, store, leads, lease = sys.argv[1:]
    for module in (leases, worker_group):
        vars(module)["LEASE_SECONDS"] = float(lease)
    longest = 0.0
    plain = Store.add

    def timed(*words: Any, **options: Any) -> None:
        nonlocal longest
        began = time.monotonic()
        plain(*words, **options)
        longest = max(longest, time.monotonic() - began)

    Store.add = timed  # type: ignore[method-assign]
    config = load_run_config(path, {"store": store})
    planned = plan_worker_run(config)
    print("ready", flush=True)
    sys.stdin.readline()
    before = resource.getrusage(resource.RUSAGE_SELF)
    slug = None
    try:
        if leads == "True":
            judge_run(plan_run(config))
        elif leads == "False":
            run_worker(config)
        else:  # the asking alone: what planning and writing take is the same for all
            with join_as_worker(store, run="r") as helped:
                collect_answers(planned, team=helped)
    except YoudenError as error:
        slug = error.slug
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(json.dumps({"cpu": cpu, "longest_add": longest, "slug": slug, "trials": len(planned.plan)}))


if __name__ == "__main__":
    main()
