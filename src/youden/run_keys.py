"""What may be said of a run, a row a key: its type, what it means, and its option on the command line.

Here stands what both a config and `--help` need, so that `--help` loads none of a run's libraries.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from annotated_types import Ge, Gt, Le, Lt

from youden.errors import PlanError

Target = Literal["items-like-these", "these-items", "items-and-judges"]
"""What intervals describe: more items like these; these items alone, all their comparisons asked; or more items, and more judges
like those that answered."""
SplitRule = Literal["shared", "own"]

MAX_MISSING = 0.01
"""Share of trials without an answer above which a run stops, where nobody says otherwise."""

FromOne = Annotated[int, Ge(1)]
FromZero = Annotated[int, Ge(0)]
Usd = Annotated[float, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]
HalfWidth = Annotated[float, Gt(0), Lt(1)]


class CallBudget(NamedTuple):
    """Number of calls that a plan may make.

    Attributes
    ----------
    value : float
        The number.
    unit : {"", "%", "/agent"}
        Calls of both trial types; percent of the dense calls, in (0, 100]; or mean paired trials per agent.
    """

    value: float
    unit: str

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read a budget.

        Parameters
        ----------
        value : int or str
            As 4000, "4000", "5%" or "450/agent"; spaces are ignored.

        Returns
        -------
        CallBudget

        Raises
        ------
        PlanError
            [calls-invalid]: if `value` is not a budget.

        Examples
        --------
        >>> CallBudget.parse("5 %"), CallBudget.parse("450/agent").plain, CallBudget.parse(4000).plain
        (CallBudget(value=5.0, unit='%'), '450/agent', 4000)
        """
        is_integer = hasattr(value, "__index__") and not isinstance(value, bool)
        match = _BUDGET.fullmatch(str(value)) if is_integer or isinstance(value, str) else None
        if match is not None:
            amount = float(match["amount"])
            unit = match["unit"].replace(" ", "")
            if 0 < amount <= _MAX_AMOUNT[unit] and (unit or amount.is_integer()):
                return cls(amount, unit)
        raise PlanError(f"calls: got {repr(value)[:60]}. Set {KEYS['calls'].means}.", slug="calls-invalid")

    @property
    def plain(self) -> int | str:
        """The budget as a config file holds it: 4000, "5%" or "450/agent"."""
        return f"{self.value:.15g}{self.unit}" if self.unit else int(self.value)


_MAX_AMOUNT = {"": 1e15, "%": 100, "/agent": 1e15}
_BUDGET = re.compile(r" *(?P<amount>[0-9]{1,16}(\.[0-9]{1,20})?) *(?P<unit>%|/ *agent|) *")


class Key(NamedTuple):
    """What is told of a key beside its default.

    means: what it may say, for whoever said something else. help: what it does as an option of the command line, "" where it is
    none; metavar, kind: of the value there, a `Path` where it is a file or folder.
    """

    means: str = ""
    help: str = ""
    metavar: str | None = None
    kind: Any = str


KEYS = {
    "judge": Key(help="Another judge: a name, a path that ends in .yaml, or a model such as gpt-4o."),
    "calls": Key(
        "a number of calls (4000), a percentage of the dense calls (5%) or trials per agent (450/agent)",
        "Budget, in place of the config's: a number of calls (4000), a percentage of the dense calls (5%), or the mean number of "
        "paired trials per agent (450/agent).",
        "BUDGET",
        CallBudget,
    ),
    "width": Key(
        "a half width between 0 and 1, such as 0.05",
        "Ask in rounds until nine in ten agents have an interval of ± W.",
        "W",
        HalfWidth,
    ),
    "top": Key("as a whole number how many of the best agents are to be named, such as 3"),
    "within": Key("how far from the best the one named may be, between 0 and 2, such as 0.02"),
    "holdout": Key("a share of the cells below 1, such as 0.2"),
    "target": Key(
        help="What intervals describe: how agents would do on more items like these, on these items alone, or for a jury on "
        "more items and more judges like these. The run remembers it. [default: what the run says, else items-like-these]",
        kind=Target,
    ),
    "seed": Key("a whole number from 0 on", "Draws the comparisons. [default: the config's, else 0]", kind=FromZero),
    "robust": Key(
        "true or false",
        "Rank by the robust standing: agents that agree far beyond their abilities count as one. The run remembers it.",
        kind=bool,
    ),
    "trusted": Key(
        "a list of agents, such as [a, b]",
        "Score everybody by their trials with these agents alone: ids, separated by commas. A ring outside them cannot lift "
        "itself. Where nobody cheats, it costs up to .09 of the rank correlation. The run remembers it.",
        "AGENTS",
        list,
    ),
    "families": Key(
        "agents and their families, such as {a: gpt, b: llama}; a table goes with --families FILE",
        "Families of agents: CSV, JSONL or Parquet with the columns agent and family. Adds a second ranking, in which an "
        "agent's own family does not score it and the others weigh alike. The run remembers it.",
        "FILE",
        Path,
    ),
    "suspected": Key("a share of the calls from 0 to 1, such as 0.05"),
    "store": Key(
        help="Where answers are kept: a path, or postgresql://USER@HOST/DATABASE for many hosts. "
        "[default: the config's, else the one that the run's folder names, else YOUDEN_STORE, else the project's "
        ".youden/answers.db]",
        metavar="PLACE",
    ),
    "max_cost": Key("USD from 0 on, such as 2.00", "The most that this command may spend.", "USD", Usd),
    "max_missing": Key(
        "a share of the answers from 0 to 1, such as 0.01",
        "Fail if more than this share of answers is missing: from 200 trials on as soon as it is exceeded, else at the end. "
        f"[default: {MAX_MISSING}]",
        "SHARE",
        Share,
    ),
    "out": Key(help="The run's folder. [default: runs/NAME]", kind=Path),
}
"""What is told of the keys of `RunConfig`: errors, an editor's schema and the options of commands come from here."""

REPLACED_KEYS = {
    "percent": "calls: {}%",
    "trials": "calls: {}/agent",
    "n_independent": "independent: pooled:{}",
    "width_share": "width",
    "holdout_partners": "holdout",
}
"""What to set instead of a key of earlier versions; {} is the value of that key."""
