"""Test the decisions of a judge: what each adds to a request, and how its answer is parsed or missing."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judged import ask, dense_plan, truth
from small_pools import make_pool
from wire_server import Reply, WireServer, same_item
from youden.judging.backend_records import BACKENDS
from youden.judging.config.judge_files import load_judge_config
from youden.judging.question.label_reading import find_label
from youden.judging.question.parsing import (
    MAX_TOTAL_PROBABILITY,
    Decision,
    compute_label_probabilities,
    find_unique_label,
    read_answer,
)
from youden.judging.question.prompts import load_prompt
from youden.types import Completion

SAME = load_prompt("same-source")
GAIN = load_prompt("information-gain")
POOL = make_pool(3, 4)
PLAN = dense_plan(POOL)


def completion_of(
    text: str, *, odds: dict[str, float] | None = None, finish: str = "stop", refusal: str | None = None
) -> Completion:
    top = tuple((token, math.log(share)) for token, share in (odds or {}).items())
    return Completion(text, finish, "m", 1, 1, refusal=refusal, top_logprobs=top)


@pytest.mark.parametrize(
    ("decision", "answer", "texts"),
    [
        ("text", 1, ["YES", "yes", " Yes.\n", "**YES**", '"Yes"', "Answer: YES", "Yes, they are.", "YES: yes."]),
        ("text", 0, ["NO", "no!", "The answer is NO.", "No: these differ.", "NO, they are not from yesterday."]),
        (
            "text",
            1,
            ["# YES", "> YES", "`YES`", "- yes", "1. YES", "(1) **Yes**.", "“Yes”", "ＹＥＳ。", "✅ YES", "\ufeffYES"],
        ),
        (
            "text",
            1,
            [
                "**YES**\nThere is no doubt.",
                "No, I mean:\n\n> yes\n",
                "Yes\nNo doubt, so:\nYES",
                "***\nYES\nno?\n\n---\n\n**yes**\n***",
            ],
        ),
        ("json", 1, ['{"answer": "YES"}', '\ufeff{"answer": "YES", "p": NaN}']),
        ("json", 1, ['{"why": "two\nlines", "answer": "YES"}', '{"p": 1, "p": 2, "answer": "YES"}']),
        ("json", 1, ['```json\n{"answer": "YES"}\n```', '```\n{"answer": "Yes."}\n```\n', '{"answer": " yes "}']),
        ("json", 0, [' {"answer":"NO"}\n', '{"answer": "NO", "why": "x"}']),
    ],
)
def test_a_label_is_read_in_any_formatting(decision: Decision, answer: float, texts: list[str]) -> None:
    assert {text: read_answer(completion_of(text), SAME, decision=decision).answer for text in texts} == dict.fromkeys(
        texts, answer
    )


UNPARSED: dict[Decision, list[Completion]] = {
    "text": [
        *map(
            completion_of,
            ("", "Maybe", "Yes, there is no doubt", "yes and no", "NOTHING", "YESTERDAY", "eyes", "是", "YES or NO"),
        ),
        *map(
            completion_of,
            ("Not NO but YES", "YES? On reflection: NO", "Yes. They are about one source; NO doubt.", "YES\nor\nNO"),
        ),
        *map(
            completion_of,
            ("No, they differ. (YES would mean the same source)", "No doubt about it: YES.", "***\nYES\n\nno?"),
        ),
        *map(completion_of, ("Answer: Yes\n\nReason: an answer NO would need different topics", "YES\nNO")),
        *map(
            completion_of, ("YES?", "**Yes**?", "YES (?)", "Is it YES?", "OUI ?", "YES: 0.2", "P(YES) = 0.3", "Yes-ish")
        ),
    ],
    "json": [
        *map(completion_of, ("YES", '{"answer": "MAYBE"}', '{"answer": true}', "[]", '{"no": "YES"}', "", '"YES"')),
        *map(
            completion_of,
            ('{"answer": "YES", "answer": "NO"}', 'NO {"answer": "YES"}', '{"answer": "YES"}{"answer": "NO"}'),
        ),
        completion_of('{"answer": "YES?"}'),
        completion_of('```json\n{"answer": "YES"}\n```\n```json\n{"answer": "NO"}\n```'),
    ],
    "logprobs": [
        completion_of("YES"),
        completion_of("YES", odds={"The": 0.9}),
        completion_of("The", odds={"The": 0.9, "YES": 0.1}),
        completion_of("YES", odds={"NO": 0.9, "YES": 0.05}),
        completion_of("Yes", odds={"The": 0.6, " no": 0.2, "Yes": 0.1}),
    ],
}


@pytest.mark.parametrize(
    ("decision", "completion", "missing"),
    [
        *((decision, entry, "unparsed") for decision, many in UNPARSED.items() for entry in many),
        ("text", completion_of("", refusal="I cannot help."), "refused"),
        ("text", completion_of("I think YES", finish="content_filter"), "refused"),
        ("text", completion_of("The two YES", finish="length"), "truncated"),
        ("json", completion_of('{"answer": "Y', finish="length"), "truncated"),
    ],
)
def test_a_reply_without_a_label_is_missing_and_never_a_no(
    decision: Decision, completion: Completion, missing: str
) -> None:
    reading = read_answer(completion, SAME, decision=decision)
    assert (reading.missing_reason, math.isnan(reading.answer), math.isnan(reading.hard_answer)) == (
        missing,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        *((finish, "truncated") for finish in ("MAX_TOKENS", "max_tokens", "model_length", "abort", "pause_turn")),
        ("model_context_window_exceeded", "truncated"),
        *((finish, "refused") for finish in ("SAFETY", "content_filter: RECITATION", "sensitive")),
        *((finish, "answered") for finish in ("stop", "STOP", "end_turn", "eos", "unknown")),
    ],
)
def test_a_label_in_a_sentence_counts_only_if_the_reply_is_complete(finish: str, reason: str) -> None:
    assert read_answer(completion_of("They seem alike at first, so YES", finish=finish), SAME).missing_reason == reason


@pytest.mark.parametrize("end", ["<|im_end|>", "<|eot_id|>", "</s>", "<end_of_turn>", "\n<｜end▁of▁sentence｜>"])
@pytest.mark.parametrize(("decision", "text"), [("text", "Yes"), ("json", '{"answer": "YES"}'), ("logprobs", "YES")])
def test_text_after_the_end_of_a_turn_is_not_read(decision: Decision, text: str, end: str) -> None:
    for rest, finish in (("", "stop"), ("\n<|im_start|>assistant\nNO", "stop"), ("user\nIs it NO", "length")):
        completion = completion_of(text + end + rest, odds={"YES": 1.0}, finish=finish)
        assert read_answer(completion, SAME, decision=decision).answer == 1
    assert read_answer(completion_of(f"{end}NO"), SAME).answer == 0


def test_a_complete_label_counts_although_the_reply_ended_by_length() -> None:
    assert read_answer(completion_of("YES", finish="length"), SAME).missing_reason == "answered"


def test_no_gain_is_not_parsed_as_significant_gain() -> None:
    texts = ("NO GAIN", "little  gain", "SIGNIFICANT\nGAIN", "gain")
    np.testing.assert_array_equal(
        [read_answer(completion_of(text), GAIN).answer for text in texts], [0, 0.25, 1, np.nan]
    )
    assert [read_answer(completion_of(text), GAIN).hard_answer for text in texts[:3]] == [0, 0, 1]


def test_log_probabilities_give_p_yes_and_do_not_change_the_hard_decision() -> None:
    reading = read_answer(
        completion_of("NO", odds={"NO": 0.6, "YES": 0.2, " yes": 0.1, "Not": 0.1}), SAME, decision="logprobs"
    )
    assert reading.answer == pytest.approx(0.3 / 0.9)
    assert reading.hard_answer == 0
    sure = read_answer(completion_of("YES", odds={"YES": 1.0}), SAME, decision="logprobs")
    assert (sure.answer, sure.hard_answer) == (1, 1)


def test_a_token_that_is_listed_twice_counts_once() -> None:
    listed_twice = completion_of("YES", odds={"YES": 0.7, "NO": 0.2})
    listed_twice = replace(listed_twice, top_logprobs=listed_twice.top_logprobs[:1] + listed_twice.top_logprobs)
    assert read_answer(listed_twice, SAME, decision="logprobs").answer == pytest.approx(0.7 / 0.9)


def test_log_probabilities_of_more_than_one_in_sum_are_missing() -> None:
    placeholders = completion_of("YES", odds={"YES": 1.0, "NO": 1.0})
    assert read_answer(placeholders, SAME, decision="logprobs").missing_reason == "unparsed"


def test_the_first_token_of_an_explanation_is_not_an_answer() -> None:
    odds = {"Both": 0.98, "The": 0.015, " Yes": 0.004, "No": 0.001}
    explained = completion_of("Both texts describe a flood. The dates differ.\nNO", odds=odds)
    assert read_answer(explained, SAME, decision="logprobs").missing_reason == "unparsed"
    assert read_answer(explained, SAME).hard_answer == 0


def test_a_reply_that_begins_with_a_label_counts_despite_unrestricted_probabilities() -> None:
    """A grammar of llama.cpp or vLLM restricts the reply, but not the log-probabilities that are returned."""
    odds = {"The": 0.144, "Both": 0.092, "Yes": 0.049, "No": 0.032}
    for text in ("Y", "**Yes**", "YES\n"):
        restricted = completion_of(text, odds=odds, finish="length")
        assert read_answer(restricted, SAME, decision="logprobs").answer == pytest.approx(0.049 / 0.081)
    assert (
        read_answer(completion_of("Yes", odds={"The": 0.144}), SAME, decision="logprobs").missing_reason == "unparsed"
    )


def test_a_sampled_label_need_not_be_the_likeliest() -> None:
    completion = completion_of("YES", odds={"NO": 0.9, "YES": 0.1})
    assert read_answer(completion, SAME, decision="logprobs").missing_reason == "unparsed"
    assert read_answer(completion, SAME, decision="logprobs", is_sampled=True).answer == pytest.approx(0.1)


def test_the_likeliest_token_decides_even_if_its_label_does_not_have_the_largest_sum() -> None:
    for odds in ({"YES": 0.4, "NO": 0.3, " no": 0.3}, {"NO": 0.5, "YES": 0.5}):
        assert read_answer(completion_of("YES", odds=odds), SAME, decision="logprobs").hard_answer == 1


def test_grades_are_weighted_by_the_odds_of_the_first_tokens_of_their_labels() -> None:
    odds = {"SIGN": 0.5, "LIT": 0.4, "NO": 0.1}
    reading = read_answer(completion_of("SIGN", odds=odds, finish="length"), GAIN, decision="logprobs")
    assert reading.answer == pytest.approx(0.5 + 0.25 * 0.4)
    assert reading.hard_answer == 1


@pytest.mark.parametrize(
    ("token", "labels", "label"),
    [
        ("Y", ("YES", "NO"), "YES"),
        (" no", ("YES", "NO"), "NO"),
        ("**No", ("YES", "NO"), "NO"),
        ("Not", ("YES", "NO"), None),
        ("Yesterday", ("YES", "NO"), None),
        (" ", ("YES", "NO"), None),
        ("N", ("NO", "NOT AT ALL"), None),
        ("NO", ("NO", "NOT AT ALL"), "NO"),
    ],
)
def test_a_token_counts_for_the_only_label_that_it_begins(
    token: str, labels: tuple[str, ...], label: str | None
) -> None:
    assert find_unique_label(token, labels) == label


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_parsing_never_raises_and_returns_a_grade_or_none(text: str) -> None:
    reading = read_answer(completion_of(text), SAME)
    assert (reading.missing_reason == "answered") == (reading.answer in (0, 1))


WORDS = ["YES", "yes", "Yes.", "**Yes**", "NO:", "no.", "No,", "perhaps", "nothing", "yesterday", "\n", "\n\n"]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(WORDS), max_size=8))
def test_an_answer_with_two_labels_is_missing_unless_a_first_or_last_line_is_a_label(words: list[str]) -> None:
    """Compared with a naive implementation of the rule."""
    text = " ".join(words)
    lines = [[word.strip("*.,:").upper() for word in line.split()] for line in text.splitlines() if line.strip()]
    labels = {word for line in lines for word in line} & {"YES", "NO"}
    alone = {line[0] for line in (*lines[:1], *lines[-1:]) if len(line) == 1} & {"YES", "NO"}
    *_, word_before, last_word = ["", "", *text.split()]
    is_statement = word_before == "perhaps" or word_before.endswith((".", ",", ":", "*")) or last_word.startswith("*")
    is_retracted = is_statement and bool({last_word.strip("*.,:").upper()} & labels - alone)
    expected = labels if len(labels) == 1 else alone if len(alone) == 1 and not is_retracted else {None}
    assert {find_label(text, SAME.labels)} == expected


@pytest.mark.parametrize(
    ("labels", "text", "label"),
    [
        (("SIGNIFICANT GAIN", "LITTLE GAIN", "NO GAIN"), "There is little\n gain here.", "LITTLE GAIN"),
        (("SIGNIFICANT GAIN", "LITTLE GAIN", "NO GAIN"), "NO GAIN.\nNot even little gain.", "NO GAIN"),
        (("SIGNIFICANT GAIN", "LITTLE GAIN", "NO GAIN"), "Not no gain, but little gain", None),
        (("GAIN", "NO GAIN"), "I see no gain.", "NO GAIN"),
        (("是", "否"), "答案：是。", "是"),
        (("是", "否"), "是\n否则不同。", "是"),
        (("ДА", "НЕТ"), "Да, это так.", "ДА"),
        (("ДА", "НЕТ"), "Да, а не «нет».", None),
        (("1", "2"), "1.", "1"),
        (("1", "2"), "1. 2", None),
        (("A+", "A-"), "A-", "A-"),
        (("A+", "A-"), "**A+**", "A+"),
        (("SIGNIFICANT", "NONE"), "sıgnıfıcant", "SIGNIFICANT"),
        (("0", "1"), "0.5", None),
        (("0", "1"), "Score: 0,75", None),
        (("0", "1"), "I give it a 1.", "1"),
        (("1", "-1"), "\N{MINUS SIGN}1", "-1"),
        (("1", "0"), "-1", None),
        (("ใช่", "ไม่"), "ไม่ใช่", None),
        (("ใช่", "ไม่"), "ไม่", "ไม่"),
        (("YES", "NO"), "Yes,2 reasons: no", None),
        (("1", "2"), "1-2", None),
        (("0", "0.5", "1"), "0.5", "0.5"),
        (("1", "0", "-1"), "**-1**", "-1"),
        (("1", "0"), "- 1", "1"),
        (("YES", "NO"), "✔\ufe0fYES", "YES"),
        (("YES", "NO"), "Not sure, but YES", "YES"),
        (("YES", "NO"), "They don't match, so the answer is NO", "NO"),
        (("YES", "NO"), "No they differ", "NO"),
        (("A", "B", "TIE"), "I prefer A for its style", "A"),
        (("A", "B", "TIE"), "A is better.", "A"),
        (("FIRST", "SECOND", "TIE"), "The first response is better.", "FIRST"),
        (("FIRST", "SECOND", "TIE"), "I choose the second, clearly.", "SECOND"),
        (("FIRST", "SECOND", "TIE"), "Second, because it cites sources", "SECOND"),
        (("FIRST", "SECOND", "TIE"), "First based on its length", "FIRST"),
        (("YES", "NO"), "No, given the style", "NO"),
        (("YES", "NO"), "No based on the style", "NO"),
        (("FIRST", "SECOND", "TIE"), "Neither response is better\nTIE", "TIE"),
        (("YES", "NO"), "No\n\nResponse 1 concerns a flood.", "NO"),
        (("YES", "NO"), "Answer: No\nReasoning: different events", "NO"),
        (("YES", "NO"), "No but they overlap", "NO"),
        (("YES", "NO"), "They do not match\nAnswer NO", "NO"),
        (("A", "B", "TIE"), "A provides more detail.", "A"),
        (("A", "B", "TIE"), "Verdict: A\nreason: it is clearer", "A"),
        (("A", "B", "TIE"), "B is a better response.", "B"),
        (("A", "B", "TIE"), "B is worse.", None),
        (("A", "B", "TIE"), "Response A lacks detail.", None),
        (("FIRST", "SECOND", "TIE"), "The first response is not better.", None),
        (("FIRST", "SECOND", "TIE"), "The second isn't.\nFIRST", "FIRST"),
        (("YES", "NO"), "YES is incorrect.", None),
        (("YES", "NO"), "The answer is YES only if both name a ferry.", None),
        (("YES", "NO"), "It is impossible to say YES here.", None),
        (("YES", "NO"), '{"YES": false}', None),
        (("YES", "NO"), "Yes, if I am not wrong.", "YES"),
        (("YES", "NO"), "YES is my answer", "YES"),
        (("YES", "NO"), "[x] YES\n[ ] NO", "YES"),
        (("YES", "NO"), "- [ ] YES\n- [x] NO", "NO"),
        (("YES", "NO"), "☐ YES\n☑ NO", "NO"),
        (("YES", "NO"), "1. [ ] YES\n2. [x] NO", "NO"),
        (("YES", "NO"), "YES [ ]\nNO [x]", "NO"),
        (("YES", "NO"), "( ) YES\n(x) NO", "NO"),
        (("YES", "NO"), "Both return [] for an empty list. YES", "YES"),
        (("YES", "NO"), "They do not share a date and therefore the answer is NO", "NO"),
        (("SAME", "DIFFERENT"), "They are not so different", None),
        (("SAME", "DIFFERENT"), "The texts are not identical but concern the same event.", "SAME"),
        (("SAME", "DIFFERENT"), "They are far from the same.", None),
        (("YES", "NO"), "Anything but YES", None),
        (("A", "B", "TIE"), "B did not answer.", None),
        (("A", "B", "TIE"), "The worse response is B.", None),
        (("A", "B", "TIE"), "B is the loser.", None),
        (("A", "B", "TIE"), "B is hardly better.", None),
        (("YES", "NO"), "NO hardly any overlap", "NO"),
        (("YES", "NO"), "There is hardly any reason to say YES", None),
        (("A", "B", "TIE"), "The incorrect response is B.", None),
        (("YES", "NO"), "It would be incorrect to say YES.", None),
        (("YES", "NO"), "One text lacks a date and I say NO", "NO"),
        (("A", "B", "TIE"), "A is less detailed.", None),
        (("A", "B", "TIE"), "The other one is better than A.", None),
        (("YES", "NO"), "YES: 0 contradictions were found.", "YES"),
        (("1", "2", "3", "4", "5"), "4/5", "4"),
        (("1", "2", "3", "4", "5"), "Score: **4**/5", "4"),
        (("1", "2", "3", "4", "5"), "Score: 4 out of 5 stars", "4"),
        (("1", "2", "3", "4", "5"), "On a scale of 1 to 5: 4", "4"),
        (("1", "2", "3", "4", "5"), "4.5/5", None),
        (("1", "2", "3", "4", "5"), "3/10", None),
        (("1", "2", "3", "4", "5"), "4 out of 5 claims match", None),
        (("1", "2"), "1/2", None),
        (("A", "B", "TIE"), "It's a TIE.", "TIE"),
        (("A", "B", "TIE"), "a better than b", None),
        (("A", "B", "TIE"), "A better than B", None),
    ],
)
def test_labels_of_any_form_are_parsed(labels: tuple[str, ...], text: str, label: str | None) -> None:
    assert find_label(text, labels) == label


@pytest.mark.parametrize(
    ("labels", "texts"),
    [
        (("YES", "NO"), ["No doubt they match.", "There is no way to tell.", "I have no idea", "I would not say yes."]),
        (("SAME", "DIFFERENT"), ["They are not the same.", "They aren't the “same”", "Neither seems different"]),
        (("SAME", "DIFFERENT"), ["They do not seem to be about the same event", "They are no different"]),
        (("A", "B", "TIE"), ["This is a hard question.", "A given text has no style.", "It is not a tie."]),
        (("I", "II"), ["I think they are equal.", "I'd need more"]),
        (("FIRST", "SECOND", "TIE"), ["First, both are correct.", "First of all, they are equal"]),
        (("FIRST", "SECOND", "TIE"), ["At first glance, both are equal"]),
    ],
)
def test_a_negated_label_or_an_ordinary_word_is_not_an_answer(labels: tuple[str, ...], texts: list[str]) -> None:
    assert {text: find_label(text, labels) for text in texts} == dict.fromkeys(texts)


RETRACTIONS = (
    *(
        "Wait, NO",
        "Actually, NO.",
        "Hmm, actually no, they differ",
        "On second thought, they differ.",
        "Sorry, I meant NO.",
    ),
    *(
        "No, wait.",
        "Oh no, that is wrong.",
        "I was wrong; NO.",
        "Final answer: NO",
        "The correct answer is NO.",
        "Attendez, NO",
    ),
    *("Let me reconsider: the dates differ.", "On reflection, I am not sure.", "I cannot determine this."),
)
REFUSALS = (
    *(
        "No, I can't answer that",
        "No, I cannot compare these",
        "No. I’m unable to help with that.",
        "NO, I won't answer.",
    ),
    *(
        "No, as an AI language model I cannot judge this.",
        "No, I don't know.",
        "No, I refuse.",
        "No\nIt cannot be determined.",
    ),
    *(
        "No, it is impossible to tell.",
        "No - cannot determine.",
        "No, not enough information.",
        "Yes, I can help with that!",
    ),
)
ORDINARY_COMPOUNDS = ("It's a no-brainer.", "No-one can say.", "Both concern Chanel No. 5.")


@pytest.mark.parametrize("text", [*(f"YES\n{end}" for end in RETRACTIONS), *REFUSALS, *ORDINARY_COMPOUNDS])
def test_a_retracted_label_or_a_refusal_is_not_an_answer(text: str) -> None:
    assert find_label(text, ("YES", "NO")) is None


@pytest.mark.parametrize(
    ("labels", "label", "texts"),
    [
        (("YES", "NO"), "YES", ["YES\nBoth wait for a ferry. The wait was long.", "YES\nI can't tell them apart."]),
        (("YES", "NO"), "YES", ["YES\nBoth say that it is wrong to steal.", "YES\nThe answer is not NO."]),
        (("YES", "NO"), "NO", ["No, I can't see any overlap.", "No, they can't match.", "No, actually they differ."]),
        (
            ("YES", "NO"),
            "NO",
            ["No, not enough overlap.", "Wait, the dates differ. NO", "No, I don't know of any overlap."],
        ),
        (("A", "B", "TIE"), "A", ["A\nB is vague.", "A\nIt is clearer than B.", "A\nThe date is missing in B."]),
        (("A", "B", "TIE"), "A", ['A\nB says "I cannot help with that".', "A\nB cannot answer the question."]),
        (("FIRST", "SECOND", "TIE"), "FIRST", ["FIRST\nThe second response is vague."]),
    ],
)
def test_an_explanation_does_not_retract_its_label(labels: tuple[str, ...], label: str, texts: list[str]) -> None:
    assert {text: find_label(text, labels) for text in texts} == dict.fromkeys(texts, label)


def test_a_long_reply_without_an_answer_is_missing() -> None:
    text = f"not {'_ ' * 200}. {'This is a hard question. ' * 20_000}"
    assert find_label(text, ("A", "B", "TIE")) is None
    assert find_label(text.replace("a hard", "no hard"), ("YES", "NO")) is None
    assert find_label("YES" + "." * 9_000 + "\n" * 9_000 + "no. " * 9_000 + "?", ("YES", "NO")) is None


THOUGHT = "<think>\nThe label might be NO or YES. I first thought NO.\n</think>\n\n"
UNFINISHED = "<think>\nThe label might be NO, they look like YES at first but"


@pytest.mark.parametrize(
    ("decision", "text", "odds", "answer"),
    [
        ("text", f"{THOUGHT}Yes", None, 1),
        ("text", f"They say NO.</think>{THOUGHT}**Yes**", None, 1),
        ("text", f"{THOUGHT}Not sure: yes or no", None, None),
        ("json", THOUGHT + '{"answer": "YES"}', None, 1),
        ("json", '{"answer": "YES", "why": "the text ends in <think>"}', None, 1),
        ("logprobs", f"{THOUGHT}YES", {"YES": 0.9, "NO": 0.1}, 0.9),
        ("logprobs", f"{THOUGHT}YES", {"<think>": 0.9, "YES": 0.01, "NO": 0.09}, None),
        ("logprobs", f"{THOUGHT}YES", None, None),
    ],
)
def test_inline_reasoning_is_not_read(
    decision: Decision, text: str, odds: dict[str, float] | None, answer: float | None
) -> None:
    reading = read_answer(completion_of(text, odds=odds), SAME, decision=decision)
    assert reading.missing_reason == ("unparsed" if answer is None else "answered")
    assert reading.answer == (pytest.approx(answer) if answer is not None else pytest.approx(math.nan, nan_ok=True))


@pytest.mark.parametrize("decision", ["text", "json", "logprobs"])
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_unfinished_reasoning_has_a_reason_of_its_own(decision: Decision, finish: str) -> None:
    odds = {"YES": 0.9, "NO": 0.1}
    reading = read_answer(completion_of(UNFINISHED, finish=finish, odds=odds), SAME, decision=decision)
    assert (reading.missing_reason, math.isnan(reading.hard_answer)) == ("unfinished_reasoning", True)
    assert (
        read_answer(completion_of(UNFINISHED, finish="content_filter"), SAME, decision=decision).missing_reason
        == "refused"
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["YES", "NO", "y", "x", ""]), st.floats(-30, 0)), max_size=6))
def test_odds_are_fractions_or_none(top: list[tuple[str, float]]) -> None:
    odds = compute_label_probabilities(top, ("YES", "NO"))
    probabilities = [(token, math.exp(logprob)) for token, logprob in set(top)]
    total = math.fsum(probability for token, probability in probabilities if token in ("YES", "NO", "y"))
    is_possible = math.fsum(probability for _, probability in probabilities) <= MAX_TOTAL_PROBABILITY
    assert (odds is None) == (total < 0.5 or not is_possible)
    if odds is not None:
        assert math.fsum(odds.values()) == pytest.approx(1)
        assert min(odds.values()) >= 0


@pytest.mark.parametrize("backend", [name for name, completion in BACKENDS.items() if completion.batches])
@pytest.mark.parametrize("decision", ["text", "json", "logprobs"])
async def test_each_decision_is_requested_and_read_back(tmp_path: Path, backend: str, decision: str) -> None:
    def behave(_n: int, body: Any) -> Reply:
        label = same_item(body)
        if decision == "json":
            schema = body["response_format"]["json_schema"]["schema"]
            assert schema["properties"]["answer"]["enum"] == ["YES", "NO"]
            assert body["messages"][-1]["content"].endswith('{"answer":"YES"} or {"answer":"NO"}.')
            assert body["max_tokens"] == 32
            return Reply(f'{{"answer": "{label}"}}')
        if decision == "logprobs":
            assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 5, 1)
            odds = {label: 0.9, "NO" if label == "YES" else "YES": 0.1}
            top = [{"token": token, "logprob": math.log(share)} for token, share in odds.items()]
            return Reply(label, logprobs={"content": [{**top[0], "top_logprobs": top}]})
        assert not {"logprobs", "response_format"} & body.keys()
        return Reply(label)

    async with WireServer(behave) as server:
        result = await ask(PLAN, POOL, server.url, tmp_path / "v.db", backend=backend, decision=decision)
    yes = truth(PLAN)
    np.testing.assert_array_equal(result.hard_answer, yes)
    np.testing.assert_allclose(result.answer, np.where(yes == 1, 0.9, 0.1) if decision == "logprobs" else yes)
    parser = {"text": "label/7", "json": "json/6", "logprobs": "logprobs/7"}[decision]
    assert (result.judge["decision"], result.judge["parser"]) == (decision, parser)


def test_the_decision_is_part_of_the_signature() -> None:
    plain, json = (
        load_judge_config({"backend": "wire", "model": "m", "decision": completion}) for completion in ("text", "json")
    )
    assert plain.describe() != json.describe()
    for completion in (plain, json):
        assert load_judge_config(completion.public()).describe() == completion.describe()
