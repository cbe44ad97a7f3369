"""Define the extensions of a run, and the one that is not finished, as the run's config.yaml lists them.

The fields are declared once, in `ExtensionStep`; a request adds what decides the number of calls, and the record of an
unfinished extension adds its state.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from youden.run_keys import FromOne, FromZero, Usd
from youden.text.printable import typed

if TYPE_CHECKING:
    from youden.types.plan_steps import ExtensionKind

POOLS = ("agents", "items", "repeats")
"""Fields of an extension that name a pool."""

_Text = Annotated[str, Field(min_length=1)]
_Combinations = tuple[tuple[set[str], set[str]], ...]


class ExtensionStep(BaseModel):
    """One extension of a run: agents, items or repeats of another pool (a path), or more calls, on all or on some agents.

    calls: of both trial types; with a pool, None for as many as the run's own agents, items or repeats have on average.
    top, within: options of a round of a search, see `Extension`.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    combinations: ClassVar[_Combinations] = (
        *(({kind}, {"calls"}) for kind in POOLS),
        ({"calls"}, {"focus"}),
        ({"calls", "focus", "top"}, {"within"}),
    )
    """Fields that make one extension together: those that it needs, and those that it may have."""

    agents: _Text | None = None
    items: _Text | None = None
    repeats: _Text | None = None
    calls: FromOne | None = None
    focus: list[_Text] = Field(default_factory=list)
    top: FromOne | None = None
    within: Annotated[float, Field(gt=0, lt=2)] | None = None

    @model_validator(mode="after")
    def _is_one_extension(self) -> Self:
        options = set().union(*(needed | allowed for needed, allowed in self.combinations))
        given = {name for name in options if getattr(self, name)}
        if not any(needed <= given <= needed | allowed for needed, allowed in self.combinations):
            names = ", ".join(sorted(given)) or "nothing"
            choices = "; ".join(" and ".join(sorted(needed)) for needed, _ in self.combinations)
            raise ValueError(f"an extension cannot be made of {names}; give one of: {choices}")
        return self

    @property
    def kind(self) -> ExtensionKind:
        """What the extension adds."""
        names = (name for name in POOLS if getattr(self, name) is not None)
        return cast("ExtensionKind", next(names, "calls"))

    @property
    def added_pool(self) -> str | None:
        """The pool that the extension adds; None for calls alone."""
        return None if self.kind == "calls" else str(getattr(self, self.kind))


class ExtensionRequest(ExtensionStep):
    """What a command asks to add to a run: a step, or what decides the calls of one or more steps.

    width: half-width of the intervals of the agents that join or, alone, of nine in ten of the run's agents.
    top, within: options of a search for the best agents, in rounds on fewer and fewer of them.
    """

    combinations: ClassVar[_Combinations] = (
        *ExtensionStep.combinations[:-1],
        ({"agents", "width"}, set()),
        ({"width"}, set()),
        ({"top", "calls"}, set()),
        ({"within"}, {"top", "calls"}),
    )

    width: Annotated[float, Field(gt=0)] | None = None

    @property
    def is_search(self) -> bool:
        """Whether the calls go to the agents that may be the best."""
        return self.top is not None or self.within is not None


class UnfinishedExtension(ExtensionRequest):
    """The extension whose command was stopped before the ranking and the report were written.

    The same command finishes it; any other extension is refused until then.

    Attributes
    ----------
    max_cost : float, optional
        The cap in USD that was given; a command with another cap continues the same extension.
    pool : str
        Digest of the run's pool with this extension.
    first : int
        Number of extensions that the run had before the command.
    number : int
        Number of extensions before `step`; in a search, greater than `first` from its second round on.
    step : ExtensionStep
        The step, or the round of a search, that was judged last.
    """

    max_cost: Usd | None = None
    pool: _Text
    first: FromZero
    number: FromZero
    step: ExtensionStep

    def command(self, run: Path) -> str:
        """Return the command that finishes the extension of the run in the folder `run`."""
        name = "best" if self.is_search else "width" if self.width and self.added_pool is None else self.kind
        positional = [] if name == "best" else [_word(getattr(self, name))]
        options = [
            (option, getattr(self, option))
            for option in ("calls", "width", "top", "within", "max_cost")
            if option != name
        ]
        options += [("focus", agent) for agent in self.focus]
        words = ((f"--{option.replace('_', '-')}", _word(value)) for option, value in options if value is not None)
        return typed(["youden", "extend", name, str(run), *positional, *(word for pair in words for word in pair)])

    def is_same_request(self, other: ExtensionRequest) -> bool:
        """Return whether a command asks for the same extension; the caller compares the contents of pools."""
        return _comparable(self) == _comparable(other)


def _comparable(request: ExtensionRequest) -> dict[str, object]:
    """Return the options of a request, without the paths of pools and the order of agents."""
    options: dict[str, object] = {name: getattr(request, name) for name in ExtensionRequest.model_fields}
    pools = {name: options[name] is None for name in POOLS}
    return {**options, **pools, "focus": set(request.focus)}


def _word(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)
