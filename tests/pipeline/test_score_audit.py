"""An audit of a table of scores, against a naive second implementation and against its own claims."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_rel

import youden
from youden.stats.additive.score_means import estimate_score_means
from youden.types.pool import Floats

ALPACA = "alpaca-eval"


@pytest.fixture(scope="session")
def alpaca_preferences(shared: Path) -> Path:
    path = shared / ALPACA / "preferences.csv"
    if not path.is_file():
        pytest.skip("the preferences of AlpacaEval (../shared/alpaca-eval) are not beside this checkout")
    return path


def make_frame(seed: int, *, n_models: int = 6, n_items: int = 50, missing: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    expected = 1 / (1 + np.exp(rng.normal(0, 1, n_items)[:, None] - np.linspace(1, -1, n_models)))
    score = (rng.random(expected.shape) < expected).astype(np.float64)
    score[rng.random(score.shape) < missing] = np.nan
    frame = pd.DataFrame(score, columns=[f"m{k}" for k in range(n_models)])
    frame.insert(0, "item", [f"i{j}" for j in range(n_items)])
    return frame


def read_plainly(path: Path) -> dict[str, list[float]]:
    scores: dict[str, dict[int, float]] = defaultdict(dict)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            scores[row["agent"]][int(row["item_number"])] = float(row["win"])
    return {agent: [by_item[item] for item in sorted(by_item)] for agent, by_item in scores.items()}


def is_significant(a: list[float], b: list[float]) -> bool:
    """Student's paired test over items."""
    differences = [x - y for x, y in zip(a, b, strict=True)]
    n = len(differences)
    mean = sum(differences) / n
    variance = sum((d - mean) ** 2 for d in differences) / (n - 1)
    return bool(abs(mean) > float(student.ppf(0.975, n - 1)) * (variance / n) ** 0.5)


def count_removed_until_behind(first: list[float], other: list[float]) -> int | None:
    """Remove the item that favors `first` most, until `other` has the higher mean."""
    differences = sorted((x - y for x, y in zip(first, other, strict=True)), reverse=True)
    for n in range(1, len(differences)):
        if sum(differences[n:]) < 0:
            return n
    return None


def test_alpaca_eval_is_audited_as_by_a_naive_second_implementation(alpaca_preferences: Path) -> None:
    audit = youden.audit(alpaca_preferences)
    scores = read_plainly(alpaca_preferences)
    ranked = sorted(scores, key=lambda agent: -sum(scores[agent]))
    assert audit.ranking["agent"].tolist() == ranked
    null_rank = 1 + ranked.index("NullModel")
    row = audit.ranking[audit.ranking["agent"] == "NullModel"].iloc[0]
    assert (row["rank_low"], row["rank_high"]) == (null_rank, null_rank) == (1, 1)
    assert row["ability"] == pytest.approx(sum(scores["NullModel"]) / 200)

    neighbors = [
        agent for agent in ranked if agent != "NullModel" and not is_significant(scores["NullModel"], scores[agent])
    ]
    assert audit.details.ties["NullModel"] == tuple(neighbors) == ()
    n_ties = {agent: len(tied) for agent, tied in audit.details.ties.items()}
    naive = {a: sum(not is_significant(scores[a], scores[b]) for b in ranked if b != a) for a in ranked}
    assert n_ties == naive

    counts = {agent: count_removed_until_behind(scores[ranked[0]], scores[agent]) for agent in ranked[1:]}
    possible = {agent: n for agent, n in counts.items() if n is not None}
    assert len(audit.details.removal_items) == min(possible.values()) == possible[ranked[1]]
    assert audit.details.removal_first == ranked[1]
    assert audit.removal_fraction == possible[ranked[1]] / 200


def test_differences_of_alpaca_eval_have_the_intervals_of_the_paired_t_test(alpaca_preferences: Path) -> None:
    score = np.array(list(read_plainly(alpaca_preferences).values()))[:, :20]
    differences = estimate_score_means(score).differences
    for i, k in combinations(range(len(score)), 2):
        interval = ttest_rel(score[i], score[k]).confidence_interval(0.95)
        assert differences.value[i, k] - differences.half_width[i, k] == pytest.approx(interval.low, abs=1e-6)
        assert differences.value[i, k] + differences.half_width[i, k] == pytest.approx(interval.high, abs=1e-6)


def test_the_json_has_the_keys_of_a_run(tmp_path: Path) -> None:
    pool = youden.read_pool("datasets/field-notes")
    run = youden.run(pool, judge="lexical", out=tmp_path / "run", calls=300)
    fit = json.loads((tmp_path / "run" / "fit.json").read_text(encoding="utf-8"))
    result = json.loads(json.dumps(youden.audit(make_frame(0)).to_json(), allow_nan=False))
    assert result.keys() == {"recommendation", "ranking", "fit", "calibration", "labels", "signature", "audit"}
    assert result["fit"].keys() >= fit.keys() - {"version"}
    columns = set(json.loads((tmp_path / "run" / "ranking.json").read_text(encoding="utf-8"))["agents"][0])
    assert set(result["ranking"][0]) == columns - {"p_best"}
    assert set(run.ranking.columns) >= set(youden.audit(make_frame(0)).ranking.columns)


def test_scores_in_percent_give_the_same_ranking_in_their_own_unit() -> None:
    frame = make_frame(1, missing=0.2)
    percent = pd.concat([frame[["item"]], 100 * frame.drop(columns="item")], axis=1)
    a, b = youden.audit(frame), youden.audit(percent)
    for column in ("ability", "low", "high", "std_error"):
        np.testing.assert_allclose(100 * a.ranking[column], b.ranking[column], rtol=1e-6)
    assert a.ranking["agent"].tolist() == b.ranking["agent"].tolist()
    assert a.details.groups == b.details.groups
    np.testing.assert_allclose(100 * a.differences.half_width, b.differences.half_width, rtol=1e-6)
    assert a.details.removal_items == b.details.removal_items
    assert a.details.items_to_separate == b.details.items_to_separate


def test_groups_are_longest_sets_without_a_significant_pair() -> None:
    audit = youden.audit(make_frame(2))
    names = audit.ranking["agent"].tolist()
    assert {name for group in audit.details.groups for name in group} == set(names)
    for group in audit.details.groups:
        for a in group:
            assert set(group) - {a} <= set(audit.details.ties[a])
        end = names.index(group[-1]) + 1
        if end < len(names):
            assert not set(group) <= set(audit.details.ties[names[end]])


def test_models_of_equal_mean_keep_the_order_of_the_table() -> None:
    table = pd.DataFrame({"item": range(30), "a": 0, "b": 1, "c": 1}).astype({"item": str})
    audit = youden.audit(table)
    assert audit.ranking["agent"].tolist() == ["b", "c", "a"]
    assert audit.recommendation.agents == ("b", "c")


@pytest.mark.parametrize("unit", [1e-6, 1, 1e6])
def test_the_unit_of_the_scores_does_not_change_the_order_of_models(unit: float) -> None:
    rng = np.random.default_rng(0)
    means = {"a": 0.1, "b": 0.5, "c": 0.3}
    table = pd.DataFrame({model: unit * (mean + 0.3 * rng.random(40)) for model, mean in means.items()})
    audit = youden.audit(table.assign(item=[f"i{j}" for j in range(40)]))
    assert audit.ranking["agent"].tolist() == ["b", "c", "a"]


def test_the_only_candidate_is_recommended_without_a_significant_difference() -> None:
    new, old = [1] * 8 + [0] * 22, [0] * 8 + [1] * 2 + [0] * 20
    table = pd.DataFrame({"item": [f"i{j}" for j in range(30)], "new": new, "old": old})
    audit = youden.audit(table)
    assert audit.facts.unique_best is None
    assert audit.recommendation.form == "recommended"
    assert "not every difference is significant" in audit.recommendation.text


def test_missing_cells_that_depend_on_difficulty_are_warned_about() -> None:
    frame = make_frame(3, n_items=200)
    assert youden.audit(frame).facts.warnings == ()
    hard = frame.drop(columns="item").mean(axis=1) < 0.4
    frame.loc[hard & (np.arange(200) % 3 > 0), ["m0", "m1"]] = np.nan
    audit = youden.audit(frame)
    assert [warning.slug for warning in audit.facts.warnings] == ["scores-missing"]
    assert audit.details.missing_p < 0.05
    assert audit.details.missing_fraction > 0


def test_fewer_than_6_items_are_warned_about() -> None:
    """The columns `win_rate` and `lc_win_rate` of a leaderboard are two metrics of one benchmark, not a sample of items."""
    metrics = pd.DataFrame(
        {"agent": ["a", "b", "c"], "win_rate": [76.9, 51.3, 39.1], "lc_win_rate": [86.4, 57.4, 39.2]}
    )
    (warning,) = youden.audit(metrics).facts.warnings
    assert "The table has only 2 items." in warning.message
    assert youden.audit(make_frame(0, n_items=6)).facts.warnings == ()


def test_models_without_common_items_get_no_recommendation() -> None:
    frame = make_frame(4, n_models=4)
    frame.loc[:24, ["m0", "m1"]] = np.nan
    frame.loc[25:, ["m2", "m3"]] = np.nan
    audit = youden.audit(frame)
    assert audit.facts.status == "disconnected"
    assert (audit.recommendation.form, audit.recommendation.decided_by) == ("none", "scores")
    first = audit.ranking["agent"].iloc[0]
    partner = {"m0": "m1", "m1": "m0", "m2": "m3", "m3": "m2"}
    assert all(set(tied) <= {partner[name]} for name, tied in audit.details.ties.items())
    text = audit.recommendation.text
    assert text.startswith("No recommendation: too few items in common with the first model to be compared: m")
    assert text.endswith(". Remove these models, or add scores on common items.")
    assert f"{first} " not in audit.recommendation.text
    assert "fit" in [warning.slug for warning in audit.facts.warnings]


def test_a_first_model_without_common_items_has_an_unknown_removal() -> None:
    frame = pd.DataFrame({"item": list("abcd"), "m0": [0.9, 0.8, None, None], "m1": [None, None, 0.4, 0.3]})
    frame["m2"] = [None, None, 0.2, 0.6]
    audit = youden.audit(frame)
    text = "It is unknown whether removing items would change the first place: m0 shares too few items with the other models."
    assert text in audit.summary
    assert not any("No removal" in line for line in audit.summary)


def test_models_whose_halves_disagree_have_no_negative_reliability() -> None:
    audit = youden.audit(pd.DataFrame({"model": ["m1", "m2", "m3"], "a": [1, 0.5, 0], "b": [0, 0.5, 1]}))
    assert audit.details.reliability in (None, 0)
    json.dumps(audit.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    "scores", [{"m0": [0.5, 0.7], "m1": [0.4, None]}, {"m0": [0.2, 0.9, 0.7], "m1": [0.1, None, None]}]
)
def test_few_items_give_a_finite_p_value_and_are_not_warned_about(scores: dict[str, list[float | None]]) -> None:
    frame = pd.DataFrame({"item": list("abc")[: len(scores["m0"])], **scores, "m2": scores["m0"]})
    audit = youden.audit(frame)
    assert audit.details.missing_p > 0.05
    json.dumps(audit.to_json(), allow_nan=False)


def test_models_that_do_not_differ_significantly_need_at_least_one_more_item() -> None:
    for seed in range(20):
        audit = youden.audit(make_frame(seed, n_models=2, n_items=4))
        first, second = audit.ranking["agent"].tolist()
        is_tied = second in audit.details.ties[first]
        assert audit.details.items_to_separate is None or (audit.details.items_to_separate > 0) == is_tied


def test_equal_columns_are_stated_and_not_significantly_different() -> None:
    frame = make_frame(0, n_models=3)
    frame["copy"] = frame["m0"]
    audit = youden.audit(frame)
    assert audit.details.constant_pairs == (("m0", "copy"),)
    reason = "is the same on each common item, so its interval follows from the number of items alone."
    assert f"The difference of m0 and copy {reason}" in audit.summary
    assert "copy" in audit.details.ties["m0"]


def test_a_summary_and_a_recommendation_name_at_most_ten_models() -> None:
    audit = youden.audit(make_frame(0, n_models=30, n_items=3))
    assert len(audit.recommendation.agents) > 10
    assert f"and {len(audit.recommendation.agents) - 10} more cannot be ruled out" in audit.recommendation.text
    assert all(line.count(", ") <= 10 for line in audit.summary if line.startswith("Not significantly"))


def test_a_clear_winner_is_recommended_and_equal_models_are_candidates() -> None:
    rng = np.random.default_rng(5)
    score = np.clip(np.array([0.7, 0.4, 0.4]) + rng.normal(0, 0.1, (60, 3)), 0, 1)
    frame = pd.DataFrame(score, columns=["best", "b", "c"], index=pd.Index([f"i{j}" for j in range(60)], name="task"))
    audit = youden.audit(frame)
    assert audit.recommendation.text.startswith("Recommended: best ")
    assert audit.details.items_to_separate == 0
    two = youden.audit(frame[["b", "c"]])
    assert two.recommendation.form == "candidates"
    assert set(two.recommendation.agents) == {"b", "c"}
    assert two.details.items_to_separate is not None
    assert two.details.items_to_separate > 0
    assert two.details.reliability is None


def covers(ranking: pd.DataFrame, truth: Floats) -> Floats:
    expected = truth[[int(name[1:]) for name in ranking["agent"]]]
    return np.asarray((ranking["low"] <= expected) & (expected <= ranking["high"]), dtype=np.float64)


@pytest.mark.slow
def test_intervals_cover_the_mean_score_over_the_population_of_items() -> None:
    rng = np.random.default_rng(6)
    population = rng.beta(2, 2, (4, 20_000)) ** np.array([[0.5], [0.8], [1.2], [2]])
    truth = population.mean(axis=1)
    covered = []
    for _ in range(60):
        expected = population[:, rng.choice(20_000, 40, replace=False)]
        score = (rng.random(expected.shape) < expected).astype(np.float64)
        score[rng.random(score.shape) < 0.3] = np.nan
        frame = pd.DataFrame(score, index=pd.Index([f"m{k}" for k in range(4)], name="model"))
        covered.append(covers(youden.audit(frame.add_prefix("q")).ranking, truth))
    assert 0.9 <= np.mean(covered) <= 0.99


def test_an_ability_stays_in_the_range_and_the_facts_hold_the_recommendation() -> None:
    table = pd.DataFrame(
        {"item": ["a", "b", "c", "d"], "x": [1, 1, np.nan, np.nan], "y": [0, 0.1, 1, 1], "z": [0.2, 0, 1, 0.9]}
    )
    audited = youden.audit(table)
    abilities = {row.agent: row.ability for row in audited.rows}
    assert abilities["x"] == 1.0
    assert audited.facts.recommendation == audited.recommendation
