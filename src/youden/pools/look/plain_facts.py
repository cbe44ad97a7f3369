"""What every text of a pool says of itself at a glance: whether it is there, how long it is, whether it was read right."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from youden.nouns import Pool
from youden.pools.look.findings import Finding, listed

LONG_CHARACTERS = 100_000
BLANK_SHARE = 0.05
FEW_ITEMS = 0.5

LONG_WINDED = 2.5
CURT = 0.08
"""An agent's median answer, in characters, as a share of the usual answer to the item: over the first it is long-winded, under
the second curt. Honest agents, in words: .2 to 1.9 on SAMSum, .28 to 1.6 on AlpacaEval."""

LEAST_ITEMS = 8
LEAST_AGENTS = 4
DAMAGED = ("\ufffd", "\x00")


def lengths(pool: Pool) -> NDArray[np.int64]:
    """int[K, J]: characters of each response, −1 where there is none."""
    return np.array([[-1 if text is None else len(text) for text in row] for row in pool.texts], dtype=np.int64)


def plain_findings(pool: Pool, length: NDArray[np.int64]) -> list[Finding]:
    """Gaps, blanks, very long texts, damaged characters, ids that look the same."""
    return [
        *_small(pool),
        *_gaps(pool),
        *_blank(pool),
        *_long(pool, length),
        *_out_of_proportion(pool, length),
        *_damaged(pool),
        *_ids_alike("agent", tuple(agent.id for agent in pool.agents)),
        *_ids_alike("item", tuple(item.id for item in pool.items)),
    ]


def _small(pool: Pool) -> list[Finding]:
    if pool.n_agents >= 3 and pool.n_items >= 2:
        return []
    return [
        Finding(
            "pool-small",
            f"There are {pool.n_agents} agents and {pool.n_items} items.",
            "Nothing can be ranked: a ranking needs 3 agents and 2 items.",
            "Add agents or items.",
        )
    ]


def _gaps(pool: Pool) -> list[Finding]:
    n_items = pool.present.sum(axis=1)
    n_agents = pool.present.sum(axis=0)
    findings = []
    few = tuple(agent.id for agent, n in zip(pool.agents, n_items, strict=True) if n < FEW_ITEMS * pool.n_items)
    if few:
        findings.append(
            Finding(
                "gaps",
                f"{len(few)} agents answer less than half of the items: {listed(few)}.",
                "They are compared on fewer items than the rest: where those are easy, a mean score takes that for ability. "
                "Their intervals are wide.",
                "Complete them, or rank with `design: dense`, whose fit separates ability from difficulty.",
                agents=few,
                measure=float(n_items.min() / pool.n_items),
            )
        )
    alone = tuple(item.id for item, n in zip(pool.items, n_agents, strict=True) if n < 2)
    if alone:
        findings.append(
            Finding(
                "items-alone",
                f"{len(alone)} items are answered by fewer than two agents: {listed(alone)}.",
                "They give no pair, so they add nothing to the ranking; items that do not line up between files look like this.",
                "See whether the ids mean the same in all files, or drop the items.",
                items=alone,
            )
        )
    together = pool.present.astype(np.float32)
    shared = together @ together.T
    np.fill_diagonal(shared, 1)
    if pool.n_items and (shared == 0).any():
        apart = tuple(pool.agents[k].id for k in np.flatnonzero((shared == 0).any(axis=1)))
        findings.append(
            Finding(
                "nothing-shared",
                f"Some agents have no item in common with some other: {listed(apart)}.",
                "They are never compared directly; without a chain of common partners their places cannot be compared at all.",
                "Let all agents answer at least a few common items.",
                agents=apart,
            )
        )
    return findings


def _blank(pool: Pool) -> list[Finding]:
    blank = np.array([sum(text is not None and not text.strip() for text in row) for row in pool.texts])
    n_own = np.maximum(1, pool.present.sum(axis=1))
    named = tuple(pool.agents[k].id for k in np.flatnonzero(blank >= np.maximum(1, BLANK_SHARE * n_own)))
    if not named:
        return []
    return [
        Finding(
            "blank",
            f"{int(blank.sum()):,} responses are empty or white space, most of them by {listed(named)}.",
            "A blank response is judged like any other: its paired calls get a no, so it counts against the agent.",
            "If the agent did not answer, leave the row out, which makes the cell missing; if it refused, leave it as it is.",
            agents=named,
            measure=float((blank / n_own).max()),
        )
    ]


def _long(pool: Pool, length: NDArray[np.int64]) -> list[Finding]:
    long = length > LONG_CHARACTERS
    if not long.any():
        return []
    agents = tuple(pool.agents[k].id for k in np.flatnonzero(long.any(axis=1)))
    return [
        Finding(
            "long",
            f"{int(long.sum()):,} responses are longer than {LONG_CHARACTERS:,} characters (the longest {length.max():,}), by "
            f"{listed(agents)}.",
            "They may not fit a judge's context; such calls are not asked and count as missing, and those that fit cost most.",
            "See whether they are responses at all; shorten them, or set `context` in the judge's config.",
            agents=agents,
            items=tuple(pool.items[j].id for j in np.flatnonzero(long.any(axis=0))),
            measure=float(length.max()),
        )
    ]


def _out_of_proportion(pool: Pool, length: NDArray[np.int64]) -> list[Finding]:
    if pool.n_agents < LEAST_AGENTS or pool.n_items < LEAST_ITEMS:
        return []
    there = np.where(length >= 0, length, np.nan)
    answered = np.flatnonzero(pool.present.any(axis=0))
    ratio = there[:, answered] / np.maximum(1.0, np.nanmedian(there[:, answered], axis=0))
    usual = np.array([np.median(row[~np.isnan(row)]) if (~np.isnan(row)).any() else 1.0 for row in ratio])
    long, curt = np.flatnonzero(usual >= LONG_WINDED), np.flatnonzero(usual <= CURT)
    findings = []
    if len(long):
        ids = tuple(pool.agents[k].id for k in long)
        findings.append(
            Finding(
                "long-winded",
                f"{listed(ids)} answer at length: the median answer is up to {usual[long].max():.1f} times as long as the usual "
                "one.",
                "A long answer shares words with more of the others, so judges who are fond of length rank it higher.",
                "Read a few of the answers for padding; see how the ranking goes with length before believing these places.",
                agents=ids,
                measure=float(usual[long].max()),
            )
        )
    if len(curt):
        ids = tuple(pool.agents[k].id for k in curt)
        findings.append(
            Finding(
                "curt",
                f"{listed(ids)} hardly answer: the median answer is {usual[curt].min():.1%} as long as the usual one.",
                "There is next to nothing to compare, so such an agent ranks low.",
                "See whether the import cut its answers.",
                agents=ids,
                measure=float(usual[curt].min()),
            )
        )
    return findings


def _damaged(pool: Pool) -> list[Finding]:
    bad = np.array(
        [sum(text is not None and any(mark in text for mark in DAMAGED) for text in row) for row in pool.texts]
    )
    if not bad.any():
        return []
    agents = tuple(pool.agents[k].id for k in np.flatnonzero(bad))
    return [
        Finding(
            "damaged",
            f"{int(bad.sum()):,} responses hold a replacement character (U+FFFD) or a null, by {listed(agents)}.",
            "The file was once read in the wrong encoding; damaged words match nobody's and pull these agents down.",
            "Import the original file again in its own encoding.",
            agents=agents,
        )
    ]


def _ids_alike(noun: str, ids: tuple[str, ...]) -> list[Finding]:
    seen: defaultdict[str, list[str]] = defaultdict(list)
    for name in ids:
        seen["".join(name.split()).casefold()].append(name)
    alike = tuple(name for names in seen.values() if len(names) > 1 for name in names)
    if not alike:
        return []
    return [
        Finding(
            "ids-alike",
            f"Some {noun} ids differ by case or spaces only: {listed(alike)}.",
            "If they mean the same, the pool has two half-filled rows where it should have one, and their pairs are never made.",
            f"Spell each {noun} one way in all files.",
            agents=alike if noun == "agent" else (),
            items=alike if noun == "item" else (),
        )
    ]
