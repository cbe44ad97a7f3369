from __future__ import annotations

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.text.words import _is_plain, _n_words, mean_lengths, segment, words

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
def test_words_of_many_scripts(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(ANYTHING)
@settings(max_examples=50, deadline=None)
def test_any_text_gives_words_of_letters_marks_and_numbers(text: str) -> None:
    for word in words(text):
        assert word
        known = {unicodedata.category(c) for c in word} - {"Cn"}  # regex may know a newer Unicode than Python
        assert {category[0] for category in known} <= set("LMN")


@given(st.text(st.characters(codec="ascii"), max_size=80))
@settings(max_examples=50, deadline=None)
def test_ascii_words_equal_the_obvious_pattern(text: str) -> None:
    assert words(text) == re.findall("[a-z0-9]+", text.lower())


@given(st.text("aé ñÅ不東ไกがぎ.", max_size=30))
@settings(max_examples=50, deadline=None)
def test_composed_and_decomposed_texts_have_the_same_words(text: str) -> None:
    assert words(unicodedata.normalize("NFD", text)) == words(text)


@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), min_size=2, max_size=30))
@settings(max_examples=25, deadline=None)
def test_a_run_of_n_han_characters_is_n_minus_one_pairs(text: str) -> None:
    found = words(text)
    assert len(found) == len(text) - 1
    assert found[0] + "".join(pair[1] for pair in found[1:]) == text


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", "a ", "茶", "\u0301\u0323", "\x00", "\ud800", "ﾞ\u0323"])
def test_a_megabyte_of_anything_is_read(unit: str) -> None:
    assert len(words(unit * (1_000_000 // len(unit)))) <= 1_000_000


def test_segments_are_the_words_as_numbers() -> None:
    texts = ["Tea and tea", "", "AND milk"]
    segmented = segment(texts)
    assert len(segmented) == 3
    assert [segmented[r] for r in range(3)] == [[0, 1, 0], [], [1, 2]]
    assert segmented.n_words == 3
    assert not segmented.ids.flags.writeable


def test_no_texts_are_no_segments() -> None:
    assert len(segment([])) == 0


def test_mean_length_counts_words_of_present_responses_only() -> None:
    texts = np.array([["one two", "one two three four", None], ["", "x", "y"], [None, None, None]], dtype=object)
    np.testing.assert_allclose(mean_lengths(texts), [3.0, 2 / 3, np.nan])


def test_what_counts_as_plain_has_the_words_that_are_counted() -> None:
    plain = [chr(code) for code in range(0x80, 0x3000) if _is_plain(chr(code).encode())]
    assert set("‘’“”–—…•") <= set(plain)
    for mark in plain:
        text = f"it{mark}s {mark}1{mark}{mark}\x7f A_b{mark}"
        assert _n_words(text.encode()) == len(words(text)), hex(ord(mark))
    assert not any(_is_plain(text.encode()) for text in ("é", "a‗b", "水", "e\N{COMBINING ACUTE ACCENT}", "’é’"))
