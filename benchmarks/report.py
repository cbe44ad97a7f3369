"""How long a report takes to write, how large it is, and how fast it is in Chromium: `python benchmarks/report.py [--large]`.

A run of 30 agents × 200 items with 100,000 answers (--large: 200 × 2,000 with 400,000), made-up texts of 150 (40) words and
made-up answers. Bars: ≤ 5 s and ≤ 3 MB (--large: ≤ 20 s, ≤ 8 MB), first paint ≤ 1.5 s, sorting and filtering ≤ 200 ms, no
complaint in the console. Exits with 1 where one is missed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from youden.data.folder.run_config import load_run_config
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import plan_run
from youden.report.charts import vega
from youden.report.pages.writing import write_report
from youden.types import PAIRED, Agent, Item, Pool, Verdicts

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
CLICKED = """
const [selector, choice, done] = arguments;
const place = document.querySelector(selector);
const began = performance.now();
if (choice === null) place.click();
else { place.value = choice; place.dispatchEvent(new Event("change", { bubbles: true })); }
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
"""


@dataclass(frozen=True)
class Bars:
    """What must not be passed."""

    seconds: float
    megabytes: float
    paint: float = 1500.0
    click: float = 200.0


def make_run(folder: Path, *, n_agents: int, n_items: int, calls: int, words: int) -> RunFolder:
    """A fitted run with made-up texts and answers; a pair's chance of a yes falls with the sum of its agents' numbers."""
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"word{k}" for k in range(5000)], dtype=object)
    texts = np.empty((n_agents, n_items), dtype=object)
    for cell in np.ndindex(texts.shape):
        texts[cell] = " ".join(rng.choice(vocabulary, words))
    pool = Pool(
        agents=tuple(Agent(f"agent-{k:03}", group=f"group {k % 4}") for k in range(n_agents)),
        items=tuple(Item(f"item-{k:04}", prompt=f"prompt {k}") for k in range(n_items)),
        texts=texts,
    )
    write_pool(pool, folder / "pool")
    config = folder / "run.yaml"
    config.write_text(
        f"pool: pool\njudge: lexical\ncalls: {calls}\nindependent: pooled:{calls // 10}\nout: run\n", encoding="utf-8"
    )
    planned = plan_run(load_run_config(config))
    plan = planned.plan
    chance = np.where(plan.arm == PAIRED, 0.95 - (plan.first + plan.second) / (3.0 * n_agents), 0.01)
    answer = (rng.random(len(plan)) < chance).astype(np.float64)
    missing = np.zeros(len(plan), dtype=np.int8)
    planned.folder.write_verdicts(Verdicts(plan, answer, answer.copy(), missing, judge={"name": "made up"}))
    fit_run(planned.folder)
    return planned.folder


def look(page: Path) -> dict[str, float]:
    """First paint, medians of five clicks, complaints; milliseconds and a count."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser: Any = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            paints = []
            for _ in range(5):
                browser.get(page.as_uri())
                while not browser.execute_script("return performance.getEntriesByType('paint').length"):
                    time.sleep(0.01)
                paints.append(browser.execute_script("return performance.getEntriesByType('paint')[0].startTime"))
            began = time.monotonic()
            while browser.execute_script("return document.documentElement.dataset.figures") != "done":
                time.sleep(0.05)
            drawn = 1000 * (time.monotonic() - began)
            sort, ranking = "th[data-by=item] button", "table.sortable thead button"
            chosen, answers = "#trial-filters [name=answer]", ("yes", "no", "missing", "yes", "")
            return {
                "first paint": median(paints),
                "all figures drawn": drawn,
                "sort trials": median(browser.execute_async_script(CLICKED, sort, None) for _ in range(5)),
                "sort ranking": median(browser.execute_async_script(CLICKED, ranking, None) for _ in range(5)),
                "filter trials": median(browser.execute_async_script(CLICKED, chosen, one) for one in answers),
                "complaints": len([line for line in browser.get_log("browser") if line["level"] != "INFO"]),
            }
        finally:
            browser.quit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="write it once; bars are said, not enforced")
    options = parser.parse_args()
    large = options.large
    bars = Bars(20, 8) if large else Bars(5, 3)
    with tempfile.TemporaryDirectory() as folder:
        size = (
            {"n_agents": 200, "n_items": 2000, "calls": 400_000, "words": 40}
            if large
            else {"n_agents": 30, "n_items": 200, "calls": 100_000, "words": 150}
        )
        run = make_run(Path(folder), **size)
        walls, processor = [], []
        for _ in range(1 if large or options.smoke else 5):
            vega.load_script.cache_clear()
            began, spent = time.perf_counter(), time.process_time()
            write_report(run)
            walls.append(time.perf_counter() - began)
            processor.append(time.process_time() - spent)
        page = run.file("report.html")
        found = {
            "wall seconds": median(walls),
            "CPU seconds": median(processor),
            "megabytes": page.stat().st_size / 1e6,
            **look(page),
        }
    for name, value in found.items():
        print(f"{name:20} {value:10.2f}")
    missed = [
        name
        for name, value, bar in (
            ("wall seconds", found["wall seconds"], bars.seconds),
            ("megabytes", found["megabytes"], bars.megabytes),
            ("first paint", found["first paint"], bars.paint),
            *((name, found[name], bars.click) for name in ("sort trials", "sort ranking", "filter trials")),
            ("complaints", found["complaints"], 0),
        )
        if value > bar
    ]
    print("missed: " + ", ".join(missed) if missed else "all bars met")
    sys.exit(bool(found["complaints"] if options.smoke else missed))


if __name__ == "__main__":
    main()
