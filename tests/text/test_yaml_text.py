"""One reader of YAML for the whole project: what is said twice is refused, in every file that a user writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yaml import safe_dump, safe_load

from youden.data.folder.run_config import load_run_config
from youden.errors import ConfigError
from youden.judging.config.judge_files import load_judge_config
from youden.judging.question.prompts import load_prompt
from youden.pools.generation.agents import load_agents, load_instruction
from youden.text.yaml_text import YamlError, front_matter, parse_yaml

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN)
def test_what_plain_yaml_says_once_is_read_alike(data: object) -> None:
    text = safe_dump(data)
    assert parse_yaml(text) == safe_load(text) == data


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", "the key 'a' is there twice (line 3)"),
        ("a:\n- b: 1\n  b: 1\n", "the key 'b' is there twice (line 3)"),
        ("{a: 1, 'a': 2}", "the key 'a' is there twice (line 1)"),
        ("16: x\n0x10: y\n", "the key '0x10' is there twice (line 2)"),
        ("a:\n  <<: {b: 1, b: 2}\n", "the key 'b' is there twice (line 2)"),
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
def test_what_cannot_be_meant_is_refused_by_line(text: str, says: str) -> None:
    with pytest.raises(YamlError) as caught:
        parse_yaml(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_merged_mapping_may_be_overridden_by_a_key_of_its_own() -> None:
    assert parse_yaml("one: &one {a: 1, b: 2}\ntwo: {<<: *one, a: 3}\n") == {
        "one": {"a": 1, "b": 2},
        "two": {"a": 3, "b": 2},
    }


def test_front_matter_is_counted_from_the_top_of_its_file() -> None:
    read = front_matter("---\na: 1\n---\nbody {{text}}\n")
    assert read is not None
    assert (read.head, read.body) == ({"a": 1}, "body {{text}}\n")
    assert front_matter("no head") is None
    with pytest.raises(YamlError, match="line 3"):
        front_matter("---\na: 1\na: 2\n---\n")


PROMPT = '---\nlabels: {"YES": 1, "NO": 0}\nyes_from: 1\nyes_from: 0.5\nparser: label/1\n---\n{{first}}{{second}}'
FILES = {
    "judge.yaml": ("backend: openai\nmodel: m\nprice_in: 1\nprice_in: 99\n", "price_in", load_judge_config),
    "run.yaml": ("pool: p\nseed: 1\n# why\nseed: 2\n", "seed", load_run_config),
    "agents.yaml": ("agents:\n- id: a\n  of: source\n  of: a\n", "of", load_agents),
    "prompt.md": (PROMPT, "yes_from", load_prompt),
    "mine.md": (
        "---\n\nsystem: x\nsystem: y\n---\n{{text}}",
        "system",
        lambda p: load_instruction(str(p), folder=p.parent),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_says_a_key_twice_is_refused_with_file_key_and_line(tmp_path: Path, name: str) -> None:
    text, key, load = FILES[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / name)
    assert name in caught.value.message
    assert f"the key '{key}' is there twice (line 4)" in caught.value.message
