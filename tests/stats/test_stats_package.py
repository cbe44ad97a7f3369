"""The names of `youden.stats`: all there, none loaded before it is used, none hidden by a module of the same name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import youden.stats


@pytest.mark.parametrize("name", youden.stats.__all__)
def test_every_name_resolves_and_no_module_hides_it(name: str) -> None:
    assert getattr(youden.stats, name) is not None
    assert not (Path(youden.stats.__file__).parent / f"{name}.py").exists()
    assert name in dir(youden.stats)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'curl_quantile'"):
        _ = youden.stats.curl_quantile


def test_importing_the_package_loads_no_numpy_and_the_estimators_no_scikit_learn() -> None:
    code = (
        "import sys, youden.stats; assert 'numpy' not in sys.modules; "
        "names = [getattr(youden.stats, name) for name in youden.stats.__all__]; "
        "[youden.stats.BASELINES.load(name)() for name in youden.stats.BASELINES]; "
        "assert not {'sklearn', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(Path(youden.__file__).parents[1])})
