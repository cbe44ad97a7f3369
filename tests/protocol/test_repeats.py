"""Test pools with several responses per agent and item: which repeat a trial shows, from plan to report."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import youden
from commands import Youden
from small_pools import answer_with, make_pool, starts_with
from youden import make_plan, read_pool
from youden.data.folder.joined_pools import join_repeats
from youden.data.folder.run_folder import RunFolder
from youden.data.pools import spool
from youden.data.pools.pool_reader import write_pool
from youden.errors import PoolError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.question.questions import iter_keys
from youden.pipeline.ranking import trial_abilities_from_verdicts
from youden.protocol.blocks import plan_after_extensions
from youden.protocol.extension import add_calls, add_repeats
from youden.report.data.opened_trials import cells_of, text_of
from youden.report.data.trial_rows import TrialBook
from youden.types import Agent, Item, Plan, Pool
from youden.types.texts_in_file import find_file_texts

WORDS = np.array([f"word{n}" for n in range(300)])


def pool_of(n_repeats: int = 3, *, n_agents: int = 6, n_items: int = 12, gaps: bool = False) -> Pool:
    """Return different texts, which share words with the texts of their item."""
    rng = np.random.default_rng(5)
    pool = make_pool(n_agents, n_items)
    blocks = [
        np.array(
            [[" ".join(rng.choice(WORDS[20 * j : 20 * j + 60], 14)) for j in range(n_items)] for _ in range(n_agents)],
            dtype=object,
        )
        for _ in range(n_repeats)
    ]
    if gaps:
        blocks[-1][0, :] = None
        for block in blocks[1:]:
            block[1, 3] = None
    return Pool.from_repeats(pool.agents, pool.items, blocks, "repeats")


def count_shown(plan: Plan, pool: Pool) -> np.ndarray:
    """Count how often paired trials show each response, int (K, J, R)."""
    n = np.zeros((pool.n_agents, pool.n_items, pool.repeats), dtype=np.int64)
    paired = plan.trial_type == 0
    for agent, repeat in (("first", "first_repeat"), ("second", "second_repeat")):
        columns = (plan.trials if plan.trials.first_repeat is not None else plan.trials.with_first_repeats()).columns()
        np.add.at(n, (columns[agent][paired], plan.item[paired], columns[repeat][paired] - 1), 1)
    return n


POOL = "69ba83297581b10426e4ea85d0578e1817231f7a4bb92868aec78d8e02533935"
RECORDED = {
    "cyclic": (
        "2443bbd083146a5bc923cc289c88bb3a24309771d9b9c0384921a4fe81ccb527",
        "1bed1cbaf420caac",
        [0.19247232279536572, 0.20979675727854571, 0.21764450322922765, 0.21764450322922765, 0.1829545175491433],
    ),
    "dense": (
        "0b4e364c52f1a83bbc6376681eb87e25170d0a60d711797870824ac8b4b7a77b",
        "3877377ec2858bf8",
        [0.24893210900490148, 0.19469790907994294, 0.26594201598895184, 0.20651123138997193, 0.16595464662475887],
    ),
}
"""Recorded before pools had repeats: the digest of a pool, and by design the digests of plan and request hashes
(SHA-256, 16 digits), and abilities."""


def bare_pool() -> Pool:
    texts = np.array(
        [
            [f"answer {(7 * k + 3 * j) % 11} of {k}, {'word ' * (1 + k * j % 4)}on item {j}" for j in range(8)]
            for k in range(5)
        ],
        dtype=object,
    )
    texts[4, 7] = None
    agents, items = (Agent(f"a{k}") for k in range(5)), (Item(f"i{j}", f"Question {j}?") for j in range(8))
    return Pool(tuple(agents), tuple(items), texts, "recorded")


@pytest.mark.parametrize("design", ["cyclic", "dense"])
def test_a_pool_without_repeats_keeps_its_recorded_digest_hashes_and_abilities(design: str) -> None:
    pool = bare_pool()
    plan = make_plan(pool, design=design, seed=3)
    judge = load_judge_config("gpt-4o-mini").with_changes({"decision": "text"})
    asked = [key for _, key in iter_keys(judge.questions(), plan)]
    table = youden.rank(youden.judge(plan, judge="lexical")).set_index("agent").sort_index()
    of_plan, of_keys, ability = RECORDED[design]
    assert pool.digest == POOL
    assert plan.digest == of_plan
    assert sha256("\n".join(asked).encode()).hexdigest()[:16] == of_keys
    assert table.ability.tolist() == pytest.approx(ability, abs=1e-12)


@pytest.mark.parametrize("design", ["cyclic", "dense", "adaptive"])
def test_trials_show_the_repeats_of_an_agent_evenly(design: str) -> None:
    pool = pool_of(gaps=True)
    plan = make_plan(pool, design=design, calls=500 if design in ("cyclic", "adaptive") else None)
    n = count_shown(plan, pool)
    there = np.arange(pool.repeats) < pool.n_repeats[:, :, None]
    assert (n[~there] == 0).all()
    minimum = np.where(there, n, 10**6).min(axis=2)
    assert (n.max(axis=2) - minimum <= 1).all(), "a response of a cell is shown at most once more than another"
    complete = n[2:].sum(axis=1)
    assert (complete.max(axis=1) - complete.min(axis=1) <= 0.25 * complete.mean()).all()


def test_two_repeats_of_one_agent_are_never_compared() -> None:
    for design in ("cyclic", "dense", "adaptive"):
        plan = make_plan(pool_of(), design=design, independent="matched" if design == "dense" else None)
        assert (plan.first != plan.second).all()


def test_a_larger_budget_and_an_extension_begin_with_the_smaller_plan() -> None:
    pool = pool_of(gaps=True)
    small, large = (make_plan(pool, calls=calls, independent="pooled:20") for calls in (146, 218))
    paired = [plan.trials.take(plan.trial_type == 0) for plan in (small, large)]
    assert starts_with(paired[1], paired[0])
    grown = add_calls(small, calls=72)
    assert starts_with(grown.trials, small.trials)
    behind = grown.trials.take(slice(len(small), None))
    remainder = paired[1].take(slice(len(paired[0]), None))
    for name in ("item", "first", "second", "first_repeat", "second_repeat"):
        assert np.array_equal(behind.columns()[name], remainder.columns()[name])


@pytest.mark.parametrize(("calls", "most_apart"), [(158, 2), (None, 0)])
def test_a_run_that_gains_repeats_keeps_its_trials_and_shows_all_responses_evenly(
    calls: int | None, most_apart: int
) -> None:
    pool = pool_of()
    once = Pool(pool.agents, pool.items, pool.texts, pool.name)
    plan = make_plan(once, calls=calls, independent="pooled:20", seed=4)
    joined = join_repeats(
        once, Pool.from_repeats(pool.agents[:4], pool.items, [b[:4] for b in pool.texts_by_repeat[::-1]], "more")
    )
    assert joined.n_repeats.sum(axis=1).tolist() == [36] * 4 + [12] * 2
    joined = join_repeats(once, pool)
    assert joined.digest == pool.digest
    grown = add_repeats(plan, joined)
    assert starts_with(grown.trials, plan.trials.with_first_repeats())
    assert (grown.first != grown.second).all()
    questions = load_judge_config("gpt-4o-mini").questions()
    before, after = dict(iter_keys(questions, plan)), dict(iter_keys(questions, grown))
    assert all(after[row] == key for row, key in before.items())
    assert len(set(after.values())) == len(grown), "nothing that was asked is asked again"
    n, n_paired = count_shown(grown, joined), int((plan.trial_type == 0).sum())
    assert n.sum() == 3 * 2 * n_paired
    assert (n.max(axis=2) - n.min(axis=2)).max() <= most_apart
    half = count_shown(add_repeats(plan, joined, calls=36), joined)
    assert half[:, :, 0].sum() == 2 * n_paired, "what was shown already waits for the others"
    earlier = plan_after_extensions(grown, 0)
    assert (earlier.pool_digest, len(earlier)) == (once.digest, len(plan))


def test_responses_of_agents_that_had_fewer_than_others_get_calls_by_default() -> None:
    pool = make_pool(4, 12)
    again = pool.texts + " again"
    only_one = np.full_like(again, None)
    only_one[0, 0] = again[0, 0]
    uneven, even = (
        Pool.from_repeats(pool.agents, pool.items, [pool.texts, second], "p") for second in (only_one, again)
    )
    plan = make_plan(uneven, design="cyclic", calls=60, independent="pooled:8")
    assert add_repeats(plan, even).notes[-1].endswith(": 0 independent and 52 paired calls")


def test_an_ability_is_the_mean_over_the_first_and_later_responses_of_an_agent() -> None:
    pool = pool_of()
    once = Pool(pool.agents, pool.items, pool.texts, pool.name)
    grown = add_repeats(make_plan(once, independent="pooled:20"), pool)
    noise = np.random.default_rng(1).uniform(-0.2, 0.2, (pool.n_agents, pool.n_items, pool.repeats))
    of = np.linspace(0.2, -0.2, pool.n_agents)[:, None, None] + noise
    trials = grown.trials
    assert trials.first_repeat is not None
    assert trials.second_repeat is not None
    mean = of[grown.first, grown.item, trials.first_repeat - 1] + of[grown.second, grown.item, trials.second_repeat - 1]
    result = answer_with(grown, np.where(grown.trial_type == 0, 0.5 + mean / 2, 0.0))
    abilities = trial_abilities_from_verdicts(result)
    assert abilities is not None
    # an answer changes by half the difference; a mean over K − 1 partners contains (K − 2)/(K − 1) of it
    effect = (abilities.ability - abilities.ability.mean()) * 2 * (pool.n_agents - 1) / (pool.n_agents - 2)
    truth = of.mean(axis=(1, 2))
    assert np.abs(effect - (truth - truth.mean())).max() < 0.01
    first = of[:, :, 0].mean(axis=1)
    assert np.abs(effect - (first - first.mean())).max() > 0.02, "which is not the mean over the first ones"


def test_the_repeat_that_is_shown_changes_nothing_else_of_a_plan() -> None:
    pool = pool_of()
    once = Pool(pool.agents, pool.items, pool.texts, pool.name)
    with_, without = make_plan(pool, calls=200), make_plan(once, calls=200)
    assert without.trials.first_repeat is None
    bare = replace(with_.trials, first_repeat=None, second_repeat=None)
    assert starts_with(bare, without.trials)
    assert len(bare) == len(without)
    assert with_.pool_digest != without.pool_digest


def test_the_request_hash_is_that_of_the_texts_shown() -> None:
    pool = pool_of(gaps=True)
    plan = make_plan(pool, calls=300)
    questions = load_judge_config("gpt-4o-mini").questions()
    rows, (first, second) = dict(iter_keys(questions, plan)), plan.text_rows
    for row in range(len(plan)):
        request = questions.request(plan, row)
        other_item = plan.other_item[row] if plan.trial_type[row] else plan.item[row]
        text = "".join(message.content for message in request.messages)
        assert str(pool.all_texts[first[row], plan.item[row]]) in text
        assert str(pool.all_texts[second[row], other_item]) in text
        assert rows[row] == questions.key(request)


@pytest.mark.parametrize("kind", ["folder", "csv", "parquet"])
@pytest.mark.parametrize("most", [200_000_000, 10])
def test_a_pool_with_repeats_reads_back_unchanged(
    tmp_path: Path, youden: Youden, monkeypatch: pytest.MonkeyPatch, kind: str, most: int
) -> None:
    pool = pool_of(gaps=True)
    write_pool(pool, tmp_path / "pool")
    monkeypatch.setattr(spool, "MAX_BYTES_IN_MEMORY", most)
    place = tmp_path / "pool"
    if kind != "folder":
        place = tmp_path / f"t.{kind}"
        assert youden("export", "pool", str(place)).code == 0
    read = read_pool(place)
    assert [*map(list, read.all_texts)] == [*map(list, pool.all_texts)]
    assert (find_file_texts(read.all_texts) is not None) == (most == 10)
    assert np.array_equal(read.n_repeats, pool.n_repeats)
    assert read.n_responses == pool.n_responses
    assert np.array_equal(read.all_lengths, pool.all_lengths)
    if kind == "folder":
        assert read.digest == pool.digest


def test_duplicate_repeat_numbers_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("agent,item,text,repeat\na,x,one,1\na,x,two,1\n", encoding="utf-8")
    with pytest.raises(PoolError, match=r"\[pool-duplicate\]"):
        read_pool(file)
    file.write_text("agent,item,text,repeat\na,x,one,first\n", encoding="utf-8")
    with pytest.raises(PoolError, match=r"\[pool-repeat\]"):
        read_pool(file)


@pytest.mark.slow
def test_a_run_of_repeats_is_planned_judged_reported_and_extended(tmp_path: Path, youden: Youden) -> None:
    write_pool(pool_of(gaps=True), tmp_path / "pool")
    (tmp_path / "run.yaml").write_text("pool: pool\njudge: lexical\ncalls: 170\nout: run\n", encoding="utf-8")
    ran = youden("run", "run.yaml")
    assert ran.code == 0
    assert "agents have up to 3 responses per item" in youden("plan", "run.yaml").err
    assert youden("extend", "calls", "run", "36").code == 0
    folder, pool = RunFolder(tmp_path / "run"), read_pool(tmp_path / "pool")
    plan = folder.read_plan()
    result = folder.read_verdicts(plan)
    assert plan.trials.first_repeat is not None
    assert set(plan.trials.first_repeat.tolist()) == {1, 2, 3}
    book, (a, b) = TrialBook(result), plan.text_rows
    for row in range(0, len(plan), 7):
        first, second = cells_of(book.get_line(row))
        assert text_of(pool, first) == pool.all_texts[a[row], plan.item[row]]
        assert text_of(pool, second) is not None
    assert "first_repeat" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert (b >= 0).all()


def test_check_names_agents_whose_repeats_are_equal_or_differ_strongly(tmp_path: Path, youden: Youden) -> None:
    pool = pool_of(n_agents=6, n_items=12)
    blocks = [block.copy() for block in pool.texts_by_repeat]
    blocks[1][2], blocks[2][2] = blocks[0][2], blocks[0][2]
    blocks[1][4] = [text[:8] for text in blocks[1][4]]
    write_pool(Pool.from_repeats(pool.agents, pool.items, blocks, "odd"), tmp_path / "odd")
    stdout = youden("check", "odd").out
    assert "All repeats of 'a2' are equal" in stdout
    assert "[repeats-wild]" in stdout
    assert "Repeats of 'a4' differ widely" in stdout
