"""The application: a process of its own that changes `item` in every way there is.

    python -m tests.faults.rig.writer DSN SEED CHANGES WINDOW

Each change is noted in `written`, in the same transaction.  It stops after CHANGES of them, and
is never more than WINDOW ahead of the agents, so that there is load for as long as the test lasts.
When it loses the server it comes back: what a transaction that broke has become, `written` knows.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
from psycopg import Connection

_NEW = "insert into item (id, version, note) values (%s, 1, %s)"
_UPDATE = "update item set version = version + 1, note = %s where id = %s returning version"
_NOTE = "insert into written (item, version) values (%s, %s)"
_AHEAD = """
select (select count(*) from written),
       (select count(*) from written)
       - (select count(*) from agent.run where agent.is_final(state))
"""
_PATIENCE = 60.0  # seconds that the server may be away
_WIDE = "x" * 3000  # a value that is stored apart, and unchanged by later updates


class Writer:
    """Makes changes until there are enough."""

    def __init__(self, dsn: str, seed: int) -> None:
        self._dsn = dsn
        self._chance = random.Random(seed)
        self._ids = count(1)
        self._known: list[int] = []  # rows that are committed, so that updates find them
        self._kinds: tuple[Callable[[Connection, Connection], None], ...] = (
            self._insert,
            self._insert,
            self._update,
            self._update,
            self._several,
            self._savepoints,
            self._aborted,
            self._copy,
            self._two_at_once,
        )

    def write(self, changes: int, window: int) -> None:
        """Write *changes* of them, through whatever happens to the server."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                with self._connection() as conn, self._connection() as other:
                    while self._goes_on(conn, changes, window):
                        self._chance.choice(self._kinds)(conn, other)
                        deadline = time.monotonic() + _PATIENCE
                    return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            yield conn

    @staticmethod
    def _goes_on(conn: Connection, changes: int, window: int) -> bool:
        while True:
            row = conn.execute(_AHEAD).fetchone()
            assert row is not None
            if row[0] >= changes:
                return False
            if row[1] < window:
                return True
            time.sleep(0.01)

    # One way each.

    def _insert(self, conn: Connection, _: Connection) -> None:
        with conn.transaction():
            new = self._add(conn)
        self._known.append(new)

    def _update(self, conn: Connection, _: Connection) -> None:
        with conn.transaction():
            self._change(conn)

    def _several(self, conn: Connection, _: Connection) -> None:
        with conn.transaction():
            new = [self._add(conn) for _n in range(self._chance.randint(2, 10))]
            for _n in range(self._chance.randint(0, 5)):
                self._change(conn)
        self._known.extend(new)

    def _savepoints(self, conn: Connection, _: Connection) -> None:
        """Parts of a transaction are taken back, the rest commits."""
        with conn.transaction():
            new = [self._add(conn)]
            with conn.transaction(force_rollback=True):
                self._add(conn)
                self._change(conn)
            with conn.transaction():
                new.append(self._add(conn))
                self._change(conn)
        self._known.extend(new)

    def _aborted(self, conn: Connection, _: Connection) -> None:
        """Nothing of this ever happened."""
        with conn.transaction(force_rollback=True):
            for _n in range(self._chance.randint(1, 5)):
                self._add(conn)
                self._change(conn)

    def _copy(self, conn: Connection, _: Connection) -> None:
        """Many rows that share one place in the WAL."""
        new = [next(self._ids) for _ in range(self._chance.randint(2, 20))]
        with conn.transaction(), conn.cursor() as cursor:
            with cursor.copy("copy item (id, version, note) from stdin") as copy:
                for item in new:
                    copy.write_row((item, 1, None))
            cursor.executemany(_NOTE, [(item, 1) for item in new])
        self._known.extend(new)

    def _two_at_once(self, conn: Connection, other: Connection) -> None:
        """The transaction that began first commits last."""
        with conn.transaction():
            first = self._add(conn)
            with other.transaction():
                second = self._add(other)
            third = self._add(conn)
        self._known.extend((first, second, third))

    def _add(self, conn: Connection) -> int:
        item = next(self._ids)
        conn.execute(_NEW, [item, self._chance.choice((None, "short", _WIDE))])
        conn.execute(_NOTE, [item, 1])
        return item

    def _change(self, conn: Connection) -> None:
        if not self._known:
            return
        item = self._chance.choice(self._known[-50:])
        row = conn.execute(_UPDATE, [self._chance.choice(("a", "b")), item]).fetchone()
        if row is not None:  # its insert was lost with the server
            conn.execute(_NOTE, [item, row[0]])


if __name__ == "__main__":
    dsn, seed, changes, window = sys.argv[1:]
    Writer(dsn, int(seed)).write(int(changes), int(window))
