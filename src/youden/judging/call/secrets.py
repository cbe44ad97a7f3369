"""What this process knows and nobody may be shown: keys in use, passwords of URLs and of stores.

Whoever opens a connection or a store tells its secrets here. Whatever a server said is masked before anything keeps it: answers
in `reply`, errors where they are made (`failures`).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

SHORTEST = 12
"""Characters. A shorter secret could be a word of an answer, and masking it could change a verdict."""

HIDDEN = "***"


class _Known:
    """The secrets so far, and what finds any form of one; None while there are none."""

    secrets: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None


def keep_secret(secrets: Iterable[str | None]) -> None:
    """From now on these are masked, those of `SHORTEST` characters or more."""
    told = {one for one in secrets if one and len(one) >= SHORTEST}
    if not told <= _Known.secrets:
        _Known.secrets |= told
        forms = sorted({form for one in _Known.secrets for form in forms_of(one)}, key=len, reverse=True)
        _Known.pattern = re.compile("|".join(map(re.escape, forms)))


def hidden(text: str) -> str:
    """`text` with `***` for each secret of this process, also in base64, in JSON or in a URL.

    >>> keep_secret(["correct horse battery"])
    >>> hidden("the key is correct%20horse%20battery")
    'the key is ***'
    """
    if _Known.pattern is None or len(text) < SHORTEST:
        return text
    return _Known.pattern.sub(HIDDEN, text)


def forms_of(secret: str) -> Iterator[str]:
    """How a text may hold `secret`: as it is, in JSON, in a URL, and in base64 wherever it stands in what was encoded."""
    yield secret
    yield from (json.dumps(secret)[1:-1], quote(secret), quote(secret, safe=""))
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret.encode()).decode()
        whole = encoded[before and before + 1 : len(encoded.rstrip("=")) - (encoded.endswith("="))]
        yield from (whole, whole.replace("+", "-").replace("/", "_"))
