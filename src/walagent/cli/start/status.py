"""`walagent status`: how an installation is doing, on one screen."""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from walagent.cli.exit_codes import PERSON
from walagent.cli.session import (
    CliSession,
    Connection,
    Where,
    open_session,
    slot_option,
    where_options,
)
from walagent.cli.terminal.output import json_option, print_json, print_wrapped
from walagent.cli.terminal.table import Dollars, age
from walagent.config import Config, Replication
from walagent.config.base import in_bytes
from walagent.doctor.finding import Severity
from walagent.doctor.replication import check_slot
from walagent.store import checkpoint as checkpoints
from walagent.store import status
from walagent.store.people import listings
from walagent.store.people.listings import Found
from walagent.wal.slots import inspect_slot

_SOON: Final = 4  # the urgency of what can wait
_TITLE: Final = 9  # characters of the column of titles
_SHOWN: Final = 5  # paused attachments, and budgets
_SAID: Final = frozenset({"reader", "attachment", "review", "approval"})  # on lines of their own


@click.command("status")
@json_option()
@where_options
@slot_option
def status_(where: Where, *, as_json: bool) -> None:
    """Show reader, lag, retained WAL, queue, what waits, what is paused, and the cost of today.

    The exit code is 3 if a person must act: nobody reads the slot, a gap or the slot needs
    recovery or nears its limit, no worker takes runs, walagent paused an attachment, a budget is
    spent, or a run waits for an approval or a review.
    """
    found = asyncio.run(_read(open_session(where)))
    if as_json:
        print_json(found)
    else:
        for line, color in _lines(found, datetime.now(UTC)):
            print_wrapped(line, hang=0 if line.startswith(" ") else _TITLE, color=color)
    if found["act"]:
        sys.exit(PERSON)


async def _read(session: CliSession) -> Found:
    """Read everything in one connection, by the statements of lists and checks."""
    async with session.connection() as conn:
        session = await session.with_slot(conn)
        slot = session.config.replication.slot
        shown = await status.show_status(conn, slot)
        problems = await _slot_problems(conn, session.config)
        found = await status.show_problems(conn)
        waiting = await _read_waiting(conn, shown, slot)
        paused = [row for row in await listings.list_agents(conn) if row["state"] == "paused"]
        lag, wal = await _read_wal(conn, shown, session.config.replication)
        oldest = await status.oldest_queued(conn)
    if problems:  # of the slot: these say more
        found = [each for each in found if each["kind"] != "slot"]
    reader = _reader(shown)
    broken = any(row["paused_reason"] and not row["paused_by"] for row in paused)
    decides = waiting["approvals"] or waiting["reviews"]
    return {
        "act": bool(problems or reader is None or decides or broken)
        or any(each["urgency"] < _SOON for each in found),
        "problems": [
            *problems,
            *(
                {name: each[name] for name in ("text", "detail", "fix")}
                for each in found
                if each["kind"] not in _SAID
            ),
        ],
        "reader": reader,
        "workers": shown["workers"],
        "lag": lag,
        "wal": wal,
        "queue": {
            "pending": shown["pending"],
            "running": shown["running"],
            "waiting": shown["waiting"] + shown["reviews"],
            "oldest": oldest or None,
        },
        "waiting": waiting,
        "paused": [
            {"attachment": row["attachment"], "reason": row["paused_reason"]}
            | {name: row[name] for name in ("paused_by", "pending", "waiting")}
            for row in paused
        ],
        "today": {
            "runs": shown["runs_today"],
            "failed": shown["failed_today"],
            "cost": shown["cost_today"],
        },
    }


def _reader(shown: Found) -> Found | None:
    if shown["reader_pid"] is None:
        return None
    return {
        "name": shown["reader"],
        "pid": shown["reader_pid"],
        "since": shown["reading_since"],
    }


async def _slot_problems(conn: Connection, config: Config) -> list[dict[str, str]]:
    """Check the slot as `walagent doctor` does."""
    slot = await inspect_slot(conn, config.replication.slot)
    checkpoint = await checkpoints.read_checkpoint(conn, config.replication.slot)
    found = check_slot(config, slot.here if slot else "", slot, checkpoint)
    return [
        {"text": each.text, "detail": "", "fix": each.fix}
        for each in found
        if each.level is Severity.PROBLEM
    ]


async def _read_waiting(conn: Connection, shown: Found, slot: str) -> Found:
    approvals = (await status.read_status(conn, slot)).approvals
    budgets = [row for row in await listings.list_budgets(conn) if row["waiting"]]
    return {"approvals": approvals, "reviews": shown["reviews"], "budgets": budgets}


async def _read_wal(
    conn: Connection, shown: Found, replication: Replication
) -> tuple[Found, Found]:
    """Return the lag, and the WAL that the slot retains."""
    backlog = await status.read_backlog(conn, replication.slot)
    kept = await status.read_kept(conn, backlog.end)
    return {"bytes": backlog.behind, "seconds": shown["lag_seconds"]}, {
        "slot": replication.slot,
        "retained": backlog.retained if backlog.restart else None,
        "alarm": replication.alarm_bytes,
        "limit": kept.limit,
    }


def _lines(found: Found, now: datetime) -> Iterator[tuple[str, str | None]]:
    """Yield the lines of the screen: titles in one column, each with the color of its state."""
    reader, wal, queue = found["reader"], found["wal"], found["queue"]
    if reader is None:
        exists = wal["retained"] is not None
        why = "start walagent run" if exists else f'slot "{wal["slot"]}" does not exist'
        yield _line("reader", f"none: {why}"), "red"
    else:
        since = f", since {age(reader['since'], now)}" if reader["since"] else ""
        yield _line("reader", f"{reader['name']} (PID {reader['pid']}{since})"), "green"
    yield _line("lag", _lag(found["lag"])), None
    yield from _wal(wal)
    oldest = f"; the oldest waits for {_seconds(queue['oldest'])}" if queue["oldest"] else ""
    counts = ", ".join(f"{queue[name]} {name}" for name in ("pending", "running", "waiting"))
    workers = f" ({found['workers']} worker{'' if found['workers'] == 1 else 's'})"
    yield _line("queue", f"{counts}{oldest}{workers}"), None
    yield from _waiting(found["waiting"], now)
    yield from _paused(found["paused"])
    today = found["today"]
    cost = "cost unknown" if today["cost"] is None else f"$ {Dollars(today['cost'])}"
    failed = f", {today['failed']} failed" if today["failed"] else ""
    runs = f"{today['runs']} run{'' if today['runs'] == 1 else 's'}"
    yield _line("today", f"{runs}{failed}; {cost}"), None
    for problem in found["problems"]:
        said = ". ".join(filter(None, (problem["text"], (problem["detail"] or "").rstrip("."))))
        yield _line("problem", ": ".join(filter(None, (said, problem["fix"])))), "red"


def _line(title: str, text: str) -> str:
    return f"{title.ljust(_TITLE)}{text}"


def _lag(lag: Mapping[str, Any]) -> str:
    seconds = lag["seconds"]
    late = "" if seconds is None else f"; runs start {_seconds(seconds)} after the commit"
    return f"{in_bytes(lag['bytes'])}{late}"


def _seconds(count: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if count >= 2 * size:
            return f"{count / size:.0f} {unit}"
    return f"{count:.0f} s" if count >= 10 else f"{count:.2g} s"  # noqa: PLR2004 - two digits


def _wal(wal: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    if wal["retained"] is None:
        yield _line("wal", "nothing retained: run walagent init to create the slot"), None
        return
    limits = [
        f"{name} at {in_bytes(wal[key])}"
        for key, name in (("alarm", "alarm"), ("limit", "limit"))
        if wal[key]
    ]
    alarming = wal["alarm"] is not None and wal["retained"] > wal["alarm"]
    kept = f"{in_bytes(wal['retained'])} retained by slot {wal['slot']}"
    yield (
        _line("wal", f"{kept} ({', '.join(limits)})" if limits else kept),
        ("yellow" if alarming else None),
    )


def _waiting(waiting: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, str | None]]:
    parts = list[str]()
    if count := waiting["approvals"]:
        parts.append(f"{count} approval{'s' if count > 1 else ''}: walagent approvals list")
    if count := waiting["reviews"]:
        command = "walagent runs list --state needs_review"
        parts.append(f"{count} review{'s' if count > 1 else ''}: {command}")
    for row in waiting["budgets"][:_SHOWN]:
        reset = f", which resets {age(row['resets_at'], now)}" if row["resets_at"] else ""
        parts.append(f"{row['waiting']} runs for budget {row['name']}{reset}")
    yield from _titled("waits", parts, "yellow")


def _paused(paused: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str | None]]:
    parts = [
        f"{row['attachment']} ({row['pending']} pending): {_why(row)}" for row in paused[:_SHOWN]
    ]
    if more := len(paused) - _SHOWN:
        parts += [f"{more} more: walagent agents list"] if more > 0 else []
    yield from _titled("paused", parts, "yellow")


def _why(row: Mapping[str, Any]) -> str:
    by = f"by {row['paused_by']}" if row["paused_by"] else ""
    return ", ".join(filter(None, [row["reason"], by])) or "no reason given"


def _titled(title: str, parts: Sequence[str], color: str) -> Iterator[tuple[str, str | None]]:
    """Yield a line for each part, with the title on the first; without any, "nothing"."""
    for n, part in enumerate(parts or ["nothing"]):
        yield _line("" if n else title, part), color if parts and not n else None
