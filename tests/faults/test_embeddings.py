"""Daemons that are killed while rows are embedded: each row ends with the embedding of its text."""

import signal
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.stage import CREDENTIAL, Place
from tests.faults.rig.waiting import fetch, until
from walagent.testing import FakeProvider
from walagent.testing.fake_embeddings import vector_of

ROWS = 700  # more than a backfill reads at once
TABLE = """
create table docs (id bigint primary key, title text, embedding real[]);
alter table docs replica identity full;
insert into docs select n, 'text ' || n from generate_series(1, {}) n;
insert into agent.model (name, provider, model_id, base_url, credential, dimensions)
values ('small', 'openai', 'small', '{}', '{}', 8);
select agent.embed('docs', '{{title}}', 'embedding', 'small');
"""
IN_STEP = """
select not exists (select from agent.backfill where finished_at is null)
   and not exists (select from agent.run where not agent_internal.is_final(state))
   and not exists (select from docs where embedding is null)
"""
CHANGE = """
update docs set title = title || ' changed' where id % 7 = 0;
insert into docs select n, 'new ' || n from generate_series(10001, 10020) n;
"""


async def stale(conn: AsyncConnection[Any]) -> list[int]:
    """Return the keys of rows whose embedding is not that of their text."""
    found = await fetch(conn, "select id, title, embedding from docs order by id")
    return [
        key
        for key, text, vector in found
        if vector is None or [round(each, 6) for each in vector] != vector_of(text)
    ]


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("model.answered", 60),
        pytest.param("step.recorded", 40, marks=pytest.mark.slow),
        pytest.param("tool.started", 80, marks=pytest.mark.slow),
        pytest.param("tool.committed", 80, marks=pytest.mark.slow),
        pytest.param("run.committed", 20, marks=pytest.mark.slow),
    ],
)
async def test_kill_9_in_a_backfill_leaves_no_row_out_and_none_stale(
    place: Place, point: str, nth: int
) -> None:
    """Rows change before the next daemon; what was written is written once for each run."""
    async with FakeProvider(latency=0.02) as fake:
        url = f"http://127.0.0.1:{fake.port}/v1"
        await place.conn.execute(TABLE.format(ROWS, url, CREDENTIAL).encode())
        with running(Daemon(place, failpoint=f"{point}:{nth}:kill")) as daemon:
            assert await daemon.ended() == -signal.SIGKILL
        left = await fetch(place.conn, "select count(*) from docs where embedding is null")
        assert left[0][0] > 0  # it was killed before the end
        await place.conn.execute(CHANGE.encode())
        with running(Daemon(place)) as daemon:
            await until(place.conn, IN_STEP, alive=daemon.is_alive)
    assert await stale(place.conn) == []
    assert await fetch(place.conn, "select * from agent.broken_invariant") == []
    twice = (
        "select run_id from agent.step where kind = 'result' group by run_id having count(*) > 1"
    )
    assert await fetch(place.conn, twice) == []
    done = "select state, rows_done, (select count(*) from agent.run) >= runs from agent.backfill"
    ((state, rows_done, _),) = await fetch(place.conn, done)
    assert state == "done"
    assert rows_done >= ROWS


async def test_a_process_that_is_killed_at_any_moment_is_made_up_for(place: Place) -> None:
    """Three times, as the rows are embedded."""
    async with FakeProvider(latency=0.02) as fake:
        url = f"http://127.0.0.1:{fake.port}/v1"
        await place.conn.execute(TABLE.format(ROWS, url, CREDENTIAL).encode())
        for share in (4, 2):
            with running(Daemon(place)) as daemon:
                some = f"select count(embedding) > {ROWS // share} from docs"
                await until(place.conn, some, alive=daemon.is_alive)
                await place.conn.execute("update docs set title = title || 'x' where id % 5 = 0")
                daemon.kill()
        with running(Daemon(place)) as daemon:
            await until(place.conn, IN_STEP, alive=daemon.is_alive)
    assert await stale(place.conn) == []
