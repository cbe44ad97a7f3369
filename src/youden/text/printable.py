"""Text made fit for a terminal, a file name, a message about a place.

Judged text and ids are other people's and may hold control sequences. A spreadsheet runs a field that begins with `=`, `+`, `-`
or `@`, quoted or not, and no escaping leaves the name as it was for everybody else, so such a name is refused where it is read.
A place in which answers are kept is shown without its password.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import Path
from urllib.parse import parse_qsl, unquote

_ACTING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str) -> str:
    r"""`text` with every character that acts instead of showing (controls, bidi overrides, lone surrogates) spelt out.

    >>> printable("a\x1b[31mred\n")
    'a\\x1b[31mred\\n'
    """
    if text.isprintable():
        return text
    return "".join(_spelt(character) if unicodedata.category(character) in _ACTING else character for character in text)


def _spelt(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?", re.ASCII)
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?<!\.)")
_OUTSIDE = re.compile(r"[^A-Za-z0-9_+-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|data|unknown", re.IGNORECASE)
"""Windows' devices, and two names that a store of results keeps for itself."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def acts(name: str) -> str | None:
    r"""What is wrong with a name that acts instead of being shown, and what to do; None for all others.

    Control characters and line ends act; so does a formula. A plain number is none.

    >>> acts("gpt-4o"), acts("-3"), acts("a\x1b[2J")
    (None, None, 'holds the control character U+001B. Take it out.')
    """
    if control := _CONTROL.search(name):
        return f"holds the control character U+{ord(control[0]):04X}. Take it out."
    if name.lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(name):
        return f"begins with {name.lstrip()[0]!r}, which a spreadsheet runs. Begin it otherwise."
    return None


def path_part(name: str) -> str:
    """The name where it can be a file's on any system, else one like it with eight digits of its digest, so that two stay two.

    >>> path_part("gpt-4o"), path_part("../a b"), path_part("CON")
    ('gpt-4o', '_a_b-2c2c791a', 'CON-a3dbc4b6')
    """
    if len(name) <= 100 and _PART.fullmatch(name) and not _RESERVED.fullmatch(name):
        return name
    return _OUTSIDE.sub("_", name)[:60] + f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def is_file(place: str | Path) -> bool:
    """Whether the place is a file on this machine."""
    return "://" not in str(place) or str(place).startswith("sqlite:///")


def shown(place: str | Path) -> str:
    """The place as it may be shown and kept: a URL without its password and its parameters; a path as it is."""
    text = str(place)
    if is_file(text):
        return text
    kind, _, rest = text.partition("://")
    credentials, at, where = rest.rpartition("@")
    return f"{kind}://{credentials.partition(':')[0]}{at}{re.split('[?#]', where)[0]}"


def without_secret(said: str, place: str) -> str:
    """What a library said of the place, without the password in it."""
    for secret in _secrets(place):
        said = said.replace(secret, "…")
    return said.replace(place, shown(place))


_CREDENTIALS = re.compile(r"(://[^\s:@/]*):\S*@")
_PASSWORD = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&]+)", re.IGNORECASE)


def without_passwords(said: str) -> str:
    """`said` without the password of any URL or any `password=` in it: for words that repeat what somebody gave.

    >>> without_passwords("--store=postgresql://me:p@ss/word@host/d?password=s")
    '--store=postgresql://me@host/d?password=…'
    """
    return _PASSWORD.sub(r"\1…", _CREDENTIALS.sub(r"\1@", said))


def _secrets(place: str) -> set[str]:
    inside = place.partition("://")[2].rpartition("@")[0].partition(":")[2]
    parameters = parse_qsl(place.rpartition("?")[2])
    return {inside, unquote(inside), *(value for name, value in parameters if "password" in name)} - {""}
