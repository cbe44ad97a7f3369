"""What the robust and the family-balanced ranking do on recorded matrices, real models and few calls, with and without attack.

`python benchmarks/robust.py [--draws 100] [--pools 200] [--shared FOLDER] [--out FILE] [--smoke]` prints JSON: clones of the
worst agent and rings of the lowest (places, dense), false links in random half pools, and in cyclic draws at 1, 2 and 5 % of the
calls, of graded answers and of those cut at .5 to yes or no,
what is found at 2 % with further calls on suspected pairs, how often the intervals of a ring counted as one, of three families
and of a trusted panel of eight hold when items are drawn anew, and MT-Bench by families.
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
from recorded import DOMAINS, SHARED, rates_of
from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.pipeline.abilities import TRIAL_MEAN, Abilities
from youden.pipeline.alternative_rankings import (
    FOLLOW_UPS_PER_PAIR,
    PairedAnswers,
    reweight_abilities,
    select_suspected_pairs,
)
from youden.pipeline.fitted_run import fit_run
from youden.stats import PairChunk
from youden.stats.base.clusters import covariance_over_clusters
from youden.stats.partners import (
    FlaggedPairs,
    PairTotals,
    PartnerWeights,
    fit_weighted_abilities,
    flag_pairs,
    group_balanced_weights,
    panel_weights,
    uniform_weights,
)
from youden.stats.trials.trial_errors import compute_item_influence
from youden.types import Agent, Item, Pool
from youden.types.facts import PartnerRules
from youden.types.pool import Floats, Ids, Positions
from youden.types.results import Rates

AGREEMENTS = (1.0, 0.9, 0.8)
EXTRA = 0.1
"""Further calls on suspected pairs, as a share of the draw's."""


def matrix(rates: Rates) -> Floats:
    """D: float[J, K, K], items that were judged."""
    D = np.full((rates.n_items, rates.n_agents, rates.n_agents), np.nan)
    D[rates.item, rates.first, rates.second] = rates.tpr - rates.fpr
    return np.asarray(D[~np.isnan(D).all(axis=(1, 2))])


def asked(D: Floats, item: Ids, first: Ids, second: Ids) -> PairChunk:
    value = D[item, first, second]
    known = ~np.isnan(value)
    one = np.ones(int(known.sum()))
    return PairChunk(first[known], second[known], item[known], value[known], one, 0 * one, len(D))


def dense(D: Floats) -> PairChunk:
    J, K, _ = D.shape
    first, second = (column.astype(np.int32) for column in np.nonzero(~np.eye(K, dtype=np.bool_)))
    return asked(D, np.repeat(np.arange(J, dtype=np.int32), len(first)), np.tile(first, J), np.tile(second, J))


def cyclic(D: Floats, *, percent: float, seed: int) -> PairChunk:
    J, K, _ = D.shape
    texts = np.full((K, J), "", dtype=object)
    pool = Pool(tuple(Agent(str(i)) for i in range(K)), tuple(Item(str(j)) for j in range(J)), texts)
    plan = youden.make_plan(pool, calls=f"{percent}%", independent="pooled:100", seed=seed)
    paired = plan.arm == 0
    return asked(D, plan.item[paired], plan.first[paired], plan.second[paired])


def links(of: PairChunk, n_agents: int) -> FlaggedPairs:
    return flag_pairs(PairTotals.from_chunks([of], n_agents).means)


def places(of: PairChunk, partners: PartnerWeights) -> Floats:
    totals = PairTotals.from_chunks([of], len(partners.importance))
    return np.asarray(-fit_weighted_abilities(lambda: [of], totals, partners).ability)


def with_clones(D: Floats, who: int, n: int, agreement: float, rng: np.random.Generator) -> tuple[Floats, list[int]]:
    """`n` more agents that answer as `who` does, and agree with it and each other so often."""
    K = D.shape[1]
    index = np.append(np.arange(K), [who] * n)
    planted, members = D[:, index][:, :, index].copy(), [who, *range(K, K + n)]
    return agreeing(planted, members, agreement, rng), members


def agreeing(D: Floats, members: list[int], agreement: float, rng: np.random.Generator) -> Floats:
    planted = D.copy()
    for one in members:
        for other in members:
            planted[:, one, other] = (rng.random(len(D)) < agreement) if one != other else 0.0
    return planted


def attack(D: Floats, planted: Floats, members: list[int]) -> dict[str, float]:
    """Mean place among the first agents, truly, by the plain and by the robust ranking, and how far honest agents move."""
    K = D.shape[1]
    old = [member for member in members if member < K]
    honest = np.setdiff1d(np.arange(K), old)
    of, n = dense(planted), planted.shape[1]
    found = links(of, n)
    true = rankdata(places(dense(D), uniform_weights(K)))
    plain = rankdata(places(of, uniform_weights(n))[:K])
    robust = rankdata(places(of, group_balanced_weights(found.cluster))[:K])
    return {
        "true": float(true[old].mean()),
        "plain": float(plain[old].mean()),
        "robust": float(robust[old].mean()),
        "honest_shift": float(np.abs(robust - true)[honest].mean()),
    }


def followed(D: Floats, of: PairChunk, *, seed: int) -> tuple[FlaggedPairs, float]:
    """Links after further calls on suspected pairs, and the share of calls that took."""
    J, K, _ = D.shape
    rng, left, now = np.random.default_rng([seed, 7]), int(EXTRA * len(of.value)), of
    while left >= FOLLOW_UPS_PER_PAIR:
        found = links(now, K)
        pairs = select_suspected_pairs(found, left // FOLLOW_UPS_PER_PAIR)
        if not len(pairs):
            break
        one, other = np.repeat(pairs, FOLLOW_UPS_PER_PAIR, axis=0).T.astype(np.int32)
        turned = rng.random(len(one)) < 0.5
        first, second = np.where(turned, other, one), np.where(turned, one, other)
        more = asked(D, rng.integers(0, J, len(one)).astype(np.int32), first, second)
        names = ("first", "second", "item", "value", "weight", "rate")
        columns = {name: np.append(getattr(now, name), getattr(more, name)) for name in names}
        now = PairChunk(**columns, n_items=J)
        left -= len(one)
    return links(now, K), len(now.value) / len(of.value) - 1


def sparse(D: Floats, members: list[int], *, draws: int, percent: float = 2.0, first: int = 0) -> dict[str, float]:
    """Share of members in one cluster before and after further calls, draws in which anybody else is linked, further calls."""
    rows = []
    for seed in range(first, first + draws):
        of = cyclic(D, percent=percent, seed=seed)
        before = links(of, D.shape[1])
        after, extra = followed(D, of, seed=seed)
        others = [set(cluster) - set(members) for cluster in after.clusters]
        rows.append((together(before, members), together(after, members), bool(any(others)), extra))
    names = ("found_before", "found", "others_linked", "extra_calls")
    return dict(zip(names, np.mean(rows, axis=0).round(3).tolist(), strict=True))


def honest(D: Floats, halves: list[Positions], *, percent: float, draws: int) -> dict[str, float]:
    """Share of draws, of the whole pool and of half ones at as many trials an agent, in which anybody is linked at the end."""
    whole = sparse(D, [], draws=draws, percent=percent)["others_linked"]
    parts = (D[:, half][:, :, half] for half in halves[:draws])
    half = [sparse(part, [], draws=1, percent=2 * percent, first=seed) for seed, part in enumerate(parts)]
    return {"whole": whole, "half": round(float(np.mean([one["others_linked"] for one in half])), 3)}


def together(found: FlaggedPairs, members: list[int]) -> float:
    largest = int(np.bincount(found.cluster[members]).max()) if members else 0
    return largest / len(members) if largest > 1 else 0.0


def domain(D: Floats, *, draws: int, pools: int) -> dict[str, object]:
    K = D.shape[1]
    rng = np.random.default_rng(0)
    order = np.argsort(-places(dense(D), uniform_weights(K))).tolist()
    said: dict[str, object] = {}
    for n in (1, 3, 10):
        for agreement in AGREEMENTS:
            planted, members = with_clones(D, order[0], n, agreement, rng)
            said[f"{n} clones, agreement {agreement:g}"] = attack(D, planted, members)
            if n != 3 and agreement != 0.9:
                said[f"{n} clones, agreement {agreement:g}, 2 %"] = sparse(planted, members, draws=max(draws // 4, 2))
    for n in (5, 10):
        planted = agreeing(D, order[:n], 1.0, rng)
        said[f"ring of {n}"] = attack(D, planted, order[:n])
        said[f"ring of {n}, 2 %"] = sparse(planted, order[:n], draws=max(draws // 4, 2))
    halves = [rng.permutation(K)[: K // 2] for _ in range(pools)]
    said["half pools with a link"] = float(
        np.mean([bool(links(dense(D[:, half][:, :, half]), K // 2).clusters) for half in halves])
    )
    said["no attack, dense, a link"] = bool(links(dense(D), K).clusters)
    for kind, answers in (("graded", D), ("yes or no", np.where(np.isnan(D), np.nan, D >= 0.5))):
        for percent in (1.0, 2.0, 5.0):
            said[f"no attack, {kind}, {percent:g} %"] = honest(answers, halves, percent=percent, draws=draws)
    return {**said, **intervals(D, draws=draws)}


def moved(D: Floats, of: PairChunk, partners: PartnerWeights) -> Abilities:
    """Means of trials, for items like these, moved by what `partners` change."""
    J, K, _ = D.shape
    agent = np.append(of.first, of.second)
    n_trials = np.bincount(agent, minlength=K)
    ability = np.bincount(agent, np.tile(of.value, 2), K) / n_trials
    items = compute_item_influence(
        of.first,
        of.second,
        of.item,
        of.value,
        ability=ability,
        first_weight=of.weight,
        second_weight=of.weight,
        n_items=J,
    )
    covariance = covariance_over_clusters(items.influence, items.weight, relative_variance=1 / n_trials)
    plain = Abilities(
        ability,
        covariance,
        n_trials.astype(np.int32),
        0.0,
        TRIAL_MEAN,
        "by item",
        "items-like-these",
        np.zeros(len(ability), dtype=np.int32),
    )
    return reweight_abilities(PairedAnswers(lambda: [of], PairTotals.from_chunks([of], K)), plain, partners)


def held(D: Floats, partners: PartnerWeights, *, percent: float, draws: int) -> dict[str, float]:
    """How often intervals hold the dense value where a run's items are drawn from the domain's, and mean half-widths."""
    truth = moved(D, dense(D), partners).ability
    rows = []
    for seed in range(draws):
        items = np.random.default_rng([seed, 11]).integers(0, len(D), len(D))
        run = D[items]
        found = moved(run, cyclic(run, percent=percent, seed=seed), partners)
        off = found.ability - found.ability.mean() - (truth - truth.mean())
        half = found.covariance.half_width(0.95)
        rows.append((np.abs(off) <= half, half))
    covered, half = (np.array(column) for column in zip(*rows, strict=True))
    share = covered.mean(axis=1)
    return {
        "covered": round(float(share.mean()), 3),
        "se": round(float(share.std(ddof=1) / draws**0.5), 3),
        "worst_agent": round(float(covered.mean(axis=0).min()), 2),
        "half_width": round(float(half.mean()), 4),
    }


def intervals(D: Floats, *, draws: int) -> dict[str, object]:
    """Three ways to weigh partners that are known beforehand: a planted ring of five, three families, a panel of eight."""
    K = D.shape[1]
    rng = np.random.default_rng(1)
    plain = places(dense(D), uniform_weights(K))
    worst = np.argsort(-plain)[:5].tolist()
    ring = agreeing(D, worst, 1.0, rng)
    cluster = np.arange(K, dtype=np.int32)
    cluster[worst] = worst[0]
    family = rng.permutation(np.arange(K, dtype=np.int32) % 3)
    trusted = np.isin(np.arange(K), rng.permutation(K)[:8])
    said: dict[str, object] = {}
    for name, data, partners in (
        ("robust, ring of 5", ring, group_balanced_weights(cluster)),
        ("family, 3 at random", D, group_balanced_weights(family)),
        ("trusted, 8 at random", D, panel_weights(trusted)),
    ):
        for percent in (2.0, 5.0, 10.0):
            said[f"{name}, {percent:g} %"] = held(data, partners, percent=percent, draws=draws)
    panels = [panel_weights(np.isin(np.arange(K), rng.permutation(K)[:8])) for _ in range(draws)]
    rho = [float(spearmanr(places(dense(D), one), plain).statistic) for one in panels]
    said["trusted, 8 at random, dense: ρ with plain"] = {
        "mean": round(float(np.mean(rho)), 3),
        "least": round(float(np.min(rho)), 3),
    }
    return said


def mt_bench(folder: Path) -> dict[str, object]:
    """ρ with lmsys's scores of each ranking by the lexical judge, dense, and what the plain one warns of."""
    with (folder / "scores.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    questions = [json.loads(line) for line in (folder / "question.jsonl").read_text(encoding="utf-8").splitlines()]
    turns = {}
    for row in rows:
        lines = (folder / "model_answer" / f"{row['agent']}.jsonl").read_text(encoding="utf-8").splitlines()
        said = [json.loads(line) for line in lines]
        turns[row["agent"]] = {one["question_id"]: one["choices"][0]["turns"] for one in said}
    cells = [(question, turn) for question in questions for turn in range(2)]
    texts = np.array([[turns[a][q["question_id"]][t] for q, t in cells] for a in turns], dtype=object)
    items = tuple(Item(f"{q['question_id']}-{t}", q["turns"][t]) for q, t in cells)
    pool = Pool(tuple(map(Agent, turns)), items, texts)
    plan = youden.make_plan(pool, design="dense", seed=0)
    result = youden.judge(plan, judge="lexical")
    rules = PartnerRules(families={row["agent"]: row["family"] for row in rows})
    with TemporaryDirectory() as place:
        run = RunFolder(Path(place))
        run.write_pool(PoolSummary.from_pool(pool, source="MT-Bench"))
        run.write_plan(plan)
        run.write_verdicts(result)
        found = fit_run(run, rules=rules)
    score = {row["agent"]: float(row["mt_bench_score"]) for row in rows}
    true = [score[agent] for agent in found.ranking["agent"]]
    columns = {"plain": "ability", "robust": "robust_ability", "family": "family_ability"}
    rho = {name: float(spearmanr(found.ranking[column], true).statistic) for name, column in columns.items()}
    return {"rho": rho, "warned": found.facts.standings["family"].leader}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--pools", type=int, default=200)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true", help="One domain, few draws.")
    said = parser.parse_args()
    draws, pools = (4, 10) if said.smoke else (said.draws, said.pools)
    names = ["SAMSum"] if said.smoke else list(DOMAINS)
    table: dict[str, object] = {
        name: domain(matrix(rates_of(name, said.shared)), draws=draws, pools=pools) for name in names
    }
    table["MT-Bench"] = mt_bench(said.shared / "mt-bench")
    text = json.dumps(table, indent=1)
    print(text)
    if said.out is not None:
        said.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
