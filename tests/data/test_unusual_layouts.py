"""Test tables with two header lines, lines of totals, a row per agent, no header, or columns that may be agents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import openpyxl
import pytest
from table_lines import AGENTS, QUESTIONS, check_is_complete, response, wide_lines, write

from commands import Youden
from youden import read_pool
from youden.data.importers.pool_joiner import ImportedPool
from youden.data.importers.table_import import read_table
from youden.data.pools.pool_reader import iter_responses
from youden.errors import ImportFormatError


def two_header_lines(path: Path, *, merged: bool) -> Path:
    """Write the agents in the first line and answer and score in the second, as pandas and merged cells do."""
    agents = [agent for name in AGENTS for agent in (name, None if merged else name)]
    lines: list[list[object]] = [[None, None, *agents], ["id", "question", *["answer", "score"] * len(AGENTS)]]
    for item, question in enumerate(QUESTIONS):
        cells = [cell for name in AGENTS for cell in (response(name, item), 1 + item % 3)]
        lines.append([f"i{item}", question, *cells])
    return write(path, lines)


def wide(path: Path, *further_lines: Sequence[object]) -> Path:
    return write(path, [["Question", *AGENTS], *wide_lines(), *further_lines])


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_two_header_lines_are_joined(tmp_path: Path, name: str, *, merged: bool) -> None:
    imported = read_table([two_header_lines(tmp_path / name, merged=merged)], columns={}, exact=False)
    check_is_complete(imported.pool, [f"{agent} answer" for agent in AGENTS])
    assert any("two header lines" in note for note in imported.notes)
    assert imported.unused == tuple(f"{agent} score" for agent in AGENTS)


@pytest.mark.parametrize("below", [(None, None), ("id", "question")])
def test_labels_below_merged_cells_of_a_header_name_the_agents(
    tmp_path: Path, below: tuple[str | None, str | None]
) -> None:
    header: list[list[object]] = [["Survey of May"], ["id", "question", "Answers", None, None], [*below, *AGENTS]]
    rows: list[list[object]] = [[item, *line] for item, line in enumerate(wide_lines())]
    imported = read_table([write(tmp_path / "t.xlsx", [*header, *rows])], columns={}, exact=False)
    check_is_complete(imported.pool, [f"Answers {agent}" for agent in AGENTS])


def test_a_first_row_that_resembles_a_second_header_line_stays_a_row(tmp_path: Path) -> None:
    lines = [["Question", *AGENTS], [QUESTIONS[0], "yes", "no", "yes"], [QUESTIONS[1], "no", "yes", "yes"]]
    pool = read_table([write(tmp_path / "t.csv", lines)], columns={"prompt": "Question", "text": ",".join(AGENTS)}).pool
    assert pool.n_items == 2


@pytest.mark.parametrize("label", ["Total", "Average length", "Mittelwert", "moyenne", "合計"])
@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_a_last_line_of_totals_is_not_an_item(tmp_path: Path, name: str, label: str) -> None:
    imported = read_table([wide(tmp_path / name, [label, 52.5, 50, 49])], columns={}, exact=False)
    check_is_complete(imported.pool, AGENTS)
    assert any(f"1 line of totals not read ({label!r})" in note for note in imported.notes)


@pytest.mark.parametrize("line", [["What is 6 × 7?", 42, 42, 41], ["Total", "fine", "good", "bad"]])
def test_a_last_line_with_responses_is_an_item(tmp_path: Path, line: list[object]) -> None:
    pool = read_table([wide(tmp_path / "t.csv", line)], columns={}, exact=False).pool
    assert pool.n_items == len(QUESTIONS) + 1


@pytest.mark.parametrize("names", [QUESTIONS, [f"Q{item + 1}" for item in range(len(QUESTIONS))]])
def test_a_table_with_a_row_per_agent_is_refused_with_the_remedy(tmp_path: Path, names: list[str]) -> None:
    lines = [[agent, *(response(agent, item) for item in range(len(QUESTIONS)))] for agent in AGENTS]
    path = write(tmp_path / "t.csv", [["model", *names], *lines])
    with pytest.raises(
        ImportFormatError, match=r"each row seems to hold all responses of one agent; transpose the table"
    ):
        read_table([path], columns={}, exact=False)


def test_a_file_with_an_unknown_suffix_is_refused_without_naming_the_same_command(
    youden: Youden, tmp_path: Path
) -> None:
    ended = youden("init", str(wide(tmp_path / "t.txt")))
    assert ended.refuses("import-format")
    assert "Convert it to one of: .csv" in ended.err
    (tmp_path / "t.txt").rename(tmp_path / "t.tsv")
    youden("init", str(tmp_path / "t.tsv"), "--judge", "lexical").well()
    check_is_complete(read_pool(tmp_path / "pools" / "t"), AGENTS)


DOUBTFUL: dict[str, tuple[str | None, Callable[[int], str | None]]] = {
    "notes in a few rows": ("Interne Hinweise", lambda item: "Bitte noch einmal prüfen." if item == 1 else None),
    "a column without a name": (None, lambda item: f"I prefer the first reply to case {item}."),
    "remarks, by a word in the middle": ("Comment of the reviewer", lambda item: f"The first reply to {item} is best."),
    "a second question": ("Follow-up", lambda item: f"And how do you know that of case {item}?"),
    "an agent with some placeholders": (
        "mistral",
        lambda item: response("mistral", item) if item > 2 else ("n/a", "TODO", "-")[item],
    ),
}


@pytest.mark.parametrize("case", DOUBTFUL)
@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
def test_a_column_that_may_or_may_not_be_an_agent_is_refused_with_the_option(
    tmp_path: Path, name: str, case: str
) -> None:
    header, make_cell = DOUBTFUL[case]
    lines = [[*line, make_cell(item)] for item, line in enumerate(wide_lines())]
    path = write(tmp_path / name, [["Question", *AGENTS, header], *lines])
    with pytest.raises(ImportFormatError, match=r"may be an agent, or .*--column text=gpt,llama,claude"):
        read_table([path], columns={}, exact=False)
    check_is_complete(
        read_table([path], columns={"prompt": "Question", "text": ",".join(AGENTS)}, exact=False).pool, AGENTS
    )


@pytest.mark.parametrize("texts", [["yes", "no", "yes", "yes", "no"], [7, 49, 3, 12, 8]])
def test_short_responses_between_those_of_other_agents_are_not_left_out(tmp_path: Path, texts: list[object]) -> None:
    lines = [[*line[:2], text, *line[2:]] for line, text in zip(wide_lines(), texts, strict=True)]
    path = write(tmp_path / "t.csv", [["Question", "gpt", "qwen", "llama", "claude"], *lines])
    with pytest.raises(ImportFormatError, match=r"'qwen' may be an agent, or .*--column text=gpt,llama,claude"):
        read_table([path], columns={}, exact=False)
    named = {"prompt": "Question", "text": "gpt,qwen,llama,claude"}
    assert read_table([path], columns=named, exact=False).pool.n_agents == 4


@pytest.mark.parametrize("measurement", ["length", "{agent} length"])
def test_measurements_between_the_agents_are_not_agents(tmp_path: Path, measurement: str) -> None:
    header = ["Question"]
    for agent in AGENTS:
        header += [agent, measurement.format(agent=agent)]
    lines: list[list[object]] = []
    for question, *texts in wide_lines():
        lines.append([question, *(cell for text in texts for cell in (text, len(str(text))))])
    check_is_complete(read_table([write(tmp_path / "t.csv", [header, *lines])], columns={}, exact=False).pool, AGENTS)


@pytest.mark.parametrize("header", ["reference_outputs.answer", "reference_outputs", "Expected answers"])
def test_a_column_of_references_in_the_plural_is_no_agent(tmp_path: Path, header: str) -> None:
    lines = [[line[0], f"It is always so, in case {item}.", *line[1:]] for item, line in enumerate(wide_lines())]
    path = write(tmp_path / "t.csv", [["Question", header, *AGENTS], *lines])
    imported = read_table([path], columns={}, exact=False)
    check_is_complete(imported.pool, AGENTS)
    assert imported.unused == (header,)


def test_contexts_are_no_agent(tmp_path: Path) -> None:
    lines = [[line[0], f"Of case {item}, many books say so.", *line[1:]] for item, line in enumerate(wide_lines())]
    path = write(tmp_path / "t.csv", [["user_input", "retrieved_contexts", *AGENTS], *lines])
    with pytest.raises(ImportFormatError, match="--column prompt=user_input --column text=gpt,llama,claude"):
        read_table([path], columns={}, exact=False)


def test_names_of_columns_that_all_suggest_questions_are_refused_with_all_columns(tmp_path: Path) -> None:
    names = [f"{agent} on the question" for agent in AGENTS]
    path = write(tmp_path / "t.csv", [["question", *names], *wide_lines()])
    with pytest.raises(ImportFormatError, match=f"--column prompt=question --column 'text={','.join(names)}'"):
        read_table([path], columns={}, exact=False)


@pytest.mark.parametrize("names", [QUESTIONS, [f"Q{item + 1}" for item in range(len(QUESTIONS))]])
def test_a_table_with_a_row_per_agent_and_no_name_above_the_agents_is_refused(tmp_path: Path, names: list[str]) -> None:
    lines = [[agent, *(response(agent, item) for item in range(len(QUESTIONS)))] for agent in AGENTS]
    with pytest.raises(ImportFormatError, match=r"transpose the table|seems to hold responses"):
        read_table([write(tmp_path / "t.csv", [[None, *names], *lines])], columns={}, exact=False)


@pytest.mark.parametrize("is_wide", [True, False])
def test_a_table_without_a_header_is_refused(tmp_path: Path, *, is_wide: bool) -> None:
    lines = wide_lines()
    if not is_wide:
        lines = [[agent, line[0], line[1 + k]] for k, agent in enumerate(AGENTS) for line in lines]
    with pytest.raises(ImportFormatError, match="the first line seems to hold responses; insert a line with a name"):
        read_table([write(tmp_path / "t.csv", lines)], columns={}, exact=False)


def test_the_name_of_a_run_on_a_data_set_names_an_agent(tmp_path: Path) -> None:
    lines = [[agent, f"i{item}", response(agent, item)] for agent in AGENTS for item in range(len(QUESTIONS))]
    path = write(tmp_path / "t.csv", [["datasetRunName", "datasetItemId", "output"], *lines])
    pool = read_table([path], columns={}, exact=False).pool
    assert (pool.n_agents, pool.n_items, pool.repeat_texts) == (3, len(QUESTIONS), None)


def test_sheets_with_a_column_per_agent_are_refused_with_the_option(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for title, lines in (("May", wide_lines()[:3]), ("June", wide_lines()[3:])):
        sheet = book.create_sheet(title)
        for line in [["Question", *AGENTS], *lines]:
            sheet.append(line)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(ImportFormatError, match=r"--column text=(\w+,?){3}`"):
        read_table([tmp_path / "t.xlsx"], columns={}, exact=False)
    check_is_complete(read_table([tmp_path / "t.xlsx"], columns={"text": ",".join(AGENTS)}, exact=False).pool, AGENTS)


def test_an_agent_may_be_named_after_its_work_on_remarks(tmp_path: Path) -> None:
    agents = ("feedback bot", "note taker", "comment writer")
    pool = read_table([write(tmp_path / "t.csv", [["Question", *agents], *wide_lines()])], columns={}, exact=False).pool
    assert [agent.id for agent in pool.agents] == [*agents]


def test_reasoning_next_to_the_answer_of_a_row_is_no_doubt(tmp_path: Path) -> None:
    lines = [
        [agent, question, f"The question {item} asks {agent} for a reason.", response(agent, item)]
        for agent in AGENTS
        for item, question in enumerate(QUESTIONS)
    ]
    path = write(tmp_path / "t.csv", [["model", "question", "reasoning", "answer"], *lines])
    check_is_complete(read_table([path], columns={}, exact=False).pool, AGENTS)


def test_a_table_of_reviewers_next_to_the_responses_is_refused(tmp_path: Path) -> None:
    reviews: list[list[object]] = [[None, None, None] for _ in QUESTIONS]
    reviews[0] = ["Ana", 7, "fine with me so far"]
    reviews[1] = ["Ben", 3, "I would change a lot"]
    lines = [[*line, None, *review] for line, review in zip(wide_lines(), reviews, strict=True)]
    path = write(tmp_path / "t.csv", [["Question", *AGENTS, None, "Reviewer", "Votes", "Opinion"], *lines])
    with pytest.raises(ImportFormatError, match=r"'Opinion' may be .*--column text=gpt,llama,claude --column prompt"):
        read_table([path], columns={}, exact=False)


def test_columns_whose_names_contain_commas_can_be_listed(tmp_path: Path) -> None:
    columns_of_agents = [f"{agent}, May" for agent in AGENTS]
    header = ["Question", *columns_of_agents, None]
    lines = [[*line, f"The first reply to {item} is best."] for item, line in enumerate(wide_lines())]
    path = write(tmp_path / "t.csv", [header, *lines])
    with pytest.raises(
        ImportFormatError, match="--column 'text=gpt, May,llama, May,claude, May' --column prompt=Question"
    ):
        read_table([path], columns={}, exact=False)
    columns = {"text": ",".join(columns_of_agents), "prompt": "Question"}
    for exact in (True, False):
        pool = read_table([path], columns=columns, exact=exact).pool
        assert [agent.id for agent in pool.agents] == columns_of_agents


def test_the_command_of_an_error_repeats_the_columns_that_the_user_named(tmp_path: Path) -> None:
    lines = [[f"q{item}", *line, f"The first reply to {item} is best."] for item, line in enumerate(wide_lines())]
    path = write(tmp_path / "t.csv", [["Key", "Question", *AGENTS, None], *lines])
    with pytest.raises(ImportFormatError, match="--column item=Key --column text=gpt,llama,claude --column prompt"):
        read_table([path], columns={"item": "Key"}, exact=False)


def test_a_message_with_a_subject_is_refused_with_the_message_as_the_prompt(tmp_path: Path) -> None:
    lines = [[f"Ein Problem mit Fall {item}", *line] for item, line in enumerate(wide_lines())]
    path = write(tmp_path / "t.csv", [["Betreff", "Nachricht", *AGENTS], *lines])
    with pytest.raises(ImportFormatError, match="--column prompt=Nachricht --column text=gpt,llama,claude"):
        read_table([path], columns={}, exact=False)


def test_an_excel_file_with_the_suffix_of_a_csv_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = wide(tmp_path / "t.xlsx").rename(tmp_path / "t.csv")
    with pytest.raises(ImportFormatError, match=r"it is a ZIP archive, as Excel files are. Rename it to .xlsx"):
        read_table([path], columns={}, exact=False)


@pytest.mark.parametrize("header", [["모델", "번호", "답변", "질문"], ["النموذج", "رقم", "الإجابة", "السؤال"]])
def test_ids_and_prompts_are_recognized_in_unknown_languages(tmp_path: Path, header: list[str]) -> None:
    rows = [
        [agent, f"k{item}", response(agent, item), question]
        for agent in AGENTS
        for item, question in enumerate(QUESTIONS)
    ]
    pool = read_table([write(tmp_path / "t.csv", [header, *rows])], columns={}, exact=False).pool
    assert [item.id for item in pool.items] == [f"k{item}" for item in range(len(QUESTIONS))]
    check_is_complete(pool, AGENTS)


def test_a_message_of_gemini_without_a_role_is_the_prompt(tmp_path: Path) -> None:
    rows = []
    for agent in AGENTS:
        for item, question in enumerate(QUESTIONS):
            reply = {"candidates": [{"content": {"parts": [{"text": response(agent, item)}], "role": "model"}}]}
            contents = [{"parts": [{"text": question}]}]
            rows.append(json.dumps({"model": agent, "request": {"contents": contents}, "response": reply}))
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(rows), encoding="utf-8")
    check_is_complete(read_table([path], columns={}, exact=False).pool, AGENTS)


def rows_of_one_agent(path: Path, answers: Sequence[str]) -> Path:
    rows = [["gpt", question, f"{answer} for {question}"] for question in QUESTIONS for answer in answers]
    return write(path, [["model", "question", "answer"], *rows])


def count_responses(imported: ImportedPool) -> Counter[str]:
    return Counter(text.split()[0] for _, _, _, text in iter_responses(imported.pool))


def test_equal_responses_are_repeats_if_rows_of_a_question_differ_elsewhere(tmp_path: Path) -> None:
    path = rows_of_one_agent(tmp_path / "t.csv", ["yes", "yes", "no", "yes"])
    imported = read_table([path], columns={}, exact=False)
    assert count_responses(imported) == {"yes": 15, "no": 5}
    assert not imported.left_out


def test_equal_responses_are_copies_unless_the_user_states_that_rows_are_repeats(
    tmp_path: Path, youden: Youden
) -> None:
    path = rows_of_one_agent(tmp_path / "t.csv", ["yes", "yes", "yes"])
    assert read_table([path], columns={}, exact=False).left_out == {"a repetition of an earlier response": 10}
    imported = read_table([path], columns={"repeat": "rows"}, exact=False)
    assert count_responses(imported) == {"yes": 15}
    refused = youden("init", str(path))
    assert refused.code == 2
    command = refused.err.partition("keep them: youden ")[2].split(" [init-columns]")[0]
    assert youden(*command.split()).code == 0


def test_a_table_with_a_few_copied_rows_has_no_repeats(tmp_path: Path) -> None:
    rows = [[agent, question, response(agent, item)] for agent in AGENTS for item, question in enumerate(QUESTIONS)]
    corrected = [["gpt", QUESTIONS[0], "I corrected this response later on."]]
    path = write(tmp_path / "t.csv", [["model", "question", "answer"], *rows, rows[1], *corrected])
    assert read_table([path], columns={}, exact=False).left_out == {"a repetition of an earlier response": 1}


def test_too_few_agents_because_of_unread_sheets_are_refused_with_the_sheets(youden: Youden, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for agent, name in zip(AGENTS, ("answer", "answer", "reply"), strict=True):
        sheet = book.create_sheet(agent)
        sheet.append(["question", name])
        for item, question in enumerate(QUESTIONS):
            sheet.append([question, response(agent, item)])
    book.save(tmp_path / "t.xlsx")
    refused = youden("init", "t.xlsx")
    assert refused.code == 2
    assert (
        "give their columns the names of the first sheet: sheets with other columns not read ('claude')" in refused.err
    )


@pytest.mark.parametrize("names_agents", [True, False])
def test_a_folder_with_one_json_file_per_response_is_read(tmp_path: Path, *, names_agents: bool) -> None:
    for agent in AGENTS:
        (tmp_path / "in" / agent).mkdir(parents=True)
        for item, question in enumerate(QUESTIONS):
            row = {"prompt": question, "response": response(agent, item)} | ({"model": agent} if names_agents else {})
            path = tmp_path / "in" / (f"{agent}-{item}.json" if names_agents else f"{agent}/{item}.json")
            path.write_text(json.dumps(row), encoding="utf-8")
    (tmp_path / "in" / "config.json").write_text(json.dumps({"model": "gpt", "temperature": 0}), encoding="utf-8")
    pool = read_table([tmp_path / "in"], columns={}, exact=False).pool
    assert {agent.id for agent in pool.agents} == {*AGENTS}
    assert sorted(item.prompt or "" for item in pool.items) == sorted(QUESTIONS)
    assert pool.n_responses == len(AGENTS) * len(QUESTIONS)


def write_texts(folder: Path, agents: Sequence[str]) -> Path:
    for agent in agents:
        for item in range(3):
            path = folder / agent / f"{item}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{agent} says {item}", encoding="utf-8")
    return folder


def test_folders_of_texts_named_after_kinds_of_prompts_are_agents(tmp_path: Path) -> None:
    agents = ["new-prompt", "old-prompt", "with context"]
    pool = read_table([write_texts(tmp_path, [*agents, "Prompts"])], columns={}, exact=False).pool
    assert [agent.id for agent in pool.agents] == agents
    assert [item.prompt for item in pool.items] == [f"Prompts says {item}" for item in range(3)]


def test_a_folder_with_only_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportFormatError, match=r"a folder of texts .* for each agent.*\[import-empty\]"):
        read_table([write_texts(tmp_path, ["prompts"])], columns={}, exact=False)
