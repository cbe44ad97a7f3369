"""A report as whoever gets the file meets it, in a real browser: the first screen, the walk to a trial, boxes as laid out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_browser import SERIAL, choose, press, texts, viewer

from browsers import badly_laid_out, chromium, complaints, drawn, serious, until
from commands import Youden, write_config
from pools import make_pool
from report_runs import judged
from youden.data.folder.run_config import load_run_config
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import judge_run, plan_run
from youden.report.pages.writing import write_comparison, write_report

pytestmark = [SERIAL, pytest.mark.slow]
# Every width, for boxes, and both themes, for colours, the narrowest page in both: there tables turn into cards.
SIZES = pytest.mark.parametrize(("width", "dark"), [(1400, False), (800, True), (390, False), (390, True)])


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's pool by the demo's judge, with its report."""
    root = tmp_path_factory.mktemp("demo")
    pool = Path(__file__).parents[2] / "datasets" / "field-notes"
    config = root / "demo.yaml"
    write_config(config, pool=str(pool), judge="lexical", design="dense", holdout=0.2, out=str(root / "demo"))
    planned = plan_run(load_run_config(config))
    judge_run(planned)
    fit_run(planned.folder)
    write_report(planned.folder)
    return root / "demo" / "report.html"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs whose judges disagree, and the page of both."""
    root = tmp_path_factory.mktemp("pair")
    pool = make_pool(14, 12)
    one = judged(root / "one", pool=pool)
    two = judged(
        root / "a-run-with-a-long-name",
        pool=pool,
        answers=lambda plan: np.random.default_rng(0).random(len(plan)).round(1),
    )
    write_report(one)
    write_comparison(one, two, out=root / "both.html")
    return root


@contextmanager
def opened(address: str, **how: Any) -> Iterator[Any]:
    with chromium(**how) as browser:
        browser.get(address)
        drawn(browser)
        yield browser


def screen(browser: Any) -> str:
    """All text whose box lies in the window."""
    said: str = browser.execute_script("""
      const found = [];
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      for (let node; (node = walker.nextNode());) {
        const range = document.createRange();
        range.selectNodeContents(node);
        const box = range.getBoundingClientRect();
        if (box.height && box.bottom <= innerHeight && box.top >= 0) found.push(node.data.trim());
      }
      return found.join(" ");
    """)
    return said


def test_in_ten_seconds_the_first_screen_says_who_is_best_how_sure_by_which_judge_at_what_cost(demo: Path) -> None:
    with opened(demo.as_uri(), width=1400) as browser:
        said = screen(browser)
        for expected in (
            "Candidates: telegraphic, key-figures",
            "No other agent is better than telegraphic by more than",
            "Judged by lexical",
            "8,448 calls, $0.00",
            "12 agents",
            "all 32 items compared",
            "is no proof of correctness",
        ):
            assert expected in said
        bottom = "return document.querySelector('#figure-ranking .chart').getBoundingClientRect().bottom"
        assert browser.execute_script(bottom) <= 900


def test_from_the_ranking_to_both_texts_of_an_agents_worst_trial_in_two_clicks_and_back(demo: Path) -> None:
    with opened(demo.as_uri()) as browser:
        press(browser, "a[href='#/agent/lead-first']")
        assert until(lambda: texts(browser, "#agent-name")) == ["lead-first"]
        assert not browser.find_element("id", "report").is_displayed()
        assert "False-positive alarm" in browser.find_element("id", "agent-page").text
        assert len(texts(browser, "#agent-page table")) == 4
        press(browser, ".worst li:first-child a")
        shown = until(lambda: texts(browser, "dialog[open] .text"))
        assert len(shown) == 2
        assert all(len(text) > 50 for text in shown)
        assert "lead-first on " in " ".join(texts(browser, "dialog[open] h4"))
        shared = browser.current_url
        browser.back()
        until(lambda: not browser.find_elements("css selector", "dialog[open]"))
        assert texts(browser, "#agent-name") == ["lead-first"]
        browser.back()
        until(lambda: browser.find_element("id", "report").is_displayed())
        assert browser.title == "demo – youden"

        browser.get("about:blank")
        browser.get(shared)
        assert until(lambda: texts(browser, "dialog[open] .text")) == shown
        press(browser, "dialog[open] .dialog-head button")
        until(lambda: browser.current_url.endswith("#/agent/lead-first"))
        assert texts(browser, "#agent-name") == ["lead-first"]
        press(browser, "#agent-page button")
        until(lambda: browser.find_element("id", "trials").is_displayed())
        rows = until(lambda: texts(browser, "#trial-table tbody tr"))
        assert len(rows) == 10
        assert all("lead-first" in row for row in rows)
        assert complaints(browser) == []


def test_an_address_of_no_agent_and_of_no_trial_is_the_report_that_says_so(demo: Path) -> None:
    with opened(f"{demo.as_uri()}#/agent/%E0nobody/trial/7777777") as browser:
        assert browser.find_element("id", "report").is_displayed()
        assert until(lambda: texts(browser, "dialog[open] p"))[0].startswith("This file holds a sample")
        assert complaints(browser) == []


def test_a_press_on_an_agent_in_the_chart_opens_its_page(demo: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    with opened(demo.as_uri()) as browser:
        fourth = browser.find_elements("css selector", "#figure-ranking .mark-symbol path")[3]
        ActionChains(browser).move_to_element(fourth).click().perform()
        assert until(lambda: texts(browser, "#agent-name")) == ["question-led"]


def test_trials_are_searched_by_any_words_in_them_in_the_file_and_in_the_viewer(demo: Path) -> None:
    def search(browser: Any, words: str, expected: str) -> None:
        before = texts(browser, "#trials-where")
        field = browser.find_element("css selector", "#trial-filters [name=text]")
        field.clear()
        field.send_keys(words)
        until(lambda: texts(browser, "#trials-where") != before)
        press(browser, "#trial-table tbody tr:first-child button")
        assert any(expected in text.lower() for text in until(lambda: texts(browser, "dialog[open] .text")))
        press(browser, "dialog[open] .dialog-head button")
        until(lambda: not browser.find_elements("css selector", "dialog[open]"))

    with opened(demo.as_uri()) as browser:
        search(browser, "FRANKENSTEIN", "frankenstein")
        browser.find_element("css selector", "#trial-filters [name=text]").send_keys("no such words")
        until(lambda: texts(browser, "#trials-where") == ["No trial fits."])
    with viewer(demo.parents[1]) as url, chromium() as browser:
        browser.get(url)
        browser.get(url.split("/?")[0] + "/run/demo")
        until(lambda: texts(browser, "#trials-where") == ["1–10 of 8,448"])
        search(browser, "FRANKENSTEIN", "frankenstein")
        choose(browser, "answer", "yes")
        until(lambda: texts(browser, "#trials-where")[0].startswith("1–10 of"))
        assert complaints(browser) == []


def test_warnings_are_grouped_lines_that_open_and_the_way_around_stays_in_sight(demo: Path) -> None:
    with opened(demo.as_uri()) as browser:
        assert texts(browser, ".warnings h4") == ["The judge", "The pool"]
        lines = texts(browser, ".warnings summary")
        assert lines[:2] == ["The lexical judge is a similarity baseline", "Agent 'truncation' copies its prompts"]
        assert "let a language model judge" not in browser.find_element("css selector", ".warnings").text
        press(browser, ".warnings summary")
        assert "let a language model judge" in browser.find_element("css selector", ".warnings").text
        press(browser, "nav a[href='#trials']")
        until(lambda: browser.execute_script("return scrollY > 1000"))
        assert browser.execute_script("return document.querySelector('nav').getBoundingClientRect().top") == 0
        head = "return document.getElementById('trials').getBoundingClientRect().top"
        assert browser.execute_script(head) >= browser.execute_script(
            "return document.querySelector('nav').getBoundingClientRect().bottom"
        )


def looked_at(browser: Any) -> None:
    assert badly_laid_out(browser) == []
    assert serious(browser) == []


@SIZES
def test_boxes_lie_apart_and_axe_is_content_on_every_page_of_a_report(demo: Path, width: int, dark: bool) -> None:
    with opened(demo.as_uri(), width=width, dark=dark) as browser:
        assert browser.execute_script("return document.documentElement.dataset.theme") == ("dark" if dark else "light")
        looked_at(browser)
        assert "`" not in browser.find_element("css selector", "body").text
        for column in ("Agent", "Ability", "Low", "High"):
            (right,) = browser.execute_script(
                "return [...document.querySelectorAll('[aria-label=Ranking] th')].filter((head) => head.innerText === "
                "arguments[0]).map((head) => head.getBoundingClientRect().right)",
                column,
            )
            assert right <= width, column
        for details in browser.find_elements("css selector", "details:not([open]) > summary"):
            browser.execute_script("arguments[0].parentElement.open = true", details)
        drawn(browser)
        looked_at(browser)
        press(browser, "a[href='#/agent/lead-first']")
        until(lambda: texts(browser, "#agent-name"))
        looked_at(browser)
        press(browser, ".worst li:first-child a")
        until(lambda: texts(browser, "dialog[open] .text"))
        looked_at(browser)
        assert complaints(browser) == []


@SIZES
def test_boxes_lie_apart_where_two_runs_are_compared_and_in_the_viewers_list(
    pair: Path, width: int, dark: bool
) -> None:
    with viewer(pair) as url, opened((pair / "both.html").as_uri(), width=width, dark=dark) as browser:
        looked_at(browser)
        names = browser.execute_script(
            "return [...document.querySelectorAll('#figure-slope text')].map((text) => text.textContent)"
        )
        assert sum(name.endswith("a13") for name in names) == 2
        browser.get(url)
        looked_at(browser)
        page = browser.find_element("css selector", "body").text
        for expected in ("fitted", "test", "$0.00", "4,368", "20"):
            assert expected in page
        tallest = "return Math.max(...[...document.querySelectorAll('tbody tr')].map((row) => row.offsetHeight))"
        assert browser.execute_script(tallest) < 250


def test_the_pages_of_studies_lie_apart_and_axe_is_content_with_them(youden: Youden, tmp_path: Path) -> None:
    judged(tmp_path / "run", pool=make_pool(8, 20))
    for name, *options in (
        ("budget", "--calls", "40%", "--seeds", "2", "--top", "2"),
        ("sparsity", "--seeds", "2"),
        ("baselines", "--seeds", "2", "--c", "3", "--only", "clipped-linear,svd"),
    ):
        assert youden("study", name, "run", *options, "--html", f"{name}.html").code == 0
    for width, dark in ((1400, False), (800, True), (390, False)):
        with chromium(width=width, dark=dark) as browser:
            for name in ("budget", "sparsity", "baselines"):
                browser.get((tmp_path / f"{name}.html").as_uri())
                drawn(browser)
                looked_at(browser)


def test_what_lies_over_another_or_sticks_out_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<!doctype html><p style='position:absolute;left:9px;top:9px'>one</p>"
        "<p style='position:absolute;left:9px;top:12px'>two</p>"
        "<p style='position:absolute;left:700px;top:90px;width:400px'>a line that goes on and on out of the window</p>",
        encoding="utf-8",
    )
    with chromium(width=800) as browser:
        browser.get(page.as_uri())
        found = badly_laid_out(browser)
    assert [line for line in found if line.startswith("over: one | two")]
    assert [line for line in found if line.startswith("out: a line")]
    assert [line for line in found if line.startswith("wide: ")]
