"""A model provider for measurements: takes any number of calls and answers each after a while.

It speaks just enough HTTP for the SDKs (`/v1/messages` and `/v1/chat/completions`, no streaming).
It is a process of its own, so its CPU time is nobody's.

    python bench/provider.py --delay 2      prints its port, serves until its input is closed
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "bench",
    "content": [{"type": "text", "text": "The ticket is urgent."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 700, "output_tokens": 12},
}
_OPENAI = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "bench",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "The ticket is urgent."},
        }
    ],
    "usage": {"prompt_tokens": 700, "completion_tokens": 12, "total_tokens": 712},
}


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay", type=float, required=True, help="seconds to an answer")
    allow_many_files()
    asyncio.run(_serve(parser.parse_args().delay))


@contextmanager
def running_provider(delay: float) -> Iterator[str]:
    """Start a provider in a process of its own; its base URL, without `/v1`."""
    command = [sys.executable, Path(__file__), "--delay", str(delay)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()
            process.wait(10)


def allow_many_files() -> None:
    """Raise this process's limit of open files (and sockets) as far as it goes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(delay: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(delay), "127.0.0.1", 0, backlog=4096)
    async with server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await loop.run_in_executor(None, sys.stdin.read)


class Connection(asyncio.Protocol):
    """One keep-alive connection; a request at a time, as the SDKs use it."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer later, once the whole request is here."""
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end or len(body) < _content_length(head):
            return
        self._received = b""
        loop = asyncio.get_running_loop()
        loop.call_later(self._delay, self._answer, _ANSWERS.get(head.split(b" ", 2)[1], _UNKNOWN))

    def _answer(self, answer: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(answer)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _response(status: str, body: object) -> bytes:
    payload = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(payload)}"
    return head.encode() + b"\r\n\r\n" + payload


_ANSWERS = {
    b"/v1/messages": _response("200 OK", _ANTHROPIC),
    b"/v1/chat/completions": _response("200 OK", _OPENAI),
}
_UNKNOWN = _response("404 Not Found", {"error": {"message": "no such route"}})


if __name__ == "__main__":
    main()
