"""What README shows runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from commands import Youden
from youden.data.run_folder import RunFolder
from youden.report.data.report import build_report
from youden.report.pictures import mark, picture_spec

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


@pytest.mark.parametrize("picture", sorted(set(re.findall(r"\]\((docs/\w+\.svg)\)", README))))
def test_the_pictures_show_what_the_demo_shows(youden: Youden, tmp_path: Path, picture: str) -> None:
    assert youden("demo").code == 0
    spec = picture_spec(build_report(RunFolder(tmp_path / "runs" / "demo")), Path(picture).stem)
    drawn = (Path(__file__).parents[1] / picture).read_text(encoding="utf-8")
    again = f"youden report runs/demo --format svg --chart {Path(picture).stem} --out {picture}"
    assert mark(spec) in drawn, f"The picture is not current. Draw it again: {again}"
