"""The demo's application: a separate process that writes tickets, without any use of walagent.

DATABASE_URL=… python -m walagent.demo.writer --first 1 --count 90 --rate 4
"""

import argparse
import os
import time

import psycopg

from walagent.demo.tickets import ticket_at

_INSERT = """
insert into support_tickets (id, customer_id, subject, body)
values (%s, %s, %s, %s)
"""


def write(dsn: str, first: int, count: int, rate: float) -> None:
    """Insert *count* tickets, each in a transaction of its own.

    Args:
        rate: tickets a second.
    """
    with psycopg.connect(dsn, autocommit=True, application_name="helpdesk") as conn:
        began = time.monotonic()
        for nth in range(count):
            time.sleep(max(0.0, began + nth / rate - time.monotonic()))
            ticket = ticket_at(first + nth)
            values = [first + nth, ticket.customer_id, ticket.subject, ticket.body]
            conn.execute(_INSERT, values)


def _main() -> None:
    parser = argparse.ArgumentParser(description="Write support tickets, one transaction each.")
    parser.add_argument("--first", type=int, default=1, help="number of the first ticket")
    parser.add_argument("--count", type=int, default=1, help="number of tickets")
    parser.add_argument("--rate", type=float, default=4.0, help="tickets a second")
    given = parser.parse_args()
    write(os.environ.get("DATABASE_URL", ""), given.first, given.count, given.rate)


if __name__ == "__main__":
    _main()
