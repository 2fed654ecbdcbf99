"""`walagent demo`: process support tickets on the embedded server."""

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from walagent.cli.exit_codes import FAILED
from walagent.cli.program import embedded_options, program
from walagent.cli.terminal.output import json_option, print_line, say

_INTERRUPTED = 130  # 128 + SIGINT, as in shells


@click.command("demo")
@click.option(
    "--provider",
    metavar="NAME",
    help="Provider of the model; openai for every compatible server.",
)
@click.option(
    "--model", help="Registered model or model of agents.yaml; for scripted, the script's file."
)
@click.option("--base-url", help="Address of the model, if it is not the provider's.")
@click.option(
    "--tickets",
    type=click.IntRange(1, 10_000),
    help="Number of tickets.  [default: all]",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=4.0,
    show_default=True,
    help="Tickets per second.",
)
@click.option(
    "--keep/--fresh",
    default=False,
    help="Reuse the database of the last demo, or create a new one.  [default: fresh]",
)
@click.option(
    "--console/--no-console",
    default=None,
    help="Then serve the console until Ctrl-C.  [default: on a terminal]",
)
@json_option()
def demo_(  # noqa: PLR0913 - its options
    *,
    provider: str | None,
    model: str | None,
    base_url: str | None,
    tickets: int | None,
    rate: float,
    keep: bool,
    console: bool | None,
    as_json: bool,
) -> None:
    """Run a demo on an embedded PostgreSQL: an agent processes support tickets.

    The demo creates the database "demo", attaches an agent to its table support_tickets, and
    inserts tickets from a second process.  Without options it needs no server, API key or network.
    On a terminal it then serves the console, and prints a link to the first run there.

    Exit codes: 0 every ticket was processed once, 1 one was not, 3 a person must act.
    """
    from walagent.config.environment import Environment, load_env_file
    from walagent.config.loading import load_config
    from walagent.demo.database import DATABASE
    from walagent.demo.demo import DemoOptions, run_demo
    from walagent.demo.model import choose_model
    from walagent.demo.screen import LineScreen, LiveScreen
    from walagent.demo.tickets import tickets as all_tickets
    from walagent.demo.words import words
    from walagent.telemetry import log

    load_env_file(Path(".env"), os.environ, warn=say)
    environment = Environment.of_process()
    config = load_config(None, environment)
    chosen = choose_model(config, provider, model, base_url)
    play = DemoOptions(tickets or len(all_tickets()), rate, chosen, keep, config.embedded)
    screen = LiveScreen() if sys.stderr.isatty() else LineScreen()
    with screen:
        log.configure("text", "warning")
        try:
            summary = asyncio.run(run_demo(play, screen))
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
    if as_json:
        print_line(summary.as_json())
    else:
        options = embedded_options(config, environment, DATABASE)
        click.echo("\n".join(words(summary, program(), options)))
    if not summary.interrupted and (
        sys.stdout.isatty() and not as_json if console is None else console
    ):
        _serve_console()
    if not summary.holds:
        sys.exit(FAILED)
    if summary.interrupted:
        sys.exit(_INTERRUPTED)


def _serve_console() -> None:
    """Serve the console for the demo's database until a signal."""
    from walagent.cli.serve.serving import follow
    from walagent.cli.session import Where, open_session
    from walagent.config.dsn import EMBEDDED
    from walagent.demo.database import DATABASE, SLOT

    where = Where(dsn=EMBEDDED, dbname=DATABASE, slot=SLOT)
    session = open_session(where)
    log = session.config.log.model_copy(update={"level": "warning"})
    session = replace(session, config=session.config.model_copy(update={"log": log}))
    click.echo("\nThe console, until Ctrl-C; new tickets are processed, too:")
    asyncio.run(follow(where, session, applying=False, link=True, page="/runs/1"))
