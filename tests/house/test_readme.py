"""Test that the code of README runs, and that its pictures and tables of results are current."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import book
from commands import Youden
from youden import make_plan, read_pool
from youden.data.folder.run_folder import RunFolder
from youden.judging.config.judge_files import load_judge_config
from youden.judging.offline.cassette_file import Cassette, make_entry, write_cassette
from youden.judging.question.questions import canonical_request
from youden.report.charts.vega import make_figure_spec, spec_digest
from youden.report.data.report import ReportData
from youden.types import PAIRED, Completion, Plan

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
CASSETTES = ROOT / "docs" / "how-to" / "cassettes.md"
PICTURES = sorted(set(re.findall(r"(ranking|scores)\.svg", "".join(page.read_text("utf-8") for page in book.pages()))))


def code(page: Path, language: str) -> list[str]:
    return [block.code for block in book.blocks(page) if block.language == language]


@pytest.mark.slow
def test_the_python_example_of_readme_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = code(README, "python")
    with book.judging() as port:
        book.furnish(tmp_path, port=port)
        table = (tmp_path / "mine.csv").read_text(encoding="utf-8")
        for agent, name in (("lead-first", "new"), ("template", "prod")):
            table = re.sub(f"^{agent},", f"{name},", table, flags=re.MULTILINE)
        (tmp_path / "mine.csv").write_text(table, encoding="utf-8")
        exec(example, {})  # noqa: S102
    out = capsys.readouterr().out
    assert "rank_low" in out
    assert "better" in out
    assert "newcomer" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_commands_of_readme_run(youden: Youden, tmp_path: Path) -> None:
    _first, commands, _tests = code(README, "sh")
    book.furnish(tmp_path, port=9)
    (config,) = code(README, "yaml")
    (tmp_path / "mine.yaml").write_text(config.replace("gpt-4o-mini", "lexical"), encoding="utf-8")
    for line in book.lines(commands):
        ended = youden(*line.split("#")[0].split()[1:])
        assert ended.code == 0, ended.err
    assert (tmp_path / "runs" / "mine" / "report.html").is_file()


def test_the_pytest_example_of_readme_passes_on_its_cassette(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (example,) = code(CASSETTES, "python")
    shutil.copytree(ROOT / "datasets" / "field-notes", pytester.path / "datasets" / "field-notes")
    judge, pool = load_judge_config("gpt-4o-mini"), read_pool("datasets/field-notes")
    plan, questions = make_plan(pool, calls=400, seed=0), judge.questions()
    entries = {}
    for row, key, request in questions.iter_requests(plan):
        is_yes = plan.trial_type[row] == PAIRED and "template" not in agents_of(plan, row)
        text = "YES" if is_yes else "NO"
        completion = Completion(text, "stop", "m", 9, 1, top_logprobs=((text, 0.0),))
        entries[key] = make_entry(key, canonical_request(request, address=questions.address), completion)
    write_cassette(pytester.path / "cassettes" / "notes.jsonl", Cassette((judge.public(),), entries))
    pytester.makepyfile(example)
    pytester.runpytest_inprocess("-p", "youden.pytest_plugin").assert_outcomes(passed=1)


def agents_of(plan: Plan, row: int) -> set[str]:
    return {plan.agent_ids[plan.first[row]], plan.agent_ids[plan.second[row]]}


def test_the_config_example_of_readme_is_valid(tmp_path: Path) -> None:
    from youden.data.folder.run_config import load_run_config

    (example,) = code(README, "yaml")
    (tmp_path / "mine.yaml").write_text(example, encoding="utf-8")
    assert load_run_config(tmp_path / "mine.yaml").max_cost == 2


@pytest.fixture(scope="module")
def demo_report(mine_once: Path) -> ReportData:
    return ReportData(RunFolder(mine_once / "demo"))


@pytest.mark.parametrize("picture", PICTURES)
def test_the_pictures_of_readme_equal_the_output_of_demo(demo_report: ReportData, picture: str) -> None:
    spec = make_figure_spec(demo_report, picture)
    drawn = (ROOT / "docs" / f"{picture}.svg").read_text(encoding="utf-8")
    again = f"youden report runs/demo --format svg --chart {picture} --out docs/{picture}.svg"
    assert spec_digest(spec) in drawn, f"The picture is not current. Draw it again: {again}"


@pytest.mark.slow
def test_the_figure_and_tables_of_published_models_are_current(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import labels_pages

    works = labels_pages.run_alpaca_eval(shared / "alpaca-eval")
    again = "Make them again: python benchmarks/labels.py --write"
    assert spec_digest(labels_pages.make_figure_spec(works)) in labels_pages.FIGURE.read_text(encoding="utf-8"), again
    drawn = labels_pages.draw_quality(shared / "alpaca-eval").decode()
    # the last line is a digest of unrounded numbers, whose last digits depend on the processor
    written = labels_pages.QUALITY.read_text(encoding="utf-8")
    assert drawn.splitlines()[:-1] == written.splitlines()[:-1], again
    fails = labels_pages.format_fails_table(labels_pages.run_mt_bench(shared / "mt-bench"))
    for path, table in ((labels_pages.WORKS, labels_pages.format_works_table(works)), (labels_pages.FAILS, fails)):
        page = path.read_text(encoding="utf-8")
        assert labels_pages.replace_table(page, table) == page, again
