"""How a place is named: a path, `sqlite:///path`, `postgresql://…`, or the URL of a kind that another package brings.

YOUDEN_STORE names the place where nobody else does. A password is never shown or kept: a place that is written down without its
password gets it back from YOUDEN_STORE, where that is the same place, or from where its library looks (PGPASSWORD, ~/.pgpass).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from youden.errors import ConfigError
from youden.judging.store.places.contract import Place
from youden.registry import Registry
from youden.text.places import is_file, shown

VARIABLE = "YOUDEN_STORE"

STORES: Registry[Callable[..., Place]] = Registry(
    "youden.stores",
    "store",
    {
        "sqlite": "youden.judging.store.places.sqlite:SqlitePlace",
        "postgresql": "youden.judging.store.places.postgres:PostgresPlace",
        "postgres": "youden.judging.store.places.postgres:PostgresPlace",
    },
)


def open_place(place: str | Path, *, read_only: bool) -> Place:
    """Open it. Raises: ConfigError [store-url], [store-package]; as the kind of place does."""
    text = _with_password(str(place))
    kind = "sqlite" if "://" not in text else text.partition("://")[0]
    if kind not in STORES or (kind == "sqlite" and not is_file(text)):
        raise ConfigError(
            f"There is no store for '{kind}://'. Give a path, sqlite:///path, or the URL of one of: {', '.join(STORES)}.",
            slug="store-url",
        )
    try:
        make = STORES.load(kind)
    except ImportError as error:
        raise ConfigError(
            f"A store at {shown(text)} needs a package that is not there ({error}). "
            "Install it: pip install 'youden[postgres]'.",
            slug="store-package",
        ) from None
    return make(text, read_only=read_only)


def _with_password(place: str) -> str:
    said = os.environ.get(VARIABLE, "")
    return said if said and not is_file(place) and shown(said) == place else place
