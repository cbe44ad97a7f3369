"""The chart library vl-convert, where it is installed: its script for a page, its pictures for a file."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from youden.data.atomic import replacing
from youden.errors import ConfigError
from youden.nouns import Json

NEEDED = ("altair", "vl_convert")


def has_charts() -> bool:
    """Whether the extra `report` is installed."""
    return all(find_spec(name) is not None for name in NEEDED)


def need_charts() -> None:
    """Raises: ConfigError [charts-missing] where the extra `report` is not installed."""
    if not has_charts():
        raise ConfigError(
            "Pictures need Altair and vl-convert, which are not installed. Install them with `pip install 'youden[report]'`.",
            slug="charts-missing",
        )


@cache
def script() -> str:
    """Vega, Vega-Lite and vega-embed as one script that sets `window.vegaEmbed`."""
    # Within a function of its own, or the bundle's short names would be everybody's.
    return f"(() => {{\n{_bundle()}\n}})();".replace("</script", "<\\/script")


def _bundle() -> str:
    """Made in more time than most reports, so kept in the user's cache, where that can be written."""
    with suppress(OSError, RuntimeError):
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        kept = home / "youden" / f"vega-{version('vl-convert-python')}.js"
        if not kept.exists():
            with replacing(kept) as fresh:
                fresh.write_text(_make(), encoding="utf-8", newline="\n")
        return kept.read_text(encoding="utf-8")
    return _make()


def _make() -> str:
    import vl_convert

    made: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return made


def svg(spec: dict[str, Json]) -> str:
    """The figure as SVG."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(spec)
    return drawn


def png(spec: dict[str, Json], *, scale: float) -> bytes:
    """The figure as PNG, `scale` pixels to a unit of the specification."""
    import vl_convert

    drawn: bytes = vl_convert.vegalite_to_png(spec, scale=scale)
    return drawn
