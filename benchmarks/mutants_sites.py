"""Find what `mutants.py` can change in a source file, and insert calls that record which functions are entered."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path("src/youden")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NOT_RUN = {"annotation", "returns", "decorator_list", "type_params"}
SWAPS: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A replacement of one piece of a source file."""

    file: str
    line: int
    operator: str
    function: str | None
    start: int
    end: int
    before: str
    after: str


def iter_replacements(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, ast.AST]]:
    """Yield operator, the piece to replace, and its replacement."""
    match node:
        case ast.Compare(ops=[op, *other_ops]) if type(op) in SWAPS:
            yield "comparison", node, ast.Compare(node.left, [SWAPS[type(op)](), *other_ops], node.comparators)
        case ast.BinOp(op=op) if type(op) in SWAPS:
            yield "arithmetic", node, ast.BinOp(node.left, SWAPS[type(op)](), node.right)
        case ast.BoolOp(op=op):
            yield "boolean", node, ast.BoolOp(SWAPS[type(op)](), node.values)
        case ast.Constant(value=bool() as value):
            yield "constant", node, ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", node, ast.Constant(value + 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return", node, ast.Return(ast.Constant(None))
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if ast.unparse(test) != "TYPE_CHECKING":
            yield "condition", test, ast.UnaryOp(ast.Not(), test)


def iter_nodes(node: ast.AST, function: str | None = None) -> Iterator[tuple[ast.AST, str | None]]:
    """Yield the nodes that run, each with the first line of the innermost function around it."""
    yield node, function
    if isinstance(node, ast.JoinedStr):  # Python 3.11 gives wrong positions within f-strings
        return
    inner = str(node.lineno) if isinstance(node, FUNCTIONS) else function
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in NOT_RUN:
                yield from iter_nodes(child, inner if name == "body" and isinstance(node, FUNCTIONS) else function)


def find_mutants(tree: Path, path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a source file."""
    source = (tree / path).read_bytes()
    starts = [0]
    for row in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    for node, line in iter_nodes(ast.parse(source)):
        for operator, piece, replacement in iter_replacements(node):
            if line is None and isinstance(piece, ast.BinOp) and isinstance(piece.op, ast.BitOr):
                continue  # an alias of a type
            start = starts[piece.lineno - 1] + piece.col_offset
            end = starts[(piece.end_lineno or 0) - 1] + (piece.end_col_offset or 0)
            text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(replacement)))
            after = text if isinstance(piece, ast.stmt) else f"({text})"
            function = f"{path}:{line}" if line else None
            yield Mutant(str(path), piece.lineno, operator, function, start, end, source[start:end].decode(), after)


def insert_probes(path: Path, source: bytes) -> bytes:
    """Insert, at the start of each function's body, a call that records that the function was entered."""
    lines = source.splitlines(keepends=True)
    probes = []
    for node in (node for node in ast.walk(ast.parse(source)) if isinstance(node, FUNCTIONS)):
        has_docstring = ast.get_docstring(node, clean=False) is not None
        if len(node.body) > has_docstring:
            first = node.body[has_docstring]
            line = min([first.lineno, *(item.lineno for item in getattr(first, "decorator_list", []))])
            probes.append((line, first.col_offset, node.lineno))
    for line, column, function in sorted(probes, reverse=True):
        head, tail = lines[line - 1][:column], lines[line - 1][column:]
        gap = b"; " if head.strip() else b"\n" + head
        lines[line - 1] = head + f"_mutants_enter({f'{path}:{function}'!r})".encode() + gap + tail
    return b"".join(lines)
