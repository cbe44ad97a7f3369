"""Provide problematic ids, equality of records and a small judged run for tests of run folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from small_pools import answer_with, make_pool
from youden import make_plan
from youden.data.folder.run_folder import RunFolder
from youden.types import Verdicts

ids = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5).filter(lambda value: bool(value.strip())),
    min_size=2,
    max_size=4,
    unique=True,
)


def equal(one: object, other: object) -> bool:
    """Compare records field by field: arrays by value and type, NaN equal to NaN."""
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(other) and all(
            equal(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__
        )
    if isinstance(one, np.ndarray):
        assert isinstance(other, np.ndarray)
        same = one.tolist() == other.tolist() if one.dtype.kind == "S" else np.array_equal(one, other, equal_nan=True)
        return one.dtype == other.dtype and same
    if isinstance(one, dict):
        return (
            isinstance(other, dict) and one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
        )
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(equal, one, other))
    return one == other


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files of a folder by relative path."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def assert_nearly_equal(one: object, other: object, at: str = "") -> None:
    """Check that two trees of dataclasses, dicts and sequences are equal, numbers to 1e-12."""
    if hasattr(one, "__dict__"):
        assert type(one) is type(other), at
        assert_nearly_equal(vars(one), vars(other), at)
    elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12, err_msg=at)
    elif isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys(), at
        for key in one:
            assert_nearly_equal(one[key], other[key], f"{at}.{key}")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        assert len(one) == len(other), at
        for n, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_nearly_equal(a, b, f"{at}[{n}]")
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-12, abs=1e-12, nan_ok=True), at
    else:
        assert one == other, at


def write_judged(folder: RunFolder) -> Verdicts:
    """Write plan, verdicts and rates of a cyclic run, a fifth of whose calls are refused."""
    plan = make_plan(make_pool(), calls="40%", independent="pooled:10", seed=1)
    rng = np.random.default_rng(0)
    result = answer_with(plan, rng.random(len(plan)), missing=rng.random(len(plan)) < 0.2)
    folder.write_plan(plan)
    folder.write_verdicts(result)
    folder.write_rates(result.rates())
    return result
