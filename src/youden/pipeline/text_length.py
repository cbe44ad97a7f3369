"""Warn if a ranking or the answers behind it follow the length of the responses.

Answers are compared with the texts of the pool if it can still be read, abilities with the mean lengths that `pool.json` holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from scipy.special import stdtr

from youden.data.folder.run_files import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.engines.trial_blocks import Rows
from youden.errors import YoudenError
from youden.stats.base.metrics import rank_correlation
from youden.stats.judges.length_dependence import length_share
from youden.types import PAIRED, Finding
from youden.types.pool import Bools, Floats, Positions
from youden.types.trials import PROBE

MIN_AGENTS = 5
"""Smallest number of agents for which a rank correlation is computed."""
MAX_CORRELATION, ALPHA = 0.7, 0.01
"""A run warns if |ρ| (Spearman) of ability and mean length is at least this and significant at ALPHA: among five agents without
any relation, |ρ| reaches .7 in a quarter of the pools."""
MAX_SHARE = 0.5
"""A run warns if text length explains at least this share of the variance of answers. `lexical` reaches .3 on
datasets/field-notes, a judge that compares nothing but lengths .75 to .95 (`benchmarks/no_signal.py`)."""
MAX_TRIALS = 2_000_000
"""Trials above which answers are not compared with the texts."""


def length_correlation(ability: Floats, length: Floats | None) -> tuple[float, int] | None:
    """Correlate abilities with mean lengths of responses.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities, NaN for agents without one.
    length : float array (n_agents,) or None
        Mean words per response, NaN for agents without any; None if no text was seen.

    Returns
    -------
    tuple of (float, int), or None
        Spearman's ρ and the number of agents with both; None if fewer than 5 agents have both, or if ρ is undefined.
    """
    if length is None:
        return None
    has_both = ~np.isnan(ability + length)
    if has_both.sum() < MIN_AGENTS:
        return None
    rho = rank_correlation(ability[has_both], length[has_both])
    return None if np.isnan(rho) else (rho, int(has_both.sum()))


def follows_length(rho: float, n_agents: int) -> bool:
    """Return whether a rank correlation of ability and length is large, and significant by Student's t."""
    t = abs(rho) * np.sqrt((n_agents - 2) / max(1 - rho**2, np.finfo(np.float64).eps))
    return abs(rho) >= MAX_CORRELATION and 2 * float(stdtr(n_agents - 2, -t)) < ALPHA


def length_finding(rho: float, n_agents: int) -> Finding:
    """State how abilities correlate with length: a warning if the ranking follows length, else a note."""
    text = f"The ranking correlates with mean length at ρ = {rho:.2f}"
    if not follows_length(rho, n_agents):
        return Finding("length", f"{text}.", severity="note", facts={"correlation": rho})
    longer = "longer" if rho >= 0 else "shorter"
    return Finding(
        "length",
        f"{text}: agents with {longer} responses rank higher. Agreement cannot show whether their responses are better or only "
        "easier to match.",
        facts={"correlation": rho},
    )


def length_warnings(
    folder: RunFolder, pool: PoolSummary, rows: Rows, ability: Floats, *, n_trials: int
) -> Iterator[Finding]:
    """Yield warnings if the answers or the abilities of a judged run follow text length.

    Parameters
    ----------
    folder, pool : RunFolder, PoolSummary
        Folder of the run, and summary of its pool.
    rows : Rows
        Returns the rows of verdicts.parquet in chunks.
    ability : float array (n_agents,)
        Abilities of the ranking that heads the run.
    n_trials : int
        Number of trials of the plan.

    Yields
    ------
    Finding
        Warning with the slug `length`.
    """
    share = np.nan
    with suppress(YoudenError):  # a pool that is gone or damaged only leaves this check out
        if n_trials <= MAX_TRIALS and folder.has("config.yaml"):
            share = _share(folder, pool, rows)
    if share >= MAX_SHARE:
        yield Finding(
            "length",
            f"Text length explains {share:.0%} of the variance of the judge's answers: it seems to compare lengths, not "
            "contents. Use another judge, and check it with `youden calibrate`.",
            facts={"share": share},
        )
    correlation = length_correlation(ability, pool.mean_length)
    if correlation is not None and follows_length(*correlation):
        yield length_finding(*correlation)


def _share(folder: RunFolder, pool: PoolSummary, rows: Rows) -> float:
    """Compute `length_share` of the answered trials without probes; NaN if the pool has changed."""
    texts = folder.read_judged_pool()
    if texts.digest != pool.digest:
        return float("nan")
    answers: list[Floats] = []
    lengths: list[Positions] = []
    paired: list[Bools] = []
    for chunk in rows():
        used = (chunk["missing_reason"] == 0) & (chunk["role"] != PROBE)
        is_paired, item = chunk["trial_type"][used] == PAIRED, chunk["item"][used]
        items = {"first": item, "second": np.where(is_paired, item, chunk["other_item"][used])}
        side_lengths = []
        for side, side_item in items.items():
            repeat = chunk[f"{side}_repeat"][used] - 1 if f"{side}_repeat" in chunk else 0
            side_lengths.append(texts.all_lengths[chunk[side][used] + repeat * texts.n_agents, side_item])
        answers.append(chunk["answer"][used])
        lengths.append(np.stack(side_lengths))
        paired.append(is_paired)
    return length_share(np.concatenate(answers), *np.concatenate(lengths, axis=1), paired=np.concatenate(paired))
