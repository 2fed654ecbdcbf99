"""`walagent console`: links that sign in to the console of a running daemon."""

import asyncio
import socket
from typing import TYPE_CHECKING

import click

from walagent.cli.session import CliSession, Where, http_option, open_session, where_options
from walagent.cli.terminal.output import say
from walagent.config.sections import Http
from walagent.errors import ConfigError

if TYPE_CHECKING:
    from walagent.console.sessions import Code

_SECONDS = 2.0  # until the daemon answers


@click.command("console")
@click.option("--link", is_flag=True, help="Print the link, also if nothing answers there.")
@click.option("--sign-out-all", is_flag=True, help="End all sessions instead.")
@where_options
@http_option
def console_(where: Where, *, link: bool, sign_out_all: bool) -> None:
    """Print a link that signs in to the console of a running walagent run.

    The link works once, for 5 minutes, and acts as the principal of this login.  A login without a
    principal, such as that of the embedded server, gets one of its name that is an
    admin; the first time, the command says so.

    \b
    Exit codes: 0 printed, 2 nothing answers at the address, 3 a person must act.
    """  # noqa: D301 - click's mark for lines that are not wrapped
    session = open_session(where)
    if sign_out_all:
        ended = asyncio.run(_sign_out_all(session))
        say(f"ended {ended} sessions and unused links")
        return
    http = session.config.http
    if not http.enabled:
        raise ConfigError("HTTP is off", hint="Set http.enabled, or use --http PORT.")
    if not link and http.public_url is None and not _answers(http):
        raise ConfigError(
            f"nothing answers at {address(http.host, http.port)}",
            hint="Start walagent run, or name its address: walagent console --http HOST:PORT.",
        )
    code = asyncio.run(_make_code(session))
    say_granted(code)
    click.echo(link_of(base_of(http), code.text))


def address(host: str, port: int) -> str:
    """Return the address of a server on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 - the other way round
    return f"http://{name}:{port}"


def base_of(http: Http) -> str:
    """Return the address at which people reach the console."""
    return (http.public_url or address(http.host, http.port)).rstrip("/")


def link_of(base: str, code: str, page: str = "") -> str:
    """Return a link with a code; what follows # is sent to no server and stays in no log.

    Args:
        page: what is shown after signing in, such as `/runs/1`.
    """
    return f"{base}/sign-in{f'?to={page}' if page else ''}#code={code}"


def _answers(http: Http) -> bool:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(http.host, http.host)  # noqa: S104 - the same
    try:
        socket.create_connection((host, http.port), _SECONDS).close()
    except OSError:
        return False
    return True


def say_granted(code: "Code") -> None:
    """Say that the login has got a principal: anyone with the link can do everything."""
    if code.granted is not None:
        say(
            f"granted the role admin to principal {code.granted}: this login has no other principal"
        )


async def _make_code(session: CliSession) -> "Code":
    from walagent.console.sessions import make_code

    async with session.places() as places, session.connect(places) as conn, conn.transaction():
        return await make_code(conn)


async def _sign_out_all(session: CliSession) -> int:
    from walagent.console.sessions import leave_all

    async with session.places() as places, session.connect(places) as conn, conn.transaction():
        return await leave_all(conn)
