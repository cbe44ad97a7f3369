"""Query a model with the OpenAI chat format through our own HTTP client, at thousands of calls per second."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson

from youden.judging.call.connection import Connection, make_request_body, parse_reply
from youden.judging.call.failures import CallError, to_rejection_if_quoted
from youden.types import Completion, Request


class WireJudge:
    """Sends one chat completion per request. The caller limits the time of a call.

    A provider with its own format overrides `path`, `headers`, `convert_request` and `convert_reply`.

    Parameters
    ----------
    connection : Connection
        Address and API key.

    Attributes
    ----------
    path : str
        Path of the endpoint, which is appended to the address. `{model}` is replaced by the model of the request.
    """

    path = "chat/completions"

    def __init__(self, connection: Connection) -> None:
        from youden.judging.call.http_client import HttpClient  # slow, and not needed for the record of a provider

        self.name = connection.name
        self._http = HttpClient(connection.address, self.headers(connection))

    async def answer(self, request: Request) -> Completion:
        """Send a request and return the model's reply. Raises: CallError if the call fails."""
        start_time = time.perf_counter()
        try:
            path = self.path.format(model=quote(request.model, safe=""))
            body = await self._http.send("POST", path, self.encode(request))
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
        return orjson.dumps(self.convert_request(make_request_body(request)))

    def decode(self, body: bytes, *, seconds: float) -> Completion:
        """Return the completion in a reply's body; `seconds` is the duration of the call. Raises: CallError."""
        from youden.judging.call.reply import parse_completion

        return parse_completion(self.convert_reply(parse_reply(body)), seconds=seconds)

    @staticmethod
    def convert_request(body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert the body of an OpenAI chat request to the format of the provider."""
        return body

    @staticmethod
    def convert_reply(reply: object) -> object:
        """Convert a reply, which may be any JSON value, to an OpenAI chat completion. An invalid reply may stay as it is."""
        return reply

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
