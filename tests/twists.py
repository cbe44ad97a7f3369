"""Define faults of a reply: a hypothesis strategy that draws them, and a function that applies them."""

from __future__ import annotations

import gzip
import json
import math
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from hypothesis import strategies as st

from unruly_server import Sent, sent

Kind = Literal[
    "field", "no field", "twice", "cut", "short", "status", "error body", "error inside", "form", "harmless", "dropped"
]
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Twist:
    """A fault; the meaning of `value` depends on `kind`."""

    kind: Kind
    path: Path = ()
    value: Any = None

    @property
    def harmless(self) -> bool:
        """Return whether the answer is unchanged."""
        return self.kind == "harmless"

    @property
    def throttles(self) -> bool:
        """Return whether the server reports "too many requests", which a run tolerates for minutes."""
        if self.kind == "error inside":
            return self.value in (429, "rate_limit_exceeded")
        return self.kind in ("status", "error body") and self.value[0] == 429


_CHOICE: Path = ("choices", 0)
_TOKEN: Path = (*_CHOICE, "logprobs", "content", 0)
FIELDS: tuple[Path, ...] = (
    *((name,) for name in ("id", "object", "created", "model", "system_fingerprint", "choices", "usage")),
    _CHOICE,
    *((*_CHOICE, name) for name in ("index", "message", "finish_reason", "logprobs")),
    *((*_CHOICE, "message", name) for name in ("role", "content", "refusal")),
    (*_CHOICE, "logprobs", "content"),
    _TOKEN,
    *((*_TOKEN, name) for name in ("token", "logprob", "top_logprobs")),
    (*_TOKEN, "top_logprobs", 0),
    *((*_TOKEN, "top_logprobs", 0, name) for name in ("token", "logprob")),
    *(("usage", name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")),
)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 800, -100_000, 10**9, 10**15, 2**63, 2**64, 10**400),
    *(0.5, -0.0, 1e308, math.nan, math.inf, -math.inf),
    *("", "nan", "inf", "-1", "\x00", "\ud800", "\u202e", "Hm.", "m" * 5000),
    *([], ["a"], [None], {}, {"a": 1}, [[]] * 3),
)
STATUSES = (201, 206, 301, 302, 307, 308, 400, 402, 403, 408, 409, 413, 422, 429, 451, 500, 502, 503, 504, 529)
RETRY_AFTER = (
    *("0", "-5", "nan", "inf", "soon", "1e-3", "9" * 400, "", "Thu, 01 Jan 1970 00:00:00 GMT"),
    *(
        "Thu, 01 Jan 1970 00:00:00 +9999999999999999",
        "Fri, 31 Dec 9999 23:59:59 -2359",
        "Mon, 32 Foo 0000 99:99:99 +0000",
    ),
)
ERRORS = tuple(status for status in STATUSES if status >= 400)
ERROR_BODIES: dict[str, bytes] = {
    "deep message": b'{"error": {"message": ' + b"[" * 1000 + b"]" * 1000 + b"}}",
    "deep objects": b'{"error": ' * 1000 + b"1" + b"}" * 1000,
    "a list": b'[{"error": 1}]',
    "no error": b'{"error": null}',
    "odd code": b'{"error": {"message": {"a": [1]}, "code": [[]], "type": 7}}',
    "half a character": b'{"error": {"message": "\\ud800"}}',
    "bytes": bytes(range(256)),
    "nothing": b"",
}
"""Values of the error field of a reply."""
CODES: tuple[Any, ...] = (
    *("insufficient_quota", "rate_limit_exceeded", "server_error", "odd"),
    *(429, 502, "503", None, ["x"]),
)
FORMS = (
    *("utf-16", "latin-1", "bom", "gzip", "no gzip", "bomb", "deep", "nothing"),
    *("null", "html", "text", "long header"),
)
HARMLESS = (
    *("unknown field", "no fingerprint", "more choices", "white space"),
    *("charset", "no ids", "known gzip", "twice the same"),
)


def another_answer(path: Path, value: Any) -> bool:
    """Return whether a reply with this value is a valid one with another answer, which is undetectable."""
    match path[-1]:
        case "token":
            return isinstance(value, str) and path[-2] == 0 and path[-3] == "top_logprobs"
        case "logprob":
            return type(value) in (int, float) and value <= 0 and len(path) > len(_TOKEN) + 1
        case _:
            return False


def twists() -> st.SearchStrategy[Twist]:
    """Generate all kinds of faults, most often those of a field."""
    fields = st.builds(Twist, st.just("field"), st.sampled_from(FIELDS), st.sampled_from(ODD)).filter(
        lambda twist: not another_answer(twist.path, twist.value)
    )
    return st.one_of(
        fields,
        fields,
        fields,
        st.builds(
            Twist, st.just("no field"), st.sampled_from([path for path in FIELDS if path[-2:] != ("top_logprobs", 0)])
        ),
        st.builds(Twist, st.just("twice"), st.sampled_from(FIELDS), st.sampled_from(ODD)),
        st.builds(Twist, st.sampled_from(("cut", "short")), value=st.floats(0, 1, exclude_max=True)),
        st.builds(Twist, st.just("status"), value=st.tuples(st.sampled_from(STATUSES), st.sampled_from(RETRY_AFTER))),
        st.builds(
            Twist,
            st.just("error body"),
            value=st.tuples(st.sampled_from(ERRORS), st.sampled_from(sorted(ERROR_BODIES))),
        ),
        st.builds(Twist, st.just("error inside"), value=st.sampled_from(CODES)),
        st.builds(Twist, st.just("form"), value=st.sampled_from(FORMS)),
        st.builds(Twist, st.just("harmless"), value=st.sampled_from(HARMLESS)),
        st.builds(Twist, st.just("dropped"), value=st.booleans()),
    )


def twisted(reply: dict[str, Any], twist: Twist, *, trap: str = "") -> Sent:
    """Apply the fault to `reply`; `trap` is the target of a redirect."""
    complete = sent(reply)
    match twist.kind:
        case "field" | "no field" | "twice":
            complete = Sent(text_of(reply, twist).encode("utf-8", "surrogatepass"))
        case "cut":
            complete = sent(reply, cut=int(twist.value * len(complete.body)))
        case "short":
            complete = Sent(complete.body[: int(twist.value * len(complete.body))])
        case "status":
            complete = _with_status(reply, *twist.value, trap=trap)
        case "error body":
            status, body = twist.value
            complete = Sent(ERROR_BODIES[body], status=status, billed=False)
        case "error inside":
            complete = sent({"error": {"code": twist.value, "message": "as told"}}, billed=False)
        case "dropped":
            complete = Sent(b"", dropped=True, billed=bool(twist.value))
        case "form":
            complete = _form(complete.body, twist.value)
        case "harmless":
            complete = _harmless(reply, twist.value)
    return complete


def _with_status(reply: dict[str, Any], status: int, after: str, *, trap: str) -> Sent:
    if status < 300:
        return sent(reply, status=status)
    error = {"error": {"message": "as told"}}
    return sent(error, status=status, headers={"Retry-After": after, "Location": trap}, billed=False)


def text_of(reply: dict[str, Any], twist: Twist) -> str:
    """Return the JSON of `reply` with one field changed, removed or duplicated (the correct one last, which counts)."""
    mark = "\x01field\x01"
    changed = deepcopy(reply)
    inner: Any = changed
    for step in twist.path[:-1]:
        inner = inner[step]
    last = twist.path[-1]
    if twist.kind == "no field":
        del inner[last]
    elif twist.kind == "field":
        inner[last] = twist.value
    elif isinstance(last, int):
        inner.append(twist.value)
    else:
        complete = dict(inner)
        inner.clear()
        inner.update({mark: twist.value, **complete})
        return json.dumps(changed).replace(json.dumps(mark), json.dumps(last))
    return json.dumps(changed)


@cache
def _bomb() -> bytes:
    return gzip.compress(b" " * 30_000_000, 6)


def _form(whole: bytes, form: str) -> Sent:
    bodies = {
        "utf-16": whole.decode().encode("utf-16"),
        "latin-1": whole.decode().replace("YES", "YÉS").replace("NO", "NÖ").encode("latin-1"),
        "bom": b"\xef\xbb\xbf" + whole,
        "gzip": gzip.compress(whole)[:-9],
        "bomb": _bomb(),
        "deep": b"[" * 100_000,
        "nothing": b"",
        "null": b"null",
        "html": b"<html>busy</html>",
        "text": b'"YES"',
    }
    headers = {
        **{packed: {"Content-Encoding": "gzip"} for packed in ("gzip", "no gzip", "bomb")},
        "long header": {"X-Long": "x" * 20_000},
    }
    return Sent(bodies.get(form, whole), headers=headers.get(form, {}))


def _harmless(reply: dict[str, Any], form: str) -> Sent:
    match form:
        case "unknown field":
            reply = {**reply, "new": {"deep": [1, None]}, "citations": ["x"], "error": None}
        case "no fingerprint":
            reply = {**reply, "system_fingerprint": None, "service_tier": None}
        case "more choices":
            reply = {**reply, "choices": [*reply["choices"], {"index": 1, "message": {"content": "Hm."}}]}
        case "white space":
            return Sent(b" \r\n\t" + json.dumps(reply, indent=3).encode() + b"\n\n")
        case "charset":
            return sent(reply, headers={"Content-Type": "application/json; charset=utf-8", "X-Odd": "ü"})
        case "no ids":
            reply = {name: value for name, value in reply.items() if name not in ("id", "object", "created")}
        case "known gzip":
            return Sent(gzip.compress(json.dumps(reply).encode()), headers={"Content-Encoding": "gzip"})
        case _:
            return Sent(json.dumps(reply).replace('"index":', '"index": 0, "index":').encode())
    return sent(reply)
