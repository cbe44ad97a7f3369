"""Finds the prompts, configs and datasets that come with the project, a user's own first."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from youden.errors import ConfigError

Kind = Literal["prompts", "configs", "datasets"]

_PACKAGE = Path(__file__).parent


def roots(kind: Kind, *, start: Path | None = None, own: bool = True) -> list[Path]:
    """Folders of this kind that exist, in the order they are searched.

    First, unless `own` is false, `start/<kind>` (default: the current folder), then the checkout this package runs from, then
    what the wheel ships.
    """
    checkout = _PACKAGE.parent.parent
    places = [(start or Path.cwd()) / kind] if own else []
    places.append(_PACKAGE / "_shipped" / kind)
    if (checkout / "pyproject.toml").is_file() and (checkout / "src" / "youden") == _PACKAGE:
        places.insert(-1, checkout / kind)
    return [place for place in places if place.is_dir()]


def find(kind: Kind, name: str, *, start: Path | None = None, own: bool = True) -> Path:
    """The first file or folder `name` under `kind`, a user's own before the project's (`own`: whether theirs are looked at).

    Raises: ConfigError [not-found], listing what there is.
    """
    searched = roots(kind, start=start, own=own)
    for root in searched:
        if (root / name).exists():
            return root / name
    parent = str(Path(name).parent)
    known = sorted({path.name for root in searched for path in (root / parent).glob("*")})
    raise ConfigError(
        f"There is no '{name}' in {kind}/, neither here nor in what the project ships. "
        f"There are: {', '.join(known) or 'none'}. Give one of these names, or a path to a file of your own.",
        slug="not-found",
    )
