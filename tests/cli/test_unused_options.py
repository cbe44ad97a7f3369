"""An option that an input cannot use is refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import Youden
from small_pools import make_pool
from youden.data.pools.pool_reader import write_pool
from youden.errors import ConfigError
from youden.study.comparison import compare

BATTLES = "model_a,model_b,winner,item\n" + "".join(
    f"{first},{second},{first},q{item}\n" for item in range(8) for first, second in ("ab", "ac", "bc", "cb")
)
IMPORT_BATTLES = ("import", "battles", "battles.csv", "--out", "new")
IMPORT_PAPER = ("import", "peer-prediction", "paper", "--out", "new")


COMMANDS = [
    (("export", "pool", "new.csv", "--organization", "a lab"), "got --organization"),
    (("export", "pool", "new.jsonl", "--raw-cells"), "got --raw-cells."),
    (
        ("export", "pool", "new", "--format", "hf", "--organization", "x", "--raw-cells"),
        "got --organization, --raw-cells",
    ),
    ((*IMPORT_BATTLES, "--text", "transcript"), "got --text"),
    ((*IMPORT_BATTLES, "--split", "train", "--subset", "x"), "got --split, --subset"),
    ((*IMPORT_PAPER, "--allow-dropped"), "got --allow-dropped"),
    (("import", "hf-dataset", "pool", "--out", "new", "--split", "train"), "got --split."),
    (("init", "pool", "--out", "new.yaml", "--column", "text=answer"), "got --column."),
    (("init", "table.csv", "--out", "old.yaml", "--column", "text=answer"), "got --column."),
    (("compare", "runs/b", "runs/b", "--match", "number"), "got --match"),
    (("compare", "runs/b", "runs/b", "--target", "these-items", "--scores", "row"), "got --scores, --target"),
    (("compare", "runs/b", "runs/b", "--family", "b=gpt"), "got --family."),
    (("fit", "runs/b", "--families", "families.csv"), "got --families."),
    (("fit", "runs/b", "--rates"), "got --rates."),
    (("gate", "runs/b", "--agent", "a", "--baseline", "b", "--dry-run", "--junit", "new.xml"), "got --junit"),
    (
        ("gate", "runs/b", "--agent", "a", "--baseline", "b", "--dry-run", "--label", "x", "--scale", "1,5"),
        "got --label, --scale",
    ),
]


def test_options_without_effect_are_refused(youden: Youden, tmp_path: Path) -> None:
    write_pool(make_pool(3, 4), tmp_path / "pool")
    (tmp_path / "battles.csv").write_text(BATTLES)
    (tmp_path / "families.csv").write_text("agent,family\na,x\nb,y\nc,y\n")
    assert youden("import", "battles", "battles.csv", "--out", "runs/b").code == 0
    assert youden("export", "pool", "table.csv").code == 0
    assert youden("init", "table.csv", "--out", "old.yaml", "--judge", "lexical").code == 0

    for command, reason in COMMANDS:
        ended = youden(*command)
        assert ended.code == 2, (command, ended)
        assert reason in ended.err
        assert not list(tmp_path.glob("new*"))

    runs = (tmp_path / "runs/b", tmp_path / "runs/b")
    with pytest.raises(ConfigError, match="got --match"):
        compare(*runs, match="number")
    assert compare(*runs, target="items-like-these").summary
