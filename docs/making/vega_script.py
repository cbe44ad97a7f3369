"""Write the script that draws the charts of a report, bundled by vl-convert: `python docs/making/vega_script.py`."""

from __future__ import annotations

import gzip
from pathlib import Path

import vl_convert

CHARTS = Path(__file__).parents[2] / "src" / "youden" / "report" / "charts"

if __name__ == "__main__":
    made = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").encode()
    path = CHARTS / f"vega-{vl_convert.get_vega_version()}.js.gz"
    path.write_bytes(gzip.compress(made, 9, mtime=0))
    print(path)
