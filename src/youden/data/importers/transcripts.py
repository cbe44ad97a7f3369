"""Imports OpenTelemetry's traces of agents, and spells what an agent did: turns, calls of tools with their arguments, results, in
order. Ids and times are left out: they differ between agents that did the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import orjson

from youden.data.importers.foreign_files import (
    as_list,
    as_object,
    error_said,
    files_of,
    inner,
    parse_json,
    parse_lines,
    read_text,
    wrong,
)
from youden.data.importers.pool_joiner import ImportedPool, ItemsByPrompt, Joiner
from youden.errors import ImportFormatError
from youden.text.replacements import Replacements
from youden.types.pool import Json

Text = Literal["answer", "transcript"]
"""What a response is: the last thing an agent said, or all that it did."""

_MESSAGES = "gen_ai.{}.messages"
_INTEGER = re.compile(r"-?[0-9]{1,20}")


def as_text(value: Json) -> str:
    """A text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # deeper than it goes
        return "…"


def call_of(name: Json, arguments: Json) -> str:
    """One call of a tool; arguments may be the JSON of an object.

    >>> call_of("book", '{"room": "A 1", "hours": 2}')
    'call book(room="A 1", hours=2)'
    """
    given = _parsed(arguments)
    if isinstance(given, dict):
        given = ", ".join(f"{key}={as_text([value])[1:-1]}" for key, value in given.items())
    return f"call {as_text(name)}({as_text(given or '')})"


def _parsed(value: Json, place: Path | str = "", replaced: Replacements | None = None) -> Json:
    """What a text spells, where it is JSON."""
    with suppress(ImportFormatError):
        value = parse_json(value, place, replaced) if isinstance(value, str) else value
    return value


@dataclass(frozen=True)
class _Span:
    start: int
    said: Mapping[str, Json]
    error: Json

    def messages(self, side: str) -> list[tuple[Json, list[Json]]]:
        """(role, parts) of each message that went in or came out."""
        found = self.said.get(_MESSAGES.format(side))
        parts = [(inner(one, "role"), inner(one, "parts")) for one in found] if isinstance(found, list) else []
        return [(role, held) for role, held in parts if isinstance(held, list)]


def read_opentelemetry(paths: Sequence[Path], /, *, columns: Mapping[str, str], text: Text = "answer") -> ImportedPool:
    """A response a trace, from OTLP's JSON (an export a line), by OpenTelemetry's conventions for generative AI (1.37 on).

    The agent is `gen_ai.agent.name`, else the model that was asked. Traces are joined by what their user said first; items are
    numbered. Several traces of one agent and item are repeats. An answer is the last text that a model put out.

    Raises: ImportFormatError naming file and line.
    """
    joiner, items, times = Joiner(paths[0].stem), ItemsByPrompt(), Counter[tuple[str, str]]()
    traces: dict[str, list[_Span]] = {}
    places: dict[str, str] = {}
    for file in files_of(paths, ("*.json", "*.jsonl"), what="an OTLP JSON file"):
        for place, span in _spans(file, joiner.replaced):
            trace = as_text(span.get("traceId"))
            said = _attributes(span.get("attributes"))
            messages = [name for name in map(_MESSAGES.format, ("input", "output")) if name in said]
            said |= {name: _parsed(said[name], place, joiner.replaced) for name in messages}
            start = as_text(span.get("startTimeUnixNano"))
            error = inner(span, "status", "message") or said.get("error.type")
            traces.setdefault(trace, []).append(_Span(int(start) if _INTEGER.fullmatch(start) else 0, said, error))
            places.setdefault(trace, place)
    for trace, spans in traces.items():
        spans.sort(key=lambda span: span.start)
        asked = [span for span in spans if span.messages("output")]
        models = [span for span in asked if span.said.get("gen_ai.operation.name") != "invoke_agent"] or asked
        prompt = next((_text(held) for one in models for role, held in one.messages("input") if role == "user"), None)
        answers = [_text(held) for one in models for _, held in one.messages("output")]
        done = (
            "\n".join(filter(None, _steps(spans, models)))
            if text == "transcript"
            else next(filter(None, reversed(answers)), "")
        )
        names = ("gen_ai.agent.name", "gen_ai.request.model", "gen_ai.response.model")
        agent = next((span.said[name] for name in names for span in spans if span.said.get(name)), None)
        if not prompt or not done:
            failed = next((span.error for span in spans if span.error), None)
            joiner.leave_out("the trace has no messages of a user and a model", f"{places[trace]}{error_said(failed)}")
            continue
        times[who := (as_text(agent), prompt)] += 1
        item = items.item(*who, done, repeat=times[who])
        joiner.add(agent, item, done, prompt=prompt, place=places[trace], repeat=times[who])
    return joiner.pool()


def _spans(file: Path, replaced: Replacements) -> Iterator[tuple[str, dict[str, Json]]]:
    """(place, span) of a file that is one export, a list of them, or one a line."""
    text = read_text(file, replaced)
    whole = _parsed(text, file, replaced)
    exports = [(str(file), one) for one in (whole if isinstance(whole, list) else [whole])]
    for place, export in parse_lines(text, file, replaced) if isinstance(whole, str) else exports:
        if not isinstance(inner(export, "resourceSpans"), list):
            raise wrong(
                place, "it has no 'resourceSpans', so it is no OTLP JSON. Give traces alone.", slug="import-format"
            )
        for resource in as_list(inner(export, "resourceSpans"), place):
            for scope in as_list(inner(resource, "scopeSpans") or [], place):
                for span in as_list(inner(scope, "spans") or [], place):
                    yield place, as_object(span, place)


def _attributes(listed: Json) -> dict[str, Json]:
    found = listed if isinstance(listed, list) else []
    return {as_text(inner(one, "key")): _value(inner(one, "value")) for one in found}


def _value(said: Json) -> Json:
    """What an attribute's value is: OTLP names its type."""
    if not isinstance(said, dict) or not said:
        return None
    kind, value = next(iter(said.items()))
    if kind == "arrayValue":
        values = inner(value, "values")
        return [_value(one) for one in values] if isinstance(values, list) else []
    if kind == "kvlistValue":
        return _attributes(inner(value, "values"))
    return int(value) if kind == "intValue" and isinstance(value, str) and _INTEGER.fullmatch(value) else value


def _text(parts: list[Json]) -> str:
    held = (inner(part, "content") for part in parts if inner(part, "type") == "text")
    return "\n".join(one for one in held if isinstance(one, str))


def _steps(spans: Sequence[_Span], models: Sequence[_Span]) -> Iterator[str]:
    """What was done in a trace, by time. A later request repeats what came before, so each result and turn is told once."""
    told, of_models = {"user 0"}, {id(span) for span in models}  # the first turn is the prompt
    for span in spans:
        if id(span) in of_models:
            turns: Counter[str] = Counter()
            for role, parts in span.messages("input"):
                for part in parts:
                    kind = "user" if role == "user" else inner(part, "type")
                    if kind not in ("user", "tool_call_response"):
                        continue
                    key = as_text(inner(part, "id") or f"{kind} {turns[str(kind)]}")
                    turns[str(kind)] += 1
                    if key not in told:
                        told.add(key)
                        yield _step(part, role)
            for _, parts in span.messages("output"):
                yield from (_step(part, "assistant") for part in parts)
        elif "gen_ai.tool.call.result" in span.said:
            told.add(as_text(span.said.get("gen_ai.tool.call.id")))
            yield f"result: {as_text(span.said['gen_ai.tool.call.result'])}"


def _step(part: Json, role: Json) -> str:
    match inner(part, "type"):
        case "text":
            return f"{role}: {as_text(inner(part, 'content'))}"
        case "tool_call":
            return call_of(inner(part, "name"), inner(part, "arguments"))
        case "tool_call_response":
            return f"result: {as_text(inner(part, 'response') or inner(part, 'result'))}"
    return ""
