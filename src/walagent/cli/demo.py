"""`walagent demo`: support tickets through the embedded server and a model."""

import asyncio
import os
import sys
from pathlib import Path

import click

from walagent.cli.exit_codes import FAILED
from walagent.cli.output import json_option, print_line

_INTERRUPTED = 130  # 128 + SIGINT, as shells say it


@click.command("demo")
@click.option(
    "--provider",
    metavar="NAME",
    help="The model's provider; openai for every server with its protocol.",
)
@click.option(
    "--model", help="A model of the registry or of agents.yaml; of scripted, a script's file."
)
@click.option("--base-url", help="Where the model is reached, if not at its provider's address.")
@click.option(
    "--tickets",
    type=click.IntRange(1, 10_000),
    help="How many tickets come in.  [default: all there are]",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=4.0,
    show_default=True,
    help="How many tickets a second.",
)
@click.option(
    "--keep/--fresh",
    default=False,
    help="Go on in the last demo's database, or make a new one.  [default: fresh]",
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
    as_json: bool,
) -> None:
    """Play support tickets through agents, and check what came of them.

    Starts the embedded PostgreSQL with a database "demo", attaches an agent to its table
    support_tickets, runs the daemon, and lets another process write tickets.  Without options
    nothing is needed: no key, no network, no server.

    Exit codes: 0 every ticket was worked once; 1 a promise was broken; 3 a person must act.
    """
    from walagent import log
    from walagent.config.environment import Environment, load_env_file
    from walagent.config.loading import load_config
    from walagent.demo.demo import Play, perform
    from walagent.demo.model import choose_model
    from walagent.demo.screen import LineScreen, LiveScreen
    from walagent.demo.tickets import tickets as all_tickets
    from walagent.demo.words import words

    load_env_file(Path(".env"), os.environ)
    config = load_config(None, Environment.of_process())
    chosen = choose_model(config, provider, model, base_url)
    play = Play(tickets or len(all_tickets()), rate, chosen, keep, config.embedded)
    screen = LiveScreen() if sys.stderr.isatty() else LineScreen()
    with screen:
        log.configure("text", "warning")
        try:
            summary = asyncio.run(perform(play, screen))
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
    if as_json:
        print_line(summary.as_json())
    else:
        click.echo("\n".join(words(summary)))
    if not summary.holds:
        sys.exit(FAILED)
    if summary.interrupted:
        sys.exit(_INTERRUPTED)
