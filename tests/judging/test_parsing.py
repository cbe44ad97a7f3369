"""How a raw answer is read, and what is missing rather than guessed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from youden.judging.question.parsing import find_label, read_answer
from youden.judging.question.prompts import load_prompt
from youden.nouns import Completion

SAME = load_prompt("same-source")
GAIN = load_prompt("information-gain")


def said(text: str, *, finish: str = "stop", refusal: str | None = None) -> Completion:
    return Completion(text, finish, "m", 1, 1, refusal=refusal)


@pytest.mark.parametrize(
    "text", ["YES", "yes", " Yes.\n", "**YES**", '"Yes"', "Answer: YES", "Not NO but YES", "Yes, they are."]
)
def test_a_yes_is_a_yes_however_it_is_dressed(text: str) -> None:
    assert read_answer(said(text), SAME).answer == 1


@pytest.mark.parametrize("text", ["NO", "no!", "The answer is NO.", "YES? On reflection: NO", "No: these differ."])
def test_a_no_is_a_no(text: str) -> None:
    assert read_answer(said(text), SAME).answer == 0


@pytest.mark.parametrize(
    "text", ["", "Maybe", "Yes, there is no doubt", "yes and no", "NOTHING", "YESTERDAY", "eyes", "是"]
)
def test_what_settles_on_no_label_is_missing_and_never_a_no(text: str) -> None:
    reading = read_answer(said(text), SAME)
    assert reading.missing == "unparsed"
    assert math.isnan(reading.answer)
    assert math.isnan(reading.hard)


def test_no_gain_is_not_taken_for_significant_gain() -> None:
    grades = {
        text: read_answer(said(text), GAIN).answer for text in ("NO GAIN", "little  gain", "SIGNIFICANT\nGAIN", "gain")
    }
    assert grades["NO GAIN"] == 0
    assert grades["little  gain"] == 0.25
    assert grades["SIGNIFICANT\nGAIN"] == 1
    assert math.isnan(grades["gain"])
    assert read_answer(said("LITTLE GAIN"), GAIN).hard == 1


@pytest.mark.parametrize(
    ("completion", "missing"),
    [
        (said("", refusal="I cannot help."), "refused"),
        (said("I think YES", finish="content_filter"), "refused"),
        (said("The two YES", finish="length"), "truncated"),
        (said("YES", finish="length"), "answered"),
    ],
)
def test_refused_and_cut_off_answers_are_kept_as_what_they_are(completion: Completion, missing: str) -> None:
    assert read_answer(completion, SAME).missing == missing


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_reading_never_fails_and_gives_a_grade_or_nothing(text: str) -> None:
    reading = read_answer(said(text), SAME)
    assert (reading.missing == "answered") == (reading.answer in (0, 1))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["YES", "NO", "perhaps", "so"]), max_size=8))
def test_the_last_label_as_written_wins(words: list[str]) -> None:
    labels = [word for word in words if word in SAME.labels]
    assert find_label(", ".join(words), SAME.labels) == (labels[-1] if labels else None)
