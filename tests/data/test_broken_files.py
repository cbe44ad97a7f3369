"""Test that truncated, doubly encoded or duplicated rows are an error that names the file, or are counted."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer_files import load
from youden.errors import YoudenError

AGENTS, ITEMS, TEXTS = (
    ("a", "A", "a ", "b"),
    ("i", "I", " i", "j", "é", "e\u0301"),
    ("said", "Gruß", "", "two\nlines", "\u2028"),
)
Row = tuple[str, str, str | None]
ROWS = st.lists(
    st.tuples(st.sampled_from(AGENTS), st.sampled_from(ITEMS), st.one_of(st.none(), st.sampled_from(TEXTS))),
    min_size=1,
    max_size=8,
)


def _table(rows: list[Row]) -> bytes:
    return b"".join(json.dumps(dict(zip(("agent", "item", "text"), row, strict=True))).encode() + b"\n" for row in rows)


def _lm_eval(rows: list[Row]) -> bytes:
    return b"".join(
        json.dumps({"doc_id": item, "resps": [[text]], "filter": "f"}).encode() + b"\n" for _, item, text in rows
    )


def _fastchat(rows: list[Row]) -> bytes:
    output = [{"question_id": item, "model_id": agent, "choices": [{"turns": [text]}]} for agent, item, text in rows]
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in output)


def _alpaca(rows: list[Row]) -> bytes:
    output = [{"instruction": item, "output": text, "generator": agent} for agent, item, text in rows]
    return json.dumps(output, ensure_ascii=False).encode()


def _promptfoo(rows: list[Row]) -> bytes:
    output = [
        {
            "provider": agent,
            "testIdx": ITEMS.index(item),
            "prompt": {"raw": "p", "label": "p"},
            "response": {"output": text},
        }
        for agent, item, text in rows
    ]
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in output)


WRITTEN = {
    "table": ("rows.jsonl", _table),
    "lm-eval": ("samples_t_2026-01-02T03-04-05.6.jsonl", _lm_eval),
    "fastchat": ("answers.jsonl", _fastchat),
    "alpaca-eval": ("model_outputs.json", _alpaca),
    "promptfoo": ("out.jsonl", _promptfoo),
}


def _counted(format_: str, name: str, raw: bytes) -> int | None:
    """Return the number of rows that the import accounts for, or None if it was refused as expected."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(raw)
        refused: YoudenError | None = None
        try:
            imported = load(format_, file)
        except YoudenError as error:
            refused = error
        if refused is not None:
            assert refused.slug.startswith("import-")
            assert file.stem in str(refused) or refused.slug == "import-alike"
            return None
        return int(imported.pool.present.sum()) + sum(imported.left_out.values())


@pytest.mark.parametrize("format_", list(WRITTEN))
@settings(max_examples=12, deadline=None)
@given(rows=ROWS)
def test_similar_ids_and_repeated_rows_are_refused_or_counted(format_: str, rows: list[Row]) -> None:
    name, written = WRITTEN[format_]
    assert _counted(format_, name, written(rows)) in (None, len(rows))


@pytest.mark.parametrize("format_", list(WRITTEN))
@settings(max_examples=12, deadline=None)
@given(
    rows=ROWS,
    cut=st.floats(0, 1),
    wrong=st.sampled_from(["utf-16-le", "latin-1", "utf-8-sig", "cp037"]),
    at=st.floats(0, 1),
)
def test_truncated_files_and_mixed_encodings_are_refused_or_counted(
    format_: str, rows: list[Row], cut: float, wrong: str, at: float
) -> None:
    name, written = WRITTEN[format_]
    complete = written(rows)
    _counted(format_, name, complete[: int(cut * len(complete))])
    middle = int(at * len(complete))
    _counted(format_, name, complete[:middle] + complete[middle:].decode("utf-8", "replace").encode(wrong, "replace"))
