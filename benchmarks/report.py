"""Measure a report: time to write it, size, and speed in Chromium.

The run has 30 agents × 200 items with 100,000 answers (`--large`: 200 × 2,000 with 400,000), and random texts of 150 (40) words.
Bars: at most 5 s and 3 MB (`--large`: 20 s and 8 MB), first paint 1.5 s, sorting and filtering 200 ms, no error in the console.

`python benchmarks/report.py [--large] [--smoke]` prints the figures and exits with 1 if a bar is missed.
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

CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
)
CLICK_SCRIPT = """
const [selector, choice, done] = arguments;
const element = document.querySelector(selector);
const start = performance.now();
if (choice === null) element.click();
else { element.value = choice; element.dispatchEvent(new Event("change", { bubbles: true })); }
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
"""


@dataclass(frozen=True)
class Bars:
    """Maximum values; milliseconds for `paint` and `click`."""

    seconds: float
    megabytes: float
    paint: float = 1500.0
    click: float = 200.0


def make_run(folder: Path, *, n_agents: int, n_items: int, n_calls: int, n_words: int) -> RunFolder:
    """Make a fitted run with random texts and answers; the probability of a yes decreases with the indices of both agents."""
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"word{k}" for k in range(5000)], dtype=object)
    texts = np.empty((n_agents, n_items), dtype=object)
    for cell in np.ndindex(texts.shape):
        texts[cell] = " ".join(rng.choice(vocabulary, n_words))
    pool = Pool(
        agents=tuple(Agent(f"agent-{k:03}", group=f"group {k % 4}") for k in range(n_agents)),
        items=tuple(Item(f"item-{k:04}", prompt=f"prompt {k}") for k in range(n_items)),
        texts=texts,
    )
    write_pool(pool, folder / "pool")
    config = folder / "run.yaml"
    config.write_text(
        f"pool: pool\njudge: lexical\ncalls: {n_calls}\nindependent: pooled:{n_calls // 10}\nout: run\n",
        encoding="utf-8",
    )
    planned = plan_run(load_run_config(config))
    plan = planned.plan
    p_yes = np.where(plan.trial_type == PAIRED, 0.95 - (plan.first + plan.second) / (3.0 * n_agents), 0.01)
    answer = (rng.random(len(plan)) < p_yes).astype(np.float64)
    missing_reason = np.zeros(len(plan), dtype=np.int8)
    planned.folder.write_verdicts(Verdicts(plan, answer, answer.copy(), missing_reason, judge={"name": "made up"}))
    fit_run(planned.folder)
    return planned.folder


def measure_page(page: Path) -> dict[str, float]:
    """Return first paint, drawing time and medians of five clicks in milliseconds, and the number of console messages."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*CHROMIUM_FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"):
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
            start = time.monotonic()
            while browser.execute_script("return document.documentElement.dataset.figures") != "done":
                time.sleep(0.05)
            drawing_ms = 1000 * (time.monotonic() - start)
            sort_button = "th[data-by=item] button"
            ranking_button = "table.sortable thead button"
            answer_filter = "#trial-filters [name=answer]"
            choices = ("yes", "no", "missing", "yes", "")
            return {
                "first paint": median(paints),
                "all figures drawn": drawing_ms,
                "sort trials": median(browser.execute_async_script(CLICK_SCRIPT, sort_button, None) for _ in range(5)),
                "sort ranking": median(
                    browser.execute_async_script(CLICK_SCRIPT, ranking_button, None) for _ in range(5)
                ),
                "filter trials": median(
                    browser.execute_async_script(CLICK_SCRIPT, answer_filter, choice) for choice in choices
                ),
                "complaints": len([line for line in browser.get_log("browser") if line["level"] != "INFO"]),
            }
        finally:
            browser.quit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="write the report once; bars are printed, not enforced")
    arguments = parser.parse_args()
    is_large = arguments.large
    bars = Bars(20, 8) if is_large else Bars(5, 3)
    with tempfile.TemporaryDirectory() as folder:
        size = (
            {"n_agents": 200, "n_items": 2000, "n_calls": 400_000, "n_words": 40}
            if is_large
            else {"n_agents": 30, "n_items": 200, "n_calls": 100_000, "n_words": 150}
        )
        run = make_run(Path(folder), **size)
        wall_seconds, cpu_seconds = [], []
        for _ in range(1 if is_large or arguments.smoke else 5):
            vega.load_script.cache_clear()
            start, cpu_start = time.perf_counter(), time.process_time()
            write_report(run)
            wall_seconds.append(time.perf_counter() - start)
            cpu_seconds.append(time.process_time() - cpu_start)
        page = run.file("report.html")
        figures = {
            "wall seconds": median(wall_seconds),
            "CPU seconds": median(cpu_seconds),
            "megabytes": page.stat().st_size / 1e6,
            **measure_page(page),
        }
    for name, value in figures.items():
        print(f"{name:20} {value:10.2f}")
    missed = [
        name
        for name, value, bar in (
            ("wall seconds", figures["wall seconds"], bars.seconds),
            ("megabytes", figures["megabytes"], bars.megabytes),
            ("first paint", figures["first paint"], bars.paint),
            *((name, figures[name], bars.click) for name in ("sort trials", "sort ranking", "filter trials")),
            ("complaints", figures["complaints"], 0),
        )
        if value > bar
    ]
    print("missed: " + ", ".join(missed) if missed else "all bars met")
    sys.exit(bool(figures["complaints"] if arguments.smoke else missed))


if __name__ == "__main__":
    main()
