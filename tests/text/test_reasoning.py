"""The answer of a reasoning model is what follows its last reasoning block; an unfinished block leaves none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youden.text.reasoning import Answer, split_reasoning, strip_leading_reasoning

HARMONY = "<|channel|>analysis<|message|>NO?<|end|><|start|>assistant"


@pytest.mark.parametrize(
    "reply",
    [
        "<think>NO</think>YES",
        "<think>\nThe label might be NO or YES. I first thought NO.\n</think>\n\nYES",
        "NO, or rather\n</think>\nYES",
        "<THINK>NO</THINK> YES",
        "<Thinking>NO</Thinking>YES",
        '<reasoning effort="high" x=1>NO</reasoning>YES',
        "< think >NO</ think >YES",
        "<thought>NO</thought>YES",
        "<reflection>NO</reflection>YES",
        "<analysis>NO</analysis>YES",
        "<seed:think>NO</seed:think>YES",
        "[THINK]NO[/THINK]YES",
        "◁think▷NO◁/think▷YES",
        "<|begin_of_thought|>NO<|end_of_thought|>YES",
        "<|START_THINKING|>NO<|END_THINKING|>YES",
        "&lt;think&gt;NO&lt;/think&gt;YES",
        "<think></think>YES",
        "<think>NO</think>NO<think>YES</think>YES",
        "<think>it says <think>, so NO</think>YES",
        "<think>it says <analysis>, so NO</think>YES",
        "<thinking>NO<reflection>NO</reflection>NO</thinking>YES",
        "<think>NO</thinking>YES",
        f"{HARMONY}<|channel|>final<|message|>YES",
        f"{HARMONY}<|channel|>final<|message|>YES<|return|>",
        f"{HARMONY}<|channel|>final <|constrain|>json<|message|>YES<|end|>",
        f"<|start|>assistant{HARMONY}<|channel|>commentary<|message|>NO<|end|><|channel|>final<|message|>YES",
        "analysisThe label is NO? They match.assistantfinalYES",
        "analysis The label is NO? They match.assistantfinalYES",
        "<longcat_think>NO</longcat_think>YES",
        "<thought_process>NO</thought_process>YES",
        "<|thinking_start|>NO<|thinking_end|>YES",
        "<|start_think|>NO<|end_think|>YES",
        "<|inner_prefix|>NO<|inner_suffix|>YES",
        "<unused94>thought\nNO<unused95>YES",
        "<|think|>NO<|/think|>YES",
        "<|thinking|>NO</|thinking|>YES",
        "[REASONING]NO[/REASONING]YES",
        "<rationale>NO</rationale>YES",
        "<chain_of_thought>NO</chain_of_thought>YES",
        "<scratch_pad>NO</scratch_pad>YES",
        "<inner_monologue>NO</inner_monologue>YES",
        "<antThinking>NO</antThinking>YES",
        "<|channel>thought\nNO<channel|>YES",
        "<|channel>thought\n<channel|>YES",
        *(
            f"<{name}>NO</{name}>YES"
            for name in ("inner_thoughts", "internal-reasoning", "self_reflection", "think_aloud")
        ),
        "```thinking\nNO\n```\nYES",
        "```Reasoning\nNO\n```\n<think>NO</think>YES",
    ],
)
def test_only_text_after_the_last_reasoning_block_is_the_answer(reply: str) -> None:
    reasoning = split_reasoning(reply)
    assert reasoning.text is not None
    assert (reasoning.text.strip(), reasoning.reasoned) == ("YES", True)


@pytest.mark.parametrize(
    "reply",
    [
        "<think>\nThe label might be NO, they look like YES at first but",
        "<think>",
        "YES <think> or NO",
        "<think>NO</think>YES<think>",
        "<thinking>NO<reflection>NO</reflection>YES",
        "[THINK]NO",
        "<|channel|>analysis<|message|>NO",
        f"{HARMONY}<|channel|>final<|message|>YES<|end|><|start|>assistant<|channel|>analysis<|message|>NO",
        f"{HARMONY}<|channel|>final",
        "<|channel|>",
        "analysisThe label is NO? YES",
        "analysisthe label is NO",
        "<unused94>thought\nNO",
        "<|think|>NO",
        "<|channel>thought\nNO",
        "<cot>NO",
        "```thinking\nNO",
        "```thinking\nNO\n```\n<think>NO",
    ],
)
def test_an_unfinished_reasoning_block_leaves_no_answer(reply: str) -> None:
    assert split_reasoning(reply) == Answer(None, reasoned=True)


@pytest.mark.parametrize(
    "reply",
    [
        "YES",
        "",
        "I think NO",
        "```text\nYES\n```",
        "<b>YES</b>",
        "analysis: YES",
        "Analysis shows NO",
        "<think/>YES",
        "1 < 2 and 3 > 2",
    ],
)
def test_a_reply_without_a_reasoning_block_is_the_answer(reply: str) -> None:
    assert split_reasoning(reply) == Answer(reply, reasoned=False)


PIECES = st.lists(st.sampled_from(["<think>", "</think>", "[/THINK]", "<analysis>", "</analysis>", "YES", "NO", " "]))


@given(PIECES)
def test_text_before_a_closing_tag_is_not_part_of_the_answer(pieces: list[str]) -> None:
    reasoning = split_reasoning("".join(pieces))
    closings = [n for n, piece in enumerate(pieces) if "/" in piece]
    remainder = "".join(pieces[closings[-1] + 1 :] if closings else pieces)
    assert reasoning.text is None or reasoning.text == remainder
    assert reasoning.text is None or not {"<think>", "<analysis>"} & set(
        pieces[closings[-1] + 1 :] if closings else pieces
    )


@given(st.text())
def test_arbitrary_text_is_parsed(text: str) -> None:
    reasoning = split_reasoning(text)
    assert reasoning.text is None or text.endswith(reasoning.text) or "<|" in text


@pytest.mark.parametrize(
    ("text", "response"),
    [
        ("<think>A.</think>\n\nB.", "B."),
        ("A.\n</think>\n\nB.", "B."),
        ("<think>A.", None),
        (f"{HARMONY}<|channel|>final<|message|>B.<|return|>", "B."),
        ("B.", "B."),
        ("Write <think>A.</think> first.", "Write <think>A.</think> first."),
        ("The tag <analysis> opens it.", "The tag <analysis> opens it."),
        ("<sentiment_analysis>B.</sentiment_analysis>", "<sentiment_analysis>B.</sentiment_analysis>"),
        ("<data-analysis>B.", "<data-analysis>B."),
        ("analysis_result = 1", "analysis_result = 1"),
        (" B. ", " B. "),
    ],
)
def test_a_generated_text_loses_only_its_leading_reasoning(text: str, response: str | None) -> None:
    assert strip_leading_reasoning(text) == response
