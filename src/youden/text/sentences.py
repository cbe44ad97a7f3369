"""Format parts of sentences (counts, intervals, escaped texts, suggestions), and split texts into sentences and pieces.

An interval is always shown with enough digits that its bounds differ, and a number of items always with the number that
was compared. Sentences are split at end marks and line breaks, in scripts without spaces too; an abbreviation before a
capital letter counts as the end of a sentence.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

import regex

from youden.text.printable import printable

ABILITY = (
    "Ability measures how reliably the judge recognizes that a response and those of other agents answer the same item. An "
    "ability of 0.50 (50 of 100 comparisons beyond chance) means 50 more yes answers per 100 pairs of responses to the same "
    "item than to different items. It does not prove correctness. It depends on pool, judge and items, and rewards responses "
    "that can be matched: obscure or bureaucratic styles rank high, terse references low."
)
"""Explanation of abilities for readers of help, reports and exports."""
SELF_ABILITY = (
    "Self-consistency J is a difference of two mean answers of the judge (0: no, 1: yes): the mean for pairs of the agent's "
    "responses to the same item, minus the mean for pairs of its responses to different items. For a judge that answers yes "
    "or no, these are the rates of yes. 0 means that "
    "responses to one item match no more than responses to different items; 1 means that the agent always gives equivalent "
    "responses to an item and different ones to other items. A high J shows that an agent is stable, not that it is correct. A "
    "low J limits the agreement that the agent can have with any other agent."
)
"""Explanation of the abilities of a run of self-trials."""
PREFERENCE_ABILITY = (
    "Ability measures how often the judge prefers an agent's responses. With an ability of 0.20, the agent wins 20 more of 100 "
    "comparisons with the average agent than it loses; a tie is half a win. It measures what this judge prefers, which need not "
    "be correct."
)
"""Explanation of the abilities of a run that asks for preferences."""

_MAX_VARIANTS = 6
"""Number of names that `describe_similar_names` lists."""
_MARKDOWN_SYNTAX = regex.compile(r"([\\`*_{}\[\]<>()#+!|~@&$])")


def escape_markdown(text: str) -> str:
    """Escape a text so that Markdown shows it unchanged, on one line.

    Examples
    --------
    >>> escape_markdown("a|b <i> @all")
    'a\\\\|b \\\\<i\\\\> \\\\@all'
    """
    return _MARKDOWN_SYNTAX.sub(r"\\\1", printable(text))


def describe_similar_names(names: Iterable[str]) -> str:
    """State which names differ only in case, in blanks, in invisible characters, in Unicode form or in a final .0.

    Parameters
    ----------
    names : iterable of str
        Distinct names.

    Returns
    -------
    str
        A clause for a note; empty if there are no such names.

    Examples
    --------
    >>> describe_similar_names(["1", "2", "1.0"])
    "names that differ only in case, spaces, invisible characters, Unicode form or a final .0 count as different: '1', '1.0'"
    >>> describe_similar_names(["GPT", "llama"])
    ''
    """
    similar_names = _list_similar_names(names)
    if not similar_names:
        return ""

    listed_names = similar_names[:_MAX_VARIANTS]
    quoted_names = [repr(name) for name in listed_names]
    # names with the same NFKC form look equal, for example "ﬁ" (one character) and "fi": show escape sequences for them
    nfkc_forms = {unicodedata.normalize("NFKC", quoted_name) for quoted_name in quoted_names}
    if len(nfkc_forms) < len(listed_names):
        quoted_names = [ascii(name) for name in listed_names]
    listed = ", ".join(quoted_names)
    ellipsis = ", …" if len(similar_names) > _MAX_VARIANTS else ""
    differences = "case, spaces, invisible characters, Unicode form or a final .0"
    return f"names that differ only in {differences} count as different: {listed}{ellipsis}"


def describe_similar_new_names(names: Iterable[str], new_names: Iterable[str]) -> str:
    """State which names of a second file differ so little from those of a first file that they may mean the same.

    Parameters
    ----------
    names, new_names : iterable of str
        Names in the first and in the second file.

    Returns
    -------
    str
        A clause for a note with its remedy; empty if the second file adds no such names.

    Examples
    --------
    >>> describe_similar_new_names(["1", "2"], ["2", "1.0"]).rpartition(" count as ")[2]
    "different: '1', '1.0'; write each name alike in all files"
    """
    first_names = list(dict.fromkeys(names))
    similar_names = describe_similar_names(dict.fromkeys([*first_names, *new_names]))
    is_new = similar_names != describe_similar_names(first_names)
    return f"{similar_names}; write each name alike in all files" if is_new else ""


def _list_similar_names(names: Iterable[str]) -> list[str]:
    """List the names that have the same simple form as another name; see `_simplify_name`.

    Names with the same simple form follow each other, in the order of the alphabet.

    >>> _list_similar_names(["GPT", "llama", "gpt"])
    ['GPT', 'gpt']
    """
    names_by_simple_form: dict[str, list[str]] = {}
    for name in names:
        names_by_simple_form.setdefault(_simplify_name(name), []).append(name)

    repeated_forms = [form for form, group in names_by_simple_form.items() if len(group) > 1]
    similar_names: list[str] = []
    for form in sorted(repeated_forms):
        similar_names += sorted(names_by_simple_form[form])
    return similar_names


def _simplify_name(name: str) -> str:
    """Return a name in lower case and in one Unicode form, with single spaces and without invisible characters.

    A whole number has no decimals: "1.0" becomes "1".
    """
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    simplified = " ".join(unicodedata.normalize("NFKC", visible).casefold().split())
    number = simplified.removesuffix(".0")
    return number if number.isdecimal() else simplified


def describe_empty_responses(n_by_agent: Mapping[str, int]) -> str:
    """State that empty responses count as failures, and how to leave them out; an empty string if there are none.

    Parameters
    ----------
    n_by_agent : mapping of str to int
        Number of empty responses by agent, for agents that have any. At most 12 agents with the most empty responses are named.

    Examples
    --------
    >>> describe_empty_responses({"v1": 4, "v2": 8})
    "12 empty responses ('v2': 8, 'v1': 4) count as failures; `empty: missing` in the config leaves them out"
    """
    if not n_by_agent:
        return ""
    n = sum(n_by_agent.values())
    listed_agents = Counter(n_by_agent).most_common(12)
    numbers = ", ".join(f"'{agent}': {n_of_agent:,}" for agent, n_of_agent in listed_agents)
    if len(n_by_agent) > len(listed_agents):
        numbers += f" and {len(n_by_agent) - len(listed_agents):,} more agents"
    counted = format_count(n, "empty response", f"({numbers}) counts as a failure", f"({numbers}) count as failures")
    return f"{counted}; `empty: missing` in the config leaves {'it' if n == 1 else 'them'} out"


def suggest_name(name: str, choices: Sequence[str], *, max_shown: int = 10) -> str:
    """Suggest the most similar valid name for an invalid one, and list the valid names, for an error message.

    Parameters
    ----------
    name : str
        The invalid name.
    choices : sequence of str
        All valid names, at least one, in the order in which they are listed.
    max_shown : int, default 10
        Maximum number of choices that are listed. An ellipsis replaces the others.

    Returns
    -------
    str
        One or two sentences: a question with the choice that is most similar to `name`, if one has a similarity of at least 0.6
        by `difflib`, and a list of the first choices. Upper and lower case are different.

    Examples
    --------
    >>> suggest_name("gpt4", ["gpt-4", "llama"]), suggest_name("x", ["gpt-4", "llama"], max_shown=1)
    ("Did you mean 'gpt-4'? There are: gpt-4, llama.", 'There are: gpt-4 ….')
    """
    similar = get_close_matches(name, choices, n=1)
    hint = f"Did you mean '{similar[0]}'? " if similar else ""
    ellipsis = " …" if len(choices) > max_shown else ""
    return f"{hint}There are: {', '.join(choices[:max_shown])}{ellipsis}."


_MAX_DIGITS = 9


def format_with_interval(
    value: float, low: float | None, high: float | None, *, digits: int = 2, method: str = ""
) -> str:
    """Format an estimate with its interval, in the form "value [low, high]"; without an interval, only the value.

    Parameters
    ----------
    value : float
        The estimate.
    low, high : float or None
        Bounds of the interval, which is omitted if a bound is None or NaN, or if `low` is not below `high`.
    digits : int, default 2
        Minimum number of digits after the decimal point. More, up to 9, are shown if the bounds would otherwise be equal.
    method : str, optional
        Method by which the interval was computed; it is not shown. If the interval is omitted, the text may be "none: " and
        a reason, which is then shown.

    Examples
    --------
    >>> format_with_interval(0.931, 0.9, 0.954)
    '0.93 [0.90, 0.95]'
    >>> format_with_interval(0.9996, 0.9989, 0.9998)
    '1.000 [0.999, 1.000]'
    >>> format_with_interval(1.0, None, None, method="none: a perfect rank correlation gives none")
    '1.00 (no interval: a perfect rank correlation gives none)'
    """
    if low is None or high is None or not low < high:
        note = ""
        if method.startswith("none: "):
            note = f" (no interval: {method.removeprefix('none: ')})"
        return f"{value:.{digits}f}{note}"
    digits = _choose_digits(low, high, digits)
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def format_signed_interval(low: float | None, high: float | None, *, digits: int = 2) -> str:
    """Format the interval of a difference, with signs; a dash if there is none.

    Parameters
    ----------
    low, high : float or None
        Bounds of the interval, not NaN. If one of them is None, the interval is omitted.
    digits : int, default 2
        Digits after the decimal point; more, up to 9, are shown if the bounds would otherwise be equal.

    Examples
    --------
    >>> format_signed_interval(-0.1, 0.25), format_signed_interval(-0.0037, 0.0041), format_signed_interval(None, None)
    ('-0.10 … +0.25', '-0.004 … +0.004', '–')
    """
    if low is None or high is None:
        return "–"
    digits = _choose_digits(low, high, digits)
    return f"{low:+.{digits}f} … {high:+.{digits}f}"


def _choose_digits(low: float, high: float, digits: int) -> int:
    """Return the smallest number of digits after the decimal point, at least `digits`, with which two bounds differ."""
    while round(low, digits) == round(high, digits) and digits < _MAX_DIGITS:
        digits += 1
    return digits


_MAX_RECOGNITION_DIGITS = 2


def format_recognitions(*abilities: float) -> list[str]:
    """Format abilities as numbers of recognitions in 100 comparisons, as reports show them.

    An ability of 0.61 becomes 61: among 100 pairs of responses to the same item, the judge answers yes for 61 pairs more than
    by chance. Each of these yes answers is a recognition.

    Parameters
    ----------
    *abilities : float
        Abilities, or differences of abilities, as fractions.

    Returns
    -------
    list of str
        100 times each ability. All have the same number of decimals: the smallest one with which different abilities have
        different texts, at most 2.

    Examples
    --------
    >>> format_recognitions(0.614, 0.567), format_recognitions(0.6141, 0.6118), format_recognitions(0.5, 0.5 + 2e-16)
    (['61', '57'], ['61.4', '61.2'], ['50', '50'])
    """
    percentages = [100 * ability for ability in abilities]
    n_distinct = len({round(ability, 9) for ability in abilities})  # equal except for rounding errors
    for digits in range(_MAX_RECOGNITION_DIGITS + 1):
        rounded = [round(percentage, digits) + 0.0 for percentage in percentages]  # adding 0.0 converts −0.0 to 0.0
        if len(set(rounded)) >= n_distinct:
            break
    return [f"{number:.{digits}f}" for number in rounded]


def format_responses(n_cells: int, n_responses: int, n_missing: int) -> str:
    """Format the number of responses and of missing responses.

    If agents responded repeatedly to items, the number of cells (pairs of an agent and an item) with a response is stated, too.

    n_cells : number of cells with a response
    n_responses : number of responses, which exceeds `n_cells` if there are repeated ones
    n_missing : number of cells without a response; with repeated responses, it is shown only as a part of all cells

    Returns a phrase without a full stop, in which numbers have commas between thousands.

    >>> format_responses(20, 20, 0), format_responses(20, 40, 3)
    ('20 responses, 0 missing', '40 responses to 20 of 23 pairs of an agent and an item')
    """
    responses = format_count(n_responses, "response")
    if n_responses == n_cells:
        return f"{responses}, {n_missing:,} missing"
    return f"{responses} to {n_cells:,} of {n_cells + n_missing:,} pairs of an agent and an item"


def format_recognition_difference(difference: float) -> str:
    """Format a difference of abilities, such as a regret bound, as a number of comparisons per 100.

    Examples
    --------
    >>> format_recognition_difference(0.0123), format_recognition_difference(0.0004)
    ('1.2', 'less than 0.1')
    """
    text = f"{100 * difference:.1f}"
    return "less than 0.1" if text == "0.0" and difference > 0 else text


def format_items_compared(n_items: int, n_compared: int, *, by: str = "") -> str:
    """Format the number of items of a run and how many of them were compared.

    Parameters
    ----------
    n_items, n_compared : int
        Number of items, and number of items that were compared. If they are equal, only one number is shown. Numbers have commas
        between thousands.
    by : str, optional
        Text that follows "compared", for example " by every judge"; it begins with a space. Not shown if the numbers are equal.

    Examples
    --------
    >>> format_items_compared(40, 40)
    '40 items'
    >>> format_items_compared(40, 30)
    '40 items, of which 30 were compared'
    """
    text = format_count(n_items, "item")
    if n_compared == n_items:
        return text
    return f"{text}, of which {n_compared:,} {'was' if n_compared == 1 else 'were'} compared{by}"


def format_rank_range(low: int, high: int) -> str:
    """Format a range of ranks: "3" or "3–5"."""
    return str(low) if low == high else f"{low}–{high}"


def format_count(n: int, noun: str, singular_verb: str = "", plural_verb: str = "") -> str:
    """Format a number with its noun and, if given, the verb that agrees with it.

    Parameters
    ----------
    n : int
        Number, shown with commas between thousands.
    noun : str
        Noun in the singular; the plural is formed with "s".
    singular_verb, plural_verb : str, optional
        Verb after the noun: the first if `n` is 1, else the second. Pass both or neither. Default: no verb.

    Examples
    --------
    >>> format_count(1, "agent"), format_count(2, "agent")
    ('1 agent', '2 agents')
    >>> format_count(1, "cell", "has", "have"), format_count(0, "cell", "has", "have")
    ('1 cell has', '0 cells have')
    """
    text = f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
    verb = singular_verb if n == 1 else plural_verb
    return f"{text} {verb}" if singular_verb else text


_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Line_Break=SA}"
_PIECE = regex.compile(rf"[{_UNSPACED}]|[^\s\x1c-\x1f{_UNSPACED}]+")  # str.split also splits at U+001C to U+001F
# A full stop ends a sentence before white space, unless a small letter follows; the marks of Chinese and Japanese need no space.
_END = regex.compile(r"(?<=[.!?…۔।]['\"”’)\]]*)\s+(?!\p{Ll})|(?<=[。！？][」』”’）]*)|\n\s*\n")


def split_sentences(text: str) -> list[str]:
    """Split a text into its sentences, without surrounding white space.

    Returns
    -------
    list of str
        The sentences in order; none is blank, and nothing but white space is lost.

    Examples
    --------
    >>> split_sentences("It rained. The river rose by 1.5 m! Why?")
    ['It rained.', 'The river rose by 1.5 m!', 'Why?']
    >>> split_sentences("下雨了。河水上涨。")
    ['下雨了。', '河水上涨。']
    """
    return [part.strip() for part in _END.split(text) if part.strip()]


def split_pieces(text: str) -> list[str]:
    """Split a text at white space; in scripts written without spaces, into single characters.

    Examples
    --------
    >>> split_pieces("GPT 模型, twice")
    ['GPT', '模', '型', ',', 'twice']
    """
    pieces: list[str] = _PIECE.findall(text)
    return pieces


def take_pieces(text: str, n: int) -> str:
    """Return the text up to the end of its n-th piece; the whole text if it has fewer pieces.

    Pieces are those of `split_pieces`.

    Examples
    --------
    >>> take_pieces("one two  three", 2)
    'one two'
    """
    end = 0
    for number, piece in enumerate(_PIECE.finditer(text)):
        if number == n:
            break
        end = piece.end()
    return text[:end]
