"""What walagent has created in a database, and its removal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.sql import SQL, Identifier

from walagent.store.install.compat import OURS as COMPAT

Connection = AsyncConnection[Any]

# A comment on a role that walagent has created: its name can be anything.
CREATED: Final = "Created by walagent"

_PUBLICATIONS: Final = ["walagent", "walagent_inserts"]
_SCHEMAS: Final = ["agent", "agent_internal", "agent_call", "agent_signed"]
_FOUND = """
select array(select s.slot_name::text from pg_replication_slots s
              where s.database = current_database()
                and (s.slot_name = any (%(slots)s) or s.slot_name = any (%(checkpoints)s))
              order by 1),
       array(select pubname::text from pg_publication where pubname = any (%(publications)s)
              order by 1),
       array(select nspname::text from pg_namespace n
              where nspname = any (%(schemas)s)
                    and (nspname <> 'agent'
                         or obj_description(n.oid, 'pg_namespace') like 'walagent: %%'
                         or exists (select from pg_class c where c.relnamespace = n.oid
                                       and c.relname in ('attachment', 'migration')))
                 or obj_description(oid, 'pg_namespace') = %(compat)s
              order by 1)
"""
_UNREAD = """
select s.slot_name::text
  from pg_replication_slots s
 where s.database = current_database() and not s.active and not s.temporary
   and s.plugin in ('pgoutput', 'wal2json') and s.slot_name <> all (%(slots)s::text[])
 order by 1
"""
# Own roles that nobody else uses: they own trampolines at most, have privileges in no other
# database, no role is a member of them but the one that removes them, and they have no session.
# Not those with the OID of another database, even if that was dropped.
# The logins for tools and rows have one: since PostgreSQL 16 the role that created it is a member.
_ROLES = """
select r.rolname::text
  from pg_roles r, pg_database b
 where b.datname = current_database()
   and (r.rolname in ('walagent_tools_' || b.oid, 'walagent_rows_' || b.oid)
        or shobj_description(r.oid, 'pg_authid') = %(created)s
           and (r.rolname !~ '^walagent_console_[0-9]+$' or r.rolname = 'walagent_console_' || b.oid))
   and not exists (select from pg_shdepend d
                    where d.refclassid = 'pg_authid'::regclass and d.refobjid = r.oid
                      and (d.deptype = 'o' and d.classid <> 'pg_default_acl'::regclass
                           and not (d.dbid = b.oid and d.classid = 'pg_proc'::regclass
                                    and (select p.pronamespace from pg_proc p where p.oid = d.objid)
                                        = to_regnamespace('agent_call'))
                           or d.dbid not in (0, b.oid)))
   and (r.rolname in ('walagent_tools_' || b.oid, 'walagent_rows_' || b.oid)
        or not exists (select from pg_auth_members m join pg_roles o on o.oid = m.member
                        where m.roleid = r.oid and o.rolname <> current_user))
   and not exists (select from pg_stat_activity a where a.usesysid = r.oid)
 order by 1
"""
_DAEMONS = """
select format('%s, PID %s', a.application_name, a.pid)
  from pg_stat_activity a
 where a.datname = current_database() and a.pid <> pg_backend_pid()
   and a.application_name like 'walagent%'
 union
select format('the reader of slot %s, PID %s', s.slot_name, s.active_pid)
  from pg_replication_slots s
 where s.database = current_database() and s.active
 order by 1
"""
# Everything outside walagent's schemas that can depend on them.
_OTHERS = """
with relation as (
    select c.oid, c.relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname !~ '^(pg_.*|information_schema)$' and n.nspname <> all (%(schemas)s)
       and c.relkind in ('r', 'p', 'v', 'm', 'f', 'c')
)
select pg_describe_object('pg_class'::regclass, oid, 0) from relation
 union all
select pg_describe_object('pg_class'::regclass, attrelid, attnum)
  from pg_attribute join relation r on r.oid = attrelid
 where attnum > 0 and not attisdropped and r.relkind in ('r', 'p', 'f', 'c')
 union all
select pg_describe_object('pg_constraint'::regclass, k.oid, 0)
  from pg_constraint k join relation r on r.oid = k.conrelid
 union all
select pg_describe_object('pg_trigger'::regclass, t.oid, 0)
  from pg_trigger t join relation r on r.oid = t.tgrelid where not t.tgisinternal
 union all
select pg_describe_object('pg_attrdef'::regclass, d.oid, 0)
  from pg_attrdef d join relation r on r.oid = d.adrelid
 union all
select pg_describe_object('pg_policy'::regclass, p.oid, 0)
  from pg_policy p join relation r on r.oid = p.polrelid
 union all
select pg_describe_object('pg_proc'::regclass, f.oid, 0)
  from pg_proc f join pg_namespace n on n.oid = f.pronamespace
 where n.nspname !~ '^(pg_.*|information_schema)$' and n.nspname <> all (%(schemas)s)
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """What walagent has created in a database.

    Args:
        roles: those that nobody else uses.
        dependents: what is not walagent's and would be dropped with it: views, functions, …
        other_slots: of this database, that nothing reads: walagent's, if its checkpoint was lost.
    """

    slots: Sequence[str]
    publications: Sequence[str]
    schemas: Sequence[str]
    roles: Sequence[str]
    dependents: Sequence[str]
    other_slots: Sequence[str] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to remove."""
        return not (self.slots or self.publications or self.schemas or self.roles)


async def find_installed(conn: Connection, slot: str) -> Installed:
    """Find what walagent has created in this database.

    Args:
        slot: the configured name; others are in agent.checkpoint.
    """
    async with conn.transaction(force_rollback=True):
        checkpoints = await _checkpoints(conn)
        cursor = await conn.execute(
            _FOUND,
            {
                "slots": [slot],
                "checkpoints": checkpoints,
                "publications": _PUBLICATIONS,
                "schemas": _SCHEMAS,
                "compat": COMPAT,
            },
        )
        found: tuple[list[str], ...] = await cursor.fetchone() or ([], [], [])
        slots, publications, schemas = found
        cursor = await conn.execute(_ROLES, {"created": CREATED})
        roles = [row[0] for row in await cursor.fetchall()]
        before = await _others(conn, schemas)
        await _drop_schemas(conn, schemas)
        dependents = sorted(before - await _others(conn, schemas))
    cursor = await conn.execute(_UNREAD, {"slots": slots})
    others = [row[0] for row in await cursor.fetchall()]
    return Installed(slots, publications, schemas, roles, dependents, others)


async def connected_daemons(conn: Connection) -> list[str]:
    """Describe the sessions of walagent in this database, except this one."""
    return [row[0] for row in await (await conn.execute(_DAEMONS)).fetchall()]


async def remove(conn: Connection, installed: Installed) -> None:
    """Remove what was found, in the caller's transaction, except the slots.

    Raises (as a PostgreSQL error):
        the role lacks a privilege; nothing was removed.
    """
    for name in installed.publications:
        await conn.execute(SQL("drop publication {}").format(Identifier(name)))
    await _drop_schemas(conn, installed.schemas)
    for name in installed.roles:
        # It owns nothing: this revokes its privileges in this database.
        await conn.execute(SQL("drop owned by {}").format(Identifier(name)))
        await conn.execute(SQL("drop role {}").format(Identifier(name)))


async def _checkpoints(conn: Connection) -> list[str]:
    cursor = await conn.execute("select to_regclass('agent.checkpoint') is not null")
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return []
    return [
        r[0] for r in await (await conn.execute("select slot from agent.checkpoint")).fetchall()
    ]


async def _others(conn: Connection, schemas: Sequence[str]) -> set[str]:
    cursor = await conn.execute(_OTHERS, {"schemas": [*_SCHEMAS, *schemas]})
    return {row[0] for row in await cursor.fetchall()}


async def _drop_schemas(conn: Connection, schemas: Sequence[str]) -> None:
    if schemas:
        names = SQL(", ").join(map(Identifier, schemas))
        await conn.execute(SQL("drop schema {} cascade").format(names))
