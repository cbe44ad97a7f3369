"""Asks a model behind the OpenAI chat format: OpenAI itself, or any server with a compatible `base_url`.

It knows the SDK, its exceptions and the reply's JSON; it refuses to retry, to judge or to keep anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, cast

import openai
import orjson
from openai import AsyncOpenAI, DefaultAioHttpClient

from youden.judging.connection import Connection
from youden.judging.failures import CallError, fate
from youden.types import Completion, Request

_NO_KEY = "none"


class OpenAIJudge:
    """One chat completion a request. `client`: an SDK client of your own, its retries off."""

    def __init__(
        self,
        connection: Connection,
        *,
        client: AsyncOpenAI | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.name = connection.name
        self._connection = connection
        self._clock = clock
        self._client = client or _client(connection)

    async def answer(self, request: Request) -> Completion:
        """The model's reply. Raises: CallError."""
        began = self._clock()
        try:
            reply = await self._client.chat.completions.with_raw_response.create(
                model=request.model,
                messages=cast(Any, [{"role": one.role, "content": one.content} for one in request.messages]),
                extra_body=dict(request.parameters),
            )
            body = reply.text
        except openai.APIStatusError as error:
            raise self._status_error(error) from None
        except openai.APITimeoutError:
            raise CallError("No reply within the timeout.", kind="retry") from None
        except (openai.APIError, OSError, ValueError) as error:
            cause = error.__cause__ or error
            raise self._error(f"{type(cause).__name__}: {cause}", kind="retry") from None
        return completion(body, seconds=self._clock() - began)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._client.close()

    def _status_error(self, error: openai.APIStatusError) -> CallError:
        status = error.status_code
        kind = fate(status, error.code or error.type)
        return self._error(f"HTTP {status}: {error.message}", kind=kind, status=status, retry_after=_retry_after(error))

    def _error(self, reason: str, **fields: Any) -> CallError:
        return CallError(self._connection.redact(reason), **fields)


def _client(connection: Connection) -> AsyncOpenAI:
    headers = {} if connection.authorization is None else {"Authorization": connection.authorization}
    return AsyncOpenAI(
        api_key=connection.api_key or _NO_KEY,
        base_url=connection.address,
        timeout=connection.timeout,
        max_retries=0,
        default_headers=headers,
        http_client=DefaultAioHttpClient(),
    )


def completion(body: str, *, seconds: float) -> Completion:
    """The completion that a chat reply's JSON holds.

    Raises: CallError, to be tried again, where the reply is not one.
    """
    try:
        reply = orjson.loads(body)
        choice = reply["choices"][0]
        message = choice["message"]
        usage = reply.get("usage") or {}
        return Completion(
            text=_text(message.get("content")),
            finish_reason=choice.get("finish_reason") or "unknown",
            model=reply.get("model") or "",
            tokens_in=int(usage.get("prompt_tokens") or 0),
            tokens_out=int(usage.get("completion_tokens") or 0),
            seconds=seconds,
            fingerprint=reply.get("system_fingerprint"),
            refusal=message.get("refusal"),
            top_logprobs=_top_logprobs(choice.get("logprobs")),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise CallError(f"The reply is no chat completion ({type(error).__name__}: {error}).", kind="retry") from None


def _text(content: Any) -> str:
    if content is None:
        return ""
    if not isinstance(content, str):
        raise TypeError(f"content is a {type(content).__name__}")
    return content


def _top_logprobs(logprobs: Any) -> tuple[tuple[str, float], ...]:
    tokens = (logprobs or {}).get("content") or []
    return tuple((one["token"], float(one["logprob"])) for one in tokens[0].get("top_logprobs", [])) if tokens else ()


def _retry_after(error: openai.APIStatusError) -> float | None:
    """Seconds until the server wants to be asked again, None where it does not say."""
    headers = error.response.headers
    for header, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[header]) / unit)
        except (KeyError, ValueError):
            continue
    try:
        asked, now = parsedate_to_datetime(headers["retry-after"]), parsedate_to_datetime(headers["date"])
        return max(0.0, (asked - now).total_seconds())
    except (KeyError, ValueError, TypeError):
        return None
