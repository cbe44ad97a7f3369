"""Define the extensions of a run, including an unfinished one, as they are listed in the run's config.yaml.

The fields are declared once, in `ExtensionStep`; a request adds the fields that determine the number of calls, and the record of
an unfinished extension adds its state.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from youden.run_keys import FromOne, FromZero, Usd
from youden.text.printable import format_command

if TYPE_CHECKING:
    from youden.types.plan_steps import ExtensionKind

POOLS = ("agents", "items", "repeats")
"""Fields of an extension that hold the path of a pool."""

_Text = Annotated[str, Field(min_length=1)]
_Combinations = tuple[tuple[set[str], set[str]], ...]


class ExtensionStep(BaseModel):
    """One extension of a run: parts of another pool, or more calls.

    Attributes
    ----------
    agents, items, repeats : str, optional
        Path of the pool with new agents, new items, or further responses of existing agents to existing items.
    calls : int, optional
        Calls of both trial types. With a pool, None means as many calls per new agent, item or repeat as the existing ones have
        on average.
    focus : list of str
        Ids of the agents that the calls compare; empty for all agents.
    top : int, optional
        In a round of a search: number of agents to select.
    max_regret : float, optional
        In a round of a search: maximum regret of the selected agents, as a difference of abilities.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    combinations: ClassVar[_Combinations] = (
        *(({kind}, {"calls"}) for kind in POOLS),
        ({"calls"}, {"focus"}),
        ({"calls", "focus", "top"}, {"max_regret"}),
    )
    """Combinations of fields that define an extension, each with its required and its optional fields."""

    agents: _Text | None = None
    items: _Text | None = None
    repeats: _Text | None = None
    calls: FromOne | None = None
    focus: list[_Text] = Field(default_factory=list)
    top: FromOne | None = None
    max_regret: Annotated[float, Field(gt=0, lt=2)] | None = None

    @model_validator(mode="after")
    def _is_one_extension(self) -> Self:
        options = set().union(*(required | optional for required, optional in self.combinations))
        given = {name for name in options if getattr(self, name)}
        if not any(required <= given <= required | optional for required, optional in self.combinations):
            names = ", ".join(sorted(given)) or "nothing"
            choices = "; ".join(" and ".join(sorted(required)) for required, _ in self.combinations)
            raise ValueError(f"an extension cannot consist of {names}; set one of: {choices}")
        return self

    @property
    def kind(self) -> ExtensionKind:
        """Kind of the extension: "agents", "items", "repeats" or "calls"."""
        names = (name for name in POOLS if getattr(self, name) is not None)
        return cast("ExtensionKind", next(names, "calls"))

    @property
    def added_pool(self) -> str | None:
        """Path of the pool that the extension adds, None if it adds only calls."""
        return None if self.kind == "calls" else str(getattr(self, self.kind))


class ExtensionRequest(ExtensionStep):
    """A requested extension: a step, or a target that determines its calls.

    Attributes
    ----------
    half_width : float, optional
        Target half-width of confidence intervals: of the new agents or, without `agents`, of nine in ten of the run's agents.
    top : int, optional
        With a search for the best agents, in rounds with fewer and fewer agents: number of agents to select.
    max_regret : float, optional
        With such a search: maximum regret of the selected agents, as a difference of abilities.
    """

    combinations: ClassVar[_Combinations] = (
        *ExtensionStep.combinations[:-1],
        ({"agents", "half_width"}, set()),
        ({"half_width"}, set()),
        ({"top", "calls"}, set()),
        ({"max_regret"}, {"top", "calls"}),
    )

    half_width: Annotated[float, Field(gt=0)] | None = None

    @property
    def is_search(self) -> bool:
        """Whether the request is a search for the best agents."""
        return self.top is not None or self.max_regret is not None


class UnfinishedExtension(ExtensionRequest):
    """An extension whose command was stopped before the report was written.

    The same command finishes it; any other extension is refused until then.

    Attributes
    ----------
    max_cost : float, optional
        Cost cap in USD; a command with another cap continues the same extension.
    pool : str
        Digest of the run's pool including this extension.
    first : int
        Number of extensions that the run had before the command.
    number : int
        Number of extensions before `step`; in a search, greater than `first` from its second round on.
    step : ExtensionStep
        The step, or in a search the round, that was judged last.
    """

    max_cost: Usd | None = None
    pool: _Text
    first: FromZero
    number: FromZero
    step: ExtensionStep

    def format_command(self, run: Path) -> str:
        """Return the command that finishes the extension.

        Parameters
        ----------
        run : Path
            Folder of the run.

        Returns
        -------
        str
            A command line, quoted for the shell.
        """
        name = "best" if self.is_search else "half-width" if self.half_width and self.added_pool is None else self.kind
        arguments = [] if name == "best" else [_to_argument(getattr(self, name))]
        options = [
            (option, getattr(self, option))
            for option in ("calls", "half_width", "top", "max_regret", "max_cost")
            if option != name
        ]
        options += [("focus", agent) for agent in self.focus]
        for option, value in options:
            if value is not None:
                arguments += [f"--{option.replace('_', '-')}", _to_argument(value)]
        return format_command(["youden", "extend", name, str(run), *arguments])

    def is_same_request(self, request: ExtensionRequest) -> bool:
        """Return whether a request is for this extension.

        Parameters
        ----------
        request : ExtensionRequest
            Only its options are compared; the caller compares the contents of pools.

        Returns
        -------
        bool
        """
        return _comparable_options(self) == _comparable_options(request)


def _comparable_options(request: ExtensionRequest) -> dict[str, object]:
    """Return the options of a request without the paths of pools and the order of agents."""
    options: dict[str, object] = {name: getattr(request, name) for name in ExtensionRequest.model_fields}
    pools = {name: options[name] is None for name in POOLS}
    return {**options, **pools, "focus": set(request.focus)}


def _to_argument(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)
