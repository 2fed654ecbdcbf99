"""Removal, dropped schemas and new installations in any order: the hints never lead in a circle."""

import random
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.integration.cli.user import DESK, Ended, User, empty_database, programs_of
from walagent.store.install.removal import CREATED

OURS = """
select (select count(*) from pg_namespace where nspname ~ '^agent')
       + (select count(*) from pg_publication)
       + (select count(*) from pg_replication_slots where database = current_database())
       + (select count(*) from pg_roles r, pg_database d where d.datname = current_database()
           and r.rolname in ('walagent_tools_' || d.oid, 'walagent_rows_' || d.oid,
                             'walagent_console_' || d.oid))
"""
ATTACH = """
insert into agent.model (name, provider, model_id) values ('m', 'scripted', 'm') on conflict do nothing;
select agent.attach('support_tickets', 'model=m, name=support')
 where not exists (select from agent.attachment)
"""  # noqa: E501 - a statement
STATEMENTS = {
    "drop agent": "drop schema if exists agent cascade",
    "drop internal": "drop schema if exists agent_internal cascade",
    "drop both": "drop schema if exists agent, agent_internal cascade",
    "drop all": "drop schema if exists agent, agent_internal, agent_call, agent_signed cascade",
    "drop table": "drop table if exists agent.checkpoint cascade",
    "drop function": "drop function if exists agent.pause(text, text)",
    "drop publications": "drop publication if exists walagent, walagent_inserts",
    "attach": ATTACH,
}
COMMANDS = ("init", "init --slot SLOT", "database migrate", "wal drop-slot --yes",
            "database uninstall --yes", "run")  # fmt: skip
# What a hint or a fix says to type.
TYPED = re.compile(
    r"walagent (database uninstall|database migrate|wal resync|wal drop-slot --slot \w+"
    r"|database adopt --(?:moved|copy)|init --new-slot|init)"
    r"|\brun (drop (?:schema \w+ cascade|publication \w+))"
)
# A dump goes into another database, as to another server or a copy for tests.
RESTORES = {"restore": (), "restore as one role": ("--no-owner", "--no-privileges")}
ASKS = ("database uninstall", "wal drop-slot", "wal resync")
PATIENCE = 8  # commands that somebody types before giving up


@pytest.fixture
def user(server: str, tmp_path: Path) -> Iterator[User]:
    """Somebody with a table in a database of their own."""
    with empty_database(server) as dsn:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(DESK)
        yield User(tmp_path, dsn)


def value(user: User, query: str) -> object:
    """Ask the database."""
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        row = conn.execute(query.encode()).fetchone()
    return row and row[0]


def restored(user: User, options: tuple[str, ...], target: str) -> User:
    """Move a user into a copy of the database."""
    dump, tool = user.folder / "dump", programs_of(target)
    subprocess.run([tool / "pg_dump", "-Fc", "-f", dump, user.dsn or ""], check=True)
    load = [tool / "pg_restore", *options, "-d", target, dump]
    done = subprocess.run(load, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return replace(user, dsn=target)


def types(user: User, command: str) -> Ended:
    """Type a command; to what asks, say yes.  A statement is typed into psql."""
    if command.startswith("drop "):
        with psycopg.connect(user.dsn or "", autocommit=True) as conn:
            conn.execute(command.encode())
        return Ended(1, "", "run walagent init")
    words = shlex.split(command)
    if command.startswith(ASKS) and "--yes" not in words:
        words.append("--yes")
    if command.startswith("wal resync"):
        words += ["--default", "skip"]
    return user.types(*words)


def runs(user: User) -> Ended:
    """Start the daemon; once it reads the WAL, end it."""
    with user.starts("run", "--http", "off") as daemon:
        try:
            daemon.says('"reader.streaming"')
        except AssertionError as error:
            return Ended(daemon.ends(), "", str(error))
        return Ended(daemon.ends(signal.SIGTERM), "", "")


def hints_of(ended: Ended) -> list[str]:
    """The commands that somebody is told to type, in their order."""
    return [found[1] or found[2] for found in TYPED.finditer(ended.err + ended.out)]


def works(user: User, log: list[str]) -> None:
    """Type `walagent init` and what it says, until a daemon reads the WAL."""
    command = "init"
    for _ in range(PATIENCE):
        ended = runs(user) if command == "run" else types(user, command)
        log.append(f"$ {command}  [{ended.code}] {ended.err[-300:]}")
        if command == "run" and ended.code == 0:
            break
        hints = hints_of(ended) if ended.code else ["run"]
        command = hints[0] if hints else "init"
    else:
        pytest.fail("\n".join(log))
    problems = [line for line in types(user, "doctor").out.splitlines() if line.startswith("XX")]
    assert [line for line in problems if "models:" not in line] == [], log


def is_removed(user: User, log: list[str]) -> None:
    """Type `walagent database uninstall` and what it says, until nothing of walagent is left."""
    commands = ["database uninstall"]
    for _ in range(PATIENCE):
        if not commands:
            break
        ended = types(user, commands[0])
        log.append(f"$ {commands[0]}  [{ended.code}] {ended.err[-300:]}")
        commands = commands[1:] + [each for each in hints_of(ended) if "drop-slot" in each]
    assert value(user, OURS) == 0, log


@pytest.mark.slow
def test_each_database_of_a_server_has_a_slot_of_its_own(server: str, tmp_path: Path) -> None:
    """Nobody has to name it: the second database takes another name, and every command knows it."""
    with empty_database(server) as first, empty_database(server) as second:
        users = [User(tmp_path, first), User(tmp_path, second)]
        for each in users:
            with psycopg.connect(each.dsn or "", autocommit=True) as conn:
                conn.execute(DESK)
            each.types("init").worked()
            with psycopg.connect(each.dsn or "", autocommit=True) as conn:
                conn.execute(ATTACH.encode())
                conn.execute("insert into support_tickets (customer, issue) values ('a', 'b')")
        slot = str(value(users[1], "select slot from agent.checkpoint"))
        assert slot == f"walagent_{value(users[1], 'select current_database()')}"
        for command in ("status", "doctor", "why support_tickets 1"):
            said = users[1].types(*command.split()).out
            assert "belongs to database" not in said
            assert "no WAL was read yet" not in said
        assert slot in users[1].types("status").out
        dropped = users[1].types("database", "uninstall", "--yes").worked()
        assert f"slot {slot}\n" in dropped.out
        assert value(users[0], "select slot from agent.checkpoint") == "walagent"


@pytest.mark.slow
def test_a_named_slot_is_known_without_naming_it_again(user: User) -> None:
    """It is in agent.checkpoint."""
    slot = f"crm_{uuid4().hex[:8]}"
    user.types("init", "--slot", slot).worked()
    assert slot in user.types("status").out
    user.types("init").worked()
    assert value(user, "select count(*) from agent.checkpoint") == 1
    with user.starts("run", "--http", "off") as daemon:
        assert f'"slot": "{slot}"' in daemon.says('"reader.streaming"')
        daemon.ends(signal.SIGTERM)
    assert f"dropped slot {slot}" in user.types("wal", "drop-slot", "--yes").worked().err


def test_a_schema_of_others_is_not_removed(user: User) -> None:
    """Somebody can have a schema called agent."""
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute("create schema agent create table agent.smith (id int)")
    assert "did not create it" in user.types("init").err
    assert "nothing of walagent" in user.types("database", "uninstall", "--yes").err
    assert value(user, "select count(*) from agent.smith") == 0


@pytest.mark.slow
def test_the_console_of_another_database_keeps_its_role(user: User) -> None:
    """Its name has the OID of that database, which may just have been dropped."""
    other = "walagent_console_1"
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        conn.execute(f"create role {other}; comment on role {other} is '{CREATED}'".encode())
        try:
            assert "nothing of walagent" in user.types("database", "uninstall", "--yes").err
            user.types("init").worked()
            assert other not in user.types("database", "uninstall", "--yes").worked().out
        finally:
            conn.execute(f"drop role {other}".encode())


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 40))]
)
def test_hints_followed_literally_end_in_a_working_or_an_empty_database(
    server: str, user: User, seed: int
) -> None:
    """Whatever was done in whatever order, also in a copy that was restored from a dump."""
    with ExitStack() as stack:
        ends_well(server, user, stack, random.Random(seed))


def ends_well(server: str, user: User, stack: ExitStack, chance: random.Random) -> None:
    """Do some of all, then follow what is said."""
    slot = f"other_{uuid4().hex[:8]}"
    log = list[str]()
    for _ in range(5):
        done = chance.choice([*COMMANDS, *STATEMENTS, *RESTORES])
        if done in RESTORES:
            target = stack.enter_context(empty_database(server))
            user = restored(user, RESTORES[done], target)
            log.append(f"-- {done}")
        elif done in STATEMENTS:
            with psycopg.connect(user.dsn or "", autocommit=True) as conn:
                try:
                    conn.execute(STATEMENTS[done].encode())
                except psycopg.Error as error:
                    done += f": {error}"
            log.append(f"-- {done}")
        else:
            ended = runs(user) if done == "run" else types(user, done.replace("SLOT", slot))
            log.append(f"$ {done}  [{ended.code}] {ended.err[-300:]}")
            assert "Traceback" not in ended.err, log
    if chance.random() < 0.7:
        works(user, log)
    is_removed(user, log)
