"""What the login of `walagent serve sync` needs, and what it gets if something is missing."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import InsufficientPrivilege

from tests.docs_pages import ROOT, blocks
from tests.faults.rig.servers import own_server
from tests.helpers.database import DEADLINE, run_all
from tests.helpers.shapes import Follower
from tests.helpers.sync_process import SyncProcess, starting, sync_process

TABLE = """
create table support_tickets (id bigint primary key, title text);
insert into support_tickets values (1, 'one');
create table hidden (id bigint primary key);
insert into agent.principal (tenant, name) values ('default', 'ann');
"""
ONE = {'"public"."support_tickets"/"1"': {"id": "1", "title": "one"}}


KINDS = ("sync", "reader", "rows")


def _documented(database: str) -> str:
    """The grants of docs/sync.md, for other names."""
    found = [each.text for each in blocks(ROOT / "docs/sync.md") if "walagent_sync" in each.text]
    text = "".join(found)
    for kind in KINDS:
        text = text.replace(f"walagent_{kind}", f"{kind}_{database}")
    return text


@pytest.fixture
async def login(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    """The logins of the documentation; the process finds the other two in its environment."""
    await run_all(conn, TABLE)
    await conn.execute(
        "insert into agent.token (tenant, principal, digest) values ('default', 'ann', %s)",
        (sha256(b"ann").digest(),),
    )
    names = {kind: f"{kind}_{conn.info.dbname}" for kind in KINDS}
    await run_all(conn, _documented(conn.info.dbname))
    monkeypatch.setenv("DATABASE_REPLICATION_URL", make_conninfo(dsn, user=names["reader"]))
    monkeypatch.setenv("DATABASE_ROWS_URL", make_conninfo(dsn, user=names["rows"]))
    yield make_conninfo(dsn, user=names["sync"])
    for name in names.values():
        await run_all(conn, f"drop owned by {name}; drop role {name}")


@pytest.mark.slow
async def test_the_documented_grants_are_enough(
    conn: AsyncConnection, login: str, tmp_path: Path
) -> None:
    """For open tables and for rows of principals, also after a process was killed."""
    async with sync_process(login, tmp_path) as process:
        client = Follower(process, table="support_tickets")
        await client.until(ONE)
        await run_all(conn, "update support_tickets set title = 'two'")
        await client.until({key: {"id": "1", "title": "two"} for key in ONE})
        named = Follower(process, path="threads", token="ann")
        await named.catch_up()
        refused = await process.get(table="hidden", offset="-1")
        assert refused.status_code == httpx.codes.BAD_REQUEST
        assert "cannot be read" in refused.text
        for question in ("select * from agent.run", "select * from agent.token"):
            async with await AsyncConnection.connect(login) as own:
                with pytest.raises(InsufficientPrivilege):
                    await own.execute(question)
        code, errors = await _stopped(process)
    assert code == 0, errors
    assert "publication.refused" not in errors


@pytest.mark.slow
async def test_without_the_function_it_serves_what_is_published(
    conn: AsyncConnection, login: str, tmp_path: Path
) -> None:
    """Another table is refused at once, and the log has the grant; a grant is noticed."""
    name = conninfo_to_dict(login)["user"]
    function = "function agent_internal.request_tables(text, text[], text[], boolean[], boolean[])"
    await run_all(conn, f"revoke execute on {function} from {name}")
    await run_all(conn, f"grant select on hidden to rows_{conn.info.dbname}")
    await run_all(conn, "alter publication walagent add table support_tickets")
    async with sync_process(login, tmp_path) as process:
        client = Follower(process, table="support_tickets")
        await client.until(ONE)
        await run_all(conn, "update support_tickets set title = 'two'")
        await client.until({key: {"id": "1", "title": "two"} for key in ONE})
        refused = await process.get(table="hidden", offset="-1")
        assert refused.status_code == httpx.codes.SERVICE_UNAVAILABLE
        assert "public.hidden are not sent yet" in refused.text
        said = await process.says("publication.refused")
        assert said["table"] in {"public.hidden", "public.support_tickets"}
        assert "Grant EXECUTE on agent_internal.request_tables" in str(said["hint"])
        await run_all(conn, f"grant execute on {function} to {name}")
        other = Follower(process, table="hidden")
        async with asyncio.timeout(DEADLINE):
            while True:
                try:
                    await other.step()
                    break
                except httpx.HTTPStatusError as error:
                    assert error.response.status_code == httpx.codes.SERVICE_UNAVAILABLE  # noqa: PT017
                    await asyncio.sleep(0.5)


async def _stopped(process: SyncProcess) -> tuple[int, str]:
    process.kill(signal.SIGTERM)
    return await process.ended()


async def _refused(dsn: str, folder: Path, *options: str) -> tuple[int, str]:
    async with starting(dsn, folder, *options) as process:
        return await process.ended()


@pytest.mark.slow
async def test_a_login_that_cannot_replicate_is_refused(
    conn: AsyncConnection, login: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the statement that helps; another login can read the WAL."""
    monkeypatch.delenv("DATABASE_REPLICATION_URL")
    code, errors = await _refused(login, tmp_path)
    assert code == 3, errors
    assert "hint: Grant the right to replicate: ALTER ROLE <login> REPLICATION" in errors
    async with sync_process(login, tmp_path, "--replication-dsn", conn.info.dsn) as process:
        client = Follower(process, table="support_tickets")
        await client.until(ONE)


async def test_a_database_without_walagent_is_refused(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Nothing is changed in it."""
    await run_all(conn, "drop schema agent, agent_internal cascade")
    code, errors = await _refused(dsn, tmp_path)
    assert code == 3, errors
    assert "walagent was removed incompletely" in errors
    assert "uninstall" in errors


async def test_an_address_in_use_is_refused(login: str, tmp_path: Path) -> None:
    """A balancer would not find the process on the next port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, errors = await _refused(login, tmp_path, "--http", f"127.0.0.1:{port}")
    assert code == 2, errors
    assert f"cannot listen on 127.0.0.1 port {port}" in errors


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("settings", "text", "hint"),
    [
        ({"wal_level": "replica"}, "wal_level", "Run ALTER SYSTEM SET wal_level = logical"),
        (
            {"max_replication_slots": "1"},
            'max_replication_slots has 1 left, and the last one is for slot "walagent"',
            "Raise max_replication_slots",
        ),
        (
            {"max_wal_senders": "0"},
            "max_wal_senders",
            "Raise max_replication_slots and max_wal_senders",
        ),
    ],
)
async def test_a_server_that_cannot_replicate_is_refused(
    settings: dict[str, str], text: str, hint: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With the setting, and exit code 3."""
    which = str(request.config.getoption("--server"))
    async with own_server(tmp_path, which, settings=settings) as (server, _):
        code, errors = await _refused(server.dsn, tmp_path)
    assert code == 3, errors
    assert text in errors
    assert f"hint: {hint}" in errors
