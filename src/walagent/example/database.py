"""Prepare the database of an example: its SQL, and the model of its agents."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection
from psycopg.sql import SQL, Identifier, Literal

from walagent.demo.model import ModelChoice, register_model
from walagent.errors import PreconditionError
from walagent.store.sessions.connections import RENEW, connect

Connection = AsyncConnection[Any]

_SCRIPTS = ("schema.sql", "agents.sql", "web.sql")
_CAST = ("sarah", "jerry", "frankie")


def scripts() -> Traversable:
    """Return the folder of the example's SQL, in the installed package or in the checkout.

    Raises:
        PreconditionError: this installation has none.
    """
    package = files("walagent")
    checkout = Path(__file__).parents[3]
    for folder in (package.joinpath("examples", "burn"), checkout.joinpath("examples", "burn")):
        if folder.joinpath("schema.sql").is_file():
            return folder
    raise PreconditionError(
        "the files of the example are missing from this installation",
        hint="Install walagent again.",
    )


async def create_database(dsn: str, name: str) -> None:
    """Create a database of the embedded server, unless it exists."""
    async with await connect(dsn, application="walagent example") as conn:
        found = await conn.execute("select from pg_database where datname = %s", [name])
        if not found.rowcount:
            await conn.execute(SQL("create database {}").format(Identifier(name)))


async def prepare(conn: Connection, model: ModelChoice) -> None:
    """Install the example once, and let its agents use the model.

    Raises:
        ConfigError, PreconditionError, ModelUnauthorizedError: the model cannot be used.
    """
    spec = await register_model(conn, model)
    async with conn.transaction():
        cursor = await conn.execute("select to_regnamespace('burn') is not null")
        if (row := await cursor.fetchone()) and row[0]:
            change = "update agent.agent set model = %s where name = any (%s) and model <> %s"
            await conn.execute(change, [spec.name, list(_CAST), spec.name])
            return
        # The scripts set a path, as for psql, and names in them are found by it.
        await conn.execute("set walagent.search_path = ''")
        quoted = Literal(spec.name).as_string(conn)
        for name in _SCRIPTS:
            text = scripts().joinpath(name).read_text("utf-8")
            await conn.execute(text.replace(":'model'", quoted).encode())
        await conn.execute(f"reset all; select {RENEW}".encode())
