"""Register named objects, which are imported when they are first used.

Other packages add objects by entry points. Built-in names take precedence, so that no package can replace them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoints, distributions, entry_points
from pkgutil import iter_modules
from traceback import extract_tb, walk_tb
from typing import Generic, TypeVar

from youden.errors import ConfigError

T = TypeVar("T")


def locate_exception(error: BaseException) -> str:
    """Return the file and line that raised an exception, for example "file.py, line 3"."""
    frames = extract_tb(error.__traceback__)
    if not frames:
        return "place unknown"
    return f"{frames[-1].filename}, line {frames[-1].lineno}"


def find_plugin(error: BaseException) -> str | None:
    """Find the plugin whose code is in the traceback of an exception.

    Parameters
    ----------
    error : BaseException
        A raised exception.

    Returns
    -------
    str or None
        Top-level package of the plugin; None if no plugin is in the traceback. If there are several, the first in alphabetical
        order.
    """
    plugin_packages = set()
    for distribution in distributions():
        for entry_point in distribution.entry_points:
            if entry_point.group.startswith("youden."):
                plugin_packages.add(entry_point.module.partition(".")[0])

    packages_in_traceback = set()
    for frame, _ in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        packages_in_traceback.add(module.partition(".")[0])

    candidates = (plugin_packages & packages_in_traceback) - {"youden"}
    return min(candidates, default=None)


def find_modules(package: str, folders: Iterable[str]) -> dict[str, str]:
    """Find the modules of a package, without importing them.

    Parameters
    ----------
    package : str
        Name of the package, its `__name__`.
    folders : iterable of str
        Folders of the package, its `__path__`.

    Returns
    -------
    dict of str to str
        Path of each module by the name of what it contains: "fixed-width" for the module `fixed_width`. Subpackages are left
        out.
    """
    modules = [module.name for module in iter_modules(folders) if not module.ispkg]
    return {module.replace("_", "-"): f"{package}.{module}" for module in modules}


def _list_entry_points(group: str) -> EntryPoints:
    """Return the entry points of a group in all installed packages."""
    return _read_entry_points(group, tuple(sys.path))


@lru_cache(maxsize=32)
def _read_entry_points(group: str, search_path: tuple[str, ...]) -> EntryPoints:
    """Read the entry points of a group once per `sys.path` (`search_path`), because reading all packages takes 15 ms."""
    return entry_points(group=group)


class Registry(Generic[T]):
    """Registry of objects by name: built-in ones, and those of an entry-point group.

    Iteration yields all names in alphabetical order.

    Parameters
    ----------
    group : str
        Entry-point group by which other packages add objects.
    kind : str
        Singular noun for an object, such as "design", in messages and slugs.
    built_in : mapping of str to str
        Location "module:attribute" by name.
    """

    def __init__(self, group: str, kind: str, built_in: Mapping[str, str]) -> None:
        self.group = group
        self.kind = kind
        self._built_in = dict(built_in)

    def __iter__(self) -> Iterator[str]:
        external = {point.name for point in _list_entry_points(self.group)}
        return iter(sorted(external | self._built_in.keys()))

    def __contains__(self, name: object) -> bool:
        # Reading the entry points of all installed packages is slow, and not needed for built-in names.
        return name in self._built_in or str(name) in _list_entry_points(self.group).names

    def load(self, name: str) -> T:
        """Import and return the object with a name.

        Parameters
        ----------
        name : str
            Name of a built-in object, or of an entry point.

        Returns
        -------
        object
            The class or function that is registered.

        Raises
        ------
        ConfigError
            [unknown-KIND]: if the name is not registered. [plug-in]: if the object belongs to another package and cannot be
            imported.
        """
        if name in self._built_in:
            module, attribute = self._built_in[name].split(":")
            built_in: T = getattr(import_module(module), attribute)
            return built_in
        point = next(iter(_list_entry_points(self.group).select(name=name)), None)
        if point is None:
            raise self._make_unknown_name_error(name)
        try:
            external: T = point.load()
        except Exception as error:
            raise ConfigError(
                f"The {self.kind} '{name}' of {point.value} cannot be loaded: {type(error).__name__}: {error} "
                f"({locate_exception(error)}). Fix or uninstall that package.",
                slug="plug-in",
            ) from error
        return external

    def check(self, name: str) -> None:
        """Check that a name is registered, without importing the object.

        Parameters
        ----------
        name : str
            Name to check.

        Raises
        ------
        ConfigError
            [unknown-KIND]: if the name is not registered.
        """
        if name not in self:
            raise self._make_unknown_name_error(name)

    def _make_unknown_name_error(self, name: str) -> ConfigError:
        """Return the error that a name is not registered, with the closest name or all names."""
        close_matches = get_close_matches(name, list(self), n=1)
        hint = f"Did you mean '{close_matches[0]}'?" if close_matches else f"Known: {', '.join(self)}."
        kind = self.kind.replace(" ", "-")
        return ConfigError(f"There is no {self.kind} called '{name}'. {hint}", slug=f"unknown-{kind}")
