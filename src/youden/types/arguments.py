"""Check arguments and options, so that a wrong one is an error that states the remedy."""

from __future__ import annotations

from types import UnionType

from youden.errors import ConfigError


def check_argument(name: str, value: object, expected: type | UnionType, remedy: str) -> None:
    """Check the type of an argument.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : object
        Its value.
    expected : type or union of types
        Types that are allowed; subclasses are allowed, too, for example bool for int.
    remedy : str
        Imperative sentence that states what to pass, with which the message ends.

    Raises
    ------
    ConfigError
        [argument-type]: if the value has another type. The message names the argument and the type of the value.

    Examples
    --------
    >>> check_argument("baseline", "template", str, "Pass the id of an agent.")
    """
    if not isinstance(value, expected):
        # a ranking is a RankingFrame, a private subclass of DataFrame
        type_name = "DataFrame" if is_data_frame(value) else type(value).__name__
        raise ConfigError(f"`{name}` has the wrong type: got {type_name}. {remedy}", slug="argument-type")


def is_data_frame(value: object) -> bool:
    """Return whether a value is a pandas DataFrame. Pandas is not imported."""
    return hasattr(value, "columns") and hasattr(value, "iloc")


def describe_no_frame(value: object) -> str:
    """State the type of a value that is not a pandas DataFrame, and how to convert it if it is a table of another package.

    Examples
    --------
    >>> describe_no_frame({})
    'got dict.'
    """
    name = type(value).__name__
    if not hasattr(value, "to_pandas"):
        return f"got {name}."
    package, _, _ = type(value).__module__.partition(".")
    return f"got {package}.{name}. Convert it by its method `to_pandas()`."


def check_unused(user: str, **values: object) -> None:
    """Raise ConfigError [option-unused] if options are set that have no effect.

    Parameters
    ----------
    user : str
        What does not use the options, as the subject of a sentence.
    **values : object
        Values of these options by name, with _ in place of -; false if an option is not set.
    """
    names = [f"--{name.replace('_', '-')}" for name, value in values.items() if value]
    if names:
        raise ConfigError(
            f"{user} does not use these options: got {', '.join(names)}. Remove them.", slug="option-unused"
        )
