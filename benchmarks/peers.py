"""The same calls by bare clients and by other engines: `python peers.py NAME URL N CONCURRENCY` prints JSON.

It knows how each of them is asked; it refuses to know youden, for it runs in environments without it.
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

PROMPT = 3000
WARM_UP = 50

Ask = Callable[[str], Awaitable[None]]


def prompts(n: int) -> list[str]:
    """Distinct prompts of 3 kB."""
    return [f"{k:08} {'word ' * 600}"[:PROMPT] for k in range(n)]


async def drained(n: int, concurrency: int, ask: Ask) -> dict[str, float]:
    """CPU and wall time of n calls by so many workers."""
    for prompt in prompts(WARM_UP):
        await ask(prompt)
    waiting = iter(prompts(n))

    async def work(left: Iterator[str]) -> None:
        for prompt in left:
            await ask(prompt)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*[work(waiting) for _ in range(concurrency)])
    return figures(n, cpu, wall)


def figures(n: int, cpu: float, wall: float) -> dict[str, float]:
    """Since `cpu` and `wall` were read."""
    return {
        "cpu_ms": 1e3 * (time.process_time() - cpu) / n,
        "calls_per_second": n / (time.perf_counter() - wall),
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def body(prompt: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": 8}


async def bare_aiohttp(url: str, n: int, concurrency: int) -> dict[str, float]:
    """No engine: a session, a body, a parsed reply."""
    aiohttp, orjson = import_module("aiohttp"), import_module("orjson")
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:

        async def ask(prompt: str) -> None:
            async with session.post(f"{url}/chat/completions", data=orjson.dumps(body(prompt))) as reply:
                said = orjson.loads(await reply.read())
                assert said["choices"][0]["message"]["content"]

        return await drained(n, concurrency, ask)


async def bare_openai(url: str, n: int, concurrency: int) -> dict[str, float]:
    """OpenAI's SDK over aiohttp, and nothing else."""
    openai = import_module("openai")
    http = openai.DefaultAioHttpClient()
    client = openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0, http_client=http)

    async def ask(prompt: str) -> None:
        reply = await client.chat.completions.create(**body(prompt))
        assert reply.choices[0].message.content

    measured = await drained(n, concurrency, ask)
    await client.close()
    return measured


async def litellm(url: str, n: int, concurrency: int) -> dict[str, float]:
    """litellm.acompletion."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    library = import_module("litellm")

    async def ask(prompt: str) -> None:
        asked = body(prompt) | {"model": "hosted_vllm/m"}
        reply = await library.acompletion(**asked, api_base=url, api_key="k", num_retries=0, max_retries=0)
        assert reply.choices[0].message.content

    return await drained(n, concurrency, ask)


async def inspect_ai(url: str, n: int, concurrency: int) -> dict[str, float]:
    """inspect_ai's Model.generate."""
    module = import_module("inspect_ai.model")
    config = module.GenerateConfig(temperature=0, max_tokens=8, max_connections=concurrency, max_retries=0)
    model = module.get_model("openai-api/local/m", base_url=url, api_key="k", config=config)

    async def ask(prompt: str) -> None:
        reply = await model.generate(prompt)
        assert reply.completion

    return await drained(n, concurrency, ask)


async def async_batch_llm(url: str, n: int, concurrency: int) -> dict[str, float]:
    """async_batch_llm over aiohttp, the call itself as bare as above."""
    batch, aiohttp = import_module("async_batch_llm"), import_module("aiohttp")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def execute(_self: object, prompt: str, *_: Any) -> Any:
            async with session.post(f"{url}/chat/completions", json=body(prompt)) as reply:
                said = await reply.json()
            usage = said["usage"]
            tokens = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}
            return said["choices"][0]["message"]["content"], tokens, None

        chat: Any = type("Chat", (batch.LLMCallStrategy,), {"execute": execute})
        await batch.process_prompts(chat(), prompts(WARM_UP), concurrency=concurrency)
        asked = prompts(n)
        cpu, wall = time.process_time(), time.perf_counter()
        result = await batch.process_prompts(chat(), asked, concurrency=concurrency)
        measured = figures(n, cpu, wall)
        assert sum(one.success for one in result.results) == n
        return measured


PEERS = {
    "bare_aiohttp": bare_aiohttp,
    "bare_openai": bare_openai,
    "litellm": litellm,
    "inspect_ai": inspect_ai,
    "async_batch_llm": async_batch_llm,
}


if __name__ == "__main__":
    name, address, calls, at_once = sys.argv[1:]
    print(json.dumps(asyncio.run(PEERS[name](address, int(calls), int(at_once)))))
