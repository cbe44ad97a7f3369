"""Decide which stores on a network may be opened: those that the user named; a folder's config is not enough.

The module imports nothing else of a store, so that a command line is parsed without loading its libraries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from youden.errors import ConfigError
from youden.text.printable import is_on_network, redact_location

VARIABLE = "YOUDEN_STORE"

_REDIRECTING = {"host", "hostaddr", "passfile", "service", "servicefile"}
"""Parameters of a PostgreSQL URL that may direct it to another server than it shows."""


@dataclass
class _Permission:
    """What the user permits this process to do with stores on a network."""

    allows_all: bool
    """Whether every store may be opened; otherwise only those that the user named."""
    allows_password: bool
    """Whether a store that the user did not name may get the password in PGPASSWORD."""
    named_stores: set[str]
    """Stores that the user named on the command line or in Python code."""

    def is_named(self, address: str | Path) -> bool:
        """Return whether the user named the store, in full or without password and parameters, as in a config."""
        stores = {os.environ.get(VARIABLE, ""), *self.named_stores}
        return str(address) in stores | {redact_location(store) for store in stores}


_permission = _Permission(allows_all=False, allows_password=True, named_stores=set())
"""Permission of the whole process, which the functions of this module read and change."""


@contextmanager
def network_stores_allowed(*, password: bool = True) -> Iterator[None]:
    """Allow opening all stores on a network in the body of the `with` statement, also those that the user did not name.

    A store on a network is a database on a server. The user names a store on the command line, in YOUDEN_STORE or in Python
    code. The address of any other store is in the config of a folder. Another person may have written this config, so the
    store is not opened without permission.

    Parameters
    ----------
    password : bool, default True
        Whether a store that the user did not name may get the password in PGPASSWORD.
    """
    previously_allowed_all = _permission.allows_all
    previously_allowed_password = _permission.allows_password
    _permission.allows_all = True
    _permission.allows_password = password
    try:
        yield
    finally:
        _permission.allows_all = previously_allowed_all
        _permission.allows_password = previously_allowed_password


def allow_store(address: str) -> None:
    """Allow opening a store because the user named it.

    Parameters
    ----------
    address : str
        Path or URL of the store.
    """
    _permission.named_stores.add(address)


def check_store_allowed(address: str | Path) -> None:
    """Check that a command that reads a folder may open the store that the folder's config names.

    A file may be opened. A server may be opened only if the user named it on the command line or in YOUDEN_STORE, or passed
    --open-store, because it would get the user's password (PGPASSWORD, ~/.pgpass) and learn that the folder was read.

    Parameters
    ----------
    address : str or Path
        Path or URL of the store.

    Raises
    ------
    ConfigError
        [store-not-opened] if it may not be opened.
    """
    if not is_on_network(address) or _permission.allows_all or _permission.is_named(address):
        return
    raise ConfigError(
        f"The folder's config names the store {redact_location(address)}. It was not opened, because your "
        "password could be sent to that "
        f"host. If you know the host, add --open-store, or name the store in the variable {VARIABLE}.",
        slug="store-not-opened",
    )


def check_password(address: str) -> None:
    """Check that opening a store sends no password of the user to an unknown host.

    The check applies only in the body of `with network_stores_allowed()`, where stores may be opened that the user did not
    name. A store that the user named passes the check.

    Parameters
    ----------
    address : str
        URL of the store.

    Raises
    ------
    ConfigError
        [store-password] if the user did not name the store, and either the host would get PGPASSWORD without permission, or
        a parameter of the URL may direct the connection to a host that the URL does not show.
    """
    may_be_unnamed = _permission.allows_all  # in the body of `with network_stores_allowed()`
    if not may_be_unnamed or _permission.is_named(address):
        return
    risk = _find_password_risk(address)
    if risk is None:
        return
    raise ConfigError(
        f"Only the config names the store {redact_location(address)}, and {risk}. Nothing was sent. If "
        f"you know the host, name the store by --store or in the variable {VARIABLE}.",
        slug="store-password",
    )


def _find_password_risk(address: str) -> str | None:
    """Return why opening a store could send a password to an unknown host, for an error message; None if it could not."""
    _, _, query = address.partition("?")
    parameters = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
    redirecting_parameters = _REDIRECTING & parameters
    if redirecting_parameters:
        return f"it has the parameter {min(redirecting_parameters)}"

    sends_environment_password = bool(os.environ.get("PGPASSWORD")) and not _has_password(address)
    if sends_environment_password and not _permission.allows_password:
        return "its host would get the password in PGPASSWORD"
    return None


def _has_password(url: str) -> bool:
    """Return whether a URL, scheme://USER:PASSWORD@HOST/…, contains a password."""
    _, _, after_scheme = url.partition("://")
    credentials, _, _ = after_scheme.rpartition("@")
    _, _, password = credentials.partition(":")
    return bool(password)
