"""`walagent threads`: conversations of people and agents."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

import click
import orjson

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import (
    cell,
    clean,
    json_option,
    limit_option,
    print_json,
    print_wrapped,
    say,
)
from walagent.cli.terminal.table import Column, Row, Screen, column, print_rows, state_column
from walagent.message import Json
from walagent.store.people import threads
from walagent.store.people.threads import Connection

T = TypeVar("T")

_thread: Final = click.argument("thread", type=click.UUID)

_SCREEN: Final = Screen([
    column("id"),
    column("title"),
    state_column(),
    Column("members", lambda row: ", ".join(row["members"] or ())),
    column("events"),
    column("active_at", "age"),
])  # fmt: skip


@click.command("list")
@click.option("--archived", is_flag=True, help="List archived threads, too.")
@limit_option("threads")
@json_option()
@where_options
def list_(where: Where, limit: int, *, archived: bool, as_json: bool) -> None:
    """List threads, the latest active first."""
    rows = ask(where, lambda conn: threads.list_threads(conn, archived=archived, limit=limit))
    columns = ["id", "title", "state", "members", "events", "active_at"]
    print_rows(rows, columns, as_json=as_json, empty="no threads", screen=_SCREEN)


@click.command("show")
@_thread
@limit_option("events", default=100)
@json_option()
@where_options
def show_(where: Where, thread: UUID, limit: int, *, as_json: bool) -> None:
    """Show a thread: members, facts, and its latest events."""
    found = ask(where, lambda conn: threads.show(conn, thread, limit))
    if as_json:
        print_json(found)
        return
    print_wrapped(clean(f"{found['title'] or 'thread'} ({found['id']}): {found['state']}"))
    for member in found["members"]:
        print_wrapped(clean(f"  {member['principal']} ({member['kind']}, {member['role']})"))
    for fact in found["facts"]:
        disputed = ", disputed" if fact["disputed"] else ""
        text = f"{fact['subject']} {fact['predicate']} {fact['object']}"
        print_wrapped(clean(f"  fact: {text} ({fact['confidence']}{disputed})"))
    for event in found["latest"]:
        for line in event_lines(event):
            print_wrapped(line)


@click.command("members")
@_thread
@json_option()
@where_options
def members_(where: Where, thread: UUID, *, as_json: bool) -> None:
    """List the members of a thread."""

    async def members(conn: Connection) -> Sequence[threads.Row]:
        await threads.find(conn, thread)
        return await threads.members(conn, thread)

    rows = ask(where, members)
    columns = ["principal", "kind", "role", "joined_at", "seen"]
    print_rows(rows, columns, as_json=as_json, empty="no members")


@click.command("open")
@click.argument("title")
@click.argument("members", nargs=-1)
@click.option("--id", "key", type=click.UUID, help="ID of the thread.  [default: a new one]")
@json_option()
@where_options
def open_(
    where: Where,
    title: str,
    members: Sequence[str],
    key: UUID | None,
    *,
    as_json: bool,
) -> None:
    """Open a thread with MEMBERS, people and agents; print its ID."""
    given = {"title": title, "members": list(members), "id": key}
    _print_id(_call(where, "open_thread", given), as_json=as_json)


@click.command("post")
@_thread
@click.argument("text")
@click.option("--id", "key", type=click.UUID, help="ID of the event; a repetition has no effect.")
@click.option(
    "--interrupt", is_flag=True, help="Cut off what agents are saying; they take it in at once."
)
@json_option()
@where_options
def post_(  # noqa: PLR0913 - as many as the command has options
    where: Where, thread: UUID, text: str, key: UUID | None, *, interrupt: bool, as_json: bool
) -> None:
    """Post a text; print the number of its event."""
    given = {"thread": thread, "text": text, "id": key}
    number = ask(where, lambda conn: threads.post(conn, given, interrupt=interrupt))
    if as_json:
        print_json({"thread": thread, "number": number})
    else:
        click.echo(number)


def _call(where: Where, function: str, arguments: Mapping[str, Json]) -> Any:  # noqa: ANN401 - SQL's
    return ask(where, lambda conn: threads.call(conn, function, arguments))


def _print_id(key: UUID, *, as_json: bool) -> None:
    if as_json:
        print_json({"id": key})
    else:
        click.echo(str(key))


def _simple(name: str, function: str, about: str, done: str, *more: str) -> click.Command:
    """Return a command that calls a function with the thread and further arguments."""

    def run(where: Where, thread: UUID, **given: Json) -> None:
        as_json = given.pop("as_json")
        _call(where, function, {"thread": thread, **given})
        if as_json:
            print_json({"id": thread, "done": name})
        else:
            say(done)

    run.__doc__ = about
    command: Any = where_options(run)  # pyright: ignore[reportUnknownVariableType, reportArgumentType]
    command = json_option()(command)
    for argument in reversed(more):
        command = click.argument(argument)(command)
    return click.command(name)(_thread(command))


join_ = _simple("join", "join_thread", "Join a thread.", "joined")
leave_ = _simple("leave", "leave_thread", "Leave a thread.", "left")
pause_ = _simple("pause", "pause_thread", "Start no turns of agents in a thread.", "paused")
resume_ = _simple(
    "resume", "resume_thread", "Resume a paused, completed or archived thread.", "resumed"
)
complete_ = _simple("complete", "complete_thread", "Mark a thread as completed.", "completed")
archive_ = _simple(
    "archive", "archive_thread", "Archive a thread: nothing can be posted.", "archived"
)
rename_ = _simple("rename", "rename_thread", "Give a thread another title.", "renamed", "title")
remove_ = _simple(
    "remove", "remove_member", "Remove a member from a thread.", "removed", "principal"
)


@click.command("add")
@_thread
@click.argument("principal")
@click.option("--role", default="member", show_default=True, help="Its role, such as owner.")
@json_option()
@where_options
def add_(where: Where, thread: UUID, principal: str, role: str, *, as_json: bool) -> None:
    """Add a person or an agent to a thread, or change its role."""
    given = {"thread": thread, "principal": principal, "role": role}
    _call(where, "add_member", given)
    if as_json:
        print_json({"id": thread, "done": "add"})
    else:
        say("added")


@click.command("inject")
@_thread
@click.argument("text")
@click.option(
    "--kind",
    type=click.Choice(["system", "context", "override"]),
    default="context",
    show_default=True,
    help="An instruction, data, or an instruction in the place of earlier ones.",
)
@json_option()
@where_options
def inject_(where: Where, thread: UUID, text: str, kind: str, *, as_json: bool) -> None:
    """Give the agents of a thread an instruction or context."""
    _call(where, "inject", {"thread": thread, "text": text, "kind": kind})
    if as_json:
        print_json({"id": thread, "done": "inject"})
    else:
        say("injected")


def event_lines(event: Row) -> Iterator[str]:
    """Format an event as lines of text."""
    yield from clean(_said(event)).splitlines()


def _said(event: Row) -> str:
    data, author = event["data"], event["author"]
    match event["type"]:
        case "text":
            return f"{author}: {data.get('text')}"
        case "tool_use":
            given = ", ".join(f"{name}={cell(value)}" for name, value in data["input"].items())
            return f"* {author} called {data['name']}({given})"
        case "tool_result":
            how = "failed" if data.get("is_error") else "returned"
            return f"* {data['tool_name']} {how}: {data['content']}"
        case _:
            by = f" (by {data['by']})" if data.get("by") else ""
            rest = {k: v for k, v in data.items() if k not in {"action", "target", "by"}}
            more = f" {orjson.dumps(rest, default=str).decode()}" if rest else ""
            return f"* {author} {data.get('action')}{by}{more}"
