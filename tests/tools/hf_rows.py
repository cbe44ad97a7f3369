"""With datasets installed: save rows of several responses, and two data sets of one split."""

from __future__ import annotations

from datasets import Dataset, DatasetDict

ROWS = [("Sing.", ["la", "lo"], ["m", "n"]), ("Dance.", ["hop", "hip"], ["n", "m"])]


def pair(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": "Sing."}, {"role": "assistant", "content": text}]


Dataset.from_list(
    [{"instruction": i, "generations": texts, "generation_models": models} for i, texts, models in ROWS]
).save_to_disk("generations")
Dataset.from_list(
    [
        {"instruction": i, "completions": [{"model": m, "response": t} for m, t in zip(models, texts, strict=True)]}
        for i, texts, models in ROWS
    ]
).save_to_disk("completions")
Dataset.from_list([{"prompt": "Sing.", "prompt_id": "p1", "chosen": pair("la"), "rejected": pair("lo")}]).save_to_disk(
    "pairs"
)
Dataset.from_list([{"key": "i", "gpt": "one", "llama": "two"}]).save_to_disk("wide")
for who in ("one", "two"):
    DatasetDict({"train": Dataset.from_list([{"key": "i", "out": who}])}).save_to_disk(f"of {who}/saved")
