"""Make texts safe for a terminal, a file name or a shell, and remove secrets from locations.

Judged texts and ids are untrusted and may contain control sequences. A spreadsheet runs a field that begins with `=`,
`+`, `-` or `@`, quoted or not. Because every way of escaping changes the name for other programs, such a name is
refused when it is read. The location of a store is shown without its password.
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

_INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def to_encodable(text: str) -> str:
    """Replace each lone surrogate in `text`, which UTF-8 cannot encode, by "?"."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    r"""Escape the characters that are invisible but have an effect, such as control characters and bidirectional overrides.

    Examples
    --------
    >>> printable("a\x1b[31mred\n")
    'a\\x1b[31mred\\n'
    """
    if text.isprintable():
        return text
    return "".join(map(_escape_invisible, text))


def _escape_invisible(character: str) -> str:
    """Escape a character if it is invisible; otherwise return it unchanged."""
    return _escape(character) if unicodedata.category(character) in _INVISIBLE_CATEGORIES else character


def _escape(character: str) -> str:
    r"""Return the escape sequence of a character, such as \x1b or \u202e."""
    return character.encode("unicode_escape").decode("ascii")


_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?", re.ASCII)
_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?<!\.)")
_UNSAFE = re.compile(r"[^A-Za-z0-9_+-]+")
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_RESERVED = {"data", "unknown"}
"""Names that a store of results reserves."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def find_name_fault(name: str) -> str | None:
    r"""Find out why a name may not be used: it contains a control character, or a spreadsheet would run it.

    Parameters
    ----------
    name : str
        An id or name from a file.

    Returns
    -------
    str or None
        The end of a sentence about the name, with the remedy; None if the name is safe. A plain number is safe.

    Examples
    --------
    >>> find_name_fault("gpt-4o"), find_name_fault("-3"), find_name_fault("a\x1b[2J")
    (None, None, 'contains the control character U+001B. Remove it.')
    """
    control = _CONTROL.search(name)
    if control is not None:
        return f"contains the control character U+{ord(control[0]):04X}. Remove it."
    stripped = name.lstrip()
    if stripped.startswith(_FORMULA) and not _NUMBER.fullmatch(name):
        return f"begins with {stripped[0]!r}, which a spreadsheet would run. Set another name."
    return None


def to_file_name(name: str) -> str:
    """Convert a name to a file name that is valid on every system; different names get different file names.

    Parameters
    ----------
    name : str
        Any text, such as the id of an agent.

    Returns
    -------
    str
        `name` itself if it is valid, else a similar name that ends with eight digits of its SHA-256.

    Examples
    --------
    >>> to_file_name("gpt-4o"), to_file_name("../a b"), to_file_name("CON")
    ('gpt-4o', '_a_b-2c2c791a', 'CON-a3dbc4b6')
    """
    is_reserved = _DEVICE.fullmatch(name) or name.lower() in _RESERVED
    if len(name) <= 100 and _SAFE_NAME.fullmatch(name) and not is_reserved:
        return name
    safe_characters = _UNSAFE.sub("_", name)[:60]
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{safe_characters}-{digest}"


def is_device(name: str) -> bool:
    """Return whether Windows forbids a folder name: the name of a device, or a name that ends in a dot or a space.

    Examples
    --------
    >>> is_device("con"), is_device("AUX.v2"), is_device("v2."), is_device("console")
    (True, True, True, False)
    """
    return bool(_DEVICE.fullmatch(name)) or name.endswith((".", " "))


def format_command(words: Iterable[str]) -> str:
    """Join the words of a command, quoted for the shell of this system, so that a user can paste it there."""
    if os.name == "nt":
        return subprocess.list2cmdline(list(words))
    return shlex.join(words)


_ASCII_FORMS = dict(zip("−─│├└●√≈∼", "--||`o~~~", strict=True)) | {
    "≤": "<=",
    "≥": ">=",
    "→": "->",
    "✅": "",
    "❌": "",
    "❔": "",
    "⚠": "!",
}
"""ASCII forms of the characters that this package writes and that code pages of Windows lack, above all the minus sign.
Greek letters are replaced by their names."""


def replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    r"""Return ASCII text in place of characters that a console cannot encode; an error handler for `codecs.register_error`.

    Parameters
    ----------
    error : UnicodeError
        The error of the encoder. Any error other than a UnicodeEncodeError is raised again.

    Returns
    -------
    replacement : str
        ASCII form of the characters, or their escapes.
    position : int
        Position at which encoding continues.

    Examples
    --------
    >>> replace_unencodable(UnicodeEncodeError("cp1252", "−.05", 0, 1, ""))
    ('-', 1)
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unencodable = error.object[error.start : error.end]
    replacements = [_ASCII_FORMS.get(character, _name_or_escape(character)) for character in unencodable]
    return "".join(replacements), error.end


def _name_or_escape(character: str) -> str:
    """Return the name of a Greek letter in lower case, such as "rho", or the escape sequence of another character."""
    name = unicodedata.name(character, "")
    if not name.startswith("GREEK"):
        return _escape(character)
    return name.rpartition(" ")[2].lower()


def is_local_file(location: str | Path) -> bool:
    """Return whether the location of a store is a file on this machine: a path, or a URL `sqlite:///PATH`."""
    return "://" not in str(location) or str(location).startswith("sqlite:///")


def is_on_network(location: str | Path) -> bool:
    r"""Return whether opening a store reaches another machine: a URL of a server, or \\HOST\SHARE on Windows."""
    if not is_local_file(location):
        return True
    return os.name == "nt" and str(to_path(str(location))).startswith("\\\\")


def to_path(location: str) -> Path:
    """Return the path of a file that is given as `sqlite:///PATH` or as a path."""
    if "://" not in location:
        return Path(location)
    return Path(unquote(location.removeprefix("sqlite:///")))


def redact_location(location: str | Path) -> str:
    """Return the location of a store without password and query parameters, so that it can be shown and stored.

    Parameters
    ----------
    location : str or Path
        A path or a URL. A path is returned unchanged.
    """
    text = str(location)
    if is_local_file(text):
        return text
    scheme, _, remainder = text.partition("://")
    credentials, separator, location_on_host = remainder.rpartition("@")
    user, _, _ = credentials.partition(":")
    host_and_path, *_ = re.split("[?#]", location_on_host)
    return f"{scheme}://{user}{separator}{host_and_path}"


def mask_password(message: str, location: str) -> str:
    """Replace the password of `location`, and the location itself, in a message of a library about it."""
    for password in _find_passwords(location):
        message = message.replace(password, "…")
    return message.replace(location, redact_location(location))


_CREDENTIALS = re.compile(r"(://[^\s:@/]*):\S*@")
_PASSWORD = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&]+)", re.IGNORECASE)


def mask_passwords(message: str) -> str:
    """Remove the passwords from all URLs and all `password=` in a message that repeats a user's input.

    Examples
    --------
    >>> mask_passwords("--store=postgresql://me:p@ss/word@host/d?password=s")
    '--store=postgresql://me@host/d?password=…'
    """
    return _PASSWORD.sub(r"\1…", _CREDENTIALS.sub(r"\1@", message))


def _find_passwords(location: str) -> set[str]:
    """Return the passwords in the location of a store, as written and decoded: after the user, and in query parameters."""
    credentials = location.partition("://")[2].rpartition("@")[0]
    password = credentials.partition(":")[2]
    parameters = parse_qsl(location.rpartition("?")[2])
    parameter_values = {value for name, value in parameters if "password" in name}
    return ({password, unquote(password)} | parameter_values) - {""}
