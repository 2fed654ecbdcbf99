"""Webhooks, signed as "Standard Webhooks" 1.0 says.

`webhook-id` is the ID of the delivery, `webhook-timestamp` the time of the attempt, and
`webhook-signature` the HMAC-SHA256 of both and the body.  Requests leave by the transport of tools
over HTTP: only to hosts that the configuration of this process allows, at a checked address.
"""

import binascii
import hmac
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from walagent.errors import (
    DeliveryDelayedError,
    DeliveryRefusedError,
    OutcomeUnknownError,
    ToolFailedError,
)
from walagent.outbox.text import payload_of
from walagent.store.outbox import Delivery
from walagent.tools.addresses import resolve
from walagent.tools.http import HostRules, host_of
from walagent.tools.http_request import HttpRequest, Limits

if TYPE_CHECKING:
    from walagent.tools.http_exchange import Said

# Of the answers 4xx, those that ask for another attempt.
LATER: Final = frozenset({408, 425, 429})  # planted: too-many-ends
_LIMITS: Final = Limits(4096, 15.0)
_PREFIX: Final = "whsec_"  # of keys in base64


class Post:
    """Sends requests to the hosts that this process allows."""

    def __init__(
        self, hosts: Mapping[str, HostRules], find_secret: Callable[[str], str | None]
    ) -> None:
        """Take the rules.

        Args:
            hosts: by host, with its port if that is not the scheme's.
            find_secret: returns the value of a variable or credential.
        """
        self._hosts = hosts
        self._find_secret = find_secret

    def rules(self, url: str) -> HostRules:
        """Return the rules of the host of a URL.

        Raises:
            DeliveryRefusedError: there are none.
        """
        try:
            host = host_of(url)
        except ValueError as error:
            raise DeliveryRefusedError(f"invalid URL: {error}") from error
        if (found := self._hosts.get(host)) is None:
            raise DeliveryRefusedError(
                f'host "{host}" is not allowed on this worker (tools.http_hosts)'
            )
        return found

    def secret(self, name: str) -> str:
        """Return the value of a secret.

        Raises:
            DeliveryRefusedError: it is not set.
        """
        if (value := self._find_secret(name)) is None:
            raise DeliveryRefusedError(f'secret "{name}" is not set on this worker')
        return value

    async def post(self, request: HttpRequest, rules: HostRules) -> "Said":
        """Send a request once.

        Raises:
            DeliveryDelayedError: it was not accepted, or the answer is missing.
            DeliveryRefusedError: it is not accepted.
        """
        from walagent.tools.http_exchange import send  # noqa: PLC0415 - imports httpx2

        parts = urlsplit(request.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            addresses = await resolve(parts.hostname or "", port, rules.networks)
            said = await send(request, addresses, _LIMITS)
        except (ToolFailedError, OutcomeUnknownError) as error:
            wait = getattr(error, "retry_after", None)
            raise DeliveryDelayedError(str(error), retry_after=wait) from error
        if said.is_success:
            return said
        text = f"{parts.hostname} answered HTTP {said.status}"
        if said.status in LATER:
            raise DeliveryDelayedError(text, retry_after=said.retry_after)
        raise DeliveryRefusedError(text)


class WebhookSender:
    """Implements `Sender`."""

    def __init__(self, post: Post, clock: Callable[[], float] = time.time) -> None:
        self._post = post
        self._clock = clock

    async def send(self, delivery: Delivery, link: str | None) -> str:
        """Send a message, signed with the time of this attempt."""
        rules = self._post.rules(delivery.target)
        if delivery.secret is None or delivery.secret not in rules.secrets:
            raise DeliveryRefusedError(
                f'secret "{delivery.secret}" is not allowed for the host of'
                f' channel "{delivery.channel}" (tools.http_hosts)'
            )
        key = _key(self._post.secret(delivery.secret))
        body = payload_of(delivery, link)
        stamp = str(int(self._clock()))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": delivery.id,
            "webhook-timestamp": stamp,
            "webhook-signature": f"v1,{signature(key, delivery.id, stamp, body)}",
        }
        said = await self._post.post(HttpRequest("POST", delivery.target, headers, body, ()), rules)
        return f"HTTP {said.status}"


def signature(key: bytes, delivery: str, stamp: str, body: bytes) -> str:
    """Return the signature of one attempt."""
    signed = b".".join((delivery.encode(), stamp.encode(), body))
    return b64encode(hmac.digest(key, signed, "sha256")).decode()


def _key(secret: str) -> bytes:
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise DeliveryRefusedError(f'a key that begins with "{_PREFIX}" must be base64') from None
