"""Numbers on the command line: within bounds, and finite."""

from __future__ import annotations

from math import isfinite

import click


class Number(click.FloatRange):
    """A number that is one: neither nan nor inf passes for it."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(str(value))
        except ValueError:
            self.fail(f"{value!r} is no number. Give one such as {self._such_as}.", param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is no number that can be counted with. Give one such as {self._such_as}.", param, ctx)
        return float(super().convert(number, param, ctx))

    @property
    def _such_as(self) -> str:
        return "0.05" if self.max == 1 else "10"
