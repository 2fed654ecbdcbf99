"""What a SQL tool sets for its transaction changes nothing of what is recorded after it."""

import json

import pytest
from psycopg import AsyncConnection, Error

from tests.helpers.database import DESK, rows, run_all
from tests.integration.own_worker.rig import desk
from tests.integration.runs.test_toolbox import bench
from walagent.errors import WalagentError

SETS = """
create function sets(name text, value text) returns text language plpgsql as $$
begin
    perform set_config(name, value, true);
    return 'set';
end $$;
"""
# Each setting that a role can change, with another value than its present one.
OTHERS = """
select name, case vartype
           when 'bool' then case setting when 'on' then 'off' else 'on' end
           when 'enum' then (select v from unnest(enumvals) v where v <> setting limit 1)
           when 'string' then case name when 'TimeZone' then 'Asia/Tokyo'
                                        when 'DateStyle' then 'German, DMY'
                                        when 'search_path' then 'nowhere' end
           else case when setting = min_val then max_val else min_val end end
  from pg_settings
 where context = 'user' and name !~ '^transaction_' order by name
"""


async def test_no_setting_of_a_tool_reaches_what_is_recorded(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its answer is there, as with no setting."""
    await run_all(conn, DESK + SETS)
    wrong: dict[str, str] = {}
    async with bench(conn, dsn, "tools=[sets], max_steps=1000") as b:
        for name, other in await rows(conn, OTHERS):
            if other is None:
                continue
            try:
                answer = await b.answer("sets", name=name, value=other)
            except (WalagentError, AssertionError) as error:
                answer = f"{type(error).__name__}: {error}"
            if answer != "set":
                wrong[name] = answer
    assert wrong == {}


@pytest.mark.slow
async def test_nor_in_the_session_of_a_worker_of_ones_own(conn: AsyncConnection, dsn: str) -> None:
    """Who the worker is stays known to the end of the call."""
    wrong: dict[str, object] = {}
    async with desk(conn, dsn) as d:
        await run_all(conn, SETS)
        await run_all(
            conn,
            "update agent.agent set tools = tools || '{sets}', max_steps = 1000, max_tokens = null",
        )
        turn = await d.start()
        for name, other in await rows(conn, OTHERS):
            if other is None:
                continue
            given = json.dumps({"name": name, "value": other}).encode()
            try:
                made = await d.call("process_tool_call", turn, "sets", given)
            except Error as error:
                made = str(error)
            if not isinstance(made, dict) or made.get("result") != "set":
                wrong[name] = made
    assert wrong == {}
