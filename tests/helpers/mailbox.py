"""A server of SMTP that keeps what it accepts, and answers as a test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message

from aiosmtpd.smtp import SMTP, Envelope, Session


@dataclass(slots=True)
class Mailbox:
    """Accepts every message.

    Args:
        answers: instead of accepting; "" hangs up after it was read, without an answer.
        recipient: the answer to RCPT; None: accepted.
    """

    port: int = 0
    messages: list[Message] = field(default_factory=list[Message])
    received: int = 0
    answers: list[str] = field(default_factory=list[str])
    recipient: str | None = None

    async def handle_RCPT(  # noqa: N802 - the library's names
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Accept a recipient, or not."""
        del server, session, options
        if self.recipient is None:
            envelope.rcpt_tos.append(address)
        return self.recipient or "250 OK"

    async def handle_DATA(  # noqa: N802 - the library's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Accept a message, or not."""
        del session
        self.received += 1
        answer = self.answers.pop(0) if self.answers else "250 accepted"
        if not answer:
            assert isinstance(server.transport, asyncio.Transport)
            server.transport.abort()
            return "421 gone"
        if answer.startswith("2"):
            assert isinstance(envelope.content, bytes)
            self.messages.append(message_from_bytes(envelope.content))
        return answer


@asynccontextmanager
async def mailbox() -> AsyncIterator[Mailbox]:
    """Serve on a free port of 127.0.0.1."""
    made = Mailbox()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(made, enable_SMTPUTF8=True, loop=loop), "127.0.0.1", 0
    )
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
