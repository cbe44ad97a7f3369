"""Database connections of stores, with which tests change a store behind its back."""

from __future__ import annotations

from typing import Any

from youden.judging.store.answers import Store


def connection_of(store: Store) -> Any:
    """Return the connection of SQLite or psycopg, which have no common type."""
    backend: Any = store.backend
    return backend._connection
