"""Import OpenTelemetry traces of agents, and format messages and tool calls as text.

Ids and times are left out of a transcript, because they differ between agents that did the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Literal

import orjson

from youden.data.importers.foreign_files import (
    find_files,
    format_tool_error,
    get_nested,
    import_error,
    parse_json,
    parse_lines,
    read_text,
    require_list,
    require_object,
)
from youden.data.importers.pool_joiner import ImportedPool, PoolBuilder, PromptItemIds
from youden.errors import ImportFormatError
from youden.text.replacements import Replacements
from youden.types.pool import Json

Text = Literal["answer", "transcript"]
"""Kind of response: the last answer of an agent, or all steps of the agent."""

_MESSAGE_ATTRIBUTES = {"input": "gen_ai.input.messages", "output": "gen_ai.output.messages"}
"""Attributes of a span that hold the messages sent to a model, and those that it returned."""
_INTEGER = re.compile(r"-?[0-9]{1,20}")


def to_text(value: Json) -> str:
    """Return a text unchanged, and any other value as JSON."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # nested too deeply
        return "…"


def format_tool_call(name: Json, arguments: Json) -> str:
    """Format a model's call of a tool as one line that resembles a function call in Python.

    name : name of the tool
    arguments : object of arguments by name, or a text with such an object as JSON; other values are formatted as they are

    >>> format_tool_call("book", '{"room": "A 1", "hours": 2}')
    'call book(room="A 1", hours=2)'
    """
    parsed_arguments = _parse_if_json(arguments)
    if isinstance(parsed_arguments, dict):
        formatted_arguments = _format_keyword_arguments(parsed_arguments)
    else:
        formatted_arguments = to_text(parsed_arguments or "")
    return f"call {to_text(name)}({formatted_arguments})"


def _format_keyword_arguments(arguments: Mapping[str, Json]) -> str:
    """Format the arguments of a tool call by name as in a Python call, such as 'room="A 1", hours=2'."""
    formatted = []
    for key, value in arguments.items():
        # the value without the brackets of a list that is formatted as JSON, which quotes texts
        quoted_value = to_text([value])[1:-1]
        formatted.append(f"{key}={quoted_value}")
    return ", ".join(formatted)


def _parse_if_json(value: Json, location: Path | str = "", replaced: Replacements | None = None) -> Json:
    """Parse a text that may be JSON. Any other text, and a value that is not a text, is returned unchanged.

    location : file and line, for the count of replaced values
    replaced : counts the values that reading replaces, such as NaN, which becomes None
    """
    if not isinstance(value, str):
        return value
    with suppress(ImportFormatError):
        return parse_json(value, location, replaced)
    return value


@dataclass(frozen=True)
class _Span:
    """A span: a timed operation of a trace, such as one call of a model.

    Attributes
    ----------
    start : int
        Time of its start, in nanoseconds since 1970; 0 if it is not stated.
    attributes : mapping of str to JSON value
        Attributes by name, such as "gen_ai.agent.name".
    error : JSON value
        Message or type of the error; None without an error.
    """

    start: int
    attributes: Mapping[str, Json]
    error: Json

    def get_messages(self, side: Literal["input", "output"]) -> list[tuple[Json, list[Json]]]:
        """Return the role and the parts of each message that was sent to a model, or that it returned."""
        messages = self.attributes.get(_MESSAGE_ATTRIBUTES[side])
        if not isinstance(messages, list):
            return []
        pairs = [(get_nested(message, "role"), get_nested(message, "parts")) for message in messages]
        return [(role, parts) for role, parts in pairs if isinstance(parts, list)]


def read_opentelemetry(paths: Sequence[Path], /, *, columns: Mapping[str, str], text: Text = "answer") -> ImportedPool:
    """Import OpenTelemetry traces of agents: each trace becomes a response.

    The agent of a trace is `gen_ai.agent.name`, or else the model that received the requests. Traces with the same
    first message of a user belong to one item; items are numbered. Several traces of one agent and item are repeats.

    Parameters
    ----------
    paths : sequence of Path
        Files of OTLP JSON, with one export per file or per line, and folders of such files. Attributes are those of the
        semantic conventions for generative AI from version 1.37.
    columns : mapping
        Ignored.
    text : {"answer", "transcript"}, default "answer"
        Response of a trace: the last text that a model produced, or all steps of the agent.

    Returns
    -------
    ImportedPool
        The pool, and notes on what was left out.

    Raises
    ------
    ImportFormatError
        [import-format]: if a file is not OTLP JSON; [import-empty]: if a folder has no files, or no trace has a
        response.
    """
    builder = PoolBuilder(paths[0].stem)
    items = PromptItemIds()
    n_repeats = Counter[tuple[str, str]]()
    for first_location, spans in _read_traces(paths, builder.replaced):
        calls = _select_model_calls(spans)
        prompt = _find_prompt(calls)
        response = _format_transcript(spans, calls) if text == "transcript" else _find_last_answer(calls)
        if not prompt or not response:
            error = next((span.error for span in spans if span.error), None)
            location = f"{first_location}{format_tool_error(error)}"
            builder.count_left_out("the trace has no messages of a user and a model", location)
            continue

        agent = _find_agent_name(spans)
        cell = to_text(agent), prompt
        n_repeats[cell] += 1
        repeat = n_repeats[cell]
        item = items.get_id(*cell, response, repeat=repeat)
        builder.add(agent, item, response, prompt=prompt, location=first_location, repeat=repeat)
    return builder.build()


def _read_traces(paths: Sequence[Path], replaced: Replacements) -> list[tuple[str, list[_Span]]]:
    """Read the traces in files of OpenTelemetry, and join the spans of each trace.

    A trace records one run of an agent. It consists of spans, which are timed operations such as calls of a model. The spans
    of a trace may be in several files.

    paths : files, and folders of files, in OTLP JSON
    replaced : counts the values that reading replaces, such as NaN, which becomes None

    Returns two values per trace: the location of its first span in the files, for messages, and all spans, sorted by their
    start.

    Raises: ImportFormatError if a file is not OTLP JSON, or if there are no files.
    """
    # id of the trace → location of its first span, and all its spans
    traces: dict[str, tuple[str, list[_Span]]] = {}
    for file in find_files(paths, ("*.json", "*.jsonl"), expected_kind="an OTLP JSON file"):
        for location, span in _read_spans(file, replaced):
            trace_id = to_text(span.get("traceId"))
            _, spans = traces.setdefault(trace_id, (location, []))
            spans.append(_make_span(span, location, replaced))

    for _, spans in traces.values():
        spans.sort(key=attrgetter("start"))
    return list(traces.values())


def _select_model_calls(spans: Sequence[_Span]) -> list[_Span]:
    """Return the spans with messages from a model.

    Spans of the agent repeat the messages of its models, so they are returned only if there are no spans of models.
    """
    answered = [span for span in spans if span.get_messages("output")]
    by_models = [span for span in answered if span.attributes.get("gen_ai.operation.name") != "invoke_agent"]
    return by_models or answered


def _make_span(span: Mapping[str, Json], location: str, replaced: Replacements) -> _Span:
    """Create a span from an OTLP object; messages that are encoded as JSON are parsed.

    location : file and line, for errors
    replaced : counts the values that reading replaces, such as NaN, which becomes None
    """
    attributes = _convert_attributes(span.get("attributes"))
    for name in _MESSAGE_ATTRIBUTES.values():
        if name in attributes:
            attributes[name] = _parse_if_json(attributes[name], location, replaced)
    start_text = to_text(span.get("startTimeUnixNano"))
    start = int(start_text) if _INTEGER.fullmatch(start_text) else 0
    error = get_nested(dict(span), "status", "message") or attributes.get("error.type")
    return _Span(start, attributes, error)


def _find_prompt(spans: Sequence[_Span]) -> str | None:
    """Return the text of the first message of a user; None if there is none."""
    for span in spans:
        for role, parts in span.get_messages("input"):
            if role == "user":
                return _join_texts(parts)
    return None


def _find_last_answer(spans: Sequence[_Span]) -> str:
    """Return the last output of a model that is not empty; empty if there is none."""
    answers = [_join_texts(parts) for span in spans for _, parts in span.get_messages("output")]
    return next(filter(None, reversed(answers)), "")


def _find_agent_name(spans: Sequence[_Span]) -> Json:
    """Return the name of the agent, or else the model; None if no span has one."""
    for name in ("gen_ai.agent.name", "gen_ai.request.model", "gen_ai.response.model"):
        for span in spans:
            if span.attributes.get(name):
                return span.attributes[name]
    return None


def _read_spans(file: Path, replaced: Replacements) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the spans (timed operations) of a file, each with its location.

    replaced : counts the values that reading replaces, such as NaN, which becomes None
    """
    for location, export in _read_exports(file, replaced):
        resources = get_nested(export, "resourceSpans")
        if not isinstance(resources, list):
            raise import_error(
                location,
                "it has no 'resourceSpans', so it is not OTLP JSON. Pass files of traces.",
                slug="import-format",
            )
        for resource in resources:
            for scope in require_list(get_nested(resource, "scopeSpans") or [], location):
                for span in require_list(get_nested(scope, "spans") or [], location):
                    yield location, require_object(span, location)


def _read_exports(file: Path, replaced: Replacements) -> Iterator[tuple[str, Json]]:
    """Yield the exports in a file with their locations. An export is an OTLP JSON object, which holds spans.

    The file may hold one export, a list of exports, or one export per line.

    replaced : counts the values that reading replaces, such as NaN, which becomes None
    """
    text = read_text(file, replaced)
    content = _parse_if_json(text, file, replaced)
    if isinstance(content, str):  # the file is not one JSON value
        yield from parse_lines(text, file, replaced)
        return

    exports = content if isinstance(content, list) else [content]
    for export in exports:
        yield str(file), export


def _convert_attributes(attributes: Json) -> dict[str, Json]:
    """Convert a list of OTLP attributes to values by name."""
    if not isinstance(attributes, list):
        return {}
    return {to_text(get_nested(entry, "key")): _convert_value(get_nested(entry, "value")) for entry in attributes}


def _convert_value(value: Json) -> Json:
    """Convert a value of OTLP to JSON.

    value : object with one entry, whose key is the type: {"intValue": "7"}, {"arrayValue": {"values": […]}} or
        {"kvlistValue": {"values": […]}}, for example. Anything else, and an empty object, becomes None.
    """
    if not isinstance(value, dict) or not value:
        return None
    kind, content = next(iter(value.items()))
    if kind == "arrayValue":
        elements = get_nested(content, "values")
        return [_convert_value(element) for element in elements] if isinstance(elements, list) else []
    if kind == "kvlistValue":
        return _convert_attributes(get_nested(content, "values"))
    if kind == "intValue" and isinstance(content, str) and _INTEGER.fullmatch(content):
        return int(content)
    return content


def _join_texts(parts: list[Json]) -> str:
    """Join the texts among the parts of a message."""
    contents = (get_nested(part, "content") for part in parts if get_nested(part, "type") == "text")
    return "\n".join(content for content in contents if isinstance(content, str))


def _format_transcript(spans: Sequence[_Span], calls: Sequence[_Span]) -> str:
    """Format all steps of a trace, one per line; `calls` are the spans of models."""
    return "\n".join(filter(None, _format_steps(spans, calls)))


def _format_steps(spans: Sequence[_Span], calls: Sequence[_Span]) -> Iterator[str]:
    """Yield a line for each step of a trace after its prompt, in order of time.

    The input of each call repeats earlier steps. Each message and each tool result is therefore yielded only once.

    spans : all operations of the trace
    calls : the operations among `spans` that are calls of a model
    """
    yielded_keys = {_PROMPT_KEY}
    call_ids = {id(span) for span in calls}
    for span in spans:
        is_call = id(span) in call_ids
        if is_call:
            yield from _format_new_inputs(span, yielded_keys)
            for _, parts in span.get_messages("output"):
                for part in parts:
                    yield _format_message_part(part, "assistant")
        elif "gen_ai.tool.call.result" in span.attributes:
            # the input of the next call repeats this result, which `_format_new_inputs` then skips
            yielded_keys.add(to_text(span.attributes.get("gen_ai.tool.call.id")))
            yield f"result: {to_text(span.attributes['gen_ai.tool.call.result'])}"


_PROMPT_KEY = "user 0"
"""Key of the first message of a user, which is the prompt; see `_format_new_inputs`."""


def _format_new_inputs(call: _Span, yielded_keys: set[str]) -> Iterator[str]:
    """Yield one line per new user message, and one per new tool result, in the input of a model call.

    Each part of a message, and each tool result, has a key. The key is its id or, without an id, its kind and its number from
    0, such as "user 1".

    call : the model call
    yielded_keys : keys of the messages and results that are not new; the keys of new messages and results are added
    """
    n_by_kind: Counter[str] = Counter()
    for role, parts in call.get_messages("input"):
        for part in parts:
            kind = "user" if role == "user" else str(get_nested(part, "type"))
            if kind not in ("user", "tool_call_response"):
                continue

            key = to_text(get_nested(part, "id") or f"{kind} {n_by_kind[kind]}")
            n_by_kind[kind] += 1
            if key in yielded_keys:
                continue
            yielded_keys.add(key)
            yield _format_message_part(part, role)


def _format_message_part(part: Json, role: Json) -> str:
    """Format a text, tool call or tool result in a message; return "" for any other part.

    role : role of the author of the message, such as "user"
    """
    match get_nested(part, "type"):
        case "text":
            return f"{role}: {to_text(get_nested(part, 'content'))}"
        case "tool_call":
            return format_tool_call(get_nested(part, "name"), get_nested(part, "arguments"))
        case "tool_call_response":
            return f"result: {to_text(get_nested(part, 'response') or get_nested(part, 'result'))}"
    return ""
