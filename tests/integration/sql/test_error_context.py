"""What people call says what is wrong in few lines: psql prints one for each function below it."""

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, rows, run_all

MOST = 3  # lines of CONTEXT: of what raises again, of who calls it, and of a SQL function above
SETUP = (
    DESK
    + """
create table docs (id bigint primary key, title text, near real[]);
insert into agent.model (name, provider, model_id, dimensions) values ('e8', 'openai', 'e8', 8);
select agent.attach('support_tickets', 'fake', name => 'desk', writes => '{category}');
insert into agent.run (reason, queue_id, attachment_id, attachment_version, change, state,
                       finished_at)
select 'manual', id, id, 1, '{}', 'succeeded', now() from agent.attachment;
insert into agent.step (run_id, seq, kind, content) values
    (1, 0, 'reply', '{"parts": [{"call": "c", "name": "update_row", "arguments": {}}]}'),
    (1, 1, 'result', '{"call_id": "c", "name": "update_row"}');
"""
)
# Values of each type: one that is wrong in itself, and one that names what there is.
GIVEN = {
    "bigint": ("999", "1"),
    "bigint[]": ("'{999}'", "'{1}'"),
    "boolean": ("true", "false"),
    "double precision": ("7", "0.5"),
    "integer": ("-1", "1"),
    "interval": ("'-1 s'", "'1 s'"),
    "jsonb": ("""'{"nothing": 1}'""", """'{"text": "", "calls": [{"name": "fly"}]}'"""),
    "name": ("'nobody'", "current_user"),
    "numeric": ("-7", "1"),
    "regclass": ("'docs'", "'support_tickets'"),
    "text": ("'no such = thing'", "'desk'"),
    "text[]": ("'{nothing}'", "'{category}'"),
    "timestamp with time zone": ("'-infinity'", "now()"),
    "uuid": ("gen_random_uuid()", "gen_random_uuid()"),
}
DEEP = (
    "agent.canary('desk', 'model=nothing', share => 0.5)",
    "agent.canary('desk', 'model=e8', share => 0.5)",
    "agent.canary('desk', 'tools=[nothing]')",
    "agent.canary('desk', 'fallback=nothing')",
    "agent.shadow('desk', 'model=nothing')",
    "agent.shadow('desk', 'cascade=[nothing]')",
    'agent.fork(1, 0, reply => \'{"calls": [{"name": "fly", "arguments": {}}]}\')',
    "agent.fork(1, 1, arguments => '{\"nothing\": 1}')",
    "agent.fork(1, 7)",
    "agent.embed('docs', '{title}', 'near', 'fake')",
    "agent.embed('docs', '{nothing}', 'near', 'e8')",
    "agent.enrich('docs', '{title}', '{nothing}', 'fake')",
    "agent.attach('docs', 'fake', condition => 'nothing > 1')",
    "agent.complete('more', 'select id from nothing', 'Long?', model => 'fake')",
)


def lines(error: psycopg.Error) -> list[str]:
    """Return the lines of the context of an error."""
    return (error.diag.context or "").splitlines()


@pytest.mark.parametrize("call", DEEP)
async def test_an_error_has_few_lines_of_context(conn: AsyncConnection, call: str) -> None:
    """Though what finds it is deep below what was called."""
    await run_all(conn, SETUP)
    with pytest.raises(psycopg.Error) as found:
        await run_all(conn, f"select {call}")
    assert len(lines(found.value)) <= MOST, found.value.diag.context


# Whose errors have up to seven lines: what they call are statements, not PL/pgSQL.
LONGER = {
    "add_member", "attach_to_threads", "attach_worker", "create_workflow", "disable_principal",
    "enable_principal", "open_thread",
}  # fmt: skip


async def test_no_public_function_shows_its_stack(conn: AsyncConnection) -> None:
    """Of all that the catalog has, with arguments of each type."""
    await run_all(conn, SETUP)
    found = await rows(
        conn,
        "select p.proname::text, array(select format_type(t, null)"
        "           from unnest(p.proargtypes::oid[]) with ordinality as a (t, n) order by n)"
        "  from pg_proc p"
        " where p.pronamespace = 'agent'::regnamespace and p.prokind = 'f'"
        "   and p.prorettype <> 'trigger'::regtype order by 1, 2",
    )
    long: dict[str, int] = {}
    for name, types in found:
        for n in range(2):
            given = ", ".join(f"{GIVEN.get(t, ('null', 'null'))[n]}::{t}" for t in types)
            try:
                async with conn.transaction(force_rollback=True):
                    await conn.execute(f"select agent.{name}({given})".encode())
            except psycopg.Error as error:
                if len(lines(error)) > (7 if name in LONGER else MOST):
                    long[f"{name}: {error.diag.message_primary}"] = len(lines(error))
    assert not long, "\n".join(map(str, long.items()))
