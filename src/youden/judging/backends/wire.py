"""Query a model with the OpenAI chat format through our own HTTP client, at thousands of calls per second."""

from __future__ import annotations

import time

import orjson

from youden.judging.call.connection import Connection, make_request_body, parse_reply
from youden.judging.call.failures import CallError, to_rejection_if_quoted
from youden.judging.call.http_client import HttpClient
from youden.judging.call.reply import parse_completion
from youden.types import Completion, Request


class WireJudge:
    """Sends one chat completion per request. The caller limits the time of a call.

    A provider with its own format overrides `path`, `headers`, `encode` and `decode`.

    Parameters
    ----------
    connection : Connection
        Address and API key.

    Attributes
    ----------
    path : str
        Path of the endpoint below the address.
    """

    path = "chat/completions"

    def __init__(self, connection: Connection) -> None:
        self.name = connection.name
        self._http = HttpClient(connection.address, self.headers(connection))

    async def answer(self, request: Request) -> Completion:
        """Send a request and return the model's reply. Raises: CallError if the call fails."""
        start_time = time.perf_counter()
        try:
            body = await self._http.send("POST", self.path, self.encode(request))
            return self.decode(body, seconds=time.perf_counter() - start_time)
        except CallError as error:
            raise to_rejection_if_quoted(error, request) from None
        except Exception as error:  # a reply that breaks the decoder fails this call only
            raise CallError(f"{type(error).__name__}: {error}", kind="transient") from None

    @staticmethod
    def headers(connection: Connection) -> dict[str, str]:
        """Return the HTTP headers of every request by name, with the credentials of the connection."""
        headers = {"Content-Type": "application/json"}
        if connection.authorization is not None:
            headers["Authorization"] = connection.authorization
        elif connection.api_key is not None:
            headers["Authorization"] = f"Bearer {connection.api_key}"
        return headers

    def encode(self, request: Request) -> bytes:
        """Return the body of the HTTP request, as JSON."""
        return orjson.dumps(make_request_body(request))

    def decode(self, body: bytes, *, seconds: float) -> Completion:
        """Return the completion in a reply's body; `seconds` is the duration of the call. Raises: CallError."""
        return parse_completion(parse_reply(body), seconds=seconds)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
