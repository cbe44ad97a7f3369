"""The command `audit`: what it prints and writes, and that names of models are untrusted text."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from commands import Youden
from youden.report.pages import audit_page

TABLE = "model,x,y,z\na,.9,.5,.25\nb,.8,.75,.125\nc,.1,.2,.05\n"


def test_an_audit_prints_the_ranking_and_writes_the_report_and_its_tables(youden: Youden, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text(TABLE, encoding="utf-8")
    ended = youden("audit", "scores.csv", "--out", "audited").well()
    assert "Candidates: b, a, c cannot be ruled out" in ended.out
    assert "Split-half reliability" in ended.out
    assert "note: rows are models (model)" in ended.err
    with (tmp_path / "audited" / "ranking.csv").open(encoding="utf-8", newline="") as file:
        assert [row["agent"] for row in csv.DictReader(file)] == ["b", "a", "c"]
    with (tmp_path / "audited" / "items.csv").open(encoding="utf-8", newline="") as file:
        items = list(csv.DictReader(file))
    assert [row["item"] for row in items] == ["x", "y", "z"]
    score = np.array([[0.9, 0.5, 0.25], [0.8, 0.75, 0.125], [0.1, 0.2, 0.05]])
    residual = score - score.mean(axis=0) - score.mean(axis=1, keepdims=True) + score.mean()
    rms = np.sqrt((residual**2).mean(axis=0))
    assert [float(row["residual"]) for row in items] == pytest.approx(rms.tolist())
    said = youden("audit", "scores.csv", "--json").said
    assert json.loads((tmp_path / "audited" / "audit.json").read_text(encoding="utf-8")) == said
    assert [row["agent"] for row in said["ranking"]] == ["b", "a", "c"]


def test_columns_and_the_range_are_set_by_options(youden: Youden, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("System X,x,y\na,1,2\nb,3,5\n", encoding="utf-8")
    assert youden("audit", "t.csv").refuses("scores-columns")
    said = youden("audit", "t.csv", "--column", "model=System X", "--range", "1,5", "--json").said
    assert (said["audit"]["low"], said["audit"]["high"]) == (1, 5)
    assert {row["agent"] for row in said["ranking"]} == {"a", "b"}
    assert youden("audit", "t.csv", "--column", "agent=System X").refuses("scores-role")
    for score_range in ("0,inf", "5,1"):
        assert youden("audit", "t.csv", "--range", score_range).refuses("scores-range")
    assert youden("audit", "t.csv", "--column", "ignore=x", "--column", "ignore=y").code == 2


@pytest.mark.parametrize("name", ["items.csv", "ranking.csv", "report.html", "audit.json"])
def test_an_audit_replaces_no_file_that_no_audit_wrote(youden: Youden, tmp_path: Path, name: str) -> None:
    (tmp_path / "scores.csv").write_text(TABLE, encoding="utf-8")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text('{"signature": "mine"}', encoding="utf-8")
    assert youden("audit", "scores.csv", "--out", "mine").refuses("audit-out")
    assert (tmp_path / "mine" / name).read_text(encoding="utf-8") == '{"signature": "mine"}'
    for _ in range(2):
        youden("audit", "scores.csv", "--out", "audited").well()


def test_an_audit_that_stopped_while_it_was_written_is_repeated(youden: Youden, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_page, "write_items", fail)
        assert youden("audit", "t.csv", "--out", "audited").refuses("file")
    youden("audit", "t.csv", "--out", "audited").well()


def test_names_are_escaped_in_the_terminal_and_on_the_page(youden: Youden, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>\u202e[red]"
    (tmp_path / "t.csv").write_text(f"model,x,y\n{name},.9,.5\nb,.8,.75\n", encoding="utf-8")
    ended = youden("audit", "t.csv", "--out", "o").well()
    assert "\u202e" not in ended.out
    assert "\\u202e[red]" in ended.out.replace("\n", "").replace(" ", "")
    page = (tmp_path / "o" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page
