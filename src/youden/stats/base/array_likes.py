"""Let functions of arrays take lists, and arrays of pandas, polars and pyarrow, whose values are used by position.

Pandas is not imported. Indexing a Series by positions would use its labels, so every function gets arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from youden.errors import StatisticsError

F = TypeVar("F", bound=Callable[..., Any])


_ARRAY_TYPES = ("Floats", "Ids", "Positions", "Bools")


def takes_array_likes(function: F) -> F:
    """Convert the lists, Series and DataFrames among the arguments of a function to arrays.

    Parameters
    ----------
    function : callable
        Function of arrays, whose parameters have type annotations.

    Returns
    -------
    callable
        Function that converts its arguments, and calls `function` with the arrays. It raises StatisticsError [array-numbers] if
        an argument is not an array of real numbers. Values are matched by position. It therefore raises [array-index] if pandas
        objects of the same length have different indexes, or DataFrames of the same shape different columns.

    Examples
    --------
    >>> @takes_array_likes
    ... def add(a: "Floats", b: "Floats"):
    ...     return a + b
    >>> add([1, 2], [3, 4]).tolist()
    [4, 6]
    """
    signature = inspect.signature(function)
    array_names = [
        name
        for name, parameter in signature.parameters.items()
        if any(array_type in str(parameter.annotation) for array_type in _ARRAY_TYPES)
    ]

    @wraps(function)
    def call_with_arrays(*args: object, **kwargs: object) -> object:
        check_indexes([*args, *kwargs.values()])
        call = signature.bind(*args, **kwargs)
        for name in array_names:
            call.arguments[name] = _to_array(call.arguments[name])
        return function(*call.args, **call.kwargs)

    return cast(F, call_with_arrays)


def _is_pandas_object(value: object) -> bool:
    """Return whether a value is a Series or a DataFrame."""
    return hasattr(value, "iloc") and hasattr(value, "to_numpy")


def check_indexes(arguments: Sequence[Any], *, columns: bool = True) -> None:
    """Check that all pandas objects of the same length have the same index, and DataFrames of the same shape the same columns.

    arguments : arguments of a function; those that are not pandas objects are ignored
    columns : whether the columns of DataFrames are checked

    Raises StatisticsError [array-index] otherwise, because the function would match values with different labels by position.
    """
    pandas_objects = [argument for argument in arguments if _is_pandas_object(argument)]

    # compare each object with the first one of the same length, and each DataFrame with the first one of the same shape
    first_by_length: dict[int, Any] = {}
    first_by_shape: dict[tuple[int, ...], Any] = {}
    for current in pandas_objects:
        first = first_by_length.setdefault(len(current), current)
        _check_labels(first.index, current.index, "index", "b.loc[a.index]")
        _check_one_order(first, current)
        if columns and current.ndim == 2:
            first_frame = first_by_shape.setdefault(current.shape, current)
            _check_labels(first_frame.columns, current.columns, "columns", "b[a.columns]")


def _check_one_order(first: Any, later: Any) -> None:
    """Raise StatisticsError [array-index] if two Series are columns of youden's tables with different orders of agents.

    Each of these tables lists its best agent first, and its index numbers the rows, so equal indexes do not show equal agents.
    The error is raised only if both columns are descending, as in these tables: a column that the user has put into the order of
    the other table usually is not descending.
    """
    is_decreasing = _is_decreasing_column(first) and _is_decreasing_column(later)
    if is_decreasing and first.attrs["agents"] != later.attrs["agents"]:
        raise StatisticsError(
            f"Two tables list their agents in different orders: got {first.name!r} and {later.name!r}, each with the best agent "
            'first. Align them, for example by `a = a.set_index("agent")` and `b = b.set_index("agent").loc[a.index]`.',
            slug="array-index",
        )


def _is_decreasing_column(value: Any) -> bool:
    """Return whether a pandas object is a descending column of a table of agents, with the numbers of rows as its index."""
    has_row_numbers = type(value.index).__name__ == "RangeIndex"
    return bool("agents" in value.attrs and has_row_numbers and value.ndim == 1 and value.is_monotonic_decreasing)


def _check_labels(first: Any, later: Any, name: str, remedy: str) -> None:
    """Raise StatisticsError [array-index] unless two indexes are equal.

    first, later : indexes, or columns, of two pandas objects
    name : "index" or "columns", for the message
    remedy : expression that aligns the objects b and a
    """
    if not first.equals(later):
        raise StatisticsError(
            f"Arguments from pandas must have the same {name}: got {list(first[:3])} … and {list(later[:3])} …. "
            f"Align them, for example by `{remedy}`, or pass arrays (`to_numpy()`) in the same order.",
            slug="array-index",
        )


def _to_array(value: Any) -> Any:
    """Convert a sequence, or an array of another package, to an array of numbers.

    Masked values become NaN. Small numbers such as int8 and float16 become int64 and float64, so that differences and squares
    do not overflow.

    Raises StatisticsError [array-numbers] for all other values, such as None, a single number, a string or an array of strings.
    """
    array = _to_numpy(value)
    if not isinstance(array, np.ndarray):
        raise _make_no_numbers_error(type(array).__name__)
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype(np.float64), np.nan) if array.mask.any() else array.data
    if array.dtype.kind == "O":  # Python objects
        array = _convert_objects(array)
    check_arrays(array)

    if array.dtype.kind == "b" or array.dtype.itemsize >= 8:
        return array
    large_type = np.float64 if array.dtype.kind == "f" else np.int64
    return array.astype(large_type)


def _to_numpy(value: Any) -> Any:
    """Convert a sequence, or an array of pandas, polars or pyarrow, to a NumPy array; return any other value unchanged."""
    if _is_pandas_object(value):
        return value.to_numpy()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return stack(value)
    is_array_of_other_package = hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic)
    return np.asarray(value) if is_array_of_other_package else value


def stack(values: ArrayLike) -> NDArray[Any]:
    """Convert values to an array; raise StatisticsError [array-numbers] if rows differ in length."""
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


def check_arrays(*values: object) -> None:
    """Raise StatisticsError [array-numbers] unless all values are NumPy arrays of real numbers."""
    for value in values:
        if not isinstance(value, np.ndarray):
            raise _make_no_numbers_error(type(value).__name__)
        # truth values, signed and unsigned integers, floats
        if value.dtype.kind not in "biuf" or value.ndim == 0:
            raise _make_no_numbers_error(f"values of the type {value.dtype} in the shape {value.shape}")


def _make_no_numbers_error(received: str) -> StatisticsError:
    """Make the error for an argument that is not an array of real numbers."""
    return StatisticsError(
        f"Arguments must be arrays of real numbers: got {received}. Pass an array of numbers.", slug="array-numbers"
    )
