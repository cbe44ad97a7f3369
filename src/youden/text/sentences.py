"""Where a text can be cut: into sentences, and into the pieces that a reader would count as words.

It sees end marks, line breaks and scripts without spaces. An abbreviation before a capital letter ends a sentence too.
"""

from __future__ import annotations

import regex

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
