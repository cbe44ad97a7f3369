"""Define the extensions of a run, including an unfinished one, as they are listed in the run's config.yaml.

`ExtensionStep` declares the fields once. A request adds the fields that determine the number of calls. The record of an
unfinished extension adds its state.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from youden.run_keys import FromOne, FromZero, Usd
from youden.text import printable

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
        Number of calls, of both trial types together. With a pool, None means as many calls per new agent, item or
        repeat as the existing ones have on average.
    independent : int, optional
        Number of these calls that are independent trials. None means the default number.
    focus : list of str
        Ids of the agents that the calls compare. Empty means all agents.
    top : int, optional
        In a round of a search: number of agents to select.
    max_regret : float, optional
        In a round of a search: maximum regret of the selected agents, as a difference of abilities.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    combinations: ClassVar[_Combinations] = (
        *(({kind}, {"calls"}) for kind in POOLS),
        ({"calls"}, {"focus", "independent"}),
        ({"calls", "focus", "top"}, {"max_regret"}),
    )
    """Allowed combinations of fields: the required ones, and those that may be added to them."""

    agents: _Text | None = None
    items: _Text | None = None
    repeats: _Text | None = None
    calls: FromOne | None = None
    independent: FromOne | None = None
    focus: list[_Text] = Field(default_factory=list)
    top: FromOne | None = None
    max_regret: Annotated[float, Field(gt=0, lt=2)] | None = None

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        """Raise ValueError unless the fields that are set are an allowed combination, for example `agents` and `calls`."""
        all_fields: set[str] = set()
        for required, optional in self.combinations:
            all_fields |= required | optional
        set_fields = {name for name in all_fields if getattr(self, name)}
        for required, optional in self.combinations:
            has_only_allowed_fields = set_fields <= required | optional
            if required <= set_fields and has_only_allowed_fields:
                return self

        names = ", ".join(sorted(set_fields)) or "nothing"
        choices = [" and ".join(sorted(required)) for required, _ in self.combinations]
        raise ValueError(f"an extension cannot consist of {names}; set one of: {'; '.join(choices)}")

    @property
    def kind(self) -> ExtensionKind:
        """What the extension adds: "agents", "items", "repeats" (further responses) or only "calls"."""
        for name in POOLS:
            if getattr(self, name) is not None:
                return cast("ExtensionKind", name)
        return "calls"

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
        Number of agents to select. Requests a search for the best agents, whose rounds compare fewer and fewer agents.
    max_regret : float, optional
        Maximum regret of the selected agents, as a difference of abilities. Also requests such a search.
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
        """Whether the request is a search for the best agents, in rounds that compare fewer and fewer agents."""
        return self.top is not None or self.max_regret is not None


class UnfinishedExtension(ExtensionRequest):
    """An extension whose command was stopped before the report was written.

    The same command finishes it. Until then, any other extension is refused.

    Attributes
    ----------
    max_cost : float, optional
        Maximum cost of the extension in USD. A command with another maximum continues the same extension.
    paid_before : float
        Amount in USD that the run had paid before the extension. The cost cap of the run is the sum of this amount and
        `max_cost`.
    pool : str
        Digest of the run's pool including this extension.
    first : int
        Number of extensions that the run had before the command.
    number : int
        Number of extensions before `step`. It is greater than `first` only in a search, from the second round on.
    step : ExtensionStep
        The step that was judged last; in a search, the round.
    """

    max_cost: Usd | None = None
    paid_before: Usd = 0.0
    pool: _Text
    first: FromZero
    number: FromZero
    step: ExtensionStep

    def format_command(self, run: Path) -> str:
        """Return the command line, quoted for the shell, that finishes the extension.

        It is the command with which the user started the extension.

        Parameters
        ----------
        run : Path
            Folder of the run.

        Returns
        -------
        str
            The command line, such as `youden extend agents runs/demo new-agents --calls 4000`.
        """
        argument_field = self._get_argument_field()
        if argument_field is None:
            words = ["youden", "extend", "best", str(run)]
        else:
            value = getattr(self, argument_field)
            words = ["youden", "extend", _to_dashes(argument_field), str(run), _to_argument(value)]

        for field in ("calls", "half_width", "top", "max_regret", "max_cost"):
            value = getattr(self, field)
            if value is not None and field != argument_field:
                words += [f"--{_to_dashes(field)}", _to_argument(value)]
        for agent in self.focus:
            words += ["--focus", _to_argument(agent)]
        return printable.format_command(words)

    def _get_argument_field(self) -> str | None:
        """Return the field whose value is an argument of the command; the values of all other fields are options.

        The command depends on what the extension adds:

        - `youden extend agents RUN POOL`, or `items` or `repeats` in place of `agents`: field "agents", "items" or "repeats"
        - `youden extend calls RUN N`: field "calls"
        - `youden extend half-width RUN W`, which adds calls until the intervals have the half-width W: field "half_width"
        - `youden extend best RUN`, which searches for the best agents and has only options: None
        """
        if self.is_search:
            return None
        # an extension by agents may also have a half-width, which is then an option
        if self.kind == "calls" and self.half_width is not None:
            return "half_width"
        return self.kind

    def is_same_request(self, request: ExtensionRequest) -> bool:
        """Return whether a request has the same options as this extension.

        The caller compares the contents of the pools.
        """
        return _comparable_options(self) == _comparable_options(request)


def _comparable_options(request: ExtensionRequest) -> dict[str, object]:
    """Return the options of a request without the order of agents, and without the paths of pools."""
    options: dict[str, object] = {name: getattr(request, name) for name in ExtensionRequest.model_fields}
    for name in POOLS:
        options[name] = options[name] is None
    options["focus"] = set(request.focus)
    return options


def _to_dashes(field: str) -> str:
    """Return the name of a field as it is written on the command line, such as half-width for `half_width`."""
    return field.replace("_", "-")


def _to_argument(value: object) -> str:
    """Format a value as an argument of a command line; all digits of a float are kept."""
    return repr(value) if isinstance(value, float) else str(value)
