"""The connections of `walagent chat`."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from walagent.ask.answering import open_asker
from walagent.ask.asking import Asker
from walagent.ask.health import Health
from walagent.ask.options import Options
from walagent.cli.session import CliSession
from walagent.config.dsn import Places

T = TypeVar("T")


class ChatConnections:
    """The connections that answer questions, opened again after they were lost."""

    def __init__(
        self, runner: asyncio.Runner, session: CliSession, options: Options, model: str | None
    ) -> None:
        """Store the settings; `open` connects."""
        self._runner = runner
        self._session = session
        self._options = options
        self._model = model
        self._health = Health()
        self._stack = AsyncExitStack()
        self._places: Places | None = None
        self._asker: Asker | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* to its end; Ctrl-C cancels it."""
        return self._runner.run(work)

    def open(self) -> Asker:
        """Return the asker; connect if it is not connected."""
        if self._asker is None:
            self._asker = self.run(self._open())
        return self._asker

    def close(self) -> None:
        """Close all connections; the next question opens new ones."""
        self._asker = None
        stack, self._stack = self._stack, AsyncExitStack()
        self.run(stack.aclose())

    async def _open(self) -> Asker:
        places = await self._stack.enter_async_context(self._session.places())
        settings, health = self._session.config.ask, self._health
        asking = open_asker(places, settings, self._options, model=self._model, health=health)
        return await self._stack.enter_async_context(asking)
