"""Escape text from the code for a Markdown table."""

from __future__ import annotations

import html
import re


def cell(text: str) -> str:
    """Convert a text to one line of a table: code remains code, and everything else is escaped."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(_code(part) if part.startswith("`") and len(part) > 1 else _text(part) for part in parts)


def _code(part: str) -> str:
    return f"<code>{_text(part[1:-1])}</code>"


def _text(part: str) -> str:
    return re.sub(r"([|*_\[\]\\`$])", lambda character: f"&#{ord(character[0])};", html.escape(part, quote=False))
