"""Separate a reasoning model's answer from reasoning that its server left in the text.

Servers without a reasoning parser return both in one text: `<think>…</think>` and its variants, or the channels of
OpenAI's harmony format. Nothing inside a block is part of the answer, and a block that does not end leaves no
answer at all.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = (
    r"(?:[\w-]+:)?(?:(?:inner|internal|my|self)[_-])?((?:ant)?think(?:ing)?|(?!(?:begin|start|end|no)_)[a-z]+_think|thoughts?|reason(?:ing)?|reflection|analysis|"
    r"scratch_?pad|rationale|deliberation|cot|chain[_-]of[_-]thought|monologue)(?:[_-](?:aloud|content|process|steps?|fast|faster))?"
)
_LESS_THAN, _GREATER_THAN = r"(?:<\|?|&lt;)", r"(?:>|&gt;)"
_TAG = re.compile(
    "|".join(
        (
            rf"{_LESS_THAN}\s*(/?)\|?\s*{_NAME}(?:\s[^<>]*)?\|?(?<!/){_GREATER_THAN}",
            r"\[(/?)(THINK|THINKING|REASONING)\]",
            r"<\|(channel)>",
            r"(<)(channel)\|>",
            r"◁(/?)(think)▷",
            r"<\|(begin|start|end)_(?:of_)?(think|thinking|thought)\|>",
            r"<\|(THINK|THINKING)_(START|END)\|>",
            r"<\|inner_(prefix|suffix)\|>",
            r"<unused(9[45])>",
        )
    ),
    re.IGNORECASE,
)
_CLOSES = {"/", "end", "<", "suffix", "95"}
"""Parts of a tag by which it closes a block, such as "95": Gemma opens one with <unused94> and closes it with <unused95>."""
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]*(?:<\|(?!message)[^|]*\|>[^<]*)*<\|message\|>", re.IGNORECASE)
_END_OF_MESSAGE = re.compile(r"<\|(?:end|return|call|start)\|>.*", re.IGNORECASE | re.DOTALL)
_ANY_CHANNEL = re.compile(r"<\|channel\|>", re.IGNORECASE)
_BARE_ANALYSIS = re.compile(r"\s*analysis(?:(?=[^\W\d_]|[\"'])|.*assistantfinal)", re.DOTALL)
_BARE_FINAL = "assistantfinal"
_CODE_BLOCK = re.compile(
    r"\s*```(?:think(?:ing)?|thoughts?|reasoning)[ \t]*\n.*?(?:^```|\Z)", re.DOTALL | re.IGNORECASE | re.MULTILINE
)


class Answer(NamedTuple):
    """The part of a reply that answers.

    Attributes
    ----------
    text : str or None
        What follows the last reasoning block; the whole reply if it has none; None if a block is not finished.
    reasoned : bool
        Whether the reply contains reasoning.
    """

    text: str | None
    reasoned: bool


def split_reasoning(reply: str) -> Answer:
    """Find the answer in a reply that may contain reasoning.

    Parameters
    ----------
    reply : str
        A model's reply. An opening tag may be missing, because some servers put it into the prompt.

    Returns
    -------
    Answer
        `text` is the text after the last reasoning block: the whole reply if there is no block, and None if a block is not
        finished. `reasoned` states whether the reply contains reasoning.

    Examples
    --------
    >>> split_reasoning("<think>NO? They share a ferry.</think>\\n\\nYes")
    Answer(text='\\n\\nYes', reasoned=True)
    >>> split_reasoning("<think>The label might be NO")
    Answer(text=None, reasoned=True)
    >>> split_reasoning("<|channel|>analysis<|message|>NO?<|end|><|start|>assistant<|channel|>final<|message|>Yes<|return|>")
    Answer(text='Yes', reasoned=True)
    >>> split_reasoning("Yes")
    Answer(text='Yes', reasoned=False)
    """
    if _ANY_CHANNEL.search(reply):
        return _after_channels(reply)
    if _BARE_ANALYSIS.match(reply):
        _, separator, answer = reply.rpartition(_BARE_FINAL)
        return Answer(answer if separator else None, reasoned=True)

    code_block = _CODE_BLOCK.match(reply)
    if code_block is not None:
        text_after_block = split_reasoning(reply[code_block.end() :]).text
        return Answer(text_after_block if code_block[0].endswith("```") else None, reasoned=True)

    open_names: list[str] = []
    end = None
    reasoned = False
    for tag in _TAG.finditer(reply):
        reasoned = True
        name = _tag_name(tag)
        if _is_opening(tag):
            open_names.append(name)
            continue
        # a closing tag ends the outermost open block of its name, and all blocks in it; without such a block, all open blocks
        open_names = open_names[: open_names.index(name)] if name in open_names else []
        end = tag.end()

    if open_names:
        return Answer(None, reasoned=True)
    return Answer(reply[end:], reasoned)


def strip_leading_reasoning(text: str) -> str | None:
    """Return a generated text without the reasoning that it begins with; None if the reasoning is not finished.

    Reasoning is text that a model writes before its answer, in tags such as <think> or in separate channels. A text that does
    not begin with reasoning is returned unchanged, even if it contains tags.

    Examples
    --------
    >>> strip_leading_reasoning("<think>A ferry.</think>\\n\\nThe ferry was late.")
    'The ferry was late.'
    >>> strip_leading_reasoning("Write <think> first.")
    'Write <think> first.'
    """
    answer = split_reasoning(text)
    if not answer.reasoned or not _begins_with_reasoning(text):
        return text
    return None if answer.text is None else answer.text.strip()


def _begins_with_reasoning(text: str) -> bool:
    """Return whether a text begins with reasoning. If not, other words come before the reasoning.

    Other words come first only if the first tag is an opening one with words before it. Words before a closing tag are reasoning
    whose opening tag is missing. A text with channels, which mark reasoning in another way, always begins with reasoning.

    text : text that contains reasoning, according to `split_reasoning`
    """
    if _ANY_CHANNEL.search(text):
        return True
    first_tag = _TAG.search(text)
    if first_tag is None or not _is_opening(first_tag):  # without an opening tag, the reasoning begins with the text
        return True
    text_before_tag = text[: first_tag.start()].strip()
    return not text_before_tag


def _tag_name(tag: re.Match[str]) -> str:
    """Return the name of a tag in lower case, such as "think", which is its last group."""
    groups = [group for group in tag.groups() if group is not None]
    return groups[-1].casefold()


def _is_opening(tag: re.Match[str]) -> bool:
    """Return whether a tag begins a block of reasoning, rather than ending it."""
    return not any((group or "").casefold() in _CLOSES for group in tag.groups())


def _after_channels(reply: str) -> Answer:
    """Return the answer in OpenAI's harmony format: the message of the last channel, if this is the channel `final`."""
    channels = [*_CHANNEL.finditer(reply)]
    last = channels[-1] if channels else None
    if last is None or last[1].casefold() != "final" or _ANY_CHANNEL.search(reply, last.end()):
        return Answer(None, reasoned=True)
    message = _END_OF_MESSAGE.sub("", reply[last.end() :])
    return Answer(message, reasoned=True)
