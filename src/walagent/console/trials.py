"""Trials of the console's page, by the engine of `walagent try`, of drafts that can be published.

A trial acts as the login of this process and takes everything back.  What it shows is what the role
of the agent can read, which the login of the principal must be a member of.
"""

import asyncio
import shlex
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson
from psycopg import AsyncConnection

from walagent.config import Config
from walagent.config.dsn import Logins
from walagent.console.declared import PREFIX, declared_mutations
from walagent.console.sessions import login_statement
from walagent.domain.tenant import Actor
from walagent.http.exchange import RefusedError
from walagent.http.shares import Shares
from walagent.intake.backfill import PresentRow
from walagent.message import Json
from walagent.store.relations.changed_rows import Cells, ChangedRow
from walagent.store.sessions.connections import connect
from walagent.trial.attaching import Wanted
from walagent.trial.trial import Trial, TrialOptions, TriedRow, open_trial

_SECONDS: Final = 300  # of one row
_LISTED: Final = 20  # rows to choose from
_WHO: Final = """
select i.tenant, i.principal::text, agent.has_role('developer'), x.login::text, a.run_as::text,
       a.attached_by::text,
       exists (select from pg_catalog.pg_roles r
                where r.rolname = a.attached_by and pg_has_role(x.login, r.oid, 'member'))
       or pg_has_role(x.login, c.relowner, 'member'),
       exists (select from pg_catalog.pg_roles r
                where r.rolname = a.run_as and pg_has_role(x.login, r.oid, 'member')),
       pg_has_role(session_user, c.relowner, 'member'),
       x.reads_login and not x.is_own
  from agent_internal.identity() i
       cross join agent_internal.asking('') x
       cross join pg_catalog.pg_class c
       left join agent.attachment a on a.tenant = i.tenant and a.name = %s
 where c.oid = 'agent.attachment'::regclass
"""
# As the role of the agent reads them; it sees the row that is tried, others only without policies.
_READABLE: Final = """
select n.nspname || '.' || c.relname, c.relrowsecurity,
       coalesce(array_agg(a.attname::text)
                  filter (where has_column_privilege(%s, c.oid, a.attnum, 'select')), '{}')
  from pg_catalog.pg_class c
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace
       join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where n.nspname || '.' || c.relname = any (%s)
 group by 1, 2
"""


@dataclass(frozen=True, slots=True)
class MayTry:
    """An attachment that a principal may try, and as whom."""

    attachment: str
    actor: Actor


class PageTrials:
    """Tries attachments for principals."""

    def __init__(self, logins: Logins, config: Config) -> None:
        self._dsn: Callable[[], str] = logins.dsn
        # The page tries what is in the database, also where the file differs.
        self._config = config.model_copy(update={"agents": {}, "attachments": {}})
        # Each has its own connections.
        self._places = Shares("trials", 4, of_tenant=3, of_principal=2)

    async def check(self, conn: AsyncConnection[Any], attachment: str) -> MayTry:
        """Check that the principal of this transaction may try an attachment.

        Raises:
            RefusedError: it may not, or there is none.
        """
        row = await (await conn.execute(_WHO, [attachment])).fetchone()
        tenant, principal, develops, login, run_as, owner, changes, becomes, owns, reads = row or (
            (None,) * 10
        )
        if not develops:
            raise RefusedError(
                403,
                "trying an agent needs the role developer, and a token with the scope develop",
                "42501",
                "An admin can grant it: select agent.grant_role(NAME, 'developer');",
            )
        if run_as is None:
            raise RefusedError(404, f'attachment "{attachment}" does not exist')
        if login is None:
            raise RefusedError(
                403,
                f'principal "{principal}" has no login, whose privileges bound what it can try',
                "42501",
                login_statement(tenant, principal),
            )
        for needed, has in ((owner, changes), (run_as, becomes)):
            if not has:
                raise RefusedError(
                    403,
                    f'attachment "{attachment}" belongs to role "{needed}" or runs as it, and your'
                    f' login "{login}" is no member',
                    "42501",
                    f"grant {needed} to {login};",
                )
        if not owns:
            raise RefusedError(
                403,
                "trials need the login that owns walagent's schema; walagent run has another one",
                "42501",
                f"Run walagent try {shlex.quote(attachment)} as the owner.",
            )
        if reads:
            raise RefusedError(
                403,
                "a policy or view depends on session_user, which is here the login of walagent run",
                "42501",
                f"Run walagent try {shlex.quote(attachment)} as {login}, if it owns walagent's"
                " schema.",
            )
        return MayTry(attachment, Actor(str(tenant), str(principal)))

    async def rows(self, may: MayTry) -> dict[str, Json]:
        """Return the last rows, and what the first call for one can cost at most."""
        async with self._open(may, {}, TrialOptions(last=_LISTED)) as trial:
            cost = await trial.first_cost()
            found: list[Json] = [_row(row) for row in trial.rows]
            return {
                "rows": found,
                "table": ".".join(trial.attachment.target.relation),
                "run_as": trial.attachment.authority.run_as,
                "first_cost": None if cost is None else str(cost),
            }

    async def run(
        self, may: MayTry, at: Mapping[str, str], draft: Mapping[str, Json], *, approved: bool
    ) -> dict[str, Json]:
        """Try one row.

        Args:
            at: its primary key.
            draft: of the agent; empty: as it is.
            approved: execute calls that would wait for approval.

        Raises:
            RefusedError: the row or a column of the draft does not exist.
            WalagentError: as `Trial.try_row` does.
        """
        if unknown := draft.keys() - _publishable():
            raise RefusedError(400, f'a draft has no "{min(unknown)}"')
        if not at:
            raise RefusedError(400, 'expected the primary key of a row in "at"')
        options = TrialOptions(last=1, assume_approved=approved, at=at)
        async with self._open(may, draft, options) as trial:
            if not trial.rows:
                raise RefusedError(
                    404, "the row does not exist, or the role of the agent cannot see it"
                )
            try:
                async with asyncio.timeout(_SECONDS):
                    tried = await trial.try_row(trial.rows[0])
            except TimeoutError as error:
                raise RefusedError(504, f"the trial took more than {_SECONDS} s") from error
            return await self._shown(trial, tried)

    @asynccontextmanager
    async def _open(
        self, may: MayTry, draft: Mapping[str, Json], options: TrialOptions
    ) -> AsyncGenerator[Trial]:
        wanted = Wanted(may.attachment, self._config, actor=may.actor, draft=draft)
        with self._places.now(may.actor):
            async with open_trial(self._dsn(), wanted, options) as trial:
                yield trial

    async def _shown(self, trial: Trial, tried: TriedRow) -> dict[str, Json]:
        changes, hidden = await self._readable(trial, tried.changes.rows)
        run: dict[str, Any] | None = None
        if tried.run is not None:
            wanted = ("state", "error", "result", "tokens", "cost", "steps")
            run = {name: tried.run[name] for name in wanted}
            run["ms"] = sum(step["duration_ms"] or 0 for step in tried.run["steps"])
        return {
            "key": tried.key,
            "run": run,
            "changes": changes,
            "not_called": [asdict(call) for call in tried.not_called],
            "not_compared": dict(tried.changes.unknown) | hidden,
        }

    async def _readable(
        self, trial: Trial, rows: Sequence[ChangedRow]
    ) -> tuple[list[Json], dict[str, str]]:
        """Return what the agent's role can read, and the tables that are left out."""
        names = sorted({f"{row.schema}.{row.table}" for row in rows})
        role = trial.attachment.authority.run_as
        async with await connect(self._dsn(), application="walagent try") as conn:
            cursor = await conn.execute(_READABLE, [role, names])
            tables = {
                name: (secured, {*columns}) for name, secured, columns in await cursor.fetchall()
            }
        tried, hidden = ".".join(trial.attachment.target.relation), dict[str, str]()
        keys = trial.attachment.target.key_columns
        (present,) = trial.rows
        found = list[Json]()
        for row in rows:
            name = f"{row.schema}.{row.table}"
            secured, columns = tables.get(name, (True, set[str]()))
            cells = row.before or row.after or {}
            is_own = name == tried and all(cells.get(k) == _text(present.values[k]) for k in keys)
            if not columns or (secured and not is_own):
                hidden[name] = f'role "{role}" cannot read it, or row-level security applies'
                continue
            found.append(
                {
                    "table": name,
                    "before": _cut(row.before, columns),
                    "after": _cut(row.after, columns),
                }
            )
        return found, hidden


def _publishable() -> AbstractSet[str]:
    """Return the keys of an agent that the page changes."""
    publish = next(each for each in declared_mutations() if each.name == f"{PREFIX}publish_agent")
    return {*publish.parameters} - {"agent", "base"}


def _row(row: PresentRow) -> Json:
    return {
        "key": row.key,
        "at": {name: _text(value) for name, value in row.cursor.items()},
        "content": dict(_texts(row)),
    }


def _texts(row: PresentRow) -> Iterator[tuple[str, Json]]:
    for name, value in row.values.items():
        yield name, _text(value)


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict | list | bool):
        return orjson.dumps(value, default=str).decode()
    return str(value)


def _cut(cells: Cells | None, columns: set[str]) -> Json:
    return None if cells is None else {n: text for n, text in cells.items() if n in columns}
