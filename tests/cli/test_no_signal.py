"""Test from end to end that a judge without signal gives no recommendation, no passed gate and no further search."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from commands import Youden, wire_judge, write_config
from wire_server import Reply, WireServer
from youden.data.folder.run_folder import RunFolder

AGENTS = ("prod", "cand", "third", "fourth", "garbage")
N_ITEMS = 30


def texts() -> dict[tuple[str, str], str]:
    """Return texts with some words of their item, except for `garbage`, which repeats the same text everywhere."""
    rng, output = np.random.default_rng(0), {}
    for item in range(N_ITEMS):
        words = [f"fact{item}x{k}" for k in range(10)]
        for n, agent in enumerate(AGENTS[:-1]):
            own = [words[k] for k in rng.choice(10, size=9 - n, replace=False)]
            output[agent, f"i{item}"] = " ".join(own + ["filler"] * int(rng.integers(0, 12)))
        output["garbage", f"i{item}"] = "lorem ipsum dolor sit amet"
    return output


def two_texts(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return both texts of a question, which name facts or are garbage."""
    matches = re.findall(r"(?:fact\d+x\d+|lorem)[\w ]*", body["messages"][-1]["content"])
    return matches[0], matches[-1]


def by_facts(_n: int, body: Mapping[str, Any]) -> Reply:
    warning, b = ({word for word in text.split() if word.startswith("fact")} for text in two_texts(body))
    return Reply("YES" if len(warning & b) >= 5 else "NO")


def by_length(_n: int, body: Mapping[str, Any]) -> Reply:
    warning, b = map(len, two_texts(body))
    return Reply("YES" if abs(np.log(warning / b)) < 0.3 else "NO")


def coin(_n: int, body: Mapping[str, Any]) -> Reply:
    return Reply("YES" if crc32(json.dumps(body).encode()) % 2 else "NO")


USELESS = {"no": lambda _n, _body: Reply("NO"), "yes": lambda _n, _body: Reply("YES"), "coin": coin}


@pytest.fixture
def facts_folder(tmp_path: Path, server: WireServer) -> Path:
    with (tmp_path / "pool.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", "item", "text"])
        writer.writerows((agent, item, text) for (agent, item), text in texts().items())
    write_config(tmp_path / "r.yaml", pool="pool.csv", judge=wire_judge(server.url), calls=500)
    server.behave = by_facts
    return tmp_path


GATE = ("gate", "runs/r", "--agent", "garbage", "--baseline", "prod")


@pytest.mark.parametrize("judge", ["coin", *(pytest.param(name, marks=pytest.mark.slow) for name in ("no", "yes"))])
def test_a_judge_without_signal_gives_no_recommendation_and_an_inconclusive_gate(
    youden: Youden, facts_folder: Path, server: WireServer, judge: str
) -> None:
    server.behave = USELESS[judge]
    ended = youden("run", "r.yaml").well()
    assert ended.out.startswith(
        "No recommendation: this judge does not separate these agents; the 95% interval of J = "
    )
    assert "Use another judge" in ended.out.splitlines()[0]
    everything = ended.out + ended.err
    assert everything.count("No recommendation") == 1
    assert not re.search(r"Recommended: |Candidates: |Take |winner|more calls would", everything)

    gate = youden(*GATE)
    assert gate.code == 3
    assert re.search(
        r"^undecided: garbage against prod: this judge does not separate these agents", gate.err, re.MULTILINE
    )
    assert "Recommended" not in gate.err
    data = json.loads(youden(*GATE, "--json").out)
    assert (data["outcome"], data["agents"][0]["low"], data["agents"][0]["analysis"]) == ("undecided", None, 1)
    assert data["agents"][0]["reason"].startswith("this judge does not separate these agents")
    assert data["recommendation"]["form"] == "none"
    written = youden(*GATE, "--markdown", "-", "--junit", "gate.xml")
    assert (written.code, "this judge does not separate" in written.out.replace("\\", "")) == (3, True)
    assert 'errors="1"' in (facts_folder / "gate.xml").read_text(encoding="utf-8")

    page = (facts_folder / "runs/r/report.html").read_text(encoding="utf-8")
    assert '<p class="headline">No recommendation: this judge does not separate' in page
    assert youden("fit", "runs/r").well().out.startswith("No recommendation: ")
    assert "**No recommendation: " in youden("report", "runs/r", "--format", "md").out


@pytest.mark.slow
def test_a_judge_with_signal_decides_the_gate_against_random_text(youden: Youden, facts_folder: Path) -> None:
    ended = youden("run", "r.yaml", "--json").said
    assert ended["recommendation"]["form"] in ("recommended", "candidates")
    assert ended["recommendation"]["text"].split(": ")[1].startswith("prod")
    assert ended["recommendation"] == ended["fit"]["recommendation"]
    assert ended["fit"]["signal"]["j_low"] > 0
    gate = youden(*GATE)
    assert (gate.code, "worse: the judge recognizes the responses of garbage in" in gate.err) == (1, True)


def test_candidates_and_required_items_do_not_contradict_each_other(youden: Youden, facts_folder: Path) -> None:
    write_config(facts_folder / "few.yaml", pool="pool.csv", judge="lexical", calls=150, independent="pooled:40")
    ended = youden("run", "few.yaml").well()
    first = ended.out.splitlines()[0]
    assert first.startswith(("Candidates: ", "Recommended: "))
    steps = [line for line in ended.err.splitlines() if line.startswith("next: ")]
    assert len(steps) == first.startswith("Candidates: ")
    assert all("would separate" in line or "may be equally good" in line for line in steps)
    assert "winner" not in ended.err


@pytest.mark.slow
def test_a_jury_without_signal_gives_no_recommendation(youden: Youden, facts_folder: Path, server: WireServer) -> None:
    server.behave = coin
    judges = [wire_judge(server.url, model=model) for model in ("a", "b")]
    jury = {"backend": "jury", "name": "two", "judges": judges, "vote": "mean"}
    write_config(facts_folder / "jury.yaml", pool="pool.csv", judge=jury, calls=300)
    assert youden("run", "jury.yaml").well().out.startswith("No recommendation: this judge does not separate")


@pytest.mark.slow
def test_a_search_ends_after_its_pilot_and_states_the_reason(
    youden: Youden, facts_folder: Path, server: WireServer
) -> None:
    server.behave = USELESS["no"]
    write_config(facts_folder / "search.yaml", pool="pool.csv", judge=wire_judge(server.url), calls=500, top=1)
    ended = youden("run", "search.yaml", "--verbose").well()
    assert ended.out.startswith("No recommendation: this judge does not separate these agents")
    assert server.n_requests < 400
    plan = RunFolder(facts_folder / "runs/search").read_plan()
    assert "stopped early: this judge does not separate these agents" in plan.notes[-1]
    n_requests = server.n_requests
    again = youden("run", "search.yaml").well()
    assert f"{plan.notes[-1]}; report: " in again.err
    assert server.n_requests == n_requests


@pytest.mark.slow
def test_an_extended_run_is_not_searched_by_a_judge_without_signal(
    youden: Youden, facts_folder: Path, server: WireServer
) -> None:
    server.behave = USELESS["yes"]
    assert youden("run", "r.yaml").code == 0
    extended = youden("extend", "calls", "runs/r", "60", "--focus", "cand").well()
    assert extended.out.startswith("No recommendation: ")
    n_requests = server.n_requests
    for words in (("--top", "1", "--calls", "80"), ("--max-regret", "0.05")):
        ended = youden("extend", "best", "runs/r", *words)
        assert (ended.code, server.n_requests) == (0, n_requests)
        assert ended.err.startswith("no request is sent: this judge does not separate these agents")


@pytest.mark.slow
def test_compare_states_what_each_run_recommends(youden: Youden, facts_folder: Path, server: WireServer) -> None:
    assert youden("run", "r.yaml").code == 0
    server.behave = USELESS["no"]
    write_config(facts_folder / "s.yaml", pool="pool.csv", judge=wire_judge(server.url, model="n"), calls=500)
    assert youden("run", "s.yaml").code == 0
    stdout = youden("compare", "runs/r", "runs/s").well().out
    assert stdout.startswith("No common recommendation: s recommends no agent.\nBy r: ")
    assert re.search(r"^By r: (Recommended|Candidates): prod", stdout, re.MULTILINE), stdout
    assert re.search(r"^By s: No recommendation: this judge does not separate", stdout, re.MULTILINE)
    assert "The runs agree" not in stdout


@pytest.mark.slow
def test_a_judge_that_compares_lengths_is_reported(youden: Youden, facts_folder: Path, server: WireServer) -> None:
    server.behave = by_length
    ended = youden("run", "r.yaml").well()
    assert re.search(
        r"^warning: Text length explains \d+% of the variance of the judge's answers", ended.err, re.MULTILINE
    )
    page = (facts_folder / "runs/r/report.html").read_text(encoding="utf-8")
    assert "it seems to compare lengths, not contents" in page
    assert "length" in [
        warning["slug"] for warning in json.loads((facts_folder / "runs/r/fit.json").read_text("utf-8"))["warnings"]
    ]
    server.behave = by_facts
    write_config(facts_folder / "s.yaml", pool="pool.csv", judge=wire_judge(server.url, model="n"), calls=500)
    assert "Text length explains" not in youden("run", "s.yaml").well().err


@pytest.mark.slow
def test_the_calibration_of_the_same_judge_is_shown_in_run_report_and_gate(
    youden: Youden, facts_folder: Path, server: WireServer
) -> None:
    assert "calibrate:" not in youden("run", "r.yaml").well().err.replace("youden calibrate", "")
    server.behave = USELESS["no"]
    write_config(facts_folder / "bad.yaml", **wire_judge(server.url, model="bad"))
    assert youden("calibrate", "pool.csv", "--judge", "bad.yaml").code == 1
    write_config(facts_folder / "s.yaml", pool="pool.csv", judge="bad.yaml", calls=300, out="runs/elsewhere")
    line = re.compile(
        r"^calibrate: NO-GO on \d{4}-\d\d-\d\d, J = -?0\.00 \[-0\.\d\d, 0\.\d\d\], \d+ calls$", re.MULTILINE
    )
    assert len(line.findall(youden("run", "s.yaml").well().err)) == 1
    assert youden("fit", "runs/elsewhere", "--json").said["calibration"].startswith("calibrate: NO-GO on ")
    gate = youden("gate", "runs/elsewhere", "--agent", "garbage", "--baseline", "prod")
    assert (gate.code, len(line.findall(gate.err))) == (3, 1)
    assert "calibrate: NO-GO on " in (facts_folder / "runs/elsewhere/report.html").read_text(encoding="utf-8")
    assert "calibrate: NO-GO on" in youden("report", "runs/elsewhere", "--format", "md").out.replace("\\", "")
    other_run = youden("fit", "runs/r").well()
    assert "calibrate: " not in other_run.err, "another judge"


def test_the_calibration_with_most_calls_of_a_judge_on_a_pool_is_stored(
    youden: Youden, facts_folder: Path, server: WireServer
) -> None:
    write_config(facts_folder / "j.yaml", **wire_judge(server.url))
    stored = []
    warnings = []
    for calls in ("60", "90", "60"):
        warnings.append("is kept" in youden("calibrate", "pool.csv", "--judge", "j.yaml", "--calls", calls).err)
        stored.append(json.loads((facts_folder / "runs/calibrations.json").read_text("utf-8"))["calibrations"])
    assert [len(records) for records in stored] == [1, 1, 1]
    assert stored[0][0]["n_calls"] <= 60 < stored[1][0]["n_calls"]
    assert stored[2] == stored[1]
    assert warnings == [False, False, True]
    (facts_folder / "runs/calibrations.json").write_text("{}", encoding="utf-8")
    assert youden("calibrate", "pool.csv", "--judge", "j.yaml").refuses("run-file-damaged")
