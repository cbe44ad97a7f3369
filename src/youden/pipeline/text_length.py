"""Warn if a ranking, or the answers that it rests on, follow the length of the responses.

Answers are compared with the lengths of the texts, if the pool can still be read. Abilities are compared with the mean
lengths in `pool.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from youden.data.folder.pool_summary import PoolSummary
from youden.data.folder.run_folder import RunFolder
from youden.engines.trial_blocks import Rows
from youden.stats.base.metrics import rank_correlation
from youden.stats.judges.length_dependence import length_share
from youden.types import PAIRED, Finding, Pool
from youden.types.pool import Bools, Floats, Positions
from youden.types.trials import PROBE, SELF

MIN_AGENTS = 5
"""Smallest number of agents for which a rank correlation is computed."""
MAX_CORRELATION, ALPHA = 0.7, 0.01
"""A run warns if |ρ| (Spearman) of ability and mean length is at least MAX_CORRELATION and significant at ALPHA. The
size alone is not enough: if there is no relation, |ρ| still reaches .7 in a quarter of the pools of five agents."""
MAX_SHARE = 0.5
"""A run warns if text length explains at least this share of the variance of answers. The judge `lexical` reaches .1 on
datasets/field-notes; a judge that compares nothing but lengths reaches .75 to .95 (`benchmarks/no_signal.py`)."""
MAX_TRIALS = 2_000_000
"""Number of trials above which answers are not compared with the texts."""


def length_correlation(ability: Floats, length: Floats | None) -> tuple[float, int] | None:
    """Correlate abilities with mean lengths of responses.

    Parameters
    ----------
    ability : float array (n_agents,)
        Abilities, NaN for agents without one.
    length : float array (n_agents,) or None
        Mean words per response, NaN for agents without responses; None if the lengths are unknown.

    Returns
    -------
    tuple of (float, int), or None
        Spearman's ρ and the number of agents with ability and length. None if there are fewer than 5 such agents, or if
        ρ is undefined.
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
    # t = |ρ| · √((n − 2) / (1 − ρ²)); `eps` avoids a division by 0
    t = abs(rho) * np.sqrt((n_agents - 2) / max(1 - rho**2, np.finfo(np.float64).eps))
    p_value = 2 * float(stdtr(n_agents - 2, -t))
    return abs(rho) >= MAX_CORRELATION and p_value < ALPHA


def make_length_finding(rho: float, n_agents: int) -> Finding:
    """Report the correlation of abilities with the length of responses.

    The finding is a warning if the correlation is strong, otherwise a note.

    Parameters
    ----------
    rho : float
        Spearman's ρ of ability and mean length.
    n_agents : int
        Number of agents from which ρ is computed.

    Returns
    -------
    Finding
        Message with ρ, which is also its fact "correlation".
    """
    text = f"The ranking correlates with mean length at ρ = {rho:.2f}"
    if not follows_length(rho, n_agents):
        return Finding("length", f"{text}.", severity="note", facts={"correlation": rho})

    length = "longer" if rho >= 0 else "shorter"
    message = (
        f"{text}: agents with {length} responses rank higher. Agreement cannot show whether their responses are better or only "
        "easier to match."
    )
    return Finding("length", message, facts={"correlation": rho})


def iter_length_warnings(
    folder: RunFolder, pool: PoolSummary, iter_trials: Rows, ability: Floats, *, n_trials: int
) -> Iterator[Finding]:
    """Yield warnings about a judge or a ranking that follows the length of texts.

    The first warning is for a judge if the lengths of the texts explain at least half of the variance of its answers
    (`length_share`). The second one is for a ranking if Spearman's ρ of ability and mean number of words is at least .7 or at
    most −.7, and significant at the level .01. The first check is skipped if `read_answer_lengths` returns None or there are
    fewer than 100 answers. The second one is skipped if the pool has no lengths, or if there are fewer than 5 agents to
    compute ρ.

    folder : folder of the run
    pool : agents and items of the run, with the mean number of words in each agent's responses
    iter_trials : function that yields the trials of the run with their answers, in chunks of columns
    ability : float array (n_agents,), abilities of the main ranking; NaN for agents without one
    n_trials : number of trials of the run
    """
    answers = read_answer_lengths(folder, iter_trials, n_trials=n_trials)
    explained_share = 0.0
    if answers is not None:
        explained_share = length_share(
            answers.answer, answers.first_length, answers.second_length, paired=answers.is_paired
        )
    if explained_share >= MAX_SHARE:
        message = (
            f"Text length explains {explained_share:.0%} of the variance of the judge's answers: it seems to compare lengths, "
            "not contents. Use another judge, and check it with `youden calibrate`."
        )
        yield Finding("length", message, facts={"share": explained_share})

    correlation = length_correlation(ability, pool.mean_length)
    if correlation is not None and follows_length(*correlation):
        yield make_length_finding(*correlation)


class AnswerLengths(NamedTuple):
    """Answers to trials, with the lengths of the two compared texts in characters: arrays (n_answers,)."""

    answer: Floats
    first_length: Positions
    second_length: Positions
    is_paired: Bools
    """Whether the trial is paired, so that both texts respond to one item."""


def read_answer_lengths(folder: RunFolder, iter_trials: Rows, *, n_trials: int) -> AnswerLengths | None:
    """Read the answers of a run with the lengths of the compared texts.

    Only answered trials of two different agents count. Trials that were chosen for unusually similar texts (probes) are left
    out.

    folder : folder of the run
    iter_trials : function that yields the trials of the run with their answers, in chunks of columns
    n_trials : number of trials of the run

    Returns arrays (n_answers,): `answer`, from 0 to 1; `first_length` and `second_length`, the numbers of characters of the two
    texts; and `is_paired`, whether both texts respond to one item. Returns None if the run has more than 2,000,000 trials
    (`MAX_TRIALS`), or if its pool cannot be read or has changed since the run.
    """
    texts = None if n_trials > MAX_TRIALS else folder.find_judged_pool()
    if texts is None:
        return None

    chunks = [_find_answer_lengths(trials, texts) for trials in iter_trials()]
    return AnswerLengths(*map(np.concatenate, zip(*chunks, strict=True)))


def _find_answer_lengths(trials: Mapping[str, NDArray[Any]], texts: Pool) -> AnswerLengths:
    """Find the answers of a chunk of trials, and the lengths of the compared texts.

    Only answered trials of two different agents count. Trials that were chosen for unusually similar texts (probes) are left
    out.

    trials : columns of the trials, by name
    texts : pool with the texts
    """
    is_used = (trials["missing_reason"] == 0) & ~np.isin(trials["role"], (PROBE, SELF))
    is_paired = trials["trial_type"][is_used] == PAIRED
    first_item = trials["item"][is_used]
    second_item = np.where(is_paired, first_item, trials["other_item"][is_used])

    # the table of lengths has one row per agent and response, and one column per item
    first_row = _find_rows_of_texts(trials["first"], trials.get("first_repeat"), texts.n_agents)
    second_row = _find_rows_of_texts(trials["second"], trials.get("second_repeat"), texts.n_agents)
    first_length = texts.all_lengths[first_row[is_used], first_item]
    second_length = texts.all_lengths[second_row[is_used], second_item]
    return AnswerLengths(trials["answer"][is_used], first_length, second_length, is_paired)


def _find_rows_of_texts(agent: Positions, response_number: Positions | None, n_agents: int) -> Positions:
    """Find the row of `Pool.all_lengths` with the length of each text.

    The rows of `Pool.all_lengths` are response 1 of all agents, then response 2 of all agents, and so on.

    agent : int array (n_texts,), agent of each text
    response_number : int array (n_texts,), number of the response that the text is, from 1; None if agents have one response per
        item
    n_agents : number of agents of the pool

    Returns an int array (n_texts,).
    """
    if response_number is None:
        return agent
    return np.asarray(agent + (response_number - 1) * n_agents)
