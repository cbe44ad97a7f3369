"""Text from the code as it can stand in a Markdown table."""

from __future__ import annotations

import html
import re


def cell(text: str) -> str:
    """One line of a table: what is code stays code, everything else is text and no markup."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(_code(part) if part.startswith("`") and len(part) > 1 else _text(part) for part in parts)


def _code(part: str) -> str:
    return f"<code>{_text(part[1:-1])}</code>"


def _text(part: str) -> str:
    return re.sub(r"([|*_\[\]\\`$])", lambda character: f"&#{ord(character[0])};", html.escape(part, quote=False))
