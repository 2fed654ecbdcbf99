"""Check a statement through the rule that PostgreSQL stores for it.

The server parses the statement first in a read-only transaction, then as a view, in a transaction
that is rolled back.  Converting a literal can already run a user's function, and its type can be
changed at any moment: both are done with NULL in place of the literals, as are bodies of functions.
The view's stored rule identifies each function, operator, type and relation by OID, however the
text spells it.  Views inside it and CHECK constraints of domains are analyzed in the same way.

Not checked: row level security policies and masking rules of the administrator, which PostgreSQL
adds when the statement runs.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from walagent.errors import StatementRefusedError
from walagent.guard import allowlist
from walagent.guard.keywords import against_keywords, read_keywords
from walagent.guard.literals import Template, split_literals
from walagent.guard.parsing import (
    ask_server,
    is_visible,
    on_path,
    rule_of,
    schemas_of,
    typed,
)
from walagent.guard.references import read_references
from walagent.guard.size import UnreadLiteralError
from walagent.postgres import pgtypes
from walagent.store.queries import query
from walagent.store.relations.table_code import Moment, code_of_strangers

Connection = AsyncConnection[Any]

EXTENSION: Final = "extension "  # before the name of one, in a list of functions

_LONG: Final = 20_000  # characters of a rule that is read in a thread; a million take a second
_TYPE_OF: Final = "select pg_catalog.to_regtype(%s)::pg_catalog.oid::bigint"
_BODY: Final = "select prosqlbody::text from pg_proc where oid = 'pg_temp.walagent_body'::regproc"


@dataclass(frozen=True, slots=True)
class Allowlist:
    """What the operator allows in addition: functions, and the readable relations.

    Args:
        functions: a name with its schema, also with arguments as `regprocedure` prints them with an
            empty search_path (`shop.age_of`, `shop.age_of(date)`), all of a schema (`shop.*`), or
            all of an extension (`extension postgis`).
        relations: `schema.name`; None allows every relation that the role can read.
        compiled_only: whether an extension's entry is for its compiled functions alone: others
            could reset the role to a login that can write.
    """

    functions: Collection[str] = ()
    relations: Collection[str] | None = None
    compiled_only: bool = False

    def allows(self, row: Mapping[str, Any]) -> bool:
        """Return whether a function is listed; *row* is of guard_functions."""
        schema, signature = row["schema"], row["signature"]
        names = {signature, f"{schema}.{signature}", f"{schema}.{row['name']}", f"{schema}.*"}
        if not names.isdisjoint(self.functions):
            return True
        return self.lists_extension(row) and (row["compiled"] or not self.compiled_only)

    def names(self, signature: str) -> bool:
        """Return whether a function, with its schema and arguments, is listed itself."""
        return not {signature, signature.partition("(")[0]}.isdisjoint(self.functions)

    def lists_extension(self, row: Mapping[str, Any]) -> bool:
        """Return whether the extension of a function is listed."""
        return bool(row["extension"]) and f"{EXTENSION}{row['extension']}" in self.functions


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """Reasons why a statement might not see all rows.

    Args:
        policies: the relations with row level security in effect, and for which role.
        views: the views that it reads, each of which shows what its definition selects.
        listed: whether it calls functions that the operator has listed, other than compiled ones.
    """

    policies: Sequence[str] = ()
    views: Sequence[str] = ()
    listed: bool = False


async def analyze(
    conn: Connection, template: Template, allowed: Allowlist, path: str
) -> HiddenRows:
    """Check a statement; the caller must roll the transaction back.

    Args:
        template: the statement, no literal of which is converted to a type of others.
        path: the search path of the statement.

    Returns:
        Why rows of the relations that it reads might be hidden.

    Raises:
        StatementRefusedError: it is not a query, or uses something that is not on the allowlist.
    """
    view, rule = await rule_of(conn, template.empty, path)
    evaluate = _RuleChecker(conn, allowed, path, view)
    try:
        await evaluate.look_into(rule, "", literals=template.literals)
    except UnreadLiteralError:  # it depends on which one is where
        text = await typed(conn, template, path)
        view, exact = await rule_of(conn, text, path, again=True)
        evaluate = _RuleChecker(conn, allowed, path, view)
        called = await evaluate.look_into(rule, ""), await evaluate.look_into(exact, "")
        if called[0] != called[1]:
            raise
    await evaluate.check_idle()
    await _check_keywords(conn, template.whole, rule, await schemas_of(conn, path))
    return await evaluate.scope()


async def _check_keywords(conn: Connection, text: str, rule: str, schemas: Sequence[str]) -> None:
    """Refuse keywords that stand for tables or columns."""
    found = read_keywords(rule)
    if not (found.tables or found.columns or found.rows):
        return
    asked = {"names": [*found.tables], "functions": [*found.rows], "schemas": schemas}
    cursor = await conn.execute(query("guard_names"), asked)
    tables: dict[str, str] = {}
    functions: dict[int, str] = {}
    for kind, oid, name, title in await cursor.fetchall():
        if kind == "table":
            tables.setdefault(name, title)
        else:
            functions[oid] = name
    if reason := against_keywords(found, text, tables, functions):
        raise StatementRefusedError(reason)


class _RuleChecker:
    """Checks rules and everything that they refer to, each once."""

    def __init__(self, conn: Connection, allowed: Allowlist, path: str, view: int) -> None:
        self._conn = conn
        self._allowed = allowed
        self._path = path
        self.listed = False  # whether a function that the operator has listed is called
        self._relations = {(view, 0)}  # (relation, role that reads it)
        self._read: dict[tuple[int, int], str] = {}  # the same with names, without views
        self._views: list[str] = []
        self._functions: set[int] = set()
        self._types: set[int] = set()
        self._operators: set[int] = set()
        self._idle: dict[int, list[tuple[dict[str, Any], str]]] = {}  # by family, with the place

    async def look_into(
        self, rule: str, where: str, reader: int = 0, literals: Sequence[str] = ()
    ) -> int:
        """Check a rule; return how many calls in it parse a text as a type that a text names.

        Args:
            where: the object that has the rule, for messages; "" for the statement itself.
            reader: the role that reads the relations; 0: the current role.
            literals: what its NULLs can stand for.
        """
        if len(rule) < _LONG:
            found = read_references(rule, where, literals)
        else:
            found = await asyncio.to_thread(read_references, rule, where, literals)
        names = await self._check_functions(found.functions, found.operators, where)
        if found.counting:
            await self._check_counts(where)
        for name in found.named:
            async with on_path(self._conn, self._path):
                cursor = await self._conn.execute(_TYPE_OF, [name])
            found.types.update(oid for (oid,) in await cursor.fetchall() if oid is not None)
        await self._check_types(found.types, where)
        if found.json or any(map(allowlist.TO_JSON, names)):
            await self._check_values(found.values, "casts", where)
        if found.comparing or any(map(allowlist.COMPARING, names)):
            await self._check_values(found.values, "comparisons", where)
        await self._check_relations(found.relations, where, reader)
        return found.parsing

    async def scope(self) -> HiddenRows:
        """Return why rows might be hidden, once everything is checked.

        Raises:
            StatementRefusedError: planning would execute code of somebody who is not trusted.
        """
        await self._check_planning()
        asked = {
            "relations": [relation for relation, _ in self._read],
            "readers": [reader for _, reader in self._read],
        }
        cursor = await self._conn.execute(query("guard_scope"), asked)
        names = list(self._read.values())
        policies = [
            f"{names[ord_ - 1]}: only rows that {reader} can see (row level security)"
            for ord_, reader in await cursor.fetchall()
        ]
        return HiddenRows(tuple(policies), tuple(dict.fromkeys(self._views)), self.listed)

    async def _check_planning(self) -> None:
        """Refuse code that planning executes, unless its owner could read what is read, too."""
        read = {relation for relation, _ in self._read}
        for code in await code_of_strangers(self._conn, read, Moment.PLANNED):
            if self._allowed.names(code.function or ""):
                continue
            raise StatementRefusedError(
                f"planning a statement on {code.relation} executes {code}, and {code.owner} does"
                " not own it; drop it there, or list the function in ask.functions"
            )

    async def _rows(self, name: str, **parameters: Collection[int]) -> list[dict[str, Any]]:
        async with self._conn.cursor(row_factory=dict_row) as cursor:
            lists = {key: list(oids) for key, oids in parameters.items()}
            return await (await cursor.execute(query(name), lists)).fetchall()

    async def _check_functions(
        self, functions: Collection[int], operators: Collection[int], where: str
    ) -> Collection[str]:
        """Check functions and operators; return the names of the functions in pg_catalog."""
        if not (functions or operators):
            return ()
        rows = await self._rows("guard_functions", functions=functions, operators=operators)
        for row in rows:
            if row["oid"] in self._functions:
                continue
            self._functions.add(row["oid"])
            bare = row["signature"].removeprefix(f"{row['schema']}.")
            if bare in self._allowed.functions and await is_visible(
                self._conn, self._path, row["oid"]
            ):
                row["signature"] = bare
            if reason := self._against_function(row):
                raise StatementRefusedError(f"{where}{reason}")
            if self._is_judged_by_body(row):
                await self._check_body(row, where)
        await self._check_sorting(set(operators) - self._operators, where)
        return [row["name"] for row in rows if row["of_catalog"]]

    async def _check_sorting(self, operators: Collection[int], where: str) -> None:
        """Check what compares or hashes for operators, or keep it for `check_idle`."""
        self._operators.update(operators)
        for row in await self._rows("guard_sorting", operators=operators) if operators else ():
            if row["idle"]:
                self._idle.setdefault(row["family"], []).append((row, where))
            else:
                await self._check_class(row, where)

    async def check_idle(self) -> None:
        """Check the operator classes that only indexes and partition keys of the relations use."""
        if not self._idle:
            return
        asked = {"relations": {oid for oid, _ in self._relations}, "families": self._idle.keys()}
        for found in await self._rows("guard_sorted", **asked):
            for row, where in self._idle.pop(found["family"]):
                await self._check_class(row, where)

    async def _check_class(self, row: dict[str, Any], where: str) -> None:
        try:
            await self._check_functions((row["function"],), (), where)
        except StatementRefusedError as error:
            raise StatementRefusedError(
                f"{error}; {row['class']} calls it, and role {row['owner']} owns it: drop the"
                " operator class, or list the function in ask.functions"
            ) from error

    async def _check_body(self, row: dict[str, Any], where: str) -> None:
        """Check the statements of a function in SQL, as the server analyzes them."""
        inside = f"{where}function {row['signature']}: "
        rule: str = row["rule"]
        literals: Sequence[str] = ()
        if row["rule"] is None:
            template = split_literals(row["source"], parameters=True)
            literals = template.literals
            await self._conn.execute("savepoint body")
            try:
                async with on_path(self._conn, self._path):
                    await ask_server(self._conn, "run", f"{row['head']}{template.empty}\n; end")
                (rule,) = await (await self._conn.execute(_BODY)).fetchone() or ("",)
            except StatementRefusedError as error:
                raise StatementRefusedError(f"{inside}{error}") from error
            finally:
                await self._conn.execute("rollback to body")
        await self.look_into(rule, inside, literals=literals)

    async def _check_values(self, types: Collection[int], code: str, where: str) -> None:
        """Check what is called for the types of values that a function of PostgreSQL is given."""
        if types := [oid for oid in types if oid >= pgtypes.FIRST_OF_USERS]:
            for row in await self._rows("guard_types", types=types):
                await self._check_functions(row[code], (), f"{where}type {row['name']}: ")

    def _against_function(self, row: dict[str, Any]) -> str:
        signature: str = row["signature"]
        if row["range_maker"]:
            return ""
        if self._allowed.allows(row):
            self.listed |= not row["compiled"]
            return ""
        if row["oid"] < pgtypes.FIRST_OF_USERS and row["of_catalog"]:
            return allowlist.against_catalog_function(row)
        if row["extension"] in allowlist.TRUSTED_EXTENSIONS and allowlist.only_computes(row):
            return ""
        if row["readable"]:
            return ""
        if self._allowed.lists_extension(row):
            return f"function {signature} could reset the role to the login, which can write"
        return f"function {signature} is not on the allowlist"

    def _is_judged_by_body(self, row: dict[str, Any]) -> bool:
        of_server = row["oid"] < pgtypes.FIRST_OF_USERS and row["of_catalog"]
        return row["readable"] and not of_server and not self._allowed.allows(row)

    async def _check_types(self, types: Collection[int], where: str = "") -> None:
        """Check the code that building a value of these types can run."""
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
                if row["name"] in allowlist.COUNTING_VIEWS:
                    await self._check_counts(where)
                continue
            if row["kind"] != "v":
                self._read[row["oid"], reader] = f"{row['schema']}.{row['name']}"
                continue
            self._views.append(f"{row['schema']}.{row['name']}")
            inside = f"{where}view {row['title']}: "
            # A security_invoker view is read as the current role, also inside another view.
            await self.look_into(row["rule"], inside, 0 if row["invoker"] else row["owner"])

    async def _check_counts(self, where: str) -> None:
        """Refuse to show numbers of rows if the role may not read every table."""
        for (name,) in await (await self._conn.execute(query("guard_unreadable"))).fetchall():
            raise StatementRefusedError(
                f"{where}numbers of rows of all tables must not be read: {name} is not readable"
            )

    def _against_relation(self, row: dict[str, Any]) -> str:
        schema, name, kind = row["schema"], row["name"], row["kind"]
        listed = self._allowed.relations
        if schema == "pg_catalog":
            harmless = name in allowlist.CATALOGS
        elif schema == "information_schema":
            harmless = name not in allowlist.DENIED_INFORMATION
        elif schema in {"agent", "agent_internal"} or schema.startswith(("pg_toast", "pg_temp")):
            harmless = listed is not None and f"{schema}.{name}" in listed
        elif kind == "f" or row["foreign_parts"]:  # planted: rows-of-elsewhere
            return f"{row['title']} is on another server"
        else:
            harmless = kind in "rpmvS" and (listed is None or f"{schema}.{name}" in listed)
        return "" if harmless else f"{row['title']} must not be read"
