"""Use an asynchronous client in programs without an event loop."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from walagent.errors import ConfigError

T = TypeVar("T")


class Client(Protocol):
    """What is opened and closed."""

    async def __aenter__(self) -> Self:
        """Connect."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


C = TypeVar("C", bound=Client)


class Blocking(Generic[C]):
    """Runs the calls of a client in an event loop of its own; open it with `with`."""

    def __init__(self, client: C) -> None:
        self._client = client
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        """Connect."""
        try:
            self._run(self._client.__aenter__())
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._run(self._client.aclose())
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if asyncio._get_running_loop() is not None:  # noqa: SLF001 - it does not raise
            work.close()
            name = type(self._client).__name__
            raise ConfigError("an event loop is running", hint=f"Use {name}.")
        return self._runner.run(work)
