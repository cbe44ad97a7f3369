"""Connect the backends of judges, and check before that no config sends a credential to another host.

Only this module makes backends for a run, so that an active cassette (a file of recorded answers) applies to all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from youden.judging.backend_records import make_calling_judge
from youden.judging.backends.several import RoundRobin
from youden.judging.call.connection import Backend
from youden.judging.config.judge_files import JudgeConfig
from youden.judging.offline.tape import is_replay_only, with_cassette
from youden.types import Judge


def connect(
    config: JudgeConfig,
    environment: Mapping[str, str],
    *,
    kind: Literal["judge", "model"] = "judge",
    jury: Sequence[JudgeConfig] = (),
) -> Backend:
    """Make the backend of a judge or of a model that generates responses.

    Keys are looked up and checked when the first request is sent, not by this function.

    Parameters
    ----------
    config : JudgeConfig
        Backend, model and servers of a single judge, not of a jury. Requests are distributed over several servers.
    environment : mapping
        Environment variables that contain the API key.
    kind : {"judge", "model"}, default "judge"
        What the config describes; a cassette records the config of a judge only.
    jury : sequence of JudgeConfig, default ()
        All judges of the jury that the judge belongs to. Their keys are checked before the first request to any of them. Default:
        only the keys of this judge are checked.

    Returns
    -------
    Backend
        Object that sends requests to the servers. If a cassette (a file of recorded requests and answers) is active, it answers
        the requests that it contains.
    """
    return with_cassette(
        Backend(lambda: _make_judge(config, environment, jury)),
        address=config.address,
        description=f"the {kind} '{config.name}'",
        judge=config.public() if kind == "judge" else None,
    )


def check_trust(configs: Iterable[JudgeConfig], environment: Mapping[str, str]) -> None:
    """Check that the API keys of judges may be sent to their servers, unless a cassette answers all requests.

    Parameters
    ----------
    configs : iterable of JudgeConfig
        The judges.
    environment : mapping
        Environment variables with the keys.

    Raises
    ------
    ConfigError
        If a key may not be sent.
    """
    if not is_replay_only():
        for config in configs:
            config.check_trust(environment)


def _make_judge(config: JudgeConfig, environment: Mapping[str, str], jury: Sequence[JudgeConfig]) -> Judge:
    """Make the judge that sends requests to the server of a config; if it has several servers, to each in turn (round robin).

    environment : environment variables, which may contain the API key
    jury : all judges of the jury, if the judge belongs to one, else empty

    Raises: ConfigError if the API key of a judge of the jury may not be sent to its server.
    """
    check_trust(jury, environment)
    clients: dict[str, Judge] = {}  # by address of the server
    for server_config in config.servers:
        connection = server_config.connection(environment)
        clients[server_config.address] = make_calling_judge(server_config.backend, connection)
    if len(clients) > 1:
        return RoundRobin(clients)
    (only_client,) = clients.values()
    return only_client
