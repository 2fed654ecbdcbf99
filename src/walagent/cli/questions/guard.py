"""`walagent database guard`: check whether untrusted SQL is allowed."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import click
import orjson

from walagent.cli.exit_codes import FAILED
from walagent.cli.session import Where, open_session, where_options
from walagent.cli.terminal.output import json_option, print_json, print_line, say
from walagent.errors import PreconditionError, StatementRefusedError
from walagent.guard.analysis import Allowlist
from walagent.guard.outlet import open_outlet
from walagent.guard.query import Guard
from walagent.guard.role import check_role
from walagent.message import Json
from walagent.store.sessions.roles import set_role


@click.command("guard")
@click.argument("sql", required=False)
@click.option("--role", help="Role whose privileges apply; the login must be a member of it.")
@click.option("--json-lines", is_flag=True, help="Check each line of stdin, a JSON string.")
@json_option()
@where_options
def guard_(
    where: Where, sql: str | None, role: str | None, *, json_lines: bool, as_json: bool
) -> None:
    """Check whether the untrusted statement SQL is allowed, without executing it.

    Without SQL, the statement is read from stdin.  The login, or --role, must be read-only.  The
    exit code is 1 if the statement is refused.
    """
    if json_lines:
        asyncio.run(_evaluate_lines(where, role))
        return
    text = sql if sql is not None else sys.stdin.read()
    verdict = asyncio.run(_evaluate_one(where, role, text))
    if as_json:
        print_json(verdict)
    elif verdict["verdict"] == "accept":
        click.echo("accept")
    else:
        click.echo("refuse")
        say(str(verdict["reason"]))
    if verdict["verdict"] != "accept":
        sys.exit(FAILED)


async def _evaluate_one(where: Where, role: str | None, text: str) -> dict[str, Json]:
    async with _guard(where, role) as guard:
        return await _verdict(guard, text)


async def _evaluate_lines(where: Where, role: str | None) -> None:
    async with _guard(where, role) as guard:
        for line in sys.stdin.buffer:
            if line.strip():
                print_line(await _verdict(guard, _read(line)))


def _read(line: bytes) -> Json:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


async def _verdict(guard: Guard, text: Json) -> dict[str, Json]:
    if not isinstance(text, str):
        return {"verdict": "refuse", "reason": "the line is not a JSON string"}
    try:
        await guard.evaluate(text)
    except StatementRefusedError as error:
        return {"verdict": "refuse", "reason": str(error)}
    return {"verdict": "accept", "reason": ""}


@asynccontextmanager
async def _guard(where: Where, role: str | None) -> AsyncGenerator[Guard]:
    session = open_session(where)
    settings = session.config.ask
    async with (
        AsyncExitStack() as stack,
        session.places() as places,
        session.connect(places) as conn,
    ):
        outlet = None
        if role is not None:
            worker = await stack.enter_async_context(session.connect(places))
            outlet = await open_outlet(
                stack,
                worker,
                role,
                connecting=lambda: stack.enter_async_context(session.connect(places)),
                tools_dsn=places.tools_dsn,
            )
            await set_role(conn, role)
        try:
            await check_role(conn)
        except PreconditionError as error:
            if role is not None:
                raise
            hint = f"Use --role {settings.role}, which walagent database setup creates."
            raise PreconditionError(str(error), hint=hint) from error
        yield Guard(conn, allowed=Allowlist(settings.functions), outlet=outlet)
