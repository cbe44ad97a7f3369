"""What options take: finite numbers, names and numbers separated by commas, pairs with a sign of equality."""

from __future__ import annotations

from collections.abc import Callable
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


def words(_ctx: click.Context, _parameter: click.Parameter, said: str | None) -> tuple[str, ...] | None:
    """An option's callback: names separated by commas."""
    return None if said is None else _split(said)


def numbers(_ctx: click.Context, _parameter: click.Parameter, said: str | None) -> tuple[float, ...]:
    """An option's callback: numbers above 0, separated by commas; none where nothing is said."""
    try:
        found = () if said is None else tuple(map(float, _split(said)))
    except ValueError as error:
        raise click.BadParameter(f"{said!r} is no list of numbers. Give, for example, 1,2,5.") from error
    if not all(0 < number < float("inf") for number in found):
        raise click.BadParameter(f"{said!r} holds a number that is not above 0. Give, for example, 1,2,5.")
    return found


def pairs(
    such_as: str, *, at_last: bool = False
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, str]]:
    """The callback of a repeated option NAME=VALUE. such_as: an example. at_last: the name may hold a `=` itself."""

    def read(_ctx: click.Context, parameter: click.Parameter, said: tuple[str, ...]) -> dict[str, str]:
        found = {}
        for text in said:
            name, sign, value = text.rpartition("=") if at_last else text.partition("=")
            if not (name and sign and value):
                raise click.BadParameter(f"{text!r} is no {parameter.metavar}. Give, for example, {such_as}.")
            found[name] = value
        return found

    return read


def _split(text: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise click.BadParameter(f"{text!r} names nothing. Give one name, or several separated by commas.")
    return found
