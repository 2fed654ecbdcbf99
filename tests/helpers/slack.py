"""A server that speaks the parts of Slack's Web API and Socket Mode that walagent uses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web


@dataclass(slots=True)
class SlackServer:
    """Answers each method with ok, or as a test says; keeps what it was sent.

    Args:
        answers: by method; each is used once.
    """

    url: str = ""
    sent: list[tuple[str, dict[str, Any], str]] = field(default_factory=list[Any])
    answers: dict[str, tuple[int, dict[str, Any], dict[str, str]]] = field(
        default_factory=dict[str, Any]
    )
    acknowledged: list[str] = field(default_factory=list[str])
    sockets: list[web.WebSocketResponse] = field(default_factory=list[web.WebSocketResponse])
    connected: asyncio.Event = field(default_factory=asyncio.Event)

    async def method(self, request: web.Request) -> web.Response:
        """Answer a call of the Web API."""
        name = request.match_info["method"]
        body = (
            await request.json() if request.can_read_body and "json" in request.content_type else {}
        )
        self.sent.append((name, body, request.headers.get("Authorization", "")))
        status, answer, headers = self.answers.pop(name, (200, {"ok": True, "ts": "1.2"}, {}))
        if name == "apps.connections.open":
            answer = {"ok": True, "url": self.url.replace("http", "ws") + "socket"}
        return web.json_response(answer, status=status, headers=headers)

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        """Serve a connection of Socket Mode."""
        opened = web.WebSocketResponse()
        await opened.prepare(request)
        await opened.send_json({"type": "hello", "num_connections": 1})
        self.sockets.append(opened)
        self.connected.set()
        async for message in opened:
            if message.type is WSMsgType.TEXT:
                self.acknowledged.append(message.json()["envelope_id"])
        return opened

    async def press(self, user: str, action: str, value: str) -> None:
        """Send a pressed button."""
        payload = {
            "type": "block_actions",
            "user": {"id": user},
            "channel": {"id": "C123"},
            "message": {"ts": "1.2", "blocks": [{"type": "actions", "elements": []}]},
            "actions": [{"action_id": action, "value": value}],
        }
        envelope = {"type": "interactive", "envelope_id": f"e{len(self.sent)}", "payload": payload}
        await self.sockets[-1].send_json({**envelope, "accepts_response_payload": False})

    async def called(self, name: str) -> dict[str, Any]:
        """Wait for a call of a method; return its arguments."""
        async with asyncio.timeout(20):
            while True:
                for method, body, _ in self.sent:
                    if method == name:
                        return body
                await asyncio.sleep(0.01)


@asynccontextmanager
async def slack_server() -> AsyncIterator[SlackServer]:
    """Serve on a free port of 127.0.0.1."""
    made = SlackServer()
    app = web.Application()
    app.router.add_get("/api/socket", made.socket)
    app.router.add_route("*", "/api/{method}", made.method)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    made.url = f"http://{host}:{port}/api/"
    try:
        yield made
    finally:
        await runner.cleanup()
