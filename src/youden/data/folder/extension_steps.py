"""Defines the extensions of a run, and the one that was not finished, as the run's config.yaml lists them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from youden.run_keys import FromOne, FromZero, Usd
from youden.text.printable import typed

if TYPE_CHECKING:
    from youden.types.planning import ExtensionKind

POOLS = ("agents", "items", "repeats")
"""Fields of an extension that name a pool."""

_Text = Annotated[str, Field(min_length=1)]


class ExtensionStep(BaseModel):
    """One extension of a run: agents, items or repeats of another pool (a path), or more calls, on all or on some agents.

    calls: of both trial types; with a pool, None for as many as the run's own agents, items or repeats have on average.
    top, within: options of a round of a search, see `Extension`.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    agents: _Text | None = None
    items: _Text | None = None
    repeats: _Text | None = None
    calls: FromOne | None = None
    focus: list[_Text] = Field(default_factory=list)
    top: Annotated[int, Field(ge=1)] | None = None
    within: Annotated[float, Field(gt=0, lt=2)] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        n_pools = sum(getattr(self, name) is not None for name in POOLS)
        if n_pools > 1:
            raise ValueError("agents, items and repeats join one after the other; make an extension of each")
        if n_pools == 0 and self.calls is None:
            raise ValueError("an extension adds agents, items, repeats or calls; name one of them")
        if self.focus and n_pools:
            raise ValueError("focus goes with calls alone")
        if (self.top or self.within) and not (self.top and self.focus):
            raise ValueError("within goes with top, and both with focus")
        return self

    @property
    def joins(self) -> tuple[ExtensionKind, str | None]:
        """The kind of the extension, and the pool that it adds; None for calls alone."""
        pools: dict[ExtensionKind, str | None] = {"agents": self.agents, "items": self.items, "repeats": self.repeats}
        return next(((kind, pool) for kind, pool in pools.items() if pool is not None), ("calls", None))


class UnfinishedExtension(BaseModel):
    """The extension whose command was stopped before the ranking and the report were written.

    The same command finishes it; any other extension is refused until then.

    Attributes
    ----------
    agents, items, repeats : str, optional
        The pool that was given.
    calls, focus, width, top, within
        The options that were given.
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

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    agents: _Text | None = None
    items: _Text | None = None
    repeats: _Text | None = None
    calls: FromOne | None = None
    focus: list[_Text] = Field(default_factory=list)
    width: Annotated[float, Field(gt=0)] | None = None
    top: FromOne | None = None
    within: Annotated[float, Field(gt=0, lt=2)] | None = None
    max_cost: Usd | None = None
    pool: _Text
    first: FromZero
    number: FromZero
    step: ExtensionStep

    def command(self, run: Path) -> str:
        """Return the command that finishes the extension of the run in the folder `run`."""
        given = [(name, getattr(self, name)) for name in (*POOLS, "calls", "width", "top", "within", "max_cost")]
        given += [("focus", agent) for agent in self.focus]
        words = ((f"--{name.replace('_', '-')}", _word(value)) for name, value in given if value is not None)
        return typed(["youden", "extend", str(run), *(word for pair in words for word in pair)])

    def is_asked_by(self, given: Mapping[str, object]) -> bool:
        """Return whether a command with these options is the same command; the caller compares the contents of pools."""
        pools = [(getattr(self, name) is None) == (given.get(name) is None) for name in POOLS]
        same = [getattr(self, name) == given.get(name) for name in ("calls", "width", "top", "within")]
        return all(pools + same) and set(self.focus) == set(cast("list[str]", given.get("focus") or []))


def _word(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)
