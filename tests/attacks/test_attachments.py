"""A condition is code of its author: nobody else executes it by working with the attachment."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, as_role, refused, role, run_all, until, value
from walagent.apply.apply import apply
from walagent.config import Config
from walagent.config.environment import Environment
from walagent.config.loading import parse_text
from walagent.store import trials
from walagent.trial.session import open_held

SETUP = """
create schema dev;
grant usage on schema dev to public;
create function dev.attack() returns boolean language plpgsql as $$
begin
    if current_user <> 'AUTHOR' then
        raise exception 'ESCAPED to %', current_user using errcode = 'P9999';
    end if;
    return true;
end
$$;
create domain dev.checked as text;
create table dev.t (id int primary key, a text, other text);
grant all on dev.t to AUTHOR;
"""
CHECK = "alter domain dev.checked add check (dev.attack())"
CONDITION = "new.a is not null or '{zz}'::dev.checked[] is not null"
FILE = f"""
agents:
  desk:
    model: fake
    system_prompt: PROMPT
    attach:
      - {{table: dev.t, writes: [a], when: "{CONDITION}", run_as: AUTHOR}}
"""
BY_OTHERS = {
    "pause": "select agent.pause('desk')",
    "resume": "update agent.attachment set paused = true; select agent.resume('desk')",
    "change of another column": "update agent.attachment set cap = 7",
    "change of the columns": "update agent.attachment set columns = '{id,a}'",
    "the same condition": "update agent.attachment set condition = condition, cap = 8",
    "change of the agent": "update agent.agent set system_prompt = 'Other.'",
    "change of the table": "alter table dev.t add more text, drop other;"
    " select agent.pause('desk'); select agent.resume('desk')",
    "a new table of the name": "select agent.pause('desk'); drop table dev.t;"
    " create table dev.t (id int primary key, a text); grant all on dev.t to public;"
    " update agent.attachment set relation = 'dev.t'; select agent.resume('desk')",
    "a restored database": "set session_replication_role = replica;"
    """ update agent.attachment set definition = definition || '{"relation_oid": 1}';"""
    " reset session_replication_role; select agent_internal.adopt_tables()",
    "retry": "insert into agent.run (queue_id, attachment_id, attachment_version, commit_lsn,"
    " ordinal, committed_at, key, change, state, finished_at)"
    " select id, id, version, '0/1', 0, now(), '{\"id\": 1}', '{}', 'failed', now()"
    " from agent.attachment; select agent.retry(id) from agent.run",
}


def config(author: str, prompt: str = "Help.") -> Config:
    """What the file says."""
    return parse_text(
        FILE.replace("AUTHOR", author).replace("PROMPT", prompt), "agents.yaml", Environment({})
    )


@pytest.fixture
async def author(conn: AsyncConnection[Any]) -> AsyncIterator[str]:
    """A developer who has attached an agent with code in its condition."""
    await run_all(conn, DESK)
    async with role(conn) as name:
        await value(conn, "select agent.grant_developer(%s)", name)
        await run_all(conn, SETUP.replace("AUTHOR", name))
        async with as_role(conn, name):
            await conn.execute(
                "select agent.attach('dev.t'::regclass, 'fake', name => 'desk', writes => '{a}',"
                " system_prompt => 'Help.', condition => %s, run_as => %s)",
                [CONDITION, name],
            )
        await run_all(conn, CHECK)  # a condition with such a type would be refused
        yield name


async def test_the_attack_is_one(conn: AsyncConnection[Any], author: str) -> None:
    """Who parses this condition executes the function; so nobody can write it any more."""
    error = await refused(conn, f"select {CONDITION.partition(' or ')[2]}", state="P9999")
    assert author not in str(error)
    changed = "update agent.attachment set condition = condition || ' and true'"
    for who in ("none", author):
        await run_all(conn, f"set role {who}")
        await refused(conn, changed, state="WA012")


@pytest.mark.few(4)
@pytest.mark.parametrize("what", BY_OTHERS)
async def test_an_operator_does_not_execute_the_condition_of_another(
    conn: AsyncConnection[Any], author: str, what: str
) -> None:
    """Whatever is done with the attachment; and the condition stays what it was."""
    query = (
        "select jsonb_build_array(definition -> 'condition', definition -> 'condition_columns',"
        " definition -> 'old_columns', definition -> 'whole_row') from agent.attachment"
    )
    before = await value(conn, query)
    await run_all(conn, BY_OTHERS[what])
    assert await value(conn, query) == before
    async with as_role(conn, author):
        await conn.execute("update agent.attachment set condition = 'new.a is null'")


async def test_an_operator_applies_a_file_without_executing_a_condition(
    conn: AsyncConnection[Any], author: str
) -> None:
    """Unchanged, or with a change beside it."""
    for prompt in ("Help.", "Help soon."):
        await apply(conn, config(author, prompt))
    assert await value(conn, "select version > 1 from agent.attachment")


async def test_a_trial_does_not_execute_the_condition_of_another(
    conn: AsyncConnection[Any], dsn: str, author: str
) -> None:
    """It is copied as it was compiled, and evaluated as the role of the agent."""
    original = await value(conn, "select definition from agent.attachment")
    async with open_held(dsn) as held:
        await trials.begin_trial(held)
        tried = await trials.definition(held, await trials.copy_attachment(held, "desk", {}))
    assert isinstance(original, dict)
    assert tried.trigger.condition == original["condition"]
    assert list(tried.trigger.condition_columns) == original["condition_columns"]


async def test_a_definition_is_not_written_by_hand(conn: AsyncConnection[Any], author: str) -> None:
    """Neither with a new attachment nor with a change."""
    await run_all(conn, "alter domain dev.checked drop constraint checked_check")
    forged = """definition = definition || '{"condition": "dev.attack()"}'"""
    for who in (author, ""):
        await run_all(conn, f"set role {who}" if who else "reset role")
        await run_all(conn, f"update agent.attachment set cap = coalesce(cap, 1) + 1, {forged}")
        found = await value(conn, "select definition ->> 'condition' from agent.attachment")
        assert "attack" not in str(found)


@pytest.mark.usefixtures("author")
async def test_a_server_filter_for_the_condition_of_another_is_refused(
    conn: AsyncConnection[Any],
) -> None:
    """It would have to be compiled."""
    await refused(
        conn, "update agent.attachment set ops = '{insert}', server_filter = true", state="WA012"
    )


async def test_a_broken_condition_that_another_resumed_pauses_again(
    conn: AsyncConnection[Any], dsn: str, author: str
) -> None:
    """Found by the reader, at the first change."""
    async with as_role(conn, author):
        await run_all(conn, "update agent.attachment set condition = $$new.a = 'x'$$")
    async with daemon(conn, dsn, parts=("reader",)):
        await run_all(conn, "select agent.pause('desk')")
        await run_all(conn, "alter table dev.t alter a type int using null")
        await run_all(conn, "select agent.resume('desk')")
        await run_all(conn, "insert into dev.t (id, a) values (1, 2)")
        await until(conn, "select paused from agent.attachment")
    assert "operator" in str(await value(conn, "select paused_reason from agent.attachment"))
