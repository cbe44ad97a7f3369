"""Test the record of analyses: equal answers are the same analysis, others the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from youden.data.folder.run_files import GateLedger, read_ledger, write_ledger
from youden.errors import InputError, RunFolderError
from youden.run_keys import Target

ONE, TWO, THREE = ("1" * 64, "2" * 64, "3" * 64)


def test_equal_answers_are_the_same_analysis_and_others_the_next_one(tmp_path: Path) -> None:
    ledger = read_ledger(tmp_path / "gates.json")
    for answers, look in ((ONE, 1), (TWO, 2), (ONE, 1), (THREE, 3), (TWO, 2)):
        assert ledger.analysis_number("new", "old", answers=answers) == look
        ledger = ledger.with_analysis("new", "old", answers=answers)
        write_ledger(tmp_path / "gates.json", ledger)
        assert read_ledger(tmp_path / "gates.json") == ledger
    assert ledger.analysis_number("other", "old", answers=THREE) == 1
    assert ledger.analysis_number("old", "new", answers=THREE) == 1


def test_a_gate_continues_with_its_first_inference_target(tmp_path: Path) -> None:
    file = tmp_path / "gates.json"
    write_ledger(file, read_ledger(file).with_analysis("new", "old", answers=ONE, target="these-items"))
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
            ledger = ledger.with_analysis(agent, "old", answers=answers, target=target)
        write_ledger(tmp_path / name, ledger)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


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
