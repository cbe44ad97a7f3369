"""Test that one setting determines the install commands of messages, the report and the documentation."""

from __future__ import annotations

import re

import pytest

from book import ROOT, making
from youden import extras

SOURCES = [path for path in sorted((ROOT / "src").rglob("*")) if path.suffix in (".py", ".html", ".js")]


def test_the_documentation_has_the_install_commands_of_the_setting() -> None:
    install = making("install")
    texts = {str(page): page.read_text(encoding="utf-8") for page in install.pages()}
    outdated = [page for page, text in texts.items() if install.rewrite(text) != text]
    assert not outdated, "run `python docs/making/install.py`"


def test_no_source_contains_a_literal_install_command() -> None:
    by_hand = re.compile(r"pip install '?(youden|\.\[)")
    assert not [str(path) for path in SOURCES if by_hand.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("is_released", "package"), [(True, "youden"), (False, ".")])
def test_the_install_command_follows_the_setting(
    *, is_released: bool, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "RELEASED", is_released)
    command = f"pip install '{package}[ray,postgres]'"
    assert extras.format_install("ray", "postgres") == command
    assert making("install").rewrite("pip install 'youden[ray,postgres]'") == command
