"""The judges that can be named in a config, and what is known of each without loading it: one record a backend.

A judge is made in one of two ways: from a `Connection` where it makes calls, from its parameters where it answers whole plans
(`answer_many`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from youden.errors import ConfigError
from youden.judging.call.connection import Connection
from youden.nouns import Json, Judge, PlanJudge
from youden.registry import Registry

JURY = "jury"
REPLAY = "replay"


@dataclass(frozen=True)
class BackendRecord:
    """What is known of a backend without loading it, for its library may take seconds.

    place: where its class is, as "module:Class". makes_calls: it answers requests one by one; else it answers whole plans.
    address: where it asks when a config gives no base_url; empty where its library knows. key_variable: the environment
    variable of its key when a config names none. batches: whose Batch API works off its batches. installed: the
    package that it needs beside youden's own.
    """

    place: str
    makes_calls: bool
    address: str = ""
    key_variable: str | None = None
    batches: str | None = None
    installed: str | None = None


_OPENAI = "https://api.openai.com/v1"

BACKENDS = {
    JURY: BackendRecord("youden.judging.backends.several:Jury", makes_calls=False),
    "lexical": BackendRecord("youden.judging.backends.lexical:Lexical", makes_calls=False),
    "litellm": BackendRecord("youden.judging.backends.litellm:LitellmJudge", makes_calls=True, installed="litellm"),
    "openai": BackendRecord(
        "youden.judging.backends.openai:OpenAIJudge", True, _OPENAI, "OPENAI_API_KEY", batches="openai"
    ),
    REPLAY: BackendRecord("youden.judging.backends.replay:Replay", makes_calls=False),
    "wire": BackendRecord("youden.judging.backends.wire:WireJudge", True, _OPENAI, "OPENAI_API_KEY", batches="openai"),
}
"""One record a backend. A test holds it against the classes; tests of all backends take their names from here."""

JUDGES: Registry[type] = Registry("youden.judges", "judge", {name: one.place for name, one in BACKENDS.items()})


def backend_of(name: str) -> BackendRecord:
    """The record of a backend; of another package's it is made from its class. Raises: ConfigError [unknown-judge]."""
    return BACKENDS.get(name) or BackendRecord("", makes_calls=not hasattr(JUDGES.load(name), "answer_many"))


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
