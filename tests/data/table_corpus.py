"""Tables as support teams keep them, in six languages, with the expected pool of each.

All texts are generated from templates with fixed seeds. `TABLES` maps a name to a `Table`; `write_table` writes its
file.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

N_ITEMS = 24
Row = dict[str, object]


TEMPLATES = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
"""Language to things, and to templates of statements, questions and answers."""


def prompt(language: str, item: int, *, asks: bool) -> str:
    return _filled(language, "questions" if asks else "statements", item, item)


def response(language: str, agent: int, item: int) -> str:
    return _filled(language, "answers", item, 1000 * (agent + 1) + item)


def _filled(language: str, kind: str, item: int, seed: int) -> str:
    rng = np.random.default_rng([seed, 7])
    things, templates = TEMPLATES[language]["things"], TEMPLATES[language][kind]
    a, b = (things[(item * 3 + k) % len(things)] for k in (0, 4))
    template: str = templates[int(rng.integers(len(templates)))]
    return template.format(a=a, b=b, n=4000 + item, d=2 + seed % 97)


@dataclass(frozen=True)
class Table:
    """The expected content and column names of a table.

    Attributes
    ----------
    agents : sequence of str
    ask : str
        Header of the prompts' column; empty if there is none.
    by : str
        Header of the agents' column in a table with one row per response; empty if each agent has a column.
    text : str
        Header of the responses' column in such a table.
    extra : sequence of str
        Keys of `EXTRA_COLUMNS`: further columns, those after "|" to the right of the texts.
    asked_last : bool
        Whether the prompts are to the right of the texts.
    resolve : mapping
        The options that read a table that has to be refused; empty if the table has to be read.
    """

    agents: Sequence[str]
    ask: str = "Question"
    language: str = "en"
    kind: str = "csv"
    by: str = ""
    text: str = ""
    extra: Sequence[str] = ()
    asks: bool = True
    asked_last: bool = False
    resolve: Mapping[str, str] = field(default_factory=dict)


def _stamp(n: int) -> str:
    return f"2026-03-{1 + n % 28:02d}T{n % 24:02d}:{(7 * n) % 60:02d}:00Z"


NAMES = ("ana", "ben", "chloe", "dmitri", "emre")
VARIANTS = tuple(f"Variant {letter}" for letter in "ABCDEFGHI")
EXTRA_COLUMNS: dict[str, Callable[[int, int], object]] = {
    "Ticket ID": lambda item, _agent: f"T-{1000 + item}",
    "No.": lambda item, _agent: item + 1,
    "uuid": lambda item, agent: f"{(item + 1) * 7919:08x}-{agent + 1:04x}-4000-8000-{item * 31 + agent:012x}",
    "created_at": lambda item, agent: _stamp(item + 3 * agent),
    "Datum": lambda item, _agent: f"{1 + item % 28:02d}.03.2026 08:{item % 60:02d}",
    "E-mail": lambda item, _agent: f"{NAMES[item % 5]}.{item}@example.org",
    "assigned to": lambda item, _agent: f"{NAMES[item % 3]}@example.org",
    "score": lambda item, agent: round(((item * 37 + agent * 11) % 100) / 100, 2),
    "Rating (1-5)": lambda item, agent: 1 + (item + agent) % 5,
    "Bewertung": lambda item, agent: f"{1 + (item + agent) % 5},5",
    "latency_ms": lambda item, agent: 120 + (item * 53 + agent * 17) % 900,
    "price_usd": lambda _item, agent: f"${0.15 * (agent + 1):.2f}",
    "tokens": lambda item, agent: 40 + item + agent,
    "Priority": lambda item, _agent: ("low", "normal", "high")[item % 3],
    "Status": lambda item, _agent: ("open", "closed by customer")[item % 2],
    "url": lambda item, _agent: f"https://support.example.org/tickets/{1000 + item}",
    "Kategorie": lambda item, _agent: ("Versand und Lieferung", "Zahlung", "Konto")[item % 3],
    "Country": lambda item, _agent: ("Germany", "New Zealand", "France", "Japan")[item % 4],
    "phone": lambda item, _agent: f"+49 30 1234{item:04d}",
    "Expected answer": lambda item, _agent: f"The reply to number {4000 + item} should offer a replacement.",
    "Reviewer comment": lambda item, agent: f"Reads well, but number {item} lacks the date of case {agent}.",
    "Kommentar": lambda item, _agent: f"Bitte Fall {item} noch einmal prüfen, danke.",
    "Title": lambda item, _agent: f"Trouble with order {4000 + item}",
    "Context": lambda item, _agent: f"The customer of order {4000 + item} has written {item + 2} times since May.",
    **{f"{letter} score": lambda item, agent: 1 + (item + agent) % 5 for letter in "ABC"},
    **{
        f"{model} rationale": lambda item, agent: f"I chose it as number {item} fits case {agent} best."
        for model in ("gpt", "claude")
    },
    **{
        f"{model} {part}": lambda item, agent: (
            f"The order {4000 + item} needs a reply for case {agent}, so I write one."
        )
        for model in ("gpt", "claude", "llama")
        for part in ("reasoning", "thinking")
    },
    "evaluator_comment": lambda item, _agent: f"The first reply to number {4000 + item} is friendlier than the others.",
    "Remark of Ana, comments": lambda item, _agent: (
        f"The second reply to number {4000 + item} is too long for a customer."
    ),
    "Musterlösung": lambda item, _agent: f"Die Antwort zu Nummer {4000 + item} bietet einen Ersatz und ein Datum an.",
    "Ideal response": lambda item, _agent: f"The reply to number {4000 + item} offers a replacement and names a date.",
    "Chosen bot": lambda item, _agent: VARIANTS[item % 3],
    "Why": lambda item, _agent: f"It names order {4000 + item} and is friendlier than the others.",
    "Subject": lambda item, _agent: f"Trouble with order {4000 + item}",
    "system_prompt": lambda _item, _agent: "You are a kind and helpful assistant.",
    "Internal": lambda item, _agent: f"Case {item} was moved from team {item % 4} to another team.",
}
ROLES = ("template_bot", "old_bot", "current_assistant", "production_system", "baseline_reference")
NOUNS = ("River", "Anchor", "Lantern", "Meadow")
MODELS = ("gpt-4o", "claude-sonnet", "mistral-small")


def many(n: int) -> tuple[str, ...]:
    return tuple(f"prompt v{k}" for k in range(1, n + 1))


TABLES: Mapping[str, Table] = {
    # one column per agent: agents whose names are roles, and prompts under the names of issue 50
    "roles": Table(ROLES, "Ticket", asks=False, extra=("Ticket ID", "created_at")),
    "roles and a question": Table(ROLES, "Question"),
    "nine variants": Table(VARIANTS, "Ticket", asks=False, kind="xlsx", extra=("No.",)),
    **{
        f"prompts under {ask}, {'questions' if asks else 'statements'}": Table(
            ROLES if asks else VARIANTS[:4], ask, language, asks=asks, extra=("Ticket ID",)
        )
        for ask, language in (
            *(("Ticket text", "en"), ("User message", "en"), ("Q", "en"), ("Frage", "de"), ("Kundenfrage", "de")),
            *(("Pregunta", "es"), ("質問", "ja"), ("问题", "zh"), ("Demande", "fr")),
        )
        for asks in (True, False)
    },
    "nouns": Table(NOUNS, "Customer question", extra=("score", "Priority")),
    "more nouns": Table(("Draft", "Human", "Baseline", "Final"), "Ticket", asks=False),
    "nouns of the field": Table(("assistant", "reference model", "judge bot", "user study"), "Query"),
    "three people": Table(("Ana", "Ben", "Chloe"), "Email body", asks=False, extra=("E-mail",)),
    "two words": Table(("New Bot", "Old Bot", "Template answer"), "Customer message", asks=False, kind="tsv"),
    "forty": Table(many(40), "Ticket", asks=False, extra=("uuid",)),
    "forty in a sheet": Table(many(40), "Message", asks=False, kind="xlsx", extra=("E-mail", "phone")),
    "german sheet": Table(("Alter Bot", "Neuer Bot", "Vorlage"), "Anfrage", "de", "semicolon", asks=False,
                          extra=("Datum", "Kategorie")),
    "german, Windows": Table(("Alter Bot", "Neuer Bot", "Vorlage", "Produktion"), "Kundenfrage", "de", "windows",
                             extra=("Datum", "|", "Bewertung")),
    "spanish": Table(("Bot antiguo", "Bot nuevo", "Plantilla"), "Consulta", "es", "xlsx", asks=False, extra=("Ticket ID",)),
    "french": Table(("Ancien", "Nouveau", "Modèle de texte"), "Message du client", "fr", "semicolon", asks=False),
    "japanese": Table(("旧ボット", "新ボット", "テンプレート"), "お問い合わせ", "ja", "xlsx", asks=False, extra=("No.",)),
    "chinese": Table(("旧助手", "新助手", "模板"), "用户问题", "zh", "json"),
    "chinese lines": Table(("旧助手", "新助手", "模板", "生产系统"), "问题", "zh", "jsonl", extra=("score",)),
    "no ids, question last": Table(NOUNS[:3], "Question", extra=("|", "Priority")),
    "addresses": Table(ROLES[:4], "Ticket", asks=False, extra=("E-mail", "assigned to", "phone", "url", "|", "Status")),
    "prices": Table(MODELS, "prompt", extra=("price_usd", "|", "latency_ms", "tokens", "Rating (1-5)")),
    "a reference beside": Table(MODELS, "Question", extra=("Expected answer", "|", "score")),
    "a comment beside": Table(VARIANTS[:3], "Ticket", asks=False, extra=("Ticket ID", "|", "Reviewer comment")),
    "a German comment": Table(("Alter Bot", "Neuer Bot", "Vorlage"), "Frage", "de", "xlsx", extra=("|", "Kommentar")),
    "parquet": Table(ROLES, "question", kind="parquet", extra=("uuid", "created_at", "|", "score")),
    "a question that no name gives away": Table(VARIANTS[:5], "Xyz", extra=("Ticket ID",)),
    "a header that says nothing": Table(
        VARIANTS[:4], "Xyz", asks=False, resolve={"prompt": "Xyz", "text": ",".join(VARIANTS[:4])}
    ),
    "a header that says nothing, beside ids": Table(
        MODELS, "Xyz", "de", asks=False, extra=("Ticket ID",), resolve={"prompt": "Xyz", "text": ",".join(MODELS)}
    ),
    "a title and a ticket": Table(
        ROLES, "Ticket", asks=False, extra=("Title",), resolve={"prompt": "Ticket", "text": ",".join(ROLES)}
    ),
    "an unknown text before the question": Table(
        MODELS, "Question", asks=True, extra=("Internal",), resolve={"prompt": "Question", "text": ",".join(MODELS)}
    ),
    "a context and a question": Table(
        MODELS, "Question", asks=True, extra=("Context",), resolve={"prompt": "Question", "text": ",".join(MODELS)}
    ),
    "the question last": Table(MODELS, "Customer says", asks=False, asked_last=True),
    "the question last, under a header that says nothing": Table(
        MODELS, "Xyz", asks=False, asked_last=True, resolve={"prompt": "Xyz", "text": ",".join(MODELS)}
    ),
    "single letters, and scores": Table(("A", "B", "C"), "Query", extra=("|", "A score", "B score", "C score")),
    "a subject and a body": Table(
        VARIANTS[:3], "Body", asks=False, extra=("Subject",), resolve={"prompt": "Body", "text": ",".join(VARIANTS[:3])}
    ),
    "rationales beside responses": Table(
        ("gpt answer", "claude answer", "llama answer"), "Query", extra=("|", "gpt rationale", "claude rationale")
    ),
    "reasoning beside answers": Table(
        ("gpt answer", "claude answer", "llama answer"),
        "Query",
        extra=("|", "gpt reasoning", "claude reasoning", "llama reasoning"),
    ),
    "thinking beside each agent": Table(
        ("gpt", "claude", "llama"),
        "Query",
        extra=("|", "gpt thinking", "claude thinking", "llama thinking"),
        resolve={"prompt": "Query", "text": "gpt,claude,llama"},
    ),
    "an evaluator's comment": Table(MODELS, "Question", extra=("|", "evaluator_comment")),
    "comments under another header": Table(
        MODELS,
        "Question",
        extra=("|", "Remark of Ana, comments"),
        resolve={"prompt": "Question", "text": ",".join(MODELS)},
    ),
    "a German sample solution": Table(("Alter Bot", "Neuer Bot", "Vorlage"), "Frage", "de", extra=("Musterlösung",)),
    "an ideal response": Table(MODELS, "Question", extra=("Ideal response", "|", "score")),
    "a choice and its reason": Table(VARIANTS[:3], "Customer wrote", asks=False, extra=("|", "Chosen bot", "Why")),
    "a system prompt": Table(
        MODELS, "user_prompt", extra=("system_prompt",), resolve={"prompt": "user_prompt", "text": ",".join(MODELS)}
    ),
    # one row per response
    **{
        f"{name}, one row per response": Table(agents, ask, language, kind, by, text, extra, asks)
        for name, agents, ask, language, kind, by, text, extra, asks in (
            ("roles", ROLES, "Ticket", "en", "csv", "bot", "Answer", ("Ticket ID", "created_at"), False),
            ("models", MODELS, "prompt", "en", "jsonl", "model", "response", ("uuid", "score", "latency_ms"), True),
            ("prices", MODELS, "prompt", "en", "parquet", "model", "completion", ("price_usd", "tokens"), True),
            ("german", ("Alter Bot", "Neuer Bot", "Vorlage"), "Frage", "de", "semicolon", "Modell", "Antwort", ("Datum",), True),
            ("german sheet", ROLES, "Kundenfrage", "de", "xlsx", "Assistent", "Antwort", ("Bewertung",), False),
            ("spanish", NOUNS, "Pregunta", "es", "csv", "Modelo", "Respuesta", ("E-mail",), True),
            ("spanish lines", ROLES, "Consulta", "es", "jsonl", "Modelo", "Respuesta", (), False),
            ("french", NOUNS, "Demande", "fr", "tsv", "Modèle", "Réponse", ("assigned to",), False),
            ("japanese", ("旧ボット", "新ボット", "本番"), "質問", "ja", "csv", "モデル", "回答", ("No.",), True),
            ("japanese sheet", ROLES, "お問い合わせ", "ja", "xlsx", "システム", "返信", ("created_at",), False),
            ("chinese", ROLES, "问题", "zh", "json", "模型", "回答", ("score",), True),
            ("nouns", NOUNS, "Question", "en", "csv", "Who", "Reply", ("Priority", "Status", "Country"), True),
            ("assigned", VARIANTS[:4], "Ticket", "en", "csv", "Variant", "Reply text", ("assigned to", "E-mail"), False),
            ("urls", VARIANTS[:3], "User message", "en", "xlsx", "Bot version", "Bot reply", ("url", "phone"), False),
            ("forty", many(40), "Ticket", "en", "csv", "version", "output", ("Rating (1-5)",), False),
            ("references", MODELS, "Q", "en", "csv", "model", "A", ("Expected answer",), True),
            ("comments", MODELS, "Q", "en", "json", "system", "answer", ("Reviewer comment", "Rating (1-5)"), True),
            ("no prompts", ROLES, "", "en", "csv", "assistant", "reply", ("Ticket ID",), True),
            ("titles", ROLES, "Ticket text", "en", "csv", "assistant", "reply", ("Title", "Ticket ID"), False),
        )
    },
    "two texts per row": Table(
        MODELS, "Ticket", by="model", text="Reply", extra=("Second try",), asks=False, resolve={"text": "Reply"}
    ),
    # transcripts, and folders of other tools
    "chats with models": Table(MODELS, "messages", kind="chats"),
    "a file of chats per agent": Table(("new-bot", "old-bot", "template"), "messages", kind="chat files"),
    "a folder of the Hub": Table(ROLES, "question", kind="hub", by="model", text="answer"),
    "a folder of the Hub, one split per agent": Table(("old_bot", "new_bot", "template"), "question", kind="splits"),
    "the README's layout": Table(ROLES, "prompt", kind="csv", by="agent", text="text", extra=("item",)),
    "a pool's folder": Table(ROLES, "prompt", kind="pool"),
}  # fmt: skip
EXTRA_COLUMNS["Second try"] = lambda item, agent: f"Draft {agent}: number {item} needs a friendlier start."
EXTRA_COLUMNS["item"] = lambda item, _agent: f"i{item}"


def rows_of(table: Table) -> list[Row]:
    """Return the rows of a table, shuffled only within an item."""

    def before_and_after(item: int, agent: int, texts: Row) -> Row:
        left, _, right = " / ".join(table.extra).partition("|")
        sides = [[name.strip() for name in side.split(" / ") if name.strip()] for side in (left, right)]
        result = [{name: EXTRA_COLUMNS[name](item, agent) for name in side} for side in sides]
        asked: Row = {table.ask: prompt(table.language, item, asks=table.asks)} if table.ask else {}
        if table.asked_last:
            return {**result[0], **texts, **asked, **result[1]}
        return {**result[0], **asked, **texts, **result[1]}

    if not table.by:
        return [
            before_and_after(item, 0, {name: response(table.language, k, item) for k, name in enumerate(table.agents)})
            for item in range(N_ITEMS)
        ]
    return [
        before_and_after(item, k, {table.by: name, table.text: response(table.language, k, item)})
        for item in range(N_ITEMS)
        for k, name in enumerate(table.agents)
    ]


def write_table(table: Table, folder: Path) -> Path:
    """Write a table below `folder`, and return what a user would name."""
    match table.kind:
        case "csv" | "tsv" | "semicolon" | "windows":
            separator = {"csv": ",", "tsv": "\t"}.get(table.kind, ";")
            path = folder / f"answers.{'tsv' if table.kind == 'tsv' else 'csv'}"
            buffer = io.StringIO(newline="")
            rows = rows_of(table)
            writer = csv.DictWriter(buffer, [*rows[0]], delimiter=separator)
            writer.writeheader()
            writer.writerows(rows)
            path.write_bytes(buffer.getvalue().encode("cp1252" if table.kind == "windows" else "utf-8-sig"))
            return path
        case "xlsx":
            book = openpyxl.Workbook()
            rows = rows_of(table)
            for record in [[*rows[0]], *([*row.values()] for row in rows)]:
                book.active.append(record)
            book.save(folder / "answers.xlsx")
            return folder / "answers.xlsx"
        case "json":
            return _write(folder / "answers.json", json.dumps(rows_of(table), ensure_ascii=False, indent=1))
        case "jsonl":
            return _lines(folder / "answers.jsonl", rows_of(table))
        case "parquet":
            pq.write_table(pa.Table.from_pylist(rows_of(table)), folder / "answers.parquet")
            return folder / "answers.parquet"
    return _write_folder(table, folder)


def _write_folder(table: Table, folder: Path) -> Path:
    texts = [[response(table.language, k, item) for item in range(N_ITEMS)] for k in range(len(table.agents))]
    asked = [prompt(table.language, item, asks=table.asks) for item in range(N_ITEMS)]
    place = folder / "mine"
    place.mkdir()
    chats = [
        [{"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": asked[j]},
                       {"role": "assistant", "content": texts[k][j]}]} for j in range(N_ITEMS)]
        for k in range(len(table.agents))
    ]  # fmt: skip
    match table.kind:
        case "chats":
            rows = [{"model": name, **row} for name, of in zip(table.agents, chats, strict=True) for row in of]
            return _lines(folder / "chats.jsonl", rows)
        case "chat files":
            for name, of in zip(table.agents, chats, strict=True):
                _lines(place / f"{name}.jsonl", of)
        case "hub":
            (place / "data").mkdir()
            pq.write_table(pa.Table.from_pylist(rows_of(table)), place / "data" / "train-00000-of-00001.parquet")
            _describe(place, ["train"])
        case "splits":
            for name, own in zip(table.agents, texts, strict=True):
                columns: list[Row] = [{"id": j, table.ask: asked[j], "answer": own[j]} for j in range(N_ITEMS)]
                split = place / name
                split.mkdir()
                data = pa.Table.from_pylist(columns)
                with pa.OSFile(str(split / "data-0.arrow"), "wb") as sink, pa.ipc.new_stream(sink, data.schema) as out:
                    out.write_table(data)
                _write(split / "state.json", json.dumps({"_data_files": [{"filename": "data-0.arrow"}]}))
                _write(split / "dataset_info.json", json.dumps({"features": {}, "description": ""}))
            _write(place / "dataset_dict.json", json.dumps({"splits": [*table.agents]}))
        case "pool":
            _lines(place / "agents.jsonl", [{"id": name} for name in table.agents])
            _lines(place / "items.jsonl", [{"id": f"i{j}", "prompt": asked[j]} for j in range(N_ITEMS)])
            cells = [
                {"agent": name, "item": f"i{j}", "text": texts[k][j]}
                for k, name in enumerate(table.agents)
                for j in range(N_ITEMS)
            ]
            _lines(place / "responses.jsonl", cells)
    return place


def _describe(place: Path, splits: Sequence[str]) -> None:
    info = {
        "splits": {name: {"name": name, "num_examples": N_ITEMS} for name in splits},
        "description": "Answers of bots.",
    }
    _write(place / "dataset_infos.json", json.dumps({"default": info}))
    _write(place / "README.md", "# Answers of bots\n\nWhat five bots answered.\n")


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def _lines(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    return _write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
