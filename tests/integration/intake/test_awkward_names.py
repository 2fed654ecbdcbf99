"""Tables may be called anything, and so may their columns: also what our statements call things."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.domain.change import Change, Op, Relation
from walagent.intake.conditions import Evaluator, open_evaluator
from walagent.matching.match import Match
from walagent.postgres.lsn import Lsn
from walagent.store.attachments import attachment_version
from walagent.store.sessions.tool_connections import ToolConnection
from walagent.store.tool_calls import RowQuestion, can_see, check_reader
from walagent.tools.statements import statement_of, visibility_statement

_TABLE = """
create schema "sch.ema";
create table "sch.ema"."Ta ""ble" (
    t int, "new" int, "old" int, given int, present text, s int, k int, wanted int, whole int,
    n int,
    "we""ird" text, primary key (t, "we""ird"));
insert into agent.model (name, provider, model_id) values ('scripted', 'scripted', 'x');
select agent.attach('"sch.ema"."Ta ""ble"', model => 'scripted', name => 'a',
    condition => 'new.t = 1 and new."new" = 2 and new."we""ird" like ''100%''
                  and new.present is not null',
    writes => '{present,whole}');
"""
_ROW: dict[str, Any] = {
    "t": 1, "new": 2, "old": 3, "given": 4, "present": "p", "s": 5, "k": 6, "wanted": 7, "whole": 8,
    "n": 9, 'we"ird': "100%",
}  # fmt: skip


@pytest.fixture
async def evaluator(conn: AsyncConnection[Any]) -> AsyncIterator[Evaluator]:
    """Evaluates conditions as their roles."""
    async with open_evaluator(conn) as made:
        yield made


async def test_a_condition_reads_columns_of_any_name(
    conn: AsyncConnection[Any], evaluator: Evaluator
) -> None:
    """No column of the table is taken for an alias of the statement, nor the other way round."""
    await conn.execute(_TABLE)
    attachment = await attachment_version(conn, 1, 1)
    assert attachment is not None
    relation = Relation(0, attachment.target.schema, attachment.target.table)
    rows = (_ROW, {**_ROW, "new": 3}, {**_ROW, "present": None})
    matches = [
        Match(attachment, Change(Lsn(1), n, Op.INSERT, relation, row, None), None)
        for n, row in enumerate(rows)
    ]
    kept = await evaluator.evaluate(matches)
    assert kept == [matches[0]]


async def test_a_write_back_finds_a_row_under_any_name(
    conn: AsyncConnection[Any], tools: ToolConnection
) -> None:
    """update_row and the question of sight quote whatever the catalog says."""
    await conn.execute(_TABLE)
    await conn.execute("""insert into "sch.ema"."Ta ""ble" (t, "we""ird") values (1, '100%')""")
    attachment = await attachment_version(conn, 1, 1)
    assert attachment is not None
    tool = attachment.agent.tool("update_row")
    assert tool is not None
    arguments = {"present": "it's", "whole": 5}
    text, parameter = statement_of(tool, attachment.target, arguments, {"new": _ROW})
    await conn.execute(
        "create function run_it(q text, p jsonb) returns jsonb language plpgsql as "
        "$$ declare r jsonb; begin execute q into r using p; return r; end $$"
    )
    cursor = await conn.execute(
        "select run_it(agent_internal.bind_relation(%(text)s, %(table)s, p -> 'key', p ->"
        " 'set'), p)"
        "  from (select %(given)s::jsonb) as g (p)",
        {"text": text, "table": attachment.target.relation_oid, "given": Jsonb(parameter)},
    )
    assert await cursor.fetchone() == ("updated",)
    cursor = await conn.execute('''select present, whole from "sch.ema"."Ta ""ble"''')
    assert await cursor.fetchall() == [("it's", 5)]
    question = visibility_statement(attachment.target, {"new": _ROW})
    assert question is not None
    text, key = question
    row = RowQuestion(attachment.target.relation_oid, None, text, key)
    assert await check_reader(conn, "postgres", row) is False
    assert await can_see(tools, "postgres", row)
