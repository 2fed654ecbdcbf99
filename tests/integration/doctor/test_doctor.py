"""`walagent doctor`: finds what stands in the way, and names the statement that mends it."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from tests.helpers.database import run_all
from tests.integration.cli.user import AGENTS, DESK, User, empty_database
from walagent.config import AskSettings, Config, Replication
from walagent.doctor.analyst import check_analyst
from walagent.doctor.finding import Finding, Severity
from walagent.doctor.replication import check_keepers, check_slot, check_standby
from walagent.doctor.server import check_server
from walagent.postgres.lsn import Lsn
from walagent.store.checkpoint import Checkpoint
from walagent.store.install.server_facts import ServerFacts, WalKeeper, wal_keepers
from walagent.store.sessions.connections import connect
from walagent.wal.slots import SlotState

GOOD = ServerFacts(
    version=180006, database="app", role="walagent", in_recovery=False, wal_level="logical",
    max_slots=10, slots=1, max_senders=10, senders=1, keep_megabytes=1024,
    plugin_libraries="pgoutput, test_decoding", idle_timeout=0, max_connections=100, clock=0.0,
    superuser=False, migrated=True,
)  # fmt: skip
SLOT = SlotState("walagent", "pgoutput", "app", 7, Lsn(10), Lsn(5), "reserved", "", 1000)
LEDGER = Checkpoint("walagent", 1, 1, "1", 1, "pgoutput", Lsn(9), Lsn(10))
WAL2JSON = Config(replication=Replication(plugin="wal2json"))


def bad(findings: Iterator[Finding]) -> list[tuple[Severity, str]]:
    """Leave out what is in order."""
    return [
        (each.level, each.text + each.fix) for each in findings if each.level is not Severity.OK
    ]


def test_nothing_is_found_where_all_is_well() -> None:
    """A doctor who always finds something is not listened to."""
    assert bad(check_server(GOOD, Config(), SLOT, 0.1)) == []
    assert bad(check_slot(Config(), "app", SLOT, LEDGER)) == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (replace(GOOD, wal_level="replica"), "alter system set wal_level = logical"),
        (replace(GOOD, version=140012), "PostgreSQL 14.12 is not supported"),
        (replace(GOOD, slots=10), "max_replication_slots = 20"),
        (replace(GOOD, senders=10), "max_wal_senders = 20"),
        (replace(GOOD, synchronous_names="2 (s1, *)"), "synchronous_standby_names = 'standby1'"),
        (replace(GOOD, synchronous_names="walagent sync"), "a synchronous standby"),
        (
            replace(GOOD, plugin_libraries="test_decoding"),
            'output plugin "pgoutput"',
        ),
    ],
)
def test_a_server_that_is_not_set_up_is_a_problem(facts: ServerFacts, said: str) -> None:
    """With the statement that sets it up."""
    ((level, text),) = bad(check_server(facts, Config(), None, 0.0))
    assert level is Severity.PROBLEM
    assert said in text


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (replace(GOOD, keep_megabytes=-1), "alter system set max_slot_wal_keep_size"),
        (replace(GOOD, idle_timeout=60), "idle_replication_slot_timeout"),
        (replace(GOOD, max_connections=20), "connections"),
        (replace(GOOD, in_recovery=True), "standby"),
    ],
)
def test_what_can_go_wrong_later_is_a_warning(facts: ServerFacts, said: str) -> None:
    """It works today."""
    ((level, text),) = bad(check_server(facts, Config(), SLOT, 0.0))
    assert level is Severity.WARNING
    assert said in text


def test_our_own_slot_needs_no_room() -> None:
    """All are taken, one of them by us."""
    full = replace(GOOD, slots=10, senders=10)
    assert bad(check_server(full, Config(), SLOT, 0.0)) == []


def test_a_clock_that_is_off_is_reported_with_its_direction() -> None:
    """Log lines of two machines would not fit together."""
    ((_, ahead),) = bad(check_server(GOOD, Config(), SLOT, 90.0))
    ((_, behind),) = bad(check_server(GOOD, Config(), SLOT, -90.0))
    assert "90 s ahead" in ahead
    assert "90 s behind" in behind


def test_a_slot_that_nears_its_limit_is_reported_before_it_is_lost() -> None:
    """Half of max_slot_wal_keep_size is early enough."""
    near = replace(SLOT, retained=600 << 20)
    assert any("retains 600 MB" in text for _, text in bad(check_server(GOOD, Config(), near, 0.0)))


def test_wal2json_must_be_allowed_where_servers_ask() -> None:
    """And where they do not know the setting, it is."""
    refused = bad(check_server(GOOD, WAL2JSON, SLOT, 0.0))
    older = bad(check_server(replace(GOOD, plugin_libraries=""), WAL2JSON, SLOT, 0.0))
    assert [level for level, _ in refused] == [Severity.PROBLEM, Severity.WARNING]
    assert [level for level, _ in older] == [Severity.WARNING]


@pytest.mark.parametrize(
    ("slot", "checkpoint", "level", "said"),
    [
        (None, None, Severity.WARNING, 'slot "walagent" does not exist yet'),
        (None, LEDGER, Severity.PROBLEM, "does not exist"),
        (replace(SLOT, wal_status="lost"), LEDGER, Severity.PROBLEM, "is invalidated"),
        (replace(SLOT, invalidated="idle_timeout"), LEDGER, Severity.PROBLEM, "idle_timeout"),
        (replace(SLOT, database="other"), None, Severity.PROBLEM, 'database "other"'),
        (replace(SLOT, plugin="wal2json"), LEDGER, Severity.PROBLEM, 'plugin "wal2json"'),
        (replace(SLOT, confirmed=Lsn(11)), LEDGER, Severity.PROBLEM, "ahead of the checkpoint"),
        (replace(SLOT, active_pid=None), LEDGER, Severity.WARNING, "not active"),
        (replace(SLOT, wal_status="extended"), LEDGER, Severity.WARNING, "is behind"),
    ],
)
def test_a_slot_is_judged_against_the_checkpoint(
    slot: SlotState | None, checkpoint: Checkpoint | None, level: Severity, said: str
) -> None:
    """What was lost is a problem; what is only late is a warning."""
    ((found, text),) = bad(check_slot(Config(), "app", slot, checkpoint))
    assert found is level
    assert said in text


COPY = replace(SLOT, active_pid=None, failover=True, synced=True)


@pytest.mark.parametrize(
    ("slot", "level", "said"),
    [
        (COPY, Severity.OK, "can be promoted without a gap"),
        (replace(COPY, temporary=True), Severity.PROBLEM, "still temporary"),
        (replace(COPY, invalidated="wal_removed"), Severity.PROBLEM, "invalidated (wal_removed)"),
        (replace(COPY, synced=False), Severity.PROBLEM, "has no copy of slot"),
        (None, Severity.PROBLEM, "has no copy of slot"),
    ],
)
def test_a_standby_is_judged_by_what_its_promotion_would_cost(
    slot: SlotState | None, level: Severity, said: str
) -> None:
    """Before it is promoted, for afterwards it is too late."""
    (found,) = check_standby("walagent", slot)
    assert found.level is level
    assert said in found.text


def test_a_failover_slot_waits_for_its_standbys() -> None:
    """Else one that lags would know of changes that it does not have."""
    config, slot = Config(replication=Replication(failover=True)), replace(SLOT, failover=True)
    assert bad(check_slot(config, "app", slot, LEDGER, "standby")) == []
    ((_, empty),) = bad(check_slot(config, "app", slot, LEDGER, ""))
    assert "synchronized_standby_slots is empty" in empty
    ((_, without),) = bad(check_slot(config, "app", SLOT, LEDGER, ""))
    assert "not a failover slot" in without


@pytest.fixture
def empty(server: str) -> Iterator[str]:
    """A database without our schema."""
    with empty_database(server) as dsn:
        yield dsn


@pytest.fixture
def user(empty: str, tmp_path: Path) -> User:
    """Somebody with a support desk and a file, and nothing prepared."""
    with psycopg.connect(empty) as conn:
        conn.execute(DESK)
    user = User(tmp_path, empty, {"OPENAI_API_KEY": "sk-test-0123456789"})
    user.writes(AGENTS)
    return user


def problems(user: User, *options: str, **variables: str) -> list[dict[str, str]]:
    """Examine; exit code and list must agree."""
    ended = user.types("doctor", "--json", *options, **variables)
    assert ended.out, ended.err
    found = [each for each in ended.json["findings"] if each["level"] == "problem"]
    assert ended.code == (3 if found else 0)
    assert ended.json["problems"] == len(found)
    return found


@pytest.mark.slow
def test_the_way_from_nothing_to_ready(user: User) -> None:
    """Each step that the doctor names removes what it found."""
    (found,) = problems(user)
    assert (found["text"], found["fix"]) == ('schema "agent" does not exist', "walagent init")
    user.types("init").worked()
    assert problems(user) == []
    user.types("apply").worked()
    assert problems(user) == []
    said = user.types("doctor").worked()
    assert "ok  schema: the schema is up to date" in said.out
    assert re.search(r"prefix of about \d+ tokens, caching by gpt-4o starts at 1,024", said.out)
    assert "no problems" in said.err


@pytest.mark.slow
def test_a_missing_key_is_a_problem(user: User) -> None:
    """Only of models that agents use; which variable is said, and no value ever."""
    user.types("init").worked()
    assert problems(user, OPENAI_API_KEY="") == []
    user.types("apply").worked()
    (found,) = problems(user, OPENAI_API_KEY="")
    assert "gpt-4o needs a key" in found["text"]
    assert "OPENAI_API_KEY" in found["text"]
    assert "sk-test" not in user.types("doctor").out


@pytest.mark.slow
def test_a_table_that_lost_its_identity_is_a_problem(user: User, empty: str) -> None:
    """For then the application's own UPDATE fails; the statement mends it."""
    user.writes(AGENTS.replace("{table", "{on: [insert, update], table"))
    user.types("init").worked()
    user.types("apply").worked()
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute("alter table support_tickets drop constraint support_tickets_pkey")
        (key, found) = problems(user)
        assert "has no replica identity" in key["text"]
        assert key["fix"].startswith("walagent agents resume support --")
        assert "has no replica identity" in found["text"]
        conn.execute(found["fix"].encode())
        (key,) = problems(user)
        conn.execute("alter table support_tickets add primary key (id)")
    assert problems(user) == []


@pytest.mark.slow
def test_a_dropped_table_and_role_are_problems(user: User, empty: str) -> None:
    """The statement for the table is one to run as it is."""
    user.types("init").worked()
    user.types("apply").worked()
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute("drop table support_tickets")
        (found,) = problems(user)
        assert "was dropped" in found["text"]
        conn.execute(found["fix"].encode())
    assert problems(user) == []


@pytest.mark.slow
def test_what_the_daemons_role_lacks_is_named_with_its_grant(user: User, empty: str) -> None:
    """First our schema, then the role that the agent's tools run as."""
    user.types("init").worked()
    with psycopg.connect(empty, autocommit=True) as conn:
        for role in ("walagent_cli_daemon", "walagent_cli_agent"):
            conn.execute(f"drop role if exists {role}".encode())
        conn.execute("create role walagent_cli_agent")
        conn.execute("grant select, update on support_tickets to walagent_cli_agent")
        conn.execute("create role walagent_cli_daemon login replication")
        try:
            user.writes(AGENTS.replace("{table", "{run_as: walagent_cli_agent, table"))
            user.types("apply").worked()
            daemon = ("--dsn", f"{empty} user=walagent_cli_daemon")
            (found,) = problems(user, *daemon)
            assert "lacks usage on schemas agent and agent_internal" in found["text"]
            conn.execute(found["fix"].encode())
            (found,) = problems(user, *daemon)
            assert 'cannot set role "walagent_cli_agent"' in found["text"]
            conn.execute(found["fix"].encode())
            assert problems(user, *daemon) == []
        finally:
            conn.execute("delete from agent.attachment")
            conn.execute("drop owned by walagent_cli_daemon, walagent_cli_agent")
            conn.execute("drop role walagent_cli_daemon, walagent_cli_agent")


@pytest.mark.slow
def test_the_role_that_models_read_as_is_looked_at(user: User, empty: str) -> None:
    """Whether the daemon may take it on, and whether it can still do nothing but read."""
    user.types("init").worked()
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute("drop role if exists walagent_cli_analyst")
        conn.execute("create role walagent_cli_analyst")
        conn.execute("revoke create on schema public from public")
        try:
            text = AGENTS.replace("{table", "{query_as: walagent_cli_analyst, table")
            user.writes(text.replace("tools: [", "tools: [query, "))
            user.types("apply").worked()
            assert problems(user) == []
            conn.execute("grant insert on support_tickets to walagent_cli_analyst")
            (found,) = problems(user)
            assert "write to public.support_tickets" in found["text"]
            for (mend,) in conn.execute(found["fix"].encode()).fetchall():
                conn.execute(mend.encode())
            assert problems(user) == []
        finally:
            conn.execute("delete from agent.attachment")
            conn.execute("drop owned by walagent_cli_analyst")
            conn.execute("drop role walagent_cli_analyst")


@pytest.mark.slow
def test_a_login_that_may_not_replicate_is_a_problem(user: User, empty: str) -> None:
    """The daemon's own login may do all else; the reader's is another one."""
    user.types("init").worked()
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute("drop role if exists walagent_cli_reader")
        conn.execute("create role walagent_cli_reader login")
        reader = ("--replication-dsn", f"{empty} user=walagent_cli_reader")
        (found,) = problems(user, *reader)
        assert "cannot read the WAL" in found["text"]
        conn.execute("alter role walagent_cli_reader replication")
        assert problems(user, *reader) == []
        conn.execute("drop role walagent_cli_reader")


@pytest.mark.slow
def test_a_lost_slot_is_a_problem_that_init_fixes(user: User, empty: str) -> None:
    """The gap stays on record, with what was done about it."""
    user.types("init").worked()
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute("select pg_drop_replication_slot('walagent')")
    (found,) = problems(user)
    assert 'slot "walagent" does not exist' in found["text"]
    assert "walagent wal resync" in found["fix"]
    user.types("init", "--new-slot").worked()
    assert problems(user) == []
    (gap,) = user.types("wal", "gaps", "--all", "--json").worked().json
    assert gap["resolution"].startswith("a new slot starts at ")


@pytest.mark.slow
def test_the_login_for_tools_has_no_right_but_to_log_in(user: User, empty: str) -> None:
    """Each is named with the statement that takes it; without the login, a daemon creates it."""
    user.types("init").worked()
    with psycopg.connect(empty, autocommit=True) as conn:
        row = conn.execute("select agent_internal.tools_login()").fetchone()
        login = str(row and row[0])
        assert problems(user) == []
        for wrong, said in (
            ("alter role {login} createdb", "CREATEDB"),
            ("alter role {login} superuser", "SUPERUSER"),
            ("grant pg_monitor to {login}", 'member of "pg_monitor"'),
            ("alter role {login} nologin", "cannot log in"),
        ):
            conn.execute(wrong.format(login=login).encode())
            (found,) = problems(user)
            assert said in found["text"]
            conn.execute(found["fix"].encode())
            assert problems(user) == []
        conn.execute("create schema theirs")
        conn.execute(f"alter schema theirs owner to {login}".encode())
        (found,) = problems(user)
        assert "owns schema theirs" in found["text"]
        conn.execute(found["fix"].encode())
        conn.execute(f"alter role {login} valid until '2000-01-01'".encode())
        if conn.info.password:  # else the server asks for none
            assert "cannot log in" in problems(user)[0]["text"]
        conn.execute(f"drop role {login}".encode())
        assert problems(user) == []
        guest = f"doctor_{uuid4().hex[:8]}"
        conn.execute(f"create role {guest} login; select agent.grant_runner('{guest}')".encode())
        (found,) = problems(user, "--dsn", f"{empty} user={guest}", "--replication-dsn", empty)
        assert "does not exist" in found["text"]
        conn.execute(f"drop owned by {guest}; drop role {guest}".encode())


@pytest.mark.slow
def test_the_models_of_tenants_are_checked_each_with_its_own_key(user: User, empty: str) -> None:
    """A model of a tenant is looked for by its label, and a key that is missing is named."""
    user.types("init").worked()
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute("select agent.create_tenant('acme')")
        conn.execute(
            "insert into agent.model (tenant, name, provider, model_id, credential)"
            " values ('acme', 'own', 'openai', 'x', 'ACME_API_KEY')"
        )
        conn.execute("insert into agent.agent (tenant, name, model) values ('acme', 'a', 'own')")
    (found,) = problems(user)
    assert "ACME_API_KEY" in found["text"]
    assert problems(user, ACME_API_KEY="x") == []


@pytest.mark.slow
def test_roles_that_row_level_security_does_not_confine_are_named(user: User, empty: str) -> None:
    """The owner, the daemon, and the logins of principals, each with the statement that helps."""
    user.types("init").worked()
    owner, other, runner = (f"doctor_{uuid4().hex[:8]}" for _ in range(3))
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute(
            f"create role {owner} nologin; create role {other} login; create role {runner} login;"
            f"select agent.create_principal('eve', login => '{other}');"
            f"select agent.grant_runner('{runner}')".encode()
        )
        try:
            assert problems(user) == []
            for wrong, said in (
                ("alter role {other} superuser", "is a superuser: it reaches all tenants"),
                ("alter role {other} bypassrls", "has BYPASSRLS: it reaches all tenants"),
            ):
                conn.execute(wrong.format(other=other).encode())
                (found,) = problems(user)
                assert found["text"] == f'login "{other}" of principal eve of tenant default {said}'
                conn.execute(found["fix"].encode())
                assert problems(user) == []
            as_runner = ("--dsn", f"{empty} user={runner}", "--replication-dsn", empty)
            assert "BYPASSRLS" not in user.types("doctor", *as_runner).out
            conn.execute(f"alter role {runner} bypassrls".encode())
            assert f'role "{runner}" has BYPASSRLS' in user.types("doctor", *as_runner).out
            conn.execute(f"alter role {runner} nobypassrls".encode())
            row = conn.execute("select current_user").fetchone()
            conn.execute(f"alter schema agent_internal owner to {owner}".encode())
            conn.execute(
                f"grant {owner} to {other}, {runner}; alter role {owner} bypassrls".encode()
            )
            named = {found["text"] for found in problems(user)}
            assert any(f'"{other}" of principal eve' in text for text in named)
            assert any(f'"{owner}" owns the schema agent and has BYPASSRLS' in t for t in named)
            out = user.types("doctor", *as_runner).out
            assert f'role "{runner}" is, or can become, the owner of the schema agent' in out
            conn.execute(f"alter schema agent_internal owner to {row and row[0]}".encode())
            assert problems(user) == []
        finally:
            conn.execute("delete from agent.principal where name = 'eve'")
            for each in (owner, other, runner):
                conn.execute(f"drop owned by {each}; drop role {each}".encode())


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    "grant",
    [
        "grant pg_read_all_data to {clerk}",
        "select agent.grant_runner('{clerk}')",
        "alter table agent_internal.secret owner to {clerk}",
    ],
)
def test_an_agent_whose_role_can_read_the_key_is_named(user: User, empty: str, grant: str) -> None:
    """Code that is executed as it could sign calls."""
    user.types("init").worked()
    clerk = f"doctor_{uuid4().hex[:8]}"
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute(f"create role {clerk}; grant select on support_tickets to {clerk}".encode())
        spec = f"model=gpt-4o, run_as={clerk}, tools=[]"
        conn.execute("select agent.attach('support_tickets', %s)", [spec])
        try:
            assert "agent_internal.secret" not in user.types("doctor").out
            conn.execute(grant.format(clerk=clerk).encode())
            assert "can read agent_internal.secret" in user.types("doctor").out
        finally:
            conn.execute("delete from agent.attachment")
            for drop in (f"reassign owned by {clerk} to current_user", f"drop owned by {clerk}"):
                conn.execute(drop.encode())
            conn.execute(f"drop role {clerk}".encode())


def test_a_server_that_cannot_be_reached_is_no_traceback(user: User) -> None:
    """Exit 1: the same may work a moment later."""
    ended = user.types("doctor", "--dsn", "host=127.0.0.1 port=1 password=hunter22")
    assert ended.code == 1
    assert ended.err.startswith("walagent: cannot connect")
    assert "Traceback" not in ended.err
    assert "hunter22" not in ended.err


async def test_an_event_trigger_that_stops_the_analyst_is_named(
    conn: AsyncConnection, reader: AsyncConnection
) -> None:
    """It fires for the view by which a statement is analyzed, with the rights of the analyst."""
    settings = AskSettings(role=reader.info.user)
    assert [each.level async for each in check_analyst(conn, settings)] == [Severity.OK]
    await run_all(
        conn,
        "create table ddl (tag text);"
        "create function log_ddl() returns event_trigger language plpgsql as"
        " $$ begin insert into ddl values (tg_tag); end $$;"
        "create event trigger log_ddl on ddl_command_end execute function log_ddl()",
    )
    (found,) = [each async for each in check_analyst(conn, settings)]
    assert found.level is Severity.PROBLEM
    assert "alter function log_ddl() security definer" in found.fix
    await run_all(conn, "alter function log_ddl() security definer")
    assert [each.level async for each in check_analyst(conn, settings)] == [Severity.OK]
    assert [each async for each in check_analyst(conn, AskSettings(role="nobody_here"))] == []
    assert conn.info.transaction_status is TransactionStatus.IDLE


def test_what_keeps_wal_is_named(server: str) -> None:
    """A forgotten prepared transaction holds each slot, and no number says so."""
    name = f"forgotten {uuid4().hex[:6]}"
    with (
        empty_database(server) as dsn,
        psycopg.connect(dsn, autocommit=True) as conn,
        psycopg.connect(dsn) as writing,
    ):
        conn.execute("create table t (id int)")
        writing.execute("insert into t values (1)")
        conn.execute("begin")
        conn.execute("insert into t values (2)")
        conn.execute(f"prepare transaction '{name}'".encode())
        try:
            found = asyncio.run(_keepers(dsn))
            said = " ".join(f"{each.text} {each.fix}" for each in check_keepers(found, SLOT))
        finally:
            conn.execute(f"rollback prepared '{name}'".encode())
        assert f"PID {writing.info.backend_pid}" in said
    assert f'prepared transaction "{name}"' in said
    assert f"rollback prepared '{name}'" in said
    assert 'slot "walagent" retains 1000 B of WAL' in said


async def _keepers(dsn: str) -> list[WalKeeper]:
    async with await connect(dsn) as conn:
        return await wal_keepers(conn, 0)


@pytest.mark.slow
def test_attachments_that_run_as_one_superuser_are_one_line(user: User) -> None:
    """Nineteen times the same two lines hide the others."""
    user.types("database", "migrate").worked()
    with psycopg.connect(user.dsn or "", autocommit=True) as conn:
        for n in range(6):
            conn.execute(
                "select agent.attach('support_tickets', %s)", [f"model=gpt-4o, name=agent{n}"]
            )
    said = user.types("doctor").out
    assert said.count("run as superuser") == 1
    assert "and 3 more run as superuser" in said


def test_the_login_that_lacks_replication_is_named(server: str, tmp_path: Path) -> None:
    """The statement can be copied."""
    with empty_database(server) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        name = f"reader_{uuid4().hex[:8]}"
        conn.execute(f"create role {name} login".encode())
        try:
            dsns = {"DATABASE_REPLICATION_URL": make_conninfo(dsn, user=name)}
            assert (
                f'ALTER ROLE "{name}" REPLICATION' in User(tmp_path, dsn, dsns).types("doctor").out
            )
        finally:
            conn.execute(f"drop role {name}".encode())
