"""The judges that can be named in a config.

A judge is made in one of two ways: from a `Connection` where it makes calls, from its parameters where it answers whole plans
(`answer_many`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from youden.errors import ConfigError
from youden.judging.call.connection import Connection
from youden.nouns import Json, Judge, PlanJudge
from youden.registry import Registry

JURY = "jury"
REPLAY = "replay"

_MAKE_CALLS = {"litellm", "openai", "wire"}
_MAKE_NONE = {JURY, "lexical", REPLAY}
"""Known without loading them, for their libraries take seconds; a test holds this against the classes."""

JUDGES: Registry[type] = Registry(
    "youden.judges",
    "judge",
    {
        JURY: "youden.judging.backends.several:Jury",
        "lexical": "youden.judging.backends.lexical:Lexical",
        "litellm": "youden.judging.backends.litellm:LitellmJudge",
        "openai": "youden.judging.backends.openai:OpenAIJudge",
        REPLAY: "youden.judging.backends.replay:Replay",
        "wire": "youden.judging.backends.wire:WireJudge",
    },
)


def makes_calls(backend: str) -> bool:
    """Whether the judge answers requests one by one. Raises: ConfigError [unknown-judge]."""
    if backend in _MAKE_CALLS or backend in _MAKE_NONE:
        return backend in _MAKE_CALLS
    return not hasattr(JUDGES.load(backend), "answer_many")


def calling_judge(backend: str, connection: Connection) -> Judge:
    """The judge that makes calls through `connection`."""
    return cast(Judge, JUDGES.load(backend)(connection))


def plan_judge(backend: str, parameters: Mapping[str, Json]) -> PlanJudge:
    """The judge that answers whole plans, made with `parameters`.

    Raises: ConfigError [judge-parameters] where it does not know one of them.
    """
    try:
        return cast(PlanJudge, JUDGES.load(backend)(**parameters))
    except TypeError as error:
        raise ConfigError(
            f"The judge '{backend}' does not take these parameters: {dict(parameters)} ({error}). Correct or remove them.",
            slug="judge-parameters",
        ) from None
