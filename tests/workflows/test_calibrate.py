"""Test the calibration of judges: measures, the acceptance rule, and the command."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from commands import Youden, write_config
from narrowing import not_none
from small_pools import make_pool
from wire_server import Reply, WireServer, draw
from youden import make_plan, read_pool
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.errors import ConfigError
from youden.judging.offline.tape import CassetteRecorder, use_cassette
from youden.stats.base.proportions import proportion
from youden.types import PAIRED, Verdicts
from youden.types.pool import Floats
from youden.workflows.calibration import CalibratedJudge, describe_judge, plan_calibration
from youden.workflows.calibration_outcome import Bill, Measures, Outcome, compute_measures, decide
from youden.workflows.calibration_trials import CalibrationTrials, draw_calibration_trials


@pytest.fixture(scope="module")
def known_answers() -> CalibrationTrials:
    pool = read_pool("datasets/field-notes")
    return draw_calibration_trials(make_plan(pool, seed=0), calls=150, seed=0)


def measured(known_answers: CalibrationTrials, answer: Floats) -> Measures:
    missing = np.where(np.isnan(answer), 1, 0).astype(np.int8)
    return compute_measures(known_answers, Verdicts(known_answers.plan, answer, answer.copy(), missing, {}))


def truth(known_answers: CalibrationTrials) -> Floats:
    answer = np.where(known_answers.plan.trial_type == PAIRED, 1.0, 0.0)
    answer[known_answers.rows("template")] = 0
    return answer


def outcome(known_answers: CalibrationTrials, answer: Floats) -> Outcome:
    return decide(measured(known_answers, answer), n_calls=len(answer)).outcome


def test_a_judge_that_is_always_right_has_j_1_and_passes(known_answers: CalibrationTrials) -> None:
    result = measured(known_answers, truth(known_answers))
    assert (result.tpr.value, result.fpr.value, result.j.value, result.length_j.value) == (1, 0, 1, 1)
    assert (result.copy_yes_rate.n_yes, result.yes["template"].n_yes, result.no_answer.n_yes) == (12, 0, 0)
    assert (result.order_flips.value, result.retest_flips.value, result.longer_first.value) == (0, 0, 0)
    assert outcome(known_answers, truth(known_answers)) == "go"


def test_order_and_repetition_effects_are_counted_separately(known_answers: CalibrationTrials) -> None:
    """In 9 pairs the answer is yes only if the longer text is first; 2 of 10 answers change in replicates."""
    answer, plan = truth(known_answers), known_answers.plan
    length = np.array([[len(text or "") for text in row] for row in known_answers.pool.texts])
    for row in known_answers.rows("reversed")[:9]:
        longer = length[plan.first[row], plan.item[row]] > length[plan.second[row], plan.item[row]]
        answer[known_answers.original[row] if longer else row] = 0
    before = known_answers.original[known_answers.rows("retest")]
    answer[known_answers.rows("retest")] = np.where(np.arange(10) < 2, 1 - answer[before], answer[before])
    result = measured(known_answers, answer)
    n = sum(
        length[plan.first[row], plan.item[row]] != length[plan.second[row], plan.item[row]]
        for row in known_answers.rows("reversed")
    )
    assert result.order_flips.n_yes == 9
    assert result.retest_flips.n_yes == 2
    assert result.position_bias.value == pytest.approx(9 / 24 - 2 / 10)
    assert result.longer_first.value == pytest.approx(9 / n, abs=0.03)
    assert result.longer_first.low > 0


def test_open_paths_are_counted_in_triples(known_answers: CalibrationTrials) -> None:
    """Each of 6 triples is a paired trial and two trials with a third agent; a no in one of them opens a path."""
    answer, plan, rows = truth(known_answers), known_answers.plan, known_answers.rows("triple")
    assert len(rows) == 12
    for a, b in rows.reshape(-1, 2).tolist():
        pair = known_answers.original[a]
        assert known_answers.original[b] == pair < len(known_answers.rows("paired"))
        assert plan.item[a] == plan.item[b] == plan.item[pair]
        first = [int(plan.first[row]) for row in (pair, a, b)]
        second = [int(plan.second[row]) for row in (pair, a, b)]
        assert len(set(first)) == 3
        assert second == [first[1], first[2], first[0]]
    assert measured(known_answers, answer.copy()).open_paths[:3] == (18, 0, 0)
    answer[[rows[0], known_answers.original[rows[2]]]] = 0
    answer[rows[4:6]] = 0
    answer[rows[6]] = np.nan
    paths = measured(known_answers, answer).open_paths
    assert (paths.n_paths, paths.n_open, paths.share) == (2 + 2 * 3, 2, 2 / 8)
    assert paths.expected == pytest.approx(4 / 15)
    assert paths.low < paths.share < paths.high


def test_a_judge_without_transitivity_gets_a_note(known_answers: CalibrationTrials) -> None:
    answer = truth(known_answers)
    for judge_answer, has_note in (
        (answer, False),
        (np.where(np.isin(np.arange(150), known_answers.rows("triple")[::2]), 0, answer), True),
    ):
        measures = measured(known_answers, judge_answer)
        bill = Bill(None, None, usd=None, usd_per_1000=None)
        judge = CalibratedJudge("j", "openai", measures, bill, decide(measures, n_calls=150), ())
        assert any("not an equivalence" in line for line in describe_judge(judge, max_calls=300)) == has_note


def test_more_calls_are_advised_for_a_server_that_is_nondeterministic_at_zero(
    known_answers: CalibrationTrials,
) -> None:
    answer = truth(known_answers)
    answer[known_answers.rows("retest")] = 1 - answer[known_answers.rows("retest")]
    measures = measured(known_answers, answer)
    bill = Bill(None, None, usd=None, usd_per_1000=None)
    judge = CalibratedJudge("j", "openai", measures, bill, decide(measures, n_calls=150), ())
    (line,) = [line for line in describe_judge(judge, max_calls=300) if "nondeterministic" in line]
    assert "If it is 0 already, the server is nondeterministic: plan more calls per agent." in line


def test_useless_judges_are_refused(known_answers: CalibrationTrials) -> None:
    n, rng = len(known_answers.plan), np.random.default_rng(0)
    plan = known_answers.plan
    length = np.array([[len(text or "") for text in row] for row in known_answers.pool.texts], dtype=np.float64)
    first = length[plan.first, plan.item]
    second = length[plan.second, np.where(plan.other_item >= 0, plan.other_item, plan.item)]
    by_length = (np.minimum(first, second) >= 0.9 * np.maximum(first, second)).astype(float)
    for answer in (np.ones(n), np.zeros(n), by_length, np.full(n, np.nan), *(rng.integers(0, 2, (20, n)) * 1.0)):
        assert outcome(known_answers, answer) == "no-go"


def test_a_judge_that_rejects_copies_or_accepts_templates_is_refused(known_answers: CalibrationTrials) -> None:
    blind, fooled = truth(known_answers), truth(known_answers)
    blind[known_answers.rows("identical", "clone")] = 0
    fooled[known_answers.rows("template")] = 1
    for answer, what in ((blind, "copy_yes_rate"), (fooled, "template")):
        verdict = decide(measured(known_answers, answer), n_calls=150)
        assert verdict.outcome == "no-go"
        assert [rule.slug for rule in verdict.rules if rule.severity == "failed"] == [what]


def test_missing_answers_are_counted_by_trial_type_and_are_not_no_answers(known_answers: CalibrationTrials) -> None:
    answer = truth(known_answers)
    answer[known_answers.rows("independent")[:3]] = np.nan
    answer[known_answers.rows("clone")[:1]] = np.nan
    result = measured(known_answers, answer)
    assert result.missing == {"paired": {}, "independent": {"unparsed": 3}, "planted": {"unparsed": 1}}
    assert result.fpr.n == 27
    assert result.yes["clone"].value == 1


def test_the_suggested_calls_decide_in_four_of_five_cases(known_answers: CalibrationTrials) -> None:
    """Only the FPR, 6 of 30, is undecided: with the suggested calls at this rate, Wilson's upper bound is below .3."""
    answer = truth(known_answers)
    answer[known_answers.rows("independent")[:6]] = 1
    verdict = decide(measured(known_answers, answer), n_calls=150)
    assert verdict.outcome == "not sure"
    n = round(30 * not_none(verdict.calls) / 150)
    settled = [k for k in range(n + 1) if proportion(k, n).high < 0.3]
    assert np.sum(binom.pmf(settled, n, 0.2)) == pytest.approx(0.8, abs=0.06)


def test_no_calls_are_suggested_if_a_rate_is_at_its_bound(known_answers: CalibrationTrials) -> None:
    answer = truth(known_answers)
    answer[known_answers.rows("independent")[:8]] = 1
    verdict = decide(measured(known_answers, answer), n_calls=150)
    assert (verdict.outcome, verdict.calls) == ("not sure", None)


def same_source(_n: int, body: Mapping[str, Any]) -> Reply:
    """Answer YES if both texts of `make_pool` are of one item; planted templates are of none."""
    items = re.findall(r"says something of item (\d+)", body["messages"][-1]["content"])
    return Reply("YES" if len(items) == 2 and items[0] == items[1] else "NO")


N_REQUESTS = 149
"""Requests of 150 trials on this pool: of its few agents, one triple contains a trial that another kind has too."""


@pytest.fixture
def calibration_folder(tmp_path: Path, server: WireServer) -> Path:
    """Create a pool, a free judge, an expensive one and the config of a run."""
    write_pool(make_pool(6, 20), tmp_path / "notes")
    server.behave = same_source
    judge = {"backend": "wire", "model": "m", "base_url": server.url, "api_key_env": None, "backoff": 0.001}
    write_config(tmp_path / "free.yaml", **judge, price=0)
    write_config(tmp_path / "dear.yaml", **judge | {"model": "n"}, price=1, max_tokens=1)
    write_config(tmp_path / "notes-run.yaml", name="notes", pool="notes", judge="free.yaml")
    return tmp_path


@pytest.mark.slow
def test_answers_of_a_calibration_are_reused_by_the_run(
    youden: Youden, calibration_folder: Path, server: WireServer
) -> None:
    ended = youden("calibrate", "notes", "--judge", "free.yaml").well()
    assert "the run 'notes' (seed 0) has 110 of them too" in ended.err
    assert "free: GO. J 1.00" in ended.out
    assert "The cheapest judge that passes is free, at $0.0000 per 1,000 calls." in ended.out
    assert server.n_requests == N_REQUESTS
    assert not (calibration_folder / "runs/notes").exists()
    n_calls = json.loads(youden("plan", "notes-run.yaml", "--json").out)["cost"]["calls"]
    assert youden("run", "notes-run.yaml").code == 0
    assert server.n_requests == N_REQUESTS + n_calls - 109
    assert not_none(RunFolder(calibration_folder / "runs/notes").read_facts().calls).n_reused == 109
    page = (calibration_folder / "runs/notes/report.html").read_text(encoding="utf-8")
    assert "109 answers, requested by a calibration or another run with the same store; they cost $0.0000" in page
    assert "109 answers were requested before this run; they cost $0.0000" in youden(
        "report", "runs/notes", "--format", "md"
    ).out.replace("\\", "")
    assert youden("run", "notes-run.yaml").code == 0
    assert not_none(RunFolder(calibration_folder / "runs/notes").read_facts().calls).n_reused == 109


def test_the_same_command_sends_nothing_twice_and_more_calls_only_the_rest(
    youden: Youden, calibration_folder: Path, server: WireServer
) -> None:
    server.behave = lambda _n, body: Reply("YES" if draw(body, 3) else "NO")
    first = json.loads(youden("calibrate", "notes-run.yaml", "--json").out)
    again = json.loads(youden("calibrate", "notes-run.yaml", "--json").out)
    assert server.n_requests == N_REQUESTS
    assert first["judges"][0]["measures"] == again["judges"][0]["measures"]
    assert first["judges"][0]["bill"]["seconds_median"] == again["judges"][0]["bill"]["seconds_median"] > 0
    data = json.loads(youden("calibrate", "notes-run.yaml", "--calls", "180", "--json").out)
    assert server.n_requests == data["costs"]["free"]["calls"] - 1 == 178


def test_a_replay_and_a_cassette_calibrate_without_a_server(
    youden: Youden, calibration_folder: Path, server: WireServer
) -> None:
    with use_cassette(CassetteRecorder(calibration_folder / "notes.jsonl", mode="once")) as tape:
        refused = youden("calibrate", "notes-run.yaml", "--json", "--calls", "60")
    assert tape.n_recorded == server.n_requests > 0
    server.behave = lambda _n, _body: Reply(status=500)
    write_config(calibration_folder / "replay.yaml", backend="replay")
    replayed = youden("calibrate", "notes-run.yaml", "--json", "--calls", "60", "--judge", "replay.yaml")
    with use_cassette(CassetteRecorder(calibration_folder / "notes.jsonl", mode="none")):
        played = youden("calibrate", "notes-run.yaml", "--json", "--calls", "60", "--store", "other.db")
    result = [json.loads(ended.out)["judges"][0] for ended in (refused, replayed, played)]
    assert result[0]["measures"] == result[1]["measures"] == result[2]["measures"]
    assert result[0]["decision"] == result[1]["decision"] == result[2]["decision"]


def test_a_dry_run_states_calls_and_cost_and_neither_sends_nor_writes(
    youden: Youden, calibration_folder: Path, server: WireServer
) -> None:
    before = set(calibration_folder.iterdir())
    output = youden("calibrate", "notes", "--judge", "free.yaml", "--judge", "dear.yaml", "--dry-run", "--json").said
    assert {name: cost["calls"] for name, cost in output["costs"].items()} == {"free": 150, "dear": 150}
    assert output["costs"]["free"]["usd"] == 0 < output["costs"]["dear"]["usd"]
    assert output["trials"]["paired"] == {"n": 36, "in_run": 36, "means": output["trials"]["paired"]["means"]}
    assert server.n_requests == 0
    assert set(calibration_folder.iterdir()) == before


def test_the_cheapest_passing_judge_is_named(youden: Youden, calibration_folder: Path, server: WireServer) -> None:
    output = youden(
        "calibrate", "notes", "--judge", "dear.yaml", "--judge", "free.yaml", "--max-cost", "1", "--json"
    ).said
    assert output["cheapest"] == "free"
    dear, free = output["judges"]
    assert dear["decision"]["outcome"] == free["decision"]["outcome"] == "go"
    assert dear["bill"]["usd"] == pytest.approx(N_REQUESTS * 101e-6)
    assert dear["bill"]["usd_per_1000"] == pytest.approx(0.101)
    assert free["bill"]["usd_per_1000"] == 0


def test_the_printed_cost_counts_calls_without_a_reply_at_their_estimated_cost(
    youden: Youden, calibration_folder: Path, server: WireServer
) -> None:
    server.behave = lambda n, body: Reply(status=504) if 80 < n <= 83 else Reply("YES" if draw(body, 3) else "NO")
    ended = youden("calibrate", "notes", "--judge", "dear.yaml", "--max-cost", "1", "--json")
    usd = json.loads(ended.out)["judges"][0]["bill"]["usd"]
    (booked,) = re.findall(r"booked at their estimated cost, ([\d.e-]+) USD", ended.err)
    assert usd == pytest.approx(N_REQUESTS * 101e-6 + float(booked))


def test_a_jury_is_billed_for_all_its_judges_also_from_the_store(youden: Youden, calibration_folder: Path) -> None:
    write_config(calibration_folder / "jury.yaml", backend="jury", judges=["free.yaml", "dear.yaml"], vote="mean")
    bills = []
    for _ in range(2):
        ended = youden("calibrate", "notes", "--judge", "jury.yaml", "--max-cost", "1", "--json").well()
        bills.append(json.loads(ended.out)["judges"][0]["bill"])
    assert bills[0]["usd"] == pytest.approx(N_REQUESTS * 101e-6)
    assert bills[1]["usd"] == 0
    assert bills[0]["usd_per_1000"] == bills[1]["usd_per_1000"] == pytest.approx(0.101)


def test_a_common_cap_for_all_judges_exits_with_1_and_the_same_command_resumes(
    youden: Youden, calibration_folder: Path, server: WireServer
) -> None:
    short = youden("calibrate", "notes", "--judge", "dear.yaml", "--max-cost", "0.005")
    assert short.code == 1
    assert short.err.rstrip().endswith("[budget]")
    n_requests = server.n_requests
    assert 0 < n_requests < 150
    assert youden("calibrate", "notes", "--judge", "dear.yaml", "--max-cost", "1").code == 0
    assert server.n_requests == N_REQUESTS


def test_a_judge_that_always_answers_yes_is_refused(
    youden: Youden, calibration_folder: Path, server: WireServer
) -> None:
    server.behave = lambda _n, _body: Reply("YES")
    ended = youden("calibrate", "notes", "--judge", "free.yaml")
    assert ended.code == 1
    assert "free: NO-GO." in ended.out
    assert "FPR 1.00 [0.89, 1.00] (must be below 0.3)" in ended.out
    assert "No judge passes." in ended.out
    assert "The rule: go if every 95% interval" in ended.out


def test_a_judge_that_answers_nothing_is_refused_with_the_reason(
    youden: Youden, calibration_folder: Path, server: WireServer
) -> None:
    server.behave = lambda _n, _body: Reply("perhaps")
    ended = youden("calibrate", "notes", "--judge", "free.yaml")
    assert ended.code == 1, ended.err
    assert "J is unknown, because no trial was answered" in ended.out
    assert "missing answers 1.00" in ended.out
    assert "92 unparsed" in ended.out
    displayed = json.loads(youden("calibrate", "notes", "--judge", "free.yaml", "--json").out)["judges"][0]["measures"]
    assert displayed["tpr"]["value"] is None
    assert displayed["missing"]["independent"] == {"unparsed": 40}


def test_the_lexical_judge_is_described_as_lexical(youden: Youden) -> None:
    ended = youden("calibrate", "datasets/field-notes", "--seed", "1").well()
    assert "lexical: GO." in ended.out
    assert "a free similarity baseline, not a model" in ended.out
    assert "they show nothing about a model" in ended.out
    assert "Only a baseline passes" in ended.out
    data = json.loads(youden("calibrate", "datasets/field-notes", "--seed", "1", "--json").out)
    assert data["cheapest"] is None
    assert data["judges"][0]["bill"] == {"seconds_median": None, "seconds_p95": None, "usd": 0.0, "usd_per_1000": 0.0}


def test_order_effects_and_judge_names_are_escaped(
    youden: Youden, calibration_folder: Path, server: WireServer
) -> None:
    """The judge answers yes to paired texts only if agent 0, 1 or 2 is first, and has a name with control codes."""

    def behave(n: int, body: Mapping[str, Any]) -> Reply:
        agents = re.findall(r"agent (\d) says", body["messages"][-1]["content"])
        return same_source(n, body) if len(agents) < 2 or agents[0] <= agents[1] else Reply("NO")

    server.behave = behave
    config = (calibration_folder / "free.yaml").read_text(encoding="utf-8") + 'name: "[red]x\\e[31m"\n'
    (calibration_folder / "odd.yaml").write_text(config, encoding="utf-8")
    ended = youden("calibrate", "notes", "--judge", "odd.yaml")
    assert "[red]x" in ended.out
    assert "\x1b" not in ended.out + ended.err
    assert "It has a position bias: 100% of pairs get another answer in the other order. Both orders" in ended.out


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (("notes", "--judge", "gtp-4o-mini"), "unknown-judge"),
        (("notes", "--judge", "free.yaml", "--judge", "./free.yaml"), "judge-duplicate"),
        (("notes", "--judge", "free.yaml", "--judge", "dear.yaml"), "max-cost-needed"),
        (("notes", "--judge", "unpriced.yaml", "--max-cost", "1"), "price-unknown"),
        (("nowhere", "--judge", "free.yaml"), "pool-not-found"),
        (("nowhere.yaml",), "run-config-file"),
        (("small.csv", "--judge", "free.yaml"), "calibrate-small"),
    ],
)
def test_bad_input_exits_with_2_before_any_request(
    youden: Youden, calibration_folder: Path, server: WireServer, words: tuple[str, ...], slug: str
) -> None:
    (calibration_folder / "small.csv").write_text(
        "agent,item,text\n" + "".join(f"a{i},i{j},text {i} {j}\n" for i in range(3) for j in range(2)), encoding="utf-8"
    )
    write_config(calibration_folder / "unpriced.yaml", backend="wire", model="o", base_url=server.url, api_key_env=None)
    assert youden("calibrate", *words).refuses(slug)
    assert server.n_requests == 0


def test_little_gain_counts_as_no_in_every_hard_measure(
    youden: Youden, calibration_folder: Path, server: WireServer
) -> None:
    """Under the threshold ¼ the FPR of this judge was 1."""
    knows = server.behave
    grades = {"YES": "SIGNIFICANT GAIN", "NO": "LITTLE GAIN"}
    server.behave = lambda n, body: Reply(grades[str(knows(n, body).text)])
    judge = {"backend": "wire", "model": "m", "base_url": server.url, "api_key_env": None}
    write_config(calibration_folder / "graded.yaml", **judge, price=0, prompt="information-gain")
    ended = youden("calibrate", "notes", "--judge", "graded.yaml", "--json")
    assert ended.code == 0, ended.err
    measures = json.loads(ended.out)["judges"][0]["measures"]
    assert [measures[name]["value"] for name in ("tpr", "fpr", "j")] == [1, 0, 1]


def test_a_calibration_names_a_config_key_that_does_not_exist(calibration_folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"sed.*\[run-config\]"):
        plan_calibration(calibration_folder / "notes", judges=["lexical"], changes={"sed": 1})
