"""Test pages and images: allowed scripts, escaping of hostile text, and every format of the command line."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair as alt
import pytest
import vl_convert
from jsonschema import ValidationError

from commands import Youden
from hostile_pools import make_pool_with_hostile_texts
from narrowing import not_none
from report_runs import judged, with_values
from small_pools import make_pool
from youden.errors import RunFolderError
from youden.report.charts import vega
from youden.report.charts.vega import make_figure_spec, spec_digest
from youden.report.data.comparison import Comparison
from youden.report.data.report import ReportData
from youden.report.pages.embed import format_breakable, to_script_json
from youden.report.pages.writing import render_comparison, render_markdown, render_page
from youden.text.sentences import escape_markdown


def test_p_best_of_each_agent_is_shown_with_a_note_that_it_may_be_overstated(
    tmp_path: Path,
) -> None:
    folder = judged(tmp_path / "run", pool=make_pool(7, 20))
    facts = folder.read_facts()
    choice = not_none(facts.choice)
    assert choice.candidates
    data = ReportData(folder)
    assert {agent.agent: agent.as_json["p_best"] for agent in data.summary.ranking} == dict(choice.p_best)
    (first, chance), *_ = choice.p_best.items()
    assert chance == max(choice.p_best.values())
    output = not_none(data.summary.p_best_text)
    assert output.startswith(f"Probability of being the best: {first} {chance:.2f}, ")
    assert "all others: " in output
    assert output.endswith("If many agents are nearly level, the probability of the first is overstated.")
    assert escape_markdown(output) in render_markdown(data)
    assert output in render_page(data)
    folder.write_facts(replace(facts, choice=replace(choice, candidates=(), regret_bound=0.0)))
    assert ReportData(folder).summary.p_best_text is None
    less = json.loads(folder.file("fit.json").read_bytes())
    del less["choice"]["p_best"]
    folder.write_text("fit.json", json.dumps(less))
    with pytest.raises(RunFolderError, match=r"p_best.*run-file-damaged"):
        ReportData(folder)


class Elements(HTMLParser):
    """Parser that collects elements with their attributes, and the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self._inside.append(str(dict(attrs).get("type")))
            if self._inside[-1] == "None":
                self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside == ["None"]:
            self.scripts[-1] += data


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return render_page(ReportData(judged(tmp_path_factory.mktemp("r") / "run", pool=make_pool_with_hostile_texts())))


def fitting_specs(page: str) -> dict[str, dict[str, Any]]:
    """Return the specifications of the figures of a page by slug, after validation by the Vega-Lite schema."""
    data = not_none(re.search(r'id="figure-data">(.*?)</script>', page, re.DOTALL))
    specs = {slug: figure["spec"] for slug, figure in json.loads(data[1]).items()}
    for spec in specs.values():
        alt.TopLevelSpec.validate(spec)
    return specs


@pytest.mark.slow
def test_every_figure_fits_the_schema_of_vega_lite(tmp_path: Path) -> None:
    runs = [judged(tmp_path / name, seed=seed, holdout=0.2) for seed, name in enumerate(("one", "two"))]
    specs = fitting_specs(render_page(ReportData(runs[0])))
    assert {"ranking", "agents", "difficulty", "curl", "alarms", "holdout", "pairs"} <= set(specs)
    assert set(fitting_specs(render_comparison(Comparison(*runs)))) == {"slope"}
    with pytest.raises(ValidationError):
        alt.TopLevelSpec.validate(specs["ranking"] | {"width": "enormous"})


def test_the_policy_names_every_script_by_its_hash_and_nothing_else_may_run(hostile_page: str) -> None:
    page = Elements(hostile_page)
    (policy,) = [str(attributes["content"]) for tag, attributes in page.found if "Content-Security" in str(attributes)]
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in page.scripts}
    allowed = not_none(re.search(r"script-src ([^;]*);", policy))
    assert set(allowed[1].split()) == hashes
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy


def test_hostile_text_becomes_no_element_and_no_handler(hostile_page: str) -> None:
    page = Elements(hostile_page)
    assert "img" not in {tag for tag, _ in page.found}
    assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")]
    assert all("pwned" not in text for text in page.scripts)
    assert "{{7*7}}" in hostile_page
    assert "\x1b" not in hostile_page
    assert "\u202e" not in hostile_page


def test_a_page_sends_no_request_to_any_host(hostile_page: str) -> None:
    for tag, attributes in Elements(hostile_page).found:
        for name in ("src", "href", "action", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith("#"), (tag, name, value)


def test_json_in_a_script_cannot_close_it() -> None:
    text = to_script_json(["</script>", "<!--", "\u2028&"])
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == ["</script>", "<!--", "\u2028&"]


def test_the_page_is_complete_without_the_chart_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vega, "NEEDED", ("no_such_library",))
    page = render_page(ReportData(judged(tmp_path / "run")))
    assert "pip install" in page
    assert "vegaEmbed" not in "".join(text for text in Elements(page).scripts if len(text) > 50_000)
    assert 'class="interval"' in page
    assert 'id="trial-table"' in page


def test_a_page_uses_the_vega_version_of_the_images_and_its_script_is_closed() -> None:
    version = vl_convert.get_vega_version()
    assert f"vega-{version}.js.gz" == vega.BUNDLE, "Make it again: python docs/making/vega_script.py"
    assert version in vega.load_script()
    assert "</script" not in vega.load_script()


def test_a_page_has_its_charts_without_the_image_renderer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    vega.load_script.cache_clear()
    assert not vega.has_pictures()
    page = render_page(ReportData(judged(tmp_path / "run")))
    assert "vegaEmbed" in "".join(text for text in Elements(page).scripts if len(text) > 50_000)


def test_images_without_the_chart_library_are_a_clear_error(
    youden: Youden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(tmp_path / "run")
    for needed, slug, words in (
        ("NEEDED", "charts-missing", ("view",)),
        ("NEEDED_BY_PICTURES", "pictures-missing", ("report", "run", "--format", "svg")),
    ):
        monkeypatch.setattr(vega, needed, ("no_such_library",))
        assert youden(*words).refuses(slug)


@pytest.mark.slow
def test_chart_writes_every_format(youden: Youden, tmp_path: Path) -> None:
    judged(tmp_path / "run")
    judged(tmp_path / "other")
    assert youden("report", "run").out.strip() == "run/report.html"
    assert youden("report", "run", "--format", "svg", "--chart", "scores").out.strip() == "run/scores.svg"
    assert (tmp_path / "run" / "scores.svg").read_text(encoding="utf-8").startswith("<svg")
    assert youden("report", "run", "--format", "png", "--out", "x/p.png").out.strip() == "x/p.png"
    assert (tmp_path / "x" / "p.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(youden("report", "run", "--format", "csv").out.splitlines()))
    assert [row["agent"] for row in rows] == ["a0", "a1", "a2", "a3", "a4"]
    summary = youden("report", "run", "--format", "md")
    assert summary.out.startswith("## run: 5 agents on 8 items")
    assert youden("report", "run", "--format", "md", "--out", "s.md").out.strip() == "s.md"
    assert (tmp_path / "s.md").read_text(encoding="utf-8") == summary.out
    assert youden("report", "run", "--against", "other").out.strip() == "run/against-other.html"
    assert "Do the rankings agree?" in (tmp_path / "run" / "against-other.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (["--format", "md", "--against", "run"], "report-against"),
        (["--against", "nowhere"], "run-missing"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_a_clear_error(
    youden: Youden, tmp_path: Path, words: list[str], slug: str
) -> None:
    judged(tmp_path / "run")
    assert youden("report", "run", *words).refuses(slug)


def test_markdown_escapes_hostile_text(tmp_path: Path) -> None:
    from markdown_it import MarkdownIt

    data = ReportData(judged(tmp_path / "run", pool=make_pool_with_hostile_texts()))
    text, n_columns = render_markdown(data), 6 + sum(column.in_terminal for column in data.summary.columns)
    displayed = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert {tag for tag, _ in Elements(displayed).found} <= {
        *("h2", "p", "strong", "blockquote", "br", "sub", "code"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    assert escape_markdown("a|b\n<i>") == "a\\|b\\\\n\\<i\\>"
    assert all(
        line.count("|") - line.count("\\|") == n_columns + 1 for line in text.splitlines() if line.startswith("| ")
    )


def test_an_image_states_its_title_unit_source_and_run(tmp_path: Path) -> None:
    data = ReportData(judged(tmp_path / "run"))
    spec = make_figure_spec(data, "ranking")
    text = json.dumps(spec)
    for expected in ("run: Distance from the average agent", "TPR", "Source: ranking.csv, 320 answers"):
        assert expected in text or json.dumps(expected)[1:-1] in text
    other_data = with_values(data, summary=with_values(data.summary, name="else"))
    assert spec_digest(spec) != spec_digest(make_figure_spec(other_data, "ranking"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "figures"),
    [
        (["budget", "run", "--calls", "40%", "--n-seeds", "2", "--top", "2"], ["budget-1"]),
        (["sparsity", "run", "run", "--n-seeds", "2"], ["sparsity-cells-1", "sparsity-calls-2"]),
        (["baselines", "run", "--n-seeds", "2", "--c", "3", "--only", "clipped-linear,svd"], ["baselines-1"]),
    ],
)
def test_a_study_is_drawn_with_its_summary_and_signature(
    youden: Youden, tmp_path: Path, words: list[str], figures: list[str]
) -> None:
    folder = judged(tmp_path / "run", pool=make_pool(8, 20), holdout=0.0)
    assert youden("study", *words, "--html", "study.html").code == 0
    page = (tmp_path / "study.html").read_text(encoding="utf-8")
    for figure in figures:
        assert f'id="figure-{figure}"' in page
    assert set(figures) <= set(fitting_specs(page))
    assert folder.read_signature().text in page


def test_a_page_without_groups_has_neither_their_column_nor_their_legend(tmp_path: Path) -> None:
    folder = judged(tmp_path / "run")
    with_groups = render_page(ReportData(folder))
    assert 'class="wide">Group</th>' in with_groups
    pool = make_pool()
    ungrouped = replace(pool, agents=tuple(replace(agent, group=None) for agent in pool.agents))
    page = render_page(ReportData(judged(tmp_path / "ungrouped", pool=ungrouped)))
    assert 'class="wide">Group</th>' not in page
    assert "no group" not in page


def test_the_notes_above_the_ranking_are_a_list_and_names_break_at_separators(tmp_path: Path) -> None:
    page = render_page(ReportData(judged(tmp_path / "run")))
    assert '<ul class="note" id="ranking-note">' in page
    assert format_breakable("old_bot/v2") == "old_<wbr>bot/<wbr>v2"
    assert format_breakable("<b>_x") == "&lt;b&gt;_<wbr>x"
