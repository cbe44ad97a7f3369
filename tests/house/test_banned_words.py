"""Check that names, docstrings, comments, messages and documents contain no banned word.

A pronoun, participle or preposition does not say what a name holds, and each home-made term has a standard one: the
glossary
(docs/reference/glossary.md) lists them. An exception needs its reason here.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WHOLE_NAMES = set(
    """
    alike all anew apart asked at beside both came come found fresh held here how known least looked made may met middle mine more
    most named nobody of once one other ours own rest said seen shown so somebody spread such that theirs then there this told way
    who whoever whole whose why within
    """.split()  # noqa: SIM905
)
"""Names that do not say what they hold."""
PARTS_OF_NAMES = set(
    """
    alike anew apart befalls befell beside everybody looked luck lucky mine nobody ours said somebody stands stood theirs told
    unsaid whoever whom whose
    """.split()  # noqa: SIM905
)
"""Words that no name contains."""
PROSE = re.compile(
    r"(?<![\w-])(?:said|told|somebody|nobody|everybody|whoever|anew|befalls?|befell|luck|lucky|apart|beside|so many that"
    r"|stood|stands?(?! for\b)|an? (?:row|column|line|file|trial|call|request|text|agent|item|pair) an? \w+"
    r"|(?:trials|calls) an? (?:agent|item|pair))(?![\w-]| has)",
    re.IGNORECASE,
)
"""Home-made terms. `told apart` is *significantly different*, `a row a response` is *one row per response*, and so on."""

SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])
FOLDERS = ("docs", "prompts", "configs", "datasets", "examples", ".github")
KINDS = {".md", ".py", ".yml", ".yaml"}
TOP_FILES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "action.yml",
    "compose.yaml",
    "mkdocs.yml",
)
IN_FOLDERS = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in KINDS]
PAGES = sorted([*(ROOT / name for name in TOP_FILES), *IN_FOLDERS])


def bound_names(code: str) -> Iterator[str]:
    """Functions, classes, parameters, variables, attributes and aliases that code defines."""
    tree = ast.parse(code)
    operators = {
        argument
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("__")
        for argument in node.args.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg) and not (
            node in operators and node.arg == "other"
        ):  # as Python's manual names it
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def banned_names(code: str) -> set[str]:
    names = set()
    for name in bound_names(code):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")
        is_module_name = name.startswith("__") and name.endswith("__")
        if not is_module_name and (words in WHOLE_NAMES or not PARTS_OF_NAMES.isdisjoint(words.split("_"))):
            names.add(name)
    return names


def comments(code: str) -> Iterator[str]:
    """All comments of code, if a line with a `#` contains a home-made term: tokenizing every file is slow."""
    if any(PROSE.search(line) for line in code.splitlines() if "#" in line):
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.COMMENT:
                yield token.string


def prose_of_code(code: str) -> Iterator[str]:
    """Comments, docstrings and strings of several words."""
    yield from comments(code)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def prose_of_test(code: str) -> Iterator[str]:
    """Names of tests as sentences, comments and docstrings; other strings may be input or expected output."""
    yield from comments(code)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name.replace("_", " ")
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def prose_of_page(text: str) -> str:
    return re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)


def banned_terms(text: str) -> set[str]:
    """Home-made terms outside of `code`."""
    plain = re.sub(r"`[^`\n]*`", "", text)
    return {re.sub(r"\s+", " ", term).lower() for term in PROSE.findall(plain)}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def by_folder(paths: list[Path]) -> dict[str, list[Path]]:
    """Files by the first three parts of their paths, such as `src/youden/cli`."""
    folders: dict[str, list[Path]] = {}
    for path in paths:
        folders.setdefault("/".join(path.relative_to(ROOT).parent.parts[:3]), []).append(path)
    return folders


@pytest.mark.parametrize("paths", by_folder(SOURCES).values(), ids=by_folder(SOURCES))
def test_names_contain_no_banned_word(paths: list[Path]) -> None:
    names = {(relative(path), name) for path in paths for name in banned_names(path.read_text(encoding="utf-8"))}
    assert names == set()


@pytest.mark.parametrize("paths", by_folder([*SOURCES, *PAGES]).values(), ids=by_folder([*SOURCES, *PAGES]))
def test_prose_has_no_home_made_terms(paths: list[Path]) -> None:
    terms = set()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        parts = prose_of_code(text) if path.suffix == ".py" else [prose_of_page(text)]
        terms |= {(relative(path), term) for part in parts for term in banned_terms(part)}
    assert terms == set()


@pytest.mark.parametrize("paths", by_folder(TESTS).values(), ids=by_folder(TESTS))
def test_names_comments_and_docstrings_of_tests_have_no_home_made_terms(paths: list[Path]) -> None:
    terms = set()
    for path in paths:
        parts = prose_of_test(path.read_text(encoding="utf-8"))
        terms |= {(relative(path), term) for part in parts for term in banned_terms(part)}
    assert terms == set()


@pytest.mark.parametrize(
    "code",
    [
        "def test_agents_are_told_apart(): ...",
        'def f():\n    """Return a row an agent."""',
        "n = 1  # it stands last",
    ],
)
def test_a_home_made_term_of_a_test_is_found(code: str) -> None:
    assert [part for part in prose_of_test(code) if banned_terms(part)]


@pytest.mark.parametrize(
    "code",
    [
        "def told(): pass",
        "def rank(of): pass",
        "class SaidAnew: pass",
        "n_said = 1",
        "self.other = 1",
        "for one in []: pass",
        "import json as mine",
        "[whose for whose in []]",
    ],
)
def test_a_banned_name_is_found(code: str) -> None:
    assert len(banned_names(code)) == 1


def test_other_names_are_allowed() -> None:
    code = """
class Sum:
    def __add__(self, other): self.ability = other
__all__ = []
n_allowed = standard_error = within_item = 1
"""
    assert banned_names(code) == set()


@pytest.mark.parametrize(
    "text",
    [
        "Agents that cannot be told apart.",
        "One may hold a row a response.",
        "450 trials an agent.",
        "It stands last.",
        "Whoever asks next.",
        "Somebody else's luck.",
    ],
)
def test_a_home_made_term_is_found(text: str) -> None:
    assert banned_terms(text)
    assert [part for part in prose_of_code(f'"""{text}"""\n# {text}') if banned_terms(part)]


def test_other_terms_are_allowed() -> None:
    assert (
        banned_terms("An asterisk stands for one label; a stand-in; slug `items-alike`; the standard error per item.")
        == set()
    )
