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


@pytest.mark.parametrize("way", ["post", "mail", "page"])
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
