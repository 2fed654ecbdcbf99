"""What is judged is what is executed, though its owner gives another thing its name meanwhile."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from uuid import uuid4

import psycopg
import pytest

LOOT = """
create schema lair;
grant usage on schema lair to public;
create sequence lair.loot;
grant usage, update on sequence lair.loot to public;
"""
# Who exchanges has CREATE on the database.
SCHEMAS = """
alter schema spy rename to other;
alter schema spy2 rename to spy;
alter schema other rename to spy2;
"""


class Eve:
    """A role, who exchanges what it owns as fast as it can."""

    def __init__(self, dsn: str, name: str) -> None:
        self.name = name
        self._dsn = dsn

    @contextmanager
    def exchanging(self, statements: Sequence[str]) -> Iterator[None]:
        """Execute *statements* in turn until the block ends."""
        done = threading.Event()

        def exchange() -> None:
            with psycopg.connect(self._dsn, autocommit=True) as conn:
                conn.execute(f"set role {self.name}".encode())
                for statement in cycle(statements):
                    if done.is_set():
                        return
                    with suppress(psycopg.Error):  # a deadlock with who works: the next may do
                        conn.execute(statement.encode())

        thread = threading.Thread(target=exchange)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def is_taken(conn: psycopg.Connection) -> bool:
    """Whether code of Eve's has got what it should not."""
    return conn.execute("select last_value, is_called from lair.loot").fetchone() != (1, False)


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    """A superuser, who works."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def eve(conn: psycopg.Connection, dsn: str) -> Iterator[Eve]:
    """A role that may create schemas, and has one."""
    name = f"eve_{uuid4().hex[:8]}"
    conn.execute(f"create role {name}".encode())
    conn.execute(f"grant create on database {conn.info.dbname} to {name}".encode())
    conn.execute(f"set role {name}; {LOOT} reset role".encode())
    yield Eve(dsn, name)
    conn.execute(f"drop owned by {name} cascade; drop role {name}".encode())


TRIGRAM = """
create schema spy;
create extension pg_trgm schema spy;
create schema spy2;
grant usage on schema spy, spy2 to public;
create function spy2.word_similarity(text, text) returns real language plpgsql as $$
begin
    perform pg_catalog.setval('lair.loot', 42 + pg_catalog.length(key)) from agent_internal.secret;
    return 1;
exception when others then
    return 1;
end $$;
"""


def test_an_extension_of_somebody_is_not_called_to_recall_memories(
    conn: psycopg.Connection, eve: Eve
) -> None:
    """Who owns its schema could have another function called, with the rights of walagent."""
    conn.execute(f"set role {eve.name}; {TRIGRAM} reset role".encode())
    remembered = "insert into agent.memory (agent, key, value) values ('helper', 'tea', '1')"
    conn.execute(remembered.encode())
    with eve.exchanging([SCHEMAS]):
        for _ in range(200):
            with suppress(psycopg.Error):
                conn.execute("select * from agent.recall('helper', 'tea')")
            assert not is_taken(conn)


# Its table is so wide that to look at it takes a while.
TABLES = """
create schema spy;
create schema spy2;
create function lair.evil(text) returns boolean language plpgsql immutable as $$
begin
    if (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
        perform pg_catalog.setval('lair.loot', 42);
    end if;
    return true;
end $$;
create domain lair.tag as text check (lair.evil(value));
"""
WIDE = ", ".join(f"a_column_with_a_name_that_is_long_{n} int" for n in range(300))
ATTACH = """
select agent.attach('spy.t', 'model=fake, on=insert, when="new.tags @> ''{urgent}''"')
"""
FUNCTIONS = """
create function lair.f(text[]) returns boolean language sql immutable return true;
create function lair.g(lair.tag[]) returns boolean language sql immutable return true;
"""
RENAMES = (
    """
    alter function lair.f(text[]) rename to h;
    alter function lair.g(lair.tag[]) rename to f;
    """,
    """
    alter function lair.f(lair.tag[]) rename to g;
    alter function lair.h(text[]) rename to f;
    """,
)
NODES = json.dumps([{"name": "a", "kind": "router"}, {"name": "b", "kind": "router"}])
EDGES = json.dumps([{"from": "a", "to": "b", "condition": "lair.f('{urgent}')"}])


@pytest.mark.slow
def test_a_table_that_is_exchanged_while_a_condition_is_compiled_executes_nothing(
    conn: psycopg.Connection, eve: Eve
) -> None:
    """Its column gets another type after the constant beside it was judged."""
    tables = "".join(
        f"create table {schema}.t (id int primary key, tags {type_}[], {WIDE});"
        for schema, type_ in (("spy", "text"), ("spy2", "lair.tag"))
    )
    conn.execute(f"set role {eve.name}; {TABLES} {tables} reset role".encode())
    conn.execute(
        "insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake')"
    )
    with eve.exchanging([SCHEMAS]):
        for _ in range(60):
            with suppress(psycopg.Error), conn.transaction(force_rollback=True):
                conn.execute(ATTACH.encode())
            assert not is_taken(conn)


@pytest.mark.slow
def test_a_function_that_is_exchanged_while_an_edge_is_compiled_executes_nothing(
    conn: psycopg.Connection, eve: Eve
) -> None:
    """Its owner needs no other right than to own what the edge calls."""
    conn.execute(f"set role {eve.name}; {TABLES} {FUNCTIONS} reset role".encode())
    with eve.exchanging(RENAMES):
        for _ in range(100):
            with suppress(psycopg.Error), conn.transaction(force_rollback=True):
                conn.execute("select agent.create_workflow('w', %s, %s)", [NODES, EDGES])
            assert not is_taken(conn)
