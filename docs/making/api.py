"""The public names, for mkdocstrings: those of `youden` and `youden.stats`, from where they are written."""

from __future__ import annotations

from importlib import import_module


def table(module: str) -> str:
    """A mkdocstrings block for each function and class in the module's `__all__`."""
    here = import_module(module)
    found = []
    for name in here.__all__:
        thing = getattr(here, name)
        home = getattr(thing, "__module__", None)
        if home is not None and callable(thing):
            found.append(f"::: {home}.{thing.__name__}")
    return "\n\n".join(found)
