"""Test tables with one column per agent, with any agent names and any further columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from layout_files import write_csv

from commands import Youden
from importer_files import load, write
from youden.data.importers.pool_joiner import ImportedPool
from youden.data.pools.pool_reader import iter_responses
from youden.errors import ImportFormatError
from youden.types.pool import Json

WORDS = ("Paris", "Rome", "Oslo", "Bern", "Lima", "Riga")


def table(folder: Path, agents: Sequence[str], *, words: bool = False, **more: Sequence[Json]) -> ImportedPool:
    """Import a table of six questions; with `words`, responses are single words; `more` are further columns."""
    rows = [
        {
            "id": n,
            "question": f"What is {n}?",
            **{agent: WORDS[n - k] if words else f"It is {n} by {agent}." for k, agent in enumerate(agents)},
            **{name.replace("__", " "): values[n] for name, values in more.items()},
        }
        for n in range(6)
    ]
    write_csv(folder / "t.csv", rows)
    return load("table", folder / "t.csv")


def agents_of(imported: ImportedPool) -> list[str]:
    assert (imported.pool.n_items, imported.n_dropped) == (6, 0)
    return [agent.id for agent in imported.pool.agents]


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize(
    "agents",
    [
        ("model_a", "model_b"),
        ("model_a", "model_b", "model_c"),
        ("Model 1", "Model 2", "Model 3"),
        ("agent_1", "agent_2", "baseline"),
        ("baseline", "gpt-4", "system 1"),
        ("language_model_a", "language_model_b", "gpt-4"),
    ],
)
def test_agent_names_that_resemble_column_roles_do_not_hide_columns(
    tmp_path: Path, agents: Sequence[str], words: bool
) -> None:
    assert agents_of(table(tmp_path, agents, words=words)) == [*agents]


def test_agents_named_like_the_role_model_are_kept_with_the_others(tmp_path: Path) -> None:
    agents = ("base model", "tuned model", "gpt-4", "mixtral")
    assert agents_of(table(tmp_path, agents)) == [*agents]


def test_versions_with_dots_are_complete_names_of_agents(tmp_path: Path) -> None:
    assert agents_of(table(tmp_path, ("v1.0", "v1.1", "v1.1.1"))) == ["v1.0", "v1.1", "v1.1.1"]


def test_a_column_of_texts_called_model_is_an_agent_next_to_others(tmp_path: Path) -> None:
    agents = ("Human expert", "Human novice", "Model")
    assert agents_of(table(tmp_path, agents)) == [*agents]


def test_numbers_with_a_remark_in_their_column_are_no_agent(tmp_path: Path) -> None:
    rows: list[dict[str, Json]] = [
        {"Frage": f"Was ist {n}?", "alt": f"Es ist {n}.", "neu": f"Das ist {n}.", "Zeit": 1.5 + n} for n in range(6)
    ]
    rows[2]["Zeit"] = "timeout after 60 s"
    imported = load("table", write(tmp_path / "t.json", whole=rows))
    assert (agents_of(imported), imported.unused) == (["alt", "neu"], ("Zeit",))


def test_a_column_of_selected_responses_is_refused_with_the_agents(tmp_path: Path) -> None:
    best = [f"It is {n} by {'abc'[n % 3]}." for n in range(6)]
    with pytest.raises(ImportFormatError, match=r"'Best answer' may be an agent.*text=a,b,c"):
        table(tmp_path, ("a", "b", "c"), Best__answer=best)


def test_labels_by_each_agent_are_not_read_as_items_of_one_agent(tmp_path: Path) -> None:
    rows = [{"Text": f"This is {n}.", "a": "PN"[n % 2], "b": "PPN"[n % 3], "c": "NPP"[n % 3]} for n in range(12)]
    write_csv(tmp_path / "t.csv", rows)
    with pytest.raises(ImportFormatError, match=r"could both identify the items.*text=NAME,NAME"):
        load("table", tmp_path / "t.csv")
    imported = load("table", tmp_path / "t.csv", text="a,b,c", prompt="Text")
    assert (imported.pool.n_agents, imported.pool.n_items) == (3, 12)


@pytest.mark.parametrize("n_lost", [0, 1])
def test_two_responses_per_agent_and_item_without_usual_names_are_repeats(tmp_path: Path, n_lost: int) -> None:
    rows = [
        {"version": agent, "example": f"s{n}", "Ergebnis": f"It is {n} by {agent} in try {k}."}
        for agent in "abc"
        for n in range(6)
        for k in range(2)
    ]
    write_csv(tmp_path / "t.csv", rows[n_lost:])
    imported = load("table", tmp_path / "t.csv")
    assert agents_of(imported) == ["a", "b", "c"]
    assert len(list(iter_responses(imported.pool))) == len(rows) - n_lost


def test_several_columns_of_responses_next_to_a_column_of_agents_are_repeats(tmp_path: Path) -> None:
    rows = [
        {"question": f"What is {n}?", "model": agent, "try_1": f"It is {n}, {agent}.", "try_2": f"{agent}: {n}."}
        for n in range(6)
        for agent in "abc"
    ]
    write_csv(tmp_path / "t.csv", rows)
    imported = load("table", tmp_path / "t.csv", agent="model", prompt="question", text="try_1,try_2")
    assert agents_of(imported) == ["a", "b", "c"]
    repeats = [(agent.id, number, text) for agent, _, number, text in iter_responses(imported.pool)]
    assert len(repeats) == 2 * len(rows)
    assert repeats[:2] == [("a", 1, "It is 0, a."), ("a", 2, "a: 0.")]


@pytest.mark.parametrize(
    ("agent", "text"), [("Asistente virtual", "Respuesta del bot"), ("Robot", "Answer of the assistant")]
)
def test_the_noun_before_a_preposition_decides_the_role(tmp_path: Path, agent: str, text: str) -> None:
    rows = [
        {agent: name, "Pregunta del cliente": f"Algo de {n}.", text: f"Es {n} de {name}."}
        for n in range(6)
        for name in ("Bot viejo", "Bot nuevo", "Plantilla")
    ]
    write_csv(tmp_path / "t.csv", rows)
    imported = load("table", tmp_path / "t.csv")
    assert agents_of(imported) == ["Bot viejo", "Bot nuevo", "Plantilla"]
    assert imported.pool.texts[0, 0] == "Es 0 de Bot viejo."


def test_prompts_that_differ_in_the_unicode_form_of_their_accents_are_one_item(tmp_path: Path) -> None:
    rows = [
        {
            "model": agent,
            "question": unicodedata.normalize("NFD" if agent == "b" else "NFC", f"Où est le numéro {n} ?"),
            "answer": f"Ici, {agent} {n}.",
        }
        for n in range(6)
        for agent in "abc"
    ]
    write_csv(tmp_path / "t.csv", rows)
    assert agents_of(load("table", tmp_path / "t.csv")) == ["a", "b", "c"]


def test_a_column_that_only_rows_without_a_response_have_is_stated_as_unused(tmp_path: Path) -> None:
    rows: list[dict[str, Json]] = [
        {"model": agent, "id": n, "answer": f"It is {n}, {agent}."} for n in range(6) for agent in "abc"
    ]
    rows[4] |= {"answer": None, "tool_calls": [{"name": "search"}]}
    assert "tool_calls" in load("table", write(tmp_path / "t.json", whole=rows)).unused


def test_dates_in_parquet_may_be_ids(tmp_path: Path) -> None:
    rows = [
        {"model": agent, "id": date(2026, 1, n + 1), "answer": f"{agent} {n} ok"} for n in range(6) for agent in "abc"
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    imported = load("table", tmp_path / "t.parquet")
    assert (agents_of(imported), imported.pool.items[0].id) == (["a", "b", "c"], "2026-01-01")


EXTRA_COLUMNS: dict[str, Sequence[Json]] = {
    "created": [f"2026-01-0{n}" for n in range(1, 7)],
    "ts": [f"2026-01-01T00:00:0{n}Z" for n in range(6)],
    "at": [f"2026-01-01 00:00:0{n}" for n in range(6)],
    "winner": ["model_a", "tie"] * 3,
    "better": ["model_a", "model_b"] * 3,
    "score": [0.5] * 6,
    "passed": [True, False] * 3,
    "difficulty": ["easy", "hard_answer"] * 3,
}


@pytest.mark.parametrize("name", EXTRA_COLUMNS)
def test_time_choice_and_category_columns_are_no_agents(tmp_path: Path, name: str) -> None:
    extra: dict[str, Any] = {name: EXTRA_COLUMNS[name]}
    imported = table(tmp_path, ("model_a", "model_b"), **extra)
    assert agents_of(imported) == ["model_a", "model_b"]
    assert imported.unused == (name,)


def test_single_word_columns_next_to_longer_responses_are_refused_as_ambiguous(youden: Youden, tmp_path: Path) -> None:
    rows = [
        {"id": n, "alpha": f"It is {n}.", "beta": f"Maybe {n}.", "gamma": f"No {n}.", "xyz": WORDS[n]} for n in range(6)
    ]
    write_csv(tmp_path / "t.csv", rows)
    refused = youden("init", "t.csv")
    assert refused.refuses("import-columns")
    assert not (tmp_path / "pools").exists()
    assert agents_of(load("table", tmp_path / "t.csv", text="alpha,beta,xyz")) == ["alpha", "beta", "xyz"]


@pytest.mark.parametrize("others", [("draft_answer", "final_answer"), ("original_response", "edited_response")])
def test_two_response_columns_in_a_long_table_are_refused(
    youden: Youden, tmp_path: Path, others: tuple[str, str]
) -> None:
    rows = [
        {
            "variant": agent,
            "customer_message": f"What is {n}?",
            others[0]: f"Draft: it is {n} by {agent}.",
            others[1]: f"It is {n} by {agent}.",
            "csat": n,
        }
        for n in range(6)
        for agent in ("production", "current", "old")
    ]
    write_csv(tmp_path / "t.csv", rows)
    ended = youden("init", "t.csv")
    assert ended.refuses("import-columns")
    assert f"{others[0]!r} and {others[1]!r} could both hold the responses" in ended.err
    assert agents_of(load("table", tmp_path / "t.csv", text=others[1])) == ["production", "current", "old"]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("content", "reasoning_content"),
        ("response", "raw_response"),
        ("output", "content"),
        ("generation", "extracted_answer"),
        ("response_text", "parsed_response"),
        ("response", "tool_output"),
    ],
)
def test_a_column_with_parts_of_the_responses_is_not_used(tmp_path: Path, text: str, other: str) -> None:
    rows = [
        {
            "model": agent,
            "question": f"What is {n}?",
            other: f"Part: it is {n} by {agent}.",
            text: f"It is {n}, {agent}.",
        }
        for n in range(6)
        for agent in ("a", "b", "c")
    ]
    write_csv(tmp_path / "t.csv", rows)
    imported = load("table", tmp_path / "t.csv")
    assert agents_of(imported) == ["a", "b", "c"]
    assert imported.pool.texts[0, 0] == "It is 0, a."
    assert other in imported.unused


def test_two_columns_with_equal_responses_are_one(tmp_path: Path) -> None:
    rows = [
        {
            "model": agent,
            "question": f"{n}?",
            "first_answer": f"It is {n} by {agent}.",
            "last_answer": f"It is {n} by {agent}.",
        }
        for n in range(6)
        for agent in ("a", "b", "c")
    ]
    write_csv(tmp_path / "t.csv", rows)
    assert agents_of(load("table", tmp_path / "t.csv")) == ["a", "b", "c"]


def test_several_tables_with_one_column_per_agent_are_refused_as_ambiguous(youden: Youden, tmp_path: Path) -> None:
    for subject in ("law", "math", "art"):
        (tmp_path / "in").mkdir(exist_ok=True)
        rows = [
            {
                "id": n,
                "question": f"{subject} {n}?",
                **{name: f"{name} on {subject} {n}" for name in ("one", "two", "three")},
            }
            for n in range(5)
        ]
        write_csv(tmp_path / "in" / f"{subject}.csv", rows)
    refused = youden("init", "in")
    assert refused.refuses("import-columns")
    assert "several do" in refused.err
    assert not (tmp_path / "pools").exists()
    pool = load("table", tmp_path / "in", text="one,two,three").pool
    assert (pool.n_agents, pool.n_items, pool.n_responses) == (3, 15, 45)


def make_support_rows(n_rows: int, *agents: str, **ids_and_prompts: str) -> list[dict[str, Json]]:
    """Make rows with a channel, a language, a priority, and one column per agent, as in a support team's sheet."""
    rows = []
    for n in range(n_rows):
        row: dict[str, Json] = {column: text.format(n=n) for column, text in ids_and_prompts.items()}
        row |= {
            "Kanal": ("Telefon", "Chat", "Mail")[n % 3],
            "Sprache": ("DE", "EN")[n // 3 % 2],
            "Prio": n // 6 % 4 + 1,
        }
        row |= {agent: f"Guten Tag, {WORDS[n % 6]} {agent} hilft bei {n} weiter." for agent in agents}
        rows.append(row)
    return rows


@pytest.mark.parametrize("agents", [("Prod", "v4 RAG", "Mini"), ("Prod", "Mini")])
@pytest.mark.parametrize(
    "names", [{"Ticket-Nr.": "SUP-{n}", "Anfrage": "Ich brauche Hilfe bei {n}."}, {"Vorgang": "SUP-{n}"}]
)
def test_categories_of_items_are_not_read_as_agents_next_to_a_column_per_agent(
    tmp_path: Path, agents: tuple[str, ...], names: dict[str, str]
) -> None:
    write_csv(tmp_path / "t.csv", make_support_rows(40, *agents, **names))
    imported = load("table", tmp_path / "t.csv")
    assert ([agent.id for agent in imported.pool.agents], imported.pool.n_items) == ([*agents], 40)


def test_categories_of_items_are_not_read_as_agents_of_a_single_column_of_responses(tmp_path: Path) -> None:
    names = {"Ticket-Nr.": "SUP-{n}", "Anfrage": "Ich brauche Hilfe bei {n}."}
    write_csv(tmp_path / "t.csv", make_support_rows(40, "Antwort", "Mini", **names))
    imported = load("table", tmp_path / "t.csv", text="Mini")
    assert ([agent.id for agent in imported.pool.agents], imported.pool.n_items) == (["t"], 40)


def test_no_column_is_proposed_for_the_responses_if_none_is_named_like_agents(youden: Youden, tmp_path: Path) -> None:
    rows = [
        {"Kanal": channel, "Prio": n, "Prod": f"Es ist {n} im {channel}.", "Mini": f"Also {n} vom {channel}."}
        for n in range(6)
        for channel in ("Chat", "Mail", "Telefon")
    ]
    write_csv(tmp_path / "t.csv", rows)
    ended = youden("init", "t.csv")
    assert ended.refuses("import-columns")
    assert "--column text=Prod" not in ended.err
    assert "if each agent has a column, name all of them" in ended.err


@pytest.mark.parametrize("form", ["{} run {}", "{}_sample_{}", "{} (Run {})", "{}-seed{}"])
def test_columns_that_number_repeats_are_responses_of_one_agent(tmp_path: Path, form: str) -> None:
    names = [form.format(agent, number) for agent in ("gpt", "claude") for number in (1, 2)]
    imported = table(tmp_path, names)
    assert agents_of(imported) == ["gpt", "claude"]
    texts = [text for _, _, _, text in iter_responses(imported.pool)]
    assert texts[:2] == [f"It is 0 by {name}." for name in names[:2]]
    assert f"columns such as '{names[0]}' are read as repeats" in " ".join(imported.notes)


@pytest.mark.parametrize(
    "names",
    [
        ("gpt run 1", "gpt run 2", "claude run 1", "claude run 3"),
        ("gpt run 1", "claude run 1", "llama run 1"),
        ("answer run 1", "answer run 2", "answer run 3"),
        ("gpt run 1", "gpt run 2", "claude run 1", "claude run 2", "gpt"),
    ],
)
def test_columns_that_do_not_number_the_repeats_of_all_agents_are_agents(tmp_path: Path, names: Sequence[str]) -> None:
    assert agents_of(table(tmp_path, names)) == list(names)
