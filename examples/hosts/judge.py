"""A fake judge for compose.yaml: a chat server that answers YES if two texts share many words, after 0.1 seconds."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web


def judge(question: str) -> str:
    """Return YES or NO, depending on the fraction of words that both halves of the question contain."""
    words = [
        set(re.findall(r"\w{4,}", half.lower()))
        for half in (question[: len(question) // 2], question[len(question) // 2 :])
    ]
    return "YES" if len(words[0] & words[1]) > 0.25 * min(len(half) for half in words) else "NO"


async def answer(request: web.Request) -> web.Response:
    body: Mapping[str, Any] = await request.json()
    await asyncio.sleep(0.1)
    message = {"role": "assistant", "content": judge(body["messages"][-1]["content"])}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
    return web.json_response(
        {"id": "x", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    web.run_app(app, host=options.host, port=options.port, print=None)


if __name__ == "__main__":
    main()
