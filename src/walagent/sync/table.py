"""A table as shapes need it: its columns, its key, and how its rows are written."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from math import isfinite, isnan
from typing import Any, Final

import orjson
from psycopg import AsyncConnection
from psycopg.postgres import types as registry

from walagent.domain.change import Row, Value
from walagent.message import Json
from walagent.postgres import pgtypes
from walagent.replication.sinks import Table
from walagent.store.queries import query

_TABLE: Final = """
select c.oid::int8, n.nspname, c.relname, c.relkind::text, c.relrowsecurity, c.relreplident::text,
       has_table_privilege(c.oid, 'select'),
       c.relreplident <> 'i' or coalesce(
           (select (i.indkey::int2[])[0:i.indnkeyatts - 1]
                   @> (p.indkey::int2[])[0:p.indnkeyatts - 1]
              from pg_catalog.pg_index i join pg_catalog.pg_index p on p.indrelid = i.indrelid
             where i.indrelid = c.oid and i.indisreplident and p.indisprimary), true),
       c.relispartition, c.relpersistence::text
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where n.nspname = %s and c.relname = %s
"""
_COLUMNS: Final = """
select a.attname, t.oid::int8, coalesce(e.typname, t.typname),
       case when e.oid is null then 0 else greatest(a.attndims, 1) end,
       a.attnotnull, array_position((i.indkey::int2[])[0:i.indnkeyatts - 1], a.attnum) - 1,
       a.atttypmod, coalesce(e.typtype, t.typtype) = 'e', coalesce(l.collisdeterministic, true),
       pg_catalog.format_type(a.atttypid, a.atttypmod),
       a.attgenerated <> ''
       and (a.attgenerated = 'v' or current_setting('server_version_num')::int < 180000)
  from pg_catalog.pg_attribute a
       join pg_catalog.pg_type t on t.oid = a.atttypid
       left join pg_catalog.pg_type e on e.oid = t.typelem and t.typcategory = 'A'
       left join pg_catalog.pg_index i on i.indrelid = a.attrelid and i.indisprimary
       left join pg_catalog.pg_collation l on l.oid = a.attcollation
 where a.attrelid = %s and a.attnum > 0 and not a.attisdropped
 order by a.attnum
"""


@dataclass(frozen=True, slots=True)
class ShapeColumn:
    """One column.

    Args:
        type_name: of the elements, if it is an array.
        dims: dimensions of an array; 0: it is none.
        pk_index: position in the primary key, from 0; None: it is not part of it.
    """

    name: str
    type_oid: int
    type_name: str
    dims: int
    not_null: bool
    pk_index: int | None
    typmod: int
    is_enum: bool
    is_deterministic: bool  # equal means the same bytes
    sql_type: str  # with its schema, if it is not built in

    @property
    def schema(self) -> Mapping[str, Json]:
        """Describe it, as the header electric-schema does."""
        found: dict[str, Json] = {"type": self.type_name}
        if self.dims:
            found["dims"] = self.dims
        if self.not_null:
            found["not_null"] = True
        if self.pk_index is not None:
            found["pk_index"] = self.pk_index
        return {**found, **_modifiers(self.type_name, self.typmod)}


def _modifiers(name: str, typmod: int) -> Mapping[str, Json]:
    """Return what a type modifier says.  Source: PostgreSQL's typmod input functions."""
    if typmod < 0:
        return {}
    match name:
        case "varchar":
            return {"max_length": typmod - 4}
        case "bpchar":
            return {"length": typmod - 4}
        case "numeric":
            scale = (typmod - 4) & 0x7FF
            return {"precision": (typmod - 4) >> 16, "scale": (scale ^ 1024) - 1024}
        case "time" | "timetz" | "timestamp" | "timestamptz":
            return {"precision": typmod}
        case "bit" | "varbit":
            return {"length" if name == "bit" else "max_length": typmod}
        case _:
            return {}


@dataclass(frozen=True)
class ShapeTable:
    """A table of the database.

    Args:
        identity: pg_class.relreplident.
        identity_has_key: whether the identity includes the primary key, if that is an index.
        is_partition: whether its changes are sent as those of another table.
        is_logged: whether its changes are in the WAL.
        left_out: columns whose values the server does not send: generated ones.
    """

    oid: int
    schema: str
    name: str
    columns: Sequence[ShapeColumn]
    has_policies: bool
    identity: str
    is_partitioned: bool = False
    identity_has_key: bool = True
    is_partition: bool = False
    is_logged: bool = True
    left_out: frozenset[str] = frozenset()

    @cached_property
    def relation(self) -> tuple[str, str]:
        """Return its schema and name."""
        return self.schema, self.name

    @cached_property
    def key(self) -> Sequence[str]:
        """Return the columns of the key: the primary key, or all columns by name."""
        found = sorted((c.pk_index, c.name) for c in self.columns if c.pk_index is not None)
        return [name for _, name in found] or sorted(column.name for column in self.columns)

    @cached_property
    def has_key(self) -> bool:
        """Return whether there is a primary key."""
        return any(column.pk_index is not None for column in self.columns)

    @cached_property
    def never_null(self) -> frozenset[str]:
        """Return the columns that have no NULL."""
        return frozenset(column.name for column in self.columns if column.not_null)

    @cached_property
    def prefix(self) -> str:
        """Return how keys of its rows begin."""
        return f'"{_name(self.schema)}"."{_name(self.name)}"'

    def key_of(self, values: Mapping[str, str | None]) -> str:
        """Return the key of a row, from the texts of its values."""
        return self.prefix + "".join(key_part(values[name]) for name in self.key)

    @cached_property
    def writers(self) -> Mapping[str, Callable[[Any], str]]:
        """Return what writes the values of each column as PostgreSQL does."""
        return {column.name: writer_of(column.type_oid) for column in self.columns}

    def texts(self, row: Row, only: frozenset[str] | None = None) -> dict[str, str | None]:
        """Return the values that were sent, as PostgreSQL writes them."""
        writers = self.writers
        return {
            name: None if value is None else writers[name](value)
            for name, value in row.items()
            if name in writers and (only is None or name in only) and not _is_unsent(value)
        }


def _is_unsent(value: Value) -> bool:
    return value.__class__ not in _SENT


# Below and from which PostgreSQL writes an exponent.
_LEAST_EXPONENT: Final = -4
_FIRST_EXPONENTS: Final = {pgtypes.FLOAT4: 6, pgtypes.FLOAT8: 15}
_SENT: Final = frozenset({int, float, Decimal, bool, str, type(None)})


def _name(text: str) -> str:
    return text.replace('"', '""').replace("/", "//").replace(".", "..")


def key_part(value: str | None) -> str:
    """Return the part of a key that is one value."""
    return "/_" if value is None else f'/"{value.replace("/", "//")}"'


def writer_of(type_oid: int) -> Callable[[Any], str]:
    """Return what writes a value of a type as PostgreSQL's output function does."""
    if type_oid == pgtypes.BOOL:
        return lambda value: "t" if value else "f"
    if (first := _FIRST_EXPONENTS.get(type_oid)) is not None:
        return partial(_float, first=first)
    if type_oid == pgtypes.NUMERIC:
        return _numeric
    return str


def _numeric(value: Decimal) -> str:
    if value.is_finite():
        return format(value, "f")
    return "NaN" if value.is_nan() else "Infinity" if value > 0 else "-Infinity"


def _float(value: float, first: int) -> str:
    """Write the shortest digits that give *value* again, in PostgreSQL's form.

    Args:
        first: the least power of ten that is written as an exponent.

    Source: PostgreSQL's d2s.c and f2s.c.
    """
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    if not any(digits):
        return "-0" if sign else "0"
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + int(exponent) - 1  # the exponent in scientific notation
    if not _LEAST_EXPONENT <= point < first:
        mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
        body = f"{mantissa}e{'-' if point < 0 else '+'}{abs(point):02d}"
    elif point < 0:
        body = "0." + "0" * (-point - 1) + text
    elif len(text) <= point + 1:
        body = text + "0" * (point + 1 - len(text))
    else:
        body = f"{text[: point + 1]}.{text[point + 1 :]}"
    return ("-" if sign else "") + body


def schema_header(table: ShapeTable, columns: Sequence[str]) -> str:
    """Return the header electric-schema for some columns."""
    found = {c.name: c.schema for c in table.columns if c.name in set(columns)}
    return orjson.dumps(found).decode()


def query_schema(types: Mapping[str, int], key: Sequence[str]) -> str:
    """Return the header electric-schema for the columns of a query, by the OIDs of their types."""
    found: dict[str, dict[str, Json]] = {}
    for name, oid in types.items():
        element = pgtypes.element_of(oid)
        known = registry.get(element or oid)
        found[name] = {"type": "text" if known is None else known.name}
        if element:
            found[name]["dims"] = 1
        if name in key:
            found[name] |= {"pk_index": key.index(name), "not_null": True}
    return orjson.dumps(found).decode()


class NoSuchTableError(LookupError):
    """There is no such table for this login."""


async def read_table(conn: AsyncConnection[Any], schema: str, name: str) -> ShapeTable:
    """Read a table from the catalog.

    Raises:
        NoSuchTableError: it does not exist, is no table, or cannot be read.
    """
    row = await (await conn.execute(_TABLE, (schema, name))).fetchone()
    if row is None or row[3] not in {"r", "p"} or not row[6]:
        raise NoSuchTableError(f"{schema}.{name}")
    oid, schema, name, kind, has_policies, identity, _, has_key, is_partition, stored = row
    found = await (await conn.execute(_COLUMNS, (oid,))).fetchall()
    return ShapeTable(
        oid,
        schema,
        name,
        tuple(ShapeColumn(*each[:10]) for each in found if not each[10]),
        has_policies,
        identity,
        is_partitioned=kind == "p",
        identity_has_key=has_key,
        is_partition=is_partition,
        is_logged=stored == "p",
        left_out=frozenset(each[0] for each in found if each[10]),
    )


Marks = Mapping[Table, str]


async def read_marks(conn: AsyncConnection[Any], tables: Collection[Table]) -> Marks:
    """Return a mark of each table that exists; another one means another table, for this login.

    It covers columns and their types, keys and identity, files (a rewrite, TRUNCATE), partitions,
    row-level security, and what the login may read.  Only catalogs are read.
    """
    names = {"schemas": [each[0] for each in tables], "names": [each[1] for each in tables]}
    cursor = await conn.execute(query("table_marks"), names)
    return {(schema, name): mark for schema, name, mark in await cursor.fetchall()}
