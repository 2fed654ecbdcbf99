"""Who can ask on the console's page, and what the answer rests on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.asked import SCRIPT, analyst
from tests.helpers.database import role, run_all, session, value
from tests.helpers.people import person, token_of
from walagent.config import AskSettings
from walagent.config.dsn import Logins, Places
from walagent.console.questions import PageQuestions
from walagent.console.sessions import exchange, make_code
from walagent.http.exchange import RefusedError
from walagent.http.shares import NOBODY
from walagent.message import Json
from walagent.store.sessions.tool_connections import ensure_login

TICKETS = """
create table ticket (id bigint primary key, category text, owner name);
insert into ticket values (1, 'billing', 'ann'), (2, 'how_to', 'bob'), (3, 'how_to', 'bob');
"""
MODEL = """
insert into agent.model (name, provider, model_id, base_url)
values ('asker', 'scripted', 'asker', %s)
"""
SETUP = "Run walagent database setup, which creates it."
LOGIN = "update agent.principal set login = '{}' where name = '{}'"


@asynccontextmanager
async def served(conn: AsyncConnection, folder: Path) -> AsyncIterator[tuple[str, str]]:
    """A table, a model, an analyst, and the daemon's login: a runner that is no superuser."""
    (folder / "asked.yaml").write_text(SCRIPT)
    await run_all(conn, TICKETS)
    await conn.execute(MODEL, (str(folder / "asked.yaml"),))
    async with analyst(conn) as reader, role(conn) as daemon:
        await run_all(
            conn,
            f"grant usage on schema public to {reader}; grant select on ticket to {reader};"
            f"select agent.grant_runner('{daemon}'); select agent.grant_asker('{daemon}');"
            f"select agent.grant_member('{daemon}'); grant {reader} to {daemon}",
        )
        await ensure_login(conn)
        yield reader, daemon


async def ask(
    dsn: str, daemon: str, reader: str, token: str, question: str = "How many?"
) -> dict[str, Json]:
    """Ask as the page does."""
    user = {"user": daemon} if daemon else {}
    url = make_conninfo(dsn, **user)
    settings = AskSettings(role=reader, connections=1, model="asker")
    questions = PageQuestions(Logins(Places(url, url)), settings)
    async with session(dsn, **user) as acting, acting.transaction():
        await acting.execute("select agent.act_as(%s)", (token,))
        is_own = await questions.check(acting)
    return await questions.answer(question, "console-1", None if is_own else token, NOBODY)


async def refusal(*given: str) -> RefusedError:
    """Return why nothing is asked."""
    with pytest.raises(RefusedError) as refused:
        await ask(*given)
    assert refused.value.status == 403
    return refused.value


async def test_who_has_a_login_that_could_ask_is_answered(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Each precondition is named while it is missing; the question belongs to the principal."""
    ann = await person(conn, "ann")
    async with served(conn, tmp_path) as (reader, daemon), role(conn) as login:
        found = await refusal(dsn, daemon, reader, ann)
        assert "has no login" in str(found)
        await run_all(conn, LOGIN.format(login, "ann"))
        found = await refusal(dsn, daemon, "nobody_reads", ann)
        assert (found.hint, "does not exist" in str(found)) == (SETUP, True)
        found = await refusal(dsn, daemon, reader, ann)
        assert found.hint == f"grant {reader} to {login};"
        await run_all(conn, f"grant {reader} to {login}")
        reading = await token_of(conn, "ann", "read")
        assert "for reading" in str(await refusal(dsn, daemon, reader, reading))
        answer = await ask(dsn, daemon, reader, ann)
        assert (answer["status"], answer["answer"]) == ("answered", "Most tickets are how_to.")
        assert answer["last"] == "categories"
        steps: Any = answer["steps"]
        assert steps[1]["rows"] == [["billing", "1"], ["how_to", "2"]]
        assert await value(conn, "select owner from agent.session") == "ann"
        back = await ask(dsn, daemon, reader, ann, "Which week?")
        assert (back["status"], back["answer"]) == ("clarify", "Which of the two weeks?")
        await run_all(conn, "update agent.principal set login = null")


@pytest.mark.slow
async def test_a_superuser_asks_for_nobody_else(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Row-level security does not apply to it; for its own principal it asks, as in a terminal."""
    ann = await person(conn, "ann")
    async with conn.transaction():
        mine = await exchange(conn, (await make_code(conn)).text)
    async with served(conn, tmp_path) as (reader, _), role(conn) as login:
        await run_all(conn, LOGIN.format(login, "ann") + f"; grant {reader} to {login}")
        assert "row-level security" in str(await refusal(dsn, "", reader, ann))
        assert (await ask(dsn, "", reader, mine))["status"] == "answered"
        await run_all(conn, "update agent.principal set login = null")


@pytest.mark.slow
async def test_a_policy_on_the_login_is_not_given_another_one(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """session_user would be the daemon's; a policy on the principal is answered with its rows."""
    ann = await person(conn, "ann")
    async with served(conn, tmp_path) as (reader, daemon), role(conn) as login:
        await run_all(conn, LOGIN.format(login, "ann") + f"; grant {reader} to {login}")
        await run_all(
            conn,
            "alter table ticket enable row level security;"
            "create policy mine on ticket using (owner = session_user)",
        )
        assert "session_user" in str(await refusal(dsn, daemon, reader, ann))
        await run_all(
            conn,
            "drop policy mine on ticket; create policy mine on ticket"
            " using (owner = 'ann' and current_user <> 'nobody')",
        )
        steps: Any = (await ask(dsn, daemon, reader, ann))["steps"]
        assert steps[1]["rows"] == [["billing", "1"]]
        await run_all(conn, "update agent.principal set login = null")
