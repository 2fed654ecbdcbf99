"""`walagent workflows`: graphs of models, tools, functions and people."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import click

from walagent.cli.json_options import json_object
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_option, json_result, print_json, produce
from walagent.cli.terminal.table import print_rows
from walagent.config.yaml_file import read_yaml
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.store.people import workflow_listings as workflows
from walagent.store.people.workflow_listings import Connection, Row

_run = click.argument("run", type=click.IntRange(1))
_patch = click.option("--patch", default="{}", metavar="JSON", help="Keys to change in the state.")


@click.command("list")
@json_option()
@where_options
def list_(where: Where, *, as_json: bool) -> None:
    """List workflows."""
    rows = ask(where, workflows.list_workflows)
    columns = ["name", "version", "nodes", "description", "updated_at"]
    print_rows(rows, columns, as_json=as_json, empty="no workflows")


@click.command("show")
@click.argument("name")
@json_option()
@where_options
def show_(where: Where, name: str, *, as_json: bool) -> None:
    """Show the newest version of the workflow NAME."""
    row = ask(where, lambda conn: workflows.show_workflow(conn, name))
    if row is None:
        raise ConfigError(
            f'workflow "{name}" does not exist', hint="Use walagent workflows list to list them."
        )
    if as_json:
        print_json(row)
        return
    nodes, edges = row.pop("nodes"), row.pop("edges")
    parts = [{"column": key, "value": value} for key, value in row.items() if value]
    print_rows(parts, ["column", "value"], as_json=False, empty="")
    print_rows(
        [_node(each) for each in nodes], ["node", "kind", "settings"], as_json=False, empty=""
    )
    print_rows(edges, ["from", "to", "condition", "function"], as_json=False, empty="no edges")


@click.command("create")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_result
@where_options
def create_(where: Where, file: Path) -> None:
    """Create the workflow of a YAML FILE, or its next version.

    Keys: name, nodes, edges, entry, exits, max_steps, timeout, description, run_as.
    """
    given = _read(file)
    version = ask(where, lambda conn: workflows.create_workflow(conn, given))
    done(f"created {given['name']} version {version}", created=given["name"], version=version)


@click.command("validate")
@click.argument("name")
@json_option()
@where_options
def validate_(where: Where, name: str, *, as_json: bool) -> None:
    """List what is wrong with the workflow NAME; exit with 1 if there are errors."""
    rows = ask(where, lambda conn: workflows.validate_workflow(conn, name))
    print_rows(rows, ["severity", "code", "node", "message"], as_json=as_json, empty="valid")
    if any(row["severity"] == "error" for row in rows):
        raise SystemExit(1)


@click.command("dot")
@click.argument("name")
@where_options
def dot_(where: Where, name: str) -> None:
    """Print the graph of the workflow NAME for Graphviz."""
    click.echo(ask(where, lambda conn: workflows.workflow_dot(conn, name)))


@click.command("start")
@click.argument("name")
@click.option("--input", "state", default="{}", metavar="JSON", help="The state to begin with.")
@json_result
@where_options
def start_(where: Where, name: str, state: str) -> None:
    """Start a run of the workflow NAME; print its ID."""
    given = json_object(state, "--input")
    produce(run=ask(where, lambda conn: workflows.start_workflow(conn, name, given)))


@click.command("runs")
@click.argument("name", required=False)
@click.option(
    "--last", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many."
)
@json_option()
@where_options
def runs_(where: Where, name: str | None, last: int, *, as_json: bool) -> None:
    """List runs of the workflow NAME or of all, the latest first."""

    async def read(conn: Connection) -> list[Row]:
        found = await workflows.list_workflow_runs(conn, name, last)
        if name and not found:  # an error, if it does not exist
            await workflows.validate_workflow(conn, name)
        return found

    rows = ask(where, read)
    columns = ["id", "workflow", "state", "created_at", "finished_at", "reason"]
    print_rows(rows, columns, as_json=as_json, empty="no runs")


@click.command("state")
@_run
@json_option()
@where_options
def state_(where: Where, run: int, *, as_json: bool) -> None:
    """List the checkpoints of a RUN: which node is next, with which state."""
    rows = ask(where, lambda conn: workflows.workflow_state(conn, run))
    columns = ["number", "came_from", "node", "state", "at"]
    print_rows(rows, columns, as_json=as_json, empty="no checkpoints yet")


@click.command("interrupts")
@json_option()
@where_options
def interrupts_(where: Where, *, as_json: bool) -> None:
    """List interrupts that wait for a person."""
    rows = ask(where, workflows.list_interrupts)
    columns = ["run_id", "workflow", "node", "type", "prompt", "asked_at", "expires_at"]
    print_rows(rows, columns, as_json=as_json, empty="nothing waits")


@click.command("resume")
@_run
@_patch
@click.option("--answer", metavar="TEXT", help="What the person says.")
@json_result
@where_options
def resume_(where: Where, run: int, patch: str, answer: str | None) -> None:
    """Resume a RUN after its interrupt, once."""
    given = json_object(patch, "--patch")
    ask(where, lambda conn: workflows.resume_workflow(conn, run, given, answer))
    done(f"resumed {run}", resumed=run)


@click.command("fork")
@_run
@click.argument("checkpoint", type=click.IntRange(0))
@_patch
@json_result
@where_options
def fork_(where: Where, run: int, checkpoint: int, patch: str) -> None:
    """Start a run at a CHECKPOINT of another RUN; print its ID."""
    given = json_object(patch, "--patch")
    produce(run=ask(where, lambda conn: workflows.fork_workflow(conn, run, checkpoint, given)))


@click.command("drop")
@click.argument("name")
@json_result
@where_options
def drop_(where: Where, name: str) -> None:
    """Remove the workflow NAME; runs that have ended stay."""
    ask(where, lambda conn: workflows.drop_workflow(conn, name))
    done(f"dropped {name}", dropped=name)


def _node(node: Mapping[str, Json]) -> dict[str, Json]:
    rest = {key: value for key, value in node.items() if key not in {"name", "kind"}}
    return {"node": node["name"], "kind": node["kind"], "settings": rest or None}


def _read(file: Path) -> Mapping[str, Json]:
    """Read the file of a workflow.

    Raises:
        ConfigError: it lacks a key, or has one that is none.
    """
    try:
        found = read_yaml(file.read_text("utf-8"), str(file)).value
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file}: expected the keys name and nodes")
    given = cast("Mapping[str, Json]", found)
    if unknown := sorted(set(given) - set(workflows.ARGUMENTS)):
        known = ", ".join(workflows.ARGUMENTS)
        raise ConfigError(f'{file}: unknown key "{unknown[0]}"', hint=f"Keys: {known}.")
    if missing := [key for key in ("name", "nodes") if key not in given]:
        raise ConfigError(f'{file}: the key "{missing[0]}" is missing')
    return given
