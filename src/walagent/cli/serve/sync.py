"""`walagent serve sync`: serve live rows in a process of its own."""

import asyncio

import click

from walagent.cli.session import CliSession, Where, http_option, open_session, where_options
from walagent.cli.terminal.signals import until_stopped


@click.command("sync")
@where_options
@http_option
def sync_(where: Where) -> None:
    """Serve live rows over HTTP, until SIGTERM or Ctrl-C.

    Serves what agents.yaml lists under sync, as walagent run does, and needs no walagent run.  The
    changes come from a temporary replication slot, which ends with the process.  Any number of
    processes can serve the same database.
    """
    asyncio.run(_serve(where, open_session(where)))


async def _serve(where: Where, session: CliSession) -> None:
    from walagent.app.serve_sync import serve_sync
    from walagent.cli.serve.serving import configure_log, migrated, renewing

    configure_log(session.config)
    async with migrated(session) as places:
        read = renewing(where, session, places)
        await until_stopped(sync=serve_sync(session.config, places, read))
