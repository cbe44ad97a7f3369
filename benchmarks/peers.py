"""Measure calls by bare clients and by other engines: `python peers.py NAME URL N CONCURRENCY` prints JSON.

It does not import youden, because it runs in environments without it.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from typing import Any

PROMPT_CHARACTERS = 3000
WARM_UP = 50

Send = Callable[[str], Awaitable[None]]


def make_prompts(n: int) -> list[str]:
    """Make n distinct prompts of 3 kB."""
    return [f"{k:08} {'word ' * 600}"[:PROMPT_CHARACTERS] for k in range(n)]


async def measure_calls(n: int, concurrency: int, send: Send) -> dict[str, float]:
    """Measure CPU and wall time of n calls by `concurrency` tasks."""
    for prompt in make_prompts(WARM_UP):
        await send(prompt)
    remaining = iter(make_prompts(n))

    async def send_all(queue: Iterator[str]) -> None:
        for prompt in queue:
            await send(prompt)

    cpu_start, wall_start = time.process_time(), time.perf_counter()
    await asyncio.gather(*[send_all(remaining) for _ in range(concurrency)])
    return make_figures(n, cpu_start, wall_start)


def make_figures(n: int, cpu_start: float, wall_start: float) -> dict[str, float]:
    """Compute the figures since the times `cpu_start` and `wall_start`."""
    return {
        "cpu_ms": 1e3 * (time.process_time() - cpu_start) / n,
        "calls_per_second": n / (time.perf_counter() - wall_start),
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def make_body(prompt: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": 8}


async def measure_bare_aiohttp(url: str, n: int, concurrency: int) -> dict[str, float]:
    """Send requests by an aiohttp session, and parse the replies."""
    aiohttp, orjson = import_module("aiohttp"), import_module("orjson")
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:

        async def send(prompt: str) -> None:
            async with session.post(f"{url}/chat/completions", data=orjson.dumps(make_body(prompt))) as reply:
                parsed = orjson.loads(await reply.read())
                assert parsed["choices"][0]["message"]["content"]

        return await measure_calls(n, concurrency, send)


async def measure_bare_openai(url: str, n: int, concurrency: int) -> dict[str, float]:
    """Send requests by OpenAI's SDK over aiohttp."""
    openai = import_module("openai")
    http_client = openai.DefaultAioHttpClient()
    client = openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0, http_client=http_client)

    async def send(prompt: str) -> None:
        reply = await client.chat.completions.create(**make_body(prompt))
        assert reply.choices[0].message.content

    measured = await measure_calls(n, concurrency, send)
    await client.close()
    return measured


async def measure_litellm(url: str, n: int, concurrency: int) -> dict[str, float]:
    """Send requests by litellm.acompletion."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    library = import_module("litellm")

    async def send(prompt: str) -> None:
        request = make_body(prompt) | {"model": "hosted_vllm/m"}
        reply = await library.acompletion(**request, api_base=url, api_key="k", num_retries=0, max_retries=0)
        assert reply.choices[0].message.content

    return await measure_calls(n, concurrency, send)


async def measure_inspect_ai(url: str, n: int, concurrency: int) -> dict[str, float]:
    """Send requests by inspect_ai's Model.generate."""
    module = import_module("inspect_ai.model")
    config = module.GenerateConfig(temperature=0, max_tokens=8, max_connections=concurrency, max_retries=0)
    model = module.get_model("openai-api/local/m", base_url=url, api_key="k", config=config)

    async def send(prompt: str) -> None:
        reply = await model.generate(prompt)
        assert reply.completion

    return await measure_calls(n, concurrency, send)


async def measure_async_batch_llm(url: str, n: int, concurrency: int) -> dict[str, float]:
    """Send requests by async_batch_llm over an aiohttp session."""
    batch, aiohttp = import_module("async_batch_llm"), import_module("aiohttp")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def execute(_self: object, prompt: str, *_: Any) -> Any:
            async with session.post(f"{url}/chat/completions", json=make_body(prompt)) as reply:
                parsed = await reply.json()
            usage = parsed["usage"]
            tokens = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}
            return parsed["choices"][0]["message"]["content"], tokens, None

        chat: Any = type("Chat", (batch.LLMCallStrategy,), {"execute": execute})
        await batch.process_prompts(chat(), make_prompts(WARM_UP), concurrency=concurrency)
        prompts = make_prompts(n)
        cpu_start, wall_start = time.process_time(), time.perf_counter()
        result = await batch.process_prompts(chat(), prompts, concurrency=concurrency)
        measured = make_figures(n, cpu_start, wall_start)
        assert sum(call.success for call in result.results) == n
        return measured


PEERS = {
    "bare_aiohttp": measure_bare_aiohttp,
    "bare_openai": measure_bare_openai,
    "litellm": measure_litellm,
    "inspect_ai": measure_inspect_ai,
    "async_batch_llm": measure_async_batch_llm,
}


if __name__ == "__main__":
    name, address, calls, at_once = sys.argv[1:]
    print(json.dumps(asyncio.run(PEERS[name](address, int(calls), int(at_once)))))
