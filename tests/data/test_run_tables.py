"""Test that the Parquet files of a run read back unchanged, and that an invalid table is refused by column."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_folders import equal, ids
from small_pools import make_pool
from youden import make_plan
from youden.data.folder.run_folder import RunFolder
from youden.errors import RunFolderError
from youden.types import Finding, Plan, Trials, Verdicts
from youden.types.planning import Split
from youden.types.results import Rates
from youden.types.trials import ROLES


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    agents, items = draw(ids), draw(ids)
    n = draw(st.integers(0, 6))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    trial_type = rng.integers(0, 2, n).astype(np.int8)
    train = rng.random((len(agents), len(items))) < 0.6
    return Plan(
        trials=Trials(
            item=rng.integers(0, len(items), n).astype(np.int32),
            first=rng.integers(0, len(agents), n).astype(np.int32),
            second=rng.integers(0, len(agents), n).astype(np.int32),
            trial_type=trial_type,
            other_item=np.where(trial_type == 1, rng.integers(0, len(items), n), -1).astype(np.int32),
            replicate=rng.integers(0, 3, n).astype(np.int32),
            block=rng.integers(-1, 5, n).astype(np.int32),
            role=rng.integers(0, len(ROLES), n).astype(np.int8),
            step=rng.integers(0, 3, n).astype(np.int32),
            weight_first=rng.random(n),
            weight_second=1 / rng.integers(1, 9, n),
        ),
        split=Split(train, ~train & (rng.random(train.shape) < 0.7), "paper", 0.1 + 0.2, 3),
        design="cyclic",
        options={"calls": "2.5%", "deep": {"list": [1, "two"]}},
        independent="pooled",
        seed=7,
        pool_digest="d" * 64,
        agent_ids=tuple(agents),
        item_ids=tuple(items),
        characters=12,
        notes=("said once",),
    )


@st.composite
def verdicts(draw: st.DrawFn) -> Verdicts:
    plan = draw(plans())
    n = len(plan)
    rng = np.random.default_rng(n)
    missing = rng.integers(0, 6, n).astype(np.int8)
    answer = np.where(missing == 0, rng.random(n), np.nan)
    result = Verdicts(
        plan=plan,
        answer=answer,
        hard_answer=np.where(missing == 0, (answer > 0.5).astype(float), np.nan),
        missing_reason=missing,
        judge={"name": "j", "parameters": {"seed": None}},
        warnings=(Finding("w", "read this", facts={"n": 1}),),
    )
    if draw(st.booleans()):
        return result
    return replace(
        result,
        request_hash=np.array(["0123456789abcdef" * 4] * n, dtype="S64"),
        tokens_in=rng.integers(0, 99, n).astype(np.int32),
        tokens_out=rng.integers(0, 99, n).astype(np.int32),
        usd=rng.random(n),
        seconds=rng.random(n),
        response_model=rng.integers(-1, 2, n).astype(np.int32),
        models=("m-1", "m, 2"),
    )


@settings(max_examples=15, deadline=None)
@given(plan=plans())
def test_a_plan_reads_back_unchanged(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    folder.write_plan(plan)
    again = folder.read_plan()
    assert equal(plan, again)
    assert plan.digest == again.digest


@settings(max_examples=15, deadline=None)
@given(result=verdicts())
def test_verdicts_read_back_unchanged(result: Verdicts, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    folder.write_verdicts(result)
    assert equal(result, folder.read_verdicts(result.plan))


def test_a_plan_is_read_once_unless_its_file_is_replaced(folder: RunFolder) -> None:
    for seed in (1, 2):
        plan = make_plan(make_pool(), calls="40%", independent="pooled:10", seed=seed)
        RunFolder(folder.path).write_plan(plan)
        assert folder.read_plan().digest == plan.digest
        assert folder.read_plan() is folder.read_plan()


def test_rates_read_back_without_details_that_verdicts_contain(folder: RunFolder, judged_verdicts: Verdicts) -> None:
    rates = judged_verdicts.rates()
    assert equal(replace(rates, detail=None), folder.read_rates())
    assert equal(folder.read_verdicts(folder.read_plan()).rates(), rates)


def test_tables_contain_readable_ids_words_and_nulls(folder: RunFolder, judged_verdicts: Verdicts) -> None:
    table = pq.read_table(folder.file("verdicts.parquet"))
    plan = judged_verdicts.plan
    rows = table.to_pylist()
    assert len(rows) == len(plan)
    for n, row in enumerate(rows):
        assert row["item"] == plan.item_ids[plan.item[n]]
        assert row["first"] == plan.agent_ids[plan.first[n]]
        assert row["trial_type"] == ("paired", "independent")[plan.trial_type[n]]
        assert (row["other_item"] is None) == (row["trial_type"] == "paired")
        assert row["missing_reason"] == (None if judged_verdicts.answered[n] else "refused")
        assert row["answer"] == (judged_verdicts.answer[n] if judged_verdicts.answered[n] else None)
        assert (row["hard_answer"] is None) == (row["missing_reason"] is not None)
        assert row["request_hash"] is row["usd"] is row["response_model"] is None
    assert pa.types.is_dictionary(table.schema.field("item").type)
    assert pq.ParquetFile(folder.file("verdicts.parquet")).metadata.row_group(0).column(0).compression == "ZSTD"


def test_empty_rates_read_back(folder: RunFolder) -> None:
    none = np.empty(0, dtype=np.int32)
    no_rates = np.empty(0)
    rates = Rates(
        none,
        none,
        none,
        no_rates,
        no_rates,
        none,
        none,
        none,
        "matched",
        ("a", "b"),
        ("x",),
        Split.without_holdout((2, 1)),
    )
    folder.write_rates(rates)
    assert equal(rates, folder.read_rates())


def rewrite(path: Path, columns: pa.Table, **output: object) -> None:
    metadata = json.loads(columns.schema.metadata[b"youden"]) | output
    pq.write_table(columns.replace_schema_metadata({b"youden": json.dumps(metadata).encode()}), path)


def test_a_damaged_table_is_refused_with_the_column(folder: RunFolder, judged_verdicts: Verdicts) -> None:
    path = folder.file("rates.parquet")
    good = pq.read_table(path)

    def refused(*parts: str) -> None:
        with pytest.raises(RunFolderError) as caught:
            folder.read_rates()
        for part in ("rates.parquet", *parts, f"youden fit {folder.path}"):
            assert part in str(caught.value), str(caught.value)

    pq.write_table(good.drop_columns(["fpr"]), path)
    refused("no column fpr", "tpr")
    rewrite(path, good.set_column(0, "item", pa.array(["z"] * len(good))))
    refused("item", "'z'")
    rewrite(path, good.set_column(1, "first", pa.nulls(len(good), pa.string())))
    refused("first", "nulls")
    rewrite(path, good.set_column(3, "tpr", pa.array(["x"] * len(good))))
    refused("tpr", "double")
    rewrite(path, good, independent="mine")
    refused("independent", "'matched' or 'pooled'")
    pq.write_table(good.replace_schema_metadata(None), path)
    refused("metadata")
    path.write_bytes(b"PAR1")
    refused("not a complete Parquet file")


@pytest.mark.parametrize("packed_bits", ["not base64", "AA=="])
def test_a_split_of_another_size_is_refused(folder: RunFolder, judged_verdicts: Verdicts, packed_bits: str) -> None:
    path = folder.file("plan.parquet")
    plan = pq.read_table(path)
    split = json.loads(plan.schema.metadata[b"youden"])["split"]
    rewrite(path, plan, split=split | {"train": packed_bits})
    with pytest.raises(RunFolderError, match="one bit per cell"):
        folder.read_plan()


def test_a_plan_without_its_digest_is_refused(folder: RunFolder, judged_verdicts: Verdicts) -> None:
    path = folder.file("plan.parquet")
    rewrite(path, pq.read_table(path), digest=None)
    with pytest.raises(RunFolderError, match=r"digest.*run-file-damaged"):
        folder.open_judged_files()


def test_verdicts_for_another_plan_are_refused(folder: RunFolder, judged_verdicts: Verdicts) -> None:
    other_plan = make_plan(make_pool(), calls="40%", independent="pooled:10", seed=2)
    with pytest.raises(RunFolderError, match="run-other-plan"):
        folder.read_verdicts(other_plan)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("answer", 2.0, "answer contains a value that is not from 0 to 1: got 2"),
        ("answer", -0.5, "not from 0 to 1: got -0.5"),
        ("hard_answer", 3, "hard_answer contains a value that is not 0 or 1: got 3"),
    ],
)
def test_verdicts_with_an_impossible_answer_are_refused(
    folder: RunFolder, judged_verdicts: Verdicts, column: str, value: float, message: str
) -> None:
    path = folder.file("verdicts.parquet")
    table = pq.read_table(path)
    position = table.schema.names.index(column)
    field = table.schema.field(column)
    edited = pa.array([value, *table[column].to_pylist()[1:]], field.type)
    pq.write_table(table.set_column(position, field, edited), path)
    with pytest.raises(RunFolderError, match=rf"{message}.*youden judge.*run-file-damaged"):
        folder.read_verdicts(judged_verdicts.plan)


def test_tables_of_another_version_are_refused(folder: RunFolder, judged_verdicts: Verdicts) -> None:
    rewrite(folder.file("plan.parquet"), pq.read_table(folder.file("plan.parquet")), version=3, unheard_of=True)
    with pytest.raises(
        RunFolderError, match=r"another version of youden: got version 3 .*reads only version 2.*run-version"
    ):
        folder.read_plan()
