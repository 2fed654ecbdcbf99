"""Questions whose statements run on a hot standby, and are judged on the primary."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.faults.rig.servers import OwnServer, Pair, primary_and_standby
from tests.faults.rig.waiting import fetch
from tests.helpers.database import run_all
from tests.integration.cli.test_ask import ANSWER, COUNT, PLAN, QUESTION
from walagent.ask.answering import open_asker, open_reading
from walagent.ask.asking import Asker
from walagent.ask.options import Options
from walagent.config import AskSettings
from walagent.config.dsn import Places
from walagent.doctor.analyst import check_standby_of_questions
from walagent.doctor.finding import Severity
from walagent.embedded.identity import find_identity
from walagent.errors import (
    ConfigError,
    DatabaseLostError,
    PreconditionError,
    StatementRefusedError,
)
from walagent.message import ModelSpec
from walagent.testing import FakeProvider

ROLE = "analyst"
SHOP = f"""
create table customer (id bigint primary key, country text);
insert into customer select n, case when n % 3 = 0 then 'CH' else 'DE' end
  from generate_series(1, 60) n;
create role {ROLE};
grant usage on schema public to {ROLE};
revoke create on schema public from public;
grant select on customer to {ROLE};
create role ada login;
grant {ROLE} to ada;
select agent.grant_asker('ada');
create table secret (id bigint);
"""
MANY = ", ".join(f"customer c{n}" for n in range(6))
WHERE = "select pg_is_in_recovery()::text as standby"


@dataclass(frozen=True)
class Cluster:
    """A primary with a shop, and its standby."""

    pair: Pair
    conn: AsyncConnection

    def settings(self, dsn: str | None = None) -> AskSettings:
        """Of questions whose statements run on the standby, or on what *dsn* names."""
        return AskSettings(role=ROLE, standby_dsn=dsn or self.standby, connections=2)

    @property
    def places(self) -> Places:
        """The primary, as the login that asks."""
        dsn = make_conninfo(self.pair.primary.dsn, user="ada")
        return Places(dsn, dsn)

    @property
    def standby(self) -> str:
        """The standby, as the same login."""
        return make_conninfo(self.pair.standby.dsn, user="ada")


@pytest.fixture(scope="module")
def which(request: pytest.FixtureRequest) -> str:
    """The server of this session."""
    return str(request.config.getoption("--server"))


@pytest.fixture
async def cluster(tmp_path: Path, which: str) -> AsyncIterator[Cluster]:
    """A primary, its standby, and the shop on them."""
    async with primary_and_standby(tmp_path, which) as (pair, place):
        await run_all(place.conn, SHOP)
        await pair.wait_for_standby(place.conn)
        await _replayed(pair, place.conn)
        yield Cluster(pair, place.conn)


async def _replayed(pair: Pair, conn: AsyncConnection) -> None:
    ((lsn,),) = await fetch(conn, "select pg_current_wal_flush_lsn()::text")
    async with await AsyncConnection.connect(pair.standby.dsn, autocommit=True) as standby:
        while not (await fetch(standby, "select pg_last_wal_replay_lsn() >= %s::pg_lsn", lsn))[0][
            0
        ]:
            pass


@asynccontextmanager
async def answering(cluster: Cluster) -> AsyncIterator[Asker]:
    """An asker whose model plans one statement and answers."""
    async with FakeProvider([PLAN, ANSWER]) as fake:
        spec: ModelSpec = fake.spec("openai")
        async with open_asker(
            cluster.places, cluster.settings(), Options(), model=spec, api_key=fake.key
        ) as asker:
            yield asker


async def test_a_statement_is_judged_on_the_primary_and_runs_on_the_standby(
    cluster: Cluster,
) -> None:
    """With the same role, guard and limits; the question and its steps are on the primary."""
    async with answering(cluster) as asker:
        assert (await asker.query(WHERE)).texts == [("true",)]
        found = await asker.ask(QUESTION, "s")
        assert found.sql == [COUNT]
        assert found.rows.texts == [("CH", "20"), ("DE", "40")]
        answers = "select count(*) from agent.question where answer is not null"
        assert await fetch(cluster.conn, answers) == [(1,)]
        for sql, why in [
            ("delete from customer", "SELECT"),
            ("select pg_sleep(1)", "pg_sleep"),
            ("select * from secret", "permission denied"),
            ("select pg_advisory_lock(1)", "pg_advisory_lock"),
            (f"select count(*) from {MANY}", "cost"),
            ("select nonsense", "nonsense"),
        ]:  # fmt: skip
            with pytest.raises(StatementRefusedError, match=why):
                await asker.query(sql)
        assert (await asker.query("select count(*) from customer")).texts == [("60",)]
    finding = await check_standby_of_questions(cluster.places, cluster.settings())
    assert finding.level is Severity.OK


@pytest.mark.slow
async def test_a_standby_that_went_away_is_connected_to_again(cluster: Cluster) -> None:
    """And so is the primary: both connections of a guard are looked at before it is used."""
    end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
    async with open_reading(cluster.places, cluster.settings()) as reading:
        for server in (cluster.pair.standby, cluster.pair.primary):
            assert (await reading.statements.read(WHERE)).texts == [("true",)]
            async with await AsyncConnection.connect(server.dsn, autocommit=True) as conn:
                assert await fetch(conn, end, "walagent analyst")
        assert (await reading.statements.read(WHERE)).texts == [("true",)]
        await cluster.pair.standby.stop()
        with pytest.raises(DatabaseLostError):
            await reading.statements.read(WHERE)


@pytest.mark.slow
async def test_what_is_no_standby_of_the_database_is_refused(
    cluster: Cluster, tmp_path: Path, which: str
) -> None:
    """The primary, another server's standby, what cannot be read; and a standby as the database."""
    other = OwnServer(tmp_path, which, name="other")
    await other.start()
    async with await AsyncConnection.connect(other.dsn, autocommit=True) as conn:
        await run_all(conn, "create role ada login")
    await other.stop()
    (other.folder / "standby.signal").touch()
    find_identity().chown(other.folder / "standby.signal")
    await other.start()
    try:
        for dsn, why, kind in [
            (cluster.places.dsn, "not a standby", PreconditionError),
            (make_conninfo(other.dsn, user="ada"), "system identifier", PreconditionError),
            ("nonsense", "connection string", ConfigError),
        ]:
            with pytest.raises(kind, match=why):
                await _open(cluster.places, cluster.settings(dsn))
            finding = await check_standby_of_questions(cluster.places, cluster.settings(dsn))
            assert finding.level is Severity.PROBLEM
            assert why in finding.text
    finally:
        await other.stop()
    with pytest.raises(PreconditionError, match="read-only database") as caught:
        await _open(Places(cluster.standby, cluster.standby), AskSettings(role=ROLE))
    assert "ask.standby_dsn" in caught.value.hint


@pytest.mark.slow
async def test_servers_that_cannot_be_compared_are_refused(cluster: Cluster) -> None:
    """With the grant that lets the login compare them."""
    await run_all(cluster.conn, "revoke execute on function pg_control_system() from public")
    await _replayed(cluster.pair, cluster.conn)
    with pytest.raises(PreconditionError, match="cannot compare") as caught:
        await _open(cluster.places, cluster.settings())
    assert "to ada" in caught.value.hint
    await run_all(cluster.conn, "grant execute on function pg_control_system() to ada")
    await _replayed(cluster.pair, cluster.conn)
    await _open(cluster.places, cluster.settings())


async def _open(places: Places, settings: AskSettings) -> None:
    async with open_reading(places, settings):
        pass
