"""Money is spent under a cap only, and only under a cap that can be kept."""

from __future__ import annotations

from collections.abc import Iterable

from youden.errors import ConfigError
from youden.judging.config.reading import JudgeConfig


def check_cap(configs: Iterable[JudgeConfig], max_cost: float | None) -> None:
    """Whether all of `configs` may be asked under `max_cost` USD; a jury stands for its judges.

    Raises: ConfigError [max-cost], [max-cost-needed], [price-unknown], [answer-unbounded].
    """
    if max_cost is not None and not max_cost >= 0:
        raise ConfigError(f"max_cost is {max_cost}. Give an amount of USD, 0 or more.", slug="max-cost")
    for config in configs:
        if config.may_cost and max_cost is None:
            raise ConfigError(
                f"Asking '{config.name}' can cost money, and no cap was given. Set max_cost in the config or --max-cost (USD); "
                "for a server of your own say `price: 0` in its config.",
                slug="max-cost-needed",
            )
        for one in config.judges or (config,):
            if max_cost is not None and one.makes_calls:
                _check_price(one, max_cost)


def _check_price(config: JudgeConfig, max_cost: float) -> None:
    if config.price_in is None or config.price_out is None:
        raise ConfigError(
            f"There is a cap of {max_cost:g} USD, but the price of '{config.name}' is unknown. "
            "Set price_in and price_out (USD per million tokens) in its config; `price: 0` for a server of your own.",
            slug="price-unknown",
        )
    if config.price_out > 0 and config.answer_limit is None:
        raise ConfigError(
            f"There is a cap of {max_cost:g} USD, but nothing bounds the answers of '{config.name}'. "
            "Set max_tokens, or max_completion_tokens under parameters.",
            slug="answer-unbounded",
        )
