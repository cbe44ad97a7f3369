"""Small pieces of sentences: numbers, intervals, quotes, lists, what a mistyped name may have meant; and where a text can be cut.

An interval never looks like a point, and items never stand without how many of them were compared. Cutting sees end marks, line
breaks and scripts without spaces; an abbreviation before a capital letter ends a sentence too.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import regex

from youden.text.printable import printable

_ACTING = regex.compile(r"([\\`*_{}\[\]<>()#+!|~@&$])")


def quoted(text: str) -> str:
    """Other people's text so that Markdown shows it as it is, on one line.

    >>> quoted("a|b <i> @all")
    'a\\\\|b \\\\<i\\\\> \\\\@all'
    """
    return _ACTING.sub(r"\\\1", printable(text))


def near(name: str, known: Sequence[str], *, most: int = 10) -> str:
    """The nearest of `known`, where one is near, and the first `most` of them.

    >>> near("gpt4", ["gpt-4", "llama"]), near("x", ["gpt-4", "llama"], most=1)
    ("Did you mean 'gpt-4'? There are: gpt-4, llama.", 'There are: gpt-4 ….')
    """
    close = get_close_matches(name, known, n=1)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return f"{hint}There are: {', '.join(known[:most])}{' …' if len(known) > most else ''}."


_MOST_DIGITS = 9


def with_interval(value: float, low: float | None, high: float | None, *, digits: int = 2, why: str = "") -> str:
    """`value [low, high]`, with more digits where the ends would else look alike.

    low, high: None or NaN where there is no interval, as where they are equal. why: said then, if it says `none: …`.

    >>> with_interval(0.931, 0.9, 0.954)
    '0.93 [0.90, 0.95]'
    >>> with_interval(0.9996, 0.9989, 0.9998)
    '1.000 [0.999, 1.000]'
    >>> with_interval(1.0, None, None, why="none: a perfect rank correlation gives none")
    '1.00 (no interval: a perfect rank correlation gives none)'
    """
    if low is None or high is None or not low < high:
        reason = why.removeprefix("none: ")
        return f"{value:.{digits}f}" + (f" (no interval: {reason})" if reason != why else "")
    digits = _telling(low, high, digits)
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def signed(low: float | None, high: float | None, *, digits: int = 2) -> str:
    """The interval of a difference, or a dash where there is none.

    >>> signed(-0.1, 0.25), signed(-0.0037, 0.0041), signed(None, None)
    ('-0.10 … +0.25', '-0.004 … +0.004', '–')
    """
    if low is None or high is None:
        return "–"
    digits = _telling(low, high, digits)
    return f"{low:+.{digits}f} … {high:+.{digits}f}"


def _telling(low: float, high: float, digits: int) -> int:
    while round(low, digits) == round(high, digits) and digits < _MOST_DIGITS:
        digits += 1
    return digits


def items_compared(n_items: int, n_compared: int, *, by: str = "") -> str:
    """by: by whom, such as ` by every judge`.

    >>> items_compared(40, 40)
    '40 items'
    >>> items_compared(40, 30)
    '40 items, of which 30 were compared'
    """
    said = f"{n_items:,} items"
    return said if n_compared == n_items else f"{said}, of which {n_compared:,} were compared{by}"


def counted(n: int, noun: str, one: str = "", several: str = "") -> str:
    """The number and its noun, and what is said of one thing or of several.

    >>> counted(1, "agent"), counted(2, "agent")
    ('1 agent', '2 agents')
    >>> counted(1, "cell", "has", "have"), counted(0, "cell", "has", "have")
    ('1 cell has', '0 cells have')
    """
    said = f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
    return f"{said} {one if n == 1 else several}" if one else said


_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Line_Break=SA}"
_PIECE = regex.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
# A full stop ends a sentence before white space, unless a small letter follows; the marks of Chinese and Japanese need no space.
_END = regex.compile(r"(?<=[.!?…۔।]['\"”’)\]]*)\s+(?!\p{Ll})|(?<=[。！？][」』”’）]*)|\n\s*\n")


def sentences(text: str) -> list[str]:
    """The sentences of a text in order, stripped; none is blank, and all but white space is kept.

    >>> sentences("It rained. The river rose by 1.5 m! Why?")
    ['It rained.', 'The river rose by 1.5 m!', 'Why?']
    >>> sentences("下雨了。河水上涨。")
    ['下雨了。', '河水上涨。']
    """
    return [part.strip() for part in _END.split(text) if part.strip()]


def pieces(text: str) -> list[str]:
    """The runs between white space, and each character of a script written without spaces on its own.

    >>> pieces("GPT 模型, twice")
    ['GPT', '模', '型', ',', 'twice']
    """
    found: list[str] = _PIECE.findall(text)
    return found


def first_pieces(text: str, n: int) -> str:
    """The text up to the end of its n-th piece; all of it where it has no more.

    >>> first_pieces("one two  three", 2)
    'one two'
    """
    end = 0
    for number, found in enumerate(_PIECE.finditer(text)):
        if number == n:
            break
        end = found.end()
    return text[:end]
