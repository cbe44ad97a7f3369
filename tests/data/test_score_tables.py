"""Tables of scores as they occur: each is read correctly, or refused with the option that resolves it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from youden.data.importers.table_files import read_plain_frame
from youden.data.score_tables import ScoreTable, read_scores
from youden.errors import ConfigError, ImportFormatError

CELLS = {("a", "x"): 0.9, ("a", "y"): 0.5, ("a", "z"): 0.25, ("b", "x"): 0.8, ("b", "y"): 0.75, ("b", "z"): 0.125}
"""Scores of two models on three items, which most tables of the corpus hold."""


def cells_of(table: ScoreTable) -> dict[tuple[str, str], float]:
    cells = {}
    for model, row in zip(table.model_ids, table.score, strict=True):
        for item, score in zip(table.item_ids, row.tolist(), strict=True):
            if not np.isnan(score):
                cells[model, item] = round(score, 6)
    return cells


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_json(folder: Path, name: str, value: Any) -> Path:
    return write(folder, name, json.dumps(value))


def long_csv(folder: Path) -> Path:
    lines = [f"{model},{item},{score}" for (model, item), score in CELLS.items()]
    return write(folder, "long.csv", "\n".join(["model,task,score", *lines]))


def wide_csv(folder: Path) -> Path:
    return write(folder, "wide.csv", "Model,x,y,z\na,.9,.5,.25\nb,.8,.75,.125\n")


def transposed_tsv(folder: Path) -> Path:
    return write(folder, "transposed.tsv", "Task\ta\tb\nx\t.9\t.8\ny\t.5\t.75\nz\t.25\t.125\n")


def shuffled_index(folder: Path) -> Path:
    return write(folder, "index.csv", ",Model,x,y,z\n17,a,.9,.5,.25\n4,b,.8,.75,.125\n")


def index_of_unnamed_rows(folder: Path) -> Path:
    rows = "__index_level_0__,task,a,b\n9,x,.9,.8\n2,y,.5,.75\n5,z,.25,.125\n"
    return write(folder, "index_level.csv", rows)


def index_of_long_rows(folder: Path) -> Path:
    lines = [f"{9 - row},{model},{item},{score}" for row, ((model, item), score) in enumerate(CELLS.items())]
    return write(folder, "long_index.csv", "\n".join(["index,model,task,score", *lines]))


def index_of_each_file(folder: Path) -> list[Path]:
    files = {"a": "0,x,.9\n1,y,.5\n2,z,.25\n", "b": "0,z,.125\n1,x,.8\n2,y,.75\n"}
    return [write(folder, f"{model}.csv", f"index,task,score\n{rows}") for model, rows in files.items()]


def id_of_each_model(folder: Path) -> Path:
    return write(folder, "model_ids.csv", "id,uuid,Model,x,y,z\n17,m-1,a,.9,.5,.25\n4,m-2,b,.8,.75,.125\n")


def id_of_each_row(folder: Path) -> Path:
    lines = [f"log-{row},{model},{item},{score}" for row, ((model, item), score) in enumerate(CELLS.items())]
    return write(folder, "long_ids.csv", "\n".join(["id,model,task,score", *lines]))


def percent_strings(folder: Path) -> Path:
    return write(folder, "percent.csv", "Model,x,y,z\na,90%,50 %,25%\nb,80%,75%,12.5%\n")


def rank_column(folder: Path) -> Path:
    return write(folder, "ranked.csv", "Rank,Model,x,y,z,Params (B)\n1,b,.8,.75,.125,7\n2,a,.9,.5,.25,70\n")


def average_column(folder: Path) -> Path:
    return write(folder, "average.csv", "Model,Average ⬆️,x,y,z\na,.55,.9,.5,.25\nb,.558,.8,.75,.125\n")


def total_row(folder: Path) -> Path:
    return write(folder, "total.csv", "task,a,b\nx,.9,.8\ny,.5,.75\nz,.25,.125\nTotal,1.65,1.675\n")


def average_row_of_long_table(folder: Path) -> Path:
    text = long_csv(folder).read_text(encoding="utf-8")
    return write(folder, "long.csv", f"{text}\na,Average,0.55\nb,Average,0.558\n")


def repeats(folder: Path) -> Path:
    lines = []
    for (model, item), score in CELLS.items():
        lines += [f"{model},{item},1,{score - 0.05}", f"{model},{item},2,{score + 0.05}"]
    return write(folder, "repeats.csv", "\n".join(["model,item,seed,score", *lines]))


def standard_errors(folder: Path) -> Path:
    return write(folder, "se.csv", "Model,x,x_stderr,y,z\na,.9,.01,.5,.25\nb,.8 ± .1,.02,.75,.125\n")


def standard_errors_in_other_forms(folder: Path) -> Path:
    text = "Model,x,±,y,,z,# examples\na,.9 +/- .1,.01,.5 (±.2),.3,.25,140\nb,.8 +- .1,.02,.75,.2,.125,150\n"
    return write(folder, "forms.csv", text)


def facts_of_models(folder: Path) -> Path:
    return write(folder, "facts.csv", "Model,Context,x,y,z\na,128000,.9,.5,.25\nb,200000,.8,.75,.125\n")


def markdown_links(folder: Path) -> Path:
    return write(folder, "links.csv", "Model,x,y,z\n[a](https://e.org/a),.9,.5,.25\n[b](https://e.org/b),.8,.75,.125\n")


def restarting_ids(folder: Path) -> Path:
    lines = ["a,u,1,.9", "a,u,2,.5", "a,v,1,.25", "b,u,1,.8", "b,u,2,.75", "b,v,1,.125"]
    return write(folder, "restarting.csv", "\n".join(["model,subject,doc_id,acc", *lines]))


def json_lines(folder: Path, name: str = "scores.jsonl") -> Path:
    records = [{"model": model, "item": item, "score": score} for (model, item), score in CELLS.items()]
    return write(folder, name, "\n".join(map(json.dumps, records)))


def rows_named_like_a_log(folder: Path) -> Path:
    return json_lines(folder, "samples_own.jsonl")


def parquet(folder: Path) -> Path:
    path = folder / "scores.parquet"
    pd.read_csv(long_csv(folder)).to_parquet(path)
    return path


def excel(folder: Path) -> Path:
    path = folder / "scores.xlsx"
    pd.read_csv(wide_csv(folder)).to_excel(path, index=False)
    return path


def file_per_model(folder: Path) -> list[Path]:
    a = write(folder, "a.csv", "item,score\nx,.9\ny,.5\nz,.25\n")
    return [a, write(folder, "b.csv", "item,score\nx,.8\ny,.75\nz,.125\n")]


def lm_eval_results(folder: Path) -> Path:
    for model in "ab":
        results = {
            item: {"alias": item, "acc,none": score, "acc_stderr,none": 0.01}
            for (name, item), score in CELLS.items()
            if name == model
        }
        results["group"] = {"acc,none": 0.5}
        value = {"results": results, "groups": {"group": {}}, "model_name": model}
        write_json(folder, f"out/{model}/results_2026-01-01T00-00-00.json", value)
    return folder / "out"


def lm_eval_samples(folder: Path) -> Path:
    for model in "ab":
        lines = [
            {"doc_id": item, "filter": "none", "metrics": ["acc"], "acc": score, "doc": {}, "target": 1}
            for (name, item), score in CELLS.items()
            if name == model
        ]
        write(folder, f"out/{model}/samples_t_2026-01-01T00-00-00.jsonl", "\n".join(map(json.dumps, lines)))
        write_json(folder, f"out/{model}/results_2026-01-01T00-00-00.json", {"model_name": model})
    return folder / "out"


def helm(folder: Path) -> Path:
    for model in "ab":
        stats = [
            {"instance_id": item, "train_trial_index": 0, "stats": [{"name": {"name": "exact_match"}, "mean": score}]}
            for (name, item), score in CELLS.items()
            if name == model
        ]
        write_json(folder, f"suite/mmlu:subject=law,model={model}/per_instance_stats.json", stats)
        specification = {"adapter_spec": {"model": model}}
        write_json(folder, f"suite/mmlu:subject=law,model={model}/run_spec.json", specification)
    return folder / "suite"


def mteb_results(folder: Path) -> Path:
    for (model, item), score in CELLS.items():
        write_json(folder, f"results/{model}/1/model_meta.json", {"name": model})
        subsets = [{"hf_subset": "en", "main_score": score - 0.1}, {"hf_subset": "de", "main_score": score + 0.1}]
        write_json(folder, f"results/{model}/1/{item}.json", {"task_name": item, "scores": {"test": subsets}})
    return folder / "results"


def mteb_leaderboard(folder: Path) -> Path:
    header = "Rank (Borda),Model,Zero-shot,Memory Usage (MB),Number of Parameters (B),Embedding Dimensions,Max Tokens"
    rows = ["1,[a](https://e.org),99%,2000,7,4096,512,.55,.55,.9,.5,.25", "2,b,,100,.3,768,512,.558,.558,.8,.75,.125"]
    return write(folder, "mteb.csv", "\n".join([f"{header},Mean (Task),Mean (TaskType),x,y,z", *rows]))


READ: dict[Callable[[Path], Path | list[Path]], dict[tuple[str, str], float]] = {
    long_csv: CELLS,
    wide_csv: CELLS,
    transposed_tsv: CELLS,
    percent_strings: CELLS,
    rank_column: CELLS,
    shuffled_index: CELLS,
    index_of_unnamed_rows: CELLS,
    index_of_long_rows: CELLS,
    id_of_each_row: CELLS,
    index_of_each_file: CELLS,
    id_of_each_model: CELLS,
    average_column: CELLS,
    total_row: CELLS,
    average_row_of_long_table: CELLS,
    repeats: CELLS,
    standard_errors: CELLS,
    standard_errors_in_other_forms: CELLS,
    facts_of_models: CELLS,
    markdown_links: CELLS,
    json_lines: CELLS,
    rows_named_like_a_log: CELLS,
    parquet: CELLS,
    excel: CELLS,
    file_per_model: CELLS,
    lm_eval_results: CELLS,
    mteb_results: CELLS,
    mteb_leaderboard: CELLS,
    lm_eval_samples: {(model, f"t/{item}"): score for (model, item), score in CELLS.items()},
    helm: {(model, f"mmlu:subject=law/{item}"): score for (model, item), score in CELLS.items()},
    restarting_ids: {
        (model, {"x": "u / 1", "y": "u / 2", "z": "v / 1"}[item]): score for (model, item), score in CELLS.items()
    },
}
"""Writes a table → its scores, which are read without an option."""


@pytest.mark.parametrize("make", READ, ids=lambda make: make.__name__)
def test_a_table_of_a_usual_shape_is_read_without_an_option(
    make: Callable[[Path], Path | list[Path]], tmp_path: Path
) -> None:
    table = read_scores(make(tmp_path))
    assert cells_of(table) == READ[make]
    assert (table.low, table.high) == (0, 1)


def test_scores_in_a_file_named_like_results_of_lm_eval_are_refused_with_a_remedy(tmp_path: Path) -> None:
    scores = {"x": {"a": 0.9, "b": 0.8}, "y": {"a": 0.5, "b": 0.75}}
    path = write_json(tmp_path, "results_own.json", {"results": scores})
    with pytest.raises(ImportFormatError, match=r"it has no rows.* or a JSON list of objects"):
        read_scores(path)


REFUSED: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "rows of an unknown kind": ("System X,x,y\na,.9,.5\nb,.8,.75\n", "scores-columns", "--column 'model=System X'", {}),
    "two columns of scores": (
        "model,item,f1,bleu\na,x,.9,.1\nb,x,.8,.2\n",
        "scores-columns",
        "--column score=NAME",
        {},
    ),
    "several metrics in rows": (
        "model,task,metric,value\na,x,acc,.9\na,x,f1,.1\nb,x,acc,.8\nb,x,f1,.2\n",
        "scores-columns",
        "--column item=task+metric",
        {},
    ),
    "a blank metric": (
        "model,task,metric,value\na,x,acc,.9\na,y,,.1\nb,x,acc,.8\nb,y,,.2\n",
        "scores-columns",
        "'acc', 'a blank'",
        {},
    ),
    "several metrics next to a given column of scores": (
        "model,task,metric,value\na,x,acc,.9\na,x,f1,.1\nb,x,acc,.8\nb,x,f1,.2\n",
        "scores-columns",
        "--column item=task+metric",
        {"score": "value"},
    ),
    "an unknown column": (
        "model,item,score\na,x,1\nb,x,0\n",
        "scores-columns",
        "--column model=NAME",
        {"model": "who"},
    ),
    "a typing error in a column": (
        "model,item,score\na,x,1\nb,x,0\n",
        "scores-columns",
        "there is no column 'modle'. Did you mean 'model'? There are: model, item, score. Set --column model=NAME.",
        {"model": "modle"},
    ),
    "a text among scores": ("model,x,y\na,.9,.5\nb,good,.7\nc,.1,.2\n", "scores-value", "leave the cell empty", {}),
    "some percent signs": ("model,x,y\na,90%,.5\nb,.8,.7\n", "scores-percent", "in the same way", {}),
    "two scales": ("model,x,y\na,.9,50\nb,.8,75\n", "scores-scale", "--range LOW,HIGH", {}),
    "a formula": ("model,x,y\n=1+1,.9,.5\nb,.8,.75\n", "scores-id", "Set another name", {}),
    "a terminal escape": ("model,x,y\na\x1b[2J,.9,.5\nb,.8,.75\n", "scores-id", "Remove it", {}),
    "a blank label": ("task,a,b\nx,.9,.5\n,.8,.75\n", "scores-id", "Fill in the cell", {}),
    "yes and no among scores up to 100": (
        "model,x,y,open\na,90,50,yes\nb,80,75,no\n",
        "scores-scale",
        "--column ignore=open",
        {},
    ),
    "an Elo rating with fractions": (
        "model,acc,elo\na,.9,1250\nb,.8,1180\n",
        "scores-scale",
        "got 0.8 to 0.9 for 'acc' and 1180 to 1250 for 'elo'. Keep scores of one unit",
        {},
    ),
    "an Elo rating with percentages": ("model,acc,elo\na,90,1250\nb,80,1180\n", "scores-scale", "ignore=NAME", {}),
    "grades up to 10 with fractions": ("model,acc,grade\na,.9,8.9\nb,.8,7\n", "scores-scale", "ignore=NAME", {}),
    "grades up to 10 with percentages": ("model,a,grade\na,90,8.9\nb,80,7\n", "scores-scale", "ignore=NAME", {}),
    "an Elo rating in a long table": (
        "model,task,score\na,acc,.9\na,elo,1250\nb,acc,.8\nb,elo,1180\n",
        "scores-scale",
        "set --range LOW,HIGH",
        {},
    ),
    "an Elo rating as a row": ("task,a,b\nacc,.9,.8\nelo,1250,1180\n", "scores-scale", "--column score=NAME,NAME", {}),
    "several columns of models": ("Model,model,x,y\na,c,1,0\nb,d,0,1\n", "scores-columns", "--column model=NAME", {}),
    "a comma before three digits": (
        'model,x,y\na,"1,287",5\nb,"1,301",7\n',
        "scores-value",
        "Write 1287 or 1.287.",
        {},
    ),
    "a comma before three digits and an error": (
        'model,x,y\na,"1,234 ± 5","1,250±6"\nb,987 ± 6,950 ± 4\n',
        "scores-value",
        "Write 1234 or 1.234.",
        {},
    ),
    "ranks as a row": ("task,a,b,c\nx,.9,.8,.7\ny,.5,.6,.4\nRank,1,2,3\n", "scores-scale", "1 to 3 for 'Rank'", {}),
    "counts beside fractions": ("Model,Wins,x,y\na,2,.9,.5\nb,1,.8,.6\nc,0,.7,.4\n", "scores-scale", "ignore=NAME", {}),
    "cells in another form": ("model,x,y\na,.9 [.8],.5 [.4]\nb,.8 [.7],.7 [.6]\n", "scores-columns", "0.81 ± 0.02", {}),
    "grades up to 10 with fractions, and the lowest grade 1": (
        "model,acc,f1,grade\na,.85,.6,1\nb,.7,.45,6\nc,.5,.3,10\n",
        "scores-scale",
        "got 0.5 to 0.85 for 'acc' and 1 to 10 for 'grade'",
        {},
    ),
    "grades up to 5 with fractions, and the grade 0": (
        "task,a,b,c\nacc,.85,.7,.5\ngrade,0,3.5,5\n",
        "scores-scale",
        "--range LOW,HIGH",
        {},
    ),
    "an Elo rating of 0": ("model,acc,elo\na,90.4,0\nb,80,900\nc,70,950\n", "scores-scale", "ignore=NAME", {}),
    "fractions of one model and percentages of others": (
        "model,x,y,z\ngood,.85,.82,.9\nmid,.7,.72,.66\nweak,50,48,52\n",
        "scores-scale",
        "got 0.82 to 0.9 for 'good' and 48 to 52 for 'weak'. Convert the scores of all models to one unit",
        {},
    ),
    "fractions of one model in a column": (
        "task,a,b\nx,.8512,60.1\ny,.7,55.3\nz,.9,65\n",
        "scores-scale",
        "Convert the scores",
        {},
    ),
    "0 and 1 of one model, and 0 and 100 of another": (
        "model,item,score\na,x,1\na,y,0\na,z,1\nb,x,100\nb,y,0\nb,z,0\n",
        "scores-scale",
        "Convert the scores",
        {},
    ),
    "words of one model, and 0 and 100 of another": (
        "model,item,score\na,x,correct\na,y,incorrect\nb,x,100\nb,y,0\n",
        "scores-scale",
        "got 'correct', 'incorrect'. Write numbers of one unit",
        {},
    ),
    "words and numbers in one column": (
        "model,x,y\na,yes,60\nb,80,70\n",
        "scores-scale",
        "--column ignore=x",
        {},
    ),
    "a metric that is a loss": (
        "model,dataset,metric,value\na,x,WER,.1\na,y,WER,.2\nb,x,WER,.3\nb,y,WER,.4\n",
        "scores-direction",
        "for a metric in the column 'metric', and an audit ranks the highest first: got 'WER'. Leave out its rows, or subtract",
        {},
    ),
    "a metric of a wide table that is a loss": (
        "model,metric,x,y\na,wer,.1,.2\nb,wer,.3,.4\n",
        "scores-direction",
        "--column score=NAME",
        {},
    ),
    "a loss as an item of a long table": (
        "model,item,score\na,accuracy,.9\na,perplexity,.5\nb,accuracy,.8\nb,perplexity,.25\n",
        "scores-direction",
        "on an item, and an audit ranks the highest first: got 'perplexity'. Leave out its rows, or subtract it from",
        {},
    ),
    "losses as rows": ("item,a,b\nWER,.1,.3\nCER,.05,.2\n", "scores-direction", "--column score=NAME", {}),
    "a loss as a part of an item": (
        "model,task,metric,value\na,x,acc,.9\na,x,wer,.1\nb,x,acc,.8\nb,x,wer,.2\n",
        "scores-direction",
        "got 'x / wer'",
        {"item": "task+metric"},
    ),
    "numbers as models": ("model,x,y\n1,.9,.5\n2,.8,.7\n", "scores-columns", "Set --column model=model", {}),
    "numbers as models of a long table": (
        "model,item,acc\n1,x,.9\n1,y,.5\n2,x,.8\n2,y,.7\n",
        "scores-columns",
        "Set --column model=model",
        {},
    ),
    "equal scores": (
        "model,x,y\na,500,500\nb,500,500\n",
        "scores-bounds",
        "all scores are equal, so their range is unknown: got 500",
        {},
    ),
    "one model": ("model,x,y\na,.9,.5\n", "scores-size", "--column", {}),
    "the scores of one model": (
        "item,score\nx,.9\ny,.8\n",
        "scores-columns",
        "it has the scores of one model: got one column of scores, 'score', and no column of models. Pass one file per model",
        {},
    ),
    "long names of columns": (
        "Name,ARC challenge,HellaSwag 10-shot,TruthfulQA mc2,Winogrande 5-shot\na,.9,.5,.1,.2\nb,.8,.75,.3,.4\n",
        "scores-columns",
        "'TruthfulQA mc2', 'Winogrande 5-shot'. Set",
        {},
    ),
    "one column of items": ("model,x\na,.9\nb,.8\n", "scores-columns", "--column", {}),
}
"""Content of a CSV file, slug of the error, part of its remedy, and columns that the user set."""


@pytest.mark.parametrize("name", REFUSED)
def test_an_ambiguous_table_is_refused_with_the_option_that_resolves_it(name: str, tmp_path: Path) -> None:
    text, slug, remedy, columns = REFUSED[name]
    with pytest.raises(ImportFormatError) as caught:
        read_scores(write(tmp_path, "table.csv", text), columns=columns)
    assert caught.value.slug == slug
    assert remedy in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_the_options_that_errors_name_resolve_them(tmp_path: Path) -> None:
    unknown = write(tmp_path, "unknown.csv", "System X,x,y\na,.9,.5\nb,.8,.75\n")
    by_model = read_scores(unknown, columns={"model": "System X"})
    by_item = read_scores(unknown, columns={"item": "System X"})
    assert by_model.model_ids == by_item.item_ids == ("a", "b")

    two = write(tmp_path, "two.csv", "model,item,f1,bleu\na,x,.9,.1\nb,x,.8,.2\na,y,,.3\nb,y,.6,.4\n")
    assert cells_of(read_scores(two, columns={"score": "bleu"}))["a", "y"] == 0.3
    assert cells_of(read_scores(two, columns={"ignore": "f1"}))["a", "x"] == 0.1
    assert cells_of(read_scores(two, columns={"score": "f1,bleu"}))["a", "y"] == 0.3  # the first that has a value

    scales = write(tmp_path, "scales.csv", "model,x,y\na,.9,50\nb,.8,75\n")
    assert read_scores(scales, score_range=(0, 100)).high == 100
    metrics = write(tmp_path, "m.csv", "model,task,metric,value\na,x,acc,.9\na,x,f1,.1\nb,x,acc,.8\nb,x,f1,.2\n")
    assert read_scores(metrics, columns={"item": "task+metric"}).item_ids == ("x / acc", "x / f1")
    totals = write(tmp_path, "totals.csv", "model,x,Overall\na,.9,.5\nb,.8,.7\n")
    assert read_scores(totals, columns={"score": "x,Overall"}).score.shape == (2, 1 + 1)


ACCEPTED = {
    "grades up to 100 and a model near 0": "model,x,y,z\na,90,75,80\nb,60,70,66\nc,0,1,0\n",
    "a model near 0 with one decimal": "model,x,y,z\na,90.5,75.1,80.3\nb,40.2,33,36.1\nc,.5,.9,.7\n",
    "a model near 0 with a half point": "model,x,y,z\na,90,75,80\nb,60,70,66\nc,.5,0,.2\n",
    "a model near 0 that has a higher score": "model,x,y,z\na,90,75,80\nb,60,70,66\nc,.85,.9,1.25\n",
    "a model that fails all items": "model,x,y,z\na,1,1,0\nb,1,0,1\nc,0,0,0\n",
    "a model that fails all items up to 100": "model,x,y,z\na,100,100,0\nb,100,0,100\nc,0,0,0\n",
    "the lowest grade": "model,x,y,z\na,9,10,8\nb,7,8,9\nc,1,1,1\n",
    "half points and a hard item": "model,easy,hard\na,9.5,1\nb,8,.5\nc,0,0\n",
    "failed tasks of a table of grades": "model,x,y\na,fail,60\nb,80,70\n",
    "words and a total of counts": "item,a,b\nx,yes,no\ny,yes,yes\nTotal,2,1\n",
    "binary scores of an item named like a loss": "model,item,score\na,loss,1\na,y,0\nb,loss,0\nb,y,1\n",
    "an item that is no loss": "model,item,score\na,weight loss,.9\na,y,.1\nb,weight loss,.5\nb,y,.2\n",
}
"""Content of CSV files that look similar to refused ones, and are read."""


@pytest.mark.parametrize("name", ACCEPTED)
def test_tables_that_resemble_refused_ones_are_read(name: str, tmp_path: Path) -> None:
    table = read_scores(write(tmp_path, "table.csv", ACCEPTED[name]))
    assert len(table.model_ids) > 1
    assert not np.isnan(table.score).any()


def test_scores_of_one_model_that_may_have_another_unit_are_noted(tmp_path: Path) -> None:
    text = ACCEPTED["a model near 0 with one decimal"]
    note = (
        "the scores of 'c' are at most 1, and other models have scores up to 90.5: convert them if their units differ"
    )
    assert note in read_scores(write(tmp_path, "t.csv", text)).notes
    assert note not in read_scores(write(tmp_path, "t.csv", text), score_range=(0, 100)).notes
    zeros = read_scores(write(tmp_path, "t.csv", ACCEPTED["a model that fails all items up to 100"])).notes
    assert not any("units" in line for line in zeros)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("model,x,y\na,45.2%,60\nb,40.1%,77\n", "scores-percent"),
        ("model,x,y\na,45.2 ± 1.2%,60\nb,40.1%,77\n", "scores-percent"),
        ("model,x,y\na,45.2%,.6\nb,40.1%,.77\n", "scores-percent"),
        ("model,x,y\na,45.2%,60%\nb,40.1%,77%\n", "scores-percent"),
        ("model,x,y\na,yes,60\nb,no,77\n", "scores-scale"),
    ],
)
def test_percent_signs_and_words_do_not_fit_a_range_up_to_100(text: str, slug: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFormatError, match=slug):
        read_scores(write(tmp_path, "t.csv", text), score_range=(0, 100))


def test_truth_values_among_numbers_are_words() -> None:
    mixed = pd.DataFrame({"model": ["a", "b"], "x": pd.Series([True, 50], dtype=object), "y": [60, 70]})
    with pytest.raises(ImportFormatError, match=r"'x' has words.*got 'True'.*scores-scale"):
        read_scores(mixed)


def test_percent_signs_fit_a_range_of_fractions(tmp_path: Path) -> None:
    assert read_scores(percent_strings(tmp_path), score_range=(0, 1)).high == 1
    above_100 = write(tmp_path, "t.csv", "model,x,y\na,150%,60%\nb,40%,77%\n")
    assert cells_of(read_scores(above_100, score_range=(0, 2)))["a", "x"] == 1.5


def test_a_loss_that_is_named_by_a_cell_is_read_if_the_column_of_scores_is_named(tmp_path: Path) -> None:
    long = write(tmp_path, "t.csv", "model,item,metric,score\na,x,wer,.1\na,CER,wer,.2\nb,x,wer,.3\nb,CER,wer,.4\n")
    notes = read_scores(long, columns={"score": "score"}).notes
    for loss in ("wer", "CER"):
        assert f"the highest values of {loss!r} rank first, although lower ones seem to be better" in notes


@pytest.mark.parametrize("columns", [{}, {"score": "Measure"}])
def test_a_column_of_scores_may_have_the_name_of_a_column_of_metrics(columns: dict[str, str], tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "model,item,Measure\na,x,.9\na,y,.5\nb,x,.8\nb,y,.75\n")
    assert read_scores(path, columns=columns).score.tolist() == [[0.9, 0.5], [0.8, 0.75]]


def test_a_repeated_header_is_left_out(tmp_path: Path) -> None:
    for end, model_ids in (("", ("a", "b")), ("d,.3,.2,.1\n", ("a", "b", "d"))):
        header = "model,x,y,z\n"
        rows = "a,.9,.5,.25\nb,.8,.75,.125\n"
        table = read_scores(write(tmp_path, "t.csv", f"{header}{rows}{header}{end}"))
        assert table.model_ids == model_ids
        assert "1 repeated header not read" in table.notes


def test_scores_that_are_too_large_to_be_squared_are_refused() -> None:
    table = pd.DataFrame({"item": ["a", "b"], "m1": [1e300, 2.0], "m2": [-1e300, 3.0]})
    with pytest.raises(ImportFormatError, match="too large to be squared: got a range of -1e\\+300 to 1e\\+300"):
        read_scores(table)


def test_a_role_that_does_not_exist_and_a_range_that_is_too_small_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="scores-role"):
        read_scores(wide_csv(tmp_path), columns={"agent": "Model"})
    with pytest.raises(ImportFormatError, match="scores-bounds"):
        read_scores(wide_csv(tmp_path), score_range=(0, 0.5))
    for score_range in ((0, float("inf")), (5, 1), (float("nan"), 1)):
        with pytest.raises(ConfigError, match="scores-range"):
            read_scores(wide_csv(tmp_path), score_range=score_range)


def test_missing_cells_and_repeats_are_noted(tmp_path: Path) -> None:
    table = read_scores(
        write(tmp_path, "t.csv", "model,item,score\na,x,1\na,x,0\na,y,N/A\nb,x,1\nb,y,0\na,z,–\nb,z,1\n")
    )
    assert cells_of(table) == {("a", "x"): 0.5, ("b", "x"): 1, ("b", "y"): 0, ("b", "z"): 1}
    assert "1 cell has several scores (up to 2), which are averaged" in table.notes


def test_conversions_of_values_to_numbers_are_noted(tmp_path: Path) -> None:
    text = "model;x;y;z;w\na;90%;yes;0,5;.5 ± .1\nb;80 %;no;0,25;.75\n"
    table = read_scores(write(tmp_path, "t.csv", text))
    assert cells_of(table)["a", "z"] == 0.5
    assert {
        "percentages divided by 100: 'x'",
        "words such as yes and true read as 1, no and false as 0, tie as 0.5: 'y'",
        "decimal commas read as points: 'z'",
        "values after ± not used: 'w'",
    } <= set(table.notes)
    all_percent = read_scores(percent_strings(tmp_path))
    assert "percentages divided by 100: all columns of scores" in all_percent.notes
    with_comma = read_scores(write(tmp_path, "u.csv", "model;x;y\na;90,5%;70 %\nb;80,25 %;60 %\n"))
    assert cells_of(with_comma)["b", "x"] == 0.8025
    assert not any("divided" in note or "words" in note for note in read_scores(wide_csv(tmp_path)).notes)


@pytest.mark.parametrize(
    "text",
    [
        "model,item,score\na,x,1\n\nb,x,0\na,y,.5\n,,\nb,y,text\n",
        '"model","item","score"\n"a","x",1\n"a\nb","x",0\n"a","y","text"\n"a\nb","y",1\n',
        "A title\nmodel,item,score\na,x,1\na,y,0\nb,x,1\nb,y,text\n",
        "model,item,score\na,x,1\nb,x,0\na,y,1\nTotal,,text\n",
        "model,item,score\n,,text\na,x,1\nb,x,0\na,y,1\nb,y,0\n",
    ],
)
def test_the_line_of_a_bad_score_is_stated(text: str, tmp_path: Path) -> None:
    line = 1 + text[: text.index("text")].count("\n")
    with pytest.raises(ImportFormatError, match=rf"t.csv, line {line}: score is not a finite number: got 'text'"):
        read_scores(write(tmp_path, "t.csv", text))


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_line_ends_and_encodings_do_not_change_a_table(end: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(end.join(["modèle,x,y,z", "a,.9,.5,.25", "b,.8,.75,.125", ""]).encode(encoding))
    assert cells_of(read_scores(path, columns={"model": "modèle"})) == CELLS


def test_a_plain_table_is_read_as_by_the_reader_of_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((30, 6)).round(3), columns=[f"i{k}" for k in range(6)])
    frame.insert(0, "Model", [f"m{k:03}" for k in range(30)])
    path = tmp_path / "t.csv"
    frame.mask(frame.map(lambda value: value < 0.2 if isinstance(value, float) else False)).to_csv(path, index=False)
    assert read_plain_frame(path, lambda *_: None) is not None
    fast = read_scores(path)
    slow = read_scores(write(tmp_path, "u.csv", f"\n{path.read_text(encoding='utf-8')}"))
    assert (fast.model_ids, fast.item_ids, fast.notes) == (slow.model_ids, slow.item_ids, slow.notes)
    np.testing.assert_array_equal(fast.score, slow.score)


def test_left_out_columns_and_totals_are_noted(tmp_path: Path) -> None:
    notes = " | ".join(read_scores(mteb_leaderboard(tmp_path)).notes)
    for name in ("Rank (Borda)", "Memory Usage (MB)", "Mean (Task)", "Mean (TaskType)", "Max Tokens"):
        assert name in notes
    assert "averages or other statistics not used: Total" in read_scores(total_row(tmp_path)).notes


@pytest.mark.parametrize("name", ["Durchschnitt", "Gesamt", "Moyenne générale", "平均", "Overall"])
def test_averages_are_recognized_by_name_in_several_languages(name: str) -> None:
    frame = pd.DataFrame({"model": ["a", "b"], "x": [0.9, 0.8], "y": [0.5, 0.75], name: [0.1, 0.2]})
    assert read_scores(frame).item_ids == ("x", "y")


@pytest.mark.parametrize(
    ("name", "aggregate"),
    [
        ("All models", np.mean),
        ("Σ", np.sum),
        ("Column Ø", np.mean),
        ("∑", np.sum),
        ("Best", np.max),
        ("best model", np.max),
        ("Lowest", np.min),
    ],
)
def test_a_row_that_summarizes_all_other_rows_is_neither_a_model_nor_an_item(
    name: str, aggregate: Callable[..., Any]
) -> None:
    scores = np.random.default_rng(5).uniform(20, 90, (6, 4)).round(1)
    frame = pd.DataFrame(np.vstack([scores, aggregate(scores, axis=0).round(1)]), columns=list("wxyz"))
    frame.insert(0, "model", [*(f"m{k}" for k in range(6)), name])
    long = frame.melt("model", var_name="item", value_name="score")
    for table in (frame, long, frame.rename(columns={"model": "task"}), pd.concat([frame.tail(1), frame.head(6)])):
        read = read_scores(table)
        assert len(read.model_ids) * len(read.item_ids) == 24
        assert read.high == 100
        assert f"averages or other statistics not used: {name}" in read.notes


def test_rows_named_like_a_summary_that_do_not_summarize_are_models(tmp_path: Path) -> None:
    text = "model,x,y,z\nbase,.5,.25,.75\nlast,.6,.5,.5\nbest,.7,.5,.8\nmin-1b,.1,.2,.3\n"
    assert read_scores(write(tmp_path, "t.csv", text)).model_ids == ("base", "last", "best", "min-1b")


NUMBERS_REMEDY = "(--column score=A,B reads the columns A and B as scores)"


@pytest.mark.parametrize("name", ["Schnitt", "Gesamtwertung", "Note finale", "平均点", "Ø"])
@pytest.mark.parametrize(
    ("low", "high", "decimals"), [(20, 90, 1), (20, 90, 4), (0.3, 0.75, 2), (0.5, 0.8, 3)], ids=str
)
def test_a_column_that_averages_the_others_is_not_an_item(name: str, low: float, high: float, decimals: int) -> None:
    scores = np.random.default_rng(5).uniform(low, high, (6, 4))
    frame = pd.DataFrame(scores.round(2), columns=list("wxyz"))
    frame.insert(0, "model", [f"m{k}" for k in range(6)])
    frame[name] = scores.mean(axis=1).round(decimals)
    table = read_scores(frame)
    assert table.item_ids == ("w", "x", "y", "z")
    assert f"columns not used: {name} {NUMBERS_REMEDY}" in table.notes


def test_coarse_scores_that_equal_the_mean_of_others_by_chance_are_items() -> None:
    tenths = pd.DataFrame({"model": ["a", "b", "c"], "x": [0.1, 0.5, 0.9], "y": [0.3, 0.5, 0.7], "z": [0.2, 0.5, 0.8]})
    assert read_scores(tenths).item_ids == ("x", "y", "z")
    grades = pd.DataFrame({"model": ["a", "b", "c"], "x": [1, 3, 2], "y": [3, 5, 4], "z": [1, 5, 3]})
    assert read_scores(grades).model_ids == ("a", "b", "c")
    two_values = pd.DataFrame({"model": list("abcd"), "x": [0, 1, 0, 1], "y": [0, 1, 0, 1], "z": [0, 1, 0, 1]})
    assert read_scores(two_values).item_ids == ("x", "y", "z")


def test_a_column_of_sums_is_not_an_item_and_similar_columns_are() -> None:
    passed = np.random.default_rng(6).integers(0, 2, (12, 5))
    frame = pd.DataFrame(passed, columns=list("vwxyz"))
    frame.insert(0, "model", [f"m{k}" for k in range(12)])
    assert read_scores(frame.assign(Punkte=passed.sum(axis=1))).item_ids == ("v", "w", "x", "y", "z")
    near = passed.sum(axis=1)
    near[3] += 1
    assert read_scores(frame.assign(Punkte=near)).item_ids == ("v", "w", "x", "y", "z", "Punkte")


def test_percent_signs_in_some_columns_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "t.csv", "model,x,y,z\na,35.6%,40.1,50\nb,40.2%,41.5,60\n")
    with pytest.raises(ImportFormatError, match=r"such as 'x', have percent signs, but others, such as 'y', have none"):
        read_scores(path)


def test_a_column_of_models_is_preferred_to_one_of_providers_and_texts_are_noted(tmp_path: Path) -> None:
    text = "Provider,Model,License,MMLU,GSM8K,old\np,a,MIT,.9,.5,.2*\nq,b,MIT,.8,.7,.3*\n"
    table = read_scores(write(tmp_path, "t.csv", text))
    assert (table.model_ids, table.item_ids) == (("a", "b"), ("MMLU", "GSM8K"))
    assert "columns not used: Provider, License, old" in table.notes


def test_numbers_of_the_open_llm_leaderboard_that_are_no_scores_are_left_out(tmp_path: Path) -> None:
    text = "Model,x,y,#Params (B),CO₂ cost (kg),Hub ❤️\na,.9,.5,7,1.5,12\nb,.8,.7,70,3.5,99\n"
    assert read_scores(write(tmp_path, "t.csv", text)).item_ids == ("x", "y")


@pytest.mark.parametrize("name", ["Weight", "Speed (tok/s)", "Tokens", "Latency (ms)", "runtime_s", "Context (k)"])
def test_weights_speeds_and_lengths_are_neither_models_nor_items(name: str) -> None:
    for role in ("model", "task"):
        frame = pd.DataFrame({role: ["r", "s", "t"], name: [0.2, 0.5, 0.3], "a": [0.5, 0.4, 0.1], "b": [0.6, 0.6, 0.2]})
        table = read_scores(frame)
        assert name not in (*table.model_ids, *table.item_ids)
        assert f"columns not used: {name} {NUMBERS_REMEDY}" in table.notes


@pytest.mark.parametrize("name", ["date", "version", "n", "seed", "run_id"])
def test_a_model_named_like_metadata_is_read_if_its_values_are_like_scores(name: str) -> None:
    fractions = pd.DataFrame({"item": list("rst"), name: [0.2, 0.9, 0.3], "a": [0.5, 0.4, 0.1], "b": [0.6, 0.6, 0.2]})
    assert read_scores(fractions).model_ids == (name, "a", "b")
    for values in ([2, 1, 3], [2021.5, 2022.5, 2023.5], [1, 1, 1]):
        table = read_scores(fractions.assign(**{name: values}))
        assert table.model_ids == ("a", "b")
        assert f"columns not used: {name} {NUMBERS_REMEDY}" in table.notes


@pytest.mark.parametrize(("name", "is_model"), [("date", True), ("version", True), ("seed", False), ("trial", False)])
def test_passes_of_a_model_named_like_metadata_are_read_unless_they_may_be_repeats(name: str, is_model: bool) -> None:
    passes = pd.DataFrame({"item": list("rst"), "a": [1, 0, 1], "b": [0, 0, 1], name: [1, 1, 0]})
    assert read_scores(passes).model_ids == (("a", "b", name) if is_model else ("a", "b"))


@pytest.mark.parametrize("name", ["context_recall", "TimeDial", "time_series", "weight_loss_questions"])
def test_tasks_whose_names_resemble_those_of_other_numbers_are_items(name: str) -> None:
    frame = pd.DataFrame({"model": ["r", "s", "t"], name: [0.2, 0.5, 0.3], "a": [0.5, 0.4, 0.1]})
    table = read_scores(frame)
    assert table.item_ids == (name, "a")
    assert f"rows are models (model); items: '{name}', 'a'" in table.notes


@pytest.mark.parametrize("name", ["FID (↓)", "delay ⬇️", "x (lower is better)", "ECE", "FID", "PPL WikiText", "FPR"])
def test_a_column_that_is_named_like_a_loss_or_marked_as_one_is_refused(name: str) -> None:
    frame = pd.DataFrame({"model": ["r", "s"], "x ↑": [0.2, 0.5], "y": [0.5, 0.4], name: [0.6, 0.7]})
    with pytest.raises(ImportFormatError, match=r"\[scores-direction\]"):
        read_scores(frame)


@pytest.mark.parametrize(
    "name", ["Hallucination rate (%)", "FID ↓", "calibration error", "WER test-clean", "lower better: time"]
)
@pytest.mark.parametrize("form", ["rows are models", "rows are items", "long"])
@pytest.mark.parametrize("highest", [1, 100])
def test_the_remedy_for_a_loss_gives_a_readable_table(name: str, form: str, highest: int) -> None:
    frame = pd.DataFrame(
        {"model": ["r", "s", "t"], "x": [0.42, 0.76, 0.5], "y": [0.6, 0.4, 0.7], name: [0.13, 0.31, 0.2]}
    )
    frame[["x", "y", name]] *= highest

    def arrange(table: pd.DataFrame) -> pd.DataFrame:
        if form == "rows are items":
            return table.set_index("model").T.rename_axis("task")
        return table.melt("model", var_name="task", value_name="value") if form == "long" else table

    with pytest.raises(ImportFormatError) as refusal:
        read_scores(arrange(frame))
    remedy = re.search(
        r"subtract it from its highest possible value and rename it, such as '(.*?)'", str(refusal.value)
    )
    assert remedy is not None
    assert remedy[1].startswith(f"{highest} - ")
    frame[name] = highest - frame[name]
    table = read_scores(arrange(frame.rename(columns={name: remedy[1]})))
    assert (table.item_ids[2], table.high) == (remedy[1], highest)


def test_no_highest_value_is_proposed_for_a_loss_above_100() -> None:
    frame = pd.DataFrame({"model": ["r", "s"], "x": [20.0, 50], "perplexity": [131.0, 250]})
    with pytest.raises(ImportFormatError, match=r"got 'perplexity'\. Leave the column out") as refusal:
        read_scores(frame)
    assert "subtract" not in str(refusal.value)


def test_a_negative_number_that_may_mean_missing_is_noted() -> None:
    frame = pd.DataFrame({"model": ["r", "s"], "x": [0.2, -1], "y": [-1, 0.4], "z": [0.1, 0.3]})
    note = "the only negative score is -1, 2 times: if it stands for a missing score, leave the cell empty"
    assert note in read_scores(frame).notes
    assert note.replace("-1", "-99") in read_scores(frame.replace(-1, -99)).notes
    outcomes = pd.DataFrame({"model": ["r", "s"], "x": [1, -1], "y": [-1, 0]})
    assert not any("negative" in note for note in read_scores(outcomes).notes)


@pytest.mark.parametrize(("unit", "diagonal"), [(1, np.nan), (1, 0.5), (100, 50)])
def test_a_matrix_of_win_rates_is_refused(unit: float, diagonal: float) -> None:
    rates = np.array([[np.nan, 0.6, 0.7], [0.4, np.nan, 0.55], [0.3, 0.45, np.nan]]) * unit
    np.fill_diagonal(rates, diagonal)
    frame = pd.DataFrame(rates, columns=list("cab")[::-1], index=pd.Index(list("bac"), name="model"))
    with pytest.raises(ImportFormatError, match=r"win rates of pairs .*\[scores-pairs\]"):
        read_scores(frame)
    peer_scores = pd.DataFrame([[0.9, 0.5, 0.4], [0.8, 0.7, 0.2], [0.3, 0.9, 0.6]], columns=list("abc"))
    assert read_scores(peer_scores.assign(model=list("abc"))).item_ids == ("a", "b", "c")


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportFormatError, match="import-empty"):
        read_scores(write(tmp_path, "t.json", "[]"))


def test_a_column_may_be_ignored_twice(tmp_path: Path) -> None:
    assert read_scores(wide_csv(tmp_path), columns={"ignore": "x,x"}).item_ids == ("y", "z")


def test_what_a_file_reader_changed_is_noted(tmp_path: Path) -> None:
    infinite = write(tmp_path, "t.json", '[{"model":"a","x":Infinity,"y":1},{"model":"b","x":1,"y":0.5}]')
    assert "1 number was NaN or infinite and is read as empty" in " ".join(read_scores(infinite).notes)
    twice = write(tmp_path, "t.csv", "model,x,x\na,1,0\nb,0,1\n")
    table = read_scores(twice)
    assert table.item_ids == ("x", "x (3)")
    assert "several columns have the name 'x': their position is added to it, as in 'name (3)'" in table.notes


@pytest.mark.parametrize("value", [10**400, float("inf"), -(10**400)])
def test_a_number_that_is_not_finite_is_refused(value: float, tmp_path: Path) -> None:
    frame = pd.DataFrame({"model": ["a", "b", "c"], "x": [1, 0, 1], "y": pd.Series([0, 1, value], dtype=object)})
    with pytest.raises(ImportFormatError, match=r"table, row 3: y is not a finite number: got .*inf"):
        read_scores(frame)


@pytest.mark.parametrize("value", ["oops", 1.7e308])
def test_values_that_are_no_scores_give_no_numpy_warnings(value: object) -> None:
    column = [0, value, value, 0.5]
    frame = pd.DataFrame({"model": list("abcd"), "x": column, "y": column, "z": column})
    with pytest.raises(ImportFormatError):
        read_scores(frame)


def test_dates_are_no_scores() -> None:
    dates = pd.to_datetime(["2020-01-01", "2021-01-01"])
    frame = pd.DataFrame({"model": pd.Categorical(["a", "b"]), "x": [0.5, 1], "y": [True, False], "created": dates})
    assert read_scores(frame).item_ids == ("x", "y")


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportFormatError, match=r"there is no table in this folder.*import-empty"):
        read_scores(tmp_path)
    with pytest.raises(ImportFormatError, match=r"got '.gz'. Convert it to one of: .csv.*import-format"):
        read_scores(write(tmp_path, "t.csv.gz", "model,x,y\n"))


def test_missing_values_of_nullable_columns_are_blank(tmp_path: Path) -> None:
    frame = pd.DataFrame({"model": ["a", "b"], "x": [1, None], "y": [0, 1]}).convert_dtypes()
    assert cells_of(read_scores(frame)) == {("a", "x"): 1, ("a", "y"): 0, ("b", "y"): 1}


def test_only_lists_of_instances_in_reports_of_swe_bench_are_items(tmp_path: Path) -> None:
    report = {"resolved_ids": ["i1", 3], "unresolved_ids": ["i2"], "unstopped_containers": ["c"], "tags": ["t"]}
    files = [write_json(tmp_path, "a.run.json", report), write_json(tmp_path, "b.run.json", {"resolved_ids": ["i2"]})]
    files.append(write_json(tmp_path, "c.json", {"submitted_ids": ["i9"], "version": 2}))
    assert read_scores(files).item_ids == ("i1", "i2")


@pytest.mark.parametrize(
    ("scores", "expected"),
    [((0, 1), (0, 1)), ((-0.5, 1), (-1, 1)), ((1, 9), (0, 10)), ((12, 80), (0, 100)), ((-3, 250), (-3, 250))],
)
def test_the_range_of_scores_is_inferred(scores: tuple[float, float], expected: tuple[float, float]) -> None:
    low, high = scores
    table = read_scores(pd.DataFrame({"model": ["a", "b"], "x": [low, high], "y": [high, low]}))
    assert (table.low, table.high) == expected


def test_metrics_of_lm_eval_are_chosen_by_name(tmp_path: Path) -> None:
    for model, shift in {"a": 0.0, "b": 0.1}.items():
        results = {
            "x": {"acc,none": 0.5 + shift, "acc_norm,none": 0.6 + shift},
            "gsm8k": {"exact_match,strict-match": 0.3 + shift, "exact_match,flexible-extract": 0.4 + shift},
        }
        write_json(tmp_path, f"{model}/results_1.json", {"results": results, "model_name": model})
    with pytest.raises(ImportFormatError, match=r"'acc_norm', 'exact_match/strict-match'.* Set --column score=NAME"):
        read_scores(tmp_path)
    table = read_scores(tmp_path, columns={"score": "acc_norm, exact_match/strict-match"})
    assert cells_of(table) == {("a", "x"): 0.6, ("a", "gsm8k"): 0.3, ("b", "x"): 0.7, ("b", "gsm8k"): 0.4}


def test_reports_of_swe_bench_are_read_with_0_for_unresolved_instances(tmp_path: Path) -> None:
    a = {"resolved_ids": ["i1", "i2"], "unresolved_ids": ["i3"], "total_instances": 4, "empty_patch_ids": ["i4"]}
    b = {"resolved_ids": ["i3"], "unresolved_ids": ["i1"], "total_instances": 4}
    files = [write_json(tmp_path, "a.run.json", a), write_json(tmp_path, "b.run.json", b)]
    table = read_scores(files)
    assert table.model_ids == ("a", "b")
    assert table.item_ids == ("i1", "i2", "i3", "i4")
    assert table.score.tolist() == [[1, 1, 0, 0], [0, 0, 1, 0]]


def test_several_reports_of_one_model_of_swe_bench_are_averaged(tmp_path: Path) -> None:
    files = []
    for name, resolved in {"a.run1": ["i1"], "a.run2": ["i1", "i2"], "b.run1": ["i2"]}.items():
        report = {"submitted_ids": ["i1", "i2"], "resolved_ids": resolved}
        files.append(write_json(tmp_path, f"{name}.json", report))
    table = read_scores(files)
    assert cells_of(table) == {("a", "i1"): 1, ("a", "i2"): 0.5, ("b", "i1"): 0, ("b", "i2"): 1}
    assert any("2 cells have several scores (up to 2), which are averaged" in note for note in table.notes)


def test_versions_of_a_model_in_names_of_reports_of_swe_bench_are_different_models(tmp_path: Path) -> None:
    for name in ("gpt-4.1", "gpt-4.5", "claude-3.5-sonnet", "gpt-4.20240613", "llama-3.1.run1"):
        write_json(tmp_path, f"{name}.json", {"resolved_ids": ["i1"], "unresolved_ids": ["i2"]})
    assert set(read_scores(tmp_path).model_ids) == {"gpt-4.1", "gpt-4.5", "claude-3.5-sonnet", "gpt-4", "llama-3.1"}


def test_reports_of_one_model_on_different_instances_are_refused(tmp_path: Path) -> None:
    for name, instance in {"a.part1": "i1", "a.part2": "i2", "b.run": "i1"}.items():
        write_json(tmp_path, f"{name}.json", {"resolved_ids": [instance]})
    with pytest.raises(
        ImportFormatError, match=r"a\.part2\.json: .* model a and .*a\.part1\.json .*\[scores-reports\]"
    ):
        read_scores(tmp_path)


def test_resolved_ids_are_read_by_submission_and_from_one_file(tmp_path: Path) -> None:
    for model, ids in {"a": ["i1", "i2"], "b": ["i2", "i3"]}.items():
        write_json(tmp_path, f"verified/{model}/results/results.json", {"resolved": ids, "no_logs": ["i4"]})
    by_folder = read_scores(tmp_path / "verified")
    assert (by_folder.model_ids, by_folder.item_ids) == (("a", "b"), ("i1", "i2", "i4", "i3"))
    one = read_scores(write_json(tmp_path, "ids.json", {"a": ["i1", "i2"], "b": ["i2", "i3"]}))
    assert one.score.tolist() == [[1, 1, 0], [0, 1, 1]]


def test_a_frame_with_named_rows_is_read(tmp_path: Path) -> None:
    frame = pd.read_csv(wide_csv(tmp_path)).set_index("Model")
    assert cells_of(read_scores(frame)) == CELLS
    long = pd.read_csv(long_csv(tmp_path))
    assert cells_of(read_scores(long)) == CELLS


def test_a_percent_sign_behind_the_error_belongs_to_the_score(tmp_path: Path) -> None:
    file = write(tmp_path, "p.csv", "model,x,y\na,58.1 ± 1.2%,56.4%\nb,45.2% ± 2%,51.6 ± 1 %\n")
    scores = {("a", "x"): 0.581, ("a", "y"): 0.564, ("b", "x"): 0.452, ("b", "y"): 0.516}
    assert cells_of(read_scores(file)) == scores


def test_a_loss_next_to_columns_of_models_is_noted(tmp_path: Path) -> None:
    rows = "".join(f"q{k},{k % 2},{(k + 1) % 2},1,{10 + k}.5\n" for k in range(6))
    table = read_scores(write(tmp_path, "t.csv", "item,m1,m2,m3,perplexity\n" + rows))
    assert any("'perplexity' is read as a model; if it is not one" in note for note in table.notes)


@pytest.mark.parametrize(
    "names", [["Mean", "SD"], ["SD", "Average"], ["Min", "Max"], ["Std. Dev."], ["mean", "N", "SE"]]
)
@pytest.mark.parametrize("are_rows", [True, False])
def test_statistics_of_scores_are_not_models(names: list[str], *, are_rows: bool) -> None:
    scores = pd.DataFrame({"a": [0.4, 0.5, 0.5], "b": [0.6, 0.6, 0.7]}, index=pd.Index(["x", "y", "z"], name="item"))
    for name in names:
        scores[name] = [0.1, 0.02, 0.3]
    table = read_scores(scores.T.rename_axis("model") if are_rows else scores)
    assert table.model_ids == ("a", "b")
    assert any(all(name in note for name in names) for note in table.notes)


def test_a_model_may_be_called_sd() -> None:
    frame = pd.DataFrame({"model": ["SD", "DALL-E", "max"], "x": [0.4, 0.5, 0.6], "y": [0.6, 0.6, 0.1]})
    assert read_scores(frame).model_ids == ("SD", "DALL-E", "max")


@pytest.mark.parametrize("is_wide", [True, False])
def test_the_name_of_an_average_states_that_the_scores_are_losses(*, is_wide: bool) -> None:
    frame = pd.DataFrame({"dataset": ["AMI", "Earnings", "Average WER"], "r": [11.0, 9, 10], "s": [12.0, 10, 11]})
    if is_wide:
        frame = frame.set_index("dataset").T.rename_axis("model")
    with pytest.raises(
        ImportFormatError, match=r"got 'Average WER'. Change the sign of all scores.*\[scores-direction\]"
    ):
        read_scores(frame)
    numbers = frame.select_dtypes("number").columns
    frame[numbers] = -frame[numbers]
    assert read_scores(frame).score.tolist() == [[-11, -9], [-12, -10]]


@pytest.mark.parametrize("name", ["Toxicity", "refusal rate", "Hallucination", "Attack success rate", "bias score"])
def test_scores_that_are_often_better_if_lower_are_noted(name: str) -> None:
    wide = pd.DataFrame({"model": ["r", "s"], "x": [0.2, 0.5], name: [0.6, 0.7]})
    long = pd.DataFrame({"model": ["r", "r", "s", "s"], "task": ["x", name, "x", name], "value": [0.2, 0.6, 0.5, 0.7]})
    for frame in (wide, long):
        assert any(
            note.startswith(f"the highest values of {name!r} rank first: if") for note in read_scores(frame).notes
        )


@pytest.mark.parametrize("name", ["gold", "difficulty", "prompt length", "max_score", "points", "answer", "n_words"])
def test_a_column_that_describes_items_is_not_a_model(name: str) -> None:
    frame = pd.DataFrame({"question": ["p", "q", "r"], name: [1, 3, 2], "gpt": [0, 0, 1], "claude": [1, 1, 1]})
    assert read_scores(frame).model_ids == ("gpt", "claude")
    renamed = frame.rename(columns={"question": "model"})
    assert read_scores(renamed, columns={"item": "model"}).model_ids == ("gpt", "claude")


def test_norwegian_scores_are_not_row_numbers() -> None:
    frame = pd.DataFrame({"model": ["r", "s"], "no": [0.2, 0.5], "sv": [0.6, 0.7]})
    assert read_scores(frame).item_ids == ("no", "sv")
    assert read_scores(frame.assign(no=[4, 9], da=[0.1, 0.2])).item_ids == ("sv", "da")


def test_settings_of_models_are_not_items() -> None:
    frame = pd.DataFrame(
        {"model": ["r", "s"], "x": [0.2, 0.5], "y": [0.6, 0.7], "temperature": [0, 0.7], "n_shot": [0, 1]}
    )
    assert read_scores(frame).item_ids == ("x", "y")


def test_equal_names_of_items_on_several_sheets_are_noted(tmp_path: Path) -> None:
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        for title in ("maths", "code"):
            pd.DataFrame({"model": ["a", "b"], "easy": [0.1, 0.2], "hard": [0.3, 0.4]}).to_excel(
                book, sheet_name=title, index=False
            )
    notes = read_scores(tmp_path / "t.xlsx").notes
    expected = (
        "4 cells have several scores (up to 2), which are averaged; if the tables 'maths', 'code' have different items"
    )
    assert any(note.startswith(expected) for note in notes)


def test_grades_of_few_models_that_rise_by_1_are_scores() -> None:
    frame = pd.DataFrame({"model": ["a", "b", "c"], "q1": [1, 2, 3], "q2": [5, 4, 1], "q3": [3, 3, 5]})
    assert read_scores(frame).item_ids == ("q1", "q2", "q3")
    frame.insert(0, "position", [1, 2, 3])
    assert read_scores(frame).item_ids == ("q1", "q2", "q3")


def test_files_of_one_name_are_models_named_after_all_folders_that_differ(tmp_path: Path) -> None:
    names = [f"{model}/{run}" for model in ("gpt", "claude") for run in ("run1", "run2")]
    files = [write(tmp_path, f"{name}/scores.csv", "item,score\na,1\nb,0\n") for name in names]
    assert read_scores(files).model_ids == tuple(f"{name}/scores" for name in names)
    assert read_scores(files[:2]).model_ids == ("run1/scores", "run2/scores")
