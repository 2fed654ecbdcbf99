"""What a database or role sets changes neither what our statements mean, nor how long they live."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.integration.cli.test_run import SCRIPT
from tests.integration.cli.user import AGENTS, DESK, User, empty_database, until
from walagent.postgres.connection import LIFETIMES, MEANINGS, parameters

# Each is turned to a value that would break something; those that only a superuser may set, too.
TURNED = {
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "idle_session_timeout": "100ms",
    "idle_in_transaction_session_timeout": "1ms",
    "transaction_timeout": "200ms",  # what sets it has that long
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "row_security": "off",
    "exit_on_error": "on",
    "quote_all_identifiers": "on",
    "standard_conforming_strings": "off",
    "backslash_quote": "on",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "bytea_output": "escape",
    "xmlbinary": "hex",
    "xmloption": "document",
    "gin_fuzzy_search_limit": "1",
    "check_function_bodies": "off",
    "client_min_messages": "error",
    "plan_cache_mode": "force_generic_plan",
    "jit": "on",
    "restrict_nonsystem_relation_kind": "view",
    "session_replication_role": "replica",
    "datestyle": "German",
    "intervalstyle": "sql_standard",
    "extra_float_digits": "-15",
    "synchronous_commit": "off",
    "lc_numeric": "C",
    "timezone": "Asia/Kathmandu",
    "default_text_search_config": "pg_catalog.simple",
}
# Of the same categories, but they change only the plan, the storage or the log.
HARMLESS = """
client_encoding lc_messages lc_monetary lc_time timezone_abbreviations icu_validation_level
dynamic_library_path extension_control_path local_preload_libraries session_preload_libraries
default_tablespace temp_tablespaces default_toast_compression gin_pending_list_limit search_path
createrole_self_grant transaction_deferrable transaction_isolation transaction_read_only
vacuum_failsafe_age vacuum_freeze_min_age vacuum_freeze_table_age vacuum_multixact_failsafe_age
vacuum_multixact_freeze_min_age vacuum_multixact_freeze_table_age constraint_exclusion
cursor_tuple_fraction default_statistics_target from_collapse_limit join_collapse_limit
recursive_worktable_factor escape_string_warning lo_compat_privileges synchronize_seqscans
default_table_access_method event_triggers
"""
CATEGORIES = (
    "Client Connection Defaults%",
    "Version and Platform Compatibility%",
    "Error Handling%",
    "%Other Planner Options",
)


@pytest.fixture(params=["database", "role"])
def turned(request: pytest.FixtureRequest, server: str, tmp_path: Path) -> Iterator[User]:
    """Somebody with a support desk, on whose server every setting is turned."""
    with empty_database(server) as dsn:
        name = str(conninfo_to_dict(dsn)["dbname"])
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(DESK)
            as_role = dsn
            if request.param == "role":
                conn.execute(sql.SQL("create role {} superuser login").format(sql.Identifier(name)))
                as_role = make_conninfo(dsn, user=name)
            for setting, value in TURNED.items():
                known = "select 1 from pg_settings where lower(name) = %s"
                if conn.execute(known, [setting]).fetchone():
                    turn = sql.SQL("alter {} {} set {} = {}")
                    conn.execute(
                        turn.format(
                            sql.SQL(request.param),
                            sql.Identifier(name),
                            sql.Identifier(setting),
                            value,
                        )
                    )
        user = User(tmp_path, as_role)
        user.writes(json.dumps(SCRIPT), "script.json")
        user.writes(
            AGENTS.replace("gpt-4o", "script")
            + f"\nmodels:\n  script: {{provider: scripted, base_url: {tmp_path}/script.json}}\n"
            + "http: {enabled: false}\nlog: {format: json}\n"
        )
        yield user
    if request.param == "role":
        with psycopg.connect(server, autocommit=True) as conn:
            conn.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.mark.slow
@pytest.mark.few(1)
def test_a_row_is_worked_whatever_is_set(turned: User) -> None:
    """From an empty database, and after it has rested."""
    turned.types("init").worked()
    given = parameters(str(turned.dsn), "test")
    with (
        turned.starts("run") as daemon,
        psycopg.connect(str(turned.dsn), autocommit=True, **given) as conn,
    ):
        daemon.says('"attachment.activated"')
        for customer in ("a", "b"):
            insert = "insert into support_tickets (customer, issue) values (%s, 'b')"
            conn.execute(insert, [customer])
            until(conn, "select bool_and(status = 'seen') from support_tickets")
            until(conn, "select bool_and(state = 'succeeded') from agent.run")
            time.sleep(1)  # longer than any timeout that is set
        conn.execute("update support_tickets set customer = customer")
        until(conn, "select count(*) = 2 from agent.run where state = 'succeeded'")
        assert daemon.ends(signal.SIGTERM) == 0
    assert "run.crashed" not in daemon.log.read_text()
    listed = turned.types("runs", "list", "--json").worked().json
    assert [run["state"] for run in listed] == ["succeeded"] * 2
    turned.types("doctor")
    turned.types("try", "support_tickets", "--json").worked()


def test_every_setting_of_these_kinds_is_known(server: str) -> None:
    """Of each server: one that a new version brings is turned here, or is harmless."""
    known = {*TURNED, *HARMLESS.split(), *MEANINGS, *LIFETIMES}
    with psycopg.connect(server) as conn:
        found = conn.execute(
            "select lower(name) from pg_settings"
            " where context in ('user', 'superuser') and category like any (%s)",
            [list(CATEGORIES)],
        ).fetchall()
    assert {name for (name,) in found} - known == set()
    assert {*MEANINGS, *LIFETIMES} - {"default_table_access_method"} <= {*TURNED}
