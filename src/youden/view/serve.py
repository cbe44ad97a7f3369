"""Starts the viewer, which listens on this machine alone."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import uvicorn

from youden.errors import ConfigError
from youden.view.app import make_app
from youden.view.runs import Runs

ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Serving:
    """A viewer that is about to answer. url: with the token."""

    url: str
    server: uvicorn.Server
    listener: socket.socket

    def run(self) -> None:
        """Answer until interrupted."""
        self.server.run(sockets=[self.listener])


def prepare(runs: Runs, *, port: int, token: str) -> Serving:
    """A viewer on 127.0.0.1. port: 0 takes a free one.

    Raises: ConfigError [view-port] where the port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Port {port} cannot be used ({error.strerror}). Give another --port, or leave it out.", slug="view-port"
        ) from None
    port = listener.getsockname()[1]
    app = make_app(runs, token=token, port=port)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    return Serving(f"http://{ADDRESS}:{port}/?token={token}", uvicorn.Server(config), listener)
