"""Test reports and the viewer in a real browser: the first screen, navigation, layout and escaping."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsers import badly_laid_out, chromium, complaints, drawn, serious, until
from commands import Youden, write_config
from hostile_pools import make_pool_with_hostile_texts
from report_runs import judged
from small_pools import make_pool
from wire_server import Reply, WireServer, running, same_item
from youden.data.folder.run_config import load_run_config
from youden.data.pools.pool_reader import write_pool
from youden.pipeline.fitted_run import fit_run
from youden.pipeline.judged_run import judge_run, plan_run
from youden.report.pages.writing import write_comparison, write_report
from youden.types import Agent
from youden.view.app import open_server
from youden.view.shown import Runs

SERIAL = pytest.mark.xdist_group("browser")
pytestmark = [SERIAL, pytest.mark.slow]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("browser")
    first = judged(root / "one", holdout=0.2, missing=lambda plan: np.arange(len(plan)) % 10 == 3)
    second = judged(root / "two", answers=lambda plan: np.linspace(0, 1, len(plan)))
    write_report(first)
    write_comparison(first, second)
    write_report(judged(root / "hostile", pool=make_pool_with_hostile_texts(length=1_000_000)))
    return root


@pytest.fixture
def report(runs: Path) -> str:
    return (runs / "one" / "report.html").as_uri()


def texts(browser: Any, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((element) => element.innerText.trim())"
    result: list[str] = browser.execute_script(script, selector)
    return result


def press(browser: Any, selector: str) -> None:
    element = browser.find_element("css selector", selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def write(browser: Any, name: str, text: str) -> None:
    field = browser.find_element("css selector", f"#trial-filters [name={name}]")
    field.clear()
    field.send_keys(text)


def choose(browser: Any, name: str, text: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(browser.find_element("css selector", f"#trial-filters [name={name}]")).select_by_visible_text(text)


def test_a_report_sorts_filters_opens_and_changes_theme_without_console_errors(report: str) -> None:
    with chromium() as browser:
        browser.get(report)
        drawn(browser)
        agents = texts(browser, "section[aria-labelledby=who] tbody th")
        assert agents == ["a0", "a1", "a2", "a3", "a4"]
        for _ in range(2):
            press(browser, "section[aria-labelledby=who] thead th:nth-child(5) button")
        assert texts(browser, "section[aria-labelledby=who] tbody th") == agents
        press(browser, "section[aria-labelledby=who] thead th:nth-child(5) button")
        assert texts(browser, "section[aria-labelledby=who] tbody th") == agents[::-1]

        assert texts(browser, "#trials-where") == ["1–10 of 320"]
        choose(browser, "answer", "missing")
        until(lambda: texts(browser, "#trials-where") == ["1–10 of 32"])
        assert set(texts(browser, "#trial-table tbody td:nth-child(6)")) == {"refused"}
        choose(browser, "answer", "any")
        assert texts(browser, "#known-agent option") == [""] * 5
        write(browser, "agent", "A2")
        until(lambda: texts(browser, "#trials-where") == ["1–10 of 128"])
        rows = list(
            zip(
                texts(browser, "#trial-table td:nth-child(3)"),
                texts(browser, "#trial-table td:nth-child(4)"),
                strict=True,
            )
        )
        assert rows
        assert all("a2" in row for row in rows)
        press(browser, "#trials-on")
        until(lambda: texts(browser, "#trials-where")[0].startswith("11–20"))

        press(browser, "#trial-table tbody tr:first-child button")
        displayed = until(lambda: texts(browser, "dialog[open] .text"))
        assert all("says something of item" in text for text in displayed[:2])
        assert "says" in texts(browser, "dialog[open] mark")
        press(browser, "dialog[open] .dialog-head button")
        assert not browser.find_elements("css selector", "dialog[open]")

        press(browser, "#theme")
        drawn(browser)
        assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
        press(browser, "[data-swap]")
        drawn(browser)
        assert browser.find_element("id", "figure-agents-clustered").is_displayed()
        assert not browser.find_element("id", "figure-agents").is_displayed()
        assert complaints(browser) == []


def test_every_figure_has_a_title_a_unit_and_a_source(report: str) -> None:
    with chromium() as browser:
        browser.get(report)
        drawn(browser)
        figures = browser.execute_script("""
          return [...document.querySelectorAll("figure")].map((figure) => [figure.querySelector("h3").textContent,
            figure.querySelector("figcaption").textContent, figure.querySelector(".chart").getAttribute("aria-label"),
            JSON.stringify(JSON.parse(document.getElementById("figure-data").textContent)[figure.id.slice(7)].spec)])
        """)
        assert len(figures) >= 10
        for title, source, label, spec in figures:
            assert title
            assert source.startswith("Source: ")
            assert title in label
            assert any(unit in spec for unit in ("TPR − FPR", "score units", "|Δ|", "yes-answers")), title


def test_hostile_texts_are_shown_and_not_executed(runs: Path) -> None:
    with chromium() as browser:
        browser.get((runs / "hostile" / "report.html").as_uri())
        drawn(browser)
        press(browser, "#trial-table tbody tr:first-child button")
        displayed = until(lambda: texts(browser, "dialog[open] .text"))
        assert "</script><img src=x onerror=" in displayed[0]
        assert "{{7*7}}${7*7}\\x1b[31m\\u202egnp.exe" in displayed[0]
        assert browser.title == "hostile – youden"
        press(browser, "dialog[open] .dialog-head button")
        until(lambda: "/trial/" not in browser.current_url)
        press(browser, "[aria-label=Ranking] tbody th a")
        assert "</script><img src=x onerror=" in until(lambda: texts(browser, "#agent-name"))[0]
        press(browser, ".worst li a")
        assert "</script><img" in until(lambda: texts(browser, "dialog[open] .text"))[0]
        assert browser.title.endswith("hostile – youden")
        assert not browser.find_elements("css selector", "img, iframe, object, embed, main script:not([type])")
        assert complaints(browser) == []


def test_agents_named_like_object_properties_are_drawn(tmp_path: Path) -> None:
    names = ("__proto__", "constructor", "toString", "hasOwnProperty", "a4")
    pool = replace(make_pool(5, 8), agents=tuple(Agent(name) for name in names))
    run = judged(tmp_path / "odd", pool=pool)
    write_report(run)
    with chromium() as browser:
        browser.get((tmp_path / "odd" / "report.html").as_uri())
        drawn(browser)
        assert [text for text in texts(browser, "[data-figure]") if "could not be drawn" in text] == []
        assert complaints(browser) == []


@contextmanager
def viewer(root: Path) -> Iterator[str]:
    serving = open_server(Runs(root), port=0, token=secrets.token_urlsafe(8))
    thread = threading.Thread(target=serving.run)
    thread.start()
    until(lambda: serving.server.started)
    try:
        yield serving.url
    finally:
        serving.server.should_exit = True
        thread.join()


def test_the_viewer_links_the_list_to_a_run_to_trials_and_to_two_runs(runs: Path) -> None:
    with viewer(runs) as url, chromium() as browser:
        browser.get(url)
        assert "token" not in browser.current_url
        assert serious(browser) == []
        press(browser, "a[href='/run/one']")
        drawn(browser)
        until(lambda: texts(browser, "#trials-where") == ["1–10 of 320"])
        press(browser, "#trial-table thead th:nth-child(6) button")
        until(lambda: browser.find_element("css selector", "th[data-by=answer]").get_attribute("aria-sort"))
        press(browser, "#trial-table tbody tr:first-child button")
        assert until(lambda: texts(browser, "dialog[open] .text"))[0].startswith("agent ")
        assert serious(browser) == []
        press(browser, "dialog[open] .dialog-head button")
        # the button itself goes back in the history; a second step before that has happened would cancel it
        until(lambda: "/trial/" not in browser.current_url)
        browser.back()
        until(lambda: browser.find_elements("css selector", "form[action='/compare']"))
        from selenium.webdriver.support.ui import Select

        Select(browser.find_element("name", "one")).select_by_visible_text("one")
        Select(browser.find_element("name", "two")).select_by_visible_text("two")
        press(browser, "form[action='/compare'] button")
        drawn(browser)
        until(lambda: "judges differ" in texts(browser, "#trial-table tbody button"))
        assert complaints(browser) == []


def test_the_viewer_executes_no_hostile_text(runs: Path) -> None:
    with viewer(runs) as url, chromium() as browser:
        browser.get(url)
        browser.get(url.split("/?")[0] + "/run/hostile")
        drawn(browser)
        until(lambda: texts(browser, "#trial-table tbody button"))
        press(browser, "#trial-table tbody tr:first-child button")
        assert "</script><img" in until(lambda: texts(browser, "dialog[open] .text"))[0]
        assert browser.title == "hostile – youden"
        assert complaints(browser) == []


def test_a_run_is_followed_to_its_end_and_then_shows_its_report(tmp_path: Path) -> None:
    page_read = threading.Event()

    def slowly(n: int, body: Mapping[str, Any]) -> Reply:
        """Answer slowly after half of the calls until the browser has read the page."""
        return Reply(same_item(body), delay=0.05 if n < 65 or page_read.is_set() else 2)

    write_pool(make_pool(5, 8), tmp_path / "pool")
    with (
        running(WireServer(slowly)) as server,
        viewer(tmp_path / "runs") as url,
        chromium() as browser,
        ExitStack() as whatever_happens,
    ):
        judge = {
            "backend": "openai",
            "model": "m",
            "base_url": server.url,
            "api_key_env": None,
            "concurrency": 2,
            "price_in": 1,
            "price_out": 1,
        }
        config = tmp_path / "runs" / "live.yaml"
        config.parent.mkdir()
        pool, out = str(tmp_path / "pool"), str(tmp_path / "runs" / "live")
        write_config(config, pool=pool, out=out, calls=130, independent="pooled:10", judge=judge, max_cost=1)
        planned = plan_run(load_run_config(config))
        work = threading.Thread(target=lambda: (judge_run(planned), fit_run(planned.folder)))
        browser.get(url)
        work.start()
        whatever_happens.callback(work.join)
        whatever_happens.callback(page_read.set)
        press(browser, "a[href='/run/live']")
        until(lambda: 0 < int(browser.find_element("css selector", ".progress").get_attribute("aria-valuenow")) < 100)
        until(lambda: len(texts(browser, "#live-ranking tbody tr")) == 5)
        assert browser.find_element("id", "live-usd").text.startswith("$0.0")
        drawn(browser)
        assert serious(browser) == []
        assert badly_laid_out(browser) == []
        page_read.set()
        until(lambda: browser.find_elements("id", "who"))
        work.join()
        drawn(browser)
        assert texts(browser, "#trials-where")[0].endswith("of 130")
        press(browser, "#trial-table tbody tr:first-child button")
        output = until(lambda: texts(browser, "dialog[open] .text"))
        assert output[2] in ("YES", "NO")
        assert "The prompt" in texts(browser, "dialog[open] summary")
        assert complaints(browser) == []


# Every width, for boxes, and both themes, for colors, the narrowest page in both: there tables turn into cards.
SIZES = pytest.mark.parametrize(("width", "dark"), [(1400, False), (800, True), (390, False), (390, True)])


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create the report of the demo."""
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
    """Create two runs with disagreeing judges, and the page that compares them."""
    root = tmp_path_factory.mktemp("pair")
    pool = make_pool(14, 12)
    first = judged(root / "one", pool=pool)
    second = judged(
        root / "a-run-with-a-long-name",
        pool=pool,
        answers=lambda plan: np.random.default_rng(0).random(len(plan)).round(1),
    )
    write_report(first)
    write_comparison(first, second, out=root / "both.html")
    return root


@contextmanager
def opened(address: str, **how: Any) -> Iterator[Any]:
    with chromium(**how) as browser:
        browser.get(address)
        drawn(browser)
        yield browser


def screen(browser: Any) -> str:
    """Return all text in boxes inside the window."""
    output: str = browser.execute_script("""
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
    return output


def test_the_first_screen_states_best_agent_certainty_judge_and_cost(demo: Path) -> None:
    with opened(demo.as_uri(), width=1400) as browser:
        output = screen(browser)
        for expected in (
            "Candidates: telegraphic, key-figures",
            "by shared words only; use another judge before you decide.",
            "no other agent is better than telegraphic by more than",
            "Judged by lexical",
            "8,448 calls, $0.00",
            "12 agents",
            "all 32 items compared",
            "does not prove correctness",
        ):
            assert expected in output
        bottom = "return document.querySelector('#figure-ranking .chart').getBoundingClientRect().bottom"
        assert browser.execute_script(bottom) <= 900


def test_two_clicks_lead_from_the_ranking_to_the_worst_trial_and_back(demo: Path) -> None:
    with opened(demo.as_uri()) as browser:
        press(browser, "a[href='#/agent/lead-first']")
        assert until(lambda: texts(browser, "#agent-name")) == ["lead-first"]
        assert not browser.find_element("id", "report").is_displayed()
        assert "False-positive alarm" in browser.find_element("id", "agent-page").text
        assert len(texts(browser, "#agent-page table")) == 4
        press(browser, ".worst li:first-child a")
        displayed = until(lambda: texts(browser, "dialog[open] .text"))
        assert len(displayed) == 2
        assert all(len(text) > 50 for text in displayed)
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
        assert until(lambda: texts(browser, "dialog[open] .text")) == displayed
        press(browser, "dialog[open] .dialog-head button")
        until(lambda: browser.current_url.endswith("#/agent/lead-first"))
        assert texts(browser, "#agent-name") == ["lead-first"]
        press(browser, "#agent-page button")
        until(lambda: browser.find_element("id", "trials").is_displayed())
        rows = until(lambda: texts(browser, "#trial-table tbody tr"))
        assert len(rows) == 10
        assert all("lead-first" in row for row in rows)
        assert complaints(browser) == []


def test_the_address_of_an_unknown_agent_or_trial_shows_the_report_with_a_notice(demo: Path) -> None:
    with opened(f"{demo.as_uri()}#/agent/%E0nobody/trial/7777777") as browser:
        assert browser.find_element("id", "report").is_displayed()
        assert until(lambda: texts(browser, "dialog[open] p"))[0].startswith("This file contains a sample")
        assert complaints(browser) == []


def test_a_click_on_an_agent_in_the_chart_opens_its_page(demo: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    with opened(demo.as_uri()) as browser:
        fourth = browser.find_elements("css selector", "#figure-ranking .mark-symbol path")[3]
        ActionChains(browser).move_to_element(fourth).click().perform()
        assert until(lambda: texts(browser, "#agent-name")) == ["question-led"]


def test_trials_are_searched_by_words_in_the_file_and_in_the_viewer(demo: Path) -> None:
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


def test_warnings_are_grouped_and_open_and_the_navigation_stays_visible(demo: Path) -> None:
    with opened(demo.as_uri()) as browser:
        assert texts(browser, ".warnings h4") == ["The judge", "The pool"]
        lines = texts(browser, ".warnings summary")
        assert lines[:2] == ["The lexical judge is a similarity baseline", "Agent 'truncation' copies its prompts"]
        assert "use a language model as the judge" not in browser.find_element("css selector", ".warnings").text
        press(browser, ".warnings summary")
        assert "use a language model as the judge" in browser.find_element("css selector", ".warnings").text
        press(browser, "nav a[href='#trials']")
        until(lambda: browser.execute_script("return scrollY > 1000"))
        assert browser.execute_script("return document.querySelector('nav').getBoundingClientRect().top") == 0
        head = "return document.getElementById('trials').getBoundingClientRect().top"
        assert browser.execute_script(head) >= browser.execute_script(
            "return document.querySelector('nav').getBoundingClientRect().bottom"
        )


def check_layout(browser: Any) -> None:
    assert badly_laid_out(browser) == []
    assert serious(browser) == []


@SIZES
def test_report_boxes_do_not_overlap_and_axe_accepts_every_page(demo: Path, width: int, dark: bool) -> None:
    with opened(demo.as_uri(), width=width, dark=dark) as browser:
        assert browser.execute_script("return document.documentElement.dataset.theme") == ("dark" if dark else "light")
        check_layout(browser)
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
        check_layout(browser)
        press(browser, "a[href='#/agent/lead-first']")
        until(lambda: texts(browser, "#agent-name"))
        check_layout(browser)
        press(browser, ".worst li:first-child a")
        until(lambda: texts(browser, "dialog[open] .text"))
        check_layout(browser)
        assert complaints(browser) == []


@SIZES
def test_boxes_of_the_comparison_and_the_list_of_the_viewer_do_not_overlap(pair: Path, width: int, dark: bool) -> None:
    with viewer(pair) as url, opened((pair / "both.html").as_uri(), width=width, dark=dark) as browser:
        check_layout(browser)
        names = browser.execute_script(
            "return [...document.querySelectorAll('#figure-slope text')].map((text) => text.textContent)"
        )
        assert sum(name.endswith("a13") for name in names) == 2
        browser.get(url)
        check_layout(browser)
        page = browser.find_element("css selector", "body").text
        for expected in ("fitted", "test", "$0.00", "4,368", "20"):
            assert expected in page
        tallest = "return Math.max(...[...document.querySelectorAll('tbody tr')].map((row) => row.offsetHeight))"
        assert browser.execute_script(tallest) < 250


def test_boxes_of_study_pages_do_not_overlap_and_axe_accepts_them(youden: Youden, tmp_path: Path) -> None:
    judged(tmp_path / "run", pool=make_pool(8, 20))
    for name, *options in (
        ("budget", "--calls", "40%", "--n-seeds", "2", "--top", "2"),
        ("sparsity", "--n-seeds", "2"),
        ("baselines", "--n-seeds", "2", "--c", "3", "--only", "clipped-linear,svd"),
    ):
        assert youden("study", name, "run", *options, "--html", f"{name}.html").code == 0
    for width, dark in ((1400, False), (800, True), (390, False)):
        with chromium(width=width, dark=dark) as browser:
            for name in ("budget", "sparsity", "baselines"):
                browser.get((tmp_path / f"{name}.html").as_uri())
                drawn(browser)
                check_layout(browser)


def test_an_overlapping_or_overflowing_box_is_reported(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<!doctype html><p style='position:absolute;left:9px;top:9px'>one</p>"
        "<p style='position:absolute;left:9px;top:12px'>two</p>"
        "<p style='position:absolute;left:700px;top:90px;width:400px'>a line that goes on and on out of the window</p>",
        encoding="utf-8",
    )
    with chromium(width=800) as browser:
        browser.get(page.as_uri())
        result = badly_laid_out(browser)
    assert [line for line in result if line.startswith("over: one | two")]
    assert [line for line in result if line.startswith("out: a line")]
    assert [line for line in result if line.startswith("wide: ")]
