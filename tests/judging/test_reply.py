"""Test the validation of replies before they are stored: types, log-probabilities, usage and embedded errors."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrowing import untyped
from youden.judging.call.connection import parse_reply
from youden.judging.call.failures import CallError
from youden.judging.call.reply import MAX_USAGE_FACTOR, check_usage_for, parse_completion, validate_completion
from youden.judging.call.reply_errors import find_reply_error
from youden.judging.call.reply_fields import MAX_NAME_CHARACTERS, MAX_TOKEN_BYTES, MAX_TOKEN_COUNT
from youden.judging.offline.lines import iter_results
from youden.judging.providers.anthropic import AnthropicJudge
from youden.types import Completion, Message, Request

ODDS = {"content": [{"token": " "}, {"token": "YES", "top_logprobs": [{"token": "YES", "logprob": -0.1}]}]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
Place = tuple[str | int, ...]
CHOICE: Place = ("choices", 0)
MESSAGE: Place = (*CHOICE, "message")
ODDS_OF: Place = (*CHOICE, "logprobs")
BLANK: Place = (*ODDS_OF, "content", 0)
TOP: Place = (*ODDS_OF, "content", 1, "top_logprobs")
LOGPROB: Place = (*TOP, 0, "logprob")
FIELDS: tuple[Place, ...] = (
    *((), ("choices",), CHOICE, MESSAGE, (*CHOICE, "finish_reason"), ODDS_OF, (*ODDS_OF, "content")),
    *((*MESSAGE, name) for name in ("content", "refusal", "provider_specific_fields")),
    *(BLANK, (*BLANK, "token"), TOP, (*TOP, 0), (*TOP, 0, "token"), LOGPROB),
    *((name,) for name in ("model", "system_fingerprint", "usage")),
    *(("usage", name) for name in ("prompt_tokens", "completion_tokens")),
)


def reply(path: Place = (), value: object = None) -> Any:
    """Return a complete reply with `value` in one field."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "YES"}, "finish_reason": "stop"}
    data: Any = {"model": "m", "system_fingerprint": "fp", "choices": [choice | {"logprobs": ODDS}]}
    data = json.loads(json.dumps(data | {"usage": {"prompt_tokens": 100, "completion_tokens": 1}}))
    if not path:
        return data
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return data


WHOLE = Completion("YES", "stop", "m", 100, 1, 0.5, "fp", None, (("YES", -0.1),))


def fails(said: object, words: str) -> None:
    with pytest.raises(CallError, match=words) as caught:
        parse_completion(said, seconds=0.5)
    assert caught.value.kind == "transient"


def test_a_complete_reply_is_read() -> None:
    assert parse_completion(reply(), seconds=0.5) == WHOLE
    assert validate_completion(WHOLE) == WHOLE


@given(st.sampled_from(FIELDS), JSON)
def test_arbitrary_fields_give_a_storable_completion_or_a_failed_call(path: Place, value: object) -> None:
    with suppress(CallError):
        assert_sound(parse_completion(reply(path, value) if path else value, seconds=0.5))


@given(st.builds(Completion, *[JSON] * 9))
def test_arbitrary_stored_values_give_a_valid_completion_or_a_failure(said: Completion) -> None:
    with suppress(CallError):
        completion = validate_completion(said)
        assert_sound(completion)
        assert validate_completion(completion) == completion


def assert_sound(found: Completion) -> None:
    """Check that the completion can be written, reads back unchanged, and has valid counts."""
    fields = orjson.loads(orjson.dumps(found))
    fields["top_logprobs"] = tuple((token, value) for token, value in fields["top_logprobs"])
    assert Completion(**fields) == found
    for name in (found.text, found.finish_reason, found.model):
        assert isinstance(name, str)
    optional: tuple[object, ...] = (found.fingerprint, found.refusal)
    for value in optional:
        assert value is None or isinstance(value, str)
    for n in (found.tokens_in, found.tokens_out):
        assert type(n) is int
        assert 0 <= n <= MAX_TOKEN_COUNT
    assert all(math.isfinite(logprob) and logprob <= 0 for _, logprob in found.top_logprobs)
    assert 0 <= found.seconds < math.inf


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("id",), None),
        (("new",), {"deep": [1]}),
        (("system_fingerprint",), None),
        (("system_fingerprint",), ["a"]),
        (ODDS_OF, None),
        ((*MESSAGE, "refusal"), ""),
        ((*MESSAGE, "tool_calls"), []),
        (("error",), None),
    ],
)
def test_a_harmless_irregularity_keeps_the_answer(path: Place, value: object) -> None:
    completion = parse_completion(reply(path, value), seconds=0.5)
    assert (completion.text, completion.tokens_in, completion.tokens_out) == ("YES", 100, 1)


@pytest.mark.parametrize("mark", ['"', "**", "`", "\n*", "“"])
def test_log_probabilities_are_those_of_the_first_word_in_quotation_marks_or_bold(mark: str) -> None:
    opening = {"token": mark, "top_logprobs": [{"token": mark, "logprob": -0.01}, {"token": "NO", "logprob": -6.0}]}
    entries = [opening, *ODDS["content"], {"token": mark, "top_logprobs": []}]
    assert parse_completion(reply(ODDS_OF, {"content": entries}), seconds=0.5).top_logprobs == WHOLE.top_logprobs


def test_the_finish_reason_of_the_provider_counts_if_litellm_replaced_it_by_stop() -> None:
    native = {"native_finish_reason": "model_length"}
    for mapped, reason in (("stop", "model_length"), ("content_filter", "content_filter")):
        output = reply((*CHOICE, "provider_specific_fields"), native)
        output["choices"][0]["finish_reason"] = mapped
        assert parse_completion(output, seconds=0.5).finish_reason == reason


def test_additional_choices_are_ignored() -> None:
    output = reply()
    output["choices"].append({"message": {"content": "NO"}})
    assert parse_completion(output, seconds=0.5) == WHOLE


@pytest.mark.parametrize("value", [["m"], {"m": 1}, 5, True, 1e9])
def test_metadata_of_another_type_is_omitted(value: object) -> None:
    for path, without in (
        (("model",), {"model": ""}),
        (("system_fingerprint",), {"fingerprint": None}),
        ((*CHOICE, "finish_reason"), {"finish_reason": "unknown"}),
        ((*MESSAGE, "refusal"), {}),
    ):
        assert parse_completion(reply(path, value), seconds=0.5) == replace(WHOLE, **without)


def test_names_are_truncated_and_lone_surrogates_removed() -> None:
    assert len(parse_completion(reply(("model",), "m" * 10_000), seconds=0).model) == MAX_NAME_CHARACTERS
    assert parse_completion(reply((*MESSAGE, "content"), "a\ud800"), seconds=0).text == "a?"


def test_a_refusal_is_recognized_in_any_field() -> None:
    assert parse_completion(reply((*MESSAGE, "refusal"), "no"), seconds=0).refusal == "no"
    own = (*MESSAGE, "provider_specific_fields")
    assert parse_completion(reply(own, {"refusal": "no"}), seconds=0).refusal == "no"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ((), [], "the reply is of type list"),
        ((), None, "the reply is missing"),
        (("choices",), [], "choices is an empty list"),
        (("choices",), None, "choices is missing"),
        (("choices",), {"0": 1}, "choices is of type dict"),
        (CHOICE, "YES", r"choices\[0\] is of type str"),
        (MESSAGE, None, "the message is missing"),
        *(((*MESSAGE, "content"), value, "the content is of type") for value in (5, [1], {"answer": "YES"}, True)),
        (ODDS_OF, "none", "logprobs is of type str"),
        ((*ODDS_OF, "content"), "none", "the content of logprobs is of type str"),
        (BLANK, 5, "a token of logprobs is of type int"),
        ((*BLANK, "token"), 5, "a token of logprobs is of type int"),
        (TOP, "x", "top_logprobs is of type str"),
        ((*TOP, 0), "x", "an alternative is of type str"),
        ((*TOP, 0, "token"), 5, "an alternative is not a token with its log-probability"),
    ],
)
def test_a_reply_without_required_fields_is_no_answer(path: Place, value: object, words: str) -> None:
    fails(reply(path, value) if path else value, words)


@pytest.mark.parametrize("value", [800, 0.5, math.nan, math.inf, "nan", "inf", "-0.1", True, [], 10**400])
def test_impossible_log_probabilities_are_no_answer(value: object) -> None:
    fails(reply(LOGPROB, value), "a log-probability is")


def test_unusually_formatted_log_probabilities_are_read() -> None:
    for path, value, odds in (
        (LOGPROB, 1e-7, (("YES", 0.0),)),
        (LOGPROB, -9999, (("YES", -9999.0),)),
        (LOGPROB, -math.inf, ()),
        (LOGPROB, None, ()),
        (TOP, None, ()),
        ((*ODDS_OF, "content"), None, ()),
        ((*ODDS_OF, "content"), [], ()),
    ):
        assert parse_completion(reply(path, value), seconds=0).top_logprobs == odds


def test_stored_log_probabilities_of_another_shape_are_no_answer() -> None:
    for odds in ("YES", [["YES"]], [[1, -0.1]], [["YES", "nan"]]):
        with pytest.raises(CallError):
            validate_completion(untyped(replace)(WHOLE, top_logprobs=odds))


@pytest.mark.parametrize(
    "n", [-100_000, 10**15, 2**70, 1.5, math.nan, math.inf, "-100", "1e2", "9" * 5000, True, [100], None]
)
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_a_usage_that_is_no_count_is_treated_as_missing(name: str, n: object) -> None:
    completion = parse_completion(reply(("usage", name), n), seconds=0)
    assert (completion.tokens_in, completion.tokens_out) == (0, 0)
    assert completion.text == "YES"


def test_a_usage_written_as_a_float_is_read() -> None:
    assert parse_completion(reply(("usage", "prompt_tokens"), 120.0), seconds=0).tokens_in == 120
    assert parse_completion(reply(("usage", "prompt_tokens"), "120"), seconds=0).tokens_in == 120


REQUEST = Request("m", (Message("system", "s" * 280), Message("user", "ü" * 500)))
N_BYTES = 1280


def use(n_in: int, n_out: int, *, text: str = "YES", limit: int | None = 8) -> tuple[int, int, str | None]:
    completion = replace(WHOLE, text=text, tokens_in=n_in, tokens_out=n_out)
    checked, fault = check_usage_for(completion, REQUEST, answer_limit=limit)
    return checked.tokens_in, checked.tokens_out, fault


def test_a_plausible_usage_is_accepted_however_small() -> None:
    for n_in in (N_BYTES // MAX_TOKEN_BYTES, 60, N_BYTES // 4, N_BYTES, MAX_USAGE_FACTOR * N_BYTES):
        assert use(n_in, 1) == (n_in, 1, None)
    assert use(100, 0, text="") == (100, 0, None)
    assert use(100, MAX_TOKEN_COUNT, limit=None) == (100, MAX_TOKEN_COUNT, None)


def test_an_impossible_usage_is_reported_and_not_accepted() -> None:
    cases = [(0, 1), (N_BYTES // MAX_TOKEN_BYTES - 1, 1), (100, 0), (10 * N_BYTES, 1), (100, 5000)]
    for n_in, n_out in cases:
        fault = (
            f"it reports {n_in:,} tokens in and {n_out:,} out for a request of {N_BYTES:,} bytes, which is impossible"
        )
        assert use(n_in, n_out) == (0, 0, fault)
    assert use(100, 1, text="x" * 500)[2] is not None


def test_a_missing_usage_is_not_reported_as_implausible() -> None:
    assert use(0, 0) == (0, 0, None)


@given(st.integers(0, MAX_TOKEN_COUNT), st.integers(0, MAX_TOKEN_COUNT))
def test_a_validated_usage_equals_the_reported_one_or_is_missing(n_in: int, n_out: int) -> None:
    tokens_in, tokens_out, _ = use(n_in, n_out)
    assert (tokens_in, tokens_out) in ((n_in, n_out), (0, 0))
    assert tokens_in <= MAX_USAGE_FACTOR * (N_BYTES + 24)


@pytest.mark.parametrize(
    ("error", "kind", "status", "said"),
    [
        ({"code": "insufficient_quota", "message": "Top up."}, "fatal", 402, "(insufficient_quota): Top up."),
        ({"type": "insufficient_quota", "code": None}, "fatal", 402, "(insufficient_quota): no reason given"),
        ({"code": "odd", "type": "insufficient_quota"}, "fatal", 402, "(insufficient_quota)"),
        ({"code": "invalid_api_key"}, "fatal", 401, "(invalid_api_key)"),
        ({"code": "model_not_found"}, "fatal", 404, "(model_not_found)"),
        ({"code": 402, "message": "credits"}, "fatal", 402, "(402): credits"),
        ({"code": "502"}, "transient", 502, "(502)"),
        ({"code": 429}, "transient", 429, "(429)"),
        ({"code": "rate_limit_exceeded"}, "transient", 429, "(rate_limit_exceeded)"),
        ({"code": "RESOURCE_EXHAUSTED", "message": "check quota"}, "transient", 429, "(RESOURCE_EXHAUSTED): check"),
        ({"status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota."}, "transient", 429, "exceeded"),
        ({"status": "RESOURCE_EXHAUSTED", "message": "Insufficient credits"}, "fatal", 402, "credits"),
        ({"type": "rate_limit_exceeded", "code": "insufficient_quota"}, "fatal", 402, "(insufficient_quota)"),
        ({"code": "rate_limit_exceeded", "type": "insufficient_quota"}, "fatal", 402, "(rate_limit_exceeded)"),
        ({"code": "too_many_requests"}, "transient", 429, "(too_many_requests)"),
        ({"status": "UNAVAILABLE"}, "transient", 503, "(UNAVAILABLE)"),
        ({"status": "DEADLINE_EXCEEDED"}, "transient", 504, "(DEADLINE_EXCEEDED)"),
        ({"status": "INVALID_ARGUMENT"}, "rejected", 400, "(INVALID_ARGUMENT)"),
        ({"status": "INTERNAL"}, "transient", 500, "(INTERNAL)"),
        ({"code": "context_length_exceeded"}, "rejected", 400, "(context_length_exceeded)"),
        ({"type": "overloaded_error"}, "transient", 503, "(overloaded_error)"),
        ({"code": "odd", "message": ["x"]}, "transient", 500, "(odd): no reason given"),
        ({"code": 7}, "transient", 500, "(7)"),
        ({"code": "²²²"}, "transient", 500, "(²²²)"),
        ({"code": ["x"]}, "transient", 500, "(no code)"),
        ("busy", "transient", 500, "(no code): busy"),
        ("You exceeded your current quota.", "fatal", 402, "(no code): You exceeded"),
        (True, "transient", 500, "(no code): no reason given"),
    ],
)
def test_an_error_inside_a_success_is_classified_by_its_code(error: object, kind: str, status: int, said: str) -> None:
    with pytest.raises(CallError) as caught:
        parse_completion({"error": error}, seconds=0)
    assert (caught.value.kind, caught.value.status) == (kind, status)
    assert caught.value.reason.startswith("HTTP 200 with an error inside ")
    assert said in caught.value.reason


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}, "choices": None}, "fatal", 402),
        ({"object": "error", "message": "The model `m` does not exist.", "code": 404}, "fatal", 404),
        ({"errors": [{"code": 7009, "message": "Upstream service unavailable"}], "success": False}, "transient", 500),
        ({"detail": "Unauthorized", "choices": []}, "transient", 500),
    ],
)
def test_an_error_in_a_success_without_choices_is_classified(body: dict[str, Any], kind: str, status: int) -> None:
    with pytest.raises(CallError, match="HTTP 200 with an error inside") as caught:
        parse_completion(body, seconds=0)
    assert (caught.value.kind, caught.value.status) == (kind, status)


def test_an_answer_with_an_additional_error_field_is_an_answer() -> None:
    assert find_reply_error(reply(("error",), {"code": "insufficient_quota"})) is None
    without_error: tuple[object, ...] = (None, {}, "", [], 5, {"error": None}, {"error": {}})
    for nothing in without_error:
        assert find_reply_error(nothing) is None


@pytest.mark.parametrize(
    ("content", "text", "refusal"),
    [
        ([{"type": "text", "text": "Y"}, {"type": "text", "text": "ES"}], "YES", None),
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "NO"}]}, {"type": "text", "text": "YES"}],
            "YES",
            None,
        ),
        ([{"type": "reasoning", "text": "NO"}, {"type": "output_text", "text": "YES"}], "YES", None),
        ([{"text": "YES"}], "YES", None),
        ([{"type": "text", "text": None}, {"type": "text", "text": "YES"}], "YES", None),
        (["Y", {"type": "text", "text": "ES"}], "YES", None),
        ({"type": "text", "text": "YES"}, "YES", None),
        ([{"type": "text", "text": "NO", "thought": True}, {"type": "text", "text": "YES"}], "YES", None),
        ([{"type": "refusal", "refusal": "I cannot."}], "", "I cannot."),
        ([], "", None),
    ],
)
def test_text_parts_of_a_content_are_joined(content: object, text: str, refusal: str | None) -> None:
    completion = parse_completion(reply((*MESSAGE, "content"), content), seconds=0)
    assert (completion.text, completion.refusal) == (text, refusal)


@pytest.mark.parametrize("content", [[1], [None], [{"type": "text", "text": {"value": "YES"}}]])
def test_content_parts_without_text_are_a_malformed_reply(content: object) -> None:
    fails(reply((*MESSAGE, "content"), content), "the content is of type list")


def errored(**where: Any) -> Any:
    """Return a reply without text whose generation failed, with fields of the reply, its choice or its message."""
    output = reply((*MESSAGE, "content"), "")
    output["choices"][0] |= {"finish_reason": "error"} | where.get("choice", {})
    output["choices"][0]["message"] |= where.get("message", {})
    return output | where.get("reply", {})


@pytest.mark.parametrize("place", ["reply", "choice", "message"])
@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"code": 502, "message": "Upstream provider died"}, "transient", 502),
        ({"code": 429, "message": "upstream 429"}, "transient", 429),
        ({"code": "insufficient_quota", "message": "Top up."}, "fatal", 402),
        ({"code": 401, "message": "no"}, "fatal", 401),
        ({"code": 400, "message": "too long"}, "rejected", 400),
        ("died", "transient", 500),
    ],
)
def test_an_error_next_to_or_inside_choices_is_classified_by_its_code(
    place: str, error: object, kind: str, status: int
) -> None:
    with pytest.raises(CallError) as caught:
        parse_completion(errored(**{place: {"error": error}}), seconds=0)
    assert (caught.value.kind, caught.value.status) == (kind, status)


@pytest.mark.parametrize("start", ["", ": keep-alive\n\n", "event: message\n"])
def test_a_streamed_reply_is_refused_with_its_remedy_and_not_sent_again(start: str) -> None:
    body = start + 'data: {"choices": [{"delta": {"content": "YES"}}]}\n\ndata: [DONE]\n\n'
    with pytest.raises(CallError, match="Turn off streaming") as caught:
        parse_reply(body.encode())
    assert (caught.value.kind, caught.value.unbilled) == ("rejected", False)


def test_an_error_in_a_choice_with_partial_text_is_an_error() -> None:
    output = errored(choice={"error": {"code": 502}}, message={"content": "The two YES"})
    with pytest.raises(CallError):
        parse_completion(output, seconds=0)
    fails(errored(message={"content": "The two YES"}), "an error inside")


def test_an_error_after_generated_tokens_is_billed() -> None:
    for n_out, free in ((0, True), (30, False)):
        output = errored(
            choice={"error": {"code": 502}}, reply={"usage": {"prompt_tokens": 9, "completion_tokens": n_out}}
        )
        reply_error = find_reply_error(output)
        assert reply_error is not None
        assert reply_error.unbilled is free


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": 200}])
@pytest.mark.parametrize("content", ["", None, "\n", []])
def test_an_empty_completion_without_usage_is_retried(usage: object, content: object) -> None:
    output = reply((*MESSAGE, "content"), content) | {"usage": usage}
    fails(output, "empty and reports no output tokens")


@pytest.mark.parametrize(
    "ended", ["STOP", "eos", "end_turn", "abort", "network_error", "insufficient_system_resource", None]
)
def test_an_empty_completion_is_retried_for_any_finish_reason(ended: str | None) -> None:
    output = reply((*CHOICE, "finish_reason"), ended) | {"usage": None}
    output["choices"][0]["message"]["content"] = ""
    with pytest.raises(CallError) as caught:
        parse_completion(output, seconds=0)
    assert caught.value.kind == "transient"


def test_an_empty_completion_with_reported_tokens_or_a_reason_is_stored() -> None:
    for path, value in (
        (("usage", "completion_tokens"), 1),
        ((*CHOICE, "finish_reason"), "length"),
        ((*CHOICE, "finish_reason"), "content_filter"),
        ((*MESSAGE, "refusal"), "I cannot."),
    ):
        output = reply(path, value)
        output["choices"][0]["message"]["content"] = ""
        if path[-1] != "completion_tokens":
            output["usage"]["completion_tokens"] = 0
        assert parse_completion(output, seconds=0).text == ""


@pytest.mark.parametrize(
    ("usage", "tokens_out"),
    [
        ({"total_tokens": 900}, 700),
        ({"total_tokens": 201}, 1),
        ({"total_tokens": 5}, 1),
        ({"total_tokens": "900"}, 700),
        ({"total_tokens": 1.5}, 1),
        ({"completion_tokens_details": {"reasoning_tokens": 699}}, 700),
        ({"reasoning_tokens": 699}, 700),
        ({"completion_tokens": 700, "completion_tokens_details": {"reasoning_tokens": 699}}, 700),
        ({"total_tokens": 900, "completion_tokens_details": {"reasoning_tokens": 699}}, 700),
        ({"completion_tokens_details": None}, 1),
        ({"total_tokens": None}, 1),
    ],
)
def test_reasoning_tokens_outside_of_completion_tokens_are_billed(usage: dict[str, Any], tokens_out: int) -> None:
    output = reply() | {"usage": {"prompt_tokens": 200, "completion_tokens": 1} | usage}
    assert parse_completion(output, seconds=0).tokens_out == tokens_out


@pytest.mark.parametrize(("n_prompt", "n_total", "n_in"), [(72, 202, 200), (200, 202, 200), (72, 74, 200)])
def test_cached_tokens_that_a_gateway_leaves_out_of_the_prompt_are_billed(
    n_prompt: int, n_total: int, n_in: int
) -> None:
    usage = {"prompt_tokens": n_prompt, "completion_tokens": 2, "total_tokens": n_total}
    completion = parse_completion(
        reply(("usage",), usage | {"prompt_tokens_details": {"cached_tokens": 128}}), seconds=0
    )
    assert (completion.tokens_in, completion.tokens_out) == (n_in, 2)


def test_cached_tokens_of_a_claude_prompt_are_billed() -> None:
    """`input_tokens` counts only tokens after the last cache breakpoint."""
    cached = {"input_tokens": 5, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 175}
    message = {"content": [{"type": "text", "text": "YES"}], "stop_reason": "end_turn"}
    for usage, tokens_in in ((cached, 200), ({"input_tokens": 5, "cache_read_input_tokens": None}, 5)):
        output = AnthropicJudge.convert_reply(message | {"usage": usage | {"output_tokens": 1}})
        assert parse_completion(output, seconds=0).tokens_in == tokens_in


def test_equal_answers_of_a_batch_may_differ_in_reasoning_or_contain_an_error() -> None:
    total = reply() | {"usage": {"prompt_tokens": 200, "completion_tokens": 1, "total_tokens": 900}}
    lines = [reply(), total, reply((*CHOICE, "error"), {"code": 502}), reply((*CHOICE, "logprobs"), None)]
    for line in lines:
        line["choices"][0]["logprobs"] = None
    text = b"\n".join(
        orjson.dumps({"custom_id": f"k{n}", "response": {"status_code": 200, "body": line}})
        for n, line in enumerate(lines)
    )
    results = dict(iter_results(text))
    assert [getattr(results[f"k{n}"], "tokens_out", None) for n in range(4)] == [1, 700, None, 1]


@pytest.mark.parametrize(
    "spoil", [lambda line: b"\xef\xbb\xbf" + line, lambda line: line.replace(b'"x"', b'"\\ud83d", "n": -Infinity')]
)
def test_result_lines_that_are_not_strict_json_are_read(spoil: Any) -> None:
    line = orjson.dumps({"custom_id": "k", "id": "x", "response": {"status_code": 200, "body": reply()}})
    assert dict(iter_results(spoil(line))) == {"k": replace(WHOLE, seconds=0.0)}


def spelled(*tokens: str) -> dict[str, Any]:
    """Return log-probabilities of these tokens, each with itself as the only alternative."""
    return {"content": [{"token": token, "top_logprobs": [{"token": token, "logprob": -0.1}]} for token in tokens]}


@pytest.mark.parametrize(
    ("content", "beside", "tokens", "first"),
    [
        ("<think>NO</think>\n\nYES", {}, ("<think>", "NO", "</think>", "\n\n", "Y", "ES"), "Y"),
        ("<think>NO</think>\n\nYES", {}, ("<think>", "NO", "</think>", "\n\n", "YES", "<|im_end|>"), "YES"),
        ("YES", {"reasoning_content": "NO"}, ("<think>", "NO", "</think>", "\n\n", "YES"), "YES"),
        ("YES", {"reasoning": "NO"}, ("YES",), "YES"),
        ([{"type": "text", "text": "YES"}], {}, ("NO", "YES"), "YES"),
        ("<think>NO", {}, ("<think>", "NO"), None),
        ("<think>NO</think>YES", {}, ("<think>",), None),
        ("YES", {"reasoning_content": "NO"}, ("NO",), None),
        ("YES", {}, ("YES",), "YES"),
    ],
)
def test_log_probabilities_of_reasoning_are_ignored(
    content: object, beside: dict[str, str], tokens: tuple[str, ...], first: str | None
) -> None:
    output = reply(ODDS_OF, spelled(*tokens))
    output["choices"][0]["message"] |= {"content": content} | beside
    assert parse_completion(output, seconds=0).top_logprobs == (() if first is None else ((first, -0.1),))
