"""Run one worker for `workers.py`: `python workers_part.py CONFIG STORE LEADS LEASE`.

It prints `ready`, waits for a line of standard input, judges, and prints JSON. LEADS is True for the coordinator, False for a
worker of the run, and None to send requests only.
"""

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


def max_cost_of_config(config: Path) -> float:
    """Return the largest possible cost of a call of the run, in USD."""
    planned = plan_worker_run(load_run_config(config, {"max_cost": 1.0}))
    judge = load_judge_config(planned.config.judge)
    return max(max_call_cost(judge, request) for _, _, request in judge.questions().iter_requests(planned.plan))


def main() -> None:
    path, store, leads, lease = sys.argv[1:]
    for module in (leases, worker_group):
        vars(module)["LEASE_SECONDS"] = float(lease)
    longest_add = 0.0
    original_add = Store.add

    def timed_add(*arguments: Any, **options: Any) -> None:
        nonlocal longest_add
        start = time.monotonic()
        original_add(*arguments, **options)
        longest_add = max(longest_add, time.monotonic() - start)

    Store.add = timed_add  # type: ignore[method-assign]
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
        else:  # only the requests: planning and writing cost the same for any number of workers
            with join_as_worker(store, run="r") as worker:
                collect_answers(planned, team=worker)
    except YoudenError as error:
        slug = error.slug
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(json.dumps({"cpu": cpu, "longest_add": longest_add, "slug": slug, "trials": len(planned.plan)}))


if __name__ == "__main__":
    main()
