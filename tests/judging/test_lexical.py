"""Test the lexical judge: answers equal a naive definition, and its limits are stated."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

from judged import plan_of
from narrowing import not_none
from youden.errors import JudgeError, PlanError
from youden.judging.backends.lexical import Lexical, compute_text_weights, sample_pairs
from youden.text.similarity import build_word_matrix
from youden.text.words import segment_texts, split_words
from youden.types import PAIRED, Agent, Item, Plan, PlanJudge, Pool, Verdicts
from youden.types.pool import Floats

SAMSUM_TEXTS = "data/agents/summarization_gpt_4o_mini_20250708_235208.json"
SAMSUM_VERDICTS = "eval_results/samsum_200_config_results/tvd_mi_individual_examples"


def pool_of(texts: list[list[str | None]], prompts: list[str] | None = None) -> Pool:
    items = [Item(f"i{j}", prompts[j] if prompts else None) for j in range(len(texts[0]))]
    return Pool(tuple(Agent(f"a{i}") for i in range(len(texts))), tuple(items), np.array(texts, dtype=object))


def all_trials(K: int, J: int) -> list[tuple[int, int, int, int]]:
    """Plan every ordered pair of agents on the same item and on every two items."""
    pairs = list(itertools.permutations(range(K), 2))
    return [(j, i, k, -1 if o == j else o) for j in range(J) for o in range(J) for i, k in pairs]


def small_texts(seed: int, K: int = 3, J: int = 10) -> list[list[str | None]]:
    """Return responses of common words, some of the five words of their item, and some of their agent."""
    rng = np.random.default_rng(seed)
    return [
        [
            " ".join(
                [
                    "the",
                    *rng.choice([f"item{j}word{w}" for w in range(5)], 3),
                    *rng.choice([f"common{w}" for w in range(9)], 4),
                ]
            )
            for j in range(J)
        ]
        for _ in range(K)
    ]


def slow_answers(texts: list[list[str | None]], plan: Plan, *, seed: int) -> tuple[list[float], list[float]]:
    """Return the answers by definition, with sets and without sampling."""
    K, J = len(texts), len(texts[0])
    word_sets = {(i, j): set(split_words(texts[i][j] or "")) for i in range(K) for j in range(J)}
    fold = np.random.default_rng(seed).permutation(J) % 5

    @cache
    def fitted(fits_on: tuple[int, ...]) -> tuple[Callable[[tuple[int, int], tuple[int, int]], float], float, float]:
        """Return the similarity of two cells, the similarity of an answer of 1, and that of a hard yes."""

        @cache
        def mass_of(words: frozenset[str]) -> float:
            counts = {w: sum(any(w in word_sets[i, j] for i in range(K)) for j in fits_on) for w in words}
            return float(sum(np.log(len(fits_on) / max(n, 1)) for n in counts.values()))

        def mass(words: set[str]) -> float:
            return mass_of(frozenset(words))

        weight = {}
        for j in range(J):
            common = []
            for i in range(K):
                others = set().union(*(word_sets[k, j] for k in range(K) if k != i))
                common.append(mass(word_sets[i, j] & others))
            quartile = float(np.quantile([value for value in common if value > 0], 0.75))
            for i in range(K):
                weight[i, j] = min(1.0, 2 * quartile / max(common[i], 1e-9)) ** 2

        def compute_similarity(a: tuple[int, int], b: tuple[int, int]) -> float:
            return mass(word_sets[a] & word_sets[b]) * weight[a] * weight[b]

        cells = [(i, j) for i in range(K) for j in fits_on]
        pairs = list(itertools.permutations(cells, 2))
        paired = np.array([compute_similarity(a, b) for a, b in pairs if a[1] == b[1]])
        independent = np.array([compute_similarity(a, b) for a, b in pairs if a[1] != b[1]])
        best = max(np.unique(paired), key=lambda t: round((paired >= t).mean() - (independent >= t).mean(), 12))
        return compute_similarity, float(np.quantile(paired, 0.95)), best

    answers, hards = [], []
    for item, first, second, independent_item in zip(plan.item, plan.first, plan.second, plan.other_item, strict=True):
        other_item = item if independent_item < 0 else independent_item
        compute_similarity, top, best = fitted(
            tuple(j for j in range(J) if fold[j] not in (fold[item], fold[other_item]))
        )
        similarity = compute_similarity((first, item), (second, other_item))
        answers.append(min(similarity / top, 1.0))
        hards.append(float(similarity >= best - 1e-9))
    return answers, hards


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_answers_equal_a_naive_definition_by_sets(seed: int) -> None:
    texts = small_texts(seed)
    texts[1] = [
        " ".join([str(text), *(f"item{j}word{w % 5} item{(j + w) % 10}word{w % 5}" for w in range(4 * j))])
        for j, text in enumerate(texts[1])
    ]
    pool = pool_of(texts)
    trials = all_trials(3, 10)
    plan = plan_of(pool, [trials[t] for t in np.random.default_rng(seed).choice(len(trials), 40, replace=False)])
    verdicts = Lexical(seed).answer_many(plan)
    answers, hards = slow_answers(texts, plan, seed=seed)
    np.testing.assert_allclose(verdicts.answer, answers, atol=1e-12)
    np.testing.assert_array_equal(verdicts.hard_answer, hards)


def word_pool(n_words: list[int], *, n_items: int = 20, n_vocabulary: int = 400) -> list[list[str | None]]:
    """Responses of `n_words[i]` distinct words by agent i; each item has its own vocabulary with frequencies by Zipf's law."""
    rng = np.random.default_rng(0)
    frequency = 1 / (1 + np.arange(n_vocabulary))
    frequency /= frequency.sum()
    texts: list[list[str | None]] = []
    for n in n_words:
        draws = [rng.choice(n_vocabulary, n, replace=False, p=frequency) for _ in range(n_items)]
        texts.append([" ".join(f"i{j}w{w}" for w in draw) for j, draw in enumerate(draws)])
    return texts


def rank_by_answers(texts: list[list[str | None]]) -> list[int]:
    """Return the rank of each agent by the mean soft answer of all its paired trials, 1 = best."""
    pool = pool_of(texts)
    K, J = pool.texts.shape
    plan = plan_of(pool, [(j, i, k, -1) for j in range(J) for i, k in itertools.permutations(range(K), 2)])
    answer = Lexical().answer_many(plan).answer
    ranks: list[int] = (
        rankdata(-np.bincount(plan.first, answer) - np.bincount(plan.second, answer)).astype(int).tolist()
    )
    return ranks


def test_four_agents_of_twelve_that_respond_at_length_rank_first() -> None:
    assert sorted(rank_by_answers(word_pool([20] * 8 + [200] * 4))[8:]) == [1, 2, 3, 4]


def test_pasting_all_other_responses_ranks_last() -> None:
    texts = word_pool([30] * 15)
    pasted: list[str | None] = [" ".join(str(row[j]) for row in texts) for j in range(20)]
    assert rank_by_answers([*texts, pasted])[-1] == 16


def text_weights(texts: list[list[str]]) -> Floats:
    """Return the weights of texts of one item, by agent and repeat.

    `texts[i]` are the responses of agent i; all words have weight 1.
    """
    rows = [(repeat, i, text) for i, responses in enumerate(texts) for repeat, text in enumerate(responses)]
    agent_of_text = np.array([i for _, i, _ in sorted(rows)])
    matrix = build_word_matrix(segment_texts([text for *_, text in sorted(rows)]))
    ones = np.ones((matrix.shape[1], 1))
    item_of_text = np.zeros(len(rows), dtype=np.int64)
    return compute_text_weights(matrix, item_of_text=item_of_text, agent_of_text=agent_of_text, word_weights=ones)[:, 0]


def test_text_weight_falls_with_the_square_of_common_words_above_twice_the_quartile() -> None:
    # common words: a, b of agents 0 to 2; a to i of agent 3, with c to i in common with agent 4; the quartile is 7
    texts = [["a b"], ["a b"], ["a b own"], ["a b c d e f g h i"], ["c d e f g h i other"]]
    assert text_weights(texts).tolist() == [1, 1, 1, 1, 1]
    # with the quartile 2, the nine common words of agent 3 exceed the limit of 4 words
    texts = [["a b"], ["c d"], ["e f"], ["g h i"], ["a b c d e f g h i"]]
    np.testing.assert_allclose(text_weights(texts), [1, 1, 1, 1, (2 * 3 / 9) ** 2])


def test_words_that_no_other_agent_uses_do_not_lower_a_weight() -> None:
    alone = " ".join(f"w{k}" for k in range(99))
    assert text_weights([["a b"], ["a b"], ["a b"], ["a b"], [f"a b {alone}"]]).tolist() == [1] * 5


def test_repeats_of_one_agent_share_no_words_with_each_other_and_count_as_one_agent() -> None:
    long = " ".join(f"w{k}" for k in range(99))
    assert text_weights([["a b"], ["a b"], ["a b"], [f"a b {long}"] * 5]).tolist() == [1] * 8

    # an agent with many long responses does not raise the quartile
    paste = "a b c d e f g h"
    once = text_weights([["a b"], ["c d"], ["e f"], ["g h"], ["a c"], [paste]])
    often = text_weights([["a b"], ["c d"], ["e f"], ["g h"], ["a c"], [paste] * 9])
    assert once[-1] == often[-1] == (4 / 8) ** 2


def test_agents_without_common_words_do_not_lower_the_limit() -> None:
    long = "a b c d e f g h"
    assert text_weights([[""], [""], [""], ["own"], ["another"], [long], [long]]).tolist() == [1] * 7
    assert text_weights([["alone"]]).tolist() == [1]
    assert text_weights([[""], [""]]).tolist() == [1, 1]


def test_text_weights_do_not_depend_on_the_order_of_the_agents() -> None:
    texts = [[not_none(text)] for row in word_pool([5, 10, 20, 40, 80, 100], n_items=1) for text in row]
    order = [3, 1, 5, 0, 2, 4]
    np.testing.assert_array_equal(text_weights(texts)[order], text_weights([texts[i] for i in order]))


def test_a_single_agent_that_responds_to_an_item_keeps_its_weight() -> None:
    texts = small_texts(0)
    texts[1][4] = texts[2][4] = None
    pool = pool_of(texts)
    trial = [(4, 0, 1, 5), (5, 1, 0, 4)]
    assert np.isfinite(Lexical().answer_many(plan_of(pool, trial)).answer).all()


@pytest.mark.parametrize("script", ["一", "ก", "ঀ", "あ"], ids=["Han", "Thai", "Bengali", "Hiragana"])
def test_long_responses_in_any_script_rank_first_if_a_third_of_the_agents_write_them(script: str) -> None:
    letters = [chr(ord(script) + k) for k in range(5, 40)]
    rng = np.random.default_rng(0)

    def write(j: int, n_words: int) -> str:
        vocabulary = [letters[(j + k) % 35] + letters[(3 * j + 7 * k) % 35] for k in range(35)]
        return " ".join(rng.choice(vocabulary, n_words, replace=False))

    texts: list[list[str | None]] = [[write(j, n) for j in range(20)] for n in [6] * 8 + [30] * 4]
    assert sorted(rank_by_answers(texts)[8:]) == [1, 2, 3, 4]


def test_the_description_of_the_judge_is_json_and_its_cost_is_zero() -> None:
    pool = pool_of(small_texts(0))
    judge: PlanJudge = Lexical()
    plan = plan_of(pool, all_trials(3, 10))
    verdicts = judge.answer_many(plan)
    assert plan.cost("lexical").usd == 0
    assert json.loads(json.dumps(verdicts.judge)) == verdicts.judge
    assert {"name", "version", "folds", "seed", "similarity"} <= verdicts.judge.keys()


def test_an_answer_depends_only_on_seed_pool_and_trial() -> None:
    pool = pool_of(small_texts(2))
    trials = all_trials(3, 10)
    whole = Lexical(3).answer_many(plan_of(pool, trials))
    part = Lexical(3).answer_many(plan_of(pool, trials[::7]))
    np.testing.assert_array_equal(whole.answer[::7], part.answer)
    assert not np.array_equal(whole.answer, Lexical(4).answer_many(plan_of(pool, trials)).answer)


def test_chinese_responses_are_distinguished() -> None:
    passages = [
        "河边磨坊",
        "山上灯塔",
        "海底电缆",
        "沙漠铁路",
        "森林火灾",
        "冰川湖泊",
        "古代桥梁",
        "城市地铁",
        "春天茶园",
    ]
    pool = pool_of([[f"这是{p}的故事" for p in passages], [f"关于{p}我们知道" for p in passages]])
    verdicts = Lexical().answer_many(plan_of(pool, all_trials(2, 9)))
    assert (verdicts.hard_answer == (verdicts.plan.trial_type == PAIRED)).all()


def test_the_permanent_warning_states_what_the_judge_cannot_detect() -> None:
    pool = pool_of(small_texts(0))
    warning, unchecked = Lexical().answer_many(plan_of(pool, all_trials(3, 10))).warnings
    for phrase in ("similarity baseline", "contradiction", "paraphrase", "favors long texts"):
        assert phrase in warning.message
    assert "no prompts" in unchecked.message


def test_an_agent_that_copies_prompts_is_reported_with_its_fraction() -> None:
    texts = small_texts(0)
    prompts = [f"{texts[1][j]} and so on and so forth" for j in range(10)]
    pool = pool_of(texts, prompts)
    _, warning = Lexical().answer_many(plan_of(pool, all_trials(3, 10))).warnings
    assert (warning.slug, warning.agents, warning.facts) == ("copying", ("a1",), {"share": 1.0})
    assert "100%" in warning.message
    assert "higher" in warning.message


def test_missing_cells_are_accepted_if_the_plan_avoids_them() -> None:
    texts = small_texts(0)
    texts[0][3] = None
    texts[2] = [None] * 10
    pool = pool_of(texts, [str(text) for text in texts[1]])
    verdicts = Lexical().answer_many(plan_of(pool, [(j, 0, 1, -1) for j in range(10) if j != 3]))
    assert verdicts.answered.all()


def test_an_empty_plan_has_no_verdicts() -> None:
    pool = pool_of(small_texts(0))
    assert len(Lexical().answer_many(plan_of(pool, []))) == 0


PAIR = (0, 0, 1, -1)


@pytest.mark.parametrize(
    ("texts", "trial", "slug", "says"),
    [
        ([[*row[:7], None] for row in small_texts(0)], PAIR, "lexical-few-items", "got 7"),
        ([[""] * 10] * 2, PAIR, "lexical-nothing-shared", "0 share a word"),
        ([["the same words everywhere"] * 10] * 2, PAIR, "lexical-nothing-shared", "0 share a word"),
        (small_texts(0, K=1), (0, 0, 0, 1), "lexical-nothing-shared", "0 pairs"),
    ],
)
def test_a_pool_that_cannot_be_judged_is_refused(
    texts: list[list[str | None]], trial: tuple[int, int, int, int], slug: str, says: str
) -> None:
    pool = pool_of(texts)
    with pytest.raises(JudgeError, match=rf"{says}.*\[{slug}\]"):
        Lexical().answer_many(plan_of(pool, [trial]))


def test_a_plan_for_another_pool_is_refused() -> None:
    texts = small_texts(0)
    texts[1][4] = None
    pool = pool_of(texts)
    with pytest.raises(PlanError, match=r"trial 1, agent 'a1' on item 'i4'.*\[plan-missing-text\]"):
        Lexical().answer_many(plan_of(pool, [PAIR, (2, 0, 1, 4)]))
    with pytest.raises(PlanError, match=r"3 agents × 10 items.*for a plan of 4 × 10.*\[plan-other-pool\]"):
        plan_of(pool_of(small_texts(0, K=4)), [PAIR]).with_pool(pool)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.booleans(), st.integers(1, 80))
@settings(max_examples=30, deadline=None)
def test_sampled_pairs_are_distinct_and_complete_if_few(items: list[int], paired: bool, limit: int) -> None:
    item_of_text = np.sort(np.array(items))
    first, second = sample_pairs(item_of_text, np.random.default_rng(0), paired=paired, limit=limit)
    drawn = set(zip(first.tolist(), second.tolist(), strict=True))
    possible = {
        (a, b)
        for a, b in itertools.permutations(range(len(items)), 2)
        if (item_of_text[a] == item_of_text[b]) == paired
    }
    assert drawn <= possible
    assert len(drawn) == len(first) == min(limit, len(possible))


@pytest.fixture(scope="module")
def samsum(peer_prediction: Path) -> tuple[Pool, Verdicts]:
    source = json.loads((peer_prediction / SAMSUM_TEXTS).read_text(encoding="utf-8"))
    texts = np.array([task["responses"] for task in source["tasks"]], dtype=object).T
    agents = tuple(Agent(agent["condition"]) for agent in source["agent_perspectives"])
    items = tuple(Item(f"i{j}", task["context"]) for j, task in enumerate(source["tasks"]))
    pool = Pool(agents, items, texts, "samsum")
    pairs = itertools.combinations(range(pool.n_agents), 2)
    plan = plan_of(pool, [(j, i, k, -1) for i, k in pairs for j in range(pool.n_items)])
    return pool, Lexical().answer_many(plan)


@pytest.mark.slow
def test_the_soft_ranking_of_samsum_correlates_with_that_of_gpt_4o_mini(
    samsum: tuple[Pool, Verdicts], peer_prediction: Path
) -> None:
    pool, verdicts = samsum
    K = pool.n_agents
    plan = verdicts.plan
    total = np.bincount(plan.first, verdicts.answer, K) + np.bincount(plan.second, verdicts.answer, K)
    files = [peer_prediction / SAMSUM_VERDICTS / f"tvd_mi_example_{j}.json" for j in range(pool.n_items)]
    judged = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    assert all(each["condition_keys"] == [agent.id for agent in pool.agents] for each in judged)
    dense = np.mean([each["tvd_mi_bidirectional"] for each in judged], axis=0)
    assert 0.54 <= spearmanr(total, dense).statistic <= 0.62


@pytest.mark.slow
def test_no_agent_of_samsum_copies_its_prompts(samsum: tuple[Pool, Verdicts]) -> None:
    assert len(samsum[1].warnings) == 1
