"""Very large transactions and values, with a server that has little patience."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.faults.rig.processes import Daemon, FreshDaemon, running
from tests.faults.rig.servers import own_server
from tests.faults.rig.stage import Figure, Place, add_model
from tests.faults.rig.waiting import fetch, until

MB = 1 << 20
KEPT_OF_A_VALUE = 100_000  # characters
SCENE = """
create table wide (body text, kind text not null, id bigint primary key);
alter table wide alter column body set storage external
"""  # the body first: what is large must not crowd out the key that stands behind it
ATTACH = "select agent.attach('wide', %s)"
WANTED = "model=quiet, on=[insert], when=\"new.kind = 'wanted'\""
IDS = "select (change -> 'new' ->> 'id')::bigint from agent.run order by id"
ENDED = "select (select count(*) from agent.run where agent_internal.is_final(state)) >= %s"
STATES = "select distinct state, error ->> 'reason' from agent.run"
STREAMS = "reader.streaming"


@dataclass(frozen=True, slots=True)
class Large:
    """One transaction, and the ids of its rows that match, in their order."""

    statement: str
    wanted: Sequence[int]
    most: int  # bytes that the daemon may need for it beside what it needs anyway
    patience: float = 2.0  # seconds of wal_sender_timeout
    protocol: Literal[1, 2] = 1


ROWS = """
insert into wide
select null, case when n %% %(every)s = 0 then 'wanted' else 'other' end, n
  from generate_series(1, %(rows)s) n
"""
BYTES = """
insert into wide
select repeat(md5(n::text), %(mb)s * 32768), case when n %% 10 = 0 then 'wanted' else 'other' end, n
  from generate_series(1, %(rows)s) n
"""
# Every third one is taken back.
SUBTRANSACTIONS = """
do $$
begin
    for n in 1 .. %(rows)s loop
        begin
            insert into wide
            values (null, case when n %% 100 = 0 then 'wanted' else 'other' end, n);
            if n %% 3 = 0 then raise exception 'back'; end if;
        exception when raise_exception then null;
        end;
    end loop;
end $$
"""


def rows(count: int, *, most: int, protocol: Literal[1, 2] = 1) -> Large:
    """Many small rows, of which a few match."""
    every = count // 100
    statement = ROWS % {"rows": count, "every": every}
    return Large(statement, range(every, count + 1, every), most, protocol=protocol)


def wide_rows(count: int, mb: int, *, most: int, protocol: Literal[1, 2] = 1) -> Large:
    """Rows of some MB each; every tenth matches."""
    statement = BYTES % {"rows": count, "mb": mb}
    return Large(statement, range(10, count + 1, 10), most, protocol=protocol)


def subtransactions(count: int, protocol: Literal[1, 2]) -> Large:
    """One row in each, every third taken back; what matches is every 300th of the others."""
    wanted = [n for n in range(100, count + 1, 100) if n % 3]
    return Large(SUBTRANSACTIONS % {"rows": count}, wanted, most=32 * MB, protocol=protocol)


LARGE = [
    pytest.param(rows(20_000, most=32 * MB), id="20 k rows"),
    pytest.param(wide_rows(60, 1, most=48 * MB), id="60 MB"),
    pytest.param(rows(1_000_000, most=32 * MB), id="1 M rows", marks=pytest.mark.slow),
    pytest.param(wide_rows(1000, 1, most=48 * MB), id="1 GB", marks=pytest.mark.slow),
    pytest.param(
        wide_rows(1000, 1, most=48 * MB, protocol=2), id="1 GB, protocol 2", marks=pytest.mark.slow
    ),
    pytest.param(subtransactions(10_000, 1), id="10 k subtransactions", marks=pytest.mark.slow),
    pytest.param(
        subtransactions(10_000, 2), id="10 k subtransactions, protocol 2", marks=pytest.mark.slow
    ),
]


@pytest.fixture
async def place(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """A server of the test's own, which keeps as much WAL as there is."""
    async with own_server(tmp_path, str(request.config.getoption("--server"))) as (_, place):
        await place.conn.execute("alter system set max_slot_wal_keep_size = -1")
        await place.conn.execute("select pg_reload_conf()")
        await place.conn.execute(SCENE)
        await add_model(place, "quiet", {"replies": ["Noted."]})
        yield place


def daemon_for(place: Place, large: Large) -> Daemon:
    """A daemon whose server has little patience."""
    settings: Mapping[str, Mapping[str, Any]] = {
        "replication": {"sender_timeout": large.patience, "protocol": large.protocol},
        "changes": {"max_value": KEPT_OF_A_VALUE},
    }
    return FreshDaemon(place, settings=settings)


def peak(daemon: Daemon) -> int:
    """The most memory that it has had, in bytes."""
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.scenario(9)
@pytest.mark.parametrize("large", LARGE)
async def test_a_large_transaction_is_ingested_whole_with_little_memory(
    place: Place, figure: Figure, request: pytest.FixtureRequest, large: Large
) -> None:
    """Each row that matches has its run, in the order of the rows, and the server waits for us."""
    with running(daemon_for(place, large)) as daemon:
        await daemon.has_said(STREAMS)
        await place.conn.execute(ATTACH, [WANTED])
        await daemon.has_said("attachment.activated")
        before = daemon.rss
        await place.conn.execute(large.statement.encode())
        took = await until(place.conn, ENDED, len(large.wanted), alive=daemon.is_alive, seconds=200)
        more = peak(daemon) - before
        name = request.node.callspec.id
        figure(f"{name}: memory over what the daemon needs anyway", more / MB, "MB")
        figure(f"{name}: ingested after", took, "s")
        found = [row[0] for row in await fetch(place.conn, IDS)]
        assert found == list(large.wanted)
        assert await fetch(place.conn, STATES) == [("succeeded", None)]
        assert daemon.count(STREAMS) == 1, "the server lost its patience"
        assert more < large.most


CELL = "insert into wide values (repeat(md5('x'), %d * 32768), 'wanted', 7)"
OVER_THE_CELL = 'model=quiet, on=[insert], name=over, when="length(new.body) > 1000000"'
KEPT = """
select key, change -> 'new' ->> 'kind', length(change -> 'new' ->> 'body'),
       (change -> 'truncated' ->> 'body')::bigint, state::text, error ->> 'sqlstate'
  from agent.run order by attachment_id
"""


@pytest.mark.scenario(9)
@pytest.mark.parametrize(
    "mb",
    [
        10,
        pytest.param(200, marks=pytest.mark.slow),
    ],
)
async def test_a_large_value_is_cut_and_the_rest_of_its_row_kept(
    place: Place, figure: Figure, mb: int
) -> None:
    """A run keeps the beginning and the size; a condition sees it whole, or the run is dead."""
    # The value is there four times: as libpq has it, as we took it, as a part of that, as text.
    large = Large(CELL % mb, [7], most=(60 + 4 * mb) * MB, patience=4.0)
    with running(daemon_for(place, large)) as daemon:
        await daemon.has_said(STREAMS)
        await place.conn.execute(ATTACH, [WANTED])
        await place.conn.execute(ATTACH, [OVER_THE_CELL])
        await daemon.has_said("attachment.activated", times=2)
        before = daemon.rss
        await place.conn.execute(large.statement.encode())
        await until(place.conn, ENDED, 2, alive=daemon.is_alive, seconds=120)
        more = peak(daemon) - before
        figure(f"one value of {mb} MB: memory over what the daemon needs anyway", more / MB, "MB")
        kept = ("7", "wanted", KEPT_OF_A_VALUE, mb * MB)
        evaluated = ("succeeded", None) if mb < 16 else ("dead", "54000")
        assert await fetch(place.conn, KEPT) == [(*kept, "succeeded", None), (*kept, *evaluated)]
        assert daemon.count(STREAMS) == 1, "the server lost its patience"
        assert more < large.most
