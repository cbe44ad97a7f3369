"""Test YAML and JSON as written by people, servers and tools."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from yaml import safe_dump, safe_load

from youden.data.folder.run_config import load_run_config
from youden.errors import ConfigError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.question.prompts import load_prompt
from youden.pools.generation.agents import load_agents, load_instruction
from youden.text.json_text import JSONDecodeError, RepeatedKeyError, parse_json
from youden.text.yaml_text import YamlError, parse_yaml, split_front_matter
from youden.types.pool import Json

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN)
def test_plain_yaml_is_parsed_like_safe_load(data: object) -> None:
    text = safe_dump(data)
    assert parse_yaml(text) == safe_load(text) == data


def test_a_text_parsed_again_gives_an_equal_value_that_no_earlier_change_affects() -> None:
    text = "a: [1, {b: 2}]\n"
    value = parse_yaml(text)
    assert value == {"a": [1, {"b": 2}]}
    assert isinstance(value, dict)
    value["a"].append(3)
    assert parse_yaml(text) == {"a": [1, {"b": 2}]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", "the key 'a' occurs twice (line 3)"),
        ("a:\n- b: 1\n  b: 1\n", "the key 'b' occurs twice (line 3)"),
        ("{a: 1, 'a': 2}", "the key 'a' occurs twice (line 1)"),
        ("16: x\n0x10: y\n", "the key '0x10' occurs twice (line 2)"),
        ("a:\n  <<: {b: 1, b: 2}\n", "the key 'b' occurs twice (line 2)"),
        ("a: 0100", "the number '0100' has a leading zero or a colon"),
        ("a: 1\nb: -1:30", "Write it without the leading zero or colon, or in quotes if it is text (line 2)"),
        ("a: [1:30.5]", "'1:30.5'"),
        ("0100: a", "'0100'"),
        ("[", "line 1"),
        ("a: 1\n---\nb: 2\n", "line 2"),
        ("a: 2024-13-45", "month"),
        ("[" * 500, "nested too deeply"),
        ("a: \x00", "#x0000"),
        ("!!python/object:os.system x", "line 1"),
        ("? [a]\n: 1\n", "unhashable"),
        (
            "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join(9 * [f'*a{n - 1}'])}]\n" for n in range(1, 9)),
            "aliases",
        ),
        ("a: &a [*a]\n", "aliases"),
    ],
)
def test_invalid_yaml_is_refused_with_one_line(text: str, says: str) -> None:
    with pytest.raises(YamlError) as caught:
        parse_yaml(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_merged_mapping_may_be_overridden_by_its_own_keys() -> None:
    assert parse_yaml("one: &one {a: 1, b: 2}\ntwo: {<<: *one, a: 3}\n") == {
        "one": {"a": 1, "b": 2},
        "two": {"a": 3, "b": 2},
    }


def test_line_numbers_of_front_matter_refer_to_the_file() -> None:
    read = split_front_matter("---\na: 1\n---\nbody {{text}}\n")
    assert read is not None
    assert (read.head, read.body) == ({"a": 1}, "body {{text}}\n")
    assert split_front_matter("no head") is None
    with pytest.raises(YamlError, match="line 3"):
        split_front_matter("---\na: 1\na: 2\n---\n")


PROMPT = (
    '---\nlabels: {"YES": 1, "NO": 0}\nyes_threshold: 1\nyes_threshold: 0.5\nparser: label/1\n---\n{{first}}{{second}}'
)
FILES: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "judge.yaml": ("backend: openai\nmodel: m\nprice_in: 1\nprice_in: 99\n", "price_in", load_judge_config),
    "run.yaml": ("pool: p\nseed: 1\n# why\nseed: 2\n", "seed", load_run_config),
    "agents.yaml": ("agents:\n- id: a\n  based_on: source\n  based_on: a\n", "based_on", load_agents),
    "prompt.md": (PROMPT, "yes_threshold", load_prompt),
    "mine.md": (
        "---\n\nsystem: x\nsystem: y\n---\n{{text}}",
        "system",
        lambda p: load_instruction(str(p), folder=p.parent),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_every_file_with_a_duplicate_key_is_refused_with_file_key_and_line(tmp_path: Path, name: str) -> None:
    text, key, load = FILES[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / name)
    assert name in caught.value.message
    assert f"the key '{key}' occurs twice (line 4)" in caught.value.message


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_json_written_by_python_is_parsed_into_text_that_utf8_can_encode(value: Json) -> None:
    parsed = parse_json(json.dumps(value))
    orjson.dumps(parsed.value)
    assert (parsed.n_nonfinite > 0) == any(word in json.dumps(_without_texts(value)) for word in ("NaN", "Infinity"))


def _without_texts(value: Json) -> Json:
    if isinstance(value, dict):
        return [_without_texts(item) for item in value.values()]
    return (
        [_without_texts(item) for item in value] if isinstance(value, list) else 0 if isinstance(value, str) else value
    )


def test_lone_surrogates_become_one_replacement_character_each_and_pairs_stay() -> None:
    assert parse_json(r'["\ud83d", "\ud83d\ude00", "a\udc00b"]') == (["\ufffd", "\U0001f600", "a\ufffdb"], 0, 2)
    assert parse_json(r'{"k\ud83d": NaN, "l": 1}').value.keys() == {"k\ufffd", "l"}


def test_bytes_with_a_byte_order_mark_or_an_invalid_byte_are_parsed() -> None:
    assert parse_json(b'\xef\xbb\xbf{"a": -Infinity}') == ({"a": -math.inf}, 1, 0)
    assert parse_json(b'["\xff", "\xc3\xa9", 1]') == (["\ufffd", "\u00e9", 1], 0, 1)


@given(st.integers(-(10**30), 10**30) | st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]))
def test_integers_are_parsed_like_orjson(number: int) -> None:
    (parsed, _), n_nonfinite, _ = parse_json(f"[{number}, NaN]")
    strict = orjson.loads(str(number))
    assert n_nonfinite == 1
    assert (parsed, type(parsed)) == (strict, type(strict))


@pytest.mark.parametrize(
    "text", ["", "{", "[1,]", "nan", "[" * 5000 + "]" * 5000, '{"a": NaN} x', "[" + "9" * 9999 + "x]"]
)
def test_invalid_json_raises_json_decode_error(text: str) -> None:
    with pytest.raises(JSONDecodeError):
        parse_json(text)


def test_nesting_depth_is_limited_for_strict_and_lenient_text() -> None:
    for inner in ("1", "NaN"):
        parse_json("[" * 150 + inner + "]" * 150)
        with pytest.raises(JSONDecodeError):
            parse_json("[" * 1100 + inner + "]" * 1100)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ('{"text": "x", "text": "x"}', "column 15"),
        ('{"a": 1, "b": {"text": NaN, "text": "\\"text\\": 2"}}', "column 29"),
        ('[{"text": 1, "te\\u0078t": 2}]', "column 3"),
    ],
)
def test_a_repeated_key_is_refused_unless_it_is_allowed(text: str, position: str) -> None:
    for content in (text, text.encode()):
        with pytest.raises(RepeatedKeyError, match=f"the key 'text' occurs twice.*{position}"):
            parse_json(content)
        assert repr(parse_json(content, unique_keys=False).value) == repr(json.loads(text))
    parse_json('[{"text": 1}, {"text": {"text": "text"}}]')


def test_a_control_character_inside_a_string_is_kept() -> None:
    assert parse_json(b'{"a": "one\ntwo\t"}').value == {"a": "one\ntwo\t"}
