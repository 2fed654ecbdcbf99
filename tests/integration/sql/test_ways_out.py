"""Private data, rows of others, a way out: a person approves, or somebody lets it leave."""

from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, refused, role, run_all, value

TOOLS = """
insert into agent.tool (name, kind, target, http)
values ('post', 'http', 'https://hooks.example.com/x', '{"method": "POST", "body": "{text}"}');
insert into agent.tool (name, kind, target, effect)
values ('mail', 'python', 'desk:mail', 'unsafe'), ('page', 'python', 'desk:page', 'idempotent'),
       ('count', 'python', 'desk:count', 'read');
"""
ATTACH = "select agent.attach('support_tickets', %s)"


@pytest.fixture
async def desk(conn: AsyncConnection) -> AsyncIterator[str]:
    """Tools of each kind, and a role that reads."""
    await run_all(conn, DESK + TOOLS)
    async with role(conn, "nologin") as reader:
        await run_all(conn, f"grant usage on schema public to {reader}")
        yield reader


@pytest.mark.few(2)
@pytest.mark.parametrize("way", ["post", "mail", "page", "web_search", "send_email"])
async def test_what_is_read_does_not_leave_without_a_word(
    conn: AsyncConnection, desk: str, way: str
) -> None:
    """On a table and in threads; the hint has the words, and both are accepted."""
    tools = f"model=fake, tools=[query, count, {way}], query_as={desk}"
    error = await refused(conn, ATTACH, tools, state="WA011")
    assert f'tool "{way}" can send out what "query" reads' in str(error)
    hint = error.diag.message_hint or ""
    assert f"approve=[{way}]" in hint
    assert f"lets_out=[{way}]" in hint
    await value(conn, ATTACH, f"name=a, {tools}, approve=[{way}]")
    await value(conn, ATTACH, f"name=b, {tools}, lets_out=[{way}]")
    await run_all(
        conn,
        "insert into agent.agent (name, model, tools)"
        f" values ('bot', 'fake', '{{retrieve, {way}}}')",
    )
    threads = "select agent.attach_to_threads('bot', lets_out => %s)"
    await refused(conn, threads, [], state="WA011")
    await value(conn, threads, [way])


async def test_what_confirms_one_way_confirms_no_other(conn: AsyncConnection, desk: str) -> None:
    """Nor does it when the agent changes afterwards."""
    tools = f"model=fake, tools=[query, post, mail], query_as={desk}"
    for words in ("lets_out=[mail]", "approve=[post]", "lets_out=[post]"):
        spec = f"name=c, {tools}, {words}"
        await refused(conn, ATTACH, spec, state="WA011")
    await value(conn, ATTACH, f"name=c, {tools}, lets_out=[mail], approve=[post]")
    changed = "update agent.agent set tools = tools || '{page}' where name = %s"
    await refused(conn, changed, "c", state="WA011")


async def test_each_part_alone_is_attached(conn: AsyncConnection, desk: str) -> None:
    """Reading without a way out, and a way out for what the row has."""
    await attach(conn, f"name=reads, tools=[query, count, refund_user], query_as={desk}")
    await attach(conn, "name=sends, tools=[post, mail, page], writes=[status]")


QUERIES = """
insert into agent.agent (name, model, tools) values ('asker', 'fake', '{retrieve}');
"""
READS = '{"name": "a", "kind": "model", "agent": "asker", "prompt": "?"}'
SENDS = '{"name": "t", "kind": "tool", "tool": "post", "arguments": {"text": "{{a}}"}%s}'
NEXT = '[{"from": "a", "to": "t"}]'


async def test_a_workflow_is_looked_at_as_an_agent_is(conn: AsyncConnection, desk: str) -> None:
    """One node reads, and another one sends; a person decides before, or the node says so."""
    del desk
    await run_all(conn, QUERIES)
    make = "select agent.create_workflow('w', %s, %s)"
    error = await refused(conn, make, f"[{READS}, {SENDS % ''}]", NEXT, state="WA025")
    assert "lets_out" in (error.diag.message_hint or "")
    for more in ("interrupt_before", "lets_out"):
        confirmed = SENDS % (', "' + more + '": true')
        nodes = f"[{READS}, {confirmed}]"
        assert await value(conn, make, nodes, NEXT) > 0


async def test_what_an_edge_of_a_workflow_does_not_know_is_refused(
    conn: AsyncConnection, desk: str
) -> None:
    """A condition with a typing error would be none."""
    del desk
    nodes = '[{"name": "a", "kind": "router"}, {"name": "t", "kind": "router"}]'
    edges = '[{"from": "a", "to": "t", "conditon": "false"}]'
    make = "select agent.create_workflow('w', %s, %s)"
    error = await refused(conn, make, nodes, edges, state="WA025")
    assert 'invalid key "conditon"' in str(error)


async def test_what_a_tool_or_a_tenant_does_not_know_is_refused(
    conn: AsyncConnection, desk: str
) -> None:
    """Bound arguments that it has not, and settings that say nothing."""
    await run_all(
        conn,
        "insert into agent.tool (name, kind, target, bind)"
        " values ('pay', 'sql', 'refund_user', '{\"tiket_id\": \"id\"}')",
    )
    spec = f"name=p, model=fake, tools=[pay], query_as={desk}"
    error = await refused(conn, ATTACH, spec, state="WA011")
    assert 'it has no argument "tiket_id"' in str(error)
    settings = """update agent.tenant set settings = '{"aprove_from": "high"}'"""
    await refused(conn, settings, state="WA010")
