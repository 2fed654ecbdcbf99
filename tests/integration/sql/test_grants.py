"""What a capability may call has what it calls itself."""

import re

from psycopg import AsyncConnection

from tests.helpers.database import rows

FUNCTIONS = """
select concat(n.nspname, '.', p.proname), p.oid::regprocedure::text, p.prosrc, p.prosecdef,
       array(select c from agent_internal.privilege g, unnest(g.capabilities) c
              where g.kind = 'function' and to_regprocedure(g.object) = p.oid)
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where n.nspname in ('agent', 'agent_internal') and p.prokind = 'f'
"""
CALL = re.compile(r"\b(agent(?:_internal)?\.\w+)\(")
COMMENT = re.compile(r"--.*")


async def test_who_may_call_a_function_may_call_what_it_calls(conn: AsyncConnection) -> None:
    """Else a login with that capability alone fails where a superuser's tests pass."""
    found = await rows(conn, FUNCTIONS)
    granted: dict[str, set[str]] = {}
    for name, _, _, _, capabilities in found:
        granted.setdefault(name, set()).update(capabilities)
    assert len(found) > 500
    missing = [
        (capability, function, called)
        for _, function, source, is_definer, capabilities in found
        if not is_definer
        for called in sorted(set(CALL.findall(COMMENT.sub("", source))) & granted.keys())
        for capability in capabilities
        if capability not in granted[called]
    ]
    assert missing == []
