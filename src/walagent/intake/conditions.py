"""Let PostgreSQL evaluate the conditions of matched changes, many a round trip.

On a connection of its own, in a read-only transaction, as the attachment's `run_as`: a condition
can neither write nor see more than the agent may.  It names what it uses with schemas, and there
is no search_path: what was made after it was checked cannot be found.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import orjson
from psycopg import AsyncConnection, AsyncRawCursor, Error, sql

from walagent.attachment import Attachment
from walagent.change import Change, Relation
from walagent.connection import TEXT_FORMS
from walagent.matching import predicate
from walagent.matching.match import Candidates, Match
from walagent.matching.predicate import ColumnTypes, Texts
from walagent.store import tables
from walagent.store.codecs.exact import exact
from walagent.store.codecs.raw import RawText, has_no_encoding
from walagent.store.errors import is_passing
from walagent.store.roles import local_role

_AT_ONCE = 1000  # rows a statement, as documents; with what is wrong among them
_COLUMNS_AT_ONCE = 4000  # rows a statement, as columns
_TIMEOUT = "10s"  # for one statement; a condition on one row needs microseconds
_VISIBLE = 10.0  # seconds for a commit to show; longer, and a condition may be paused for nothing
# For a table that is locked, which is read where the WAL left out what a condition needs.  That it
# is locked says nothing about the row, so it must end before the other one does.
_LOCK_TIMEOUT = "2s"


@dataclass(frozen=True, slots=True)
class Raised:
    """The condition raised an error on this change."""

    match: Match
    sqlstate: str
    message: str


@dataclass(frozen=True, slots=True)
class Deferred:
    """Nobody can evaluate this change now: the attachment has lost its ground."""

    match: Match
    reason: str


Verdict = Match | Raised | Deferred
_Numbered = Sequence[tuple[int, Match]]


class Evaluator:
    """Tells which matches' conditions hold."""

    def __init__(self, conn: AsyncConnection[Any], *, by_name: bool = False) -> None:
        """Take over *conn*, in autocommit.

        Args:
            by_name: whether changes tell their table by its name alone, as wal2json's do.
        """
        self._conn = conn
        self._by_name = by_name
        # By attachment and version: the relation last evaluated for it, and the statement for that.
        self._statements: dict[tuple[int, int], tuple[Relation, bytes]] = {}
        # The same of statements by column; by their sides, too.
        self._column_statements: dict[
            tuple[int, int, Sequence[str]], tuple[Relation, bytes | None]
        ] = {}
        self._casts: bool | None = None  # whether somebody made casts from text

    async def evaluate(self, matches: Sequence[Match]) -> list[Verdict]:
        """Keep the matches whose condition is true, and those that could not be told, in order.

        Raises:
            psycopg.Error: the connection is lost; nothing is decided.
        """
        found = await self.evaluate_all([
            Candidates(match.attachment, [match.change], match.origin, match.lack)
            for match in matches
        ])  # fmt: skip
        return list(chain.from_iterable(found))

    async def evaluate_all(self, candidates: Sequence[Candidates]) -> list[list[Verdict]]:
        """Do so for changes that share what they have in common; a list for each of *candidates*.

        Raises:
            psycopg.Error: the connection is lost; nothing is decided.
        """
        moved = await self._moved(candidates)
        found: list[list[Verdict]] = [[] for _ in candidates]
        groups: dict[tuple[int, int, int], list[int]] = {}
        for n, each in enumerate(candidates):
            attachment = each.attachment
            if reason := each.lack or moved.get(attachment.id):
                found[n] = [Deferred(match, reason) for match in each.matches()]
            elif attachment.trigger.condition is None:
                found[n] = list(each.matches())
            else:
                key = (attachment.id, attachment.version, id(each.changes[0].relation))
                groups.setdefault(key, []).append(n)
        for places in groups.values():
            group = [candidates[n] for n in places]
            for n, verdicts in zip(places, await self._evaluate(group), strict=True):
                found[n] = verdicts
        return found

    async def _moved(self, candidates: Sequence[Candidates]) -> Mapping[int, str]:
        """The attachments whose table is not the one of its name any more, and why."""
        if not self._by_name or not candidates:
            return {}
        attachments = {each.attachment.id: each.attachment for each in candidates}.values()
        now = await tables.oids_of(self._conn, {a.target.relation for a in attachments})
        return {
            a.id: f"{a.target.schema}.{a.target.table} is another table now, or none"
            for a in attachments
            if now.get(a.target.relation) != a.target.relation_oid
        }

    async def _evaluate(self, group: Sequence[Candidates]) -> Iterator[list[Verdict]]:
        """Evaluate changes of one attachment and one relation; a list for each of *group*."""
        attachment = group[0].attachment
        changes = list(chain.from_iterable(each.changes for each in group))
        held = list[bool | Verdict]()
        for at in range(0, len(changes), _COLUMNS_AT_ONCE):
            some = changes[at : at + _COLUMNS_AT_ONCE]
            answer = await self.ask_by_columns(attachment, some)
            if answer is None:
                matches = chain.from_iterable(each.matches() for each in group)
                answer = await self.look_closer(list(islice(matches, at, at + len(some))))
            held += answer
        rest = iter(held)
        return (
            [
                Match(attachment, change, each.origin) if verdict is True else verdict
                for change, verdict in zip(each.changes, rest, strict=False)
                if verdict is not False
            ]
            for each in group
        )

    # By columns: fast, and it gives up on anything unusual.

    async def ask_by_columns(
        self, attachment: Attachment, changes: Sequence[Change]
    ) -> Sequence[bool] | None:
        """Ask once about changes that look the same to the condition; None if that is no way."""
        found = predicate.texts(attachment, changes)
        if found is None:
            return None
        sides, rows = found
        try:
            statement = await self._column_statement(attachment, changes[0].relation, sides)
            if statement is None:
                return None
            true = await self._true_of(attachment, statement, list(dict.fromkeys(rows)))
        except Error as error:
            if is_passing(error):
                raise
            return None  # what is wrong, and with which change, is found the other way
        return [row in true for row in rows]

    async def _true_of(
        self, attachment: Attachment, statement: bytes, rows: Sequence[Texts]
    ) -> set[Texts]:
        arrays = [RawText(predicate.array(column)) for column in zip(*rows, strict=True)]
        async with self._conn.transaction():
            await self._conn.execute(_settings(attachment, exact=has_no_encoding(self._conn)))
            cursor = AsyncRawCursor(self._conn)
            await cursor.execute(statement, arrays)
            return {rows[n - 1] for (n,) in await cursor.fetchall()}

    async def _column_statement(
        self, attachment: Attachment, relation: Relation, sides: Sequence[str]
    ) -> bytes | None:
        """Compose the statement, or find it.

        A cast from text that somebody made may read it otherwise than its type does.
        """
        key = attachment.id, attachment.version, sides
        known = self._column_statements.get(key)
        if known is not None and known[0] is relation:
            return known[1]
        if self._casts is None:
            self._casts = await tables.has_text_casts(self._conn)
        shape = await self._shape(attachment, relation)
        made = None if self._casts else predicate.column_statement(attachment, shape, sides)
        text = None if made is None else made.as_bytes()
        self._column_statements[key] = relation, text
        return text

    # By documents: for each change whatever there is of it.

    async def look_closer(self, matches: Sequence[Match]) -> list[bool | Verdict]:
        """Ask about each change, and find those on which the condition raises."""
        attachment = matches[0].attachment
        verdicts: dict[int, bool | Verdict] = {}
        rest = list[tuple[int, Match]]()
        for n, match in enumerate(matches):
            if found := predicate.oversized(attachment, match.change):
                verdicts[n] = _too_large(match, *found)
            else:
                rest.append((n, match))
        for at in range(0, len(rest), _AT_ONCE):
            verdicts |= await self._evaluate_group(rest[at : at + _AT_ONCE])
        return [verdicts[n] for n in range(len(matches))]

    async def _evaluate_group(self, group: _Numbered) -> Mapping[int, bool | Verdict]:
        """Evaluate changes of one attachment and one relation."""
        answer = await self._try(group)
        if isinstance(answer, Error):
            self._statements.clear()
            self._column_statements.clear()
            if await self._has_become_visible(group[-1][1].change.xid):
                answer = await self._try(group)
        if not isinstance(answer, Error):
            return answer
        if reason := await self.why_not_at_all(group[0][1]):
            return {n: Deferred(match, reason) for n, match in group}
        return await self._halve(group, answer)

    async def _has_become_visible(self, xid: int) -> bool:
        """Wait until others see what a transaction did to tables; False: they did before.

        The WAL of a commit is read a moment before it shows, and longer where it waits for a
        standby.
        """
        if not await tables.is_ending(self._conn, xid):
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(_VISIBLE):
                while await tables.is_ending(self._conn, xid):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.01)
        return True

    async def why_not_at_all(self, match: Match) -> str:
        """Ask about no row: what raises now is wrong with the attachment, not with a row.

        The relation decides about the types of columns; one that is not described stands for the
        table as it is now.
        """
        answer = await self._try([(0, match)], rows=False)
        if not isinstance(answer, Error):
            return ""
        return f"{answer.diag.message_primary or answer} (SQLSTATE {answer.sqlstate})"

    async def _halve(self, group: _Numbered, error: Error) -> Mapping[int, bool | Verdict]:
        """Find the changes on which it raises: few among many, quickly."""
        if len(group) == 1:
            ((n, match),) = group
            message = error.diag.message_primary or str(error)
            return {n: Raised(match, error.sqlstate or "", message)}
        verdicts: dict[int, bool | Verdict] = {}
        middle = len(group) // 2
        for half in (group[:middle], group[middle:]):
            answer = await self._try(half)
            failed = isinstance(answer, Error)
            verdicts |= await self._halve(half, answer) if failed else answer
        return verdicts

    async def _try(
        self, group: _Numbered, *, rows: bool = True
    ) -> Mapping[int, bool | Verdict] | Error:
        """Ask; what raises and would raise again is an answer, too."""
        try:
            return await self._ask(group, rows=rows)
        except Error as error:
            if is_passing(error):
                raise
            return error

    async def _ask(self, group: _Numbered, *, rows: bool) -> dict[int, bool | Verdict]:
        match = group[0][1]
        attachment, relation = match.attachment, match.change.relation
        changes = [(n, match.change) for n, match in group]
        given = predicate.rows(attachment, changes)
        looks_up = any(row["key"] is not None for row in given)
        statement = await self._statement(attachment, relation, looks_up=looks_up)
        async with self._conn.transaction():
            await self._conn.execute(_settings(attachment, exact=has_no_encoding(self._conn)))
            cursor = AsyncRawCursor(self._conn)
            await cursor.execute(statement, [RawText(orjson.dumps(given if rows else [], exact))])
            return {n: verdict is True for n, verdict in await cursor.fetchall()}

    async def _statement(
        self, attachment: Attachment, relation: Relation, *, looks_up: bool
    ) -> bytes:
        """Compose the statement, or find it; not where it names the table, which may move."""
        key = attachment.id, attachment.version
        known = self._statements.get(key)
        if known is not None and known[0] is relation and not looks_up:
            return known[1]
        shape = await self._shape(attachment, relation)
        text = predicate.statement(attachment, shape, looks_up=looks_up).as_bytes()
        if not looks_up:
            self._statements[key] = relation, text
        return text

    async def _shape(self, attachment: Attachment, relation: Relation) -> ColumnTypes:
        oid = attachment.target.relation_oid
        columns = predicate.needed(attachment, relation)
        then, now = await tables.column_types(self._conn, oid, columns)
        return ColumnTypes(then, now, await tables.name_of(self._conn, oid))


def _too_large(match: Match, column: str, length: int) -> Raised:
    most = predicate.MAX_EVALUATED
    message = f'it reads column "{column}", which holds {length} characters; at most are {most}'
    return Raised(match, "54000", message)


def _settings(attachment: Attachment, *, exact: bool) -> sql.Composed:
    """What holds for the transaction.  Constants and values are read in the styles they came in.

    Args:
        exact: whether to give the server bytes as they are, which it would else refuse as no text.
    """
    settings = {
        "search_path": "",
        "statement_timeout": _TIMEOUT,
        "lock_timeout": _LOCK_TIMEOUT,
        **{style: TEXT_FORMS[style] for style in ("datestyle", "intervalstyle")},
        **({"client_encoding": "SQL_ASCII"} if exact else {}),
    }
    read_only = sql.SQL("set transaction read only; ")
    return read_only + local_role(attachment.authority.run_as, settings)


def match_of(verdict: Verdict) -> Match:
    """The match that a verdict is about."""
    return verdict if isinstance(verdict, Match) else verdict.match
