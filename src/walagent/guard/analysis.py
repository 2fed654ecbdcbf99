"""Evaluating a statement by the rule that PostgreSQL itself makes of it.

The server parses the statement twice: first in a read-only transaction, because making a value
from a literal can already run a domain's check; then as a view, in a transaction that is rolled
back.  The view's stored rule holds each function, operator, type and relation by its OID, however
the text spelled it.  Views inside are opened in the same way, and so are the checks of domains.

Not looked at: policies of row level security and masking rules of the administrator's own, which
PostgreSQL adds when the statement runs, not when it is written.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import AsyncConnection, Error, generators
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import dict_row

from walagent import pgtypes
from walagent.errors import StatementRefusedError
from walagent.guard import allowlist
from walagent.guard.querytree import Node, read_nodes
from walagent.guard.statement import Statement
from walagent.rows.rows import Column
from walagent.store.queries import query

Connection = AsyncConnection[Any]

_VIEW: Final = "walagent_guard"
_RULE: Final = """
select ev_class::int8, ev_action::text
  from pg_rewrite where ev_class = 'pg_temp.walagent_guard'::regclass
"""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the operator adds to what is known: functions by signature, and which relations.

    Args:
        functions: as `regprocedure` prints them with an empty search_path: `public.age_of(date)`.
        relations: `schema.name`; None allows whatever the role may read.
    """

    functions: Collection[str] = ()
    relations: Collection[str] | None = None


@dataclass(slots=True)
class _Found:
    """What a stored rule refers to and has not been evaluated yet."""

    functions: set[int] = field(default_factory=set[int])
    operators: set[int] = field(default_factory=set[int])
    types: set[int] = field(default_factory=set[int])
    relations: set[int] = field(default_factory=set[int])


async def describe(conn: Connection, statement: Statement) -> Sequence[Column]:
    """Let the server parse a statement and tell the columns of its answer; nothing is run.

    Call it in a read-only transaction.

    Raises:
        StatementRefusedError: it is no single statement that the server understands, or parsing it
            would already have an effect.
    """
    await _ask(conn, "prepare", statement.text)
    described = await _ask(conn, "describe", "")
    return [
        Column((described.fname(n) or b"").decode(errors="replace"), described.ftype(n))
        for n in range(described.nfields)
    ]


@dataclass(frozen=True, slots=True)
class Scope:
    """Why there may be rows that a statement cannot see.

    Args:
        policies: where row level security is in force, and for whom.
        views: that it reads; each shows what its definition lets through.
    """

    policies: Sequence[str] = ()
    views: Sequence[str] = ()


async def analyse(conn: Connection, statement: Statement, allowed: Allowed) -> Scope:
    """Evaluator a statement; the transaction that this is called in must be rolled back.

    Returns:
        what it can see of the relations that it reads.

    Raises:
        StatementRefusedError: it is no query, or holds something that is not known to be harmless.
    """
    try:
        await _ask(conn, "run", statement.wrapped(f"create temp view {_VIEW} as select"))
    except StatementRefusedError as error:
        if error.sqlstate == "42601":  # syntax: alone it was understood
            raise StatementRefusedError("only a query may run: SELECT, VALUES, TABLE") from error
        raise
    (found,) = await (await conn.execute(_RULE)).fetchall()
    evaluate = _Judge(conn, allowed, found[0])
    await evaluate.look_into(found[1], "")
    return await evaluate.scope()


class _Judge:
    """Goes through rules and all that they lead to, each once."""

    def __init__(self, conn: Connection, allowed: Allowed, view: int) -> None:
        self._conn = conn
        self._allowed = allowed
        self._relations = {(view, 0)}  # each with who reads it
        self._read: dict[tuple[int, int], str] = {}  # the same, without views, as it is called
        self._views: list[str] = []
        self._functions: set[int] = set()
        self._operators: set[int] = set()
        self._types: set[int] = set()

    async def look_into(self, rule: str, where: str, reader: int = 0) -> None:
        """Evaluator a rule.

        Args:
            where: what it is the rule of, for messages; "" for the statement itself.
            reader: with whose rights relations in it are read; 0: the present role.
        """
        found = _Found()
        for node in read_nodes(rule):
            _check_node(node, where)
            found.functions.update(node.numbers(*allowlist.FUNCTION_FIELDS))
            found.operators.update(node.numbers(*allowlist.OPERATOR_FIELDS))
            if node.kind != "VAR":
                found.types.update(node.numbers(*allowlist.TYPE_FIELDS))
            if node.kind in {"RANGETBLENTRY", "RTEPERMISSIONINFO"}:
                found.relations.update(node.numbers("relid"))
        await self._check_functions(found.functions, found.operators, where)
        await self._check_types(found.types, where)
        await self._check_relations(found.relations, where, reader)

    async def scope(self) -> Scope:
        """Say what the statement can see, once all is evaluated."""
        asked = {
            "relations": [relation for relation, _ in self._read],
            "readers": [reader for _, reader in self._read],
        }
        cursor = await self._conn.execute(query("guard_scope"), asked)
        names = list(self._read.values())
        policies = [
            f"{names[ord_ - 1]}: only rows that {reader} may see (row level security)"
            for ord_, reader in await cursor.fetchall()
        ]
        return Scope(tuple(policies), tuple(dict.fromkeys(self._views)))

    async def _rows(self, name: str, **parameters: Collection[int]) -> list[dict[str, Any]]:
        async with self._conn.cursor(row_factory=dict_row) as cursor:
            lists = {key: list(oids) for key, oids in parameters.items()}
            return await (await cursor.execute(query(name), lists)).fetchall()

    async def _check_functions(
        self, functions: Collection[int], operators: Collection[int], where: str
    ) -> None:
        functions = set(functions) - self._functions
        operators = set(operators) - self._operators
        self._functions |= functions
        self._operators |= operators
        if not (functions or operators):
            return
        for row in await self._rows("guard_functions", functions=functions, operators=operators):
            if reason := self._against_function(row):
                raise StatementRefusedError(f"{where}{reason}")

    def _against_function(self, row: dict[str, Any]) -> str:
        signature: str = row["signature"]
        if row["range_maker"] or signature in self._allowed.functions:
            return ""
        if row["oid"] < pgtypes.FIRST_OF_USERS and row["of_catalog"]:
            return _against_catalog_function(row)
        trusted = row["extension"] in allowlist.TRUSTED_EXTENSIONS
        if trusted and (row["aggregate"] or (row["compiled"] and not row["volatile"])):
            return ""
        return f"the function {signature} is not known to be harmless"

    async def _check_types(self, types: Collection[int], where: str) -> None:
        types = set(types) - self._types
        self._types |= types
        if not types:
            return
        for row in await self._rows("guard_types", types=types):
            inside = f"{where}type {row['name']}: "
            await self._check_functions(row["functions"], (), inside)
            for check in row["checks"]:
                await self.look_into(check, inside)

    async def _check_relations(self, relations: Collection[int], where: str, reader: int) -> None:
        fresh = {oid for oid in relations if (oid, reader) not in self._relations}
        self._relations |= {(oid, reader) for oid in fresh}
        if not fresh:
            return
        for row in await self._rows("guard_relations", relations=fresh):
            if reason := self._against_relation(row):
                raise StatementRefusedError(f"{where}{reason}")
            if row["schema"] in {"pg_catalog", "information_schema"}:
                continue
            if row["kind"] != "v":
                self._read[row["oid"], reader] = f"{row['schema']}.{row['name']}"
                continue
            self._views.append(f"{row['schema']}.{row['name']}")
            inside = f"{where}view {row['title']}: "
            # An invoker's view is read as the present role, also inside another view.
            await self.look_into(row["rule"], inside, 0 if row["invoker"] else row["owner"])

    def _against_relation(self, row: dict[str, Any]) -> str:
        schema, name, kind = row["schema"], row["name"], row["kind"]
        listed = self._allowed.relations
        if schema == "pg_catalog":
            harmless = name in allowlist.CATALOGS
        elif schema == "information_schema":
            harmless = name not in allowlist.DENIED_INFORMATION
        elif schema in {"agent", "agent_internal"} or schema.startswith(("pg_toast", "pg_temp")):
            harmless = listed is not None and f"{schema}.{name}" in listed
        elif kind == "f" or row["foreign_parts"]:
            return f"{row['title']} leads to another server"
        else:
            harmless = kind in "rpmvS" and (listed is None or f"{schema}.{name}" in listed)
        return "" if harmless else f"{row['title']} may not be read"


def _check_node(node: Node, where: str) -> None:
    """Refuse what no list of functions and relations would show."""
    if node.kind == "ROWMARKCLAUSE":
        raise StatementRefusedError(f"{where}it locks rows (FOR UPDATE, FOR SHARE)")
    if node.kind not in allowlist.NODES:
        raise StatementRefusedError(f"{where}it uses {node.kind}, which is not known")
    if node.kind == "QUERY" and not node.has("commandType", "1"):
        raise StatementRefusedError(f"{where}it writes")


def _against_catalog_function(row: dict[str, Any]) -> str:
    name, signature = row["name"], row["signature"]
    if name in allowlist.ALLOWED_FUNCTIONS or signature in allowlist.ALLOWED_SIGNATURES:
        return ""
    if name in allowlist.DENIED_FUNCTIONS or name.startswith("pg_") or name.endswith("_validator"):
        return f"the function {signature} may not be called"
    return f"the function {signature} is volatile" if row["volatile"] else ""


async def _ask(conn: Connection, what: str, text: str) -> PGresult:
    """Send one message of the extended protocol, which takes one statement and no more.

    psycopg would send a statement without parameters by the simple protocol, which takes several.
    """
    pgconn = conn.pgconn
    async with conn.lock:
        match what:
            case "prepare":
                pgconn.send_prepare(b"", text.encode())
            case "describe":
                pgconn.send_describe_prepared(b"")
            case _:
                pgconn.send_query_params(text.encode(), None)
        *_, result = await conn.wait(generators.execute(pgconn))
    if result.status == ExecStatus.FATAL_ERROR:
        raise refused_by_server(_error(result, conn))
    return result


def _error(result: PGresult, conn: Connection) -> Error:
    return error_from_result(result, encoding=conn.info.encoding)


def refused_by_server(error: Error) -> StatementRefusedError:
    """Make a refusal of an error; its detail, which may quote rows, stays out."""
    return StatementRefusedError(
        error.diag.message_primary or str(error),
        sqlstate=error.sqlstate,
        position=int(error.diag.statement_position or 0) or None,
    )
