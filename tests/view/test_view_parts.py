"""Test the viewer on a run of many row groups: paging reaches every trial, and a page reads only the groups it needs."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from browsers import chromium, complaints, drawn, serious, until
from report_runs import judged
from small_pools import make_pool
from youden.data.folder import trial_tables
from youden.data.folder.run_folder import RunFolder
from youden.data.folder.trial_tables import VerdictChunk
from youden.report.data.trial_rows import KINDS, TrialBook, TrialFilter, TrialLine, TrialRows
from youden.types import Plan
from youden.types.pool import Floats
from youden.view import app
from youden.view.app import open_server
from youden.view.shown import Runs, TrialsOnDisk

K, J, N = 6, 40, 400


def answers(plan: Plan) -> Floats:
    return np.random.default_rng(0).random(len(plan)).round(2)


@pytest.fixture(scope="module")
def wide_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trial_tables, "ROWS_PER_GROUP", 60)
        return judged(
            tmp_path_factory.mktemp("parts") / "wide",
            pool=make_pool(K, J),
            answers=answers,
            missing=lambda plan: np.arange(len(plan)) % 7 == 3,
            design="cyclic",
            calls=N,
        )


@pytest.fixture(scope="module")
def in_memory(wide_run: RunFolder) -> TrialRows:
    book = TrialBook(wide_run.read_verdicts(wide_run.read_plan()))
    return TrialRows(book.columns, book.plan)


@pytest.fixture(scope="module")
def all_lines(wide_run: RunFolder, in_memory: TrialRows) -> list[TrialLine]:
    return [in_memory.get_line(row) for row in range(len(wide_run.read_plan()))]


@pytest.fixture(scope="module")
def columns() -> dict[tuple[int, str], Any]:
    return {}


@pytest.fixture
def read_once(columns: dict[tuple[int, str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache each column of a part file for all tests."""
    read = VerdictChunk._read

    def read_cached(block: VerdictChunk, name: str) -> Any:
        key = block.start, name
        if key not in columns:
            columns[key] = read(block, name)
        return columns[key]

    monkeypatch.setattr(VerdictChunk, "_read", read_cached)


@pytest.mark.slow
def test_the_run_has_many_row_groups(wide_run: RunFolder) -> None:
    assert len(list(wide_run.open_judged_files().verdicts.row_groups())) > 5


@pytest.mark.slow
@pytest.mark.usefixtures("read_once")
@pytest.mark.parametrize(
    ("by", "descending"),
    [(by, False) for by in ("row", "item", "first", "second", "trial_type", "answer", "kind")]
    + [("item", True), ("answer", True)],
)
def test_pages_equal_those_of_all_trials_sorted_in_memory(
    wide_run: RunFolder, in_memory: TrialRows, all_lines: list[TrialLine], by: Any, descending: bool
) -> None:
    parts = TrialsOnDisk(wide_run)
    cells = np.random.default_rng(1).random((K, J)) < 0.1
    for chosen in (
        TrialFilter(),
        TrialFilter(agents=frozenset({2})),
        TrialFilter(items=frozenset({3, 5}), answer="no"),
        TrialFilter(trial_type="independent", kind="independent yes"),
        TrialFilter(answer="missing"),
        TrialFilter(words="some", cells=cells),
        TrialFilter(items=frozenset()),
    ):
        expected = in_memory.find(chosen, by=by, descending=descending).tolist()
        pages = [
            parts.page(chosen, by=by, descending=descending, start=start, stop=start + 250)
            for start in range(0, len(expected) + 1, 250)
        ]
        assert {page.total for page in pages} == {len(expected)}
        lines = list(itertools.chain.from_iterable(page.lines for page in pages))
        assert [line.row for line in lines] == expected
        assert lines == [all_lines[row] for row in expected]


@pytest.mark.slow
def test_a_page_reads_only_the_row_groups_of_its_trials(wide_run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = TrialsOnDisk(wide_run)
    groups: set[int] = set()
    read = VerdictChunk._read

    def note_group(block: VerdictChunk, name: str) -> Any:
        groups.add(block.start)
        return read(block, name)

    monkeypatch.setattr(VerdictChunk, "_read", note_group)
    page = parts.page(TrialFilter(), by="row", descending=False, start=20, stop=30)
    assert [line.row for line in page.lines] == list(range(20, 30))
    assert groups == {0}


@pytest.fixture(scope="module")
def url(wide_run: RunFolder) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(app, "TRIALS_IN_MEMORY", 60)
        yield from serve(wide_run)


def serve(run: RunFolder) -> Iterator[str]:
    serving = open_server(Runs(run.path.parent), port=0, token=secrets.token_urlsafe(8))
    thread = threading.Thread(target=serving.run)
    thread.start()
    while not serving.server.started:
        time.sleep(0.01)
    yield serving.url
    serving.server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def parts_client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=url.split("/?", maxsplit=1)[0], trust_env=False, follow_redirects=True, timeout=300
    ) as client:
        assert client.get(url).status_code == 200
        yield client


@pytest.mark.slow
def test_every_trial_is_reached_by_paging_with_its_names(wide_run: RunFolder, parts_client: httpx.Client) -> None:
    plan = wide_run.read_plan()
    rows = []
    for page in itertools.count():
        data = parts_client.get("/run/wide/trials", params={"page": page, "by": "item"}).json()
        rows += [line["row"] for line in data["lines"]]
        assert all(data["items"][str(line["item"])] == plan.item_ids[line["item"]] for line in data["lines"])
        if not data["lines"]:
            break
    assert sorted(rows) == list(range(len(plan)))
    last = parts_client.get(f"/run/wide/trials/{len(plan) - 1}").json()
    assert last["line"]["kind"] in KINDS
    assert last["first"].startswith("agent ")
    assert set(last["agents"].values()) == {plan.agent_ids[last["line"][side]] for side in ("first", "second")}


@pytest.mark.slow
def test_the_page_lists_no_names_and_the_viewer_suggests_matching_ones(parts_client: httpx.Client) -> None:
    page = parts_client.get("/run/wide").text
    assert page.count("<option") < 20
    offered = parts_client.get("/run/wide/names", params={"kind": "item", "like": "3"}).json()
    assert len(offered) == 13
    assert all("3" in name for name in offered)
    assert len(parts_client.get("/run/wide/names", params={"kind": "item"}).json()) == 20
    assert parts_client.get("/run/wide/names", params={"kind": "judge"}).status_code == 400
    assert parts_client.get("/run/wide/names", params={"kind": "item", "like": "x" * 201}).status_code == 400


@pytest.mark.slow
def test_a_filter_over_too_many_comparisons_is_refused(parts_client: httpx.Client) -> None:
    refused = parts_client.get("/run/wide/trials", params={"kind": "answers differ"})
    assert (refused.status_code, "more than 4 million comparisons" in refused.text) == (400, True)


@pytest.mark.slow
def test_an_agent_is_found_by_its_name_or_a_part_of_it(parts_client: httpx.Client) -> None:
    def total(**asked: str) -> int:
        return int(parts_client.get("/run/wide/trials", params=asked).json()["total"])

    assert 0 < total(agent="A2") < total(agent="a") == total()
    assert total(agent="nobody") == 0


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_a_run_in_part_files_is_searched_with_the_keyboard_alone(wide_run: RunFolder, url: str) -> None:
    from selenium.webdriver.common.keys import Keys

    def where() -> str:
        return str(browser.find_element("id", "trials-where").text)

    item = wide_run.read_plan().item_ids[33]
    with chromium() as browser:
        browser.get(url)
        browser.get(url.split("/?", maxsplit=1)[0] + "/run/wide")
        drawn(browser)
        total = len(wide_run.read_plan())
        until(lambda: where() == f"1–10 of {total:,}")
        field = browser.find_element("css selector", "#trial-filters [name=item]")
        field.send_keys(item[:-1])
        offered = "return [...document.querySelectorAll('#known-item option')].map((one) => one.value)"
        until(lambda: item in browser.execute_script(offered))
        field.send_keys(item[-1])
        cells = "return [...document.querySelectorAll('#trial-table td:nth-child(2)')].map((one) => one.textContent)"
        until(lambda: all(item in cell for cell in browser.execute_script(cells) or [""]))
        assert serious(browser) == []
        field.send_keys(Keys.TAB)
        assert browser.switch_to.active_element.get_attribute("name") == "trial_type"
        browser.find_element("css selector", "#trial-table tbody button").send_keys(Keys.ENTER)
        opened = until(lambda: browser.find_elements("css selector", "dialog[open] .text"))
        assert f"of item {item[1:]}" in opened[0].text + opened[1].text
        browser.switch_to.active_element.send_keys(Keys.ESCAPE)
        until(lambda: not browser.find_elements("css selector", "dialog[open]"))
        field.clear()
        field.send_keys("no such item")
        until(lambda: where() == "No trial fits.")
        assert complaints(browser) == []
