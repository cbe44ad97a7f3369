"""Reproduce the tables of the paper, and list where the paper and its data disagree.

Figures that the public data do not allow are reported as missing. Source: 'Identity-Link IRT for Label-Free LLM
Evaluation', Tables 1 to 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from math import log
from pathlib import PurePath
from typing import Literal

import numpy as np

from youden.errors import ConfigError
from youden.stats.curl.link_table import compare_links
from youden.stats.curl.quantiles import median_differences
from youden.streams import standalone_stream
from youden.study.agreement import JudgesStudy, measure_curl_on_link
from youden.study.baseline_table import study_baselines
from youden.study.grid import SeedSummary
from youden.study.known_groups import find_contrast
from youden.study.replaying import RecordedAnswers
from youden.study.sparsity import Regime, SparsityStudy, study_sparsity
from youden.types import Progress

Domain = Literal["PubMed", "OPUS", "ICLR"]
DOMAINS: dict[Domain, tuple[str, ...]] = {
    "PubMed": ("pubmed",),
    "OPUS": ("opus",),
    "ICLR": ("peer_review", "iclr"),
}
"""Parts of the name of a results folder, by domain."""

COVERAGE = 0.3335
"""Share of 30 × 200 cells that the n log n design with C = 1.6 covers."""

CURL: dict[Domain, dict[str, tuple[float, float]]] = {
    "PubMed": {"identity": (0.129, 0.474), "probit": (0.245, 0.825), "logit": (0.438, 1.454)},
    "OPUS": {"identity": (0.150, 0.492), "probit": (0.268, 0.862), "logit": (0.479, 1.547)},
    "ICLR": {"identity": (0.080, 0.580), "probit": (0.286, 1.188), "logit": (0.588, 2.252)},
}
"""Table 1: median and 95th percentile of |Δ|."""

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
"""Table 2: difference of medians, and its confidence bounds."""

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
"""Table 6, GPT-4o-mini on PubMed: median and 95th percentile on raw data, then on predictions."""

SHAPES: dict[Domain, tuple[int, int]] = {"PubMed": (30, 200), "OPUS": (31, 186), "ICLR": (29, 100)}
MEAN_SD = (0.18, 0.31)
SATURATED = (0.02, 0.03)
TABLE_3_RMSE, TABLE_5_RMSE = 0.117, 0.121
"""RMSE of clipped-linear at 33% on PubMed in Table 3 and in Table 5."""


def find_domain(source: str) -> Domain | None:
    """Find the paper's domain by the name of a results folder; None if it is not one of the paper's."""
    name = source.lower()
    for domain, marks in DOMAINS.items():
        if any(mark in name for mark in marks):
            return domain
    return None


@dataclass(frozen=True)
class PaperRow:
    """One figure of the paper, compared with the value computed here.

    Attributes
    ----------
    table : int
        Number of the table.
    row, figure : str
        Row and column.
    paper : float or None
        Value in the paper, if it has one.
    value, sd : float, float or None
        Value computed here, and its standard deviation over seeds or resamples; the latter is None if the value is exact.
    sds : float or None
        (value − paper) / sd.
    """

    table: int
    row: str
    figure: str
    paper: float | None
    value: float
    sd: float | None = None
    sds: float | None = None


@dataclass(frozen=True)
class PaperStudy:
    """The `paper` object of `youden study paper --json`.

    Attributes
    ----------
    seeds : int
        Number of seeds.
    rows : tuple of PaperRow
        Figures, ordered by table.
    missing : tuple of str
        Tables, or parts of them, that the given runs do not allow.
    disagreements : tuple of str
        Differences between the paper and its data.
    """

    seeds: int
    rows: tuple[PaperRow, ...]
    missing: tuple[str, ...]
    disagreements: tuple[str, ...]


def study_paper(
    recorded: Mapping[Domain, RecordedAnswers],
    *,
    n_seeds: int = 20,
    n_draws: int = 500,
    judges: JudgesStudy | None = None,
    progress: Progress | None = None,
) -> PaperStudy:
    """Reproduce Tables 1 to 6 of the paper for the given domains.

    Parameters
    ----------
    recorded : mapping of str to RecordedAnswers
        Answers of the paper's runs by domain, one or more of "PubMed", "OPUS" and "ICLR" (see `group_by_domain`). Other keys
        raise a KeyError.
    n_seeds : int, default 20
        Number of random splits, at least 1.
    n_draws : int, default 500
        Number of bootstrap resamples for the intervals of Table 2, at least 20.
    judges : JudgesStudy, optional
        Comparison of two judges on one pool. It replaces the paper's second judge, whose answers are not public. Default:
        the rows of the second judge are listed as missing.
    progress : Progress, optional
        Receiver of progress updates.

    Returns
    -------
    PaperStudy
        The values of the tables, compared with the values in the paper; the values that cannot be computed from these
        domains; and disagreements between the paper and its data.

    Raises
    ------
    ConfigError
        [paper-none] if no domain is given.
    StatisticsError
        [study-seeds] if `n_seeds` is below 1; [bootstrap-draws] if `n_draws` is below 20.

    Notes
    -----
    As in the paper, scores are row scores, the holdout rule is `paper`, and duplicates in a resample are kept.
    """
    if not recorded:
        raise ConfigError(
            "None of the runs is of a domain of the paper. Import pubmed_200_config_results, peer_review_results_100 or "
            "opus_translation_results with `youden import peer-prediction`.",
            slug="paper-none",
        )

    studies = {
        domain: _study_sparsity(answers, n_seeds=n_seeds, progress=progress) for domain, answers in recorded.items()
    }
    rows: list[PaperRow] = []
    for domain, answers in recorded.items():
        rows += _iter_curl_rows(domain, answers)
        rows += _iter_difference_rows(domain, answers, n_draws=n_draws)
        rows += _iter_fidelity_rows(4, domain, DOMAIN_FIDELITY[domain], studies[domain])
    if "PubMed" in recorded:
        rows += _iter_fidelity_rows(3, "PubMed", FIDELITY, studies["PubMed"])
        rows += _iter_baseline_rows(recorded["PubMed"], n_seeds=n_seeds, progress=progress)
        rows += _iter_judge_curl_rows(recorded["PubMed"])
    if judges is not None:
        rows += _iter_judge_rows(judges)
    rows.sort(key=lambda row: row.table)

    missing, disagreements = _list_missing(recorded, judges), _list_disagreements(recorded, studies)
    return PaperStudy(n_seeds, tuple(rows), tuple(missing), tuple(disagreements))


def group_by_domain(recorded: Mapping[str, RecordedAnswers]) -> dict[Domain, RecordedAnswers]:
    """Assign recorded answers to the data sets of the paper by the names of their files.

    The data sets are called domains: PubMed, OPUS and ICLR.

    Parameters
    ----------
    recorded : mapping of str to RecordedAnswers
        Answers by the path that their run was imported from.

    Returns
    -------
    dict of str to RecordedAnswers
        Answers by domain. Answers from other sources are left out.

    Raises
    ------
    ConfigError
        [paper-duplicate] if two sources have the same domain.
    """
    by_domain: dict[Domain, RecordedAnswers] = {}
    for source, answers in recorded.items():
        domain = find_domain(PurePath(source).name)
        if domain in by_domain:
            raise ConfigError(f"Two runs are of the domain {domain}. Remove one of them.", slug="paper-duplicate")
        if domain is not None:
            by_domain[domain] = answers
    return by_domain


def _compare_with_paper(
    table: int, row: str, measure: str, paper_value: float | None, reproduced: SeedSummary | None
) -> Iterator[PaperRow]:
    """Compare a value in a table of the paper with the value that was reproduced over several seeds.

    table : number of the table in the paper
    row, measure : labels of the row and the column of the value
    paper_value : value in the paper; None if the paper has no such value
    reproduced : mean and standard deviation over seeds; None if the value was not reproduced

    Yields one row, with the difference of the two values in standard deviations over seeds, or nothing if the value was not
    reproduced.
    """
    if reproduced is None:
        return
    difference_in_sds = None
    if paper_value is not None and reproduced.sd:
        difference_in_sds = (reproduced.mean - paper_value) / reproduced.sd
    yield PaperRow(
        table, row, measure, paper=paper_value, value=reproduced.mean, sd=reproduced.sd, sds=difference_in_sds
    )


def _study_sparsity(recorded: RecordedAnswers, *, n_seeds: int, progress: Progress | None) -> SparsityStudy:
    """Study the n log n design at the share of cells that the paper uses."""
    n_agents, n_items = recorded.pool.n_agents, recorded.pool.n_items
    # c·(K + J)·log(K + J) cells
    c = COVERAGE * n_agents * n_items / ((n_agents + n_items) * log(n_agents + n_items))
    return study_sparsity(
        recorded,
        regimes=[Regime("nlogn", {"c": c})],
        n_seeds=n_seeds,
        rule="paper",
        groups=find_contrast(recorded),
        progress=progress,
    )


def _iter_curl_rows(domain: Domain, recorded: RecordedAnswers) -> Iterator[PaperRow]:
    """Yield the rows of Table 1: the curl of scores (their deviation from additivity) by link."""
    for link, facts in compare_links(recorded.scores("row")).items():
        median, p95 = CURL[domain][link]
        yield PaperRow(1, domain, f"{link} median", median, facts.median)
        yield PaperRow(1, domain, f"{link} P95", p95, facts.p95)
        if facts.median_scaled is not None:
            yield PaperRow(1, domain, f"{link} median per SD", None, facts.median_scaled)


def _iter_difference_rows(domain: Domain, recorded: RecordedAnswers, *, n_draws: int) -> Iterator[PaperRow]:
    """Yield the rows of Table 2 of the paper: differences in median curl (deviation from additivity) between link functions.

    domain : data set of the paper
    recorded : recorded answers of this data set
    n_draws : number of bootstrap resamples
    """
    rng = standalone_stream(0)
    for difference in median_differences(recorded.scores("row"), rng=rng, coincident="keep", n_draws=n_draws):
        paper_mean, paper_low, paper_high = DIFFERENCES[domain][difference.first, difference.second]
        links = f"{difference.first} − {difference.second}"
        std_error = (difference.high - difference.low) / 3.92  # a 95% interval is 2 · 1.96 standard errors wide
        errors_from_paper = (difference.mean - paper_mean) / std_error if std_error else None
        yield PaperRow(2, domain, links, paper=paper_mean, value=difference.mean, sd=std_error, sds=errors_from_paper)
        yield PaperRow(2, domain, f"{links}, low", paper=paper_low, value=difference.low)
        yield PaperRow(2, domain, f"{links}, high", paper=paper_high, value=difference.high)


def _iter_fidelity_rows(
    table: int, domain: Domain, paper_values: Mapping[str, float], study: SparsityStudy
) -> Iterator[PaperRow]:
    """Yield the rows of Table 3 or 4 of the paper: prediction errors, rank correlations and AUC.

    table : number of the table
    domain : data set of the paper
    paper_values : values in the paper by name of the measure, such as "sparse RMSE"
    study : reproduced measures of the fit to all training scores ("dense") and of the fit to some of them ("sparse")
    """
    dense = study.dense
    sparse = study.rows[0]
    reproduced = {
        "dense RMSE": dense.rmse,
        "sparse RMSE": sparse.rmse,
        "ρ": sparse.rho,
        "τ": sparse.tau,
        "AUC": sparse.auc,
        "dense AUC": dense.auc,
        "sparse AUC": sparse.auc,
    }
    for measure, paper_value in paper_values.items():
        yield from _compare_with_paper(table, domain, measure, paper_value, reproduced[measure])


def _iter_baseline_rows(recorded: RecordedAnswers, *, n_seeds: int, progress: Progress | None) -> Iterator[PaperRow]:
    """Yield the rows of Table 5 of the paper, one for each estimator and each of the measures RMSE, ρ, τ and AUC.

    recorded : answers of one data set of the paper
    n_seeds : number of random holdouts
    progress : receiver of progress updates
    """
    known_groups = find_contrast(recorded)  # for the AUC: faithful agents against strategic and low-effort ones
    study = study_baselines(recorded, n_seeds=n_seeds, rule="paper", groups=known_groups, progress=progress)
    not_in_paper = (None, None, None, None)
    for estimator in study.rows:
        name = estimator.name
        rmse, rho, tau, auc = BASELINES.get(name, not_in_paper)
        yield from _compare_with_paper(5, name, "RMSE", rmse, estimator.rmse)
        yield from _compare_with_paper(5, name, "ρ", rho, estimator.rho)
        yield from _compare_with_paper(5, name, "τ", tau, estimator.tau)
        yield from _compare_with_paper(5, name, "AUC", auc, estimator.auc)


def _iter_judge_curl_rows(recorded: RecordedAnswers) -> Iterator[PaperRow]:
    """Yield the rows of Table 6 on curl, for the paper's first judge."""
    names = ("median, data", "P95, data", "median, predictions", "P95, predictions")
    for link, paper in JUDGE_CURL.items():
        curl = measure_curl_on_link(recorded.scores("row"), link)
        for name, value, reproduced in zip(names, paper, astuple(curl), strict=True):
            if reproduced is not None:
                yield PaperRow(6, "PubMed, GPT-4o-mini", f"{link} {name}", value, reproduced)


def _iter_judge_rows(study: JudgesStudy) -> Iterator[PaperRow]:
    """Yield the rows of Table 6 on the agreement of two judges."""
    for pair in study.pairs:
        name = f"{pair.judge_a} / {pair.judge_b}"
        if pair.ranking is not None:
            yield PaperRow(6, name, "agents ρ (the paper's .872 is of another judge)", None, pair.ranking.value)
        if pair.difficulty is not None:
            yield PaperRow(6, name, "items ρ (the paper's .687 is of another judge)", None, pair.difficulty.value)


def _list_missing(recorded: Mapping[Domain, RecordedAnswers], judges: JudgesStudy | None) -> Iterator[str]:
    """Yield one sentence about each table of the paper that cannot be reproduced from the given runs.

    recorded : answers of the given runs by data set of the paper
    judges : comparison of several judges, if runs for it are given
    """
    for domain in DOMAINS:
        if domain not in recorded:
            other_tables = ", and all of Tables 3, 5 and 6" if domain == "PubMed" else ""
            yield f"{domain}: no run given, so its rows of Tables 1, 2 and 4 are missing{other_tables}."
    reason = "Table 6: the answers of the paper's second judge (Llama3-70b) are not public, so its column cannot be reproduced"
    if judges:
        yield f"{reason}; the two given judges replace it."
    else:
        yield f"{reason}. Pass two judges of one pool instead, with --judges RUN --judges RUN."


def _list_disagreements(
    recorded: Mapping[Domain, RecordedAnswers], studies: Mapping[Domain, SparsityStudy]
) -> Iterator[str]:
    """List the differences between the paper and its data, in sentences."""
    yield (
        "The appendix compares responses of the same agent; the data, and the critic that made them, responses to the same item. "
        "We use the item."
    )
    for domain, answers in recorded.items():
        n_agents, n_items = answers.pool.n_agents, answers.pool.n_items
        if SHAPES[domain] != (n_agents, n_items):
            paper_agents, paper_items = SHAPES[domain]
            yield (
                f"{domain}: the paper says {paper_agents} agents × {paper_items} items, the public files hold "
                f"{n_agents} × {n_items}."
            )
        scores = answers.scores("row")
        saturated_share = (np.abs(scores[~np.isnan(scores)]) == 1).mean()
        yield (
            f"{domain}: row scores have mean {np.nanmean(scores):.3f} and SD {np.nanstd(scores):.3f} (the paper: "
            f"{MEAN_SD[0]} and {MEAN_SD[1]}); {saturated_share:.2%} are at "
            f"±1 (the paper: {SATURATED[0]:.0%} to {SATURATED[1]:.0%})."
        )
    yield "The paper's critic answers yes or no; its data are graded 1, .25 or 0."
    yield (
        "A median |Δ| that is two to seven times larger on logit compares different units: divided by the SD of the transformed "
        "scores, the medians are within a few hundredths on PubMed and OPUS (Table 1, per SD)."
    )
    yield (
        "Table 2's intervals count rectangles of one agent or item drawn twice, whose Δ is 0; without "
        "them, they are further from 0."
    )
    if "PubMed" in recorded:
        yield (
            f"Clipped-linear at 33% on PubMed is {TABLE_3_RMSE} in Table 3 and {TABLE_5_RMSE} in Table 5; a third "
            "of the training cells (27% of all) gives the latter."
        )
        yield (
            "The order in Table 5 is not significant: under the paper's own holdout, isotonic and probit are equal to or better "
            "than the identity link, and rank-1 SVD and UV tie with it."
        )
    if "PubMed" in studies:
        sparse, dense = studies["PubMed"].rows[0], studies["PubMed"].dense
        if sparse.calls_unordered and dense.calls_unordered:
            share = sparse.calls_unordered.mean / dense.calls_unordered.mean
            yield f"A third of the cells is not a third of the calls: on PubMed, it needs {share:.0%} of the training pairs."
