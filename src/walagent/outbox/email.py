"""E-mail over SMTP: at most once.

A server that accepted a message does not recognize it when it is sent again.  So only what the
server has certainly not accepted is sent again; if that is unknown, a person decides.
"""

from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from walagent.base.extras import install_hint
from walagent.domain.untrusted import visible
from walagent.errors import (
    ConfigError,
    DeliveryDelayedError,
    DeliveryRefusedError,
    OutcomeUnknownError,
)
from walagent.outbox.text import text_of
from walagent.store.outbox import Delivery

if TYPE_CHECKING:
    from aiosmtplib import SMTP

_TIMEOUT = 20.0  # seconds for each answer of the server
_PERMANENT = 500  # SMTP: from this code on, the same command fails again


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """The server that accepts messages.

    Args:
        password: the name of the variable or credential.
    """

    host: str
    port: int
    sender: str
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password: str | None = None


class EmailSender:
    """Implements `Sender`."""

    def __init__(self, server: SmtpServer, find_secret: Callable[[str], str | None]) -> None:
        """Take the server.

        Raises:
            ConfigError: the extra `email` is not installed.
        """
        if find_spec("aiosmtplib") is None:
            raise ConfigError(
                "outbox.smtp requires aiosmtplib", hint=install_hint("walagent[email]")
            )
        self._server = server
        self._find_secret = find_secret

    async def send(self, delivery: Delivery, link: str | None) -> str:
        """Send a message."""
        from aiosmtplib import SMTPException  # noqa: PLC0415 - an extra

        client = self._client()
        try:
            try:
                await self._open(client)
            except (SMTPException, OSError) as error:
                raise DeliveryDelayedError(f"{self._server.host}: {_said(error)}") from error
            return await self._submit(client, self._message(delivery, link))
        finally:
            client.close()

    def _client(self) -> "SMTP":
        from aiosmtplib import SMTP  # noqa: PLC0415 - an extra

        server = self._server
        return SMTP(
            hostname=server.host,
            port=server.port,
            timeout=_TIMEOUT,
            use_tls=server.security == "tls",
            start_tls=server.security == "starttls",
        )

    async def _open(self, client: "SMTP") -> None:
        await client.connect()
        server = self._server
        if server.user is not None and server.password is not None:
            if (password := self._find_secret(server.password)) is None:
                raise DeliveryRefusedError(f'secret "{server.password}" is not set on this worker')
            await client.login(server.user, password)

    async def _submit(self, client: "SMTP", message: EmailMessage) -> str:
        from aiosmtplib import (  # noqa: PLC0415 - an extra
            SMTPException,
            SMTPRecipientsRefused,
            SMTPResponseException,
        )

        try:
            _, said = await client.send_message(message)
        except SMTPRecipientsRefused as error:
            raise _refused(max(each.code for each in error.recipients), error) from error
        except SMTPResponseException as error:  # the server said no
            raise _refused(error.code, error) from error
        except (SMTPException, OSError) as error:
            raise OutcomeUnknownError(f"{self._server.host}: {_said(error)}") from error
        return said

    def _message(self, delivery: Delivery, link: str | None) -> EmailMessage:
        message = EmailMessage()
        message["From"] = self._server.sender
        message["To"] = delivery.target
        message["Subject"] = visible(delivery.subject or delivery.event)
        message["Date"] = format_datetime(delivery.created_at)
        domain = self._server.sender.rpartition("@")[2].rstrip(">")
        message["Message-ID"] = f"<{delivery.id}@{domain}>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text_of(delivery, link))
        return message


def _refused(code: int, error: Exception) -> DeliveryDelayedError | DeliveryRefusedError:
    text = f"the server answered {_said(error)}"
    return DeliveryRefusedError(text) if code >= _PERMANENT else DeliveryDelayedError(text)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
