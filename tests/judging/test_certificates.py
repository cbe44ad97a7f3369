"""Test which TLS certificates are trusted."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from judged import make_closable_judge
from wire_server import Reply, completion
from youden.judging.call.connection import Connection
from youden.judging.call.failures import CallError
from youden.types import Message, Request

REQUEST = Request("m", (Message("user", "u"),))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a self-signed certificate of 127.0.0.1 with its key in the same file."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run([*command.split(), "-keyout", f"{path}.key", "-out", path], check=True, capture_output=True)
    return path


@pytest.fixture
async def address(certificate: Path) -> AsyncIterator[str]:
    """Return the base URL of a server that answers every request with YES."""
    body = json.dumps(completion(Reply("YES"), model="m")).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, f"{certificate}.key")
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize("backend", ["openai", "wire"])
async def test_a_private_certificate_is_trusted_if_ssl_cert_file_names_it(
    backend: str, address: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = make_closable_judge(backend, Connection("test", address, 10.0))
    with pytest.raises(CallError, match="certificate verify failed") as caught:
        await stranger.answer(REQUEST)
    assert (caught.value.kind, caught.value.unbilled) == ("transient", True)
    await stranger.aclose()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    judge = make_closable_judge(backend, Connection("test", address, 10.0))
    assert (await judge.answer(REQUEST)).text == "YES"
    await judge.aclose()
