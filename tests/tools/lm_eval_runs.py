"""With lm-eval installed: run one model into three output paths, the last one twice, and one with four repeats."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lm_eval.__main__ import cli_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.registry import register_model
from lm_eval.models.dummy import DummyLM

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


@register_model("counting")
class Counting(DummyLM):
    """Model with a new answer to each request."""

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        return [f"answer {n}" for n, _ in enumerate(requests)]


docs = [{"q": f"Tell of {topic}.", "a": topic} for topic in ("rivers", "bridges")]
Path("docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs), encoding="utf-8")
Path("tiny.yaml").write_text(TASK, encoding="utf-8")
Path("often.yaml").write_text(TASK.replace("task: tiny", "task: often") + "repeats: 4\n", encoding="utf-8")
runs = [("dummy", "tiny", out) for out in ("plain", "adapter", "hot", "hot")]
for model, task, out in (*runs, ("counting", "often", "repeated")):
    words = f"run --model {model} --model_args pretrained=acme/m --tasks {task} --include_path . --output_path {out}"
    sys.argv = ["lm_eval", *words.split(), "--log_samples"]
    cli_evaluate()
