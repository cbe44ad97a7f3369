"""Define command-line options that override the config of a run, and options for sending requests to a judge.

The options of config keys are generated from `youden.run_keys`, so that types, limits and help have one source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import click

from youden.cli import options
from youden.cli.options import Number, parse_names
from youden.errors import PlanError
from youden.project_store import usual_store
from youden.run_keys import REPLACED_KEYS, CallBudget, DeclaredKey, declared_keys

if TYPE_CHECKING:
    from youden.data.folder.run_config import RunConfig
    from youden.judging.scheduler.options import Batching, JudgingOptions
    from youden.types import Progress
    from youden.types.pool import Json

    Overrides = Mapping[str, Any]
    """Values of options that were set on the command line, by config key."""
    OptionsFactory = Callable[..., JudgingOptions]
    """Makes the options of judging from those of the command line and from `progress` and `batching`, its arguments."""

R = TypeVar("R")


def _make_config_option(name: str, help: str | None) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator that adds the command-line option of a config key to a command.

    The option has the type, the limits and the help of the key.

    name : config key
    help : help text of the option; None to use the help text of the key
    """
    declared_key = declared_keys()[name]
    help = help or declared_key.key.help
    if name == "calls":
        return calls_option(help)

    python_type = declared_key.types[0]
    option = name.replace("_", "-")
    is_flag = python_type is bool
    is_list = get_origin(python_type) is list
    metavar = declared_key.key.metavar
    return click.option(
        f"--{option}/--no-{option}" if is_flag else f"--{option}",
        type=_choose_click_type(declared_key),
        is_flag=is_flag,
        default=None,
        callback=parse_names if is_list else None,
        metavar=None if metavar == "PATH" else metavar,  # click writes PATH itself
        help=help,
    )


def _choose_click_type(declared_key: DeclaredKey) -> Any:
    """Choose the type by which click validates the option of a config key.

    Returns a click type for a path, a choice or a range of numbers. Returns None for other types: click then accepts any text,
    and the config validates it later.
    """
    python_type = declared_key.types[0]
    if declared_key.key.metavar in ("FILE", "PATH"):
        return click.Path(path_type=Path)
    if get_origin(python_type) is Literal:
        return click.Choice(get_args(python_type))
    if python_type not in (int, float):
        return None

    # limits by operator: ge (≥), gt (>), le (≤), lt (<)
    limits = declared_key.limits
    low = limits.get("ge", limits.get("gt"))
    high = limits.get("le", limits.get("lt"))
    number_range = click.IntRange if python_type is int else Number
    return number_range(low, high, min_open="gt" in limits, max_open="lt" in limits)


def parse_budget(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | str | None:
    """Parse an option or argument that is a budget of calls, as a click callback.

    Returns a number of calls as an int, or a text: "5%" for a percentage of the dense calls (at most 100), or "450/agent" for
    the paired trials per agent. Returns None if the option is not set. Raises click.BadParameter for any other text, and for
    0. The first two parameters have no effect.
    """
    if value is None:
        return None
    try:
        return CallBudget.parse(value).plain
    except PlanError as error:
        raise click.BadParameter(error.message.removeprefix("calls: ")) from None


def calls_option(help: str, *, several: bool = False) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator that adds --calls to a command.

    The decorator also adds the options --trials and --percent of earlier versions. The help does not list them, and each
    raises an error that names --calls.

    Parameters
    ----------
    help : str
        Help of the option.
    several : bool, default False
        Whether the option accepts several budgets, separated by commas. The command then receives a tuple of budgets.

    Returns
    -------
    callable
        Decorator of a command.
    """

    if several:
        calls = click.option("--calls", callback=_parse_budgets, metavar="BUDGETS", help=help)
    else:
        calls = click.option("--calls", callback=parse_budget, metavar="BUDGET", help=help)
    trials = click.option("--trials", hidden=True, expose_value=False, callback=_refuse_earlier_option)
    percent = click.option("--percent", hidden=True, expose_value=False, callback=_refuse_earlier_option)

    def add_options(command: Callable[..., R]) -> Callable[..., R]:
        """Add --calls, --percent and --trials to a command."""
        return options.add_parameters(command, [calls, percent, trials])

    return add_options


def _parse_budgets(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int | str | None, ...]:
    """Parse a comma-separated list of budgets, as a click callback; an empty tuple if the option is not set."""
    budgets = (value or "").split(",")
    return tuple(parse_budget(ctx, parameter, budget) for budget in budgets if budget.strip())


def _refuse_earlier_option(_ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Refuse --trials or --percent, options of earlier versions, and name the replacement, as a click callback."""
    if value is None:
        return
    option = parameter.opts[0]
    config_line = str(REPLACED_KEYS[option.removeprefix("--")]).format(value)  # for example, "calls: 5%"
    key, budget = config_line.split(": ", 1)
    raise click.UsageError(f"No such option: {option}. Set --{key} {budget}.")


def keys_for_command(command: str) -> list[str]:
    """Return the config keys that the command `plan`, `judge` or `run` has as options."""
    return [name for name, declared in declared_keys().items() if command in declared.key.commands.split()]


def config_options(*keys: str, **helps: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator that adds one option per config key to a command.

    The command does not receive these options one by one. It receives one argument `overrides`: a mapping from config key to
    value, which contains the options that the user has set.

    Parameters
    ----------
    *keys : str
        Config keys. Each option has the help text of its key.
    **helps : str
        Further config keys, with their help texts for this command.

    Returns
    -------
    callable
        Decorator of a command.
    """
    all_keys = (*keys, *helps)
    option_decorators = [_make_config_option(key, helps.get(key)) for key in all_keys]

    def add_options(command: Callable[..., R]) -> Callable[..., R]:
        """Add the options of all config keys that `config_options` was called with to a command."""

        @wraps(command)
        def call_with_overrides(**arguments: object) -> R:
            """Collect the options that are set in a dict, and call the command with the argument `overrides`, this dict."""
            values = {key: arguments.pop(key) for key in all_keys}
            overrides = {key: value for key, value in values.items() if value is not None}
            if "store" in overrides:  # the user has named this store, so its host may get the user's password
                from youden.judging.store.permission import allow_store

                allow_store(str(overrides["store"]))
            return command(overrides=overrides, **arguments)

        return options.add_parameters(call_with_overrides, option_decorators)

    return add_options


def load_config(path: Path, overrides: Overrides) -> RunConfig:
    """Load the config of a run, and replace the values of keys by those of the options on the command line.

    Judge, design and pool are checked here, before the libraries of a run are imported. The import takes a second. Thus, the user
    sees mistakes sooner.

    Parameters
    ----------
    path : Path
        YAML file.
    overrides : mapping
        Values of options, by config key.

    Returns
    -------
    RunConfig
        Config. The key `store` names the database of the judge's answers. If neither the file nor an option sets it,
        `with_default_store` chooses the store.

    Raises
    ------
    click.UsageError
        If both --robust and --trusted are set.
    ConfigError
        If the config is invalid, or its judge or design cannot be found.
    PoolError
        [pool-not-found]: if there is no such pool.
    """
    from youden.data.folder.run_config import load_run_config, with_default_store

    changes = _make_config_changes(overrides)
    config = with_default_store(load_run_config(path, changes), usual_store())

    from youden.judging.config.judge_files import load_judge_of_run

    load_judge_of_run(config)
    from youden.data.pools.pool_reader import locate_pool
    from youden.protocol.designs import DESIGNS

    DESIGNS.check(config.design)
    locate_pool(config.pool)
    return config


def _make_config_value(key: str, value: object) -> Json:
    """Make the value of a config key from the value of its option.

    The option --families names a file; the config key gets the contents of the file.
    """
    if key == "families":
        from youden.data.label_tables import read_families

        return {**read_families(Path(str(value)))}
    if isinstance(value, tuple):
        return [str(item) for item in value]
    if isinstance(value, bool | int | float):
        return value
    return str(value)


def _make_config_changes(overrides: Overrides) -> dict[str, Any]:
    """Convert the options of the command line to new values of config keys, which replace the values in the config file.

    Some keys exclude each other, for example `robust` and `trusted`. If an option sets one of them, the other one is reset,
    because the config file may contain it.

    overrides : values of the options that the user set, by config key

    Returns the new values by config key.
    Raises: click.UsageError if both --robust and --trusted are set.
    """
    if overrides.get("robust") and "trusted" in overrides:
        raise click.UsageError("Got both --robust and --trusted. Set only one of them.")

    changes = {key: _make_config_value(key, value) for key, value in overrides.items()}
    if "trusted" in overrides:
        changes["robust"] = False
    elif overrides.get("robust"):
        changes["trusted"] = []
    return changes


def judging_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add the options --retry-failed, --log and --grace to a command.

    The command receives them as one argument: a function `make_options`. For example, `make_options(progress=bar)` returns
    `JudgingOptions` with the values of the three options and this progress bar. The second optional argument of
    `make_options` is `batching`, the settings of a Batch API.

    The command may also open the store (the database of answers) that the config of the run names.
    """

    @options.retry_failed
    @options.log
    @options.grace
    @options.allow_config_store
    @wraps(function)
    def call_with_make_options(*, retry_failed: bool, log: Path | None, grace: float, **arguments: object) -> R:
        """Call the command with `make_options` in place of --retry-failed, --log and --grace, and return its result.

        `make_options` is a function that returns `JudgingOptions` with these values (see `judging_options`). With --retry-failed,
        a note about the cost is printed to standard error first. The other arguments are passed unchanged.

        retry_failed : whether to resend requests whose stored outcome is not an answer
        log : file to which one line of JSON is appended per call and failure; None for no file
        grace : seconds that calls in flight may take after a stop signal
        """
        if retry_failed:
            from youden.cli.output import print_note

            print_note(
                "with --retry-failed, stored requests without an answer are sent again; the cost of the plan excludes them"
            )
        make_options = partial(_make_judging_options, retry_failed=retry_failed, log=log, grace=grace)
        return function(make_options=make_options, **arguments)

    return call_with_make_options


def _make_judging_options(
    *,
    retry_failed: bool,
    log: Path | None,
    grace: float,
    progress: Progress | None = None,
    batching: Batching | None = None,
) -> JudgingOptions:
    """Make `JudgingOptions`, whose module is imported only when a command sends requests."""
    from youden.judging.scheduler.options import JudgingOptions as Options

    return Options(retry_failed=retry_failed, log=log, grace=grace, progress=progress, batching=batching)
