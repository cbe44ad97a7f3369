"""How a transform refuses an option's value."""

from __future__ import annotations

from youden.errors import ConfigError


def wanted(value: object, allowed: str, *, fits: bool, option: str) -> None:
    """Raises: ConfigError [transform-option] where an option's value does not fit."""
    if not fits:
        raise ConfigError(
            f"The transform option '{option}' is {value!r}. Give {allowed}.",
            slug="transform-option",
        )
