"""Puts the shop into an empty database, and makes a role that may read it and nothing else."""

from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from evals.shop.rows import the_shop

SCHEMA = Path(__file__).with_name("schema.sql")


async def load_shop(conn: AsyncConnection[Any]) -> int:
    """Make the tables and fill them, in one transaction; give the number of rows."""
    loaded = 0
    async with conn.transaction():
        await conn.execute(SCHEMA.read_bytes())
        for name, rows in the_shop().tables():
            statement = sql.SQL("copy {} from stdin").format(sql.Identifier(name))
            async with conn.cursor().copy(statement) as copy:
                for row in rows:
                    await copy.write_row([_adapted(value) for value in row])
            loaded += len(rows)
    await conn.execute("analyze")
    return loaded


async def make_analyst(conn: AsyncConnection[Any], role: str) -> None:
    """Make the role whose rights the model's statements have."""
    await conn.execute(
        sql.SQL(
            "create role {role};"
            " grant usage on schema public to {role};"
            " grant select on all tables in schema public to {role};"
            " grant {role} to current_user"
        ).format(role=sql.Identifier(role))
    )


def _adapted(value: object) -> object:
    return Jsonb(value) if isinstance(value, dict) else value
