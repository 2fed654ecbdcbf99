"""Slack: messages by the Web API or an incoming webhook, and buttons that decide approvals.

Buttons arrive by Socket Mode, so Slack needs no way in.  A button names the approval and the digest
of the call that the message shows; who pressed it is the principal with this Slack user.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from walagent.base.extras import install_hint
from walagent.base.retries import retry_after
from walagent.domain.untrusted import visible
from walagent.errors import (
    ConfigError,
    DeliveryDelayedError,
    DeliveryRefusedError,
    WalagentError,
)
from walagent.message import Json
from walagent.outbox.text import text_of
from walagent.outbox.webhook import LATER, Post
from walagent.store.outbox import Delivery
from walagent.telemetry.log import log
from walagent.tools.http import HostRules
from walagent.tools.http_request import HttpRequest

if TYPE_CHECKING:
    from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest

_HOOKS: Final = "https://hooks.slack.com/"
_MOST_TEXT: Final = 2_900  # characters of a section
_TIMEOUT: Final = 15
_SERVER_ERROR: Final = 500
_PASSING: Final = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable"}
)


@dataclass(frozen=True, slots=True)
class Press:
    """A pressed button: who decides which call, as the message showed it."""

    user: str
    approval: int
    digest: str
    approve: bool


# Decides as the principal of the Slack user; returns why it was refused.
Decide = Callable[[Press], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class SlackApp:
    """The app in Slack.

    Args:
        bot_token, app_token: names of variables or credentials; without the latter, messages have
            no buttons.
        base_url: of the Web API.
    """

    bot_token: str | None = None
    app_token: str | None = None
    base_url: str = "https://slack.com/api/"


class SlackSender:
    """Implements `Sender`."""

    def __init__(self, post: Post, app: SlackApp) -> None:
        """Take the app.

        Raises:
            ConfigError: the app has a token, and the extra `slack` is not installed.
        """
        if app.bot_token is not None and not (find_spec("slack_sdk") and find_spec("aiohttp")):
            raise ConfigError(
                "outbox.slack requires slack-sdk and aiohttp", hint=install_hint("walagent[slack]")
            )
        self._post = post
        self._app = app

    async def send(self, delivery: Delivery, link: str | None) -> str:
        """Send a message."""
        message = message_of(delivery, link, buttons=self._app.app_token is not None)
        if not delivery.target:
            return await self._to_webhook(delivery, message)
        if self._app.bot_token is None:
            raise DeliveryRefusedError("this worker has no bot token for Slack (outbox.slack)")
        token = self._post.secret(self._app.bot_token)
        return await self._to_channel(token, delivery.target, message)

    async def _to_webhook(self, delivery: Delivery, message: Mapping[str, Json]) -> str:
        url = self._post.secret(delivery.secret or "")
        try:
            rules = HostRules() if url.startswith(_HOOKS) else self._post.rules(url)
        except DeliveryRefusedError:  # the URL is a secret
            raise DeliveryRefusedError(
                f'"{delivery.secret}" is not the URL of an incoming webhook of Slack'
            ) from None
        headers = {"Content-Type": "application/json"}
        request = HttpRequest("POST", url, headers, orjson.dumps(dict(message)), (url,))
        said = await self._post.post(request, rules)
        return f"HTTP {said.status}"

    async def _to_channel(self, token: str, channel: str, message: Mapping[str, Json]) -> str:
        import aiohttp  # noqa: PLC0415 - an extra
        from slack_sdk.errors import SlackApiError  # noqa: PLC0415 - an extra

        try:
            said = await web_client(self._app, token).chat_postMessage(channel=channel, **message)
        except SlackApiError as error:
            raise _refused(error.response) from None
        # AttributeError: slack_sdk calls a method of objects on an answer in text/plain.
        except (aiohttp.ClientError, TimeoutError, OSError, AttributeError) as error:
            raise DeliveryDelayedError(f"Slack: {type(error).__name__}") from error
        return f"message {said.get('ts')}"


def _refused(response: Any) -> DeliveryDelayedError | DeliveryRefusedError:  # noqa: ANN401 - not typed
    # A proxy answers with a status alone, which slack_sdk hands over as a response of aiohttp, or
    # without data.
    status = int(getattr(response, "status_code", None) or response.status)
    data = getattr(response, "data", None)
    reason = cast("dict[str, Any]", data).get("error") if isinstance(data, dict) else None
    text = f"Slack answered {str(reason or f'HTTP {status}')[:200]}"
    if reason in _PASSING or status in LATER or status >= _SERVER_ERROR:
        headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
        return DeliveryDelayedError(text, retry_after=retry_after(headers))
    return DeliveryRefusedError(text)


def web_client(app: SlackApp, token: str) -> Any:  # noqa: ANN401 - its methods are not typed
    """Create a client of the Web API."""
    from slack_sdk.web.async_client import AsyncWebClient  # noqa: PLC0415 - an extra

    return AsyncWebClient(token, base_url=app.base_url, timeout=_TIMEOUT)


def message_of(delivery: Delivery, link: str | None, *, buttons: bool) -> dict[str, Any]:
    """Compose a message: its text, and for an approval the buttons that decide it."""
    text = _escaped(text_of(delivery, None))
    title = _escaped(visible(delivery.subject or delivery.event))
    shown = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}\n(cut)"
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": f"*{title}*\n{shown}"}}
    ]
    elements = list[dict[str, Any]]()
    approval, digest = delivery.body.get("approval"), delivery.body.get("digest")
    # A call that is not shown whole is decided where it is.
    whole = len(text) <= _MOST_TEXT and isinstance(delivery.body.get("arguments"), dict)
    if buttons and delivery.event == "approval.requested" and whole:
        value = f"{approval}:{digest}"
        elements.append(_button("Approve", "walagent_approve", "primary", value))
        elements.append(_button("Reject", "walagent_reject", "danger", value))
    if link:
        label = {"type": "plain_text", "text": "Open"}
        elements.append(
            {"type": "button", "text": label, "url": link, "action_id": "walagent_open"}
        )
    if elements:
        blocks.append({"type": "actions", "elements": elements})
    return {"text": title, "blocks": blocks}


def _button(text: str, action: str, style: str, value: str) -> dict[str, Any]:
    label = {"type": "plain_text", "text": text}
    return {"type": "button", "text": label, "action_id": action, "style": style, "value": value}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class SocketMode:
    """Receives pressed buttons."""

    def __init__(
        self, app: SlackApp, find_secret: Callable[[str], str | None], decide: Decide
    ) -> None:
        self._app = app
        self._find_secret = find_secret
        self._decide = decide

    async def run(self) -> None:
        """Receive until cancelled; the client reconnects by itself.

        Raises:
            ConfigError: a token is not set.
        """
        bot = self._token(self._app.bot_token)
        token = self._token(self._app.app_token)
        web = web_client(self._app, bot)
        from slack_sdk.socket_mode.aiohttp import SocketModeClient  # noqa: PLC0415 - an extra

        client = SocketModeClient(app_token=token, web_client=web)
        client.socket_mode_request_listeners.append(self._received)  # pyright: ignore[reportArgumentType]
        try:
            await client.connect()
            log.info("slack.connected")
            await asyncio.Event().wait()
        finally:
            await client.close()

    def _token(self, name: str | None) -> str:
        if name is None or (value := self._find_secret(name)) is None:
            raise ConfigError(
                f'token "{name}" for Slack is not set',
                hint="Set the variables that outbox.slack names in bot_token and app_token.",
            )
        return value

    async def _received(
        self, client: "AsyncBaseSocketModeClient", request: "SocketModeRequest"
    ) -> None:
        from slack_sdk.socket_mode.response import (  # noqa: PLC0415 - an extra
            SocketModeResponse,
        )

        await client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        payload = cast("dict[str, Any]", request.payload)
        if request.type != "interactive" or payload.get("type") != "block_actions":
            return
        for action in payload.get("actions") or ():
            if action.get("action_id") in {"walagent_approve", "walagent_reject"}:
                await self._pressed(client.web_client, payload, action)

    async def _refusal(self, press: Press) -> str | None:
        try:
            return await self._decide(press)
        except WalagentError as error:
            log.warning("slack.undecided", error=error)
            return "Nothing was decided: the database is unavailable. Try again."

    async def _pressed(
        self,
        web: Any,  # noqa: ANN401 - its methods are not typed
        payload: Mapping[str, Any],
        action: Mapping[str, Any],
    ) -> None:
        user, approve = str(payload["user"]["id"]), action["action_id"] == "walagent_approve"
        approval, _, digest = str(action.get("value", "")).partition(":")
        if not approval.isdigit():
            return
        refusal = await self._refusal(Press(user, int(approval), digest, approve))
        channel, ts = payload["channel"]["id"], payload["message"]["ts"]
        if refusal is not None:
            await web.chat_postEphemeral(channel=channel, user=user, text=_escaped(refusal))
            return
        done = f"{'Approved' if approve else 'Rejected'} by <@{user}>"
        blocks = [
            each for each in payload["message"].get("blocks", ()) if each["type"] != "actions"
        ]
        blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": done}]})
        await web.chat_update(channel=channel, ts=ts, text=done, blocks=blocks)
