"""The daemon as it is started: from an empty database to a worked row, and its exit codes."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.faults.rig.processes import free_port
from tests.integration.cli.user import AGENTS, DESK, PATIENCE, User, empty_database, until
from tests.servers import SETTINGS
from walagent.embedded.server import EmbeddedServer

SCRIPT = {"replies": [{"call": "update_row", "arguments": {"status": "seen"}}, "Done."]}


@pytest.fixture
def empty(server: str) -> Iterator[str]:
    """A database without our schema."""
    with empty_database(server) as dsn:
        yield dsn


@pytest.fixture
def user(empty: str, tmp_path: Path) -> User:
    """Somebody with a support desk, and a file whose model follows a script."""
    with psycopg.connect(empty) as conn:
        conn.execute(DESK)
    user = User(tmp_path, empty)
    user.writes(json.dumps(SCRIPT), "script.json")
    user.writes(
        AGENTS.replace("gpt-4o", "script")
        + f"\nmodels:\n  script: {{provider: scripted, base_url: {tmp_path}/script.json}}\n"
        + "http: {enabled: false}\nlog: {format: json}\n"
    )
    return user


@pytest.mark.slow
def test_from_an_empty_database_to_a_worked_row(user: User, empty: str) -> None:
    """init, run, insert: the file is applied, the row is worked, SIGTERM ends it with 0."""
    user.types("init").worked()
    with user.starts("run") as daemon, psycopg.connect(empty, autocommit=True) as conn:
        daemon.says('"attachment.activated"')
        conn.execute("insert into support_tickets (customer, issue) values ('a', 'b')")
        assert until(conn, "select nullif(status, 'open') from support_tickets") == "seen"
        until(conn, "select state = 'succeeded' from agent.run")
        assert daemon.ends(signal.SIGTERM) == 0
    (run,) = user.types("runs", "list", "--json").worked().json
    assert run["state"] == "succeeded"
    assert user.types("wal", "check").worked().out == ""
    assert "Traceback" not in daemon.log.read_text()


@pytest.mark.slow
def test_a_worker_works_what_another_process_took_in(user: User, empty: str) -> None:
    """It needs no slot of its own."""
    user.types("init").worked()
    user.types("apply").worked()
    change = '{"op": "insert", "schema": "public", "table": "support_tickets", "new": {"id": 1}}'
    with user.starts("serve", "worker") as worker, psycopg.connect(empty, autocommit=True) as conn:
        conn.execute("insert into support_tickets (customer, issue) values ('a', 'b')")
        conn.execute(
            "insert into agent.run"
            " (reason, queue_id, attachment_id, attachment_version, change, key)"
            " select 'manual', id, id, version, %s::jsonb, '1' from agent.attachment",
            [change],
        )
        until(conn, "select state = 'succeeded' from agent.run")
        assert worker.ends(signal.SIGTERM) == 0


def pids(conn: psycopg.Connection, count: int) -> list[int]:
    """The processes that have registered a worker, once there are so many."""
    until(conn, f"select count(*) = {count} from agent.worker")
    names = conn.execute("select name from agent.worker order by name").fetchall()
    return [int(name.split("-")[-2]) for (name,) in names]


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def until_ended(*processes: int) -> None:
    """Wait for processes that are not ours."""
    deadline = time.monotonic() + PATIENCE
    while any(map(is_alive, processes)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_several_processes_start_and_stop_as_one(user: User, empty: str, tmp_path: Path) -> None:
    """Each works; systemd hears one READY, and of a reload one; SIGTERM ends all with 0."""
    user.types("init").worked()
    user.types("apply").worked()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "systemd"))
        systemd.settimeout(PATIENCE)

        def heard() -> str:
            while (message := systemd.recv(4096).decode()).startswith(("STATUS=", "WATCHDOG=")):
                pass
            return message.split("\n", maxsplit=1)[0]

        started = user.starts(
            "serve", "worker", "--processes", "3", NOTIFY_SOCKET=f"{tmp_path}/systemd"
        )
        with started as parent, psycopg.connect(empty, autocommit=True) as conn:
            assert heard() == "READY=1"
            children = pids(conn, 3)
            assert len(set(children)) == 3
            assert parent.process.pid not in children
            parent.process.send_signal(signal.SIGHUP)
            assert [heard(), heard()] == ["RELOADING=1", "READY=1"]
            assert parent.ends(signal.SIGTERM) == 0
            assert heard() == "STOPPING=1"
            assert conn.execute("select count(*) from agent.worker").fetchone() == (0,)
    assert not any(map(is_alive, children))


@pytest.mark.slow
def test_if_one_process_is_killed_all_of_them_end(user: User, empty: str) -> None:
    """The exit code tells that something was wrong, so that the service is started again."""
    user.types("init").worked()
    started = user.starts("serve", "worker", "--processes", "2")
    with started as parent, psycopg.connect(empty, autocommit=True) as conn:
        killed, other = pids(conn, 2)
        os.kill(killed, signal.SIGKILL)
        assert parent.ends() == 128 + signal.SIGKILL
        assert '"process.ended"' in parent.log.read_text()
        assert not is_alive(other)


@pytest.mark.slow
def test_processes_end_with_their_parent(user: User, empty: str) -> None:
    """Also if it was killed and could not stop them."""
    user.types("init").worked()
    started = user.starts("serve", "worker", "--processes", "2")
    with started as parent, psycopg.connect(empty, autocommit=True) as conn:
        children = pids(conn, 2)
        parent.ends(signal.SIGKILL)
        until_ended(*children)


def test_several_processes_need_a_database(tmp_path: Path) -> None:
    """An embedded server ends with the process that has started it."""
    ended = User(tmp_path, None).types("serve", "worker", "--processes", "2")
    assert (ended.code, "--processes" in ended.err) == (2, True)


@pytest.mark.slow
def test_a_reload_applies_the_file_again(user: User, empty: str) -> None:
    """SIGHUP, and the next version is in effect; a wrong file changes nothing and stops nothing."""
    user.types("init").worked()
    path = user.folder / "agents.yaml"
    text = path.read_text()
    with user.starts("run") as daemon, psycopg.connect(empty, autocommit=True) as conn:
        daemon.says('"attachment.activated"')
        path.write_text(text.replace("a support bot", "a desk"))
        daemon.process.send_signal(signal.SIGHUP)
        until(conn, "select version = 2 from agent.attachment")
        path.write_text("agnets: {}")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.says('"config.refused"')
        assert daemon.ends(signal.SIGTERM) == 0


def test_a_check_of_the_file_connects_to_nothing(user: User) -> None:
    """0 for a valid file, 2 for an invalid one."""
    nowhere = ("--dsn", "host=127.0.0.1 port=1")
    user.types("run", "--check", *nowhere).worked()
    user.writes("workers: {slts: 1}")
    refused = user.types("run", "--check", *nowhere)
    assert refused.code == 2
    assert refused.err.startswith('walagent: agents.yaml:1: unknown key "workers.slts"')


def test_a_named_file_wins_over_the_folders(user: User) -> None:
    """By option or by variable."""
    user.writes("log: {level: loud}", "other.yaml")
    assert user.types("run", "--check", "--config", "other.yaml").code == 2
    assert user.types("run", "--check", WALAGENT_CONFIG="other.yaml").code == 2
    refused = user.types("run", "--check", "--config", "none.yaml")
    assert (refused.code, "none.yaml" in refused.err) == (2, True)


@pytest.mark.slow
def test_an_env_file_names_the_database(user: User, empty: str) -> None:
    """For the connection as for ${NAME} in the file."""
    other = User(user.folder, None)
    other.writes(f"DATABASE_URL='{empty}'\nLEVEL=debug\n", ".env")
    other.writes("log: {level: '${LEVEL}'}\n")
    other.types("init").worked()
    assert other.types("runs", "list", "--json").worked().json == []


@pytest.mark.slow
def test_a_lost_slot_stops_the_daemon_until_a_person_has_acted(user: User, empty: str) -> None:
    """Exit 3, a recorded gap, and the way out."""
    user.types("init").worked()
    user.types("wal", "drop-slot", "--yes").worked()
    stopped = user.types("run")
    assert stopped.code == 3
    assert "Traceback" not in stopped.err
    assert len(user.types("wal", "gaps", "--json").json) == 1
    user.types("init", "--new-slot").worked()
    assert user.types("wal", "gaps", "--json").json == []
    with user.starts("run") as daemon:
        daemon.says('"reader.streaming"')
        assert daemon.ends(signal.SIGINT) == 0


@pytest.mark.slow
def test_an_older_schema_stops_the_daemon(user: User, empty: str) -> None:
    """A database that others look after is not upgraded by a restart."""
    user.types("init").worked()
    with psycopg.connect(empty) as conn:
        conn.execute(
            "delete from agent_internal.migration where name = (select max(name) from"
            " agent_internal.migration)"
        )
    for command in ("run", "worker"):
        stopped = user.types(command)
        assert stopped.code == 3
        assert "walagent database migrate" in stopped.err


def test_a_daemon_waits_for_a_database_that_is_not_there(user: User) -> None:
    """Whoever starts it would only start it again.  A command gives up at once: exit 1."""
    nowhere = ("--dsn", "host=127.0.0.1 port=1")
    for command in ("run", "worker"):
        with user.starts(command, *nowhere) as daemon:
            daemon.says('"daemon.waiting"')
            assert daemon.ends(signal.SIGTERM) == -signal.SIGTERM
    ended = user.types("runs", *nowhere)
    assert ended.code == 1
    assert ended.err.startswith("walagent: cannot connect")
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("command", [("run",), ("serve", "worker"), ("serve", "sync")])
def test_probes_are_answered_before_the_database_is_there(
    user: User, command: tuple[str, ...]
) -> None:
    """A platform kills what does not answer: the daemon would start again for as long."""
    nowhere = ("--dsn", "host=127.0.0.1 port=1 user=secretive")
    port = free_port()
    with user.starts(*command, *nowhere, "--http", f"127.0.0.1:{port}") as daemon:
        daemon.says('"http.listening"')
        with urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
            assert json.load(answer) == {"status": "alive"}
        with pytest.raises(HTTPError) as unready:
            urlopen(f"http://127.0.0.1:{port}/readyz")
        with unready.value as answer:
            reasons = json.load(answer)["reasons"]
        assert unready.value.code == HTTPStatus.SERVICE_UNAVAILABLE
        assert reasons[0].startswith("the database is not reached: ")
        assert "secretive" not in str(reasons)


@pytest.mark.slow
def test_init_says_whom_a_slot_waits_for(user: User, empty: str) -> None:
    """A forgotten transaction would otherwise look like a hang."""
    user.types("database", "migrate").worked()
    with psycopg.connect(empty, application_name="forgetful") as busy:
        busy.execute("insert into support_tickets (customer, issue) values ('a', 'b')")
        with user.starts("init") as init:
            init.says(f"PID {busy.info.backend_pid} (forgetful)")
            busy.commit()
            assert init.ends() == 0


@pytest.mark.slow
def test_init_does_no_harm_beside_a_daemon(user: User) -> None:
    """An active slot is valid."""
    user.types("init").worked()
    with user.starts("run") as daemon:
        daemon.says('"reader.streaming"')
        assert user.types("init").worked().err.count("\n") == 1
        refused = user.types("init", "--new-slot")
        assert refused.code == 1
        assert "Stop the process that reads it" in refused.err
        assert user.types("wal", "drop-slot", "--yes").code == 1
        assert daemon.ends(signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_slot_of_another_database_is_left_alone(user: User, empty: str) -> None:
    """Where it is named: the error names the option, which the daemon also takes."""
    slot = conninfo_to_dict(empty)["dbname"]
    user.types("init").worked()
    with empty_database(empty) as other:
        refused = user.types("init", "--dsn", other, "--slot", "walagent")
        assert refused.code == 3
        assert "belongs to database" in refused.err
        assert "--slot NAME" in refused.err
        with psycopg.connect(other) as conn:
            assert conn.execute("select count(*) from agent.checkpoint").fetchone() == (0,)
        for command in (("init", "--new-slot"), ("wal", "drop-slot", "--yes")):
            named = (*command, "--dsn", other, "--slot", "walagent")
            assert user.types(*named).code == 3, "it drops the slot of another"
        assert "slot walagent;" in user.types("init").worked().err
        name = f"{slot}_2"
        assert f"slot {name};" in user.types("init", "--dsn", other, "--slot", name).worked().err
        options = ("--dsn", other, "--slot", name)
        with user.starts("run", *options, "--http", "off", "--no-apply") as daemon:
            daemon.says(f'"slot": "{name}"')
            assert daemon.ends(signal.SIGTERM) == 0
        assert user.types("init", "--slot", "no-slot").code == 2
        user.types("wal", "drop-slot", "--yes", "--dsn", other, "--slot", name).worked()


@pytest.mark.parametrize("address", ["70000", "localhost", "host:port", "[::1]:99999"])
def test_an_address_for_http_is_checked_before_anything_starts(user: User, address: str) -> None:
    """A port has 16 bits, as in the file."""
    refused = user.types("run", "--http", address)
    assert refused.code == 2
    assert "use PORT (0 to 65535)" in " ".join(refused.err.split())


@pytest.mark.slow
def test_init_changes_nothing_on_a_server_without_logical_wal(tmp_path: Path) -> None:
    """And says what to do, or how to go without."""
    server = EmbeddedServer(tmp_path / "pg", settings=SETTINGS | {"wal_level": "replica"})
    asyncio.run(server.start())
    try:
        user = User(tmp_path, server.dsn())
        refused = user.types("init")
        assert refused.code == 3
        assert "setup --no-slot" in refused.err
        with psycopg.connect(server.dsn()) as conn:
            there = "select to_regnamespace('agent') is null"
            assert conn.execute(there).fetchone() == (True,)
    finally:
        asyncio.run(server.stop())


@pytest.mark.slow
def test_a_slot_is_dropped_only_when_somebody_says_so(user: User, empty: str) -> None:
    """No answer is no."""
    user.types("init").worked()
    assert user.types("wal", "drop-slot", stdin="n\n").code == 1
    with psycopg.connect(empty) as conn:
        there = "select count(*) from pg_replication_slots where database = current_database()"
        assert conn.execute(there).fetchone() == (1,)
        conn.commit()
        user.types("wal", "drop-slot", stdin="y\n").worked()
        assert conn.execute(there).fetchone() == (0,)
