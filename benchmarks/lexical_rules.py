"""Compare rules for the weight of long texts in the lexical judge, and trivial baselines, on real models and under attacks.

A rule replaces `compute_text_weights` of the judge. `measure_labels` correlates rankings with AlpacaEval's win rates;
`measure_attacks` ranks the attacks of `youden stress`. `python benchmarks/lexical.py --only labels attacks` runs both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.stats import spearmanr

import youden
from labels import GAMED, read_alpaca_eval_pool, read_label_table
from youden.engines.trial_blocks import TrialsByItem
from youden.judging.backends import lexical
from youden.text.similarity import build_group_word_matrix, build_word_matrix, idf
from youden.text.words import mean_lengths, segment_texts
from youden.types import Pool
from youden.types.pool import Floats
from youden.workflows.attacks import ATTACKS, Attack, AttackContext, plant_agents
from youden.workflows.planned_stress import compute_abilities, plan_attacked_pool

Index = NDArray[np.int64]
Rule = Callable[..., Floats]


def cap_at_medians(n_medians: float) -> Rule:
    """Return the rule of version 2 of the judge: min(1, n_medians·median / mass), mass the idf of all words of a text."""

    def weigh(matrix: csr_array[np.int8], *, item_of_text: Index, agent_of_text: Index, word_weights: Floats) -> Floats:
        mass = np.asarray(matrix @ word_weights)
        weights = np.ones(mass.shape)
        for rows in np.split(np.arange(len(item_of_text)), np.flatnonzero(np.diff(item_of_text)) + 1):
            limit = n_medians * np.median(mass[rows], axis=0)
            is_long = (mass[rows] > limit) & (limit > 0)
            np.divide(limit, mass[rows], out=weights[rows[0] : rows[-1] + 1], where=is_long)
        return weights

    return weigh


def weigh_equally(
    matrix: csr_array[np.int8], *, item_of_text: Index, agent_of_text: Index, word_weights: Floats
) -> Floats:
    """Return a weight of 1 for every text."""
    return np.ones((matrix.shape[0], word_weights.shape[1]))


RULES: dict[str, Rule] = {
    "lexical": lexical.compute_text_weights,
    "cap 2": cap_at_medians(2.0),
    "cap 3": cap_at_medians(3.0),
    "no cap": weigh_equally,
}
"""The judge, its version 2 ("cap 2"), and two other rules."""
ATTACKED_RULES = ("lexical", "cap 2")
N_ATTACKED_AGENTS, N_ATTACKED_ITEMS = 15, 60


def paste_all(context: AttackContext) -> dict[str, list[str]]:
    """Return the responses of all other agents, one after the other."""
    return {"paste-all": [" ".join(context.draw_responses(j, context.pool.n_agents)) for j in context.items]}


PASTE_ALL = Attack("the responses of all other agents", paste_all)


@contextmanager
def use_rule(rule: Rule) -> Iterator[None]:
    """Let the lexical judge weigh texts by a rule."""
    original = lexical.compute_text_weights
    lexical.compute_text_weights = rule
    try:
        yield
    finally:
        lexical.compute_text_weights = original


def take_agents(pool: Pool, names: list[str], *, items: Index | None = None) -> Pool:
    """Return the pool of some agents, and of some items."""
    ids = [agent.id for agent in pool.agents]
    rows = np.array([ids.index(name) for name in names])
    columns = np.arange(pool.n_items) if items is None else items
    agents = tuple(pool.agents[row] for row in rows)
    return Pool(agents, tuple(pool.items[j] for j in columns), pool.texts[np.ix_(rows, columns)], pool.name)


def compute_baselines(pool: Pool) -> dict[str, Floats]:
    """Score each agent by three baselines without folds, scale or independent trials, float arrays (n_agents,).

    - idf overlap: mean Σ idf over the words shared with another agent's text of the same item, idf over items
    - TF-IDF cosine: mean cosine similarity to another agent's text of the same item, idf over texts, smoothed as in
      scikit-learn
    - length: mean number of words
    """
    texts = segment_texts([text or "" for text in pool.texts.T.ravel()])
    item_of_text, agent_of_text = np.divmod(np.arange(len(texts)), pool.n_agents)
    contains = build_word_matrix(texts)
    words_by_item = build_group_word_matrix(contains, item_of_text, n_groups=pool.n_items)
    item_idf = idf(np.asarray(words_by_item.sum(axis=0), dtype=float), pool.n_items)

    counts = csr_array((np.ones(len(texts.ids)), texts.ids, texts.start), shape=contains.shape, copy=True)
    counts.sum_duplicates()
    text_idf = np.log((1 + len(texts)) / (1 + contains.sum(axis=0))) + 1
    tf_idf = counts @ diags_array(text_idf)
    norm = np.maximum(np.sqrt(np.asarray(tf_idf.multiply(tf_idf).sum(axis=1))), 1e-12)
    cosine = diags_array(1 / norm) @ tf_idf
    root_idf = contains @ diags_array(np.sqrt(item_idf))
    return {
        "idf overlap": _sum_products(csr_array(root_idf), item_of_text, agent_of_text),
        "TF-IDF cosine": _sum_products(csr_array(cosine), item_of_text, agent_of_text),
        "length": mean_lengths(pool.texts),
    }


def _sum_products(matrix: csr_array, item_of_text: Index, agent_of_text: Index) -> Floats:
    """Sum the scalar products of each agent's texts with the other texts of the same item, float array (n_agents,)."""
    membership = csr_array((np.ones(len(item_of_text)), (item_of_text, np.arange(len(item_of_text)))))
    others = csr_array(membership @ matrix)[item_of_text] - matrix
    products = np.asarray(matrix.multiply(others).sum(axis=1), dtype=np.float64)
    return np.asarray(np.bincount(agent_of_text, products))


def measure_labels(
    folder: Path, *, n_draws: int, seed: int, n_items: int | None = None
) -> dict[str, dict[str, object]]:
    """Correlate rankings of several pools with win rates: Spearman's ρ by pool and ranking, entries that game a judge left out.

    n_draws : pools of 16 random models; their ρ is the mean, with its standard error
    n_items : use only the first items
    """
    pool = read_alpaca_eval_pool(folder, n_items=n_items)
    win_rate = {name: float(row["win_rate"]) for name, row in read_label_table(folder / "leaderboard.csv").items()}
    honest = [agent.id for agent in pool.agents if agent.id not in GAMED]
    length = dict(zip((agent.id for agent in pool.agents), mean_lengths(pool.texts), strict=True))
    with_preferences = list(read_label_table(folder / "preferences.csv"))
    by_length, by_win_rate = sorted(honest, key=length.__getitem__), sorted(honest, key=win_rate.__getitem__)
    short_and_strong = list(dict.fromkeys([*by_win_rate[-4:], *by_length[:12]]))

    rng = np.random.default_rng(seed)
    pools = {
        "39 models": [[agent.id for agent in pool.agents]],
        "13 with preferences": [with_preferences],
        "12 shortest and 4 strongest": [short_and_strong],
        "16 at random": [rng.choice(honest, 16, replace=False).tolist() for _ in range(n_draws)],
    }
    table: dict[str, dict[str, object]] = {}
    for name, draws in pools.items():
        values = [correlate(take_agents(pool, agents), win_rate, seed=seed + draw) for draw, agents in enumerate(draws)]
        table[name] = {ranking: summarize([rho[ranking] for rho in values]) for ranking in values[0]}
        for reference in (["cap 3", "no cap"], ["idf overlap"], ["TF-IDF cosine"], ["length"]):
            differences = [rho["lexical"] - max(rho[ranking] for ranking in reference) for rho in values]
            table[name][f"lexical - {' or '.join(reference)}"] = summarize(differences)
    return table


def correlate(pool: Pool, win_rate: dict[str, float], *, seed: int) -> dict[str, float]:
    """Compute ρ with win rates of the default plan by each rule, and of each baseline."""
    names = [agent.id for agent in pool.agents]
    plan = youden.make_plan(pool, seed=seed)
    scores = {}
    for name, rule in RULES.items():
        with use_rule(rule):
            scores[name] = youden.rank(youden.judge(plan, judge="lexical")).set_index("agent").ability[names].to_numpy()
    scores |= compute_baselines(pool)
    is_honest = np.array([name not in GAMED for name in names])
    label = np.array([win_rate[name] for name in names])[is_honest]
    return {name: float(spearmanr(score[is_honest], label).statistic) for name, score in scores.items()}


def measure_attacks(
    folder: Path, *, n_seeds: int, seed: int, n_items: int | None = None
) -> dict[str, dict[str, object]]:
    """Rank the best planted agent of each attack by each rule, with dense plans, and by each baseline; 1 = best.

    Each seed draws 15 honest models and 60 prompts. The base agent, which is left out, is the last of the ranking by the rule
    without an attack, as in `youden stress`, so rank 15 is a rank gain of 0. The table also has the rank gain by the judge minus
    that by its version 2. `n_items` uses only the first items.
    """
    pool = read_alpaca_eval_pool(folder, n_items=n_items)
    honest = [agent.id for agent in pool.agents if agent.id not in GAMED]
    ranks: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for draw in range(seed, seed + n_seeds):
        rng = np.random.default_rng(draw)
        agents = rng.choice(honest, N_ATTACKED_AGENTS, replace=False).tolist()
        items = np.sort(rng.choice(pool.n_items, min(N_ATTACKED_ITEMS, pool.n_items), replace=False))
        for attack, ranking, rank in rank_attacks(take_agents(pool, agents, items=items), seed=draw):
            ranks[attack][ranking].append(rank)
    table: dict[str, dict[str, object]] = {}
    for attack, by_ranking in ranks.items():
        table[attack] = {ranking: summarize(values) for ranking, values in by_ranking.items()}
        differences = np.subtract(by_ranking["cap 2"], by_ranking["lexical"])
        table[attack]["rank gain, lexical - cap 2"] = summarize(differences.tolist())
    return table


def rank_attacks(pool: Pool, *, seed: int) -> Iterator[tuple[str, str, float]]:
    """Yield the rank of the best planted agent, with the names of the attack and of the rule or baseline."""
    plan = youden.make_plan(pool, design="dense", holdout=0, seed=seed)
    for rule in ATTACKED_RULES:
        with use_rule(RULES[rule]):
            base_verdicts = youden.judge(plan, judge="lexical")
            base_totals = TrialsByItem.from_verdicts(base_verdicts).false_positives
            base_rates = base_totals.estimate_rates()
            ability = compute_abilities(base_verdicts, rate=base_rates.rate, families={})["plain"]
            base_agent = int(np.argmin(ability))
            for number, name in enumerate([*ATTACKS, "paste-all"]):
                rng = np.random.default_rng([seed, number])
                attack = PASTE_ALL if name == "paste-all" else ATTACKS.load(name)
                planted = plant_agents(pool, attack, base_agent=base_agent, rng=rng)
                verdicts = youden.judge(plan_attacked_pool(plan, planted, rng=rng), judge="lexical")
                totals = TrialsByItem.from_verdicts(verdicts).false_positives
                rates = totals.link_rates(base_totals, base_rates, np.array(planted.agents))
                attacked = compute_abilities(verdicts, rate=rates.rate, families={})["plain"]
                yield name, rule, rank_planted(attacked, pool, base_agent)
                if rule == "lexical":
                    for baseline, score in compute_baselines(planted.pool).items():
                        yield name, baseline, rank_planted(score, pool, base_agent)


def rank_planted(score: Floats, pool: Pool, base_agent: int) -> float:
    """Return the rank of the best planted agent among the agents of the pool without the base agent, ties counted half."""
    others = np.delete(score[: pool.n_agents], base_agent)
    best = score[pool.n_agents :].max()
    return float(1 + (others > best).sum() + (others == best).sum() / 2)


def summarize(values: list[float]) -> object:
    """Return the mean and its standard error, or the value if there is one only."""
    if len(values) == 1:
        return round(values[0], 3)
    return {
        "mean": round(float(np.mean(values)), 3),
        "std_error": round(float(np.std(values, ddof=1) / len(values) ** 0.5), 3),
    }
