"""The one place where backends are made: the judge that a config names, behind the cassette that is inserted, if one is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from youden.judging.call.backend import Backend
from youden.judging.cassette.tape import with_cassette
from youden.judging.config.reading import JudgeConfig
from youden.judging.registry import calling_judge


def connect(config: JudgeConfig, environment: Mapping[str, str], *, of: Literal["judge", "model"] = "judge") -> Backend:
    """The backend that `config` names; its key is looked up in `environment` once it is first needed.

    of: a judge, whose config a cassette keeps beside its answers, or a model that writes texts.
    """
    return with_cassette(
        Backend(lambda: calling_judge(config.backend, config.connection(environment))),
        address=config.address,
        who=f"the {of} '{config.name}'",
        judge=config.public() if of == "judge" else None,
    )
