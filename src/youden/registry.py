"""A table of named things that load when first asked for, open to other packages by entry point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import distributions, entry_points
from traceback import extract_tb, walk_tb
from typing import Generic, TypeVar

from youden.errors import ConfigError

T = TypeVar("T")


def place_of(error: BaseException) -> str:
    """`file.py, line 3`: where an exception was raised."""
    frames = extract_tb(error.__traceback__)
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "place unknown"


def plug_in_of(error: BaseException) -> str | None:
    """The package that adds to this one whose code an exception comes through; None where there is none."""
    points = (point for package in distributions() for point in package.entry_points)
    groups = {point.module.partition(".")[0] for point in points if point.group.startswith("youden.")}
    modules = {str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in walk_tb(error.__traceback__)}
    return next(iter(sorted((groups - {"youden"}) & modules)), None)


class Registry(Generic[T]):
    """`name → "module:Attribute"`, plus the entry points of `group`; the project's own names win."""

    def __init__(self, group: str, noun: str, built_in: Mapping[str, str]) -> None:
        self.group = group
        self.noun = noun
        self._built_in = dict(built_in)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._built_in, *(point.name for point in entry_points(group=self.group))}))

    def __contains__(self, name: object) -> bool:
        # The entry points of all that is installed are looked through only for a name that is not the project's own.
        return name in self._built_in or bool(entry_points(group=self.group, name=str(name)))

    def load(self, name: str) -> T:
        """The thing called `name`.

        Raises: ConfigError [unknown-<noun>] for a name nobody registered, [plug-in] where another package's cannot be loaded.
        """
        if name in self._built_in:
            module, attribute = self._built_in[name].split(":")
            found: T = getattr(import_module(module), attribute)
            return found
        for point in entry_points(group=self.group, name=name):
            try:
                outside: T = point.load()
            except Exception as error:
                raise ConfigError(
                    f"The {self.noun} '{name}' of {point.value} cannot be loaded: {type(error).__name__}: {error} "
                    f"({place_of(error)}). Mend that package, or uninstall it.",
                    slug="plug-in",
                ) from error
            return outside
        raise self._unknown(name)

    def check(self, name: str) -> None:
        """Raises: as `load`, without loading anything."""
        if name not in self:
            raise self._unknown(name)

    def _unknown(self, name: str) -> ConfigError:
        close = get_close_matches(name, list(self), n=1)
        hint = f"Did you mean '{close[0]}'?" if close else f"Known: {', '.join(self)}."
        return ConfigError(f"There is no {self.noun} called '{name}'. {hint}", slug=f"unknown-{self.noun}")
