"""Show replies in a terminal while models write them, as `GET /v1/replies` sends them."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID

import click
import httpx2
import orjson

from walagent.cli.terminal.output import clean

_TIMEOUT: Final = httpx2.Timeout(5.0, read=60.0)  # seconds; a comment is sent every 15
_KEPT: Final = 20  # posted texts that are compared with replies
_AGAIN: Final = 1.0  # seconds until a stream that ended is opened again
_OK: Final = 200


class Writing:
    """The reply that is being written to the terminal, one at a time."""

    def __init__(self) -> None:
        self._reply: object = None  # the one that is shown
        self._author = ""
        self._text = ""
        self._is_line_open = False
        self._done: list[tuple[str, str]] = []  # shown replies whose events have not been seen
        self._posted: list[tuple[str, str]] = []  # events that were shown before their replies came
        self._late: object = None  # a reply whose event was shown

    def take(self, change: Mapping[str, Any]) -> None:
        """Show what happened to a reply; what others write meanwhile appears when it is posted."""
        reply, state = change["reply"], change.get("state")
        if self._reply is None and state is None and self._is_posted(change):
            self._late = reply
        if reply == self._late:
            return
        if self._reply is None and state is None:
            self._reply, self._author, self._text = reply, change["agent"], ""
        if reply != self._reply:
            return
        if state is None:
            start = "" if self._is_line_open else f"{self._author}: "
            _write(f"{start}{change['text']}")
            self._is_line_open, self._text = True, self._text + change["text"]
            return
        if state == "recorded":
            self._done.append((self._author, self._text.strip()))
        elif self._is_line_open:
            _write("(taken back)" if self._text.endswith(" ") else " (taken back)")
        self.end_line()
        self._reply = None

    def begins(self, change: Mapping[str, Any]) -> bool:
        """Whether a reply begins that will be shown."""
        return self._reply is None and "state" not in change

    def end_line(self) -> None:
        """Begin a new line, for something else."""
        if self._is_line_open:
            _write("\n")
        self._is_line_open = False

    def has_shown(self, author: str, text: str) -> bool:
        """Whether a text that is posted now was shown while it was written.

        One of which the rest, or the end, has not come yet is completed.
        """
        if (author, text) in self._done:
            self._done.remove((author, text))
            return True
        if self._reply is not None and author == self._author and self._begins(text):
            self._complete(text[len(self._text.lstrip()) :])
            return True
        self._posted = [*self._posted[1 - _KEPT :], (author, text)]
        return False

    def _begins(self, text: str) -> bool:
        """Whether what is shown of the reply is a text, or the beginning of it."""
        shown = self._text.lstrip()
        return bool(shown) and (text == shown.rstrip() or text.startswith(shown))

    def _complete(self, rest: str) -> None:
        """Show the rest of the reply, and no more of it when it comes."""
        if rest:
            _write(f"{'' if self._is_line_open else f'{self._author}: '}{rest}")
            self._is_line_open = True
        self.end_line()
        self._late, self._reply = self._reply, None

    def _is_posted(self, change: Mapping[str, Any]) -> bool:
        """Whether a reply begins as a text that was posted: its end may have come before.

        If it is another one, it is shown when it is posted.
        """
        author, begin = change["agent"], change["text"].strip()
        return bool(begin) and any(
            author == by and text.startswith(begin) for by, text in self._posted
        )

    def stop(self) -> None:
        """Forget the reply: the server sends nothing more."""
        self.end_line()
        self._reply = None


async def follow_replies(
    url: str, token: str, thread: UUID, writing: Writing, look: Callable[[], Awaitable[None]]
) -> None:
    """Show the replies of a thread until cancelled, or until the server refuses.

    A server that cannot be reached is not asked again: the posted replies are shown anyway.

    Args:
        look: shows what was posted before a reply begins.
    """
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT) as client:
        while True:
            try:
                async for change in _changes(client, thread):
                    if writing.begins(change):
                        await look()
                    writing.take(change)
            except httpx2.ConnectError:
                return
            except (httpx2.HTTPError, orjson.JSONDecodeError):
                pass
            except _RefusedError:
                return
            finally:
                writing.stop()
            await asyncio.sleep(_AGAIN)


class _RefusedError(Exception):
    """The server does not send the replies."""


async def _changes(client: httpx2.AsyncClient, thread: UUID) -> AsyncGenerator[Mapping[str, Any]]:
    async with client.stream("GET", "/v1/replies", params={"thread": str(thread)}) as answer:
        if answer.status_code != _OK:
            raise _RefusedError
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                yield orjson.loads(line.removeprefix("data: "))


def _write(text: str) -> None:
    click.echo(clean(text), nl=False)
    sys.stdout.flush()
