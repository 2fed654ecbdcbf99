"""`walagent threads` and `walagent threads talk`: what people do with threads from a terminal."""

import asyncio
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.daemon import daemon
from tests.helpers.database import role, rows, run_all, session, value
from tests.integration.cli.terminal import CTRL_D, at_terminal
from tests.integration.cli.user import User
from walagent.cli.threads.talk import Conversation
from walagent.models.script import call
from walagent.store.people import threads

AGENT = """
insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake');
insert into agent.agent (name, model) values ('sarah', 'fake');
select agent.attach_to_threads('sarah');
"""


def test_a_thread_from_the_command_line(dsn: str, tmp_path: Path) -> None:
    """Each verb has an effect, and --json says what."""
    user = User(tmp_path, dsn)
    with psycopg.connect(dsn) as conn:
        conn.execute(AGENT.encode())
    key = str(uuid4())
    opened = user.types("threads", "open", "Talk", "sarah", "--id", key, "--json").worked()
    assert opened.json == {"id": key}
    again = user.types("threads", "open", "Talk", "sarah", "--id", key).worked()
    assert again.out.strip() == key
    posted = user.types("threads", "post", key, "Hello!", "--json").worked()
    assert posted.json == {"thread": key, "number": 2}
    (listed,) = user.types("threads", "list", "--json").worked().json
    assert (listed["title"], listed["events"], len(listed["members"])) == ("Talk", 2, 2)
    members = user.types("threads", "members", key, "--json").worked().json
    kinds = {(one["kind"], one["role"]) for one in members}
    assert kinds == {("user", "owner"), ("agent", "member")}
    for verb in ("pause", "resume", "complete", "resume", "archive", "resume"):
        user.types("threads", verb, key).worked()
    user.types("threads", "rename", key, "Other").worked()
    user.types("threads", "remove", key, "sarah").worked()
    user.types("threads", "add", key, "sarah").worked()
    user.types("threads", "inject", key, "Be brief.", "--kind", "system").worked()
    shown = user.types("threads", "show", key).worked().out
    assert "Other" in shown
    assert ": Hello!" in shown
    assert "sarah left" in shown
    user.types("threads", "leave", key).worked()
    assert user.types("threads", "post", key, "Psst").code != 0
    assert user.types("threads", "show", str(uuid4())).code != 0


@pytest.mark.slow
async def test_two_people_talk_with_an_agent(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Each has a terminal of its own, and sees what the others say."""
    await run_all(conn, AGENT)
    async with role(conn) as ann, role(conn) as bob, daemon(conn, dsn, ["Welcome!"]) as d:
        for name in (ann, bob):
            await run_all(conn, f"select agent.grant_member('{name}')")
        first = User(tmp_path, make_conninfo(dsn, user=ann))
        second = User(tmp_path, make_conninfo(dsn, user=bob))
        said = await asyncio.to_thread(
            first.types, "talk", "--agent", "sarah", stdin="Hi, I am Ann.\n"
        )
        assert "sarah: Welcome!" in said.worked().out
        ((thread,),) = await rows(conn, "select id::text from agent.thread")
        answered = await asyncio.to_thread(
            second.types, "talk", thread, stdin="/members\nHi, I am Bob.\n"
        )
        lines = answered.worked().out.splitlines()
        assert lines.count("sarah: Welcome!") == 2
        assert f"{ann}: Hi, I am Ann." in lines
        assert f"* {bob} joined" in lines
        assert "sarah (agent, member)" in answered.err
        d.check()


@pytest.mark.slow
async def test_a_call_is_approved_in_the_conversation(
    conn: AsyncConnection, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is shown with its arguments; y approves it."""
    await run_all(
        conn,
        """
insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake');
create table noted (what text);
create function note(what text) returns void language sql as
$$ insert into noted values ($1) $$;
insert into agent.agent (name, model, tools) values ('sarah', 'fake', '{note}');
select agent.attach_to_threads('sarah', approve => '{note}');
""",
    )
    async with role(conn) as ann, daemon(conn, dsn, [call("note", what="x"), "Noted."]) as d:
        await run_all(
            conn, f"select agent.grant_member('{ann}'); select agent.grant_approver('{ann}')"
        )
        async with session(dsn, user=ann) as own:
            talk = Conversation(as_json=False)
            given = {"title": "Talk", "members": ["sarah"]}
            talk.thread = await threads.call(own, "open_thread", given)
            await talk.take(own, "Note x.")
            await d.until("select exists (select from agent.approval where state = 'pending')")
            await talk.look(own)
            assert "note(what=x); approve? y/n" in capsys.readouterr().err
            await talk.take(own, "y")  # typed while the call appeared
            assert "has just been shown" in capsys.readouterr().err
            assert not await value(conn, "select exists (select from noted)")
            await asyncio.sleep(0.5)
            await talk.take(own, "y")
            await d.until("select exists (select from noted)")
            await d.until("select count(*) = 1 from agent.run where state = 'succeeded'")
            await talk.look(own)
            printed = capsys.readouterr()
            assert "sarah: Noted." in printed.out
            assert f"{ann} approved note" in printed.err


CALLS = """
insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake');
create table noted (what text);
create function note(what text) returns void language sql as
$$ insert into noted values ($1) $$;
insert into agent.agent (name, model, tools)
select name, 'fake', '{note}' from unnest('{sarah,jerry}'::text[]) as name;
select agent.attach_to_threads(name, approve => '{note}') from agent.agent;
"""


@pytest.mark.slow
async def test_one_call_at_a_time_is_asked_about(
    conn: AsyncConnection, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two that wait, y decides the one on the last line, not another one."""
    await run_all(conn, CALLS)
    async with role(conn) as ann, daemon(conn, dsn, [call("note", what="x"), "Noted."]) as d:
        await run_all(
            conn, f"select agent.grant_member('{ann}'); select agent.grant_approver('{ann}')"
        )
        async with session(dsn, user=ann) as own:
            talk = Conversation(as_json=False)
            given = {"title": "Talk", "members": ["sarah", "jerry"]}
            talk.thread = await threads.call(own, "open_thread", given)
            await talk.take(own, "Note x.")
            await d.until("select count(*) = 2 from agent.approval where state = 'pending'")
            await talk.look(own)
            assert capsys.readouterr().err.count("approve? y/n") == 1
            await asyncio.sleep(0.5)
            await talk.take(own, "n")
            await talk.look(own)
            printed = capsys.readouterr().err
            assert f"{ann} rejected note" in printed
            assert printed.count("approve? y/n") == 1
            await asyncio.sleep(0.5)
            await talk.take(own, "y")
            await d.until("select exists (select from noted)")
    assert await rows(conn, "select state::text from agent.approval order by id") == [
        ("rejected",),
        ("approved",),
    ]


@pytest.mark.slow
async def test_a_call_that_waits_for_somebody_else_holds_nobody(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """At the end of the input, on a pipe and by Ctrl-D, the conversation ends."""
    await run_all(conn, CALLS)
    async with role(conn) as ann, daemon(conn, dsn, [call("note", what="x"), "Noted."]) as d:
        await run_all(
            conn, f"select agent.grant_member('{ann}'); select agent.grant_viewer('{ann}')"
        )
        user = User(tmp_path, make_conninfo(dsn, user=ann))
        said = await asyncio.to_thread(user.types, "talk", "--agent", "sarah", stdin="Note x.\n")
        assert "note(what=x); approve? y/n" in said.worked().err
        ((thread,),) = await rows(conn, "select id::text from agent.thread")
        with at_terminal(user, "talk", thread) as terminal:
            await asyncio.to_thread(terminal.shows, "approve? y/n")
            terminal.types(CTRL_D)
            assert await asyncio.to_thread(terminal.ends) == 0
        d.check()


@pytest.mark.slow
async def test_a_question_is_answered_in_the_conversation(
    conn: AsyncConnection, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next line with /answer is what the model receives."""
    await run_all(
        conn,
        """
insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake');
insert into agent.agent (name, model, tools) values ('sarah', 'fake', '{ask_human}');
select agent.attach_to_threads('sarah');
""",
    )
    script = [call("ask_human", question="Which color?"), "Blue it is."]
    async with role(conn) as ann, daemon(conn, dsn, script) as d:
        await run_all(
            conn, f"select agent.grant_member('{ann}'); select agent.grant_approver('{ann}')"
        )
        async with session(dsn, user=ann) as own:
            talk = Conversation(as_json=False)
            given = {"title": "Talk", "members": ["sarah"]}
            talk.thread = await threads.call(own, "open_thread", given)
            await talk.take(own, "Paint it.")
            await d.until("select exists (select from agent.approval where state = 'pending')")
            await talk.look(own)
            assert "sarah asks: Which color?" in capsys.readouterr().err
            await asyncio.sleep(0.5)
            await talk.take(own, "/answer Blue.")
            await d.until("select count(*) = 1 from agent.run where state = 'succeeded'")
    assert (
        await value(conn, "select content ->> 'content' from agent.step where kind = 'result'")
        == "Blue."
    )
