"""A stand-in for the Hugging Face Hub on 127.0.0.1: it takes a repository and its files, and keeps them in memory."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_planted"  # noqa: S105


class Hub:
    """`repos`: what was asked for, by name; `files`: path → content, by repository; refuses every token but `TOKEN`."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, Any]] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.url = ""

    def post(self, path: str, body: bytes) -> tuple[int, object]:
        place = path.partition("?")[0].removeprefix("/api/")
        if place == "validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if place == "repos/create":
            asked = json.loads(body)
            name = "/".join(part for part in (asked.get("organization") or "me", asked["name"]) if part)
            self.repos[name] = asked
            kind = f"{asked['type']}s/" if asked.get("type") in ("dataset", "space") else ""
            return 200, {"url": f"{self.url}/{kind}{name}", "name": name}
        kind, owner, repo, verb, _revision = place.split("/")
        if verb == "preupload":
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return 200, {"files": files}
        kept = self.files.setdefault(f"{kind}/{owner}/{repo}", {})
        for line in body.decode().splitlines():
            said = json.loads(line)
            if said["key"] == "file":
                kept[said["value"]["path"]] = base64.b64decode(said["value"]["content"])
        return 200, {"commitUrl": f"{self.url}/{kind}/{owner}/{repo}/commit/0", "commitOid": "0" * 40, "success": True}


@contextmanager
def hub() -> Iterator[Hub]:
    """A running stand-in."""
    standing = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._send(401, {"error": "Invalid username or password."})
                return
            self._send(*standing.post(self.path, body))

        def do_GET(self) -> None:
            self._send(404, {"error": "not here"})

        def do_HEAD(self) -> None:
            self.do_GET()

        def _send(self, status: int, said: object) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        standing.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield standing
        finally:
            server.shutdown()
            thread.join()
