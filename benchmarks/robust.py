"""Measure the robust and the family-balanced ranking on recorded answers and real models, with and without attacks.

Per domain:

- ranks in dense plans under attacks by clones of the worst agent and by rings of the lowest agents
- breakdown point: the smallest share of the pool that a ring of the lowest agents needs, so that one of them ranks first
- coverage of intervals, with resampled items, if a ring counts as one agent, with three families, and with a panel of eight

For MT-Bench: ρ of each ranking with the published scores. How often groups are flagged measures `benchmarks/flagged_groups.py`.

`python benchmarks/robust.py [--draws 100] [--shared FOLDER] [--out FILE] [--smoke]` prints JSON.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.stats import rankdata, spearmanr

import youden
from recorded import DOMAINS, SHARED, read_rates
from results import print_results
from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.pipeline.abilities import TRIAL_MEAN, Abilities
from youden.pipeline.alternative_rankings import PairedAnswers, reweight_abilities
from youden.pipeline.fitted_run import fit_run
from youden.stats import PairChunk
from youden.stats.base.clusters import covariance_over_clusters
from youden.stats.flagged_groups import flag_groups
from youden.stats.partners import (
    PairTotals,
    PartnerWeights,
    fit_weighted_abilities,
    group_balanced_weights,
    panel_weights,
    uniform_weights,
)
from youden.stats.trials.agent_rates import AgentRates
from youden.stats.trials.trial_errors import compute_item_influence
from youden.types import Agent, Item, Pool
from youden.types.facts import PartnerRules
from youden.types.pool import Floats, Ids
from youden.types.results import Rates

AGREEMENTS = (1.0, 0.9, 0.8)


def make_matrix(rates: Rates) -> Floats:
    """Arrange D as float array (n_items, n_agents, n_agents), without items that were not judged."""
    D = np.full((rates.n_items, rates.n_agents, rates.n_agents), np.nan)
    D[rates.item, rates.first, rates.second] = rates.tpr - rates.fpr
    return np.asarray(D[~np.isnan(D).all(axis=(1, 2))])


def make_chunk(D: Floats, item: Ids, first: Ids, second: Ids) -> PairChunk:
    """Select the observed answers of trials, given as index arrays (n_trials,)."""
    value = D[item, first, second]
    is_observed = ~np.isnan(value)
    ones = np.ones(int(is_observed.sum()))
    return PairChunk(
        first[is_observed], second[is_observed], item[is_observed], value[is_observed], ones, 0 * ones, len(D)
    )


def make_dense_chunk(D: Floats) -> PairChunk:
    """Select the answers of all ordered pairs on all items."""
    J, K, _ = D.shape
    first, second = (column.astype(np.int32) for column in np.nonzero(~np.eye(K, dtype=np.bool_)))
    return make_chunk(D, np.repeat(np.arange(J, dtype=np.int32), len(first)), np.tile(first, J), np.tile(second, J))


def draw_cyclic_chunk(D: Floats, *, percent: float, seed: int) -> PairChunk:
    """Draw a cyclic plan, and select its paired answers."""
    J, K, _ = D.shape
    texts = np.full((K, J), "", dtype=object)
    pool = Pool(tuple(Agent(str(i)) for i in range(K)), tuple(Item(str(j)) for j in range(J)), texts)
    plan = youden.make_plan(pool, calls=f"{percent}%", independent="pooled:100", seed=seed)
    paired = plan.trial_type == 0
    return make_chunk(D, plan.item[paired], plan.first[paired], plan.second[paired])


def compute_negative_abilities(chunk: PairChunk, partners: PartnerWeights) -> Floats:
    """Compute abilities with weighted partners, and return their negatives, which rank in order."""
    totals = PairTotals.from_chunks([chunk], len(partners.importance))
    return np.asarray(-fit_weighted_abilities(lambda: [chunk], totals, partners).ability)


def add_clones(D: Floats, agent: int, n: int, agreement: float, rng: np.random.Generator) -> tuple[Floats, list[int]]:
    """Add `n` clones of `agent`, of which any two give the same answer with probability `agreement`.

    Returns the answers, and the indices of the agent and its clones.
    """
    n_agents = D.shape[1]
    index = np.append(np.arange(n_agents), [agent] * n)
    answers = D[:, index][:, :, index].copy()
    members = [agent, *range(n_agents, n_agents + n)]
    return plant_agreement(answers, members, agreement, rng), members


def plant_agreement(D: Floats, members: list[int], agreement: float, rng: np.random.Generator) -> Floats:
    """Return a copy of the answers in which each pair of `members` agrees with probability `agreement`."""
    answers = D.copy()
    for first in members:
        for second in members:
            answers[:, first, second] = (rng.random(len(D)) < agreement) if first != second else 0.0
    return answers


def measure_attack(D: Floats, attacked: Floats, members: list[int]) -> dict[str, float]:
    """Compute mean ranks of the attackers among the original agents, and the mean rank change of honest agents.

    Ranks: the true ones (without the attack), and those of the plain and of the robust ranking under the attack.
    """
    n_agents = D.shape[1]
    attackers = [member for member in members if member < n_agents]
    honest = np.setdiff1d(np.arange(n_agents), attackers)
    chunk, n_attacked = make_dense_chunk(attacked), attacked.shape[1]
    flagged = flag_groups(PairTotals.from_chunks([chunk], n_attacked))
    true_rank = rankdata(compute_negative_abilities(make_dense_chunk(D), uniform_weights(n_agents)))
    plain_rank = rankdata(compute_negative_abilities(chunk, uniform_weights(n_attacked))[:n_agents])
    robust_rank = rankdata(compute_negative_abilities(chunk, group_balanced_weights(flagged.cluster))[:n_agents])
    return {
        "true": float(true_rank[attackers].mean()),
        "plain": float(plain_rank[attackers].mean()),
        "robust": float(robust_rank[attackers].mean()),
        "honest_shift": float(np.abs(robust_rank - true_rank)[honest].mean()),
    }


def find_breakdown_point(D: Floats, worst_first: list[int]) -> float | None:
    """Find the share of the pool at which a ring of the lowest agents, which always agree with each other, takes the first rank.

    None if no ring of fewer agents than the pool does.
    """
    n_agents = len(worst_first)
    rng = np.random.default_rng(0)
    for n in range(2, n_agents):
        members = worst_first[:n]
        planted = plant_agreement(D, members, 1.0, rng)
        order = np.argsort(compute_negative_abilities(make_dense_chunk(planted), uniform_weights(n_agents)))
        if order[0] in members:
            return round(n / n_agents, 2)
    return None


def measure_domain(D: Floats, *, n_draws: int) -> dict[str, object]:
    """Measure attacks and intervals on the answers of a domain."""
    K = D.shape[1]
    rng = np.random.default_rng(0)
    worst_first = np.argsort(-compute_negative_abilities(make_dense_chunk(D), uniform_weights(K))).tolist()
    figures: dict[str, object] = {}
    for n in (1, 3, 10):
        for agreement in AGREEMENTS:
            planted, members = add_clones(D, worst_first[0], n, agreement, rng)
            figures[f"{n} clones, agreement {agreement:g}"] = measure_attack(D, planted, members)
    for n in (5, 10):
        planted = plant_agreement(D, worst_first[:n], 1.0, rng)
        figures[f"ring of {n}"] = measure_attack(D, planted, worst_first[:n])
    figures["breakdown point, plain"] = find_breakdown_point(D, worst_first)
    return {**figures, **measure_intervals(D, n_draws=n_draws)}


def estimate_reweighted(D: Floats, chunk: PairChunk, partners: PartnerWeights) -> Abilities:
    """Estimate abilities for items like these as means of trials, reweighted by partner weights."""
    J, K, _ = D.shape
    agent = np.append(chunk.first, chunk.second)
    n_trials = np.bincount(agent, minlength=K)
    ability = np.bincount(agent, np.tile(chunk.value, 2), K) / n_trials
    items = compute_item_influence(
        chunk.first,
        chunk.second,
        chunk.item,
        chunk.value,
        ability=ability,
        first_weight=chunk.weight,
        second_weight=chunk.weight,
        n_items=J,
    )
    covariance = covariance_over_clusters(items.influence, items.weight, relative_variance=1 / n_trials)
    plain = Abilities(
        ability,
        covariance,
        n_trials.astype(np.int32),
        AgentRates.unknown(len(ability)),
        TRIAL_MEAN,
        "by item",
        "items-like-these",
        np.zeros(len(ability), dtype=np.int32),
    )
    return reweight_abilities(PairedAnswers(lambda: [chunk], PairTotals.from_chunks([chunk], K)), plain, partners)


def measure_coverage(D: Floats, partners: PartnerWeights, *, percent: float, n_draws: int) -> dict[str, float]:
    """Measure coverage and half-widths of the intervals, for cyclic plans on resampled items."""
    truth = estimate_reweighted(D, make_dense_chunk(D), partners).ability
    rows = []
    for seed in range(n_draws):
        items = np.random.default_rng([seed, 11]).integers(0, len(D), len(D))
        run = D[items]
        abilities = estimate_reweighted(run, draw_cyclic_chunk(run, percent=percent, seed=seed), partners)
        error = abilities.ability - abilities.ability.mean() - (truth - truth.mean())
        half_width = abilities.covariance.half_width(0.95)
        rows.append((np.abs(error) <= half_width, half_width))
    covered, half_width = (np.array(column) for column in zip(*rows, strict=True))
    coverage_by_draw = covered.mean(axis=1)
    return {
        "covered": round(float(coverage_by_draw.mean()), 3),
        "se": round(float(coverage_by_draw.std(ddof=1) / n_draws**0.5), 3),
        "worst_agent": round(float(covered.mean(axis=0).min()), 2),
        "half_width": round(float(half_width.mean()), 4),
    }


def measure_intervals(D: Floats, *, n_draws: int) -> dict[str, object]:
    """Measure intervals with three partner weights: a planted ring of five, three families, and a panel of eight."""
    K = D.shape[1]
    rng = np.random.default_rng(1)
    plain_keys = compute_negative_abilities(make_dense_chunk(D), uniform_weights(K))
    worst_agents = np.argsort(-plain_keys)[:5].tolist()
    ring = plant_agreement(D, worst_agents, 1.0, rng)
    cluster = np.arange(K, dtype=np.int32)
    cluster[worst_agents] = worst_agents[0]
    family = rng.permutation(np.arange(K, dtype=np.int32) % 3)
    trusted = np.isin(np.arange(K), rng.permutation(K)[:8])
    figures: dict[str, object] = {}
    for name, data, partners in (
        ("robust, ring of 5", ring, group_balanced_weights(cluster)),
        ("family, 3 at random", D, group_balanced_weights(family)),
        ("trusted, 8 at random", D, panel_weights(trusted)),
    ):
        for percent in (2.0, 5.0, 10.0):
            figures[f"{name}, {percent:g} %"] = measure_coverage(data, partners, percent=percent, n_draws=n_draws)
    panels = [panel_weights(np.isin(np.arange(K), rng.permutation(K)[:8])) for _ in range(n_draws)]
    rho = [
        float(spearmanr(compute_negative_abilities(make_dense_chunk(D), panel), plain_keys).statistic)
        for panel in panels
    ]
    figures["trusted, 8 at random, dense: ρ with plain"] = {
        "mean": round(float(np.mean(rho)), 3),
        "least": round(float(np.min(rho)), 3),
    }
    return figures


def measure_mt_bench(folder: Path, *, n_questions: int | None = None) -> dict[str, object]:
    """Compute ρ of each dense ranking by the lexical judge with lmsys's scores, and the change of leader without own families.

    n_questions : use only the first questions
    """
    with (folder / "scores.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    questions = [json.loads(line) for line in (folder / "question.jsonl").read_text(encoding="utf-8").splitlines()]
    questions = questions[:n_questions]
    turns = {}
    for row in rows:
        lines = (folder / "model_answer" / f"{row['agent']}.jsonl").read_text(encoding="utf-8").splitlines()
        answers = [json.loads(line) for line in lines]
        turns[row["agent"]] = {answer["question_id"]: answer["choices"][0]["turns"] for answer in answers}
    cells = [(question, turn) for question in questions for turn in range(2)]
    texts = np.array(
        [[turns[agent][question["question_id"]][turn] for question, turn in cells] for agent in turns], dtype=object
    )
    items = tuple(Item(f"{question['question_id']}-{turn}", question["turns"][turn]) for question, turn in cells)
    pool = Pool(tuple(map(Agent, turns)), items, texts)
    plan = youden.make_plan(pool, design="dense", seed=0)
    verdicts = youden.judge(plan, judge="lexical")
    rules = PartnerRules(families={row["agent"]: row["family"] for row in rows})
    with TemporaryDirectory() as folder_name:
        run = RunFolder(Path(folder_name))
        run.write_pool(PoolSummary.from_pool(pool, source="MT-Bench"))
        run.write_plan(plan)
        run.write_verdicts(verdicts)
        fit = fit_run(run, rules=rules)
    score = {row["agent"]: float(row["mt_bench_score"]) for row in rows}
    published_scores = [score[agent] for agent in fit.ranking["agent"]]
    columns = {"plain": "ability", "robust": "robust_ability", "family": "family_ability"}
    rho = {name: float(spearmanr(fit.ranking[column], published_scores).statistic) for name, column in columns.items()}
    return {"rho": rho, "warned": fit.facts.alternative_rankings["family"].leader_change}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true", help="measure few items of one domain with few draws")
    arguments = parser.parse_args()
    n_draws = 2 if arguments.smoke else arguments.draws
    names = ["SAMSum"] if arguments.smoke else list(DOMAINS)
    n_items, n_questions = (20, 8) if arguments.smoke else (None, None)
    table: dict[str, object] = {
        name: measure_domain(make_matrix(read_rates(name, arguments.shared))[:n_items], n_draws=n_draws)
        for name in names
    }
    table["MT-Bench"] = measure_mt_bench(arguments.shared / "mt-bench", n_questions=n_questions)
    print_results(table, arguments.out)


if __name__ == "__main__":
    main()
