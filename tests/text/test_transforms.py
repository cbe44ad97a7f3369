"""Test transforms: pure, named, composable, and never empty."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.errors import ConfigError
from youden.text.sentences import split_pieces, split_sentences, take_pieces
from youden.text.transforms import TRANSFORMS, Step, _rank_by_centrality, apply_steps
from youden.text.words import find_synonyms, split_words
from youden.types.pool import Json

TEXT = (
    "The river rose in 1953. Two bridges fell at night! Nobody was hurt. The town built new houses, quickly and well."
)


def transform(name: str, text: str = TEXT, seed: int = 0, **options: Json) -> str:
    return Step(name, options)(text, np.random.default_rng(seed))


def visible(text: str) -> str:
    return "".join(character for character in text if not character.isspace())


@pytest.mark.parametrize("name", list(TRANSFORMS))
@given(text=st.text(max_size=60), seed=st.integers(0, 9))
@settings(max_examples=12, deadline=None)
def test_a_transform_is_deterministic_and_never_empty_unless_designed_so(name: str, text: str, seed: int) -> None:
    result = transform(name, text, seed)
    assert result == transform(name, text, seed)
    if text.strip() and name != "empty":
        assert result.strip()


@given(text=st.text(max_size=80), n=st.integers(0, 12))
@settings(max_examples=25, deadline=None)
def test_splitting_keeps_all_visible_characters(text: str, n: int) -> None:
    assert visible("".join(split_sentences(text))) == visible("".join(split_pieces(text))) == visible(text)
    assert split_pieces(take_pieces(text, n)) == split_pieces(text)[:n]


def test_reorder_moves_sentences_and_keeps_all() -> None:
    result = transform("reorder")
    assert result != TEXT
    assert sorted(split_sentences(result)) == sorted(split_sentences(TEXT))


@pytest.mark.parametrize("separator", ["\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\u2028"])
def test_separators_of_lines_and_records_are_not_words(separator: str) -> None:
    text = f"ក{separator}"
    assert split_pieces(text) == ["ក"]
    assert {apply_steps(text, [Step("omit")], np.random.default_rng(seed)) for seed in range(9)} == {"ក"}


def test_omit_drops_half_and_keeps_the_order() -> None:
    kept = split_sentences(transform("omit"))
    assert len(kept) == 2
    assert kept == [part for part in split_sentences(TEXT) if part in kept]


def test_truncate_takes_words_or_a_fraction_and_one_chinese_character_is_a_word() -> None:
    assert transform("truncate", words=5) == "The river rose in 1953."
    assert len(split_pieces(transform("truncate", share=0.5))) == len(split_pieces(TEXT)) // 2
    assert transform("truncate", "河水上涨。", words=2) == "河水"


@pytest.mark.slow
def test_synonyms_change_words_and_keep_capitals_and_the_rest() -> None:
    result = transform("synonyms", "River towns are OLD, 1953.", share=1.0)
    assert result != "River towns are OLD, 1953."
    assert result[0].isupper()
    assert result.endswith(", 1953.")
    assert "river" not in find_synonyms("river")
    assert find_synonyms("zzzz") == ()


def test_filler_and_padding_only_add() -> None:
    assert split_sentences(transform("filler"))[::2] == split_sentences(TEXT)
    padded = transform("pad", share=2.0)
    assert padded.startswith(TEXT)
    assert len(split_pieces(padded)) >= 3 * len(split_pieces(TEXT))
    assert transform("pad", share=0) == TEXT


def test_extracts_are_sentences_of_the_text_in_its_order() -> None:
    for name in ("lead", "pick", "textrank"):
        parts = split_sentences(transform(name, n=2))
        assert len(parts) == 2
        assert parts == [part for part in split_sentences(TEXT) if part in parts]
    assert transform("lead", n=1, skip=2) == "Nobody was hurt."


def test_textrank_selects_the_sentence_that_shares_most_with_the_others() -> None:
    text = "Apples grow red. Apples and pears grow red in orchards. Pears in orchards ripen. Fish swim."
    assert transform("textrank", text, n=1) == "Apples and pears grow red in orchards."


def test_textrank_ranks_sentences_as_sumy_does() -> None:
    """The expected order is that of TextRankSummarizer of sumy 0.13 on the words of these sentences."""
    parts = (
        "The river floods the valley every spring.",
        "Farmers in the valley build walls against the river.",
        "A wall costs more than a harvest.",
        "Spring floods bring mud, and mud feeds the harvest.",
        "Mud.",
        "Nobody asked the fish.",
    )
    assert _rank_by_centrality(parts).tolist() == [3, 0, 1, 2, 5, 4]


def test_template_differs_only_by_its_topic_and_random_words_are_used_by_no_agent() -> None:
    first, second = transform("template", "river river bank"), transform("template", "bread bread oven")
    assert first.replace("river", "bread") == second
    assert len(split_pieces(transform("random"))) == len(split_pieces(TEXT))
    assert not set(split_words(transform("random"))) & set(split_words(TEXT))


def test_case_bullets_repeat_clone_and_dump_transform_as_documented() -> None:
    assert transform("case", to="upper") == TEXT.upper()
    assert transform("bullets").splitlines()[2] == "- Nobody was hurt."
    assert Counter(split_words(transform("repeat", times=3))) == Counter(
        {w: 3 * n for w, n in Counter(split_words(TEXT)).items()}
    )
    assert transform("clone") == transform("dump") == TEXT


def test_steps_are_applied_in_sequence() -> None:
    steps = [Step("truncate", {"words": 3}), Step("case", {"to": "lower"}), Step("repeat")]
    assert apply_steps(TEXT, steps, np.random.default_rng(0)) == "the river rose the river rose"


@pytest.mark.parametrize(("name", "options"), [("truncate", {"words": 1}), ("random", {"n": 1})])
def test_the_smallest_number_of_words_is_one(name: str, options: dict[str, Any]) -> None:
    assert len(split_pieces(transform(name, **options))) == 1


@pytest.mark.parametrize(
    ("name", "options", "slug"),
    [
        ("reverse", {}, "unknown-transform"),
        ("truncate", {"word": 3}, "transform-option"),
        ("truncate", {"words": 0}, "transform-option"),
        ("omit", {"share": 2.0}, "transform-option"),
        ("case", {"to": "camel"}, "transform-option"),
        ("truncate", {"words": "three"}, "transform-option"),
        ("truncate", {"words": 2.5}, "transform-option"),
        ("filler", {"every": 1.5}, "transform-option"),
        ("template", {"form": 5}, "transform-option"),
        ("random", {"n": 0}, "transform-option"),
        ("random", {"n": 2.5}, "transform-option"),
    ],
)
def test_an_invalid_step_is_refused(name: str, options: dict[str, Any], slug: str) -> None:
    with pytest.raises(ConfigError, match=rf"\[{slug}\]"):
        transform(name, **options)
