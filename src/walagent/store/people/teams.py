"""Teams, for people: what `walagent threads teams` lists."""

from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.rows import dict_row

Connection = AsyncConnection[Any]
Row = dict[str, Any]

_TEAMS: Final = """
select t.name, t.thread_id, t.description,
       (select array_agg(m.principal::text order by m.role = 'leader' desc, m.principal)
          from agent.team_member m where m.tenant = t.tenant and m.team = t.name) as members,
       (select count(*) from agent.proposal p
         where p.tenant = t.tenant and p.team = t.name and p.state = 'open') as open_proposals,
       (select count(*) from agent.task k where k.tenant = t.tenant and k.team = t.name
           and k.state in ('open', 'started', 'blocked')) as open_tasks
  from agent.team t where t.tenant = agent.current_tenant() order by t.name
"""
_PARTS: Final = {
    "members": """
select m.principal::text, m.role, m.weight from agent.team_member m
 where m.tenant = agent.current_tenant() and m.team = %(team)s order by m.principal
""",
    "discussions": """
select d.thread_id, d.topic, d.opened_by::text, d.opened_at from agent.discussion d
 where d.tenant = agent.current_tenant() and d.team = %(team)s order by d.opened_at
""",
    "proposals": """
select p.id, p.title, p.state, p.rule, p.yes, p.no, p.abstain, p.votes, p.voters, p.deadline
  from agent.proposal_overview p
 where p.tenant = agent.current_tenant() and p.team = %(team)s order by p.created_at desc
""",
    "tasks": """
select k.id, k.title, k.state, k.assignee::text, k.note, k.due_at,
       array(select n.needs::text from agent.task_need n
              where n.tenant = k.tenant and n.task_id = k.id order by 1) as needs
  from agent.task k
 where k.tenant = agent.current_tenant() and k.team = %(team)s order by k.created_at
""",
    "artifacts": """
select distinct on (a.name) a.name, a.version, a.kind, a.made_by::text, a.made_at, a.content
  from agent.artifact a where a.tenant = agent.current_tenant() and a.team = %(team)s
 order by a.name, a.version desc
""",
}


async def list_teams(conn: Connection) -> list[Row]:
    """List the teams that the caller sees."""
    return await (await conn.cursor(row_factory=dict_row).execute(_TEAMS)).fetchall()


async def list_part(conn: Connection, team: str, part: str) -> list[Row] | None:
    """List the members, tasks and so on of a team; None: there is no such team."""
    if all(row["name"] != team for row in await list_teams(conn)):
        return None
    cursor = conn.cursor(row_factory=dict_row)
    return await (await cursor.execute(_PARTS[part].encode(), {"team": team})).fetchall()
