"""Read the messages of errors from the source, without running it.

A message may be a literal, or it may come from a variable, a parameter or another function of the module. These are followed.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from itertools import islice, product

MAX_TEXTS = 6
"""Maximum number of texts of one message."""
MAX_STEPS = 4
"""Maximum number of variables and functions that are followed, one after the other."""
_OPEN = re.compile(r"‹(?:\w*(?:fault|hint|problem|reason|remedy)|suggest_name)›")
"""A variable part that may contain the remedy; it is followed even if the text around it is a sentence."""
_OTHER_MODULES = {"suggest_name": "Did you mean ‹name›? There are: ‹names›."}
"""Functions of other modules that return a part of a message."""
_NAMES_OF_RESULTS = {"format_command": "command", "len": "n"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """The source of one module."""

    def __init__(self, tree: ast.Module) -> None:
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        self._functions = {node.name: node for node in ast.walk(tree) if isinstance(node, _Function)}
        self._function_of: dict[ast.AST, _Function] = {}  # ast.walk goes outside in, so the innermost function remains
        for node in ast.walk(tree):
            if isinstance(node, _Function):
                self._function_of |= dict.fromkeys(ast.walk(node), node)
        self._calls_of: dict[str, list[ast.Call]] = defaultdict(list)
        for call in self.calls:
            self._calls_of[_get_called_name(call)].append(call)

    def read_message(self, call: ast.Call) -> list[str]:
        """Return the texts that a call which makes an error may get; none if they come from another module."""
        literal = max((_to_text(argument) for argument in call.args), key=_count_words, default="")
        if _count_words(literal) > 2 and not _OPEN.search(literal):
            return [literal]
        texts = [text for argument in call.args for text in self._read(argument, MAX_STEPS)]
        return [text for text in dict.fromkeys(texts) if _count_words(text) > 2][:MAX_TEXTS]

    def _read(self, value: ast.expr, n_steps: int) -> list[str]:
        """Return the texts that an expression may have."""
        texts: list[str] = []
        if isinstance(value, ast.IfExp):
            texts = [*self._read(value.body, n_steps), *self._read(value.orelse, n_steps)]
        elif isinstance(value, ast.JoinedStr):
            texts = self._join(value.values, n_steps)
        elif isinstance(value, ast.BinOp):
            texts = self._join([value.left, value.right], n_steps)
        elif isinstance(value, ast.FormattedValue):
            texts = self._read(value.value, n_steps)
            is_prose = _OPEN.search(_to_text(value)) or any(_count_words(text) > 1 for text in texts)
            texts = texts if is_prose else []
        elif isinstance(value, ast.Call) and _get_called_name(value) in _OTHER_MODULES:
            texts = [_OTHER_MODULES[_get_called_name(value)]]
        elif n_steps > 0:
            texts = [text for source in self._find_sources(value) for text in self._read(source, n_steps - 1)]
        return texts or [_to_text(value)]

    def _join(self, parts: list[ast.expr], n_steps: int) -> list[str]:
        alternatives = [self._read(part, n_steps) for part in parts]
        return ["".join(texts) for texts in islice(product(*alternatives), MAX_TEXTS)]

    def _find_sources(self, value: ast.expr) -> list[ast.expr]:
        """Find the expressions that a variable, a parameter or a call of a function of this module takes its value from."""
        if isinstance(value, ast.Call):
            function = self._functions.get(_get_called_name(value))
            nodes = [] if function is None else ast.walk(function)
            return [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
        function = self._function_of.get(value)
        if not isinstance(value, ast.Name) or function is None:
            return []
        assigned = [
            node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and any(ast.unparse(target) == value.id for target in node.targets)
        ]
        return assigned or self._find_arguments(function, value.id)

    def _find_arguments(self, function: _Function, parameter: str) -> list[ast.expr]:
        names = [argument.arg for argument in function.args.posonlyargs + function.args.args if argument.arg != "self"]
        arguments = []
        for call in self._calls_of[function.name]:
            by_name = dict(zip(names, call.args, strict=False))
            by_name |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
            if parameter in by_name:
                arguments.append(by_name[parameter])
        return arguments


def _get_called_name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _count_words(text: str) -> int:
    return len(re.findall(r"[a-z]{2,}", re.sub(r"‹.*?›", "", text), re.IGNORECASE)) if " " in text else 0


def _to_text(value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        return str(value.value)
    if isinstance(value, ast.JoinedStr):
        return "".join(map(_to_text, value.values))
    if isinstance(value, ast.FormattedValue):
        return f"‹{_to_name(value.value)}›"
    if isinstance(value, ast.BinOp):
        return _to_text(value.left) + _to_text(value.right)
    return f"‹{_to_name(value)}›"


def _to_name(value: ast.expr) -> str:
    """Return a short word for a variable part of a message: the last name in its expression, or in what a function formats."""
    if isinstance(value, ast.Call):
        function = _get_called_name(value)
        if function in _NAMES_OF_RESULTS:
            return _NAMES_OF_RESULTS[function]
        if value.args and _find_names(value.args[0]):
            return _to_name(value.args[0])
    if isinstance(value, ast.GeneratorExp | ast.ListComp):
        return _to_name(value.generators[0].iter)
    if isinstance(value, ast.Subscript):
        return _to_name(value.value)
    names = _find_names(value)
    return names[0].strip("_") if names else "…"


def _find_names(value: ast.expr) -> list[str]:
    parts = [part for part in ast.walk(value) if isinstance(part, ast.Attribute | ast.Name)]
    return [part.attr if isinstance(part, ast.Attribute) else part.id for part in parts]
