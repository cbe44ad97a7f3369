"""Test the import of the public peer-prediction data: exact differences, exact counts and reasons for refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peer_results import write_results
from youden import read_pool
from youden.data.importers.peer_prediction import DIFFERENCE_ONLY, find_paper_groups, import_agents, import_results
from youden.data.pools.pool_reader import write_pool
from youden.errors import ImportFormatError

MATRIX = [[0, 1, 0.25], [-0.75, 0, 0], [0.1, 0.7, 0]]


def example(**changes: Any) -> dict[str, Any]:
    return {
        "condition_keys": ["A", "B", "C"],
        "tvd_mi_matrix": MATRIX,
        "tvd_mi_scores": [sum(row) / 2 for row in MATRIX],
        "tvd_mi_bidirectional": [0, 0, 0],
        "metadata": {"num_p_comparisons": 6, "num_q_comparisons": 6, "cached_count": 0},
    } | changes


def refused(read: Callable[[Path], object], path: Path, *parts: str) -> None:
    with pytest.raises(ImportFormatError) as caught:
        read(path)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("folder", "shape", "n_failed", "sizes"),
    [
        ("pubmed_200_config_results", (30, 200), 376, (4, 10, 5)),
        ("peer_review_results_100", (29, 100), 87, (4, 8, 5)),
        ("opus_translation_results", (31, 30), 16, (6, 4, 4)),
        ("samsum_200_config_results", (30, 200), 26, (4, 10, 5)),
    ],
)
def test_the_real_results_import_with_exact_differences_counts_and_groups(
    peer_prediction: Path, folder: str, shape: tuple[int, int], n_failed: int, sizes: tuple[int, int, int]
) -> None:
    n_agents, n_items = shape
    place = peer_prediction / "eval_results" / folder
    results = import_results(place)
    rates = results.rates
    assert (rates.n_agents, rates.n_items, len(rates)) == (n_agents, n_items, n_items * n_agents * (n_agents - 1))
    assert rates.item_ids == tuple(f"example-{n}" for n in range(n_items))
    assert results.n_failed.sum() == n_failed
    groups = [agent.group for agent in results.agents]
    assert tuple(groups.count(name) for name in ("faithful", "strategic", "low-effort")) == sizes
    difference = np.zeros((n_items, n_agents, n_agents))
    difference[rates.item, rates.first, rates.second] = rates.tpr - rates.fpr
    for number in (0, n_items - 1):
        file = place / "tvd_mi_individual_examples" / f"tvd_mi_example_{number}.json"
        data = json.loads(file.read_text(encoding="utf-8"))
        assert difference[number].tolist() == data["tvd_mi_matrix"]
        assert list(rates.agent_ids) == data["condition_keys"]
    assert results.notes[0] == DIFFERENCE_ONLY
    assert f"{n_failed} of" in results.notes[1]


def test_the_real_agents_file_becomes_a_pool_that_reads_back(peer_prediction: Path, tmp_path: Path) -> None:
    file = peer_prediction / "data" / "agents" / "summarization_gpt_4o_mini_20250708_235208.json"
    pool = import_agents(file)
    data = json.loads(file.read_text(encoding="utf-8"))
    assert (pool.n_agents, pool.n_items, pool.n_missing) == (30, 200, 0)
    assert pool.texts[7, 123] == data["tasks"][123]["responses"][7]
    assert pool.items[123].id == "task-123"
    assert pool.items[123].prompt == data["tasks"][123]["context"]
    assert pool.agents[0].group is None
    assert pool.agents[1].group == "faithful"
    assert pool.agents[1].meta == {"strategy": data["agent_perspectives"][1]["strategy"]}
    write_pool(pool, tmp_path)
    assert read_pool(tmp_path).digest == pool.digest


def test_differences_are_exact_and_items_have_numeric_order(tmp_path: Path) -> None:
    write_results(tmp_path, {"example_10": example(), "example_9": example(), "aggregated": "no JSON at all"})
    results = import_results(tmp_path)
    assert results.rates.item_ids == ("example-9", "example-10")
    assert (results.rates.tpr - results.rates.fpr).tolist()[:6] == [1, 0.25, -0.75, 0, 0.1, 0.7]
    assert results.rates.fpr.tolist()[:6] == [0, 0, 0.75, 0, 0, 0]
    assert [agent.group for agent in results.agents] == [None, None, None]
    assert results.notes == (DIFFERENCE_ONLY,)
    assert results.name == tmp_path.name
    assert import_results(tmp_path / "tvd_mi_individual_examples").name == tmp_path.name


def test_failed_calls_are_counted_by_item_and_an_unjudged_item_has_no_rates(tmp_path: Path) -> None:
    zeros = [[0] * 3] * 3
    lost = example(
        tvd_mi_matrix=zeros, tvd_mi_scores=[0] * 3, metadata={"num_p_comparisons": 0, "num_q_comparisons": 6}
    )
    some = example(metadata={"num_p_comparisons": 5, "num_q_comparisons": 4})
    results = import_results(write_results(tmp_path, {"example_0": lost, "example_1": some}))
    assert results.n_failed.tolist() == [6, 3]
    assert results.n_expected == 12
    assert set(results.rates.item.tolist()) == {1}
    assert "9 of 24 calls failed, on 2 of 2 items" in results.notes[1]
    assert "1 of 2 items" in results.notes[2]


NOTHING = {"num_p_comparisons": 0, "num_q_comparisons": 0}
FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "other agents": (
        {"example_1": example(condition_keys=["A", "B", "D"])},
        ["example_1.json", "example_0.json", "'D' instead of 'C'"],
    ),
    "other order": ({"example_1": example(condition_keys=["A", "C", "B"])}, ["number 2 is 'C' instead of 'B'"]),
    "fewer agents": (
        {
            "example_1": example(
                condition_keys=["A", "B"],
                tvd_mi_matrix=[[0, 0], [0, 0]],
                tvd_mi_scores=[0, 0],
                metadata={"num_p_comparisons": 2, "num_q_comparisons": 2},
            )
        },
        ["2 instead of 3"],
    ),
    "same name twice": ({"example_0": example(condition_keys=["A", "B", "A"])}, ["2 agents have the name 'A'"]),
    "all failed": ({"example_0": example(metadata=NOTHING)}, ["all comparisons failed", "num_p_comparisons"]),
    "a row short": ({"example_0": example(tvd_mi_matrix=MATRIX[:2])}, ["2 rows", "3 × 3"]),
    "a ragged row": ({"example_0": example(tvd_mi_matrix=[[0, 1], *MATRIX[1:]])}, ["[2, 3] values"]),
    "above one": (
        {"example_0": example(tvd_mi_matrix=[[0, 1.5, 0], *MATRIX[1:]])},
        ["tvd_mi_matrix.0.1", "less than or equal to 1", "1.5"],
    ),
    "NaN": (
        {"example_0": json.dumps(example(tvd_mi_matrix=[[0, float("nan"), 0], *MATRIX[1:]]))},
        ["tvd_mi_matrix.0.1", "nan"],
    ),
    "null": ({"example_0": example(tvd_mi_matrix=[[0, None, 0], *MATRIX[1:]])}, ["tvd_mi_matrix.0.1", "None"]),
    "a string": ({"example_0": example(tvd_mi_matrix=[[0, "1", 0], *MATRIX[1:]])}, ["tvd_mi_matrix.0.1", "'1'"]),
    "a diagonal": ({"example_0": example(tvd_mi_matrix=[[1, 1, 0.25], *MATRIX[1:]])}, ["diagonal"]),
    "other scores": ({"example_0": example(tvd_mi_scores=[0.625, 0, 0.4])}, ["'B' 0.0", "-0.375"]),
    "too many calls": (
        {"example_0": example(metadata={"num_p_comparisons": 7, "num_q_comparisons": 6})},
        ["(7, 6)", "6 pairs"],
    ),
    "no counts": (
        {"example_0": {key: value for key, value in example().items() if key != "metadata"}},
        ["metadata", "missing"],
    ),
    "no JSON": ({"example_0": '{"condition_keys": ['}, ["example_0.json", "Invalid JSON"]),
    "a list": ({"example_0": "[]"}, ["the file", "object"]),
    "no number": ({"example_x": example()}, ["example_x.json", "no number"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_inconsistent_results_are_refused_with_the_reason(tmp_path: Path, fault: str) -> None:
    examples, parts = FAULTS[fault]
    refused(import_results, write_results(tmp_path, {"example_0": example()} | examples), *parts)


def test_a_folder_without_items_is_refused(tmp_path: Path) -> None:
    refused(import_results, tmp_path, "no such folder", "tvd_mi_individual_examples")
    refused(import_results, write_results(tmp_path, {"aggregated": {}}), "import-empty")


def agents_file(path: Path, **changes: Any) -> Path:
    data = {
        "agent_perspectives": [{"condition": "A", "strategy": "do"}, {"condition": "B", "strategy": None}],
        "tasks": [{"context": "c", "responses": ["a", None]}],
    }
    path.write_text(json.dumps(data | changes), encoding="utf-8")
    return path


def test_a_null_response_is_a_missing_cell(tmp_path: Path) -> None:
    pool = import_agents(agents_file(tmp_path / "agents.json"))
    assert pool.texts.tolist() == [["a"], [None]]
    assert pool.items[0].id == "task-000"
    assert pool.name == "agents"


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"tasks": [{"context": "c", "responses": ["a"]}]}, ["tasks.0.responses has 1", "2 agent_perspectives"]),
        ({"tasks": [{"context": "c", "responses": ["a", 7]}]}, ["tasks.0.responses.1", "7"]),
        ({"tasks": []}, ["tasks", "at least 1"]),
        ({"agent_perspectives": [{"condition": "A"}] * 2}, ["2 agents have the name 'A'"]),
        ({"agent_perspectives": [{"condition": " "}, {"condition": "B"}]}, ["agent_perspectives.0.condition"]),
    ],
)
def test_a_faulty_agents_file_is_refused_with_the_location(
    tmp_path: Path, changes: dict[str, Any], parts: list[str]
) -> None:
    refused(import_agents, agents_file(tmp_path / "agents.json", **changes), "agents.json", *parts)


def test_a_missing_agents_file_is_refused(tmp_path: Path) -> None:
    refused(import_agents, tmp_path / "no.json", "no.json", "cannot be read")


def test_groups_require_every_name_of_a_domain() -> None:
    names = {"Original", "Formal", "Technical", "Academic", "Objective", "Cultural", "All Positive", "All Negative"}
    names |= {"Misleading", "Contradictory", "Low Effort", "Exaggerate", "Understate", "Sarcastic"}
    assert find_paper_groups([*names, "Reference"]).keys() == names
    assert find_paper_groups(names - {"Formal"}) == {}
