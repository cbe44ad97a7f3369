"""Asks any model that litellm reaches (Together, Groq, Bedrock, Vertex, …); needs the extra `litellm`.

It knows litellm's call and that its exceptions are openai's; it refuses its retries, its cache and its network prices.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import openai

from youden.errors import JudgeError
from youden.judging.chat import completion, status_error
from youden.judging.connection import Connection
from youden.judging.failures import CallError
from youden.types import Completion, Request

_NO_KEY = "none"


class LitellmJudge:
    """One chat completion a request; `model` is litellm's name of it, host first: `together_ai/meta-llama/…`.

    Without a key of its own the judge leaves it to litellm to find its provider's in the environment.

    Raises: JudgeError [judge-extra] where litellm is not installed.
    """

    def __init__(self, connection: Connection, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.name = connection.name
        self._connection = connection
        self._clock = clock
        self._litellm = _library()

    async def answer(self, request: Request) -> Completion:
        """The model's reply. Raises: CallError."""
        began = self._clock()
        try:
            reply = await self._litellm.acompletion(
                model=request.model,
                messages=[{"role": one.role, "content": one.content} for one in request.messages],
                timeout=self._connection.timeout,
                num_retries=0,
                max_retries=0,
                caching=False,
                drop_params=False,
                **self._way(),
                **request.parameters,
            )
            body = reply.model_dump_json()
        except openai.APITimeoutError:
            raise CallError("No reply within the timeout.", kind="retry") from None
        except openai.APIStatusError as error:
            raise self._connection.redacted(_call_error(error)) from None
        except (openai.APIError, OSError, ValueError) as error:
            raise self._connection.redacted(CallError(f"{type(error).__name__}: {error}", kind="retry")) from None
        return completion(body, seconds=self._clock() - began)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._litellm.close_litellm_async_clients()

    def _way(self) -> dict[str, Any]:
        way: dict[str, Any] = {}
        if self._connection.address:
            way |= {"api_base": self._connection.address, "api_key": _NO_KEY}
        if self._connection.api_key is not None:
            way["api_key"] = self._connection.api_key
        if self._connection.authorization is not None:
            way["extra_headers"] = {"Authorization": self._connection.authorization}
        return way


def _call_error(error: openai.APIStatusError) -> CallError:
    """litellm makes a status of its own for a connection that broke and for a reply it cannot read."""
    if isinstance(error, openai.InternalServerError) and "Connection error" in str(error):
        return CallError(str(error), kind="retry")
    return status_error(error.status_code, str(error), getattr(error.response, "headers", None) or {})


def _library() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    try:
        library: Any = import_module("litellm")
    except ImportError:
        raise JudgeError(
            "The judge's backend is litellm, which is not installed. Install it with: pip install 'youden[litellm]'.",
            slug="judge-extra",
        ) from None
    library.telemetry = False
    library.suppress_debug_info = True
    library.cache = None
    library.num_retries = 0
    return library
