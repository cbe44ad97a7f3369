"""The one place where backends are made: the judge that a config names, behind the cassette that is inserted, if one is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from youden.judging.backends.in_turn import InTurn
from youden.judging.call.backend import Backend
from youden.judging.cassette.tape import with_cassette
from youden.judging.config.reading import JudgeConfig
from youden.judging.registry import calling_judge
from youden.nouns import Judge


def connect(config: JudgeConfig, environment: Mapping[str, str], *, of: Literal["judge", "model"] = "judge") -> Backend:
    """The backend that `config` names, several servers in turn; its key is looked up in `environment` once it is first needed.

    of: a judge, whose config a cassette keeps beside its answers, or a model that writes texts.
    """
    return with_cassette(
        Backend(lambda: _judge(config, environment)),
        address=config.address,
        who=f"the {of} '{config.name}'",
        judge=config.public() if of == "judge" else None,
    )


def _judge(config: JudgeConfig, environment: Mapping[str, str]) -> Judge:
    servers = {one.address: calling_judge(one.backend, one.connection(environment)) for one in config.servers}
    return InTurn(servers) if len(servers) > 1 else servers[config.address]
