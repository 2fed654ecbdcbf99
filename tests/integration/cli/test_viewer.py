"""What a viewer and an approver type: nothing of it needs more than their grants."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.integration.cli.user import AGENTS, DESK, User, empty_database

CHANGE = {"op": "insert", "schema": "public", "table": "support_tickets", "new": {"id": 1}}


@pytest.fixture
def desk(server: str, tmp_path: Path) -> Iterator[str]:
    """A database with an agent, and a run of its."""
    with empty_database(server) as dsn:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(DESK)
            owner = User(tmp_path, dsn)
            owner.writes(AGENTS.replace("gpt-4o", "m") + "\nmodels:\n  m: {provider: scripted}\n")
            owner.types("init").worked()
            owner.types("apply").worked()
            conn.execute("insert into support_tickets (customer, issue) values ('a', 'b')")
            conn.execute(
                "insert into agent.run"
                " (reason, queue_id, attachment_id, attachment_version, change, key)"
                " select 'manual', id, id, version, %s::jsonb, '1' from agent.attachment",
                [json.dumps(CHANGE)],
            )
        yield dsn


@pytest.mark.parametrize("grant", ["viewer", "approver"])
def test_who_may_look_can_use_every_command_that_looks(
    desk: str, tmp_path: Path, grant: str
) -> None:
    """Runs, their steps, why there is one, and what is wrong."""
    name = f"{grant}_{uuid4().hex[:8]}"
    with psycopg.connect(desk, autocommit=True) as conn:
        conn.execute(f"create role {name} login".encode())
        try:
            conn.execute(f"select agent.grant_{grant}('{name}')".encode())
            conn.execute(f"grant select on support_tickets to {name}".encode())
            user = User(tmp_path, make_conninfo(desk, user=name))
            for command in (
                "runs",
                "show 1",
                "why support_tickets 1",
                "check",
                "check --all",
                "agents",
                "agents cascade",
                "approvals",
                "backfills",
                "budgets",
                "gaps",
                "models",
                "changes",
            ):
                user.types(*command.split()).worked()
        finally:
            conn.execute(f"drop owned by {name}".encode())
            conn.execute(f"drop role {name}".encode())
