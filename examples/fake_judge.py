"""A fake judge that costs nothing: `python examples/fake_judge.py [PORT]` replies like OpenAI's chat completions API.

It answers YES if two responses share enough long words, and reports token usage as a provider does. It sends no requests.
"""

from __future__ import annotations

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SHARED = 0.12
"""Minimum fraction of the long words of the shorter response that the other response also contains, for a YES."""


class FakeJudge(BaseHTTPRequestHandler):
    """Reply to each request, and keep the connection open."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = request["messages"][-1]["content"]
        answer = "YES" if same_source(prompt) else "NO"
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 1, "total_tokens": len(prompt) // 4 + 1}
        choice = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
        reply = {"id": "fake", "object": "chat.completion", "created": 0, "model": request["model"]}
        body = json.dumps({**reply, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a run sends thousands of requests."""


def same_source(prompt: str) -> bool:
    """Return whether the two fenced responses in a prompt share enough long words."""
    texts = re.findall(r"<(first|second)-[0-9a-f]+>\n(.*?)\n</\1-", prompt, re.DOTALL)
    words = [set(re.findall(r"\w{6,}", text.lower())) for _, text in texts[:2]]
    if len(words) < 2 or not all(words):
        return False
    return len(words[0] & words[1]) / min(map(len, words)) >= SHARED


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8123
    with ThreadingHTTPServer(("127.0.0.1", port), FakeJudge) as server:
        print(f"a fake judge listens on http://127.0.0.1:{server.server_port}/v1", flush=True)
        server.serve_forever()
