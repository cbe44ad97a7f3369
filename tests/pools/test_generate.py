"""Test the generation of pools: rule-based agents offline, and models by the judging engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import youden as package
from commands import Youden, write_config
from wire_server import Reply, WireServer, running
from youden import read_pool
from youden.errors import ConfigError
from youden.judging.store.answers import MAX_PENDING_WRITES
from youden.pools.generation.agents import AgentsFile, load_agents
from youden.pools.generation.generate import generate
from youden.pools.generation.generation import plan_generation
from youden.pools.generation.item_sources import python_topics, read_items
from youden.stats import ranking_auc
from youden.text.sentences import split_sentences
from youden.text.words import split_words
from youden.types import Item

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "configs" / "agents" / "paper-30.yaml"
N_ITEMS = 20


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def offline(path: Path, items: tuple[Item, ...]) -> dict[str, list[str]]:
    created = generate(plan_generation(load_agents(path), items), store=path.with_suffix(".db"))
    return {agent.id: created.pool.texts[k].tolist() for k, agent in enumerate(created.pool.agents)}


ITEMS = (
    Item("a", "Rivers rise. Bridges fall. Towns rebuild."),
    Item("b", "Bread is baked. Ovens glow. Bakers wake early."),
)


def test_rule_based_agents_build_on_the_source_and_each_other_in_any_order(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.yaml",
        """
agents:
  - {id: loud, based_on: short, steps: [{case: {to: upper}}]}
  - {id: short, steps: [{lead: {n: 1}}]}
  - {id: twin, based_on: short, steps: [clone]}
  - {id: dump, steps: [dump]}
""",
    )
    assert offline(path, ITEMS) == {
        "loud": ["RIVERS RISE.", "BREAD IS BAKED."],
        "short": ["Rivers rise.", "Bread is baked."],
        "twin": ["Rivers rise.", "Bread is baked."],
        "dump": [item.prompt for item in ITEMS],
    }


def test_a_cell_does_not_depend_on_neighboring_cells(tmp_path: Path) -> None:
    first = write(tmp_path / "one.yaml", "agents: [{id: x, steps: [reorder]}]")
    second = write(tmp_path / "two.yaml", "agents: [{id: w, steps: [random]}, {id: x, steps: [reorder]}]")
    assert offline(first, ITEMS[1:])["x"] == offline(second, ITEMS)["x"][1:]
    seeded = write(tmp_path / "three.yaml", "seed: 1\nagents: [{id: w, steps: [random]}]")
    assert offline(second, ITEMS)["w"] != offline(seeded, ITEMS)["w"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agents: []", "agents"),
        ("agents: [{id: a}]", "defines no response"),
        ("agents: [{id: a, model: m}]", "belong together"),
        ("agents: [{id: a, temperature: 1, steps: [reorder]}]", "notes_instruction, temperature and seed need a model"),
        ("agents: [{id: a, steps: [revers]}]", "revers"),
        ("agents: [{id: a, steps: [{omit: {shares: 1}}]}]", "shares"),
        ("agents: [{id: a, based_on: b, steps: [clone]}]", "not an agent of this file"),
        ("agents: [{id: a, based_on: b, steps: [clone]}, {id: b, based_on: a, steps: [clone]}]", "circle"),
        ("agents: [{id: a, steps: [clone]}, {id: a, steps: [clone]}]", "is not available"),
        ("agents: [{id: +cot, steps: [clone]}]", "the id '+cot' of an agent begins with '+'"),
        ("agents: [{id: a, group: =b, steps: [clone]}]", "the group '=b' of an agent begins with '='"),
        ('agents: [{id: " ", steps: [clone]}]', "the id ' ' is not available"),
        ("agents: [{id: a, step: [clone]}]", "agent 'a'"),
        ("agents: [{id: a, model: nobody, instruction: faithful}]", "--model-map nobody=JUDGE"),
        ("agents: {", "it is not YAML"),
        (
            "models: {m: {backend: openai, model: m, temperature: 1, prompt: p}}\n"
            "agents: [{id: a, model: m, instruction: faithful}]",
            "sets temperature, prompt, which would have no effect",
        ),
    ],
)
def test_invalid_agents_are_refused_with_their_name(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_agents(write(tmp_path / "a.yaml", text))
    assert says in str(caught.value)
    assert str(tmp_path / "a.yaml") in str(caught.value)


def test_the_seed_of_an_agent_is_refused_if_the_provider_of_its_model_rejects_seeds() -> None:
    """The requests of the other agents would be paid for, and the pool would be incomplete."""
    with pytest.raises(
        ConfigError, match=r"'temperature-0.3' sets `seed: 3`, which Anthropic rejects.*\[agents-file\]"
    ):
        plan_generation(load_agents(PAPER, model_map={"gpt-4": "claude-haiku-4.5"}), ITEMS)


def test_an_invalid_option_of_a_transform_is_refused_before_the_requests_of_models(tmp_path: Path) -> None:
    text = """
models: {m: {backend: openai, model: m, price: 1}}
agents: [{id: cut, model: m, instruction: faithful, steps: [{truncate: {words: 2.5}}]}]
"""
    with pytest.raises(ConfigError, match=r"agent 'cut': .*\[transform-option\]"):
        plan_generation(load_agents(write(tmp_path / "a.yaml", text)), ITEMS)


@pytest.mark.parametrize("target", ["lexical", "nobody", "jury"])
def test_a_model_is_mapped_to_an_available_generator(target: str) -> None:
    for model_map in ({"*": target}, {"gpt-5": "local"}):
        with pytest.raises(ConfigError) as caught:
            load_agents(PAPER, model_map=model_map)
        assert caught.value.slug == "model-map"


def test_the_cost_of_an_agent_includes_the_longest_responses_that_it_reads(tmp_path: Path) -> None:
    text = """
models: {m: {backend: openai, model: m, price: 1}}
agents:
  - {id: writer, model: m, instruction: faithful, max_tokens: 500}
  - {id: cut, based_on: writer, steps: [{truncate: {words: 900}}]}
  - {id: rewriter, based_on: cut, model: m, instruction: paraphrase, max_tokens: 1}
"""
    generation = plan_generation(load_agents(write(tmp_path / "a.yaml", text)), ITEMS, repeats=2)
    assert generation.cost.tokens_in >= 500 * 2 * len(ITEMS)


def test_paths_in_an_agents_file_start_at_its_folder(tmp_path: Path) -> None:
    text = """
items: items.jsonl
models: {n: n.yaml}
agents: [{id: a, model: n, instruction: faithful}, {id: b, model: o.yaml, instruction: faithful}]
"""
    for name in "no":
        write(tmp_path / f"{name}.yaml", f"{{backend: openai, model: {name}, price: 1}}")
    file = load_agents(write(tmp_path / "a.yaml", text))
    assert file.items == str(tmp_path / "items.jsonl")
    assert {model.model for model in file.models.values()} == {"n", "o"}
    named = load_agents(write(tmp_path / "a.yaml", text.replace("items.jsonl", "python-topics")))
    assert named.items == "python-topics"


def test_a_model_map_is_refused_if_the_agents_use_no_model(tmp_path: Path) -> None:
    agents = write(tmp_path / "a.yaml", "agents: [{id: a, steps: [{ lead: { n: 4 } }]}]")
    with pytest.raises(ConfigError, match="Remove the mapping: the agents use no model"):
        load_agents(agents, model_map={"*": "gpt-4o-mini"})


def test_a_generator_is_not_asked_for_log_probabilities() -> None:
    models = load_agents(PAPER, model_map={"*": "gpt-4o-mini"}).models.values()
    assert {model.model for model in models} == {"gpt-4o-mini"}
    assert all("logprobs" not in model.request_parameters for model in models)


@pytest.mark.parametrize(
    "body",
    ["no place", "{{text}} {{notes}}", "---\nsistem: x\n---\n{{text}}", "---\nsystem: On {{text}}\n---\n{{text}}"],
)
def test_an_instruction_without_its_placeholder_is_refused(tmp_path: Path, body: str) -> None:
    write(tmp_path / "mine.md", body)
    text = "models: {m: {backend: openai, model: m, price: 0}}\nagents: [{id: a, model: m, instruction: mine.md}]"
    with pytest.raises(ConfigError) as caught:
        plan_generation(load_agents(write(tmp_path / "a.yaml", text)), ITEMS)
    assert caught.value.slug == "instruction"


def test_items_are_read_from_lines_pools_and_sources_and_require_prompts(tmp_path: Path, field_notes: Path) -> None:
    lines = write(tmp_path / "items.jsonl", '{"id": "a", "prompt": "Rivers rise."}\n')
    assert read_items(str(lines)) == (Item("a", "Rivers rise."),)
    assert len(read_items(str(field_notes))) == 32
    duplicates = '{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}'
    for bad in ('{"id": "a", "prompt": ""}', '{"id": "a"}', '{"id": "@a", "prompt": "x"}', duplicates):
        with pytest.raises(ConfigError) as caught:
            read_items(str(write(tmp_path / "bad.jsonl", bad)))
        assert caught.value.slug == "items-invalid"


def test_topics_have_a_minimum_length_and_a_maximum_number() -> None:
    items = python_topics()
    assert 40 <= len(items) <= 79
    assert all(len((item.prompt or "").split()) >= 100 for item in items)


def test_an_ungenerated_pool_is_an_error_with_the_command_that_generates_it(youden: Youden, tmp_path: Path) -> None:
    write_config(tmp_path / "t.yaml", pool="datasets/python-topics")
    for command in (("check", "datasets/python-topics"), ("run", "t.yaml")):
        ended = youden(*command)
        assert ended.code == 2
        assert "`youden generate datasets/python-topics --out pools/python-topics`" in ended.err
        assert ended.err.rstrip().endswith("[pool-not-generated]")


@pytest.mark.slow
def test_python_topics_are_generated_checked_and_ranked_offline(youden: Youden, tmp_path: Path) -> None:
    assert youden("generate", "datasets/python-topics", "--out", "topics").code == 0
    checked = json.loads(youden("check", "topics", "--json").out)
    clones = [set(finding["agents"]) for finding in checked["findings"] if finding["slug"] == "clones"]
    assert any({"textrank-6", "bulleted"} <= agents for agents in clones)
    assert any(finding["slug"] == "template" for finding in checked["findings"])
    write_config(tmp_path / "t.yaml", pool="topics", judge="lexical", out="run")
    ranked = {row["agent"]: row for row in json.loads(youden("run", "t.yaml", "--json").out)["ranking"]}
    assert len(ranked) == 20
    compared = [row for row in ranked.values() if row["group"] in ("faithful", "low-effort")]
    faithful = np.array([row["group"] == "faithful" for row in compared])
    assert ranking_auc(np.array([row["ability"] for row in compared]), faithful) >= 0.9
    again = read_pool(tmp_path / "topics").digest
    assert youden("generate", "datasets/python-topics", "--out", "topics").code == 0
    assert read_pool(tmp_path / "topics").digest == again


def test_the_agents_of_the_paper_have_the_numbers_of_its_appendix() -> None:
    agents = load_agents(PAPER).agents
    counts = {group: sum(agent.group == group for agent in agents) for group in {agent.group for agent in agents}}
    assert counts == {"faithful": 4, "stylistic": 6, "strategic": 15, "low-effort": 5}
    assert len({agent.model for agent in agents if agent.group == "faithful"}) == 4


def respond(_n: int, body: Mapping[str, Any]) -> Reply:
    """Answer as a model that extracts, or as a judge that compares words."""
    content = body["messages"][-1]["content"]
    if match := re.search(r"<text-(\w+)>\n(.*?)\n</text-\1>", content, re.DOTALL):
        rng = np.random.default_rng(len(content) + int(10 * (body.get("temperature") or 0)))
        parts = split_sentences(match[2])
        kept = sorted(rng.permutation(len(parts))[: max(1, body["max_tokens"] // 100)])
        text = "A few words." if body["max_tokens"] < 50 else " ".join(parts[k] for k in kept)
        return Reply(text, usage={"prompt_tokens": 100, "completion_tokens": 50})
    tagged = re.findall(r"<(?:first|second)-(\w+)>\n(.*?)\n</", content, re.DOTALL)
    first, second = (set(split_words(text)) for _, text in tagged)
    return Reply("YES" if len(first & second) > 0.25 * min(len(first), len(second)) else "NO")


@pytest.fixture
def generating_server() -> Iterator[WireServer]:
    with running(WireServer(respond)) as started:
        yield started


@pytest.fixture
def generation_folder(tmp_path: Path, generating_server: WireServer, field_notes: Path) -> Path:
    lines = (field_notes / "items.jsonl").read_text(encoding="utf-8").splitlines()[:N_ITEMS]
    write(tmp_path / "items.jsonl", "\n".join(lines) + "\n")
    server_of = {
        "backend": "wire",
        "base_url": generating_server.url,
        "api_key_env": None,
        "backoff": 0.001,
        "concurrency": 8,
    }
    write_config(tmp_path / "free.yaml", model="small", price=0, **server_of)
    write_config(tmp_path / "second.yaml", model="second", price=0, **server_of)
    write_config(tmp_path / "paid.yaml", model="small", price_in=100, price_out=1000, **server_of)
    write_config(tmp_path / "run.yaml", pool="made", judge="free.yaml", calls=900, independent="pooled:60")
    return tmp_path


def words_for(model: str, *, out: str = "made") -> list[str]:
    return ["generate", str(PAPER), "items.jsonl", "--out", out, "--model-map", f"*={model}"]


def expected_calls(file: AgentsFile, *, n_items: int = N_ITEMS) -> int:
    return n_items * sum((agent.model is not None) + (agent.notes_instruction is not None) for agent in file.agents)


@pytest.mark.long
def test_the_pool_of_the_paper_is_killed_resumed_ranked_and_regenerated(
    youden: Youden, generation_folder: Path, generating_server: WireServer
) -> None:
    n_calls = expected_calls(load_agents(PAPER))
    slow = generating_server.behave
    generating_server.behave = lambda n, body: Reply(**(vars(slow(n, body)) | {"delay": 0.01}))
    source = str(Path(package.__file__).parents[1])
    command = [sys.executable, "-c", "from youden.cli import main; main()", *words_for("free.yaml")]
    process = subprocess.Popen(
        command, cwd=generation_folder, env=os.environ | {"PYTHONPATH": source}, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while generating_server.n_requests < n_calls // 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    before = generating_server.n_requests
    assert n_calls // 2 <= before < n_calls
    assert not (generation_folder / "made" / "responses.jsonl").exists()

    generating_server.behave = slow
    ended = youden(*words_for("free.yaml"), "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["missing"] == 0
    assert n_calls <= generating_server.n_requests <= n_calls + MAX_PENDING_WRITES + 8
    n_requests = generating_server.n_requests
    keyed = (generation_folder / "free.yaml").read_text(encoding="utf-8").replace("null", '"NO_SUCH_KEY"')
    write(generation_folder / "keyed.yaml", keyed)
    assert youden(*words_for("keyed.yaml")).code == 0, "what the store holds needs no key"
    assert generating_server.n_requests == n_requests

    ranked = json.loads(youden("run", "run.yaml", "--json").out)["ranking"]
    place = {row["agent"]: number for number, row in enumerate(ranked)}
    assert len(place) == 30
    assert max(place["faithful-gpt-4"], place["verbose"]) < min(place["random-text"], place["minimal"])
    second = youden("run", "run.yaml", "--judge", "second.yaml", "--out", "other", "--json")
    assert second.code == 0, second.err
    first_digest = read_pool(generation_folder / "made").digest
    other_run = youden(*words_for("second.yaml"))
    assert other_run.code == 2
    assert "[out-not-empty]" in other_run.err
    judged = generating_server.n_requests
    assert youden(*words_for("second.yaml", out="again")).code == 0
    assert generating_server.n_requests == judged + n_calls
    pool = read_pool(generation_folder / "again")
    assert pool.texts.shape == (30, N_ITEMS)
    assert pool.agents[0].meta["asked"] == "second"
    assert read_pool(generation_folder / "made").digest == first_digest


@pytest.mark.slow
def test_the_cap_is_respected_and_the_same_command_resumes(
    youden: Youden, generation_folder: Path, generating_server: WireServer
) -> None:
    items = (generation_folder / "items.jsonl").read_text(encoding="utf-8").splitlines()[:6]
    write(generation_folder / "items.jsonl", "\n".join(items) + "\n")
    refused = youden(*words_for("paid.yaml"))
    assert refused.code == 2
    assert "[max-cost-needed]" in refused.err
    assert generating_server.n_requests == 0
    n_calls = expected_calls(load_agents(PAPER), n_items=6)
    usd = 100 * 100 / 1e6 + 50 * 1000 / 1e6
    short = youden(*words_for("paid.yaml"), "--max-cost", "5")
    assert short.code == 1
    assert short.err.rstrip().endswith("[budget]")
    assert 0 < generating_server.n_requests * usd <= 5
    done = generating_server.n_requests
    write_config(
        generation_folder / "keyless.yaml", backend="openai", model="m", base_url=generating_server.url, price=0
    )
    keyless = youden(*words_for("keyless.yaml"))
    assert keyless.code == 2
    assert "[judge-no-key]" in keyless.err
    data = json.loads(youden(*words_for("paid.yaml"), "--max-cost", "40", "--json").out)
    assert generating_server.n_requests == n_calls
    assert data["usd"] == pytest.approx((n_calls - done) * usd)


TOLD = ("Rivers", "Tides", "Winds", "Clouds")
REPEATED = """
seed: 3
agents:
  - {id: reader, model: m, notes_instruction: mine.md, instruction: noted.md, temperature: 1, seed: 7}
  - {id: again, based_on: reader, model: m, instruction: mine.md, steps: [reorder]}
  - {id: mixed, steps: [reorder]}
"""


def test_missing_repeats_are_generated_and_a_failed_one_keeps_the_others(
    youden: Youden, generation_folder: Path, generating_server: WireServer
) -> None:
    write(generation_folder / "agents.yaml", REPEATED)
    write(generation_folder / "mine.md", "Rewrite {{text}}")
    write(generation_folder / "noted.md", "Rewrite {{text}} Notes: {{notes}}")
    seeds: list[int | None] = []

    def reject_one_note(n: int, body: Mapping[str, Any]) -> Reply:
        seeds.append(body.get("seed"))
        turned_down = "Notes" in body["messages"][-1]["content"] and body["seed"] == 8 and "tide" in str(body).lower()
        return Reply(status=400) if turned_down else Reply(f"Answer {n}. It is here. It ends.")

    generating_server.behave = reject_one_note
    items = [
        json.dumps({"id": f"i{n}", "prompt": f"{word} come. Then they go. Then rain."}) for n, word in enumerate(TOLD)
    ]
    write(generation_folder / "items.jsonl", "\n".join(items))
    command = ["generate", "agents.yaml", "items.jsonl", "--out", "made", "--model-map", "m=free.yaml"]
    assert youden(*command).code == 0
    once, per_repeat = read_pool(generation_folder / "made"), 3 * len(items)
    assert (generating_server.n_requests, once.repeats, set(seeds)) == (per_repeat, 1, {7, None})
    assert "repeats" not in json.loads((generation_folder / "made" / "generation.json").read_text(encoding="utf-8"))

    several = youden(*command, "--repeats", "3", "--max-missing", "0.2", "--json")
    assert several.code == 0, several.err
    assert f"3 agents × 4 items × 3 repeats, {3 * per_repeat} calls" in several.err
    pool, counts = read_pool(generation_folder / "made"), json.loads(several.out)
    # the reader gave no second response to one item, and no agent was asked to build on it
    assert generating_server.n_requests == 3 * per_repeat - 1
    assert (counts["responses"], counts["missing"], pool.repeats) == (3 * 3 * 4 - 2, 0, 3)
    assert sorted(pool.n_repeats.sum(axis=1).tolist()) == [11, 11, 12]
    assert (pool.texts == once.texts).all(), "what was there stays the first"
    assert set(seeds) == {7, 8, 9, None}
    texts = pool.all_texts.reshape(3, 3, 4)
    assert len({text for text in texts[:, :2].ravel() if text is not None}) == 22, "each repeat is a text of its own"
    assert len(set(texts[:, 2, 0])) > 1, "by rule, too, where a rule draws"
    fewer = youden(*command, "--repeats", "2")
    assert (fewer.code, fewer.err.split()[-1]) == (2, "[out-not-empty]")
    assert "--repeats 3" in fewer.err

    n_requests = generating_server.n_requests
    assert youden("cassette", "export", "made", "--out", "c.jsonl").code == 0
    assert youden("cassette", "verify", "c.jsonl", "made").code == 0
    assert youden("cassette", "import", "c.jsonl", "--store", "fresh.db").code == 0
    replay = [*command, "--repeats", "3", "--max-missing", "0.2", "--store", "fresh.db", "--replay"]
    replay[replay.index("made")] = "copy"
    assert youden(*replay).code == 0
    assert (read_pool(generation_folder / "copy").digest, generating_server.n_requests) == (pool.digest, n_requests)


@pytest.mark.slow
def test_rejected_calls_leave_cells_empty_up_to_a_fraction(
    youden: Youden, generation_folder: Path, generating_server: WireServer
) -> None:
    calm = generating_server.behave

    def picky(n: int, body: Mapping[str, Any]) -> Reply:
        return Reply(status=400) if n == 30 else Reply(status=503) if n == 40 else calm(n, body)

    generating_server.behave = picky
    ended = youden(*words_for("free.yaml"), "--max-missing", "0.03", "--json")
    assert ended.code == 0, ended.err
    data = json.loads(ended.out)
    assert data["failed"] == 1
    assert data["missing"] >= 1
    assert "1 call got no answer" in ended.err
    strict = youden(*words_for("free.yaml"), "--max-missing", "0")
    assert strict.code == 1
    assert "[too-many-missing]" in strict.err
    again = youden(*words_for("free.yaml"), "--max-missing", "0", "--retry-failed", "--json")
    assert json.loads(again.out)["missing"] == 0


@pytest.mark.slow
def test_an_unknown_model_ends_generation_at_once(
    youden: Youden, generation_folder: Path, generating_server: WireServer
) -> None:
    generating_server.behave = lambda _n, _body: Reply(status=404)
    ended = youden(*words_for("free.yaml"))
    assert ended.code == 2
    assert "[judge-model]" in ended.err
    assert generating_server.n_requests <= 40


@pytest.mark.parametrize("unfinished", [Reply("<think>A thought"), Reply("", finish_reason="length")])
def test_reasoning_of_a_model_is_not_part_of_its_response(
    youden: Youden, generation_folder: Path, generating_server: WireServer, unfinished: Reply
) -> None:
    """A server that keeps the reasoning to itself returns an empty text if the reasoning does not end."""
    write(generation_folder / "agents.yaml", "agents: [{id: writer, model: m, instruction: mine.md}]")
    write(generation_folder / "mine.md", "Rewrite {{text}}")
    items = [json.dumps({"id": f"i{n}", "prompt": f"{word} come. Then they go."}) for n, word in enumerate(TOLD)]
    write(generation_folder / "items.jsonl", "\n".join(items))

    def thinks(_n: int, body: Mapping[str, Any]) -> Reply:
        ends = "Tides" not in body["messages"][-1]["content"]
        return Reply("<think>A thought.</think>\n\nAn answer.") if ends else unfinished

    generating_server.behave = thinks
    command = ["generate", "agents.yaml", "items.jsonl", "--out", "made", "--model-map", "m=free.yaml"]
    ended = youden(*command, "--max-missing", "0.5")
    assert ended.code == 0, ended.err
    assert "1 call got no answer: the reasoning did not end within max_tokens" in ended.err
    assert sorted(str(text) for text in read_pool(generation_folder / "made").texts.ravel()) == ["An answer."] * 3 + [
        "None"
    ]
    generating_server.behave = lambda *_: Reply("An answer.")
    assert youden(*command, "--retry-failed").code == 0
    assert (read_pool(generation_folder / "made").n_missing, generating_server.n_requests) == (0, len(TOLD) + 1)


def test_the_responses_of_a_pool_whose_store_is_lost_are_not_replaced(
    youden: Youden, generation_folder: Path, generating_server: WireServer
) -> None:
    write(generation_folder / "agents.yaml", "agents: [{id: a, model: m, instruction: faithful}]")
    write(generation_folder / "items.jsonl", '{"id": "i", "prompt": "Rivers rise."}')
    generating_server.behave = lambda n, _: Reply(f"Answer {n}.")
    command = ["generate", "agents.yaml", "items.jsonl", "--out", "made", "--model-map", "m=free.yaml"]
    youden(*command).well()
    youden(*command, "--repeats", "2").well()
    for option in ([], ["--store", "other.db"]):
        (generation_folder / ".youden" / "answers.db").unlink(missing_ok=True)
        refused = youden(*command, "--repeats", "3", *option)
        assert refused.refuses("out-not-empty")
        assert "lacks the answers of 2 of the 2 responses in made" in refused.err
    assert generating_server.n_requests == 2
    assert read_pool(generation_folder / "made").all_texts.ravel().tolist() == ["Answer 0.", "Answer 1."]


def test_the_limit_of_an_agent_is_sent_by_the_parameter_that_its_model_accepts(
    youden: Youden, generation_folder: Path, generating_server: WireServer
) -> None:
    """OpenAI's reasoning models reject `max_tokens`."""
    write(generation_folder / "agents.yaml", "agents: [{id: a, model: m, instruction: faithful, max_tokens: 80}]")
    write(generation_folder / "items.jsonl", '{"id": "i", "prompt": "Rivers rise."}')
    model = (generation_folder / "free.yaml").read_text(encoding="utf-8")
    write(generation_folder / "o.yaml", f"{model}\nmax_tokens: null\nparameters: {{max_completion_tokens: 2048}}\n")
    generating_server.behave = lambda *_: Reply("An answer.")
    assert youden("generate", "agents.yaml", "items.jsonl", "--out", "made", "--model-map", "m=o.yaml").code == 0
    (body,) = generating_server.bodies
    assert "max_tokens" not in body
    assert body["max_completion_tokens"] == 80


@pytest.mark.parametrize("name", ["items.jsonl", "agents.jsonl"])
def test_a_generated_pool_replaces_no_file_that_is_not_its_own(youden: Youden, tmp_path: Path, name: str) -> None:
    agents = write(tmp_path / "agents.yaml", "items: items\nagents:\n  - { id: short, steps: [{ pick: { n: 1 } }] }\n")
    write(tmp_path / "given.jsonl", '{"id": "a", "prompt": "Rivers rise. Bridges fall.", "meta": {"source": "mine"}}\n')
    own = tmp_path / "pool" / name
    own.parent.mkdir()
    write(own, '{"id": "mine"}\n')
    refused = youden("generate", agents.name, "given.jsonl", "--out", "pool")
    assert refused.code == 2
    assert f"replace pool/{name}" in refused.err
    assert refused.err.rstrip().endswith("[out-not-empty]")
    assert own.read_text(encoding="utf-8") == '{"id": "mine"}\n'
    assert [path.name for path in own.parent.iterdir()] == [name]

    own.unlink()
    assert youden("generate", agents.name, "given.jsonl", "--out", "pool").code == 0
    (own.parent / "responses.jsonl").unlink()  # as if the command had been stopped before it wrote the last file
    assert youden("generate", agents.name, "given.jsonl", "--out", "pool").code == 0
