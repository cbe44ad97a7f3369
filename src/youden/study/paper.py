"""The paper's tables again, its figures beside ours, and where the paper and its data disagree.

What the data do not hold is not made up: the table says that it is missing. Source: 'Identity-Link IRT for Label-Free
LLM Evaluation', Tables 1 to 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from math import log
from pathlib import PurePath
from typing import Literal

import numpy as np

from youden.errors import ConfigError
from youden.stats.curl.link_table import links_table
from youden.stats.curl.quantiles import median_differences
from youden.streams import own_stream
from youden.study.agreement import JudgesStudy, curl_of
from youden.study.baseline_table import study_baselines
from youden.study.grid import Spread
from youden.study.known_groups import contrast
from youden.study.replaying import World
from youden.study.sparsity import Regime, SparsityStudy, study_sparsity
from youden.types import Progress

Domain = Literal["PubMed", "OPUS", "ICLR"]
DOMAINS: dict[Domain, tuple[str, ...]] = {
    "PubMed": ("pubmed",),
    "OPUS": ("opus",),
    "ICLR": ("peer_review", "iclr"),
}
"""What the name of a results folder holds."""

COVERAGE = 0.3335
"""33 %: what C = 1.6 covers of 30 × 200 cells."""

CURL: dict[Domain, dict[str, tuple[float, float]]] = {
    "PubMed": {"identity": (0.129, 0.474), "probit": (0.245, 0.825), "logit": (0.438, 1.454)},
    "OPUS": {"identity": (0.150, 0.492), "probit": (0.268, 0.862), "logit": (0.479, 1.547)},
    "ICLR": {"identity": (0.080, 0.580), "probit": (0.286, 1.188), "logit": (0.588, 2.252)},
}
"""Table 1: median and P95 of |Δ|."""

DIFFERENCES: dict[Domain, dict[tuple[str, str], tuple[float, float, float]]] = {
    "PubMed": {
        ("identity", "probit"): (-0.112, -0.122, -0.097),
        ("identity", "logit"): (-0.298, -0.326, -0.256),
        ("probit", "logit"): (-0.185, -0.204, -0.159),
    },
    "OPUS": {
        ("identity", "probit"): (-0.117, -0.128, -0.101),
        ("identity", "logit"): (-0.322, -0.346, -0.278),
        ("probit", "logit"): (-0.204, -0.219, -0.176),
    },
    "ICLR": {
        ("identity", "probit"): (-0.213, -0.228, -0.172),
        ("identity", "logit"): (-0.528, -0.560, -0.426),
        ("probit", "logit"): (-0.315, -0.335, -0.250),
    },
}
"""Table 2: difference of medians, and its interval."""

FIDELITY = {"dense RMSE": 0.111, "sparse RMSE": 0.117, "ρ": 0.972, "τ": 0.890, "dense AUC": 0.983, "sparse AUC": 0.967}
"""Table 3, PubMed."""

DOMAIN_FIDELITY: dict[Domain, dict[str, float]] = {
    "PubMed": {"dense RMSE": 0.111, "sparse RMSE": 0.117, "ρ": 0.972, "AUC": 0.967},
    "OPUS": {"dense RMSE": 0.123, "sparse RMSE": 0.126, "ρ": 0.983, "AUC": 0.938},
    "ICLR": {"dense RMSE": 0.129, "sparse RMSE": 0.135, "ρ": 0.950, "AUC": 0.646},
}
"""Table 4."""

BASELINES: dict[str, tuple[float, float, float, float]] = {
    "clipped-linear": (0.121, 0.971, 0.894, 0.967),
    "isotonic": (0.122, 0.971, 0.894, 0.967),
    "rasch-probit": (0.122, 0.965, 0.876, 0.983),
    "rasch-logit": (0.123, 0.964, 0.871, 0.983),
    "nuclear-norm-paper": (0.126, 0.974, 0.894, 0.950),
    "svd-paper": (0.172, 0.923, 0.807, 0.967),
    "uv-paper": (0.196, 0.983, 0.913, 0.967),
}
"""Table 5, PubMed: RMSE, ρ, τ, AUC."""

JUDGE_CURL: dict[str, tuple[float, float, float, float]] = {
    "identity": (0.129, 0.466, 0.000, 0.000),
    "logit": (0.438, 1.433, 0.009, 0.072),
}
"""Table 6, GPT-4o-mini on PubMed: median and P95 on raw data, then on predictions."""

SHAPES: dict[Domain, tuple[int, int]] = {"PubMed": (30, 200), "OPUS": (31, 186), "ICLR": (29, 100)}
MEAN_SD = (0.18, 0.31)
SATURATED = (0.02, 0.03)
EARLIER_RMSE, LATER_RMSE = 0.117, 0.121
"""Clipped-linear at 33 % on PubMed in Table 3 and in Table 5."""


def domain_of(source: str) -> Domain | None:
    """The paper's domain of a results folder's name; None for one that the paper does not have."""
    name = source.lower()
    return next((domain for domain, marks in DOMAINS.items() if any(mark in name for mark in marks)), None)


@dataclass(frozen=True)
class PaperRow:
    """One figure. sd: ours over seeds (or resamples), None where ours is exact; sds: (ours − paper) / sd."""

    table: int
    row: str
    figure: str
    paper: float | None
    ours: float
    sd: float | None = None
    sds: float | None = None


@dataclass(frozen=True)
class PaperStudy:
    """The `paper` object of `youden study paper --json`: all rows by table; missing: tables, or parts, that the data given do
    not allow; disagreements: paper against its data."""

    seeds: int
    rows: tuple[PaperRow, ...]
    missing: tuple[str, ...]
    disagreements: tuple[str, ...]


def study_paper(
    worlds: Mapping[Domain, World],
    *,
    n_seeds: int = 20,
    n_draws: int = 500,
    judges: JudgesStudy | None = None,
    progress: Progress | None = None,
) -> PaperStudy:
    """Tables 1 to 6 over the domains given: row scores, holdout rule `own`, coincident resamples kept, as the paper has it.

    judges: two judges of one pool, standing in for the paper's second judge, whose answers are not public.

    Raises: ConfigError [paper-none] without a domain of the paper.
    """
    if not worlds:
        raise ConfigError(
            "None of the runs is a domain of the paper. Import pubmed_200_config_results, peer_review_results_100 or "
            "opus_translation_results with `youden import peer-prediction`.",
            slug="paper-none",
        )
    rows: list[PaperRow] = []
    studies = {domain: _sparsity(world, n_seeds=n_seeds, progress=progress) for domain, world in worlds.items()}
    for domain, world in worlds.items():
        rows += _curl(domain, world)
        rows += _differences(domain, world, n_draws=n_draws)
        rows += _fidelity(4, domain, DOMAIN_FIDELITY[domain], studies[domain])
    if "PubMed" in worlds:
        rows += _fidelity(3, "PubMed", FIDELITY, studies["PubMed"])
        rows += _baselines(worlds["PubMed"], n_seeds=n_seeds, progress=progress)
        rows += _judge_curl(worlds["PubMed"])
    if judges is not None:
        rows += _judges(judges)
    rows.sort(key=lambda row: row.table)
    return PaperStudy(n_seeds, tuple(rows), tuple(_missing(worlds, judges)), tuple(_disagreements(worlds, studies)))


def by_domain(sources: Mapping[str, World]) -> dict[Domain, World]:
    """Worlds by the paper's domain, from the paths they were imported from; others are left out.

    Raises: ConfigError [paper-twice] where two are the same domain.
    """
    found: dict[Domain, World] = {}
    for source, world in sources.items():
        domain = domain_of(PurePath(source).name)
        if domain in found:
            raise ConfigError(f"Two of the runs are {domain}. Give each domain once.", slug="paper-twice")
        if domain is not None:
            found[domain] = world
    return found


def _row(table: int, row: str, figure: str, paper: float | None, ours: Spread | None) -> Iterator[PaperRow]:
    if ours is not None:
        sds = (ours.mean - paper) / ours.sd if paper is not None and ours.sd else None
        yield PaperRow(table, row, figure, paper, ours.mean, ours.sd, sds)


def _sparsity(world: World, *, n_seeds: int, progress: Progress | None) -> SparsityStudy:
    K, J = world.pool.n_agents, world.pool.n_items
    c = COVERAGE * K * J / ((K + J) * log(K + J))
    return study_sparsity(
        world,
        regimes=[Regime("nlogn", {"c": c})],
        n_seeds=n_seeds,
        rule="own",
        groups=contrast(world),
        progress=progress,
    )


def _curl(domain: Domain, world: World) -> Iterator[PaperRow]:
    for link, facts in links_table(world.scores("row")).items():
        median, p95 = CURL[domain][link]
        yield PaperRow(1, domain, f"{link} median", median, facts.median)
        yield PaperRow(1, domain, f"{link} P95", p95, facts.p95)
        if facts.median_scaled is not None:
            yield PaperRow(1, domain, f"{link} median per SD", None, facts.median_scaled)


def _differences(domain: Domain, world: World, *, n_draws: int) -> Iterator[PaperRow]:
    rng = own_stream(0)
    for found in median_differences(world.scores("row"), rng=rng, coincident="keep", n_draws=n_draws):
        middle, low, high = DIFFERENCES[domain][found.first, found.second]
        name = f"{found.first} − {found.second}"
        sd = (found.high - found.low) / 3.92
        yield PaperRow(2, domain, name, middle, found.mean, sd, (found.mean - middle) / sd if sd else None)
        yield PaperRow(2, domain, f"{name}, low", low, found.low)
        yield PaperRow(2, domain, f"{name}, high", high, found.high)


def _fidelity(table: int, domain: Domain, paper: Mapping[str, float], study: SparsityStudy) -> Iterator[PaperRow]:
    dense, sparse = study.dense, study.rows[0]
    ours = {"dense RMSE": dense.rmse, "sparse RMSE": sparse.rmse, "ρ": sparse.rho, "τ": sparse.tau, "AUC": sparse.auc}
    ours |= {"dense AUC": dense.auc, "sparse AUC": sparse.auc}
    for figure, printed in paper.items():
        yield from _row(table, domain, figure, printed, ours[figure])


def _baselines(world: World, *, n_seeds: int, progress: Progress | None) -> Iterator[PaperRow]:
    groups = contrast(world)
    for row in study_baselines(world, n_seeds=n_seeds, rule="own", groups=groups, progress=progress).rows:
        paper = BASELINES.get(row.name, (None,) * 4)
        for figure, said, ours in zip(
            ("RMSE", "ρ", "τ", "AUC"), paper, (row.rmse, row.rho, row.tau, row.auc), strict=True
        ):
            yield from _row(5, row.name, figure, said, ours)


def _judge_curl(world: World) -> Iterator[PaperRow]:
    for link, paper in JUDGE_CURL.items():
        found = curl_of(world.scores("row"), link)
        names = ("median, data", "P95, data", "median, predictions", "P95, predictions")
        for name, said, value in zip(names, paper, astuple(found), strict=True):
            if value is not None:
                yield PaperRow(6, "PubMed, GPT-4o-mini", f"{link} {name}", said, value)


def _judges(study: JudgesStudy) -> Iterator[PaperRow]:
    for pair in study.pairs:
        name = f"{pair.one} / {pair.other}"
        if pair.ranking is not None:
            yield PaperRow(6, name, "agents ρ (the paper's .872 is of another judge)", None, pair.ranking.value)
        if pair.difficulty is not None:
            yield PaperRow(6, name, "items ρ (the paper's .687 is of another judge)", None, pair.difficulty.value)


def _missing(worlds: Mapping[Domain, World], judges: JudgesStudy | None) -> Iterator[str]:
    for domain in DOMAINS:
        if domain not in worlds:
            yield f"{domain}: no run given, so its rows of Tables 1, 2 and 4 are missing" + (
                ", and Tables 3, 5 and 6 whole." if domain == "PubMed" else "."
            )
    yield (
        "Table 6: the answers of the paper's second judge (Llama3-70b) are not public, so its column cannot be made"
        + (
            "; the two judges given stand in."
            if judges
            else ". Two judges of one pool stand in with --judges RUN --judges RUN."
        )
    )


def _disagreements(worlds: Mapping[Domain, World], studies: Mapping[Domain, SparsityStudy]) -> Iterator[str]:
    yield (
        "The appendix speaks of responses of the same agent; the data, and the critic that made them, ask for the same item. "
        "Ours is the item."
    )
    for domain, world in worlds.items():
        scores = world.scores("row")
        K, J = world.pool.n_agents, world.pool.n_items
        if SHAPES[domain] != (K, J):
            agents, items = SHAPES[domain]
            yield f"{domain}: the paper says {agents} agents × {items} items, the public files hold {K} × {J}."
        yield (
            f"{domain}: row scores have mean {np.nanmean(scores):.3f} and SD {np.nanstd(scores):.3f} (the paper: "
            f"{MEAN_SD[0]} and {MEAN_SD[1]}); {(np.abs(scores[~np.isnan(scores)]) == 1).mean():.2%} stand at "
            f"±1 (the paper: {SATURATED[0]:.0%} to {SATURATED[1]:.0%})."
        )
    yield "The paper's critic answers yes or no; its data are graded 1, .25 or 0."
    yield (
        "A median |Δ| that is two to seven times larger on logit compares units: divided by the SD of the transformed scores the "
        "medians lie within a few hundredths on PubMed and OPUS (Table 1, per SD)."
    )
    yield (
        "Table 2's intervals count rectangles of one agent or item drawn twice, whose Δ is 0; without "
        "them they lie further from 0."
    )
    if "PubMed" in worlds:
        yield (
            f"Clipped-linear at 33 % on PubMed is {EARLIER_RMSE} in Table 3 and {LATER_RMSE} in Table 5; a third "
            "of the training cells (27 % of all) gives the latter."
        )
        yield (
            "Table 5's order is no finding: under the paper's own holdout isotonic and probit are level with or ahead of the "
            "identity link, and rank-1 SVD and UV tie with it."
        )
    if (
        "PubMed" in studies
        and (sparse := studies["PubMed"].rows[0]).calls_unordered
        and studies["PubMed"].dense.calls_unordered
    ):
        share = sparse.calls_unordered.mean / studies["PubMed"].dense.calls_unordered.mean
        yield f"A third of the cells is not a third of the calls: on PubMed it takes {share:.0%} of the training pairs."
