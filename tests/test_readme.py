"""What README shows runs as it stands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from commands import Youden
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.reader import read_pool
from youden.judging.cassette.lines import Cassette, entry, write_cassette
from youden.judging.config.reading import load_judge_config
from youden.judging.question.questions import canonical
from youden.nouns import PAIRED, Completion, Plan
from youden.protocol.plan import make_plan
from youden.report.charts.pictures import mark, picture_spec
from youden.report.data.report import build_report

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example, _ = blocks("python")
    names: dict[str, object] = {}
    exec(example, names)  # noqa: S102
    assert "place_low" in capsys.readouterr().out
    assert getattr(names["model"], "ability_").shape == (12,)  # noqa: B009


def test_the_example_of_a_test_passes_on_its_cassette(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    _, example = blocks("python")
    shutil.copytree(ROOT / "datasets" / "field-notes", pytester.path / "datasets" / "field-notes")
    judge, pool = load_judge_config("gpt-4o-mini"), read_pool("datasets/field-notes")
    plan, questions = make_plan(pool, calls=400, seed=0), judge.questions()
    entries = {
        key: entry(
            key,
            canonical(request, address=questions.address),
            Completion(
                "YES" if plan.arm[row] == PAIRED and "template" not in agents_of(plan, row) else "NO", "stop", "m", 9, 1
            ),
        )
        for row, key, request in questions.all(plan, pool)
    }
    write_cassette(pytester.path / "cassettes" / "notes.jsonl", Cassette((judge.public(),), entries))
    pytester.makepyfile(example)
    pytester.runpytest_inprocess("-p", "youden.pytest_plugin").assert_outcomes(passed=1)


def agents_of(plan: Plan, row: int) -> set[str]:
    return {plan.agent_ids[plan.first[row]], plan.agent_ids[plan.second[row]]}


def test_the_config_example_is_a_config(tmp_path: Path) -> None:
    from youden.data.folder.run_config import load_run_config

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
