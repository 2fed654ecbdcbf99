"""Personas, tools, grants and policies, for people."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from walagent.errors import ConfigError
from walagent.message import Json

Connection = AsyncConnection[Any]
Row = dict[str, Any]

_LISTS: Final = {
    "personas": """
select p.name, p.version, p.model, cardinality(p.rules) as rules, p.requests_per_minute,
       (select count(*) from agent.agent g where g.tenant = p.tenant and g.persona = p.name)
           as agents, p.updated_at
  from agent.persona p where p.tenant = agent.current_tenant() order by p.name
""",
    "tools": """
select t.name, t.kind, t.effect, t.risk, t.version, t.enabled, t.approval, t.target
  from agent.tool t where t.scope in ('', agent.current_tenant()) order by t.name, t.scope
""",
    "policies": """
select p.name, p.point, p.phase, p.action, p.priority, p.enabled, p.condition
  from agent.policy p where p.tenant = agent.current_tenant()
 order by p.point, p.phase, p.priority, p.name
""",
}
_SHOWN: Final = {
    "persona": "select to_jsonb(p) from agent.persona p"
    " where p.tenant = agent.current_tenant() and p.name = %(name)s",
    "tool": "select to_jsonb(t) || jsonb_build_object('grants', (select"
    " coalesce(jsonb_agg(to_jsonb(r) - '{tenant,tool,made_by}'::text[] order by r.role), '[]')"
    " from agent.role_tool r where r.tenant = agent.current_tenant() and r.tool = t.name))"
    " from agent.tool t where t.scope in ('', agent.current_tenant()) and t.name = %(name)s"
    " order by t.scope desc limit 1",
    "policy": "select to_jsonb(p) from agent.policy p"
    " where p.tenant = agent.current_tenant() and p.name = %(name)s",
}
_VERSIONS: Final = {
    "persona": "select v.version, v.made_by, v.made_at, v.definition from agent.persona_version v"
    " where v.tenant = agent.current_tenant() and v.persona = %(name)s order by 1 desc",
    "tool": "select v.version, v.enabled, v.made_at, v.definition from agent.tool_version v"
    " where v.scope in ('', agent.current_tenant()) and v.tool = %(name)s order by 1 desc",
}


_KNOWN_AGENT: Final = """
select exists (select from agent.agent g where g.name = %(name)s)
       or exists (select from agent.attachment_version v where v.definition ->> 'agent' = %(name)s)
       or exists (select from agent.memory m where m.agent = %(name)s),  -- of an agent to come
       array(select g.name from agent.agent g)
"""

# Whether something has the name, and whether the tenant has grants.
_KNOWN_TOOL: Final = """
select exists (select from agent.tool t where t.name = %(tool)s
                  and t.scope in ('', agent.current_tenant()))
       or exists (select from agent.agent g where g.tenant = agent.current_tenant()
                     and regexp_replace(%(tool)s, '^.*[.]', '')
                         in (select regexp_replace(x, '^.*[.]', '') from unnest(g.tools) x))
       or exists (select from pg_catalog.pg_proc p
                   where p.proname = %(tool)s and p.pronamespace::regnamespace::text
                         not in ('pg_catalog', 'information_schema', 'agent_internal')),
       exists (select from agent.role_tool r where r.tenant = agent.current_tenant())
"""
_WITHDRAW: Final = """
delete from agent.role_tool
 where tenant = agent.current_tenant() and role = %(role)s and tool = %(tool)s
"""
_DENY: Final = """
update agent.role_tool set denied = %(denied)s
 where tenant = agent.current_tenant() and role = %(role)s and tool = %(tool)s
"""


async def list_all(conn: Connection, what: str) -> list[Row]:
    """List personas, tools or policies."""
    cursor = await conn.cursor(row_factory=dict_row).execute(_LISTS[what].encode())
    return await cursor.fetchall()


async def show(conn: Connection, what: str, name: str) -> Row | None:
    """Return a persona, tool or policy; None if it does not exist."""
    row = await (await conn.execute(_SHOWN[what].encode(), {"name": name})).fetchone()
    return row[0] if row else None


async def versions(conn: Connection, what: str, name: str) -> list[Row]:
    """List the versions of a persona or tool, the latest first.

    Raises:
        ConfigError: there is none: each has a version.
    """
    cursor = conn.cursor(row_factory=dict_row)
    rows = await (await cursor.execute(_VERSIONS[what].encode(), {"name": name})).fetchall()
    if not rows:
        raise unknown(what, name)
    return rows


def unknown(what: str, name: str) -> ConfigError:
    """Return the error for a persona, tool or policy that does not exist."""
    group = {"persona": "agents personas", "tool": "agents tools", "policy": "tenants policies"}
    hint = f"Use walagent {group[what]} list to list them."
    return ConfigError(f'{what} "{name}" does not exist', hint=hint)


async def check_agent(conn: Connection, name: str | None) -> None:
    """Check that an agent has, or had, this name; None: every agent is meant.

    Raises:
        ConfigError: none has, that the login sees; the error names the nearest one.
    """
    if name is None:
        return
    row = await (await conn.execute(_KNOWN_AGENT.encode(), {"name": name})).fetchone()
    if row is None or not row[0]:
        near = get_close_matches(name, row[1] if row else (), n=1)
        raise ConfigError(
            f'agent "{name}" does not exist',
            hint=f'Did you mean "{near[0]}"?' if near else "Use walagent agents list to list them.",
        )


async def enable_tool(conn: Connection, tool: str, version: int | None, *, enabled: bool) -> None:
    """Allow or refuse the calls of a version of a tool, or of all."""
    given = {"tool": tool, "version": version}
    function = b"enable_tool" if enabled else b"disable_tool"
    await conn.execute(b"select agent." + function + b"(%(tool)s, %(version)s)", given)


async def grant_tool(
    conn: Connection, role: str, tool: str, allowed: Mapping[str, Json] | None
) -> bool:
    """Grant a role the calls of a tool, with all arguments or those that are allowed.

    Returns:
        whether it is the first grant of the tenant: from then on, all calls need one.

    Raises:
        ConfigError: neither a tool, an agent's tool nor a function has this name.
    """
    seen = await (await conn.execute(_KNOWN_TOOL.encode(), {"tool": tool})).fetchone()
    assert seen is not None  # noqa: S101 - no FROM
    if not seen[0]:
        raise ConfigError(
            f'no tool, tool of an agent or function is called "{tool}"',
            hint="Use walagent agents tools list to list tools.",
        )
    await conn.execute(
        "insert into agent.role_tool (role, tool, allowed)"
        " values (%(role)s, %(tool)s, %(allowed)s)"
        " on conflict (tenant, role, tool) do update set allowed = excluded.allowed",
        {"role": role, "tool": tool, "allowed": None if allowed is None else Jsonb(allowed)},
    )
    return not seen[1]


async def deny_tool(
    conn: Connection, role: str, tool: str, denied: Mapping[str, Json] | None
) -> bool:
    """Withdraw a grant, or deny arguments of it; return whether there is one."""
    given = {"role": role, "tool": tool, "denied": None if denied is None else Jsonb(denied)}
    cursor = await conn.execute(_WITHDRAW if denied is None else _DENY, given)
    return cursor.rowcount > 0


async def enable_policy(conn: Connection, name: str, *, enabled: bool) -> bool:
    """Let a policy apply or not; return whether there is one."""
    cursor = await conn.execute(
        "update agent.policy set enabled = %(enabled)s"
        " where tenant = agent.current_tenant() and name = %(name)s",
        {"name": name, "enabled": enabled},
    )
    return cursor.rowcount > 0
