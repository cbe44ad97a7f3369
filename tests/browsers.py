"""Run tests in Debian's Chromium, driven by Selenium, which connects only to this machine."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


@cache
def _process() -> Any:
    """Start the browser that all tests of this process share, each in its own tab; skip if it is not installed."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium and chromium-driver are not installed (apt-get install chromium chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile.name}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver, env=dict(os.environ)))
    atexit.register(profile.cleanup)
    atexit.register(browser.quit)
    return browser


@contextmanager
def chromium(*, width: int = 1280, dark: bool = False) -> Iterator[Any]:
    """Yield the browser with a new tab and without cookies or a saved theme; skip if Chromium is not installed."""
    browser = _process()
    (first,) = browser.window_handles
    browser.switch_to.new_window("tab")
    try:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        if dark:
            feature = {"name": "prefers-color-scheme", "value": "dark"}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        yield browser
    finally:
        browser.execute_script("try { localStorage.clear(); } catch { /* a page that has none */ }")
        browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
        browser.get_log("browser")
        browser.close()
        browser.switch_to.window(first)


def until(found: Callable[[], T], *, within: float = 120.0) -> T:
    """Return the result of `found` once it is true; raise AssertionError after a generous time limit."""
    end = time.monotonic() + within
    while not (value := found()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return value


def drawn(browser: Any) -> None:
    """Wait until all figures are drawn in the theme of the page."""
    script = """
      const root = document.documentElement;
      return root.dataset.figures === "done" && [...document.querySelectorAll("[data-figure]")].every((place) =>
        place.closest("[hidden], details:not([open])") ||
        (place.dataset.drawn === root.dataset.theme && place.querySelector("svg, canvas")));
    """
    until(lambda: browser.execute_script(script))


def complaints(browser: Any) -> list[str]:
    """Return console messages of level warning and above."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]


def axe() -> str:
    """Return the script of axe-core from the file that YOUDEN_AXE names or from `node_modules`; skip without it."""
    place = Path(os.environ.get("YOUDEN_AXE", Path(__file__).parents[1] / "node_modules/axe-core/axe.min.js"))
    if not place.is_file():
        pytest.skip("axe-core is not installed (npm install --no-save axe-core, or YOUDEN_AXE=…/axe.min.js)")
    return place.read_text(encoding="utf-8")


def serious(browser: Any) -> list[str]:
    """Return the findings of axe-core that are serious or critical."""
    browser.execute_script(axe())
    result = browser.execute_async_script(
        "const done = arguments[arguments.length - 1]; axe.run(document, {resultTypes: ['violations']}).then(done);"
    )
    return [
        f"{violation['id']}: {[node['html'][:200] for node in violation['nodes'][:3]]}"
        for violation in result["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


def badly_laid_out(browser: Any) -> list[str]:
    """Return the texts whose boxes overlap or extend beyond the window, including those of figures."""
    result: dict[str, list[str]] = browser.execute_script(
        (Path(__file__).parent / "data" / "laid_out.js").read_text("utf-8")
    )
    return [f"{kind}: {output}" for kind, many in result.items() for output in many]
