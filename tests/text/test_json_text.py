"""JSON as servers and tools write it: byte order marks, NaN, infinities, lone surrogates, deep nesting."""

from __future__ import annotations

import json
import math

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from youden.text.json_text import JSONDecodeError, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_whatever_python_writes_is_parsed_into_text_that_utf8_can_encode(value):
    parsed = parse_json(json.dumps(value))
    orjson.dumps(parsed.value)
    assert (parsed.n_nonfinite > 0) == any(word in json.dumps(_without_texts(value)) for word in ("NaN", "Infinity"))


def _without_texts(value):
    if isinstance(value, dict):
        return [_without_texts(item) for item in value.values()]
    return (
        [_without_texts(item) for item in value] if isinstance(value, list) else 0 if isinstance(value, str) else value
    )


def test_surrogates_become_one_replacement_character_each_and_pairs_stay():
    assert parse_json(r'["\ud83d", "\ud83d\ude00", "a\udc00b"]') == (["\ufffd", "\U0001f600", "a\ufffdb"], 0, 2)
    assert parse_json(r'{"k\ud83d": NaN, "l": 1}').value.keys() == {"k\ufffd", "l"}


def test_bytes_with_a_byte_order_mark_or_an_invalid_byte_are_parsed():
    assert parse_json(b'\xef\xbb\xbf{"a": -Infinity}') == ({"a": -math.inf}, 1, 0)
    assert parse_json(b'["\xff", "\xc3\xa9", 1]') == (["\ufffd", "\u00e9", 1], 0, 1)


@given(st.integers(-(10**30), 10**30) | st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]))
def test_an_integer_is_what_orjson_makes_of_it(number):
    (parsed, _), n_nonfinite, _ = parse_json(f"[{number}, NaN]")
    strict = orjson.loads(str(number))
    assert n_nonfinite == 1
    assert (parsed, type(parsed)) == (strict, type(strict))


@pytest.mark.parametrize(
    "text", ["", "{", "[1,]", "nan", "[" * 5000 + "]" * 5000, '{"a": NaN} x', "[" + "9" * 9999 + "x]"]
)
def test_what_is_not_json_raises_one_error(text):
    with pytest.raises(JSONDecodeError):
        parse_json(text)


def test_nesting_has_a_limit_whether_the_text_is_strict_or_not():
    for inner in ("1", "NaN"):
        parse_json("[" * 150 + inner + "]" * 150)
        with pytest.raises(JSONDecodeError):
            parse_json("[" * 1100 + inner + "]" * 1100)


def test_a_control_character_inside_a_string_is_kept():
    assert parse_json(b'{"a": "one\ntwo\t"}').value == {"a": "one\ntwo\t"}
