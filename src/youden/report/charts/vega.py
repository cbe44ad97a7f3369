"""The chart library vl-convert, where it is installed: its script for a page, its pictures for a file."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

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
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # Within a function of its own, or the bundle's short names would be everybody's.
    return f"(() => {{\n{bundle}\n}})();".replace("</script", "<\\/script")


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
