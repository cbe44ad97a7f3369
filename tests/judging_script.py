"""Judge the plan of `make_pool(n_agents, n_items)` in a separate process: `URL STORE N_AGENTS N_ITEMS CONCURRENCY
[LARGEST_FILE]`.

Prints how many trials were answered, or the error's slug.
"""

from __future__ import annotations

import asyncio
import sys

from judged import ask, dense_plan, judge_config
from small_pools import make_pool
from youden.errors import YoudenError
from youden.judging.scheduler.options import JudgingOptions


def main() -> None:
    url, path, *numbers = sys.argv[1:]
    n_agents, n_items, concurrency, *largest = map(int, numbers)
    if largest:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (largest[0], largest[0]))
    pool = make_pool(n_agents, n_items)
    judge = judge_config(url, concurrency=concurrency, start_concurrency=concurrency)
    try:
        result = asyncio.run(ask(dense_plan(pool), pool, judge, path, options=JudgingOptions(max_missing=1.0)))
    except YoudenError as error:
        print(error.slug)
        raise SystemExit(error.exit_code) from None
    print(int(result.answered.sum()))


if __name__ == "__main__":
    main()
