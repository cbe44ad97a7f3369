"""Let functions of arrays take lists and pandas objects, whose values are used by position.

Pandas is not imported. Indexing a Series by positions would use its labels, so every function gets arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from youden.errors import StatisticsError

F = TypeVar("F", bound=Callable[..., Any])


def takes_array_likes(function: F) -> F:
    """Convert the lists, Series and DataFrames among the arguments of a function to arrays.

    Parameters
    ----------
    function : callable
        Function of arrays.

    Returns
    -------
    callable
        Function that raises StatisticsError [array-index] if pandas objects of the same length have different indexes,
        because their values are matched by position.

    Examples
    --------
    >>> @takes_array_likes
    ... def add(a, b):
    ...     return a + b
    >>> add([1, 2], [3, 4]).tolist()
    [4, 6]
    """

    @wraps(function)
    def call_with_arrays(*args: object, **kwargs: object) -> object:
        _check_indexes([*args, *kwargs.values()])
        arrays = [_to_array(value) for value in args]
        return function(*arrays, **{name: _to_array(value) for name, value in kwargs.items()})

    return cast(F, call_with_arrays)


def _is_pandas_object(value: object) -> bool:
    """Return whether a value is a Series or a DataFrame."""
    return hasattr(value, "iloc") and hasattr(value, "to_numpy")


def _check_indexes(arguments: Sequence[Any]) -> None:
    """Raise StatisticsError [array-index] unless all pandas objects of the same length have the same index."""
    first_by_length: dict[int, Any] = {}
    for later in filter(_is_pandas_object, arguments):
        first = first_by_length.setdefault(len(later), later)
        if not first.index.equals(later.index):
            raise StatisticsError(
                f"Arguments from pandas must have the same index: got {list(first.index[:3])} … and {list(later.index[:3])} …. "
                "Align them, for example by `b.loc[a.index]`, or pass arrays (`to_numpy()`) in the same order.",
                slug="array-index",
            )


def _to_array(value: Any) -> Any:
    """Convert a list or a pandas object to an array; return any other value unchanged."""
    if _is_pandas_object(value):
        return value.to_numpy()
    return np.asarray(value) if isinstance(value, list) else value
