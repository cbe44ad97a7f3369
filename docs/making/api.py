"""List the public names of a package for mkdocstrings, by the modules that define them."""

from __future__ import annotations

from importlib import import_module


def table(module: str) -> str:
    """Return a block of mkdocstrings for each function and class in the module's `__all__`."""
    package = import_module(module)
    blocks = []
    for name in package.__all__:
        value = getattr(package, name)
        defining_module = getattr(value, "__module__", None)
        if defining_module is not None and callable(value):
            blocks.append(f"::: {defining_module}.{value.__name__}")
    return "\n\n".join(blocks)
