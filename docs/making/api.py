"""List the public names of a module for mkdocstrings, by the modules that define them."""

from __future__ import annotations

from importlib import import_module


def table(module: str) -> str:
    """Return a mkdocstrings block for each function and class in the `__all__` of a module."""
    here = import_module(module)
    found = []
    for name in here.__all__:
        thing = getattr(here, name)
        home = getattr(thing, "__module__", None)
        if home is not None and callable(thing):
            found.append(f"::: {home}.{thing.__name__}")
    return "\n\n".join(found)
