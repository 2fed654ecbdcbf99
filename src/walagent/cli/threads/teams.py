"""`walagent threads teams`: people and agents who decide and work together."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TextIO
from uuid import UUID

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_option, json_result, produce
from walagent.cli.terminal.table import print_rows
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.store.people import teams, threads

ROLES: Final = ("leader", "coordinator", "member", "critic", "advocate", "observer")
STATES: Final = ("open", "started", "blocked", "completed", "cancelled")
_team = click.argument("team")


@click.command("list")
@json_option()
@where_options
def list_(where: Where, *, as_json: bool) -> None:
    """List teams."""
    rows = ask(where, teams.list_teams)
    columns = ["name", "thread_id", "members", "open_proposals", "open_tasks"]
    print_rows(rows, columns, as_json=as_json, empty="no teams")


def _listing(part: str, columns: Sequence[str]) -> click.Command:
    def run(where: Where, team: str, *, as_json: bool) -> None:
        rows = ask(where, lambda conn: teams.list_part(conn, team, part))
        if rows is None:
            raise ConfigError(f'team "{team}" does not exist, or you are not a member of it')
        print_rows(rows, list(columns), as_json=as_json, empty=f"no {part}")

    run.__doc__ = f"List the {part} of a TEAM."
    command: Any = where_options(run)  # pyright: ignore[reportUnknownVariableType, reportArgumentType]
    return click.command(part)(_team(json_option()(command)))


members_ = _listing("members", ["principal", "role", "weight"])
discussions_ = _listing("discussions", ["thread_id", "topic", "opened_by", "opened_at"])
proposals_ = _listing(
    "proposals", ["id", "title", "state", "rule", "yes", "no", "votes", "voters", "deadline"]
)
tasks_ = _listing("tasks", ["id", "title", "state", "assignee", "needs", "note"])
artifacts_ = _listing("artifacts", ["name", "version", "kind", "made_by", "made_at"])


@click.command("create")
@click.argument("name")
@click.argument("members", nargs=-1)
@click.option("--consensus", type=float, default=0.6, show_default=True, help="Share of yes.")
@json_result
@where_options
def create_(where: Where, name: str, members: Sequence[str], consensus: float) -> None:
    """Create the team NAME with MEMBERS, as its leader; print its thread."""
    given: dict[str, Any] = {
        "name": name,
        "members": list(members),
        "consensus": Decimal(str(consensus)),
    }
    produce(thread=_call(where, "create_team", given))


@click.command("add")
@_team
@click.argument("principal")
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="member",
    show_default=True,
    metavar="ROLE",
    help=f"Its role: {', '.join(ROLES)}.",
)
@click.option("--weight", type=float, default=1, show_default=True, help="Weight of its votes.")
@json_result
@where_options
def add_(where: Where, team: str, principal: str, role: str, weight: float) -> None:
    """Add a PRINCIPAL to a TEAM, or change its role and weight."""
    given = {"team": team, "principal": principal, "role": role, "weight": Decimal(str(weight))}
    _call(where, "set_team_member", given)
    done(f"{principal} is {role} of {team}", added=principal, role=role)


@click.command("remove")
@_team
@click.argument("principal")
@json_result
@where_options
def remove_(where: Where, team: str, principal: str) -> None:
    """Remove a PRINCIPAL from a TEAM."""
    _call(where, "remove_team_member", {"team": team, "principal": principal})
    done(f"removed {principal}", removed=principal)


@click.command("discuss")
@_team
@click.argument("topic")
@json_result
@where_options
def discuss_(where: Where, team: str, topic: str) -> None:
    """Open a discussion of a TOPIC; print its thread."""
    found = _call(where, "open_discussion", {"team": team, "topic": topic})
    produce(thread=found)


@click.command("propose")
@_team
@click.argument("title")
@click.option("--body", default="", help="Reasons and details.")
@click.option(
    "--rule",
    type=click.Choice(("consensus", "majority", "unanimity")),
    default="consensus",
    show_default=True,
    help="What accepts it.",
)
@click.option("--deadline", metavar="TIME", help="When it is decided by the votes there are.")
@json_result
@where_options
def propose_(where: Where, **given: Json) -> None:
    """Propose something that a TEAM decides; print its ID."""
    produce(id=_call(where, "propose", given))


@click.command("vote")
@click.argument("proposal", type=click.UUID)
@click.argument("choice", type=click.Choice(("yes", "no", "abstain")))
@click.option("--reason", default="", help="Why.")
@json_result
@where_options
def vote_(where: Where, proposal: UUID, choice: str, reason: str) -> None:
    """Vote on a PROPOSAL, once; print its state."""
    given = {"proposal": proposal, "choice": choice, "reason": reason}
    produce(state=_call(where, "vote", given))


@click.command("task")
@_team
@click.argument("title")
@click.option("--assignee", metavar="PRINCIPAL", help="Who does it.")
@click.option("--needs", type=click.UUID, multiple=True, help="A task that comes first.")
@json_result
@where_options
def task_(where: Where, needs: Sequence[UUID], **given: Json) -> None:
    """Create a task of a TEAM; print its ID."""
    found = _call(where, "create_task", {**given, "needs": list(needs)})
    produce(id=found)


@click.command("update")
@click.argument("task", type=click.UUID)
@click.argument(
    "state", type=click.Choice(("open", "started", "blocked", "completed", "cancelled"))
)
@click.option("--note", default="", help="What blocks it, or the result.")
@json_result
@where_options
def update_(where: Where, task: UUID, state: str, note: str) -> None:
    """Change the state of a TASK."""
    _call(where, "update_task", {"task": task, "state": state, "note": note})
    done(f"{task} is {state}", task=str(task), state=state)


@click.command("save")
@_team
@click.argument("name")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--expected", type=click.IntRange(0), help="The version that FILE is based on.")
@json_result
@where_options
def save_(where: Where, file: TextIO, **given: Json) -> None:
    """Save a FILE (- for stdin) as a version of the artifact NAME; print its number."""
    content = file.read()
    found = _call(where, "save_artifact", {**given, "content": content})
    produce(version=found)


def _call(where: Where, function: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - SQL's
    return ask(where, lambda conn: threads.call(conn, function, arguments))
