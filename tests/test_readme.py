"""What README shows runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("python")
    names: dict[str, object] = {}
    exec(example, names)  # noqa: S102
    assert "rank_low" in capsys.readouterr().out
    assert getattr(names["model"], "ability_").shape == (12,)  # noqa: B009


def test_the_config_example_is_a_config(tmp_path: Path) -> None:
    from youden.data.run_config import load_run_config

    (example,) = blocks("yaml")
    (tmp_path / "mine.yaml").write_text(example, encoding="utf-8")
    assert load_run_config(tmp_path / "mine.yaml").max_cost == 2


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target
