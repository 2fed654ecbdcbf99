"""Evaluate the conditions of candidates in PostgreSQL, many in a round trip.

The attachment's `run_as` evaluates it in a read-only transaction (`store.role_reader`): a condition
can neither write nor read more than the agent can, whatever code it runs.  Its names are qualified
and search_path is empty: it cannot find objects that were created after it was checked.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain, islice
from typing import Any

import orjson
from psycopg import AsyncConnection, Error

from walagent.base.recent import Recent
from walagent.domain.attachment import Attachment
from walagent.domain.change import Change, Relation
from walagent.intake.verdicts import Deferred, Gone, Raised, Verdict
from walagent.matching import predicate
from walagent.matching.match import Candidates, Group, Match
from walagent.store.codecs.decoded_rows import Lookup, array, by_columns, by_documents, true_rows
from walagent.store.codecs.exact import exact
from walagent.store.errors import is_passing
from walagent.store.relations import tables
from walagent.store.role_reader import RoleReader, RoleStatement, open_role_reader

_AT_ONCE = 1000  # rows in a statement, as documents
_COLUMNS_AT_ONCE = 4000  # rows in a statement, as columns
_VERDICTS_AT_ONCE = 100_000  # rows times conditions in a statement
_STATEMENTS = 1000  # that are kept: one takes up to some kilobytes
# An attachment whose evaluation timed out so often within so many seconds is paused.
_SLOW, _SLOW_WITHIN, _TIMED_OUT = 3, 600.0, "57014"
_VISIBLE = 10.0  # seconds to wait for a commit to become visible before an attachment is paused

_Numbered = Sequence[tuple[int, Match]]


class Evaluator:
    """Evaluates conditions on one connection."""

    def __init__(
        self, conn: AsyncConnection[Any], reader: RoleReader, *, by_name: bool = False
    ) -> None:
        """Take over *conn*, in autocommit mode, and *reader*.

        Args:
            by_name: whether changes identify their table only by name, as those of wal2json do.
        """
        self._conn = conn
        self._reader = reader
        self._by_name = by_name
        # By attachments, their versions and, for a statement by columns, the sides: the last
        # relation, and the statement for it.
        self._statements = Recent[
            tuple[tuple[tuple[int, int], ...], Sequence[str]], tuple[Relation, bytes | None]
        ](_STATEMENTS)
        self._timeouts = Recent[int, deque[float]](_STATEMENTS)  # the last of each attachment
        self._casts: bool | None = None  # whether there are user-defined casts from text

    @property
    def conn(self) -> AsyncConnection[Any]:
        """The connection, for one statement at a time."""
        return self._conn

    async def evaluate(self, matches: Sequence[Match]) -> list[Verdict]:
        """Return the matches whose condition is true, raised an error or is deferred, in order.

        Raises:
            psycopg.Error: the connection is lost; nothing is evaluated.
        """
        found = await self.evaluate_all([
            Candidates(m.attachment, [m.change], m.origin, m.lack, m.pinned, m.shadow)
            for m in matches
        ])  # fmt: skip
        return list(chain.from_iterable(found))

    async def evaluate_all(self, candidates: Sequence[Candidates]) -> list[list[Verdict]]:
        """Evaluate candidates; return a list of verdicts for each of them.

        Raises:
            psycopg.Error: the connection is lost; nothing is evaluated.
        """
        moved = await self._moved(candidates)
        found: list[list[Verdict]] = [[] for _ in candidates]
        groups: dict[tuple[str, int], dict[tuple[int, int], list[int]]] = {}
        for n, each in enumerate(candidates):
            attachment = each.attachment
            if reason := each.lack or moved.get(attachment.id):
                found[n] = [Deferred(match, reason) for match in each.matches()]
            elif attachment.trigger.condition is None:
                found[n] = list(each.matches())
            else:
                together = attachment.authority.run_as, id(each.changes[0].relation)
                alike = attachment.id, attachment.version
                groups.setdefault(together, {}).setdefault(alike, []).append(n)
        for by_attachment in groups.values():
            places = list(by_attachment.values())
            held = await self._held([Group.of([candidates[n] for n in each]) for each in places])
            for each, verdicts in zip(places, held, strict=True):
                rest = iter(verdicts)
                for n in each if any(verdicts) else ():
                    found[n] = _of(candidates[n], rest)
        return found

    async def _moved(self, candidates: Sequence[Candidates]) -> Mapping[int, str]:
        """Return the attachments whose table name now belongs to another table, and why."""
        if not self._by_name or not candidates:
            return {}
        attachments = {each.attachment.id: each.attachment for each in candidates}.values()
        now = await tables.oids_of(self._conn, {a.target.relation for a in attachments})
        return {
            a.id: f"{a.target.schema}.{a.target.table} was replaced or dropped"
            for a in attachments
            if now.get(a.target.relation) != a.target.relation_oid
        }

    async def _held(self, groups: Sequence[Group]) -> list[Sequence[bool | Verdict]]:
        """Evaluate groups of one role and one relation: for each, what holds of its changes.

        All conditions are one statement.  Where that is not possible, or one of them raises an
        error, it is looked for in each half.
        """
        if len(groups) == 1:
            return [await self._held_alone(groups[0])]
        answer = await self._held_together(groups)
        if answer is not None:
            return answer
        middle = len(groups) // 2
        return await self._held(groups[:middle]) + await self._held(groups[middle:])

    async def _held_alone(self, group: Group) -> Sequence[bool | Verdict]:
        held = list[bool | Verdict]()
        for at in range(0, len(group.changes), _COLUMNS_AT_ONCE):
            some = group.changes[at : at + _COLUMNS_AT_ONCE]
            answer = await self.ask_by_columns([group.attachment], some)
            if answer is None:
                matches = list(islice(group.matches(), at, at + len(some)))
                held += await self.look_closer(matches)
            else:
                held += answer[0]
        return held

    async def _held_together(
        self, groups: Sequence[Group]
    ) -> list[Sequence[bool | Verdict]] | None:
        attachments = [group.attachment for group in groups]
        changes = groups[0].changes
        if are_same := all(group.changes is changes for group in groups):
            numbers = {}
        else:
            changes = list({id(one): one for group in groups for one in group.changes}.values())
            numbers = {id(one): n for n, one in enumerate(changes)}
        found: list[list[bool]] = [[] for _ in groups]
        at_once = max(1, min(_COLUMNS_AT_ONCE, _VERDICTS_AT_ONCE // len(groups)))
        for at in range(0, len(changes), at_once):
            answer = await self.ask_by_columns(attachments, changes[at : at + at_once])
            if answer is None:
                return None
            for known, some in zip(found, answer, strict=True):
                known.extend(some)
        if are_same:
            return list(found)
        return [
            [known[numbers[id(one)]] for one in group.changes]
            for group, known in zip(groups, found, strict=True)
        ]

    # By columns: fast; returns None for anything unusual.

    async def ask_by_columns(
        self, attachments: Sequence[Attachment], changes: Sequence[Change]
    ) -> list[Sequence[bool]] | None:
        """Evaluate each distinct row of what the conditions read; None if that is not possible.

        As nobody: a condition depends on new and old alone, which the texts are.

        Args:
            attachments: of one role and one table.
        """
        names = predicate.columns(attachments)
        found = predicate.texts(names, changes)
        if found is None:
            return None
        sides, rows = found
        run_as = attachments[0].authority.run_as
        try:
            statement = await self._column_statement(attachments, names, changes[0].relation, sides)
            if statement is None:
                return None
            true = await true_rows(
                lambda texts: self._reader.read(RoleStatement(run_as, statement, texts=texts)),
                rows,
                len(attachments),
            )
        except Error as error:
            if is_passing(error):
                raise
            return None  # `look_closer` finds the change that raises it
        false = [False] * len(rows)
        return [[row in some for row in rows] if some else false for some in true]

    async def _column_statement(
        self,
        attachments: Sequence[Attachment],
        names: Sequence[str],
        relation: Relation,
        sides: Sequence[str],
    ) -> bytes | None:
        """Return the statement; None if a type is not known, or there is a user-defined cast.

        A cast from text might read a value differently from the input function of its type.
        """
        key = tuple((each.id, each.version) for each in attachments), sides
        known = self._statements.get(key)
        if known is not None and known[0] is relation:
            return known[1]
        if self._casts is None:
            self._casts = await tables.has_text_casts(self._conn)
        known_types = {column.name: column.type_oid for column in relation.columns}
        described = [(name, known_types.get(name, 0)) for name in names]
        then, _ = await tables.column_types(
            self._conn, attachments[0].target.relation_oid, described
        )
        text = None
        if not self._casts and then.keys() >= set(names):
            types = {name: then[name] for name in names}
            given = {side: side in sides for side in ("new", "old")}
            conditions = [each.trigger.condition or "true" for each in attachments]
            text = by_columns(conditions, types, given)
        self._statements[key] = relation, text
        return text

    # By documents: each change with all that the WAL has of it.

    async def look_closer(self, matches: Sequence[Match]) -> list[bool | Verdict]:
        """Evaluate each change, and find those on which the condition raises an error."""
        attachment = matches[0].attachment
        verdicts: dict[int, bool | Verdict] = {}
        rest = list[tuple[int, Match]]()
        for n, match in enumerate(matches):
            if found := predicate.oversized(attachment, match.change):
                verdicts[n] = _too_large(match, *found)
            elif predicate.omitted(attachment, match.change) and not predicate.is_found_by_key(
                attachment, match.change
            ):
                verdicts[n] = Gone(match)
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
            self._casts = None
            if await self.has_become_visible(group[-1][1].change.xid):
                answer = await self._try(group)
        if not isinstance(answer, Error):
            return answer | await self._look_again(answer)
        if not self._is_slow(group) and (reason := await self.why_not_at_all(group[0][1])):
            return {n: Deferred(match, reason) for n, match in group}
        return await self._halve(group, answer)

    def _is_slow(self, group: _Numbered) -> bool:
        """Whether evaluating has ended at its limit again and again: all tables wait meanwhile."""
        now, times = time.monotonic(), self._timeouts.get(group[0][1].attachment.id) or ()
        return sum(now - at < _SLOW_WITHIN for at in times) >= _SLOW

    async def _look_again(
        self, verdicts: Mapping[int, bool | Verdict]
    ) -> dict[int, bool | Verdict]:
        """Look again for rows that were not found: their transactions might not be visible yet."""
        gone = [(n, each.match) for n, each in verdicts.items() if isinstance(each, Gone)]
        if not gone:
            return {}
        for xid in {match.change.xid for _, match in gone}:
            await self.has_become_visible(xid)
        answer = await self._try(gone)
        return dict(await self._halve(gone, answer)) if isinstance(answer, Error) else answer

    async def has_become_visible(self, xid: int) -> bool:
        """Wait until a transaction is visible to others; return False if it already was.

        The WAL of a commit can be read before the commit is visible, and longer before if the
        commit waits for a standby.
        """
        if not await tables.is_ending(self._conn, xid):
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(_VISIBLE):
                pause = 0.0005  # as a rule, it is visible within a millisecond
                while await tables.is_ending(self._conn, xid):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, 0.01)
        return True

    async def why_not_at_all(self, match: Match) -> str:
        """Evaluate no row: an error is one of the attachment, not of a row.

        The relation determines the types of columns; without columns it means the present table.
        """
        answer = await self._try([(0, match)], rows=False)
        if not isinstance(answer, Error):
            return ""
        return f"{answer.diag.message_primary or answer} (SQLSTATE {answer.sqlstate})"

    async def _halve(self, group: _Numbered, error: Error) -> Mapping[int, bool | Verdict]:
        """Find the changes on which the condition raises an error by bisection."""
        if self._is_slow(group):
            reason = f"its evaluation took too long {_SLOW} times (SQLSTATE {_TIMED_OUT})"
            return {n: Deferred(match, reason) for n, match in group}
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
    ) -> dict[int, bool | Verdict] | Error:
        """Evaluate; return an error that would be raised again."""
        try:
            return await self._ask(group, rows=rows)
        except Error as error:
            if is_passing(error):
                raise
            if error.sqlstate == _TIMED_OUT:
                attachment = group[0][1].attachment.id
                times = self._timeouts.get(attachment) or deque(maxlen=_SLOW)
                self._timeouts[attachment] = times
                times.append(time.monotonic())
            return error

    async def _ask(self, group: _Numbered, *, rows: bool) -> dict[int, bool | Verdict]:
        match = group[0][1]
        attachment, relation = match.attachment, match.change.relation
        changes = [(n, match.change) for n, match in group]
        given = predicate.rows(attachment, changes)
        looks_up = any(row["key"] is not None for row in given)
        statement = await self._statement(attachment, relation, looks_up=looks_up)
        document = orjson.dumps(given if rows else [], exact).decode("utf-8", "surrogateescape")
        found = await self._read(attachment, statement, array([document]))
        matches = dict(group)
        return {
            n: Gone(matches[n], hidden is True) if gone else verdict is True
            for n, verdict, gone, hidden in orjson.loads(found or "[]")
        }

    async def _statement(
        self, attachment: Attachment, relation: Relation, *, looks_up: bool
    ) -> bytes:
        """Return the statement; one that names the table is not cached, for the name can change."""
        key = ((attachment.id, attachment.version),), ()
        known = self._statements.get(key)
        if known is not None and known[0] is relation and known[1] and not looks_up:
            return known[1]
        then, now = await self._types(attachment, relation)
        lookup = None
        if looks_up:
            target = attachment.target
            table = await tables.name_of(self._conn, target.relation_oid) or target.relation
            keys = {name: now[name] for name in target.key_columns if name in now}
            lookup = Lookup(target.relation_oid, table, keys)
        types = {name: kind for name, kind in then.items() if predicate.is_read(attachment, name)}
        text = by_documents(attachment.trigger.condition or "true", types, lookup)
        if not looks_up:
            self._statements[key] = relation, text
        return text

    async def _read(self, attachment: Attachment, statement: bytes, texts: bytes) -> str | None:
        run_as, actor = attachment.authority.run_as, attachment.actor
        return await self._reader.read(RoleStatement(run_as, statement, texts=texts, actor=actor))

    async def _types(
        self, attachment: Attachment, relation: Relation
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        columns = predicate.needed(attachment, relation)
        return await tables.column_types(self._conn, attachment.target.relation_oid, columns)


def _of(candidates: Candidates, rest: Iterator[bool | Verdict]) -> list[Verdict]:
    """Return the verdicts on some candidates: the next ones, without those that are false."""
    return [
        candidates.match(change) if verdict is True else verdict
        for change, verdict in zip(candidates.changes, rest, strict=False)
        if verdict is not False
    ]


def _too_large(match: Match, column: str, length: int) -> Raised:
    most = predicate.MAX_EVALUATED
    message = f'column "{column}" has {length} characters; a condition can read {most}'
    return Raised(match, "54000", message)


@asynccontextmanager
async def open_evaluator(
    conn: AsyncConnection[Any],
    tools_dsn: Callable[[], str] = lambda: "",
    *,
    by_name: bool = False,
) -> AsyncGenerator[Evaluator]:
    """Yield an evaluator on *conn*, which can become the roles, and close what it has opened."""
    async with open_role_reader(conn, tools_dsn) as reader:
        yield Evaluator(conn, reader, by_name=by_name)
