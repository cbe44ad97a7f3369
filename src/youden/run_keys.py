"""Declare the keys of a run config: type, default, description and command-line option of each key.

Validation, error messages, options, the JSON Schema and the documentation are generated from these declarations. They do not
import pydantic, so that `--help` starts fast; `RunConfig` adds the checks.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MinLen

from youden.errors import PlanError

Target = Literal["items-like-these", "these-items", "items-and-judges"]
"""What intervals describe: items like these (a superpopulation), exactly these items with all their comparisons judged, or items
and judges like these."""
SplitRule = Literal["strict", "paper"]
Question = Literal["information", "preference"]
EmptyRule = Literal["failure", "missing"]
"""What a judge is asked about two responses: whether they respond to the same item, or which of them is better."""

MAX_MISSING = 0.01
"""Default maximum fraction of trials without an answer; a run stops above it."""

FromOne = Annotated[int, Ge(1)]
FromZero = Annotated[int, Ge(0)]
Usd = Annotated[float, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]
HalfWidth = Annotated[float, Gt(0), Lt(1)]
Text = Annotated[str, MinLen(1)]


class _CheckedAsJson:
    """Mark a mapping as JSON, so that pydantic checks all its values: finite numbers, texts, lists and mappings."""

    @staticmethod
    def __get_pydantic_core_schema__(_: Any, handler: Any) -> Any:
        from pydantic import JsonValue

        return handler.generate_schema(dict[str, JsonValue])


JsonObject = Annotated[dict[str, Any], _CheckedAsJson]


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
        """Parse a budget of calls.

        Parameters
        ----------
        value : int or str
            One of three forms: a number of calls (4000 or "4000"); a percentage of the dense calls, which compare all pairs of
            agents on all items ("5%"); or a number of trials per agent ("450/agent"). Spaces are ignored.

        Returns
        -------
        CallBudget
            The amount, with the unit "", "%" or "/agent".

        Raises
        ------
        PlanError
            [calls-invalid]: if `value` is not a budget.

        Examples
        --------
        >>> CallBudget.parse("5%"), CallBudget.parse("450/agent").plain, CallBudget.parse(4000).plain
        (CallBudget(value=5.0, unit='%'), '450/agent', 4000)
        """
        error = PlanError(f"calls: got {repr(value)[:60]}. Set {BUDGETS}.", slug="calls-invalid")
        is_integer = hasattr(value, "__index__") and not isinstance(value, bool)
        if not is_integer and not isinstance(value, str):
            raise error
        match = _BUDGET.fullmatch(str(value))
        if match is None:
            raise error

        amount = float(match["amount"])
        unit = match["unit"].replace(" ", "")
        is_in_range = 0 < amount <= _MAX_AMOUNT[unit]
        is_fractional_call = unit == "" and not amount.is_integer()
        if not is_in_range or is_fractional_call:
            raise error
        return cls(amount, unit)

    @property
    def plain(self) -> int | str:
        """The budget in the form of a config file: 4000, "5%" or "450/agent"."""
        if not self.unit:
            return int(self.value)
        return f"{self.value:.15g}{self.unit}"


BUDGETS = "a number of calls (4000), a percentage of the dense calls (5%) or trials per agent (450/agent)"
_MAX_AMOUNT = {"": 1e15, "%": 100, "/agent": 1e15}
_BUDGET = re.compile(r" *(?P<amount>[0-9]{1,16}(\.[0-9]{1,20})?) *(?P<unit>%|/ *agent|) *")


INDEPENDENT = re.compile(r"(?P<matched>matched)|pooled(:(?P<n>[0-9]{1,9}))?")
"""Allowed values of `independent`."""


class Key(NamedTuple):
    """Description of a config key, stored in the metadata of its type.

    Attributes
    ----------
    text : str
        What the key does, for the documentation, the schema and the help of the option.
    values : str
        Allowed values, for the error message about another value.
    commands : str
        Those of the commands `plan`, `judge` and `run` that have the key as an option, separated by spaces.
    metavar : str, optional
        Placeholder of the option's value.
    default : str
        Default of the option, if it differs from the default of the key.
    """

    text: str
    values: str = ""
    commands: str = ""
    metavar: str | None = None
    default: str = ""

    @property
    def help(self) -> str:
        """Help of the option."""
        return f"{self.text} [default: {self.default}]" if self.default else self.text


_PLAN, _JUDGE = "plan judge run", "judge run"


class RunKeys:
    """Keys of a run's config with their defaults."""

    name: Annotated[str, Key("Name of the run and of its folder in `runs/`. Default: the name of the file.")]
    pool: Annotated[Text, Key("Path of the pool. `datasets/NAME` may be a pool of the package.")]
    empty: Annotated[
        EmptyRule,
        Key(
            "How an empty cell or text is read: `failure`, as an empty response, which counts as a failure; `missing`, as no "
            "response. Saved in the run; it also applies to pools that are added later."
        ),
    ] = "failure"
    judge: Annotated[
        Text | JsonObject,
        Key(
            "Judge: a name, the path of a .yaml file, or a model such as gpt-4o; in a config also its keys.", "", _PLAN
        ),
    ] = "lexical"
    question: Annotated[
        Question,
        Key(
            "Question to the judge about two responses: `information` (do both have the same source?) or `preference` (which is "
            "better?). Preferences have paired trials only, each agent comes first and second equally often, and the judge's "
            "default prompt is `which-is-better`.",
            "information or preference",
        ),
    ] = "information"
    design: Annotated[Text, Key("Design, which selects the calls to plan; the page on designs lists all designs.")] = (
        "cyclic"
    )
    calls: Annotated[
        FromOne | str | None,
        Key(
            "Budget: a number of calls (4000), a percentage of the dense calls (5%), or the mean number of paired trials per "
            "agent (450/agent). The option replaces `calls` of the config.",
            BUDGETS,
            _PLAN,
            default="that of the config, else of the design",
        ),
    ] = None
    half_width: Annotated[
        HalfWidth | None,
        Key(
            "Judge in rounds until the half-width of the 95% interval is at most X for 90% of the agents; `calls` is then the "
            "maximum.",
            "a half-width between 0 and 1, such as 0.05",
            _PLAN,
            "X",
        ),
    ] = None
    top: Annotated[
        FromOne | None,
        Key(
            "Number of best agents to select, in rounds with fewer and fewer contenders; `calls` is then the maximum.",
            "the number of best agents to select as a whole number, such as 3",
        ),
    ] = None
    max_regret: Annotated[
        Annotated[float, Gt(0), Lt(2)] | None,
        Key(
            "Maximum regret, in units of ability: select the `top` best agents, and stop when the regret bound of the selection "
            "is at most this, with 95% confidence over all analyses.",
            "the maximum distance of the selected agent from the best, between 0 and 2, such as 0.02",
        ),
    ] = None
    options: Annotated[
        JsonObject,
        Key(
            "Options of the design, such as `alpha`, `beta`, `c`, `d_core`, `partners` and `pairs`; others are an error."
        ),
    ] = {}  # noqa: RUF012 - pydantic copies it
    independent: Annotated[
        str | None,
        Key(
            "Independent trials to plan: `matched` (one per paired trial), `pooled` (7 to 10% of the calls; with the judge "
            "`lexical` 4 per paired trial, in addition) or `pooled:N`. "
            "Default: that of the design.",
            "matched, pooled or pooled:N, with a whole number N",
        ),
    ] = None
    holdout: Annotated[
        Annotated[float, Ge(0), Lt(1)] | None,
        Key(
            "Fraction of cells (one agent on one item) to hold out from training. Default: that of the design, 0 for `cyclic`.",
            "a fraction of the cells below 1, such as 0.2",
        ),
    ] = None
    holdout_rule: Annotated[
        SplitRule,
        Key(
            "Trials to exclude from training: `strict`, all that include a held-out cell; `paper`, only those that "
            "contribute to the score of a held-out cell."
        ),
    ] = "strict"
    target: Annotated[
        Target,
        Key(
            "Population of the intervals: more items like these, only these items, or, for a jury, more items and judges like "
            "these. Saved in the run.",
            "",
            _PLAN,
            default="that of the run, else items-like-these",
        ),
    ] = "items-like-these"
    seed: Annotated[
        FromZero,
        Key("Seed for all random draws.", "a non-negative integer", _PLAN, default="that of the config, else 0"),
    ] = 0
    robust: Annotated[
        bool,
        Key(
            "Rank by the robust ranking: agents that agree more than any honest group on record count as one partner and "
            "do not score each other. Saved in the run.",
            "true or false",
            "run",
        ),
    ] = False
    trusted: Annotated[
        list[Text],
        Key(
            "Score all agents by their trials with these agents only, so that a ring of other agents cannot raise its ranks. If "
            "no agent cheats, this lowers the accuracy of the ranking (Spearman's ρ) by up to .09. Saved in the run.",
            "a list of agents, such as [a, b]",
            "run",
            "AGENTS",
        ),
    ] = []  # noqa: RUF012 - pydantic copies it
    follow_up_fraction: Annotated[
        Share,
        Key(
            "Maximum number of additional calls for groups of agents that may agree more than any honest group on record, as a "
            "fraction of the calls of the plan.",
            "a fraction of the calls from 0 to 1, such as 0.05",
        ),
    ] = 0.0
    self_trials: Annotated[
        FromZero,
        Key(
            "Number of paired self-trials of each agent, comparisons of two of its responses to an item, with as many "
            "independent ones. They are in addition to `calls`, and their result, the self-consistency of each agent, is "
            "stated next to its ability. Each agent needs at least two responses to an item.",
            "a whole number, such as 100",
            _PLAN,
            default="that of the config, else 0",
        ),
    ] = 0
    families: Annotated[
        dict[str, Text],
        Key(
            "Family of each agent; as an option, a CSV, Excel, JSONL or Parquet file with the columns agent and family. Adds a "
            "ranking in which agents of the same family do not score each other and all other families have equal weight. Saved "
            "in the run. Without it, `meta.family` of the agents of the pool is used.",
            "agents and their families, such as {a: gpt, b: llama}; set a table by --families FILE",
            "run",
            "FILE",
        ),
    ] = {}  # noqa: RUF012 - pydantic copies it
    clones: Annotated[
        list[list[Text]],
        Key("Groups of agents with nearly identical texts; `youden run` writes them to the folder of the run."),
    ] = []  # noqa: RUF012 - pydantic copies it
    trials_from: Annotated[
        Text | None,
        Key(
            "Folder of another run. This run judges a balanced sample of its trials: `calls` trials, drawn with `seed`."
        ),
    ] = None
    store: Annotated[
        Text | None,
        Key(
            "Store of the answers: a path, or postgresql://USER@HOST/DATABASE for several hosts.",
            "",
            _PLAN,
            "PATH|URL",
            "that of the config, else that of the folder of the run, else YOUDEN_STORE, else .youden/answers.db of the project",
        ),
    ] = None
    max_cost: Annotated[
        Usd | None,
        Key(
            "Maximum total cost of the run in USD, over all commands that judge it. For `extend`, the maximum cost that the "
            "extension adds. For commands that judge no run, the maximum cost of one execution.",
            "USD from 0 on, such as 2.00",
            _PLAN,
            "USD",
        ),
    ] = None
    max_missing: Annotated[
        Share,
        Key(
            "Maximum fraction of trials without an answer; above it, the run fails. From 200 requested trials on, the run "
            "stops early if the fraction is higher by more than three standard errors.",
            "a fraction of the trials from 0 to 1, such as 0.01",
            _JUDGE,
            "FRACTION",
            f"{MAX_MISSING}",
        ),
    ] = MAX_MISSING
    out: Annotated[Text | None, Key("Folder of the run.", "", _PLAN, "PATH", "runs/NAME")] = None


class DeclaredKey(NamedTuple):
    """A key of `RunKeys`.

    Attributes
    ----------
    types : tuple
        Types of the value, without None.
    limits : dict
        Limits of the value by the name of the comparison: `ge`, `gt`, `le`, `lt`.
    key : Key
        Description of the key.
    """

    types: tuple[Any, ...]
    limits: dict[str, Any]
    key: Key


@cache
def declared_keys() -> dict[str, DeclaredKey]:
    """Return the declared keys by name, in the order of their declaration."""
    hints = get_type_hints(RunKeys, include_extras=True)
    return {name: _parse_declaration(hint) for name, hint in hints.items()}


def _parse_declaration(hint: Any) -> DeclaredKey:
    """Parse the type hint of a config key, such as `Annotated[int | None, Ge(1), Key(...)]`.

    Limits may also be inside a union, as in `Annotated[Annotated[int, Ge(1)] | None, Key(...)]`.

    Returns the types of the key without None, its limits by name (`ge`, `gt`, `le`, `lt`), and its description, the `Key`.
    """
    annotated_type, *metadata = get_args(hint)
    types = []
    for alternative in _list_alternatives(annotated_type):
        if get_origin(alternative) is Annotated:
            inner_type, *inner_metadata = get_args(alternative)
            types.append(inner_type)
            metadata += inner_metadata
        elif alternative is not NoneType:
            types.append(alternative)

    limits: dict[str, Any] = {}
    for element in metadata:
        if isinstance(element, Ge | Gt | Le | Lt):
            limits |= asdict(element)
    [description] = [element for element in metadata if isinstance(element, Key)]
    return DeclaredKey(tuple(types), limits, description)


def _list_alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union, such as int and None of `int | None`; any other type is its only alternative."""
    is_union = get_origin(annotation) in (Union, UnionType)
    return get_args(annotation) if is_union else (annotation,)


REPLACED_KEYS = {
    "percent": "calls: {}%",
    "trials": "calls: {}/agent",
    "n_independent": "independent: pooled:{}",
    "width_share": None,
    "holdout_partners": None,
    "width": "half_width: {}",
    "within": "max_regret: {}",
    "suspected": "follow_up_fraction: {}",
    "trials_of": "trials_from: {}",
    "rule": "holdout_rule: strict, or holdout_rule: paper",
}
"""Replacement for each key of earlier versions, or None; {} is the value of that key."""
