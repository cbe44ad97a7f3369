"""Run by an interpreter with lm-eval: one model into three output paths, the last one twice."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lm_eval.__main__ import cli_evaluate

TASK = """task: tiny
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 16}
metric_list: [{metric: exact_match}]
"""

docs = [{"q": f"Tell of {topic}.", "a": topic} for topic in ("rivers", "bridges")]
Path("docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs), encoding="utf-8")
Path("tiny.yaml").write_text(TASK, encoding="utf-8")
for out in ("plain", "adapter", "hot", "hot"):
    words = f"run --model dummy --model_args pretrained=acme/m --tasks tiny --include_path . --output_path {out} --log_samples"
    sys.argv = ["lm_eval", *words.split()]
    cli_evaluate()
