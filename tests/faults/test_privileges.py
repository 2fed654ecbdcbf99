"""Privileges, roles, passwords and policies change while runs are at work.

What is refused fails or waits, with its SQLSTATE where people look; nothing is ever done with the
rights of the daemon instead.
"""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.faults.rig.health import is_ready, is_unready
from tests.faults.rig.processes import Daemon, free_port, running
from tests.faults.rig.roles import Roles, roles
from tests.faults.rig.servers import own_server
from tests.faults.rig.serving import Serving, serving
from tests.faults.rig.stage import Place, make_ready
from tests.faults.rig.waiting import fetch, until
from walagent.base import faults

pytestmark = pytest.mark.scenario(12)

# The model thinks; it has answered; the answer is stored; before the first, second and third tool.
STAGES = (
    ("model.asking", 0),
    ("model.answered", 0),
    ("step.recorded", 0),
    ("tool.started", 0),
    ("tool.started", 1),
    ("tool.started", 2),
)
WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
OF_ITEM = "from agent.run where (change -> 'new' ->> 'id')::bigint = %s"
RUN = f"select state::text, attempt, error ->> 'sqlstate' {OF_ITEM}"
ENDED = f"select exists (select {OF_ITEM} and agent_internal.is_final(state))"
PAUSED = "select paused from agent.attachment where name = 'item'"
WHY = "select paused_reason from agent.attachment where name = 'item'"
EFFECTS = "select tool, count(*) from effect where item = %s group by 1 order by 1"
ONCE = [("python", 1), ("sql", 1)]
SEEN = "select status from item where id = %s"
IN_EFFECT = "select exists (select from agent.attachment_version where active_from is not null)"
VERSION_2 = """
select exists (select from agent.attachment_version where version = 2 and active_from is not null)
"""
SQLSTATES = f"""
select s.content ->> 'sqlstate'
  from agent.step s join (select id {OF_ITEM}) r on r.id = s.run_id
 where s.content ->> 'is_error' = 'true' order by s.seq
"""


@pytest.fixture
async def r(place: Place) -> AsyncIterator[Roles]:
    """The scene, with a role for each part; attached, with the agent's role for its tools."""
    await make_ready(place, attach="")
    async with roles(place) as made:
        await place.conn.execute(made.attach.encode())
        yield made


@pytest.fixture
async def daemon(r: Roles) -> AsyncIterator[Serving]:
    """The daemon in this process, as the runner and the reader."""
    async with serving(r.place, r.dsn(r.runner), replication_dsn=r.dsn(r.reader)) as made:
        await until(r.place.conn, IN_EFFECT, alive=made.is_alive)
        yield made


def changing(r: Roles, statements: str) -> Callable[[], None]:
    """Change something in the middle of a run: everything here stands still meanwhile."""

    def change() -> None:
        with psycopg.connect(r.place.dsn, autocommit=True) as conn:
            conn.execute(r.named(statements).encode())

    return change


# The agent's role.


async def test_what_the_role_may_not_do_any_more_is_reported_to_the_model(
    r: Roles, daemon: Serving
) -> None:
    """Whenever the privilege goes: the call fails with its SQLSTATE, and the run goes on."""
    conn = r.place.conn
    revoke = changing(r, "revoke insert on effect from {agent}")
    for item, (point, skip) in enumerate(STAGES, 1):
        with faults.armed(point, skip=skip, mode=revoke):
            await conn.execute(WRITE, [item])
            await until(conn, ENDED, item, alive=daemon.is_alive)
        done = {1: [("sql", 1)], 2: ONCE}.get(skip, [])
        assert await fetch(conn, EFFECTS, item) == done, (point, skip)
        states = [state for (state,) in await fetch(conn, SQLSTATES, item)]
        assert states == ["42501"] * (2 - len(done)), (point, skip)
        assert await fetch(conn, RUN, item) == [("succeeded", 1, None)]
        await r.let_agent_act()
    assert await r.wrote() == {r.agent}


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("taken", "given", "sqlstate"),
    [
        ("revoke {agent} from {runner}", "", "42501"),
        ("drop owned by {agent}; drop role {agent}", "create role {agent}", "22023"),
    ],
)
async def test_a_role_that_cannot_be_taken_on_pauses_its_agent(
    r: Roles, daemon: Serving, taken: str, given: str, sqlstate: str
) -> None:
    """Nothing is done as anybody else; the run waits, at no cost, and goes on when it is mended."""
    conn = r.place.conn
    for item, (point, skip) in enumerate(STAGES, 1):
        with faults.armed(point, skip=skip, mode=changing(r, taken)):
            await conn.execute(WRITE, [item])
            await until(conn, PAUSED, alive=daemon.is_alive)
            await until(conn, f"select state = 'pending' {OF_ITEM}", item, alive=daemon.is_alive)
        assert await fetch(conn, RUN, item) == [("pending", 0, sqlstate)], (point, skip)
        ((why,),) = await fetch(conn, WHY)
        # What looks for drift can be first: it sees without a run that the role is gone.
        assert why.endswith("it is used as run_as") or f"(SQLSTATE {sqlstate})" in why
        assert await fetch(conn, EFFECTS, item) == {1: [("sql", 1)], 2: ONCE}.get(skip, [])
        assert await fetch(conn, SQLSTATES, item) == []
        await r.do(given)
        await r.let_agent_act()
        await conn.execute("select agent.resume('item')")
        await until(conn, ENDED, item, alive=daemon.is_alive)
        assert await fetch(conn, RUN, item) == [("succeeded", 1, None)]
        assert await fetch(conn, EFFECTS, item) == ONCE
        assert await fetch(conn, SEEN, item) == [("seen",)]
    assert await r.wrote() == {r.agent}


@pytest.mark.slow
async def test_what_a_role_may_log_in_as_does_not_matter(r: Roles, daemon: Serving) -> None:
    """Tools take the role on; NOLOGIN and settings of its own logins are not about that."""
    await r.do(
        "alter role {agent} nologin; alter role {agent} set default_transaction_read_only = on"
    )
    await r.place.conn.execute(WRITE, [1])
    await until(r.place.conn, ENDED, 1, alive=daemon.is_alive)
    assert await fetch(r.place.conn, EFFECTS, 1) == ONCE


# What a row's policies say.

HIDE = "alter policy mine on item using (note is null or id > 1000)"
LOCK = "alter policy mine on item with check (status <> 'seen')"


@pytest.mark.few(1)
@pytest.mark.parametrize(("policy", "sqlstate"), [(HIDE, "P0002"), (LOCK, "42501")])
async def test_a_changed_policy_applies_to_the_next_call(
    r: Roles, daemon: Serving, policy: str, sqlstate: str
) -> None:
    """The row cannot be seen, or not be written, any more: the model hears of it."""
    conn = r.place.conn
    await r.do(
        "alter table item enable row level security;"
        "create policy mine on item to {agent} using (true) with check (true)"
    )
    for item, (point, skip) in enumerate(STAGES, 1):
        with faults.armed(point, skip=skip, mode=changing(r, policy)):
            await conn.execute(
                "insert into item (id, version, note) values (%s, 1, 'hidden')", [item]
            )
            await until(conn, ENDED, item, alive=daemon.is_alive)
        assert await fetch(conn, SQLSTATES, item) == [(sqlstate,)], (point, skip)
        assert await fetch(conn, SEEN, item) == [("new",)]
        assert await fetch(conn, EFFECTS, item) == ONCE
        await r.do("alter policy mine on item using (true) with check (true)")


@pytest.mark.slow
async def test_row_security_that_comes_after_the_agent_hides_rows_from_it(
    r: Roles, daemon: Serving
) -> None:
    """An attachment is frozen; whom a row may be shown to is not."""
    conn = r.place.conn
    await r.do(
        "alter table item enable row level security;"
        "create policy odd on item to {agent} using (id % 2 = 1)"
    )
    for item in (1, 2):
        await conn.execute(WRITE, [item])
        ended = "select count(*) = %s from agent.run where agent_internal.is_final(state)"
        await until(conn, ended, item, alive=daemon.is_alive)
    assert await fetch(conn, RUN, 1) == [("succeeded", 1, None)]
    hidden = "select state::text, attempt, key, change ->> 'table', change -> 'new', steps from ("
    steps = "select count(*) from agent.step s where s.run_id = r.id"
    assert await fetch(
        conn, f"{hidden}select *, ({steps}) as steps from agent.run r order by id desc limit 1) r"
    ) == [("skipped", 1, None, "item", None, 0)]


@pytest.mark.slow
async def test_a_column_that_the_role_may_not_read_any_more_is_not_shown(
    r: Roles, daemon: Serving
) -> None:
    """Within a second of the REVOKE no run begins: its agent is paused, and no model is asked."""
    conn = r.place.conn
    await conn.execute(WRITE, [1])
    await until(conn, ENDED, 1, alive=daemon.is_alive)
    await r.do("revoke select on item from {agent}; grant select (id, version) on item to {agent}")
    await until(
        conn,
        "select clock_timestamp() > finished_at + interval '1.1 s' from agent.run",
        alive=daemon.is_alive,
    )
    await conn.execute(WRITE, [2])
    await until(conn, PAUSED, alive=daemon.is_alive)
    ((why,),) = await fetch(conn, WHY)
    assert f'role "{r.agent}" lacks SELECT on column "note"' in why
    assert "(SQLSTATE 42501)" in why
    await until(conn, f"select state = 'pending' {OF_ITEM}", 2, alive=daemon.is_alive)
    assert await fetch(conn, RUN, 2) == [("pending", 0, "42501")]
    assert await fetch(conn, "select count(*) from agent.step where run_id > 1") == [(0,)]
    await r.let_agent_act()
    await conn.execute("select agent.resume('item')")
    await until(conn, ENDED, 2, alive=daemon.is_alive)
    assert await fetch(conn, RUN, 2) == [("succeeded", 1, None)]


@pytest.mark.slow
async def test_a_condition_is_judged_as_the_role_or_not_at_all(r: Roles, daemon: Serving) -> None:
    """The stream goes on; changes that nobody may evaluate wait, and are evaluated when it is
    mended.
    """
    conn = r.place.conn
    condition = "update agent.attachment set condition = 'new.id % 2 = 1' where name = 'item'"
    await conn.execute(condition.encode())
    await until(conn, VERSION_2, alive=daemon.is_alive)
    await r.do("revoke {agent} from {runner}")
    await conn.execute("insert into item (id, version) values (1, 1), (2, 1)")
    await until(conn, PAUSED, alive=daemon.is_alive)
    assert "(SQLSTATE 42501)" in (await fetch(conn, WHY))[0][0]
    assert await fetch(conn, "select * from effect") == []
    await r.let_agent_act()
    await conn.execute("select agent.resume('item')")
    await until(conn, ENDED, 1, alive=daemon.is_alive)
    assert await fetch(conn, EFFECTS, 1) == ONCE
    assert await fetch(conn, EFFECTS, 2) == []


# The daemon's own logins.


def process(r: Roles, port: int = 0, **more: str) -> Daemon:
    """The daemon as a process of its own, as runner and reader."""
    settings = {
        "http": {"enabled": bool(port), "port": port or 1},
        "database": {"replication_dsn": r.dsn(r.reader, **more)},
    }
    return Daemon(r.running, settings=settings)


@pytest.mark.parametrize(
    "right",
    [
        # Of a single run, and of several at once.
        "execute on function agent_internal.record_step, agent_internal.record_many",
        pytest.param("usage on schema agent", marks=pytest.mark.slow),
    ],
)
async def test_a_runner_that_loses_its_own_grants_stops_and_leaves_the_run_to_others(
    r: Roles, right: str
) -> None:
    """Exit code 3, with PostgreSQL's words: no run is failed for it, and none is half done."""
    conn = r.place.conn
    with running(process(r)) as daemon:
        await daemon.has_said("attachment.activated")
        await r.do(f"revoke {right} from {{runner}}")
        await conn.execute(WRITE, [1])
        assert await daemon.ended() == 3
        assert "permission denied for" in daemon.said
    assert await fetch(conn, "select * from effect") == []
    assert {state for state, *_ in await fetch(conn, RUN, 1)} <= {"pending", "running"}
    await r.do("select agent.grant_runner('{runner}')")
    with running(process(r)) as daemon:
        await until(conn, ENDED, 1, alive=daemon.is_alive)
    assert [state for state, *_ in await fetch(conn, RUN, 1)] == ["succeeded"]
    assert await fetch(conn, EFFECTS, 1) == ONCE


LOCKED_OUT = {
    "nologin": ("alter role {runner} nologin", "alter role {runner} login", "28000"),
    "limit": (
        "alter role {runner} connection limit 0",
        "alter role {runner} connection limit -1",
        "53300",
    ),
    "no replication": (
        "alter role {reader} noreplication",
        "alter role {reader} replication",
        "42501",
    ),
    "renamed": (
        "alter role {reader} rename to {reader}_2",
        "alter role {reader}_2 rename to {reader}",
        "28000",
    ),
}


@pytest.mark.parametrize(
    "case",
    ["nologin", *(pytest.param(c, marks=pytest.mark.slow) for c in list(LOCKED_OUT)[1:])],
)
async def test_a_login_that_is_refused_is_waited_for(r: Roles, case: str) -> None:
    """Connections that stand go on; when they end, the log and /readyz say why nothing does."""
    conn, port = r.place.conn, free_port()
    taken, given, sqlstate = LOCKED_OUT[case]
    with running(process(r, port)) as daemon:
        await daemon.has_said("attachment.activated")
        await r.do(taken)
        await conn.execute(WRITE, [1])
        await until(conn, ENDED, 1, alive=daemon.is_alive)
        await r.hang_up()
        await is_unready(port, sqlstate)
        await conn.execute(WRITE, [2])
        told = [e for e in daemon.events if sqlstate in str(e.get("error"))]
        assert {e["event"] for e in told} & {"reader.waiting", "worker.waiting"}
        await r.do(given)
        await until(conn, ENDED, 2, alive=daemon.is_alive)
        await is_ready(port)
    for item in (1, 2):
        assert await fetch(conn, EFFECTS, item) == ONCE
    assert await r.wrote() == {r.agent}


# Passwords, on a server that asks for them.

OLD, NEW = "water-under-bridges", "bridges-over-water"
PASSWORDS = "alter role {{runner}} password '{0}'; alter role {{reader}} password '{0}'"


@pytest.fixture
async def guarded(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Roles]:
    """A server of the test's own, which asks for passwords over TCP and has few connections."""
    which = str(request.config.getoption("--server"))
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(free_port()),
        "max_connections": "30",
        "password_encryption": "scram-sha-256",
    }
    async with own_server(tmp_path, which, settings=settings) as (_, place):
        await make_ready(place, attach="")
        async with roles(place) as made:
            await place.conn.execute(made.attach.encode())
            yield made


def by_password(r: Roles, user: str, **more: str) -> str:
    """How a role connects over TCP."""
    return r.dsn(user, host="127.0.0.1", **more)


@pytest.mark.slow
@pytest.mark.parametrize("kept_in", ["a password file", ".env"])
async def test_a_password_is_rotated_under_a_daemon(guarded: Roles, kept_in: str) -> None:
    """What stands goes on; then the old one is refused, and the new one takes no restart."""
    r, conn, port = guarded, guarded.place.conn, free_port()
    await r.do(PASSWORDS.format(OLD))
    write_down(r, kept_in, OLD)
    settings = {"http": {"enabled": True, "port": port}}
    place = replace(r.place, dsn="")  # so that the command line names no login
    with running(Daemon(place, settings=settings, environment=logins(r, kept_in))) as daemon:
        await daemon.has_said("attachment.activated")
        await r.do(PASSWORDS.format(NEW))
        await conn.execute(WRITE, [1])
        await until(conn, ENDED, 1, alive=daemon.is_alive)
        await r.hang_up()
        await is_unready(port, "28P01")
        await conn.execute(WRITE, [2])
        assert any("28P01" in str(event.get("error")) for event in daemon.events)
        write_down(r, kept_in, NEW)
        if kept_in == ".env":
            daemon.signal(signal.SIGHUP)
            await daemon.has_said("credentials.changed")
        await until(conn, ENDED, 2, alive=daemon.is_alive)
        await is_ready(port)
        assert OLD not in daemon.said
        assert NEW not in daemon.said
    for item in (1, 2):
        assert await fetch(conn, EFFECTS, item) == ONCE


def write_down(r: Roles, kept_in: str, password: str) -> None:
    """Keep a password where the daemon is to find it."""
    if kept_in == ".env":
        lines = {
            "DATABASE_URL": by_password(r, r.runner, password=password),
            "DATABASE_REPLICATION_URL": by_password(r, r.reader, password=password),
        }
        text = "".join(f'{name}="{value}"\n' for name, value in lines.items())
        (r.place.folder / ".env").write_text(text)
        return
    path = r.place.folder / "passwords"
    path.write_text(f"*:*:*:*:{password}\n")
    path.chmod(0o600)


def logins(r: Roles, kept_in: str) -> dict[str, str]:
    """The variables that the daemon is started with."""
    if kept_in == ".env":
        return {}
    passwords = str(r.place.folder / "passwords")
    return {
        "DATABASE_URL": by_password(r, r.runner, passfile=passwords),
        "DATABASE_REPLICATION_URL": by_password(r, r.reader, passfile=passwords),
    }


@pytest.mark.slow
async def test_a_daemon_that_was_never_let_in_ends(guarded: Roles) -> None:
    """At the start nobody is there yet who could be served by waiting: exit code 3, and why."""
    r = guarded
    await r.do(PASSWORDS.format(OLD))
    variables = {"DATABASE_URL": by_password(r, r.runner, password=NEW)}
    with running(Daemon(replace(r.place, dsn=""), environment=variables)) as daemon:
        assert await daemon.ended() == 3
        assert "(SQLSTATE 28P01)" in daemon.said
        assert "hint:" in daemon.said


@pytest.mark.slow
async def test_a_server_without_room_is_waited_for(guarded: Roles) -> None:
    """All places but the superuser's are taken while we come back; then some are given up."""
    r, conn, port = guarded, guarded.place.conn, free_port()
    with running(process(r, port)) as daemon:
        await daemon.has_said("attachment.activated")
        daemon.signal(signal.SIGSTOP)
        await r.hang_up()
        async with AsyncExitStack() as crowd:
            await fill_up(r, crowd)
            daemon.signal(signal.SIGCONT)
            await is_unready(port, "53300")
            await conn.execute(WRITE, [1])
            assert any("53300" in str(event.get("error")) for event in daemon.events)
        await until(conn, ENDED, 1, alive=daemon.is_alive)
        await is_ready(port)
    assert await fetch(conn, EFFECTS, 1) == ONCE


async def fill_up(r: Roles, crowd: AsyncExitStack) -> None:
    """Connect until there is no place left for an ordinary login."""
    await r.do("create role crowd login")
    dsn = make_conninfo(r.place.dsn, user="crowd")
    for _ in range(100):
        try:
            await crowd.enter_async_context(await AsyncConnection.connect(dsn))
        except psycopg.OperationalError:
            return
    raise AssertionError("there is no end of places")
