"""Keep the changes of one table for which a condition is true, for `walagent wal tail`.

The condition is checked as that of an attachment, and evaluated by the same code, but as the login
for code of others itself: that login has no privilege, and the caller's role needs no trampoline.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from walagent.domain.agent_spec import AgentSpec, Authority, Target
from walagent.domain.attachment import Attachment, Trigger
from walagent.domain.change import Change, Item, Op, Piece
from walagent.errors import ConfigError
from walagent.intake.conditions import Evaluator
from walagent.intake.verdicts import Raised, Verdict, match_of
from walagent.matching.match import Candidates, Match, alike
from walagent.store.errors import translating
from walagent.store.relations import tables
from walagent.store.role_reader import LoginReader
from walagent.store.sessions.connections import connect

Keep = Callable[[Sequence[Item]], Awaitable[Sequence[Item]]]


class Where:
    """Filters items; a change that cannot be evaluated is kept, so that none is lost."""

    def __init__(
        self, attachment: Attachment, evaluator: Evaluator, say: Callable[[str], None]
    ) -> None:
        """Take what evaluates.

        Args:
            attachment: of the condition; nothing of it is stored.
            say: shows a message for a person.
        """
        self._attachment = attachment
        self._evaluator = evaluator
        self._say = say

    async def keep(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the items without the changes for which the condition is not true."""
        changes = [c for item in items if isinstance(item, Piece) for c in item.changes]
        ours = [c for c in changes if self._is_ours(c)]
        if not ours:
            kept = frozenset[int]()
        else:
            groups = [Candidates(self._attachment, group, None) for group in alike(ours)]
            with translating():
                found = await self._evaluator.evaluate_all(groups)
            kept = frozenset(id(self._change(verdict)) for one in found for verdict in one)
        return [self._filtered(item, kept) if isinstance(item, Piece) else item for item in items]

    def _is_ours(self, change: Change) -> bool:
        relation = change.relation
        return (relation.schema, relation.name) == self._attachment.target.relation

    def _change(self, verdict: Verdict) -> Change:
        change = match_of(verdict).change
        if not isinstance(verdict, Match):
            why = (
                f"{verdict.message} (SQLSTATE {verdict.sqlstate})"
                if isinstance(verdict, Raised)
                else verdict.reason
            )
            self._say(f"printed without its condition: {change.commit_lsn} {change.ordinal}: {why}")
        return change

    def _filtered(self, piece: Piece, kept: frozenset[int]) -> Piece:
        return replace(piece, changes=[c for c in piece.changes if id(c) in kept])


@asynccontextmanager
async def open_where(
    dsn: str,
    tools_dsn: Callable[[], str],
    table: tuple[str, str],
    condition: str,
    say: Callable[[str], None],
) -> AsyncGenerator[Keep]:
    """Check a condition, and yield the filter.

    Raises:
        ConfigError: the table does not exist, or walagent is not installed in its database.
        PreconditionError: the role cannot use the login for code of others.
        WalagentError: the condition is not valid.
    """
    with translating():
        async with await connect(dsn, application="walagent tail") as conn:
            oid = (await tables.oids_of(conn, [table])).get(table)
            if oid is None:
                raise ConfigError(f"table does not exist: {'.'.join(table)}")
            if (checked := await tables.compile_condition(conn, oid, condition)) is None:
                raise ConfigError(
                    "--where requires walagent in the database", hint="Run walagent init."
                )
            columns = dict(await tables.columns_of(conn, oid))
            names = {114: "json", 3802: "jsonb"}
            json_columns = {name: names[kind] for name, kind in columns.items() if kind in names}
            reader = LoginReader(conn, tools_dsn)
            attachment = Attachment(
                0,
                1,
                "tail",
                Target(oid, *table, key_columns=(), json_columns=json_columns),
                Trigger(
                    frozenset(Op),
                    checked.text,
                    checked.columns,
                    checked.old_columns,
                    whole_row=checked.whole_row,
                ),
                AgentSpec("tail", ""),
                Authority(""),
            )
            try:
                yield Where(attachment, Evaluator(conn, reader), say).keep
            finally:
                await reader.aclose()
