"""Define reasons for skipping a test even if every package is installed."""

from __future__ import annotations

NO_SHARED = "real judge data (../shared/peer-prediction) is not beside this checkout"
NO_LITELLM = "litellm is not installed"
NO_LOOP = "mounting a loop device needs root on Linux"
