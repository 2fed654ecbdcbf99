"""The guard: what could write, lock, wait, read files or call out is refused; the rest runs."""

import asyncio
import contextlib
import re
import time

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, rows, run_all, value
from tests.helpers.guard import TRACES, statements
from walagent.errors import PreconditionError, StatementRefusedError
from walagent.guard.analysis import Allowlist
from walagent.guard.query import Guard
from walagent.guard.read_limits import ReadLimits
from walagent.guard.redact import without_values
from walagent.guard.role import check_login, check_role

FAR = "create foreign data wrapper far; create server away foreign data wrapper far;"


async def test_what_could_do_harm_is_refused(
    reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """However it is spelled; and nothing of it has happened when it is refused."""
    guard = Guard(reader)
    before = await rows(conn, TRACES)
    accepted: list[str] = []
    for text in statements("hostile.sql"):
        try:
            await guard.evaluate(text)
        except StatementRefusedError:
            continue
        accepted.append(text)
    assert accepted == []
    assert await rows(conn, TRACES) == before


async def test_a_letter_that_looks_like_a_space_does_not_hide_a_type(
    reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """To PostgreSQL, a no-break space is a letter of a name or of a dollar quote's tag."""
    before = await rows(conn, TRACES)
    for text in ("select varchar\u00a0 '(x)'", "select $\u00a0$(x)$\u00a0$::holder"):
        with pytest.raises(StatementRefusedError):
            await Guard(reader).evaluate(text)
    assert await rows(conn, TRACES) == before


@pytest.mark.slow
async def test_honest_questions_are_answered(reader: AsyncConnection) -> None:
    """Analytics of every kind, and the catalog."""
    guard = Guard(reader)
    refused: dict[str, str] = {}
    for text in statements("honest.sql"):
        try:
            await guard.read(text)
        except StatementRefusedError as error:
            refused[text] = str(error)
    assert refused == {}


async def test_policies_hold(reader: AsyncConnection) -> None:
    """Row security is of the reader, and the statement has no way to change what it rests on."""
    found = await Guard(reader).read("select word from secret")
    assert list(found) == [("mine",)]


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("make", "says"),
    [
        ("alter role {0} superuser", "SUPERUSER"),
        ("alter role {0} bypassrls", "BYPASSRLS"),
        ("alter role {0} replication", "REPLICATION"),
        ("alter role {0} createrole", "CREATEROLE"),
        ("grant insert on customer to {0}", "can write to public.customer"),
        ("grant update (name) on customer to {0}", "can write to public.customer"),
        ("grant truncate on invoice to {0}", "can write to public.invoice"),
        ("grant insert on unpaid to {0}", "can write to public.unpaid"),
        ("grant usage on sequence trace to {0}", "can advance sequence public.trace"),
        ("alter table written owner to {0}", "owns public.written"),
        ("alter function closes() owner to {0}", r"owns function public.closes\(\)"),
        ("grant trigger on customer to {0}", "TRIGGER on public.customer"),
        (FAR + "grant usage on foreign server away to {0}", "USAGE on foreign server away"),
        ("grant create on schema public to {0}", "CREATE on schema public"),
        ("grant pg_write_all_data to {0}", "pg_write_all_data"),
        ("grant pg_read_server_files to {0}", "pg_read_server_files"),
        ("revoke temporary on database {1} from public", "TEMPORARY"),
    ],
)
async def test_a_role_that_could_write_is_refused(
    reader: AsyncConnection, conn: AsyncConnection, make: str, says: str
) -> None:
    """By the name of what it could do."""
    names = (reader.info.user, conn.info.dbname)
    await run_all(conn, make.format(*names))
    with pytest.raises(PreconditionError, match=says) as caught:
        await check_role(reader)
    assert caught.value.hint
    assert not re.search(r"revoke .* from (?!public)|alter role", caught.value.hint)
    said = await rows(conn, "select * from agent_internal.writing_rights(%s)", names[0])
    assert any(re.search(says, str(reason)) for reason, _ in said)
    assert not any(re.search(r"revoke .* from (?!public)|alter role", str(fix)) for _, fix in said)


async def test_maintain_is_a_right_to_write(reader: AsyncConnection, conn: AsyncConnection) -> None:
    """It locks tables; PostgreSQL 17 and newer have it."""
    if conn.info.server_version < 170000:
        pytest.skip("this server has no MAINTAIN")
    await run_all(conn, f"grant maintain on customer to {reader.info.user}")
    with pytest.raises(PreconditionError, match=r"MAINTAIN on public\.customer"):
        await check_role(reader)


async def test_a_member_of_a_role_that_writes_is_refused(
    reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """Also where the login does not inherit: it could still take the role on."""
    me = reader.info.user
    await run_all(
        conn,
        f"create role {me}_w; alter table written owner to {me}_w; alter role {me} noinherit;"
        f"grant {me}_w to {me}",
    )
    with pytest.raises(PreconditionError, match=r"owns public\.written"):
        await check_role(reader)
    await run_all(conn, f"alter table written owner to current_user; drop role {me}_w")


async def test_what_an_operator_allows_is_allowed(reader: AsyncConnection) -> None:
    """A function by its signature; relations, when they are listed, and no others."""
    allowed = Allowlist(functions={"spring_immutable(text)"}, relations={"public.customer"})
    guard = Guard(reader, allowed=allowed)
    await guard.evaluate("select spring_immutable(name) from customer")
    with pytest.raises(StatementRefusedError, match=r"spring\(text\)"):
        await guard.evaluate("select spring(name) from customer")
    with pytest.raises(StatementRefusedError, match="invoice must not be read"):
        await guard.evaluate("select * from invoice")


@pytest.mark.parametrize(
    "listed",
    [
        "spring_immutable(text)",
        "public.spring_immutable(text)",
        "public.spring_immutable",
        "public.*",
    ],
)
async def test_a_listed_function_is_allowed(reader: AsyncConnection, listed: str) -> None:
    """By name, arguments or schema; its connection, where it can leave traces, is closed."""
    guard = Guard(reader, allowed=Allowlist(functions=[listed]))
    with pytest.raises(StatementRefusedError):
        await Guard(reader).evaluate("select spring_immutable('x')")
    with pytest.raises(StatementRefusedError):
        await guard.evaluate("select shadow.lower('x')")
    with pytest.raises(StatementRefusedError, match="trace"):
        await guard.read("select spring_immutable(name) from customer")
    assert reader.closed


async def test_functions_of_extensions(reader: AsyncConnection, conn: AsyncConnection) -> None:
    """Trusted ones are judged like others; an operator lists another one by its name."""
    honest = {
        "citext": "select replace(name::citext, 'A', 'b') from customer",
        "earthdistance": "select earth_distance(ll_to_earth(1, 2), ll_to_earth(3, 4)),"
        " point(1, 2) <@> point(3, 4)",
        "uuid-ossp": "select uuid_generate_v4()",
        "pgcrypto": "select length(gen_random_bytes(8)), digest(name, 'sha256') from customer",
        "isn": "select isbn '9780393040029'",
    }
    hostile = {"isn": "select isn_weak(true)", "tablefunc": "select normal_rand(1, 2, 3)"}
    there = set(await column(conn, "select name from pg_available_extensions"))
    guard = Guard(reader)
    for name in sorted({*honest, *hostile} & there):
        await run_all(conn, f'create extension "{name}" cascade')
        if name in honest:
            await guard.read(honest[name])
        if name in hostile:
            with pytest.raises(StatementRefusedError):
                await guard.read(hostile[name])
    if "tablefunc" not in there:
        return
    listed = Guard(reader, allowed=Allowlist(functions=["extension tablefunc"]))
    await listed.read("select normal_rand(1, 2, 3)")
    assert not reader.closed


async def test_an_extension_is_listed_with_its_compiled_functions_alone(
    reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """If the login can write; what is not compiled could reset the role to it."""
    await run_all(conn, "alter extension plpgsql add function spring_immutable(text)")
    functions = ["extension plpgsql"]
    part = Guard(reader, allowed=Allowlist(functions, compiled_only=True))
    with pytest.raises(StatementRefusedError, match="could reset the role"):
        await part.read("select spring_immutable(name) from customer")
    with pytest.raises(StatementRefusedError, match="trace"):
        await Guard(reader, allowed=Allowlist(functions)).read(
            "select spring_immutable(name) from customer"
        )
    assert reader.closed


async def test_a_listed_function_needs_a_login_that_only_reads(
    reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """It could reset the role to the login."""
    await check_login(reader)
    with pytest.raises(PreconditionError, match=r"login.*SUPERUSER"):
        await check_login(conn)


async def test_rows_and_values_are_bounded(reader: AsyncConnection) -> None:
    """What was left out is said, and types are kept."""
    guard = Guard(reader, limits=ReadLimits(rows=10, cell=20))
    found = await guard.read("select id, repeat('x', 1000000) as long from customer order by id")
    assert len(found.values) == 10
    assert found.values[0] == (1, "x" * 20 + "…")
    assert list(found.cut) == ["only the first 10 rows", "long values of long"]
    guard = Guard(reader, limits=ReadLimits(total=1000))
    found = await guard.read("select repeat('x', 300) from customer")
    assert len(found.values) == 3
    assert "large" in found.cut[0]
    assert (await guard.read("select count(*) from customer")).values == [(60,)]


async def test_an_expensive_statement_is_refused_before_it_runs(reader: AsyncConnection) -> None:
    """By the planner's estimate, and by time where that was wrong."""
    with pytest.raises(StatementRefusedError, match="estimated cost"):
        await Guard(reader).read("select * from visit a, visit b, visit c, visit d, visit e")
    guard = Guard(reader, limits=ReadLimits(seconds=0.2))
    with pytest.raises(StatementRefusedError, match="statement timeout") as caught:
        await guard.read("select count(*) from generate_series(1, 200000000)")
    assert caught.value.sqlstate == "57014"


async def test_a_table_that_is_locked_is_not_waited_for(
    reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """The application's lock comes first."""
    guard = Guard(reader, limits=ReadLimits(lock_seconds=0.1))
    async with conn.transaction():
        await run_all(conn, "lock table customer in access exclusive mode")
        with pytest.raises(StatementRefusedError, match="lock timeout"):
            await guard.read("select * from customer")


async def test_an_error_quotes_no_row(reader: AsyncConnection) -> None:
    """PostgreSQL's sentence and place are told, its detail is not."""
    with pytest.raises(StatementRefusedError, match="does not exist") as caught:
        await Guard(reader).evaluate("select nonsense from customer")
    assert (caught.value.sqlstate, caught.value.position) == ("42703", 8)


async def test_the_session_is_as_before(reader: AsyncConnection, conn: AsyncConnection) -> None:
    """No view, no transaction, no setting is left."""
    guard = Guard(reader)
    await guard.read("select 1")
    with pytest.raises(StatementRefusedError):
        await guard.read("drop table customer")
    assert await value(reader, "select current_setting('statement_timeout')") == "0"
    assert await value(conn, "select count(*) from pg_class where relname = 'walagent_guard'") == 0
    await guard.read("select 1")


def nested(depth: int) -> str:
    """A subquery in a subquery, and so on."""
    text = "select 1 as a"
    for n in range(depth):
        text = f"select (select max(a) from ({text}) q{n}) as a"
    return text


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "text",
    [
        nested(600),
        "select " + "+".join(["1"] * 45_000),
        "select * from (values "
        + ",".join(["(1)"] * 20_000)
        + ") v where "
        + " or ".join(["column1 = 2"] * 800),
    ],
)
async def test_a_large_statement_blocks_nothing(reader: AsyncConnection, text: str) -> None:
    """It is refused or accepted, and meanwhile other tasks run."""
    longest = last = 0.0

    async def watch() -> None:
        nonlocal longest, last
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()

    watching = asyncio.create_task(watch())
    with contextlib.suppress(StatementRefusedError):
        await Guard(reader).evaluate(text)
    watching.cancel()
    assert longest < 3  # on a busy machine, this task itself waits for a second


async def test_deep_nesting_is_refused(reader: AsyncConnection) -> None:
    """And the error is one for its author."""
    with pytest.raises(StatementRefusedError):
        await Guard(reader).evaluate(nested(3000))


async def test_no_row_is_quoted_to_a_model(reader: AsyncConnection) -> None:
    """An error of any class can quote one while a statement is executed."""
    for text in (
        "select name::regclass from customer",
        "select name::regtype from customer",
        "select to_tsvector(name::regconfig, 'x') from customer",
        "select has_table_privilege(name, 'select') from customer",
        "select name::int from customer",
        "select (name || '()')::regprocedure from customer",
        "select pg_get_serial_sequence(name, 'x') from customer",
        "select jsonb_path_query(profile, ('$.' || name)::jsonpath) from customer",
    ):
        with pytest.raises(StatementRefusedError) as caught:
            await Guard(reader).read(text)
        assert "customer 1" not in without_values(caught.value).replace('"customer"', "")
    with pytest.raises(StatementRefusedError) as caught:
        await Guard(reader).read("select nonsense from customer")
    assert "nonsense" in without_values(caught.value)


async def test_hidden_rows_are_not_counted(reader: AsyncConnection, conn: AsyncConnection) -> None:
    """By EXPLAIN ANALYZE of a table with policies, or by statistics of an unreadable table."""
    guard = Guard(reader)
    for text in (
        "explain analyze select * from secret",
        "explain (analyze, costs off) table secret",
    ):
        with pytest.raises(StatementRefusedError, match="policy"):
            await guard.read(text)
    await guard.read("explain select * from secret")
    await guard.read("explain (analyze off) select * from customer")
    counts = (
        "select n_live_tup from pg_stat_user_tables",
        "select reltuples from pg_class",
        "select * from pg_class",
    )
    for text in counts:
        await guard.evaluate(text)
    await run_all(conn, f"revoke select on written from {reader.info.user}")
    for text in counts:
        with pytest.raises(StatementRefusedError, match="written"):
            await guard.evaluate(text)
    await guard.evaluate("select relname from pg_class")


async def test_the_limit_of_cost_names_its_setting(reader: AsyncConnection) -> None:
    """So that an operator finds it."""
    limits = ReadLimits(cost=1, cost_setting=" (ask.cost)")
    with pytest.raises(StatementRefusedError, match=r"ask\.cost"):
        await Guard(reader, limits=limits).read("select * from customer")
