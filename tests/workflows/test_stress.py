"""Test stress tests: planted texts, new requests only, ranks of the attackers and their findings."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import altair as alt
import numpy as np
import pytest

from commands import Youden, wire_judge, write_config
from narrowing import not_none
from small_pools import answer_with, make_pool
from wire_server import Reply, WireServer, running, same_item
from youden import make_plan, read_pool
from youden.data.importers.peer_prediction import import_agents
from youden.data.pools.pool_reader import write_pool
from youden.errors import ConfigError
from youden.report.charts import vega
from youden.streams import standalone_stream
from youden.types import INDEPENDENT, PAIRED, Agent, Pool
from youden.types.pool import Floats, Json
from youden.workflows.attacks import ATTACKS, INSTRUCTION, Attack, PlantedAgents, plant_agents
from youden.workflows.planned_stress import attack_ranks, compute_abilities, plan_attacked_pool, plan_stress
from youden.workflows.stress import stress


def grown(pool: Pool, n: int) -> PlantedAgents:
    agents = tuple(Agent(f"new-{k}") for k in range(n))
    texts = np.vstack([pool.texts, np.full((n, pool.n_items), "text", dtype=object)])
    return PlantedAgents(
        Pool((*pool.agents, *agents), pool.items, texts), tuple(range(pool.n_agents, pool.n_agents + n))
    )


@pytest.mark.parametrize("n", [1, 3])
def test_planted_agents_are_compared_with_each_agent_as_often_as_the_others(n: int) -> None:
    pool = make_pool(6, 20)
    base = make_plan(pool, calls=6 * 30 + 40, independent="pooled:40")
    plan = plan_attacked_pool(base, grown(pool, n), rng=standalone_stream(0))
    assert plan.trials.take(slice(0, len(base))).columns()["first"].tolist() == base.first.tolist()
    new = plan.trials.take(slice(len(base), len(plan)))
    paired = new.trial_type == PAIRED
    assert (np.isin(new.first, range(6, 6 + n)) | np.isin(new.second, range(6, 6 + n))).all()
    assert np.ptp(np.bincount(new.item[paired], minlength=20)) <= 1
    usual = 6 * 30 / 15
    for agent in range(6, 6 + n):
        own = paired & ((new.first == agent) | (new.second == agent))
        partner = np.where(new.first == agent, new.second, new.first)[own]
        n_met = np.bincount(partner, minlength=6 + n)
        n_met = np.delete(n_met, agent)
        assert abs(n_met - usual).max() <= 1
        assert abs((new.first[own] == agent).mean() - 0.5) < 0.1
        assert ((new.trial_type == INDEPENDENT) & ((new.first == agent) | (new.second == agent))).sum() >= 20


def test_agreeing_clones_rise_in_the_plain_ranking_but_not_in_the_robust_one() -> None:
    K, m = 12, 6
    pool = make_pool(K, 60)
    ability = np.linspace(0.45, 0.1, K)
    planted = grown(pool, m)
    base = make_plan(pool, calls=K * 200, independent="pooled:0")

    def answers(plan_of: PlantedAgents | None) -> dict[str, Floats]:
        plan = base if plan_of is None else plan_attacked_pool(base, plan_of, rng=standalone_stream(1))
        able = np.append(ability, np.full(plan.n_agents - K, ability[-1]))
        chance = able[plan.first] + able[plan.second]
        chance = np.where((plan.first >= K - 1) & (plan.second >= K - 1), 1.0, chance)
        answer = (standalone_stream(2).random(len(plan)) < chance).astype(np.float64)
        return compute_abilities(answer_with(plan, answer), rate=np.zeros(plan.n_agents), families={})

    ids = tuple(agent.id for agent in pool.agents)
    before, after = answers(None), answers(planted)
    landed = {way: attack_ranks(before[way], after[way], base_agent=K - 1, ids=ids) for way in ("plain", "robust")}
    assert not_none(landed["plain"]).rank <= K - 3
    assert not_none(landed["robust"]).rank >= K - 1
    assert not_none(landed["robust"]).mean_change <= 0.5


def test_a_self_agreeing_family_gains_nothing_if_families_have_equal_weights() -> None:
    rng = np.random.default_rng(0)
    families = ["a", "a", "a", "a", "b", "b", "c", "c", "d", "d"]
    agents = tuple(Agent(f"{family}{k}") for k, family in enumerate(families))
    texts = np.full((10, 40), "text", dtype=object)
    pool = Pool(agents, make_pool(10, 40).items, texts)
    plan = make_plan(pool, calls=3600, independent="pooled:0")
    same = np.array(families)[plan.first] == np.array(families)[plan.second]
    chance = np.where(same & (plan.first < 4), 0.95, 0.3 + 0.02 * (plan.first + plan.second))
    answer = (rng.random(len(plan)) < chance).astype(np.float64)
    by_agent = {agent.id: agent.id[0] for agent in agents}
    abilities = compute_abilities(answer_with(plan, answer), rate=np.zeros(10), families=by_agent)
    assert set(abilities) == {"plain", "robust", "family-balanced"}
    assert np.median(abilities["plain"][:4]) > np.median(abilities["plain"][4:])
    assert np.median(abilities["family-balanced"][:4]) < np.median(abilities["family-balanced"][4:])


def test_a_planted_id_that_exists_gets_a_number(field_notes: Path) -> None:
    pool = read_pool(field_notes)
    named = Pool((Agent("mirror"), *pool.agents[1:]), pool.items, pool.texts, pool.name)
    assert plant_agents(named, ATTACKS.load("mirror"), base_agent=3, rng=standalone_stream(0)).ids == ("mirror 2",)


def test_an_attack_of_a_plugin_with_too_few_responses_is_refused(field_notes: Path) -> None:
    too_short = Attack("one response in all", lambda context: {"short": context.base_responses[:1]})
    with pytest.raises(ConfigError, match=r"each of the 32 items: got 1 for the agent 'short'.*\[attack-responses\]"):
        plant_agents(read_pool(field_notes), too_short, base_agent=0, rng=standalone_stream(0))


@pytest.mark.slow
def test_the_trials_of_an_attack_do_not_depend_on_the_other_selected_attacks(field_notes: Path) -> None:
    drawn = []
    for names in (("transforms",), ("mirror", "transforms")):
        experiment = not_none(plan_stress(field_notes, attacks=names, calls=1200).attacks[-1].experiment)
        drawn.append(experiment.plan.trials)
    assert (drawn[0].item == drawn[1].item).all()
    assert (drawn[0].first == drawn[1].first).all()


@pytest.mark.slow
def test_a_pool_is_attacked_offline_and_all_outputs_name_the_flagged_agents(
    youden: Youden, tmp_path: Path, field_notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(spec: dict[str, Json]) -> str:
        alt.TopLevelSpec.validate(spec)
        return draw(spec)

    draw = vega.to_svg
    monkeypatch.setattr(vega, "to_svg", checked)
    named = ("--attack", "clones", "--attack", "mirror", "--base-agent", "template")
    output = youden("stress", str(field_notes), *named, "--json", "--out", "out", "--calls", "1200").said
    assert output == json.loads((tmp_path / "out" / "stress.json").read_text())
    clones, mirror = output["attacks"]
    assert output["base_agent"] == "template"
    assert set(clones["check_findings"]["clones"]) == set(clones["agents"])
    assert mirror["check_findings"] == {"borrowed-answers": ["mirror"]}
    assert mirror["ranks_after"]["plain"]["rank"] < output["ranks"]["plain"] == 12
    page = (tmp_path / "out" / "stress.md").read_text()
    assert "| mirror | 1 |" in page
    assert (tmp_path / "out" / "stress.svg").read_text().startswith("<svg")
    assert "mirror" in youden("stress", str(field_notes), *named, "--calls", "1200").out


@pytest.mark.slow
def test_bad_input_lists_the_available_values(youden: Youden, tmp_path: Path, field_notes: Path) -> None:
    unknown = youden("stress", str(field_notes), "--attack", "mirorr")
    assert unknown.code == 2
    assert "no attack called 'mirorr'. Did you mean 'mirror'?" in unknown.err
    with (tmp_path / "bare.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["agent", "item", "text"])
        for k in range(4):
            rows.writerows([f"a{k}", f"i{j}", f"word{j} other{j} own{k} more{j * k}"] for j in range(10))
    refused = youden("stress", "bare.csv", "--attack", "source-copy")
    assert refused.code == 2
    assert "uses the prompts of the items, and this pool has none" in refused.err
    planned = plan_stress(tmp_path / "bare.csv")
    left_out = {attack.name for attack in planned.attacks if attack.skipped_reason is not None}
    assert left_out == {"source-copy", "source-reworded", "prompt-words"}
    stranger = youden("stress", str(field_notes), "--base-agent", "tempalte")
    assert stranger.code == 2
    assert "Did you mean 'template'?" in stranger.err


def test_the_forecast_counts_a_request_once_that_several_trials_or_attacks_need(
    youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    write_pool(make_pool(5, 8), tmp_path / "pool")
    write_config(tmp_path / "judge.yaml", **wire_judge(server.url))
    attacked = ("stress", "pool", "--judge", "judge.yaml", "--attack", "clones", "--attack", "mirror", "--json")
    forecast = json.loads(youden(*attacked, "--dry-run").out)
    n_trials = [attack["n_new"] for attack in json.loads(youden(*attacked).out)["attacks"]]
    assert server.n_requests == forecast["new_calls"]
    by_attack = [attack["new_calls"] for attack in forecast["attacks"]]
    assert by_attack[0] < n_trials[0], "clones have the texts of the base agent"


@pytest.mark.slow
def test_stress_sends_only_new_requests_and_refuses_a_small_cap_in_advance(
    youden: Youden, tmp_path: Path, server: WireServer
) -> None:
    write_pool(make_pool(5, 8), tmp_path / "pool")
    judge = {"backend": "wire", "model": "m", "base_url": server.url, "api_key_env": None, "backoff": 0.001}
    paid = judge | {"price_in": 100, "price_out": 100, "max_tokens": 1}
    write_config(tmp_path / "run.yaml", pool="pool", calls=110, independent="pooled:20", judge=paid, max_cost=9)
    assert youden("run", "run.yaml").code == 0
    assert server.n_requests == 110
    refused = youden("stress", "runs/run", "--attack", "mirror", "--max-cost", "0.0001")
    assert refused.code == 2
    assert "got about $" in refused.err
    assert refused.err.rstrip().endswith("[stress-cost]")
    uncapped = youden("stress", "runs/run", "--attack", "mirror")
    assert uncapped.err.rstrip().endswith("[max-cost-needed]")
    dry = json.loads(youden("stress", "runs/run", "--attack", "mirror", "--dry-run", "--json").out)
    assert server.n_requests == 110
    assert youden("stress", "runs/run", "--attack", "mirror", "--max-cost", "9", "--json").code == 0
    assert 0 < server.n_requests - 110 <= dry["new_calls"]
    n_requests = server.n_requests
    assert youden("stress", "runs/run", "--attack", "mirror", "--max-cost", "9").code == 0
    assert server.n_requests == n_requests


@pytest.mark.slow
def test_an_attack_under_a_judge_that_always_answers_yes_gains_no_rank(tmp_path: Path) -> None:
    def says_yes_to_the_instruction(_n: int, body: Mapping[str, Any]) -> Reply:
        content = body["messages"][-1]["content"]
        if INSTRUCTION in content:
            return Reply("YES")
        is_recognized = crc32(content.encode()) % 10 < 6
        return Reply(same_item(body) if is_recognized else "NO")

    write_pool(make_pool(8, 30), tmp_path / "pool")
    with running(WireServer(says_yes_to_the_instruction)) as server:
        judge = {"backend": "wire", "model": "m", "base_url": server.url, "api_key_env": None, "price": 0}
        (tmp_path / "judge.yaml").write_text(json.dumps(judge))
        planned = plan_stress(
            tmp_path / "pool",
            judge=str(tmp_path / "judge.yaml"),
            attacks=["injection"],
            calls=700,
            store=str(tmp_path / "store.db"),
        )
        (injection,) = stress(planned).attacks
    ranks = injection.ranks_after["plain"]
    assert ranks.rank == ranks.n_ranks
    assert injection.alarms == ("injector",)


def test_words_used_by_three_other_agents_are_planted() -> None:
    texts = np.array([["a b c"], ["b c d"], ["b C. e"], ["a e f"], ["a g"]], dtype=object)
    pool = Pool(tuple(Agent(f"a{i}") for i in range(5)), make_pool(5, 1).items, texts)
    planted = plant_agents(pool, ATTACKS.load("common-words"), base_agent=4, rng=standalone_stream(0))
    assert set(planted.pool.texts[5, 0].split()) == {"b", "c"}  # 'a' is also used by three, the base agent among them


def test_a_group_that_pastes_equal_responses_is_a_quarter_of_the_pool(field_notes: Path) -> None:
    planted = plant_agents(
        read_pool(field_notes), ATTACKS.load("group-concatenation"), base_agent=3, rng=standalone_stream(0)
    )
    assert len(planted.agents) == planted.pool.n_agents / 4
    texts = planted.pool.texts[list(planted.agents)]
    assert (texts == texts[0]).all()


@pytest.mark.long
def test_among_attacks_on_samsum_only_common_words_have_no_finding(peer_prediction: Path, tmp_path: Path) -> None:
    pool = import_agents(peer_prediction / "data" / "agents" / "summarization_gpt_4o_mini_20250708_235208.json")
    write_pool(pool, tmp_path / "samsum")
    result = stress(plan_stress(tmp_path / "samsum"))
    assert len(result.attacks) == len(tuple(ATTACKS))
    for attack in result.attacks:
        assert attack.check_findings or attack.attack == "common-words", attack.attack
        plain, robust = attack.ranks_after["plain"], attack.ranks_after["robust"]
        if attack.attack == "group-concatenation":  # a quarter of the agents, more than the robust ranking resists
            assert robust.mean_change <= 1.5 < plain.mean_change
        else:
            assert robust.mean_change <= 0.7
