"""Test the record of analyses: equal answers are the same analysis, others the next one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from youden.data.folder.folder_lock import file_lock
from youden.data.folder.run_files import GateLedger, read_ledger, write_ledger
from youden.errors import InputError, RunFolderError
from youden.run_keys import Target

ONE, TWO, THREE = ("1" * 64, "2" * 64, "3" * 64)


def test_equal_answers_are_the_same_analysis_and_others_the_next_one(tmp_path: Path) -> None:
    ledger = read_ledger(tmp_path / "gates.json")
    for answers, look in ((ONE, 1), (TWO, 2), (ONE, 1), (THREE, 3), (TWO, 2)):
        assert ledger.analysis_number("new", "old", answers=answers) == look
        ledger = ledger.with_analysis("new", "old", answers=answers, margin=0.05)
        write_ledger(tmp_path / "gates.json", ledger)
        assert read_ledger(tmp_path / "gates.json") == ledger
    assert ledger.analysis_number("other", "old", answers=THREE) == 1
    assert ledger.analysis_number("old", "new", answers=THREE) == 1


def test_a_gate_continues_with_its_first_inference_target(tmp_path: Path) -> None:
    file = tmp_path / "gates.json"
    write_ledger(file, read_ledger(file).with_analysis("new", "old", answers=ONE, margin=0.05, target="these-items"))
    ledger = read_ledger(file)
    assert ledger.analysis_number("new", "old", answers=TWO, target="these-items") == 2
    for answers in (ONE, TWO):
        with pytest.raises(
            InputError, match=r"had the target these-items, this one has items-like-these.*\[gate-target\]"
        ):
            ledger.analysis_number("new", "old", answers=answers)
    assert ledger.analysis_number("other", "old", answers=ONE) == 1


def test_equal_analyses_write_the_same_file(tmp_path: Path) -> None:
    looks: list[tuple[str, str, Target]] = [("b\n", ONE, "items-like-these"), ("a", ONE, "these-items")]
    for name, order in (("one", looks), ("two", looks[::-1])):
        ledger = GateLedger(analyses=[])
        for agent, answers, target in order:
            ledger = ledger.with_analysis(agent, "old", answers=answers, margin=0.05, target=target)
        write_ledger(tmp_path / name, ledger)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_smallest_margin_is_recorded_for_each_quantity(tmp_path: Path) -> None:
    file = tmp_path / "gates.json"
    file.write_text(
        '{"version": 2, "analyses": [{"agent": "new", "baseline": "old", "target": "items-like-these", "answers": []}]}'
    )
    ledger = read_ledger(file)
    assert ledger.get_smallest_margin("new", "old") is None
    for margin, smallest in ((0.05, 0.05), (0.1, 0.05), (0.02, 0.02)):
        ledger = ledger.with_analysis("new", "old", answers=ONE, margin=margin)
        write_ledger(file, ledger)
        assert read_ledger(file).get_smallest_margin("new", "old") == smallest
        assert ledger.analysis_number("new", "old", answers=ONE) == 1
    assert ledger.get_smallest_margin("new", "old", by="quality") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 1}',
        '{"version": 1, "analyses": []}',
        '{"version": 2, "analyses": [{"agent": "a", "baseline": "b", "answers": ["short"]}]}',
        '{"version": 2, "analyses": [{"agent": "a", "baseline": "b"}]}',
        '{"version": 2, "analyses": [' + ", ".join(['{"agent": "a", "baseline": "b", "answers": []}'] * 2) + "]}",
        '{"version": 2, "analyses": [',
        "\xff",
    ],
)
def test_a_damaged_record_is_refused_and_not_restarted(tmp_path: Path, text: str) -> None:
    file = tmp_path / "gates.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(RunFolderError, match=r"Restore the file.*\[gate-ledger\]"):
        read_ledger(file)


def test_gates_at_the_same_time_record_all_analyses(tmp_path: Path) -> None:
    file = tmp_path / "new" / "gates.json"

    def record(agent: str) -> None:
        with file_lock(file):
            write_ledger(file, read_ledger(file).with_analysis(agent, "old", answers=ONE, margin=0.05))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(record, "abcdefgh"))
    assert [pair.agent for pair in read_ledger(file).analyses] == list("abcdefgh")
    assert [path.name for path in file.parent.iterdir()] == ["gates.json"]
