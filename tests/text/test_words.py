"""Test words of any script, word matrices, shared mass and copied runs."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.text.similarity import (
    Copying,
    build_group_word_matrix,
    build_word_matrix,
    copied_shares,
    find_copying_agents,
    idf,
    sum_shared_weights,
)
from youden.text.words import _count_ascii_words, _is_ascii_or_separator, mean_lengths, segment_texts, split_words

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\n.,!?— ", []),
        ("Ada's l’arbre", ["ada", "s", "l", "arbre"]),
        ("STRASSE Straße", ["strasse", "strasse"]),
        ("naïve nai\u0308ve", ["naïve", "naïve"]),
        ("_emphasis_ **bold**", ["emphasis", "bold"]),
        ("ex\u00adample", ["example"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("Привет, мир", ["привет", "мир"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("我喜欢茶", ["我喜", "喜欢", "欢茶"]),
        ("茶。水", ["茶", "水"]),
        ("コーヒー", ["コー", "ーヒ", "ヒー"]),
        ("ｺｰﾋｰ", ["コー", "ーヒ", "ヒー"]),
        ("ไทย", ["ไท", "ทย"]),
        ("2024年GPT模型", ["2024", "年", "gpt", "模型"]),
        ("a\x00b\x1bc\ud800d", ["a", "b", "c", "d"]),
    ],
)
def test_words_of_many_scripts_are_split(text: str, expected: list[str]) -> None:
    assert split_words(text) == expected


@given(ANYTHING)
@settings(max_examples=50, deadline=None)
def test_arbitrary_text_gives_words_of_letters_marks_and_numbers(text: str) -> None:
    for word in split_words(text):
        assert word
        expected = {unicodedata.category(c) for c in word} - {"Cn"}  # regex may know a newer Unicode than Python
        assert {category[0] for category in expected} <= set("LMN")


@given(st.text(st.characters(codec="ascii"), max_size=80))
@settings(max_examples=50, deadline=None)
def test_ascii_words_equal_those_of_a_simple_pattern(text: str) -> None:
    assert split_words(text) == re.findall("[a-z0-9]+", text.lower())


@given(st.text("aé ñÅ不東ไกがぎ.", max_size=30))
@settings(max_examples=50, deadline=None)
def test_composed_and_decomposed_texts_have_the_same_words(text: str) -> None:
    assert split_words(unicodedata.normalize("NFD", text)) == split_words(text)


@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), min_size=2, max_size=30))
@settings(max_examples=25, deadline=None)
def test_a_run_of_n_han_characters_is_n_minus_one_pairs(text: str) -> None:
    words = split_words(text)
    assert len(words) == len(text) - 1
    assert words[0] + "".join(pair[1] for pair in words[1:]) == text


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", "a ", "茶", "\u0301\u0323", "\x00", "\ud800", "ﾞ\u0323"])
def test_a_megabyte_of_arbitrary_text_is_split(unit: str) -> None:
    assert len(split_words(unit * (1_000_000 // len(unit)))) <= 1_000_000


def test_segments_equal_the_words_as_numbers() -> None:
    texts = ["Tea and tea", "", "AND milk"]
    segmented = segment_texts(texts)
    assert len(segmented) == 3
    assert [segmented[r] for r in range(3)] == [[0, 1, 0], [], [1, 2]]
    assert segmented.n_words == 3
    assert not segmented.ids.flags.writeable


def test_no_texts_give_no_segments() -> None:
    assert len(segment_texts([])) == 0


def test_mean_length_counts_words_of_present_responses_only() -> None:
    texts = np.array([["one two", "one two three four", None], ["", "x", "y"], [None, None, None]], dtype=object)
    np.testing.assert_allclose(mean_lengths(texts), [3.0, 2 / 3, np.nan])


def test_plain_characters_do_not_change_the_word_count() -> None:
    plain = [chr(code) for code in range(0x80, 0x3000) if _is_ascii_or_separator(chr(code).encode())]
    assert set("‘’“”–—…•") <= set(plain)
    for mark in plain:
        text = f"it{mark}s {mark}1{mark}{mark}\x7f A_b{mark}"
        assert _count_ascii_words(text.encode()) == len(split_words(text)), hex(ord(mark))
    assert not any(
        _is_ascii_or_separator(text.encode()) for text in ("é", "a‗b", "水", "e\N{COMBINING ACUTE ACCENT}", "’é’")
    )


TEXTS = st.lists(st.text("abcde ", max_size=20), min_size=1, max_size=8)


def test_the_matrix_marks_a_word_once_for_any_number_of_occurrences() -> None:
    matrix = build_word_matrix(segment_texts(["tea tea milk", "", "milk"]))
    np.testing.assert_array_equal(matrix.toarray(), [[1, 1], [0, 0], [0, 1]])


def test_a_group_contains_a_word_of_any_of_its_texts() -> None:
    matrix = build_word_matrix(segment_texts(["tea", "tea milk", "salt", "tea"]))
    values = build_group_word_matrix(matrix, np.array([0, 0, 2, 2]), n_groups=3)
    np.testing.assert_array_equal(values.toarray(), [[1, 1, 0], [0, 0, 0], [1, 0, 1]])


def test_a_group_of_many_texts_contains_a_rare_word() -> None:
    matrix = build_word_matrix(segment_texts(["tea"] * 300))
    values = build_group_word_matrix(matrix, np.zeros(300, dtype=np.int64), n_groups=1)
    np.testing.assert_array_equal(values.toarray(), [[1]])


def test_words_in_all_items_have_zero_weight_and_rarer_words_more() -> None:
    weights = idf(np.array([8.0, 4.0, 1.0, 0.0]), 8)
    np.testing.assert_allclose(weights, [0.0, np.log(2), np.log(8), np.log(8)])


@given(TEXTS, st.integers(1, 50))
@settings(max_examples=25, deadline=None)
def test_shared_weights_equal_that_of_sets_for_any_chunks(texts: list[str], chunk_words: int) -> None:
    segmented = segment_texts(texts)
    rng = np.random.default_rng(len(texts) + chunk_words)
    weights = rng.random(segmented.n_words)
    first, second = rng.integers(0, len(texts), (2, 20))
    sets = [set(split_words(text)) for text in texts]
    number = {
        word: k for row, text in enumerate(texts) for word, k in zip(split_words(text), segmented[row], strict=True)
    }
    slow = [sum(weights[number[w]] for w in sets[a] & sets[b]) for a, b in zip(first, second, strict=True)]

    matrix = build_word_matrix(segmented)
    np.testing.assert_allclose(
        sum_shared_weights(matrix, first, second, weights=weights, chunk_words=chunk_words), slow, atol=1e-12
    )
    both = sum_shared_weights(
        matrix, second, first, weights=np.stack([weights, 2 * weights], axis=1), chunk_words=chunk_words
    )
    np.testing.assert_allclose(both, np.stack([slow, 2 * np.array(slow)], axis=1), atol=1e-12)


def test_sum_of_shared_weights_is_not_divided_by_the_length_of_a_text() -> None:
    matrix = build_word_matrix(segment_texts(["tea milk", "tea milk", "tea milk salt fish bread"]))
    mass = sum_shared_weights(matrix, np.array([0, 0]), np.array([1, 2]), weights=np.ones(5))
    np.testing.assert_array_equal(mass, [2, 2])


def test_no_pairs_have_no_shared_weights() -> None:
    nothing = np.array([], dtype=np.int64)
    assert sum_shared_weights(
        build_word_matrix(segment_texts(["tea"])), nothing, nothing, weights=np.ones(1)
    ).shape == (0,)


PROMPT = ["the", "old", "mill", "stood", "by", "the", "river", "until", "the", "flood", "of", "1953"]
WORDS = st.lists(st.sampled_from("abc"), max_size=12)


@pytest.mark.parametrize(
    ("response", "share"),
    [
        ("the old mill stood by the river", 1.0),
        ("the old mill stood by a river", 1 / 3),
        ("the mill was old and stood near the river", 0.0),
        ("flood of 1953", 1.0),
        ("flood in 1953", 0.0),
        ("", np.nan),
    ],
)
def test_the_copied_fraction_counts_runs_of_five_words(response: str, share: float) -> None:
    np.testing.assert_allclose(copied_shares([response.split()], PROMPT), [share])


@given(st.lists(WORDS, max_size=4), WORDS, st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_the_copied_fraction_equals_a_naive_count(responses: list[list[str]], prompt: list[str], n: int) -> None:
    def slow(response: list[str]) -> float:
        size = min(n, len(response))
        if size == 0:
            return float("nan")
        starts = range(len(response) - size + 1)
        result = [any(response[s : s + size] == prompt[p : p + size] for p in range(len(prompt))) for s in starts]
        return sum(result) / len(result)

    np.testing.assert_allclose(copied_shares(responses, prompt, n=n), [slow(response) for response in responses])


def test_an_agent_copies_if_its_median_response_does() -> None:
    shares = np.array(
        [
            [0.9, 0.8, 0.0],
            [0.9, 0.1, 0.0],
            [0.5, np.nan, np.nan],
            [np.nan, np.nan, np.nan],
        ]
    )
    assert find_copying_agents(shares) == (Copying(0, 0.8), Copying(2, 0.5))
    assert find_copying_agents(shares, min_share=0.6) == (Copying(0, 0.8),)
