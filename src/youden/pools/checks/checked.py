"""Define the result of a pool check, and the format of the sentences in its findings."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from youden.data.pools.sampled_texts import format_names
from youden.types import Finding
from youden.types.pool import Json


@dataclass(frozen=True)
class Counts:
    """Sizes of a pool.

    Attributes
    ----------
    n_agents, n_items : int
    n_responses : int
        Number of cells with a response: responses, without repeats.
    n_all_responses : int
        Number of responses, with repeats.
    n_missing : int
        Number of cells without a response.
    n_blank : int
        Number of responses that are empty or white space.
    n_prompts : int
        Number of items with a prompt.
    shortest, median, longest, total : int
        Length of responses in characters.
    mean_words : float or None
        Mean number of words of the responses to the sampled items; None without responses, or if most of them contain
        a script that is written without spaces, such as Chinese or Japanese.
    """

    n_agents: int
    n_items: int
    n_responses: int
    n_all_responses: int
    n_missing: int
    n_blank: int
    n_prompts: int
    shortest: int
    median: int
    longest: int
    total: int
    mean_words: float | None


@dataclass(frozen=True)
class DesignCost:
    """Cost of judging a pool with one judge, by one design at its default budget or by the plan of a run.

    Attributes
    ----------
    design, judge : str
        Names of the design and the judge.
    calls, tokens_in, tokens_out : int
        Number of calls, and of tokens sent and received.
    usd : float or None
        Cost in USD; None if the price is unknown.
    """

    design: str
    judge: str
    calls: int
    tokens_in: int
    tokens_out: int
    usd: float | None


@dataclass(frozen=True)
class PoolCheck:
    """Result of a pool check.

    Attributes
    ----------
    name : str
        Name of the pool.
    counts : Counts
        Sizes of the pool.
    agent_words : dict
        Id of an agent → mean number of words in its responses to the sampled items; None as for `Counts.mean_words`.
    languages : dict
        Code of a language (ISO 639-1) → number of agents that mostly respond in it.
    findings : tuple of Finding
        Problems that distort a ranking.
    costs : tuple of DesignCost
        Estimated costs of designs.
    notes : tuple of str
        What was not checked or estimated, and why.
    """

    name: str
    counts: Counts
    agent_words: dict[str, float | None]
    languages: dict[str, int]
    findings: tuple[Finding, ...]
    costs: tuple[DesignCost, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        """Convert the result to a JSON object."""
        data: dict[str, Json] = asdict(self)
        return data


def format_subject(names: tuple[str, ...], singular: str, plural: str, *, limit: int = 5) -> str:
    """Format names as the subject of a sentence, followed by the verb in the singular or the plural.

    >>> format_subject(("a",), "copies", "copy")
    "'a' copies"
    """
    verb = singular if len(names) == 1 else plural
    return f"{format_names(names, limit=limit)} {verb}"


def format_min_share(share: float, *, n_agents: int) -> str:
    """Format a share that each of some agents reaches, and that one of them has exactly.

    >>> format_min_share(0.6, n_agents=1), format_min_share(0.6, n_agents=2), format_min_share(0.999, n_agents=2)
    ('60%', '60% or more', '100%')
    """
    text = f"{share:.0%}"
    return text if n_agents == 1 or text == "100%" else f"{text} or more"
