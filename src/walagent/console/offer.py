"""What the console serves, and who answers it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from psycopg import AsyncConnection

from walagent.console.declared import Declared
from walagent.console.own import Own
from walagent.console.replies import ReplyStreams
from walagent.domain.tenant import Actor
from walagent.message import Json
from walagent.runs.live_replies import LiveReplies
from walagent.store.sessions.acting import Identity
from walagent.sync.asgi import Receive, Scope, Send
from walagent.sync.query import Connecting


class Application(Protocol):
    """An ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        ...


class Engine(Protocol):
    """Where connections of the daemon's login come from."""

    def connection(self) -> Connecting:
        """Use a connection for a while."""
        ...


class Questions(Protocol):
    """Answers questions of principals."""

    async def check(self, conn: AsyncConnection[Any]) -> bool:
        """Check that the principal can ask; return whether as the login of this process."""
        ...

    async def answer(
        self, question: str, session: str, token: str | None, who: Actor
    ) -> dict[str, Json]:
        """Answer a question."""
        ...


async def _no_prompt(_conn: AsyncConnection[Any], _run: int) -> dict[str, Json] | None:
    return None


class Trials(Protocol):
    """Tries attachments for principals."""

    async def check(self, conn: AsyncConnection[Any], attachment: str) -> Any:  # noqa: ANN401 - its own
        """Check that the principal may try an attachment; return what the others need."""
        ...

    async def rows(self, may: Any) -> dict[str, Json]:  # noqa: ANN401
        """Return rows to try it on."""
        ...

    async def run(
        self,
        may: Any,  # noqa: ANN401
        at: Mapping[str, str],
        draft: Mapping[str, Json],
        *,
        approved: bool,
    ) -> dict[str, Json]:
        """Try one row."""
        ...


class Reasons(Protocol):
    """Explains to principals why a row has a run, or none."""

    async def check(self, conn: AsyncConnection[Any], relation: str) -> str:
        """Check that the principal may know; return the quoted name of the table."""
        ...

    async def explain(
        self, name: str, key: str, identity: Identity, role: str | None, who: Actor
    ) -> dict[str, Json]:
        """Explain the runs of a row."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """What is served.

    Args:
        hosts: names of this server.
        prompt: returns the first request of a run, as the caller can see it.
        secure: whether browsers reach it by https.
        replies: what models write now.
        own: what the file adds; None: nothing.
        questions: answers questions; None: nobody can ask here.
        trials: tries agents; None: nobody can try them here.
        reasons: explains runs of a row; None: nobody can ask for them here.
    """

    queries: Mapping[str, Declared]
    mutations: Mapping[str, Declared]
    hosts: frozenset[str]
    version: str
    prompt: Callable[[AsyncConnection[Any], int], Awaitable[dict[str, Json] | None]] = _no_prompt
    secure: bool = False
    replies: ReplyStreams = field(default_factory=lambda: ReplyStreams(LiveReplies()))
    own: Own | None = None
    questions: Questions | None = None
    trials: Trials | None = None
    reasons: Reasons | None = None
