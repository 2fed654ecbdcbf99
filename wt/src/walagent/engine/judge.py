"""Let PostgreSQL judge the conditions of matched changes, many a round trip.

On a connection of its own, in a read-only transaction, as the attachment's `run_as`: a condition
can neither write nor see more than the agent may.  It names what it uses with schemas, and there
is no search_path: what was made after it was checked cannot be found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg import AsyncConnection, AsyncRawCursor, Error, sql

from walagent.attachment import Attachment
from walagent.change import Change
from walagent.matching import predicate
from walagent.matching.match import Match
from walagent.store.exact import exact
from walagent.store.translate import is_passing

_AT_ONCE = 1000  # rows a statement
_TIMEOUT = "10s"  # for one statement; a condition on one row needs microseconds


@dataclass(frozen=True, slots=True)
class Raised:
    """The condition raised an error on this change."""

    match: Match
    sqlstate: str
    message: str


class Judge:
    """Tells which matches' conditions hold."""

    def __init__(self, conn: AsyncConnection[Any]) -> None:
        self._conn = conn

    async def judge(self, matches: Sequence[Match]) -> list[Match | Raised]:
        """Keep the matches whose condition is true, and those on which it raised, in order.

        Raises:
            psycopg.Error: the connection is lost; nothing is decided.
        """
        groups: dict[tuple[int, int], list[int]] = {}
        for n, match in enumerate(matches):
            if match.attachment.condition is not None:
                key = (match.attachment.id, match.attachment.version)
                groups.setdefault(key, []).append(n)
        if not groups:
            return list(matches)
        verdicts: dict[int, bool | Raised] = {}
        for numbers in groups.values():
            for at in range(0, len(numbers), _AT_ONCE):
                verdicts |= await self._judge_group(matches, numbers[at : at + _AT_ONCE])
        kept: list[Match | Raised] = []
        for n, match in enumerate(matches):
            verdict = verdicts.get(n, True)
            if isinstance(verdict, Raised):
                kept.append(verdict)
            elif verdict:
                kept.append(match)
        return kept

    async def _judge_group(
        self, matches: Sequence[Match], numbers: Sequence[int]
    ) -> dict[int, bool | Raised]:
        """Judge changes of one attachment; when that raises, one after the other."""
        attachment = matches[numbers[0]].attachment
        try:
            return await self._ask(attachment, [(n, matches[n].change) for n in numbers])
        except Error as error:
            if is_passing(error):
                raise
            if len(numbers) == 1:
                message = error.diag.message_primary or str(error)
                return {numbers[0]: Raised(matches[numbers[0]], error.sqlstate or "", message)}
        middle = len(numbers) // 2  # halving finds few bad rows among many good ones quickly
        first = await self._judge_group(matches, numbers[:middle])
        return first | await self._judge_group(matches, numbers[middle:])

    async def _ask(
        self, attachment: Attachment, changes: Sequence[tuple[int, Change]]
    ) -> dict[int, bool | Raised]:
        document = orjson.dumps(predicate.rows(attachment, changes), default=exact).decode()
        async with self._conn.transaction():
            await self._conn.execute(
                sql.SQL(
                    "set transaction read only; set local role {}; set local search_path = '';"
                    " set local statement_timeout = {}"
                ).format(sql.Identifier(attachment.run_as), sql.Literal(_TIMEOUT))
            )
            cursor = AsyncRawCursor(self._conn)
            await cursor.execute(predicate.statement(attachment), [document])
            return {n: verdict is True for n, verdict in await cursor.fetchall()}
