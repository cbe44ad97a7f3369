"""Let functions of arrays take lists and pandas objects, whose values are used by position.

Pandas is not imported. Indexing a Series by positions would use its labels, so every function gets arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

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
        because their values are matched by position, and [array-numbers] if an argument is not an array of real numbers.

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
    """Convert a list, tuple, range or pandas object to an array of numbers; return any other value that is no array unchanged.

    Masked values become NaN. Small numbers such as int8 and float16 become int64 and float64, so that differences and squares
    do not overflow.

    Raises: StatisticsError [array-numbers] if the values are not real numbers, or if a set, dictionary or iterator is passed.
    """
    if isinstance(value, dict | set | frozenset | Iterator):
        raise _make_no_numbers_error(type(value).__name__)
    if _is_pandas_object(value):
        value = value.to_numpy()
    elif type(value) in (list, tuple, range):
        value = _stack(value)
    if not isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.ma.MaskedArray):
        value = np.ma.filled(value.astype(np.float64), np.nan) if value.mask.any() else value.data
    if value.dtype.kind == "O":
        value = _convert_objects(value)

    if value.dtype.kind not in "biuf":
        raise _make_no_numbers_error(f"values of the type {value.dtype}")
    if value.dtype.kind == "b" or value.dtype.itemsize >= 8:
        return value
    return value.astype(np.float64 if value.dtype.kind == "f" else np.int64)


def _stack(values: Sequence[object]) -> NDArray[Any]:
    """Convert a sequence to an array; raise StatisticsError [array-numbers] if its rows differ in length."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise _make_no_numbers_error("rows of different lengths") from error


def _convert_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Convert an array of Python objects to an array of their type, or to floats with NaN for None and pandas.NA."""
    converted = np.asarray(values.tolist())
    if converted.dtype.kind != "O":
        return converted
    is_missing = np.array([value is None or type(value).__name__ == "NAType" for value in values.flat], dtype=np.bool_)
    filled = np.where(is_missing.reshape(values.shape), np.nan, values)
    try:
        return filled.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise _make_no_numbers_error(str(error)) from error


def _make_no_numbers_error(received: str) -> StatisticsError:
    """Make the error for an argument that is not an array of real numbers."""
    return StatisticsError(
        f"Arguments must be arrays of real numbers: got {received}. Pass an array of numbers.", slug="array-numbers"
    )
