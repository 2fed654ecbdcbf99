"""The application: a process of its own that changes tables in every way there is.

    python -m tests.faults.rig.writer DSN SEED CHANGES WINDOW

Each change is noted beside it, in the same transaction: those of `item` in `written`, those of
`parcel` in `parcel_written`; a row of `topic` is its own note.  Tables that no agent is attached
to are left alone.  It stops after CHANGES of them, or at SIGTERM, and is never more than WINDOW
ahead of the agents, so that there is load for as long as the test lasts.

When it loses the server it comes back: what a transaction that broke has become, the notes know.
"""

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
from psycopg import Connection

_ATTACHED = "select array_agg(relation::text) from agent.attachment"
_AHEAD = """
select written, written - ended
  from (select (select count(*) from written) + (select count(*) from parcel_written)
               + (select count(*) from topic) as written) w,
       (select (select count(*) from agent.run where agent_internal.is_final(state))
               + (select count(*) from agent_internal.merged_change m join agent.run r
                     on r.id = m.run_id
                   where agent_internal.is_final(r.state)) as ended) e
"""
# What this database still holds of a transaction in two phases whose writer was cut off.
_PREPARED = "select gid from pg_prepared_xacts where database = current_database()"
_TWO_PHASES = "select current_setting('max_prepared_transactions')::integer > 0"

_NEW = "insert into item (id, version, note) values (%s, 1, %s)"
_UPDATE = "update item set version = version + 1, note = %s where id = %s returning version"
_NOTE = "insert into written (item, version) values (%s, %s)"
_SEND = "insert into parcel (id, thing, version) values (%s, %s, 1) returning id, version"
_CHANGE = "update parcel set version = version + 1 where thing = %s returning id, version"
_MOVE = "update parcel set id = %s, version = version + 1 where thing = %s returning id, version"
_REMOVE = "delete from parcel where thing = %s returning id, version"
_NOTE_PARCEL = "insert into parcel_written (op, thing, id, version) values (%s, %s, %s, %s)"
_TOPIC = "insert into topic default values"

_PATIENCE = 60.0  # seconds that the server may be away
_WIDE = "x" * 3000  # a value that is stored apart, and unchanged by later updates
_RECENT = 50  # rows back that changes reach; older ones are left in peace


class Rows:
    """Which rows are committed, so that changes find some.

    Undecided ones count when their transaction has told that it committed.  Where that answer was
    lost nobody speaks of them again.
    """

    def __init__(self) -> None:
        self.items: list[int] = []
        self.things: list[int] = []
        self.free: list[int] = []  # keys of deleted rows, to be used again
        self._undecided: list[Callable[[], None]] = []

    def if_committed(self, change: Callable[[], None]) -> None:
        """Remember what will be so."""
        self._undecided.append(change)

    def forget(self) -> None:
        """Nothing of it was, or nobody knows."""
        self._undecided.clear()

    @contextmanager
    def not_these(self) -> Iterator[None]:
        """Forget what the block does; what was undecided before stays so."""
        before = list(self._undecided)
        try:
            yield
        finally:
            self._undecided = before

    def decide(self) -> None:
        """It has committed."""
        for change in self._undecided:
            change()
        self.forget()
        del self.items[:-_RECENT], self.things[:-_RECENT]


class Writer:
    """Makes changes until there are enough."""

    def __init__(self, dsn: str, seed: int) -> None:
        self._dsn = dsn
        self._name = f"writer-{seed}"
        self._chance = random.Random(seed)
        self._ids, self._gids = count(1), count(1)
        self._rows = Rows()
        self._attached: set[str] = set()
        self._quota = 0  # changes that may be made before looking again
        self._stopping = False
        self._kinds: list[Callable[[Connection, Connection], None]] = []

    def write(self, changes: int, window: int) -> None:
        """Write *changes* of them, through whatever happens to the server."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            self._rows.forget()
            try:
                with self._connection() as conn, self._connection() as other:
                    self._begin(conn)
                    while self._goes_on(conn, changes, window):
                        self._chance.choice(self._kinds)(conn, other)
                        self._rows.decide()
                        deadline = time.monotonic() + _PATIENCE
                    return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def stop(self) -> None:
        """Let it end after the change that it is at."""
        self._stopping = True

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            yield conn

    def _begin(self, conn: Connection) -> None:
        """End what a lost connection has left, and see what there is to be changed."""
        for (gid,) in conn.execute(_PREPARED).fetchall():
            conn.execute(f"commit prepared '{gid}'".encode())
        self._attached = set(_one(conn, _ATTACHED) or ())
        self._kinds = [
            *(self._insert, self._insert, self._update, self._update, self._several),
            *(self._savepoints, self._aborted, self._copy, self._two_at_once),
        ]
        if "parcel" in self._attached:
            self._kinds += [self._send, self._move, self._remove, self._journey]
        if "topic" in self._attached:
            self._kinds += [self._topic, self._everything]
        if _one(conn, _TWO_PHASES):
            self._kinds.append(self._two_phases)
        self._quota = 0

    def _goes_on(self, conn: Connection, changes: int, window: int) -> bool:
        """Wait until the agents have caught up far enough; False when all is written."""
        if self._stopping:
            return False
        while self._quota <= 0:
            row = conn.execute(_AHEAD).fetchone()
            assert row is not None
            if row[0] >= changes or self._stopping:
                return False
            self._quota = min(changes - row[0], window - row[1])
            if self._quota <= 0:
                time.sleep(0.01)
        return True

    # Ways to change `item`.

    def _insert(self, conn: Connection, _: Connection) -> None:
        with conn.transaction():
            self._add(conn)

    def _update(self, conn: Connection, _: Connection) -> None:
        with conn.transaction():
            self._change(conn)

    def _several(self, conn: Connection, _: Connection) -> None:
        with conn.transaction():
            for _n in range(self._chance.randint(2, 10)):
                self._add(conn)
            for _n in range(self._chance.randint(0, 5)):
                self._change(conn)

    def _savepoints(self, conn: Connection, _: Connection) -> None:
        """Parts of a transaction are taken back, the rest commits."""
        with conn.transaction():
            self._add(conn)
            with self._rows.not_these(), conn.transaction(force_rollback=True):
                self._add(conn)
                self._change(conn)
            with conn.transaction():
                self._add(conn)
                self._change(conn)

    def _aborted(self, conn: Connection, _: Connection) -> None:
        """Nothing of this ever happened."""
        with self._rows.not_these(), conn.transaction(force_rollback=True):
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
        self._quota -= len(new)
        self._rows.if_committed(lambda: self._rows.items.extend(new))

    def _two_at_once(self, conn: Connection, other: Connection) -> None:
        """The transaction that began first commits last."""
        with conn.transaction():
            self._add(conn)
            with other.transaction():
                self._add(other)
            self._add(conn)

    def _two_phases(self, conn: Connection, other: Connection) -> None:
        """A transaction is prepared by one session, and ended by another, one way or the other."""
        gid = f"{self._name}-{next(self._gids)}"
        commits = self._chance.random() < 0.7
        conn.execute("begin")
        self._add(conn)
        self._change(conn)
        self._send_one(conn)
        conn.execute(f"prepare transaction '{gid}'".encode())
        other.execute(f"{'commit' if commits else 'rollback'} prepared '{gid}'".encode())
        if not commits:
            self._rows.forget()

    def _add(self, conn: Connection) -> None:
        item = next(self._ids)
        conn.execute(_NEW, [item, self._chance.choice((None, "short", _WIDE))])
        conn.execute(_NOTE, [item, 1])
        self._quota -= 1
        self._rows.if_committed(lambda: self._rows.items.append(item))

    def _change(self, conn: Connection) -> None:
        if not self._rows.items:
            return
        item = self._chance.choice(self._rows.items)
        row = conn.execute(_UPDATE, [self._chance.choice(("a", "b")), item]).fetchone()
        if row is not None:  # its insert was lost with the server
            conn.execute(_NOTE, [item, row[0]])
            self._quota -= 1

    # Ways to change `parcel`, whose rows get new keys and go.

    def _send(self, conn: Connection, _: Connection) -> None:
        with conn.transaction():
            self._send_one(conn)

    def _move(self, conn: Connection, _: Connection) -> None:
        with conn.transaction():
            self._change_parcel(conn)
            self._move_one(conn)

    def _remove(self, conn: Connection, _: Connection) -> None:
        with conn.transaction():
            self._remove_one(conn)

    def _journey(self, conn: Connection, _: Connection) -> None:
        """One transaction, some of it taken back, in which a row may come, move and go."""
        with conn.transaction():
            self._send_one(conn)
            with self._rows.not_these(), conn.transaction(force_rollback=True):
                self._move_one(conn)
                self._remove_one(conn)
            for _n in range(self._chance.randint(1, 4)):
                self._chance.choice((self._change_parcel, self._move_one))(conn)

    def _send_one(self, conn: Connection) -> None:
        if "parcel" not in self._attached:
            return
        thing = next(self._ids)
        used = self._rows.free.pop() if self._rows.free and self._chance.random() < 0.5 else thing
        self._note_parcel(conn, "insert", thing, conn.execute(_SEND, [used, thing]).fetchone())
        self._rows.if_committed(lambda: self._rows.things.append(thing))

    def _change_parcel(self, conn: Connection) -> None:
        if self._rows.things:
            thing = self._chance.choice(self._rows.things)
            self._note_parcel(conn, "update", thing, conn.execute(_CHANGE, [thing]).fetchone())

    def _move_one(self, conn: Connection) -> None:
        if self._rows.things:
            thing = self._chance.choice(self._rows.things)
            row = conn.execute(_MOVE, [next(self._ids), thing]).fetchone()
            self._note_parcel(conn, "update", thing, row)

    def _remove_one(self, conn: Connection) -> None:
        if not self._rows.things:
            return
        thing = self._chance.choice(self._rows.things)
        row = conn.execute(_REMOVE, [thing]).fetchone()
        self._note_parcel(conn, "delete", thing, row)
        if row is not None:
            self._rows.if_committed(lambda: self._gone(thing, row[0]))

    def _gone(self, thing: int, key: int) -> None:
        self._rows.things.remove(thing)
        self._rows.free.append(key)

    def _note_parcel(
        self, conn: Connection, op: str, thing: int, row: tuple[int, int] | None
    ) -> None:
        if row is not None:
            conn.execute(_NOTE_PARCEL, [op, thing, *row])
            self._quota -= 1

    # The rest, and all of it.

    def _topic(self, conn: Connection, _: Connection) -> None:
        for _n in range(self._chance.randint(1, 3)):
            self._add_topic(conn)

    def _add_topic(self, conn: Connection) -> None:
        conn.execute(_TOPIC)
        self._quota -= 1

    def _everything(self, conn: Connection, _: Connection) -> None:
        """Several tables in one transaction."""
        with conn.transaction():
            self._add(conn)
            self._add_topic(conn)
            self._send_one(conn)
            self._change(conn)
            self._change_parcel(conn)
            self._remove_one(conn)


def _one(conn: Connection, query: str) -> Any:  # noqa: ANN401 - a column of any type
    row = conn.execute(query.encode()).fetchone()
    return row[0] if row else None


if __name__ == "__main__":
    dsn, seed, changes, window = sys.argv[1:]
    writer = Writer(dsn, int(seed))
    signal.signal(signal.SIGTERM, lambda *_: writer.stop())
    writer.write(int(changes), int(window))
