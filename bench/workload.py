"""The same work for everybody: tables, contents, what the agent says and does.

Needs psycopg only where a function takes a connection, so a peer can import the constants.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

TICKET_TABLE = """\
create table ticket (
    id       bigint primary key generated always as identity,
    subject  text not null,
    body     text not null,
    priority text
)"""
LACK_EMBEDDING = """\
select id, concat_ws(e'\\n', subject, body) from ticket
 where embedding is null order by id limit %s"""
SUBJECT = "Cannot log in since this morning"
BODY = "The page says that my password is wrong, and the reset mail never comes. Please help."
PRIORITY = "high"

# What the agent does for one ticket: it answers with a tool call, the tool runs in the database,
# it answers with words.
THOUGHT = "This customer is locked out, so it is urgent."
TOOL = "set_priority"
ARGUMENTS = {"priority": PRIORITY}
ANSWER = "The ticket is marked as urgent; somebody will look at it within the hour."

# What a model is asked in the rows about model calls.
SYSTEM = "You look after the tickets of a small web shop. Decide how urgent each one is."
QUESTION = f"Subject: {SUBJECT}\n\n{BODY}"
TOOLS = [
    {
        "name": name,
        "description": description,
        "input_schema": {
            "type": "object",
            "properties": {"ticket": {"type": "integer"}, argument: {"type": "string"}},
            "required": ["ticket", argument],
        },
    }
    for name, description, argument in (
        ("set_priority", "Set the priority of a ticket to low, normal or high.", "priority"),
        ("assign", "Give a ticket to a team.", "team"),
        ("reply", "Send the customer an answer.", "text"),
        ("close", "Close a ticket that needs nothing more.", "reason"),
        ("escalate", "Ask a person to take a ticket over.", "reason"),
    )
]


def insert_tickets(conn: psycopg.Connection, count: int) -> None:
    """Insert *count* tickets in one transaction."""
    conn.execute(
        "insert into ticket (subject, body) select %s, %s from generate_series(1, %s)",
        [SUBJECT, BODY, count],
    )


def insert_ranked(conn: psycopg.Connection, count: int) -> None:
    """Insert *count* tickets in one transaction, one in a hundred of them urgent."""
    conn.execute(
        "insert into ticket (subject, body, priority)"
        " select %s, %s, case when n %% 100 = 0 then %s else 'low' end"
        "   from generate_series(1, %s) n",
        [SUBJECT, BODY, PRIORITY, count],
    )


def write_slowly(
    conn: psycopg.Connection, count: int, gap: float
) -> dict[int, tuple[float, float]]:
    """Insert *count* tickets one by one, *gap* seconds apart: an idle server's writer.

    Args:
        conn: in autocommit mode, so each insert is a transaction.

    Returns:
        For each ticket's id when its insert was sent and when its commit was acknowledged, in
        seconds since the epoch.
    """
    times: dict[int, tuple[float, float]] = {}
    for _ in range(count):
        time.sleep(gap)
        sent = time.time()
        row = conn.execute(
            "insert into ticket (subject, body) values (%s, %s) returning id", [SUBJECT, BODY]
        ).fetchone()
        assert row is not None
        times[row[0]] = (sent, time.time())
    return times
