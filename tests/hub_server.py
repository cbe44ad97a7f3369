"""Provide a substitute for the Hugging Face Hub on 127.0.0.1 that stores and serves repositories and files."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_planted"  # noqa: S105
COMMIT = "c" * 40


class Hub:
    """Stored state: `repos` by name, `files` as path → content by repository; tokens other than `TOKEN` are refused."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, Any]] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.url = ""

    def post(self, path: str, body: bytes) -> tuple[int, object]:
        place = path.partition("?")[0].removeprefix("/api/")
        if place == "validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if place == "repos/create":
            content = json.loads(body)
            name = "/".join(part for part in (content.get("organization") or "me", content["name"]) if part)
            self.repos[name] = content
            kind = f"{content['type']}s/" if content.get("type") in ("dataset", "space") else ""
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
            data = json.loads(line)
            if data["key"] == "file":
                kept[data["value"]["path"]] = base64.b64decode(data["value"]["content"])
        return 200, {"commitUrl": f"{self.url}/{kind}/{owner}/{repo}/commit/0", "commitOid": "0" * 40, "success": True}

    def get(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        """Return the metadata of a stored dataset and its files, all at the commit `COMMIT`."""
        api = path.startswith("/api/")
        owner, repo, verb, _revision, *remainder = [*path.removeprefix("/api").split("/")[2:], "", ""]
        files, file = self.files.get(f"datasets/{owner}/{repo}"), "/".join(remainder).rstrip("/")
        if files is not None and api and verb == "revision":
            about = {"id": f"{owner}/{repo}", "sha": COMMIT, "private": True, "tags": [], "downloads": 0}
            return 200, json.dumps(about | {"siblings": [{"rfilename": name} for name in files]}).encode(), {}
        if files is not None and api and verb == "tree":
            listed = [
                {"type": "file", "path": name, "size": len(content), "oid": _etag(content)}
                for name, content in files.items()
                if name.startswith(file)
            ]
            return 200, json.dumps(listed).encode(), {}
        if files is not None and verb == "resolve" and file in files:
            return 200, files[file], {"X-Repo-Commit": COMMIT, "ETag": f'"{_etag(files[file])}"'}
        return 404, b'{"error": "not here"}', {"X-Error-Code": "EntryNotFound"}


def _etag(content: bytes) -> str:
    return sha1(content, usedforsecurity=False).hexdigest()


@contextmanager
def hub() -> Iterator[Hub]:
    """Run the substitute."""
    standing = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._send(401, {"error": "Invalid username or password."})
                return
            self._send(*standing.post(self.path, body))

        def do_GET(self) -> None:
            status, body, headers = standing.get(self.path.partition("?")[0])
            self._send_bytes(status, body, headers)

        def do_HEAD(self) -> None:
            self.do_GET()

        def _send(self, status: int, output: object) -> None:
            self._send_bytes(status, json.dumps(output).encode(), {})

        def _send_bytes(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                **headers,
            }.items():
                self.send_header(name, value)
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
