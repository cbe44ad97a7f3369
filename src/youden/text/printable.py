"""Text made fit for a terminal, a file name, a message about a place.

Judged text and ids are other people's and may hold control sequences. A spreadsheet runs a field that begins with `=`, `+`, `-`
or `@`, quoted or not, and no escaping leaves the name as it was for everybody else, so such a name is refused where it is read.
A place in which answers are kept is shown without its password.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl, unquote

_ACTING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def sendable(text: str) -> str:
    """Half of a surrogate pair has no UTF-8 form and could be neither sent nor kept: it becomes '?'."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


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
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_KEPT = {"data", "unknown"}
"""Two names that a store of results keeps for itself."""
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
    if len(name) <= 100 and _PART.fullmatch(name) and not _DEVICE.fullmatch(name) and name.lower() not in _KEPT:
        return name
    return _OUTSIDE.sub("_", name)[:60] + f"-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def is_device(name: str) -> bool:
    """Whether a folder cannot be called so on Windows: a device, or a name that ends in a dot or a space.

    >>> is_device("con"), is_device("AUX.v2"), is_device("v2."), is_device("console")
    (True, True, True, False)
    """
    return bool(_DEVICE.fullmatch(name)) or name.endswith((".", " "))


def typed(words: Iterable[str]) -> str:
    """A command as it can be typed into this system's shell again."""
    return subprocess.list2cmdline(list(words)) if os.name == "nt" else shlex.join(words)


_PLAINLY = dict(zip("−─│├└●√≈∼", "--||`o~~~", strict=True)) | {
    "≤": "<=",
    "≥": ">=",
    "→": "->",
    "✅": "",
    "❌": "",
    "❔": "",
    "⚠": "!",
}
"""What this package writes, and code pages of Windows do not have; − above all, before every loss. Greek letters go by name."""


def plainly(error: UnicodeError) -> tuple[str, int]:
    r"""For `codecs.register_error`: what a console cannot show, in letters that it can, or else spelt out.

    >>> plainly(UnicodeEncodeError("cp1252", "−.05", 0, 1, ""))
    ('-', 1)
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_PLAINLY.get(one, _by_name(one)) for one in missing), error.end


def _by_name(letter: str) -> str:
    name = unicodedata.name(letter, "")
    return name.rpartition(" ")[2].lower() if name.startswith("GREEK") else _spelt(letter)


def is_file(place: str | Path) -> bool:
    """Whether the place is a file on this machine."""
    return "://" not in str(place) or str(place).startswith("sqlite:///")


def is_on_network(place: str | Path) -> bool:
    """Return whether opening the place reaches another machine: a server's URL, or on Windows a path such as //HOST/SHARE."""
    return not is_file(place) or (os.name == "nt" and str(path_of(str(place))).startswith("\\\\"))


def path_of(place: str) -> Path:
    """The file of `sqlite:///path`, or of a path."""
    return Path(unquote(place.removeprefix("sqlite:///")) if "://" in place else place)


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
