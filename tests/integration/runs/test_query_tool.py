"""The tool `query`: SQL that a model writes, as a role that can read and nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import orjson
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    column,
    message_of,
    refused,
    role,
    rows,
    run_all,
    value,
)
from tests.helpers.queue import add_runs
from walagent.apply.apply import apply
from walagent.config import Config
from walagent.errors import ConfigError, StatementRefusedError
from walagent.guard.role import check_role
from walagent.guard.statement import read_statement
from walagent.message import Json, ToolResult
from walagent.models import build_model
from walagent.models.script import Answer
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.rows.rows import ResultColumn, Rows
from walagent.runs.tools.query_tool import as_json
from walagent.testing import FakeProvider, call

SALES = """
create table sale (id int primary key, shop text not null, amount numeric(8, 2));
insert into sale
select n, case when n % 2 = 0 then 'north' else 'south' end, n from generate_series(1, 1500) n;
create table written (x int);
create function spoil() returns int language sql as 'insert into written values (1) returning x';
alter table sale enable row level security;
create policy own_shop on sale for select using (shop = 'north');
"""
TOTAL = "select shop, count(*) as n, sum(amount) as total from sale group by 1"


@asynccontextmanager
async def analyst(conn: AsyncConnection) -> AsyncIterator[str]:
    """The stage, and a role that may read it."""
    await run_all(conn, DESK + SALES + "revoke create on schema public from public;")
    async with role(conn, "nologin") as name:
        await run_all(
            conn,
            f"grant usage on schema public to {name};"
            f"grant select on support_tickets, sale, written to {name}",
        )
        yield name


async def queue(conn: AsyncConnection, spec: str) -> None:
    """Attach, and put one run into the queue."""
    await run_all(conn, "insert into support_tickets (id, issue) values (1, 'x')")
    attached = await attach(conn, spec)
    await add_runs(conn, attached, "1", change={"op": "insert", "new": {"id": 1, "issue": "x"}})
    await run_all(conn, "notify walagent_runs")


def answers(model: ScriptedModel) -> list[ToolResult]:
    """What the model was told of its calls, in order."""
    parts = [part for message in model.requests[-1].messages for part in message.parts]
    return [part for part in parts if isinstance(part, ToolResult)]


async def asked(d: Daemon, model: ScriptedModel, spec: str) -> list[ToolResult]:
    """Let one run happen; give what its model was told."""
    await queue(d.conn, spec)
    await d.ended()
    return answers(model)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_a_model_reads_with_sql_of_its_own(
    conn: AsyncConnection, dsn: str, provider: str
) -> None:
    """Over the real SDK: rows as JSON, what row level security hides stays hidden, one step."""
    async with (
        analyst(conn) as name,
        FakeProvider([call("query", sql=TOTAL), "Twice."]) as fake,
    ):
        model = build_model(fake.spec(provider), environ=fake.environ)
        async with daemon(
            conn, dsn, {"fake": cast("ScriptedModel", model)}, parts=("worker",)
        ) as d:
            await queue(conn, f"tools=[query], query_as={name}")
            assert await d.ended() == [("0", "succeeded", "Twice.", None)]
        await model.aclose()
        (_, result, _) = await column(conn, "select content from agent.step order by seq")
        assert orjson.loads(result["content"]) == {
            "columns": ["shop", "n", "total"],
            "rows": [["north", 750, "563250.00"]],
        }
        assert '[["north",750,"563250.00"]]' in str(fake.received[-1].body)
        assert await column(conn, "select kind from agent.step order by seq") == [
            "reply",
            "result",
            "reply",
        ]
    assert await rows(conn, "select * from agent.broken_invariant") == []


HOSTILE = [
    "delete from sale",
    "select spoil()",
    "with gone as (delete from sale returning 1) select * from gone",
    "select 1; insert into written values (1)",
    "select set_config('role', 'postgres', false)",
    "select pg_sleep(60)",
    "select * from agent_internal.secret",
    "select * from sale for update",
    "copy sale to '/tmp/x'",
    "select pg_read_file('/etc/passwd')",
    "reset role",
]


@pytest.mark.slow
async def test_a_hostile_statement_is_refused_and_reported_to_the_model(
    conn: AsyncConnection, dsn: str
) -> None:
    """Nothing happens, the run goes on, and the next call reads as the role, too."""
    last = "select current_user, session_user = current_user"
    script: list[Answer] = [call("query", sql=sql) for sql in (*HOSTILE, last)]
    model = ScriptedModel([*script, "done"])
    async with (
        analyst(conn) as name,
        daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d,
    ):
        told_it = await asked(d, model, f"tools=[query], query_as={name}")
        assert [each.is_error for each in told_it] == [True] * len(HOSTILE) + [False]
        assert orjson.loads(told_it[-1].content)["rows"] == [[name, False]]
        assert "volatile" in told_it[4].content
        assert "permission denied for schema agent_internal (SQLSTATE 42501" in told_it[6].content
        assert await value(conn, "select count(*) from written") == 0
        assert await value(conn, "select count(*) from sale") == 1500
        assert await d.runs() == [("0", "succeeded", "done", None)]


async def test_an_error_says_its_sqlstate_and_quotes_no_row(
    conn: AsyncConnection, dsn: str
) -> None:
    """A cast that fails would show a value; the planner's own words name only what was written."""
    script = [
        call("query", sql="select shop::int from sale"),
        call("query", sql="select nothing from sale"),
        call("query", sql="select amount from support_tickets_x"),
        "done",
    ]
    model = ScriptedModel(script)
    async with (
        analyst(conn) as name,
        daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d,
    ):
        cast_, unknown, missing = await asked(d, model, f"tools=[query], query_as={name}")
    assert cast_.content == "invalid text representation (SQLSTATE 22P02)"
    assert 'column "nothing" does not exist (SQLSTATE 42703, at character 8)' in unknown.content
    assert "(SQLSTATE 42P01" in missing.content


async def test_a_keyword_that_stands_for_a_table_is_refused_with_words(
    conn: AsyncConnection, dsn: str
) -> None:
    """Unquoted, it is the name of the role: one row, whatever the table has."""
    model = ScriptedModel([call("query", sql="select count(*) from User"), "done"])
    async with (
        analyst(conn) as name,
        daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d,
    ):
        await run_all(conn, 'create table "User" (id int)')
        (told,) = await asked(d, model, f"tools=[query], query_as={name}")
    assert told.is_error
    assert told.content.startswith("user is a keyword, not a table; the table is ")


async def test_an_answer_is_cut_between_rows_and_says_so(conn: AsyncConnection, dsn: str) -> None:
    """A thousand rows, 60 kB, 4,000 characters of a value: valid JSON all the same."""
    script = [
        call("query", sql="select n from generate_series(1, 5000) n"),
        call("query", sql="select n, repeat('x', 1000) from generate_series(1, 200) n"),
        call("query", sql="select repeat('x', 5000) as long"),
        "done",
    ]
    model = ScriptedModel(script)
    async with (
        analyst(conn) as name,
        daemon(conn, dsn, {"fake": model}, parts=("worker",)) as d,
    ):
        results = await asked(d, model, f"tools=[query], query_as={name}")
    many, large, long = (orjson.loads(each.content) for each in results)
    assert (len(many["rows"]), many["cut"]) == (1000, ["only the first 1,000 rows"])
    assert 0 < len(large["rows"]) < 200
    assert large["cut"] == [f"only the first {len(large['rows'])} rows are shown; they are large"]
    assert all(len(each.content) <= 60_100 for each in results)
    assert long["cut"] == ["long values of long"]


async def test_a_role_that_could_write_cannot_be_attached(conn: AsyncConnection) -> None:
    """Refused by its name, and by what it could do; so is one that is not there, or not yours."""
    async with analyst(conn) as name, role(conn, "nologin") as ada:
        await run_all(conn, f"grant insert on written to {name}")
        spec = f"model=fake, tools=[query], query_as={name}"
        attaching = "select agent.attach('support_tickets', %s)"
        error = await refused(conn, attaching, spec, state="WA011")
        assert f'role "{name}" must be read-only' in message_of(error)
        assert "write to public.written" in message_of(error)
        message = message_of(error)
        assert f"revoke insert, update, delete, truncate on public.written from {name}" in message
        await run_all(conn, f"revoke insert on written from {name}")
        error = await refused(conn, attaching, "model=fake, tools=[query]", state="WA011")
        assert 'role "walagent_analyst" does not exist' in message_of(error)
        me = await value(conn, "select current_user")
        error = await refused(
            conn, attaching, f'model=fake, tools=[query], query_as="{me}"', state="WA011"
        )
        assert f"{me} has SUPERUSER" in message_of(error)
        await run_all(
            conn,
            f"select agent.grant_developer('{ada}'); grant select on support_tickets to {ada}",
        )
        async with as_role(conn, ada):
            error = await refused(conn, attaching, spec, state="42501")
            assert f'must be a member of role "{name}"' in message_of(error)
        await run_all(conn, f"grant {name} to {ada}")
        async with as_role(conn, ada):
            await value(conn, attaching, spec)
        await run_all(conn, "select agent.detach(name) from agent.attachment")


async def test_a_file_names_the_role_once(conn: AsyncConnection) -> None:
    """`ask.role` is what the tool reads as, unless the attachment says otherwise."""
    async with analyst(conn) as name, role(conn, "nologin") as other:
        document: dict[str, Json] = {
            "ask": {"role": name},
            "agents": {
                "a": {
                    "model": "fake",
                    "tools": ["query"],
                    "attach": [
                        {"table": "support_tickets", "name": "plain"},
                        {"table": "support_tickets", "name": "own", "query_as": other},
                    ],
                }
            },
        }
        async with conn.transaction():
            await apply(conn, Config.model_validate(document))
        frozen = "select name, definition -> 'tools' -> 0 ->> 'role' from agent.attachment"
        assert dict(await rows(conn, frozen)) == {"plain": name, "own": other}
        async with conn.transaction():
            assert await apply(conn, Config.model_validate(document)) == []
        document["ask"] = {"role": "walagent_other"}
        with pytest.raises(ConfigError, match=r'plain: .*role "walagent_other" does not exist'):
            async with conn.transaction():
                await apply(conn, Config.model_validate(document))
        await run_all(conn, "select agent.detach(name) from agent.attachment")


@pytest.mark.few(1)
@pytest.mark.parametrize("lost", ["it may write", "it is not ours", "it is gone"])
async def test_a_role_that_lost_its_innocence_pauses_the_attachment(
    conn: AsyncConnection, dsn: str, lost: str
) -> None:
    """Nothing is read as anybody else; a person mends it, and the run goes on where it was."""
    model = ScriptedModel([call("query", sql="select count(*) from sale"), "done"])
    async with (
        analyst(conn) as name,
        role(conn, "login replication") as runner,
        role(conn, "nologin") as app,
    ):
        await value(conn, "select agent.grant_runner(%s)", runner)
        await run_all(
            conn, f"grant {name}, {app} to {runner}; grant select on support_tickets to {app}"
        )
        break_it, mend_it, why = {
            "it may write": (
                f"grant update (x) on written to {name}",
                f"revoke update (x) on written from {name}",
                "write to public.written",
            ),
            "it is not ours": (
                f"revoke {name} from {runner}",
                f"grant {name} to {runner}",
                f'cannot set role "{name}": permission denied',
            ),
            "it is gone": (
                f"alter role {name} rename to {name}_gone",
                f"alter role {name}_gone rename to {name}",
                f'cannot set role "{name}": role "{name}" does not exist',
            ),
        }[lost]
        login = make_conninfo(dsn, user=runner)
        async with daemon(conn, dsn, {"fake": model}, parts=("worker",), login=login) as d:
            await run_all(conn, "insert into support_tickets (id, issue) values (1, 'x')")
            attached = await attach(conn, f"tools=[query], query_as={name}, run_as={app}")
            await run_all(conn, break_it)
            await add_runs(
                conn, attached, "1", change={"op": "insert", "new": {"id": 1, "issue": "x"}}
            )
            await run_all(conn, "notify walagent_runs")
            await d.until("select coalesce(bool_and(paused), false) from agent.attachment")
            paused = await value(conn, "select paused_reason from agent.attachment")
            assert why in paused, paused
            await run_all(conn, mend_it)
            await run_all(conn, "select agent.resume(name) from agent.attachment")
            assert (await d.ended())[0][1:3] == ("succeeded", "done")
    assert orjson.loads(answers(model)[0].content)["rows"] == [[750]]


async def test_both_ways_of_asking_about_a_role_agree(conn: AsyncConnection) -> None:
    """What refuses a role at an attach is what refuses it at a start."""
    grants = [
        "",
        "grant insert on written to {0}",
        "grant update (x) on written to {0}",
        "grant create on schema public to {0}",
        "create sequence s; grant usage on sequence s to {0}",
        "alter table written owner to {0}",
        "grant pg_write_all_data to {0}",
        "alter role {0} createdb",
        "alter role {0} bypassrls",
    ]
    async with analyst(conn):
        for grant in grants:
            async with role(conn, "nologin") as name:
                await run_all(conn, grant.format(name))
                async with as_role(conn, name):
                    try:
                        await check_role(conn)
                        reasons: Json = ""
                    except Exception as error:  # noqa: BLE001 - its words are compared
                        reasons = str(error).replace(" written", " public.written")
                        reasons = reasons.replace("sequence s", "sequence public.s")
                asked_by_name = await value(
                    conn,
                    "select coalesce(string_agg(reason, '; '), '')"
                    " from (select reason from agent_internal.writing_rights(%s) limit 3) w",
                    name,
                )
                assert asked_by_name == reasons, grant
                assert bool(reasons) == bool(grant)
                await run_all(
                    conn, "drop sequence if exists s; alter table written owner to current_user"
                )


def test_values_are_exact_and_json_is_json() -> None:
    """Whole numbers and truth are JSON's own; a number with a fraction stays as printed."""
    columns = [
        ResultColumn("a", 20),
        ResultColumn("b", 16),
        ResultColumn("c", 1700),
        ResultColumn('d"', 25),
    ]
    found = Rows(columns, [("9223372036854775807", "t", "1.10", 'x"y'), (None, "f", None, "")])
    assert orjson.loads(as_json(found)) == {
        "columns": ["a", "b", "c", 'd"'],
        "rows": [[9223372036854775807, True, "1.10", 'x"y'], [None, False, None, ""]],
    }


def test_half_a_character_is_refused() -> None:
    """It cannot be sent, and is no reason to try again."""
    with pytest.raises(StatementRefusedError, match="unpaired surrogate"):
        read_statement("select '\ud800'")
