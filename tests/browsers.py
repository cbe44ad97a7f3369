"""A real browser for tests: Debian's Chromium, driven by Selenium, that talks to nobody but this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def chromium(*, width: int = 1280, dark: bool = False) -> Iterator[Any]:
    """A fresh browser. Skips where Chromium or its driver is not installed."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium and chromium-driver are not installed (apt-get install chromium chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},900"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = webdriver.Chrome(options=options, service=Service(driver, env=dict(os.environ)))
        try:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            if dark:
                feature = {"name": "prefers-color-scheme", "value": "dark"}
                browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            yield browser
        finally:
            browser.quit()


def until(found: Callable[[], T], *, within: float = 10.0) -> T:
    """What `found` returns once it is true. Raises: AssertionError when it is not in time."""
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
        place.closest("[hidden]") || (place.dataset.drawn === root.dataset.theme && place.querySelector("svg, canvas")));
    """
    until(lambda: browser.execute_script(script))


def complaints(browser: Any) -> list[str]:
    """What the console says from warnings up."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]


def serious(browser: Any) -> list[str]:
    """What axe-core finds that is serious or critical."""
    from importlib.resources import files

    browser.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = browser.execute_async_script(
        "const done = arguments[arguments.length - 1]; axe.run(document, {resultTypes: ['violations']}).then(done);"
    )
    return [
        f"{violation['id']}: {[node['html'][:200] for node in violation['nodes'][:3]]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
