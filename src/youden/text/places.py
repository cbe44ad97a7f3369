"""Names of places in which answers are kept, as they may be shown: a path, or a URL without its password."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote


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


def _secrets(place: str) -> set[str]:
    inside = place.partition("://")[2].rpartition("@")[0].partition(":")[2]
    parameters = parse_qsl(place.rpartition("?")[2])
    return {inside, unquote(inside), *(value for name, value in parameters if "password" in name)} - {""}
