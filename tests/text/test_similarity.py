from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.text.similarity import groups_holding, idf, shared_mass, word_matrix
from youden.text.words import segment, words

TEXTS = st.lists(st.text("abcde ", max_size=20), min_size=1, max_size=8)


def test_the_matrix_marks_a_word_once_however_often_it_occurs() -> None:
    matrix = word_matrix(segment(["tea tea milk", "", "milk"]))
    np.testing.assert_array_equal(matrix.toarray(), [[1, 1], [0, 0], [0, 1]])


def test_a_group_holds_a_word_that_any_of_its_texts_holds() -> None:
    matrix = word_matrix(segment(["tea", "tea milk", "salt", "tea"]))
    held = groups_holding(matrix, np.array([0, 0, 2, 2]), n_groups=3)
    np.testing.assert_array_equal(held.toarray(), [[1, 1, 0], [0, 0, 0], [1, 0, 1]])


def test_a_group_of_many_texts_still_holds_its_word() -> None:
    matrix = word_matrix(segment(["tea"] * 300))
    held = groups_holding(matrix, np.zeros(300, dtype=np.int64), n_groups=1)
    np.testing.assert_array_equal(held.toarray(), [[1]])


def test_words_in_all_items_weigh_nothing_and_rarer_words_more() -> None:
    weights = idf(np.array([8.0, 4.0, 1.0, 0.0]), 8)
    np.testing.assert_allclose(weights, [0.0, np.log(2), np.log(8), np.log(8)])


@given(TEXTS, st.integers(1, 50))
@settings(max_examples=25, deadline=None)
def test_shared_mass_equals_that_of_sets_whatever_the_chunks(texts: list[str], chunk_words: int) -> None:
    segmented = segment(texts)
    rng = np.random.default_rng(len(texts) + chunk_words)
    weights = rng.random(segmented.n_words)
    first, second = rng.integers(0, len(texts), (2, 20))
    sets = [set(words(text)) for text in texts]
    number = {word: k for row, text in enumerate(texts) for word, k in zip(words(text), segmented[row], strict=True)}
    slow = [sum(weights[number[w]] for w in sets[a] & sets[b]) for a, b in zip(first, second, strict=True)]

    matrix = word_matrix(segmented)
    np.testing.assert_allclose(
        shared_mass(matrix, first, second, weights=weights, chunk_words=chunk_words), slow, atol=1e-12
    )
    both = shared_mass(matrix, second, first, weights=np.stack([weights, 2 * weights], axis=1), chunk_words=chunk_words)
    np.testing.assert_allclose(both, np.stack([slow, 2 * np.array(slow)], axis=1), atol=1e-12)


def test_longer_texts_are_not_divided_by_their_length() -> None:
    matrix = word_matrix(segment(["tea milk", "tea milk", "tea milk salt fish bread"]))
    mass = shared_mass(matrix, np.array([0, 0]), np.array([1, 2]), weights=np.ones(5))
    np.testing.assert_array_equal(mass, [2, 2])


def test_no_pairs_have_no_mass() -> None:
    nothing = np.array([], dtype=np.int64)
    assert shared_mass(word_matrix(segment(["tea"])), nothing, nothing, weights=np.ones(1)).shape == (0,)
