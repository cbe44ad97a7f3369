"""Test a second judge on a sample of a run: self-preference, resumption, replay, forecast costs and refusals."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import Youden, write_config
from narrowing import not_none
from small_pools import make_pool
from wire_server import Reply, WireServer
from worlds import write_run
from youden.data.folder.run_config import load_run_config
from youden.data.folder.run_folder import RunFolder
from youden.data.pools.pool_reader import write_pool
from youden.types import Pool

N_AGENTS, N_ITEMS = 10, 20


def pool_of(*, families: bool = True) -> Pool:
    pool = make_pool(N_AGENTS, N_ITEMS)
    if not families:
        return pool
    agents = (replace(agent, meta={"family": "own" if n % 3 == 1 else "rest"}) for n, agent in enumerate(pool.agents))
    return replace(pool, agents=tuple(agents))


def biased(_n: int, body: Mapping[str, Any]) -> Reply:
    """Answer yes at random (by the request's hash), more often for the same item; `b` favors agents 1, 4 and 7."""
    words = body["messages"][-1]["content"].split()
    said = [(int(words[i + 1]), words[i + 6]) for i, word in enumerate(words) if word == "agent" and i + 6 < len(words)]
    (first, item), (second, other) = said[:2]
    chance = 0.0 if item != other else 0.35
    if item == other and body["model"] == "b":
        chance += 0.3 * ((first % 3 == 1) + (second % 3 == 1))
    drawn = int(hashlib.sha256(f"{body['model']} {said[:2]}".encode()).hexdigest(), 16) % 1000 / 1000
    return Reply("YES" if drawn < chance else "NO")


@pytest.fixture
def biased_server(one_server: WireServer) -> WireServer:
    one_server.behave, one_server.n_requests = biased, 0
    return one_server


@pytest.fixture
def first_judge_folder(tmp_path: Path, biased_server: WireServer, youden: Youden, begun: Path) -> Path:
    """Create a run judged by the model a, and the config of a judge b."""
    if begun.exists():
        shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
        return tmp_path
    write_pool(pool_of(), tmp_path / "pool")
    judge = {"backend": "wire", "base_url": biased_server.url, "api_key_env": None, "backoff": 0.001}
    write_config(tmp_path / "first.yaml", **judge, model="a", price=0, family="rest")
    write_config(tmp_path / "second.yaml", **judge, model="b", price=0, family="own")
    write_config(tmp_path / "paid.yaml", **judge, model="b", price_in=1000, price_out=1000, max_tokens=1)
    write_config(tmp_path / "mine.yaml", pool="pool", judge="first.yaml", calls=1000, independent="pooled:40")
    assert youden("judge", "mine.yaml").code == 0
    assert youden("fit", "runs/mine").code == 0
    shutil.copytree(tmp_path, begun)
    return tmp_path


@pytest.mark.slow
def test_a_second_judge_gets_a_sample_and_its_self_preference_is_detected(
    youden: Youden, first_judge_folder: Path, biased_server: WireServer
) -> None:
    before = biased_server.n_requests
    ended = youden("rejudge", "runs/mine", "--judge", "second.yaml", "--calls", "500", "--json").well()
    assert biased_server.n_requests == before + 500
    said = json.loads(ended.out)
    assert Path(said["run"]) == Path("runs/mine-by-second")
    assert said["judges"]["runs"] == ["first", "second"]
    assert not said["retest"]
    shifts = said["judges"]["shifts"][0]
    favoured_by = {row["family"]: row["favoured_by"] for row in shifts["families"]}
    assert favoured_by == {"own": ["second"], "rest": ["first"]}
    assert shifts["rho_same"] > shifts["rho_seen"]
    again = youden("rejudge", "runs/mine", "--judge", "second.yaml", "--calls", "500", "--json")
    assert biased_server.n_requests == before + 500
    assert json.loads(again.out)["judges"] == said["judges"]
    shown = youden("rejudge", "runs/mine", "--judge", "second.yaml", "--calls", "500")
    assert "second favors agents of its own family own (3)" in shown.out
    assert "second against first" in shown.out
    ceiling = shifts["rho"]["ceiling"]
    assert (
        f"By the standard errors of first, the same judge would reach about ρ = {ceiling:.2f} if it judged again"
    ) in shown.out


@pytest.mark.slow
def test_a_sample_is_a_complete_run(youden: Youden, first_judge_folder: Path, biased_server: WireServer) -> None:
    words = ("rejudge", "runs/mine", "--judge", "second.yaml", "--calls", "300", "--json")
    assert youden(*words).code == 0
    asked = biased_server.n_requests
    ended = youden("run", "runs/mine-by-second/config.yaml", "--json").well()
    assert biased_server.n_requests == asked
    assert len(json.loads(ended.out)["ranking"]) == N_AGENTS
    config = load_run_config(first_judge_folder / "runs/mine-by-second/config.yaml")
    assert Path(str(config.trials_from)).resolve() == (first_judge_folder / "runs/mine").resolve()
    exported = youden("cassette", "export", "runs/mine-by-second", "--out", "part.jsonl", "--json")
    assert json.loads(exported.out)["n_answers"] == 300
    compared = youden("compare", "runs/mine", "runs/mine-by-second", "--json")
    assert json.loads(compared.out)["judges"]["shifts"][0]["families"][0]["judges"] == ["mine-by-second"]
    page = youden("report", "runs/mine", "--against", "runs/mine-by-second").well()
    assert "favors agents of its own family own (3)" in Path(page.out.strip()).read_text(encoding="utf-8")
    write_config(
        first_judge_folder / "replay.yaml",
        backend="replay",
        replay_of={"backend": "wire", "model": "b", "base_url": biased_server.url},
    )
    replayed = youden(
        *("rejudge", "runs/mine", "--judge", "replay.yaml", "--calls", "300", "--json"),
        *("--store", ".youden/answers.db", "--family", "b=own"),
    ).well()
    assert biased_server.n_requests == asked
    assert json.loads(replayed.out)["judges"]["pairs"][0]["cohen_kappa"] == pytest.approx(
        json.loads(compared.out)["judges"]["pairs"][0]["cohen_kappa"]
    )


def test_the_cost_is_stated_first_and_a_cap_exits_with_1_and_resumes(
    youden: Youden, first_judge_folder: Path, biased_server: WireServer
) -> None:
    before = biased_server.n_requests
    words = ("rejudge", "runs/mine", "--judge", "paid.yaml", "--calls", "200")
    dry = youden(*words, "--dry-run", "--json").well()
    assert json.loads(dry.out)["cost"]["calls"] == 200
    assert json.loads(dry.out)["cost"]["usd"] > 0
    assert youden(*words).err.rstrip().endswith("[max-cost-needed]")
    assert biased_server.n_requests == before
    short = youden(*words, "--max-cost", "10")
    assert short.code == 1
    asked = biased_server.n_requests - before
    assert 0 < asked < 200
    assert youden(*words, "--max-cost", "100").code == 0
    assert biased_server.n_requests == before + 200


def test_a_family_of_an_unknown_judge_is_refused_before_any_request(
    youden: Youden, first_judge_folder: Path, biased_server: WireServer
) -> None:
    before = biased_server.n_requests
    words = ("rejudge", "runs/mine", "--judge", "second.yaml", "--calls", "200")
    assert youden(*words, "--family", "mine=own").refuses("judge-family")
    assert biased_server.n_requests == before
    assert "JUDGE is the name of the judge" in " ".join(youden("rejudge", "--help").out.split())


@pytest.mark.slow
def test_a_sample_gets_more_calls_in_its_folder(
    youden: Youden, first_judge_folder: Path, biased_server: WireServer
) -> None:
    words = ("rejudge", "runs/mine", "--judge", "paid.yaml", "--max-cost", "1000", "--json")
    assert youden(*words, "--calls", "300").code == 0
    before, folder = biased_server.n_requests, RunFolder(first_judge_folder / "runs/mine-by-paid")
    paid = folder.read_verdicts(folder.read_plan()).total_usd
    dry = youden(*words, "--calls", "500", "--dry-run")
    cost = json.loads(dry.out)["cost"]
    assert (cost["stored"], biased_server.n_requests) == (300, before)
    assert cost["usd_left"] == pytest.approx(0.4 * cost["usd"], rel=0.05)
    assert "300 of the 500 answers are already stored, which leaves $" in dry.err
    assert youden(*words, "--calls", "500").code == 0
    assert biased_server.n_requests == before + 200
    verdicts = folder.read_verdicts(folder.read_plan())
    assert len(verdicts) == 500
    assert (not_none(verdicts.usd) > 0).all()
    assert verdicts.total_usd == pytest.approx(paid * 500 / 300, rel=0.05)
    assert youden(*words, "--calls", "300").refuses("run-mismatch")


@pytest.mark.slow
def test_rejudging_by_the_same_judge_is_reported_as_a_retest(youden: Youden, first_judge_folder: Path) -> None:
    said = youden("rejudge", "runs/mine", "--judge", "first.yaml", "--calls", "200", "--json").said
    assert said["retest"]
    assert "test–retest reliability" in said["summary"][0]
    assert said["judges"]["pairs"][0]["agreement"] == 1
    assert not any(row["favoured_by"] for row in said["judges"]["shifts"][0]["families"])


@pytest.mark.slow
def test_agents_without_families_show_no_self_preference(youden: Youden, tmp_path: Path) -> None:
    write_pool(pool_of(families=False), tmp_path / "pool")
    write_config(tmp_path / "mine.yaml", pool="pool", calls=400)
    assert youden("judge", "mine.yaml").code == 0
    assert youden("fit", "runs/mine").code == 0
    ended = youden("rejudge", "runs/mine", "--judge", "lexical", "--calls", "200").well()
    assert "meta: {family: …}" in ended.out
    assert youden("rejudge", "runs/mine", "--judge", "lexical", "--calls", "200", "--family", "nobody=own").refuses(
        "judge-family"
    )


@pytest.mark.slow
def test_a_run_that_cannot_be_rejudged_is_refused_with_a_remedy(youden: Youden, tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        ended = youden("rejudge", *words)
        assert ended.code == 2
        return ended.err.rstrip()

    part = ("--judge", "lexical", "--calls", "100")
    assert refused("nowhere", *part).endswith("[run-missing]")
    write_pool(pool_of(), tmp_path / "pool")
    write_config(tmp_path / "mine.yaml", pool="pool", calls=400)
    assert youden("plan", "mine.yaml").code == 0
    assert refused("runs/mine", *part).endswith("[run-unjudged]")
    assert youden("judge", "mine.yaml").code == 0
    assert "youden fit" in refused("runs/mine", *part)
    assert youden("judge", "mine.yaml").code == 0
    assert youden("fit", "runs/mine").code == 0
    assert refused("runs/mine", *part, "--out", "runs/mine").endswith("[rejudge-itself]")
    assert refused("runs/mine", "--judge", "lexical", "--calls", "5000").endswith("[subsample-calls]")
    assert refused("runs/mine", "--judge", "lexical", "--calls", "10").endswith("[subsample-few]")
    assert "did you mean" in refused("runs/mine", "--judge", "lexica", "--calls", "100").casefold()
    write_pool(
        replace(pool_of(), texts=np.where(pool_of().texts == pool_of().texts[0, 0], "new", pool_of().texts)),
        tmp_path / "pool",
    )
    assert refused("runs/mine", *part).endswith("[plan-other-pool]")
    imported = write_run(tmp_path / "imported")
    for name in ("plan.parquet", "verdicts.parquet"):
        imported.remove(name)
    said = refused(str(imported.path), *part)
    assert said.endswith("[rejudge-import]")
    assert "youden compare" in said


def test_a_config_takes_another_runs_trials_or_a_design_of_its_own(youden: Youden, tmp_path: Path) -> None:
    write_config(tmp_path / "c.yaml", pool="p", trials_from="runs/x", holdout=0.2, design="dense")
    ended = youden("plan", "c.yaml")
    assert ended.code == 2
    assert "cannot be combined with design, holdout" in ended.err


@pytest.mark.slow
def test_judges_without_common_trials_are_refused_with_a_remedy(youden: Youden, tmp_path: Path) -> None:
    write_pool(pool_of(), tmp_path / "pool")
    for seed in (0, 1):
        write_config(tmp_path / f"r{seed}.yaml", pool="pool", calls=20 * N_AGENTS, independent="pooled:0", seed=seed)
        assert youden("run", f"r{seed}.yaml").code == 0
    one, other = (RunFolder(tmp_path / "runs" / f"r{seed}") for seed in (0, 1))
    plan = other.read_plan()
    mine = set(
        zip(*(one.read_plan().trials.columns()[name].tolist() for name in ("item", "first", "second")), strict=True)
    )
    rows = np.array(
        [row not in mine for row in zip(plan.item.tolist(), plan.first.tolist(), plan.second.tolist(), strict=True)]
    )
    result = other.read_verdicts(plan)
    missing = np.where(rows, result.missing_reason, 2).astype(np.int8)
    answer, hard_answer = (np.where(rows, column, np.nan) for column in (result.answer, result.hard_answer))
    other.write_verdicts(replace(result, missing_reason=missing, answer=answer, hard_answer=hard_answer))
    ended = youden("compare", "runs/r0", "runs/r1")
    assert ended.refuses("judges-trials")
    assert "youden rejudge" in ended.err


def grow_pool(here: Path, *, n_agents: int = N_AGENTS, n_items: int = N_ITEMS) -> None:
    """Write a pool that has the agents and items of the run first."""
    write_pool(make_pool(n_agents, n_items), here / "grown")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["agents", "items"])
def test_answers_of_a_second_judge_are_reused_after_an_extension(
    kind: str, youden: Youden, first_judge_folder: Path, biased_server: WireServer
) -> None:
    words = ("rejudge", "runs/mine", "--judge", "second.yaml", "--json")
    part = youden(*words, "--calls", "500").said
    folder = RunFolder(first_judge_folder / "runs/mine-by-second")
    first_part = folder.read_verdicts(folder.read_plan())

    grow_pool(first_judge_folder, n_agents=N_AGENTS + 2 * (kind == "agents"), n_items=N_ITEMS + 5 * (kind == "items"))
    youden("extend", kind, "runs/mine", "grown").well()
    n_requests = biased_server.n_requests

    # both runs can be compared at once, on the agents and items of the part, and the same command changes nothing
    compared = youden("compare", "runs/mine", "runs/mine-by-second", "--json").said["judges"]
    assert compared["pairs"][0]["cohen_kappa"] == pytest.approx(part["judges"]["pairs"][0]["cohen_kappa"])
    again = youden(*words, "--calls", "500").said["judges"]
    assert again["pairs"][0]["cohen_kappa"] == compared["pairs"][0]["cohen_kappa"]
    assert biased_server.n_requests == n_requests
    assert folder.read_judged_plan_digest() == first_part.plan.digest

    # more calls go to the new agents and items; no answer of the second judge is lost or requested twice
    more = youden(*words, "--calls", "700").said
    assert biased_server.n_requests == n_requests + 200
    assert more["cost"]["stored"] == 500
    verdicts = folder.read_verdicts(folder.read_plan())
    assert len(verdicts) == 700
    assert set(not_none(first_part.request_hash).tolist()) <= set(not_none(verdicts.request_hash).tolist())
    plan = verdicts.plan
    if kind == "agents":
        n_of_agent = np.bincount(np.append(plan.first, plan.second), minlength=N_AGENTS + 2)
        assert n_of_agent[N_AGENTS:].min() > 0.5 * n_of_agent[:N_AGENTS].mean()
    else:
        assert (plan.item >= N_ITEMS).any()
    youden("compare", "runs/mine", "runs/mine-by-second").well()


@pytest.mark.slow
def test_a_sample_of_another_run_in_the_folder_does_not_decide_the_budget(
    youden: Youden, first_judge_folder: Path
) -> None:
    write_config(first_judge_folder / "other.yaml", pool="pool", judge="first.yaml", calls=1000, seed=1)
    youden("run", "other.yaml").well()
    words = ("--judge", "paid.yaml", "--out", "runs/part", "--max-cost", "0", "--json")
    part = RunFolder(Path("runs/part"))
    assert youden("rejudge", "runs/other", "--calls", "700", *words).code == 1
    assert part.read_config().calls == 700
    assert youden("rejudge", "runs/mine", *words).code == 1
    config = part.read_config()
    assert config.calls == 250 + 20  # 50 paired trials per agent, and as large a part of the independent ones
    assert Path(str(config.trials_from)).name == "mine"


@pytest.mark.slow
def test_judged_answers_to_a_sample_of_another_run_are_kept(youden: Youden, first_judge_folder: Path) -> None:
    write_config(first_judge_folder / "other.yaml", pool="pool", judge="first.yaml", calls=1000, seed=1)
    youden("run", "other.yaml").well()
    words = ("--judge", "second.yaml", "--out", "runs/part")
    youden("rejudge", "runs/other", "--calls", "700", *words).well()
    assert youden("rejudge", "runs/mine", *words).refuses("run-mismatch")
