"""With `datasets` installed: print the tables of a folder as JSON."""

from __future__ import annotations

import json
import sys

import datasets

datasets.disable_progress_bars()
folder, *tables = sys.argv[1:]
read = {name: datasets.load_dataset(folder, name)["train"].to_list() for name in tables}
print(json.dumps(read))
