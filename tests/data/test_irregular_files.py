"""Test that irregular files are ranked by `init`, `check` and `run` without edits, and that assumptions are stated."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import Youden
from youden import read_pool
from youden.data.folder.run_config import load_run_config
from youden.data.importers import IMPORTERS
from youden.types import Pool

AGENTS = ("v1 plain", "v2 steps", "v3 terse", "v4 expert", "v5 polite", "v6 quotes")
N = 40
WORDS = [
    "river",
    "copper",
    "winter",
    "ledger",
    "harbour",
    "violet",
    "engine",
    "meadow",
    "signal",
    "orchard",
    "lantern",
    "gravel",
]


def question(j: int, *, breaks: bool = False) -> str:
    topic = " ".join(WORDS[(j + k) % len(WORDS)] for k in (0, 5))
    return f"What is known of {topic} number {j}?" + ("\nAnswer in one sentence." if breaks else "")


def response(i: int, j: int) -> str:
    rng = np.random.default_rng([i, j])
    own = [f"{WORDS[(j * 7 + k) % len(WORDS)]}{j}" for k in range(9)]
    kept = [word for word in own if rng.random() < 0.35 + 0.1 * i]
    return f"It is said, {' '.join([*kept, f'case{i}x{j}'])}."


def cells(*, breaks: bool = False) -> list[tuple[str, str, str]]:
    return [(agent, question(j, breaks=breaks), response(i, j)) for i, agent in enumerate(AGENTS) for j in range(N)]


def separated(rows: Sequence[Sequence[object]], separator: str = ",", end: str = "\r\n") -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=separator, lineterminator=end).writerows(rows)
    return buffer.getvalue()


@dataclass(frozen=True)
class IrregularInput:
    """An irregular input, its expected number of cells with a response, and the expected output of `init`."""

    make: Callable[[Path], Path]
    n_present: int = len(AGENTS) * N
    said: tuple[str, ...] = ()


EMPTY = (3, 17, 50, 51, 90, 120, 121, 122, 160, 200, 239)


def spreadsheet(at: Path) -> Path:
    """Write the spreadsheet of the first paragraph of issue 32."""
    rows = [list(cell) for cell in cells(breaks=True)]
    for k in EMPTY:
        rows[k][2] = ""
    rows.insert(60, list(rows[30]))
    file = at / "answers.csv"
    file.write_text(separated([["Model", "Question", "Response"], *rows]), encoding="utf-8-sig", newline="")
    return file


def german_excel(at: Path) -> Path:
    """Write semicolons, Windows-1252, a title, and a score in each row."""
    rows = [[agent, text, "3,5", f"„{ask}“ — für Müller"] for agent, ask, text in cells()]
    head = [["Auswertung Mai", "", "", ""], ["", "", "", ""], ["Assistant", "Answer", "Score", "Input"]]
    file = at / "auswertung.csv"
    file.write_bytes(separated([*head, *rows], ";").encode("cp1252"))
    return file


def wide(at: Path) -> Path:
    """Write one column per agent, with reference answers in another column and no ids."""
    rows = [[question(j), "the reference", *(response(i, j) for i in range(len(AGENTS)))] for j in range(N)]
    rows[4][3] = "#REF!"
    rows[5][4] = "  "
    file = at / "wide.tsv"
    file.write_text(separated([["Question", "Expected answer", *AGENTS], *rows], "\t"), encoding="utf-16", newline="")
    return file


def letters(at: Path) -> Path:
    """Write one column per agent, separated by semicolons; most lines contain one comma."""
    rows = [[question(j), *(f"Dear customer.\n{response(i, j)}" for i in range(len(AGENTS)))] for j in range(N)]
    head = ["Question", *(f"{agent} letter" for agent in AGENTS)]
    lines = [";".join(head), *(";".join(f'"{cell}"' for cell in row) for row in rows), ""]
    file = at / "support.csv"
    file.write_text("\r\n".join(lines), encoding="utf-8-sig", newline="")
    return file


def row_ids(at: Path) -> Path:
    """Write a row id that names no item, a category, and model and version in two columns."""
    models = {agent: (f"m{i % 2}", f"p{i // 2}") for i, agent in enumerate(AGENTS)}
    rows = [
        [n, "general" if n % 3 else "special", *models[agent], ask, text, 0.5, ""]
        for n, (agent, ask, text) in enumerate(cells())
    ]
    head = ["id", "category", "model", "prompt_version", "query", "completion", "latency", ""]
    file = at / "log export (1).csv"
    file.write_text(separated([head, *rows]), encoding="utf-8", newline="")
    return file


def merged(at: Path) -> Path:
    """Write the agent only in the first of its rows, and its name in several spellings."""
    rows = [[agent if n % N == 0 else "", ask, text] for n, (agent, ask, text) in enumerate(cells())]
    rows[25][0] = " V1  plain "
    file = at / "blocks.csv"
    file.write_text(separated([["LLM", "Task", "Model output"], *rows]), encoding="utf-8", newline="")
    return file


def excel(at: Path) -> Path:
    """Write one sheet per agent, a title, merged cells, numeric responses and a sheet of notes."""
    import openpyxl

    book = openpyxl.Workbook()
    book.active.title = "Notes"
    book.active["A1"] = "Made in May."
    for i, agent in enumerate(AGENTS):
        sheet = book.create_sheet(agent)
        sheet.append(["Run of May"])
        sheet.append(["No.", "Prompt", "Reply"])
        for j in range(N):
            sheet.append([j + 1, question(j), 7 if j == 3 else response(i, j)])
        sheet[f"C{i + 8}"] = "#N/A"
    book.save(at / "models.xlsx")
    return at / "models.xlsx"


def lines(at: Path) -> Path:
    """Write nested objects, conversations, numbers instead of texts, and a null."""
    file = at / "traces.ndjson"
    rows = [
        {
            "metadata": {"model": agent, "cost": 0.1},
            "request": {"input": ask},
            "response": {"output": [{"role": "user", "content": ask}, {"role": "assistant", "content": text}]},
        }
        for agent, ask, text in cells(breaks=True)
    ]
    rows[7]["response"] = {"output": None}
    rows[8]["response"] = {"output": 42}
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    return file


def by_agent(at: Path) -> Path:
    """Write an object of responses by agent and item."""
    file = at / "answers.json"
    complete = {agent: {f"case {j}": response(i, j) for j in range(N)} for i, agent in enumerate(AGENTS)}
    file.write_text(json.dumps(complete), encoding="utf-8")
    return file


def pandas_columns(at: Path) -> Path:
    """Write the output of `DataFrame.to_json`."""
    rows = cells()
    complete = {
        name: {str(n): row[k] for n, row in enumerate(rows)}
        for k, name in enumerate(("system", "instruction", "generation"))
    }
    (at / "frame.json").write_text(json.dumps({"index_name": {}, **complete}), encoding="utf-8")
    return at / "frame.json"


def parquet(at: Path) -> Path:
    """Write an index, numeric ids, texts in `text`, and the source in `document`."""
    rows = cells()
    table = pa.table(
        {
            "__index_level_0__": list(range(len(rows))),
            "task_id": [j for _ in AGENTS for j in range(N)],
            "document": [ask * 30 for _, ask, _ in rows],
            "text": [text for *_, text in rows],
            "Model Name": [agent for agent, *_ in rows],
        }
    )
    pq.write_table(table, at / "part-0.parquet")
    return at / "part-0.parquet"


def texts(at: Path) -> Path:
    """Write one folder per agent, and one of the questions."""
    folder = at / "essays"
    for i, agent in enumerate(AGENTS):
        (folder / agent).mkdir(parents=True)
        for j in range(N):
            (folder / agent / f"essay {j}.txt").write_text(response(i, j) if i or j else " \n", encoding="utf-8")
    (folder / "questions").mkdir()
    for j in range(N):
        (folder / "questions" / f"essay {j}.txt").write_text(question(j), encoding="utf-8")
    return folder


def one_file_per_agent(at: Path) -> Path:
    """Write one table per agent, each in another order, without ids."""
    folder = at / "runs of may"
    folder.mkdir()
    for i, agent in enumerate(AGENTS):
        rows = [[question(j, breaks=True), response(i, j)] for j in np.random.default_rng(i).permutation(N)]
        (folder / f"{agent}.csv").write_text(separated([["input", "output"], *rows]), encoding="utf-8", newline="")
    return folder


ALL = len(AGENTS) * N
UGLY = {
    "spreadsheet": IrregularInput(
        spreadsheet,
        ALL,
        (
            "241 rows: agents by 'Model', items by 'Question' (ids made from it), texts in 'Response'",
            "11 empty responses ('v4 expert': 3, 'v1 plain': 2, 'v2 steps': 2, 'v6 quotes': 2, 'v3 terse': 1, 'v5 polite': 1) "
            "count as failures; `empty: missing` in the config leaves them out",
            "1 record left out: a repetition of an earlier response",
        ),
    ),
    "german excel": IrregularInput(
        german_excel,
        ALL,
        ("read as Windows-1252 (auswertung.csv)", "1 line above the header not read", "not used: 'Score'"),
    ),
    "wide": IrregularInput(
        wide, ALL - 1, ("each of 'v1 plain', 'v2 steps'", "an error of the spreadsheet (such as #REF!)")
    ),
    "letters": IrregularInput(
        letters, ALL, ("each of 'v1 plain letter', 'v2 steps letter'", "items by 'Question' (ids made")
    ),
    "row ids": IrregularInput(row_ids, ALL, ("agents by 'model' and 'prompt_version'", "items by 'query'", "'id'")),
    "merged": IrregularInput(
        merged, ALL, ("233 empty cells of 'LLM' filled with the value above", "they differ only by spaces or case")
    ),
    "excel": IrregularInput(
        excel,
        ALL - len(AGENTS),
        ("items by 'No.', prompts in 'Prompt', texts in 'Reply'", "1 line above the header not read (6 times, first: "),
    ),
    "lines": IrregularInput(lines, ALL, ("agents by 'metadata.model'", "texts in 'response.output'")),
    "by agent": IrregularInput(by_agent, ALL, ("agents by 'agent', items by 'item'",)),
    "pandas columns": IrregularInput(pandas_columns, ALL, ("agents by 'system', items by 'instruction'",)),
    "parquet": IrregularInput(parquet, ALL, ("items by 'task_id', prompts in 'document', texts in 'text'",)),
    "texts": IrregularInput(texts, ALL, ("prompts in 'prompt'",)),
    "files apart": IrregularInput(one_file_per_agent, ALL, ("agents by a table each",)),
}


def init_and_read(at: Path, config: str) -> Pool:
    return read_pool(at / load_run_config(at / config).pool)


def _item_of(texts: dict[str, str | None]) -> int:
    """Return the question of these responses, by the first that is not a number."""
    output = ((i, texts[agent]) for i, agent in enumerate(AGENTS))
    return next((j for i, text in output for j in range(N) if text == response(i, j)), 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "spreadsheet" else pytest.mark.slow) for name in UGLY]
)
def test_an_irregular_file_is_ranked_without_edits(youden: Youden, tmp_path: Path, name: str) -> None:
    ugly = UGLY[name]
    path = ugly.make(tmp_path)
    begun = youden("init", path.name, "--out", "mine.yaml").well()
    for output in ugly.said:
        assert output in begun.out, begun.out
    pool = init_and_read(tmp_path, "mine.yaml")
    assert (pool.n_agents, pool.n_items, int(pool.present.sum())) == (len(AGENTS), N, ugly.n_present)
    by_place = {" ".join(entry.id.split()).casefold(): k for k, entry in enumerate(pool.agents)}
    if set(by_place) == set(AGENTS):
        for row in range(N):
            texts = {agent: pool.texts[by_place[agent], row] for agent in AGENTS}
            item = _item_of(texts)
            own = [{response(i, item), "", None} for i in range(len(AGENTS))]
            assert all(texts[agent] in (*expected, "7", "42") for agent, expected in zip(AGENTS, own, strict=True)), (
                texts
            )
    assert youden("check", "mine.yaml").code == 0
    ran = youden("run", "mine.yaml").well()
    assert f"{len(AGENTS)} agents on {N} items" in ran.out


def _sheet(at: Path, agents: Sequence[str], n: int, **changed: str) -> None:
    """Return a spreadsheet of these agents and questions; `changed` maps "agent item" to a response."""
    rows = [
        [agent, question(j), changed.get(f"{agent} {j}", response(AGENTS.index(agent), j))]
        for agent in agents
        for j in range(n)
    ]
    (at / "sheet.csv").write_text(separated([["Model", "Question", "Response"], *rows]), encoding="utf-8")


def test_new_rows_of_a_spreadsheet_update_the_pool_of_an_unjudged_run(youden: Youden, tmp_path: Path) -> None:
    _sheet(tmp_path, AGENTS[1:5], 12)
    assert youden("init", "sheet.csv").code == 0
    config, before = (tmp_path / "sheet.yaml").read_bytes(), init_and_read(tmp_path, "sheet.yaml")
    _sheet(tmp_path, AGENTS[:4], 15, **{f"{AGENTS[1]} 3": "Said anew."})
    again = youden("init", "sheet.csv").well()
    assert "pools/sheet: 1 new agent and 3 new items" in again.out
    assert "1 changed response, updated in the pool: 'v2 steps' to 'q004'" in again.out
    assert "missing in the new file, and kept: v5 polite" in again.out
    assert again.out.endswith("next: youden run sheet.yaml\n")
    pool = init_and_read(tmp_path, "sheet.yaml")
    assert [agent.id for agent in pool.agents] == [*(agent.id for agent in before.agents), AGENTS[0]]
    assert [agent.id for agent in pool.items][:12] == [agent.id for agent in before.items]
    same = pool.texts[:4, :12] == before.texts
    assert [tuple(cell) for cell in np.argwhere(~same)] == [(0, 3)]
    assert pool.texts[0, 3] == "Said anew."
    assert (tmp_path / "sheet.yaml").read_bytes() == config
    assert youden("run", "sheet.yaml").code == 0


def test_rows_without_ids_and_prompts_are_imported_again_as_the_same_items(youden: Youden, tmp_path: Path) -> None:
    rows = [[response(agent, item) for agent in range(3)] for item in range(6)]
    for n in (5, 6):
        (tmp_path / "t.csv").write_text(separated([["gpt", "llama", "claude"], *rows[:n]]), encoding="utf-8")
        again = youden("init", "t.csv").well()
    assert "pools/t: 1 new item" in again.out
    assert "missing in the new file" not in again.out
    assert [item.id for item in init_and_read(tmp_path, "t.yaml").items] == [f"q{n:03}" for n in range(1, 7)]


def test_removed_responses_and_changed_prompts_of_a_spreadsheet_are_stated(youden: Youden, tmp_path: Path) -> None:
    header = "model,id,prompt,response"
    rows = [f"{agent},q{item},What is {item}?,{agent} says {item}" for agent in "abc" for item in range(4)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([header, *rows]), encoding="utf-8")
    assert youden("init", "t.csv").code == 0
    path.write_text("\n".join([header, *rows[:-1]]).replace("What is 0?", "Who is 0?"), encoding="utf-8")
    again = youden("init", "t.csv").well()
    assert "missing in the new file, and kept: 'c' to 'q3'" in again.out
    assert "1 changed prompt, updated in the pool: q0" in again.out


def test_a_removed_response_of_an_agent_named_like_a_removed_item_is_stated(youden: Youden, tmp_path: Path) -> None:
    rows = [f"{agent},{item},What is {item}?,{agent} says {item}" for agent in "123" for item in range(3, 9)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["model,id,prompt,response", *rows, "3,9,What is 9?,3 says 9"]), encoding="utf-8")
    assert youden("init", "t.csv").code == 0
    remaining = [row for row in rows if row.split(",")[1] != "3" and not row.startswith("3,8")]
    path.write_text("\n".join(["model,id,prompt,response", *remaining, "3,9,What is 9?,3 says 9"]), encoding="utf-8")
    assert "missing in the new file, and kept: 3, '3' to '8'" in youden("init", "t.csv").well().out


@pytest.mark.slow
def test_new_rows_of_a_spreadsheet_join_a_judged_run_by_the_printed_commands(youden: Youden, tmp_path: Path) -> None:
    _sheet(tmp_path, AGENTS[:4], 12)
    assert youden("init", "sheet.csv").code == youden("run", "sheet.yaml").code == 0
    judged = init_and_read(tmp_path, "sheet.yaml").digest
    _sheet(tmp_path, AGENTS[:5], 14, **{f"{AGENTS[1]} 3": "Said anew."})
    for kind, place in (("agents", "pools/sheet-2"), ("items", "pools/sheet-2"), ("", "")):
        again = youden("init", "sheet.csv").well()
        assert "1 changed response, not updated because the run was judged: 'v2 steps' to 'q004'" in again.out
        command = f"youden extend {kind} runs/sheet {place}" if kind else "youden report runs/sheet"
        assert f"next: {command}" in again.out
        assert ("calls, $0.00)" in again.out) == bool(kind)
        assert youden(*command.split()[1:]).code == 0
    assert init_and_read(tmp_path, "sheet.yaml").digest == judged
    ranked = (tmp_path / "runs/sheet/ranking.csv").read_text(encoding="utf-8")
    assert all(agent in ranked for agent in AGENTS[:5])
    named = youden("init", "sheet.csv", "--column", "agent=Model").well()
    command = "youden init sheet.csv --column agent=Model --out sheet-new.yaml"
    assert f"to rank by the changed responses in a separate run: {command}" in named.out
    assert youden(*command.split()[1:]).code == 0
    assert init_and_read(tmp_path, "sheet-new.yaml").texts[1, 3] == "Said anew."


@pytest.mark.parametrize(
    ("n", "said"),
    [
        (1, f"1 empty response ('{AGENTS[0]}': 1) counts as a failure"),
        (2, f"2 empty responses ('{AGENTS[0]}': 2) count as failures"),
    ],
)
def test_empty_responses_are_counted_in_grammatical_english(youden: Youden, tmp_path: Path, n: int, said: str) -> None:
    _sheet(tmp_path, AGENTS[:4], 12, **{f"{AGENTS[0]} {j}": "" for j in range(n)})
    assert said in youden("init", "sheet.csv").out


def test_import_infers_missing_column_options_and_states_the_columns_used(youden: Youden, tmp_path: Path) -> None:
    spreadsheet(tmp_path)
    begun = youden("init", "answers.csv")
    taken = youden("import", "table", "answers.csv", "--out", "pools/taken")
    assert begun.code == taken.code == 0, taken.err
    assert "read 241 rows: agents by 'Model', items by 'Question' (ids made from it), texts in 'Response'" in taken.err
    assert read_pool(tmp_path / "pools/taken").digest == init_and_read(tmp_path, "answers.yaml").digest


@pytest.mark.parametrize("column", ["agent", "Model"])
def test_a_column_named_agent_defines_agents_even_with_few_rows(youden: Youden, tmp_path: Path, column: str) -> None:
    rows = ["a,1,one", "a,1,two", "a,2,three", "b,1,four", "c,1,five", "d,1,six"]
    (tmp_path / "few.csv").write_text("\n".join([f"{column},item,text", *rows]), encoding="utf-8")
    ended = youden("init", "few.csv")
    assert f"agents by '{column}'" in ended.out + ended.err
    assert "not used" not in ended.out + ended.err


def test_explicit_column_options_override_inference(youden: Youden, tmp_path: Path) -> None:
    rows = [[agent, f"run {i}", ask, text, f"{text} Revised."] for i, (agent, ask, text) in enumerate(cells())]
    head = ["Model", "Version", "Question", "Response", "Second draft"]
    (tmp_path / "drafts.csv").write_text(separated([head, *rows]), encoding="utf-8")
    explicit = youden(
        "import", "table", "drafts.csv", "--out", "pools/drafts", "--column", "text=Second draft", "--json"
    ).well()
    assert "texts in 'Second draft'" in json.loads(explicit.out)["used_columns"]
    pool = read_pool(tmp_path / "pools/drafts")
    assert (pool.n_agents, pool.n_items) == (len(AGENTS), N)
    assert all(str(text).endswith("Revised.") for text in pool.texts.flat)
    wrong = youden("import", "table", "drafts.csv", "--out", "pools/other", "--column", "text=Third draft")
    assert (wrong.code, "[import-columns]" in wrong.err, "there is no column 'Third draft'" in wrong.err) == (
        2,
        True,
        True,
    )


def test_the_agent_column_of_a_table_with_item_and_text_columns_is_inferred(tmp_path: Path) -> None:
    rows = [[agent, ask, text] for agent, ask, text in cells()]
    (tmp_path / "one.csv").write_text(separated([["system", "item", "text"], *rows]), encoding="utf-8")
    result = IMPORTERS.load("table")([tmp_path / "one.csv"], columns={})
    assert {agent.id for agent in result.pool.agents} == set(AGENTS)
    assert "agents by 'system'" in result.used_columns
