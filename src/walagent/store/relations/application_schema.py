"""The application's schema: as a role can read it, and as the schema index stores it."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import AsyncConnection
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from walagent.store.queries import query

Connection = AsyncConnection[Any]
Table = Mapping[str, Any]
ColumnName = tuple[str, str, str]  # schema, table, column


async def read_fingerprint(
    conn: Connection, schemas: Sequence[str] | None = None
) -> tuple[str, str]:
    """Return the current role and a fingerprint that changes with its schema.

    Args:
        schemas: only these; None: all except those of the server and of walagent.
    """
    cursor = await conn.execute(query("schema_fingerprint"), {"schemas": _list(schemas)})
    role, fingerprint = await cursor.fetchone() or ("", "")
    return role, fingerprint


async def read_schema(conn: Connection, schemas: Sequence[str] | None = None) -> list[Table]:
    """Read tables and views: columns, keys, references, checks, enum values, comments.

    Args:
        schemas: as for `read_fingerprint`.
    """
    cursor = await conn.execute(query("read_schema"), {"schemas": _list(schemas)})
    return [document for (document,) in await cursor.fetchall()]


async def read_common_values(
    conn: Connection, places: Sequence[ColumnName], *, distinct: int, values: int
) -> dict[tuple[str, str], Sequence[str] | None]:
    """Read common values of columns with few distinct values, from the server's statistics.

    Args:
        distinct: the most distinct values of a column.
        values: the most values that are returned, the most common first.

    Returns:
        For each column with statistics, by the table's `schema.name` and its own; None if it has
        more values, or each value occurs once.
    """
    schemas, tables, columns = zip(*places, strict=True) if places else ((), (), ())
    parameters = {
        "schemas": list(schemas),
        "tables": list(tables),
        "columns": list(columns),
        "distinct": distinct,
        "values": values,
    }
    cursor = await conn.execute(query("common_values"), parameters)
    return {(table, name): found for table, name, found in await cursor.fetchall()}


async def load_index(conn: Connection, role: str, fingerprint: str) -> list[Table]:
    """Load the index of a role and fingerprint, unless it is a day old; [] if there is none."""
    cursor = await conn.execute(
        "select t.description from agent_internal.schema_index i"
        " join agent_internal.schema_table t using (tenant, owner, role)"
        " where i.tenant = agent.current_tenant()"
        " and i.owner = agent.current_principal() and i.role = %(role)s"
        " and i.fingerprint = %(fingerprint)s"
        " and i.read_at > agent_internal.now() - interval '1 day' order by t.name",
        {"role": role, "fingerprint": fingerprint},
    )
    return [document for (document,) in await cursor.fetchall()]


async def keep_index(
    conn: Connection, role: str, fingerprint: str, tables: Sequence[Table]
) -> None:
    """Replace the index of a role; call it in a transaction."""
    names = [f"{table['schema']}.{table['name']}" for table in tables]
    await conn.execute(
        "insert into agent_internal.schema_index (role, fingerprint)"
        " values (%(role)s, %(fingerprint)s)"
        " on conflict (tenant, owner, role)"
        " do update set fingerprint = excluded.fingerprint, read_at = agent_internal.now()",
        {"role": role, "fingerprint": fingerprint},
    )
    await conn.execute(
        "delete from agent_internal.schema_table"
        " where tenant = agent.current_tenant()"
        " and owner = agent.current_principal() and role = %(role)s and name <> all (%(names)s)",
        {"role": role, "names": names},
    )
    await conn.execute(
        "insert into agent_internal.schema_table as t (role, name, description)"
        " select %(role)s, name, description"
        " from unnest(%(names)s::text[], %(tables)s::jsonb[]) as x (name, description)"
        " on conflict (tenant, owner, role, name) do update set description = excluded.description"
        " where t.description is distinct from excluded.description",
        {"role": role, "names": names, "tables": [Jsonb(table) for table in tables]},
    )


async def vector_schema(conn: Connection) -> str | None:
    """Return the schema of pgvector; None if it is not installed, or not safe to call by name."""
    cursor = await conn.execute(
        "select (pg_catalog.parse_ident(agent_internal.schema_of_extension('vector')))[1]"
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def embedded_texts(conn: Connection, role: str) -> dict[str, str]:
    """Return for each table with a vector the digest of the embedded text."""
    cursor = await conn.execute(
        "select name, vector_of from agent_internal.schema_table"
        " where tenant = agent.current_tenant()"
        " and owner = agent.current_principal() and role = %(role)s and vector is not null",
        {"role": role},
    )
    return dict(await cursor.fetchall())


async def keep_vectors(
    conn: Connection, role: str, rows: Sequence[tuple[str, str, Sequence[float]]]
) -> None:
    """Store vectors of tables: name, digest of the embedded text, vector."""
    async with conn.cursor() as cursor:
        await cursor.executemany(
            "update agent_internal.schema_table set vector = %(vector)s, vector_of = %(digest)s"
            " where tenant = agent.current_tenant()"
            " and owner = agent.current_principal() and role = %(role)s and name = %(name)s",
            [
                {"role": role, "name": name, "digest": digest, "vector": list(vector)}
                for name, digest, vector in rows
            ],
        )


async def nearest_tables(
    conn: Connection, role: str, vector: Sequence[float], most: int
) -> list[str]:
    """Return the names of the tables whose vectors are nearest to *vector*, in order.

    None if pgvector was removed meanwhile, or there are no vectors.
    """
    if (where := await vector_schema(conn)) is None:
        return []
    statement = SQL(
        "select name from agent_internal.schema_table"
        " where tenant = agent.current_tenant()"
        " and owner = agent.current_principal() and role = %(role)s and vector is not null"
        " order by vector::{0}.vector operator({0}.<=>) %(vector)s::real[]::{0}.vector, name"
        " limit %(most)s"
    )
    cursor = await conn.execute(
        statement.format(Identifier(where)), {"role": role, "vector": list(vector), "most": most}
    )
    return [name for (name,) in await cursor.fetchall()]


def _list(schemas: Sequence[str] | None) -> list[str] | None:
    return None if schemas is None else list(schemas)
