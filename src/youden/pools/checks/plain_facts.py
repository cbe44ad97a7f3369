"""Plain facts of responses: whether they are there, their lengths, languages, and agents that answer in lists of words.

Languages are told by `py3langid` from a few responses an agent. Function words are those that come back in an agent's own
answers, whatever its language; where scripts or tasks leave few of them to the usual agent, nothing is said of keywords.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from youden.errors import ConfigError
from youden.pools.checks.checked import SampledTexts, listed
from youden.pools.checks.repeated import repeat_findings
from youden.streams import own_stream
from youden.text.sentences import counted
from youden.types import Finding, Pool
from youden.types.pool import Floats

STANDS_IN = re.compile(
    r"\s*(#(REF!|N/A|VALUE!|NAME\?|DIV/0!|NULL!|NUM!|SPILL!|CALC!)|nan|null|none|undefined|\[object Object\])\s*",
    re.IGNORECASE,
)
"""What a spreadsheet shows where a formula failed, and what programs print for nothing."""
AN_AGENT = 12
MOST = 6_000
LEAST_CHARACTERS = 40
LEAST_TEXTS = 3
CHARACTERS = 600


@dataclass(frozen=True)
class Languages:
    """languages: code (ISO 639-1) → agents that mostly answer in it, most first."""

    languages: dict[str, int]
    findings: tuple[Finding, ...]


def find_languages(looked: SampledTexts, *, seed: int = 0) -> Languages:
    """The language that most of an agent's responses looked at are in, and the agents in another than most agents'.

    Raises: ConfigError [languages-missing] where `py3langid` is not installed.
    """
    try:
        classify = import_module("py3langid").classify
    except ModuleNotFoundError as error:
        raise ConfigError(
            "Languages are told apart by the package `py3langid`, which is not installed. Install youden[pools].",
            slug="languages-missing",
        ) from error
    rng = own_stream(seed)
    n = max(LEAST_TEXTS, min(AN_AGENT, MOST // max(1, looked.pool.n_agents)))
    spoken: dict[int, str] = {}
    for k, row in enumerate(looked.pool.texts[:, looked.items]):
        texts = [text for text in row if text is not None and len(text) >= LEAST_CHARACTERS]
        if len(texts) >= LEAST_TEXTS:
            chosen = rng.permutation(len(texts))[:n]
            codes = Counter(str(classify(texts[c][:CHARACTERS])[0]) for c in chosen)
            code, count = codes.most_common(1)[0]
            if count > len(chosen) / 2:
                spoken[k] = code
    counts = Counter(spoken.values())
    if len(counts) < 2:
        return Languages(dict(counts), ())
    usual, n_usual = counts.most_common(1)[0]
    others = tuple(looked.pool.agents[k].id for k, code in spoken.items() if code != usual)
    said = ", ".join(f"{code} ({count})" for code, count in counts.most_common())
    return Languages(
        dict(counts.most_common()),
        (
            Finding(
                "languages",
                f"Agents answer in several languages: {said}. Not in {usual}: {listed(others)}.",
                "Pairs across languages share no words, so `lexical` puts the smaller language last whatever it says; a model "
                "judge compares them less surely than within a language.",
                "Rank each language for itself, or translate before ranking.",
                agents=others,
                facts={"share": 1 - n_usual / len(spoken)},
            ),
        ),
    )


COMES_BACK = 0.2
"""A word is a function word of an agent if it stands in this share of its answers, or in more."""

FEW = 0.15
"""An agent lists keywords if the share of function words in its median answer is under this part of the usual agent's.

No honest agent of SAMSum, AlpacaEval, MT-Bench or field-notes (telegram style among them) is under it.
"""

USUAL = 0.1
"""Where the usual agent's share of function words is lower than this, nobody is named."""

RARE = 0.1
"""A word is rare if it stands in the prompts, and in the answers, of less than this share of the items."""

LISTED = 0.5
"""Share of the prompt's rare words (25 of them at most) that an agent's median answer says in one go, with none between.

Honest agents: at most .25. A weak answer and 25 rare words of the prompt: .9 to 1.
"""

MOST_RARE = 25
LEAST_RARE = 4
LEAST_WORDS = 10
LEAST_ITEMS = 8
LEAST_AGENTS = 4


def find_word_lists(looked: SampledTexts) -> Iterator[Finding]:
    """One finding for all agents that list keywords, and one for all that list their prompts' words."""
    pool = looked.pool
    if len(looked.items) < LEAST_ITEMS or pool.n_agents < LEAST_AGENTS:
        return
    functional = looked.agent_medians(function_words(looked))
    known = functional[~np.isnan(functional)]
    usual = float(np.median(known)) if known.size else 0.0
    keywords = np.flatnonzero(functional < FEW * usual)
    if usual >= USUAL and len(keywords):
        ids = tuple(pool.agents[k].id for k in keywords)
        share = float(functional[keywords].max())
        yield Finding(
            "keywords",
            f"{listed(ids, most=20)} list keywords: {share:.0%} of the words in the median answer are function "
            f"words, such as 'the' or 'of'; the usual agent has {usual:.0%}.",
            "A list of the words that an item calls for agrees with every answer that uses them, and says nothing.",
            "Read a few of the answers; leave the agent out if it was asked for sentences.",
            agents=ids,
            facts={"share": share},
        )
    listing = looked.agent_medians(prompt_words(looked))
    named = np.flatnonzero(listing >= LISTED)
    if len(named):
        ids = tuple(pool.agents[k].id for k in named)
        share = float(listing[named].min())
        yield Finding(
            "prompt-words",
            f"{listed(ids, most=20)} list words of the prompt: the median answer says {share:.0%} or more of its rare words "
            "one after the other.",
            "Rare words of the prompt stand in every answer that keeps to it, so such a list agrees with all of them.",
            "Read a few of the answers; leave the agent out if the list was added to be found alike.",
            agents=ids,
            facts={"share": share},
        )


def function_words(looked: SampledTexts) -> Floats:
    """float[R]: the share of a text's words that stand in a fifth or more of its agent's texts; NaN for a text of few words, and
    for all of an agent whose texts mostly are."""
    shares = np.full(len(looked), np.nan)
    for k in range(looked.pool.n_agents):
        own = np.flatnonzero(looked.agent_of == k)
        if len(own) < LEAST_ITEMS or np.median(looked.n_words[own]) < LEAST_WORDS:
            continue
        back = np.asarray(looked.holds[own].sum(axis=0)) >= COMES_BACK * len(own)
        for r in own:
            if looked.n_words[r] >= LEAST_WORDS:
                shares[r] = back[looked.texts.ids[looked.texts.start[r] : looked.texts.start[r + 1]]].mean()
    return shares


def prompt_words(looked: SampledTexts) -> Floats:
    """float[R]: the longest stretch of a text that is rare words of its prompt only, as a share of them (of 25 at most).

    NaN where the prompt has fewer than four rare words, or there is none.
    """
    n_items = len(looked.items)
    in_prompts: Floats = np.asarray(looked.prompt_holds.sum(axis=0), dtype=np.float64)
    rare = (in_prompts < RARE * n_items) & (np.exp(-looked.idf) < RARE)
    shares = np.full(len(looked), np.nan)
    for m, (low, high) in enumerate(looked.spans):
        asked = looked.prompt_holds[[m]].indices
        asked = asked[rare[asked]]
        if len(asked) < LEAST_RARE:
            continue
        start = looked.texts.start[low : high + 1]
        inside = np.isin(looked.texts.ids[start[0] : start[-1]], asked)
        for r in range(low, high):
            own = inside[start[r - low] - start[0] : start[r - low + 1] - start[0]]
            breaks = np.flatnonzero(np.concatenate([[True], ~own, [True]]))
            shares[r] = (np.diff(breaks).max() - 1) / min(MOST_RARE, len(asked))
    return shares


LONG_CHARACTERS = 100_000
BLANK_SHARE = 0.05
FEW_ITEMS = 0.5

LONG_WINDED = 2.5
CURT = 0.08
"""An agent's median answer, in characters, as a share of the usual answer to the item: over the first it is long-winded, under
the second curt. Honest agents, in words: .2 to 1.9 on SAMSum, .28 to 1.6 on AlpacaEval."""

LEAST_ITEMS_OF_PLAIN_FACTS = 8
LEAST_AGENTS_OF_PLAIN_FACTS = 4
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
        *_stand_ins(pool),
        *repeat_findings(pool),
        *_long(pool, length),
        *_out_of_proportion(pool, length),
        *_damaged(pool),
        *_ids_alike("agent", tuple(agent.id for agent in pool.agents)),
        *_ids_alike("item", tuple(item.id for item in pool.items)),
    ]


def _small(pool: Pool) -> Iterator[Finding]:
    if pool.n_agents >= 3 and pool.n_items >= 2:
        return
    yield Finding(
        "pool-small",
        f"There are {pool.n_agents} agents and {pool.n_items} items.",
        "Nothing can be ranked: a ranking needs 3 agents and 2 items.",
        "Add agents or items.",
    )


def _gaps(pool: Pool) -> Iterator[Finding]:
    n_items = pool.present.sum(axis=1)
    n_agents = pool.present.sum(axis=0)
    few = tuple(agent.id for agent, n in zip(pool.agents, n_items, strict=True) if n < FEW_ITEMS * pool.n_items)
    if few:
        yield Finding(
            "gaps",
            f"{counted(len(few), 'agent', 'answers', 'answer')} less than half of the items: {listed(few)}.",
            "They are compared on fewer items than the rest: where those are easy, a mean score takes that for ability. "
            "Their intervals are wide.",
            "Complete them, or rank with `design: dense`, whose fit separates ability from difficulty.",
            agents=few,
            facts={"share": float(n_items.min() / pool.n_items)},
        )
    alone = tuple(item.id for item, n in zip(pool.items, n_agents, strict=True) if n < 2)
    if alone:
        yield Finding(
            "items-alone",
            f"{counted(len(alone), 'item', 'is', 'are')} answered by fewer than two agents: {listed(alone)}.",
            "They give no pair, so they add nothing to the ranking; items that do not line up between files look like this.",
            "See whether the ids mean the same in all files, or drop the items.",
            items=alone,
        )
    together = pool.present.astype(np.float32)
    shared = together @ together.T
    np.fill_diagonal(shared, 1)
    if pool.n_items and (shared == 0).any():
        apart = tuple(pool.agents[k].id for k in np.flatnonzero((shared == 0).any(axis=1)))
        yield Finding(
            "nothing-shared",
            f"Some agents have no item in common with some other: {listed(apart)}.",
            "They are never compared directly; without a chain of common partners their places cannot be compared at all.",
            "Let all agents answer at least a few common items.",
            agents=apart,
        )


def _blank(pool: Pool) -> Iterator[Finding]:
    blank = np.array([sum(text is not None and not text.strip() for text in row) for row in pool.texts])
    n_own = np.maximum(1, pool.present.sum(axis=1))
    named = tuple(pool.agents[k].id for k in np.flatnonzero(blank >= np.maximum(1, BLANK_SHARE * n_own)))
    if not named:
        return
    yield Finding(
        "blank",
        f"{counted(int(blank.sum()), 'response', 'is', 'are')} empty or white space, most of them by {listed(named)}.",
        "A blank response is judged like any other: its paired calls get a no, so it counts against the agent.",
        "If the agent did not answer, leave the row out, which makes the cell missing; if it refused, leave it as it is.",
        agents=named,
        facts={"share": float((blank / n_own).max())},
    )


def _stand_ins(pool: Pool) -> Iterator[Finding]:
    found: Counter[str] = Counter()
    agents: dict[str, None] = {}
    for agent, row in zip(pool.agents, pool.texts, strict=True):
        for text in row:
            if text is not None and len(text) < LEAST_CHARACTERS and STANDS_IN.fullmatch(text):
                found[text.strip()] += 1
                agents.setdefault(agent.id)
    if not found:
        return
    named = ", ".join(f"{text} ({n:,})" for text, n in found.most_common(5))
    yield Finding(
        "stand-ins",
        f"{counted(found.total(), 'response', 'looks', 'look')} like what a program writes in place of one: "
        f"{named}, by {listed(tuple(agents))}.",
        "They are judged like any other response: their paired calls get a no, or a yes where two agents have the same.",
        "Leave these rows out, which makes the cells missing, or import the answers again.",
        agents=tuple(agents),
        facts={"n": found.total()},
    )


def _long(pool: Pool, length: NDArray[np.int64]) -> Iterator[Finding]:
    long = length > LONG_CHARACTERS
    if not long.any():
        return
    agents = tuple(pool.agents[k].id for k in np.flatnonzero(long.any(axis=1)))
    yield Finding(
        "long",
        f"{counted(int(long.sum()), 'response', 'is', 'are')} longer than {LONG_CHARACTERS:,} characters "
        f"(the longest {length.max():,}), by {listed(agents)}.",
        "They may not fit a judge's context; such calls are not asked and count as missing, and those that fit cost most.",
        "See whether they are responses at all; shorten them, or set `context` in the judge's config.",
        agents=agents,
        items=tuple(pool.items[j].id for j in np.flatnonzero(long.any(axis=0))),
        facts={"characters": int(length.max())},
    )


def _out_of_proportion(pool: Pool, length: NDArray[np.int64]) -> Iterator[Finding]:
    if pool.n_agents < LEAST_AGENTS_OF_PLAIN_FACTS or pool.n_items < LEAST_ITEMS_OF_PLAIN_FACTS:
        return
    there = np.where(length >= 0, length, np.nan)
    answered = np.flatnonzero(pool.present.any(axis=0))
    ratio = there[:, answered] / np.maximum(1.0, np.nanmedian(there[:, answered], axis=0))
    usual = np.array([np.median(row[~np.isnan(row)]) if (~np.isnan(row)).any() else 1.0 for row in ratio])
    long, curt = np.flatnonzero(usual >= LONG_WINDED), np.flatnonzero(usual <= CURT)
    if len(long):
        ids = tuple(pool.agents[k].id for k in long)
        yield Finding(
            "long-winded",
            f"{listed(ids)} answer at length: the median answer is up to {usual[long].max():.1f} times as long as the usual "
            "one.",
            "A long answer shares words with more of the others, so judges who are fond of length rank it higher.",
            "Read a few of the answers for padding; see how the ranking goes with length before believing these places.",
            agents=ids,
            facts={"times": float(usual[long].max())},
        )
    if len(curt):
        ids = tuple(pool.agents[k].id for k in curt)
        yield Finding(
            "curt",
            f"{listed(ids)} hardly answer: the median answer is {usual[curt].min():.1%} as long as the usual one.",
            "There is next to nothing to compare, so such an agent ranks low.",
            "See whether the import cut its answers.",
            agents=ids,
            facts={"share": float(usual[curt].min())},
        )


def _damaged(pool: Pool) -> Iterator[Finding]:
    bad = np.array(
        [sum(text is not None and any(mark in text for mark in DAMAGED) for text in row) for row in pool.texts]
    )
    if not bad.any():
        return
    agents = tuple(pool.agents[k].id for k in np.flatnonzero(bad))
    yield Finding(
        "damaged",
        f"{counted(int(bad.sum()), 'response', 'holds', 'hold')} a replacement character (U+FFFD) or a null, "
        f"by {listed(agents)}.",
        "The file was once read in the wrong encoding; damaged words match nobody's and pull these agents down.",
        "Import the original file again in its own encoding.",
        agents=agents,
    )


def _ids_alike(noun: str, ids: tuple[str, ...]) -> Iterator[Finding]:
    seen: defaultdict[str, list[str]] = defaultdict(list)
    for name in ids:
        seen["".join(name.split()).casefold()].append(name)
    alike = tuple(name for names in seen.values() if len(names) > 1 for name in names)
    if not alike:
        return
    yield Finding(
        "ids-alike",
        f"Some {noun} ids differ by case or spaces only: {listed(alike)}.",
        "If they mean the same, the pool has two half-filled rows where it should have one, and their pairs are never made.",
        f"Spell each {noun} one way in all files.",
        agents=alike if noun == "agent" else (),
        items=alike if noun == "item" else (),
    )
