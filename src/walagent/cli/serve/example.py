"""`walagent serve example`: start an example of the repository."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from walagent.cli.session import CliSession, Where, http_option, open_session, where_options
from walagent.cli.terminal.output import say
from walagent.errors import ConfigError

if TYPE_CHECKING:
    from walagent.config import Config
    from walagent.demo.model import ModelChoice

_DATABASE = "burn"
_SLOT = "walagent_burn"  # slots belong to the whole server, and `walagent run` has its own


@click.command("burn")
@click.option("--provider", metavar="NAME", help="Provider of the model, such as openai.")
@click.option("--model", metavar="NAME", help="Model of the agents.  [default: one with a key]")
@click.option("--base-url", metavar="URL", help="Address of the model, if not the provider's.")
@click.option(
    "--assets",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of another page, with an index.html.",
)
@where_options
@http_option
def burn_(
    where: Where,
    *,
    provider: str | None,
    model: str | None,
    base_url: str | None,
    assets: Path | None,
) -> None:
    """Play Burn: people in browsers, and three agents who make jokes about them.

    Without --dsn it uses the database "burn" of the embedded server.  The agents need a language
    model: that of the first key in the environment or .env, unless --model names one.  Ctrl-C ends
    it; the database stays.
    """
    session = open_session(where)
    chosen = _model(session.config, provider, model, base_url)
    from walagent.cli.serve.playing import play_burn

    asyncio.run(play_burn(_session(session, where), chosen, assets))


def _session(session: CliSession, where: Where) -> CliSession:
    """Return the session with the example's database, slot and shapes."""
    from walagent.config import Replication
    from walagent.example.burn import SHAPES

    config = session.config
    sync = config.sync.model_copy(update={"shapes": config.sync.shapes | SHAPES})
    replication = config.replication
    if session.choice is None and replication.slot == Replication().slot:
        replication = replication.model_copy(update={"slot": _SLOT})
    config = config.model_copy(update={"sync": sync, "replication": replication})
    return replace(session, config=config, dbname=where.dbname or _DATABASE)


def _model(
    config: "Config", provider: str | None, model: str | None, base_url: str | None
) -> "ModelChoice":
    """Choose the model: the one that is named, or the first that can be called from here.

    Raises:
        ConfigError: none is named, and there is no key.
    """
    from walagent.config import ModelEntry
    from walagent.demo.model import ModelChoice, choose_model
    from walagent.scaffold.models import BY_KEY, find_models

    if provider or model or base_url:
        return choose_model(config, provider, model, base_url)
    found = next((each for each in find_models(os.environ) if each.plans), None)
    if found is None:
        raise ConfigError(
            "no language model was found",
            hint=f"Set {', '.join(list(BY_KEY)[:-1])} or {list(BY_KEY)[-1]}, or use --model NAME.",
        )
    say(f"model {found.name}: {found.why}")
    return ModelChoice(found.name, ModelEntry.model_validate(found.entry))
