"""What it takes to undo a run: the net change of each row, by steps, the last first.  Pure.

What cannot be known is refused here, by a reason in the entry; what the tables say is found out
when the entry is undone (`agent_internal.revert_step`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

Entry = dict[str, Any]
MOST_ROWS: Final = 1000  # of a run that can be undone: its locks are held, and each takes some ms


def revert_steps(changes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps to undo, the last first: commit_lsn, step, entries.

    Args:
        changes: result of agent_internal.changes_to_revert(), in order.
    """
    by_commit: dict[str, list[Mapping[str, Any]]] = {}
    for change in changes:
        by_commit.setdefault(change["commit_lsn"], []).append(change)
    steps = [
        {"commit_lsn": lsn, "step": rows[0]["step"], "entries": net_changes(rows)}
        for lsn, rows in reversed(by_commit.items())
    ]
    return [step for step in steps if step["entries"]]


def net_changes(changes: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Return what a transaction did to each row, the last change first."""
    at: dict[tuple[Any, bytes], Entry] = {}
    found = list[Entry]()
    for change in changes:
        op, key = change["op"], change["key"]
        if key is None:
            found.append(_entry(change, None, None))
            continue
        old_key = change["old_key"] or key
        entry = at.pop(_place(change, old_key), None) if op != "insert" else None
        if op == "insert":
            entry = at.pop(_place(change, key), None)
        if entry is None:
            entry = _entry(
                change,
                None if op == "insert" else old_key,
                None if op == "delete" else key,
            )
            found.append(entry)
        else:
            _merge(entry, change)
        at[_place(change, key)] = entry
    for entry in found:
        _check(entry)
    return [entry for entry in reversed(found) if not _is_nothing(entry)]


def _place(change: Mapping[str, Any], key: Mapping[str, Any]) -> tuple[Any, bytes]:
    return change["relation"], orjson.dumps(key, option=orjson.OPT_SORT_KEYS)


def _entry(
    change: Mapping[str, Any], key: Mapping[str, Any] | None, key_after: Mapping[str, Any] | None
) -> Entry:
    return {
        "table": change["table"],
        "relation": change["relation"],
        "op": change["op"],
        "key": key,
        "key_after": key_after,
        "before": change["before"] if change["op"] != "insert" else None,
        "after": change["after"] if change["op"] != "delete" else None,
        "numbers": dict(change["numbers"]),
        "omitted": list(change["omitted"]),
        "later": list(change["later"] or ()),
    }


def _merge(entry: Entry, change: Mapping[str, Any]) -> None:
    """Add a later change of the same row."""
    match entry["op"], change["op"]:
        case "insert", "delete":
            entry |= {"op": "nothing", "key_after": None, "after": None}
        case _, "delete":
            entry |= {"op": "delete", "key_after": None, "after": None}
        case "delete", _:  # and inserted again
            entry |= {"op": "update", "key_after": change["key"], "after": change["after"]}
        case "nothing", _:
            entry |= {"op": "insert", "key_after": change["key"], "after": change["after"]}
        case _:
            entry |= {"key_after": change["key"], "after": change["after"]}
    entry["numbers"] |= change["numbers"]
    entry["omitted"] += change["omitted"]
    entry["later"] += change["later"] or ()


def _is_nothing(entry: Entry) -> bool:
    return entry["op"] == "nothing" or (
        entry["op"] == "update" and "refuse" not in entry and entry["before"] == entry["after"]
    )


def _check(entry: Entry) -> None:
    """Give the entry the reason why it cannot be undone, if there is one."""
    reason = _unknown(entry) or _later(entry)
    if reason:
        entry["refuse"] = reason


def _unknown(entry: Entry) -> str:
    op, before, after = entry["op"], entry["before"], entry["after"]
    if op == "truncate":
        return "the rows that TRUNCATE removed are not known"
    if op == "more":
        return "not all rows that the step changed are recorded"
    if entry["relation"] is None:
        return "the table was dropped"
    if entry["key"] is None and entry["key_after"] is None and op != "nothing":
        return "its primary key is not known"
    omitted = ", ".join(sorted(set(entry["omitted"])))
    if op == "update" and (not before or not after or not after.keys() <= before.keys()):
        return "what was there before is not known"
    if op == "insert" and (omitted or not after):
        return f"values of the row are not known: {omitted}"
    if op == "delete" and (omitted or not before):
        return "what was there before is not known"
    return ""


def _later(entry: Entry) -> str:
    """Name a later run that wrote the same columns, even if to the same values."""
    mine = _written(entry)
    for later in entry["later"]:
        columns = later["columns"]
        if later["op"] != "update" or entry["op"] != "update" or columns is None:
            return f"run {later['run']} has changed it since"
        if mine.intersection(columns):
            return f"run {later['run']} has written {', '.join(sorted(mine & set(columns)))} since"
    return ""


def _written(entry: Entry) -> set[str]:
    before: Mapping[str, str | None] = entry["before"] or {}
    after: Mapping[str, str | None] = entry["after"] or {}
    return {name for name, value in after.items() if name not in before or before[name] != value}
