"""The SQL statement that a call of a SQL tool is.  Pure: text and one JSON parameter, `$1`.

It is executed on the search_path of the attachment, which others can create in: each name is
qualified, and each operator.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from psycopg import sql

from walagent.domain.agent_spec import Target
from walagent.domain.fitted_arguments import fitted
from walagent.domain.tool_spec import Tool
from walagent.errors import ToolFailedError
from walagent.message import Json, ToolCall

# What agent_internal.bind_relation() writes in, with NUL for the percent sign: no name holds one.
_TABLE, _KEY = sql.SQL("\x001$s"), sql.SQL("\x002$s")
_SET, _SAME = sql.SQL("\x003$s"), sql.SQL("\x004$s")
_SEEN, _UNCHANGED, _DIGEST = sql.SQL("\x005$s"), sql.SQL("\x006$s"), sql.SQL("\x007$s")


def bound(tool: Tool, call: ToolCall, change: Mapping[str, Any]) -> dict[str, Json]:
    """What is called with: the arguments as they are meant, and those that come from the change,
    which the model never chose.
    """
    row: Mapping[str, Any] = change.get("new") or change.get("old") or {}
    taken = {argument: row.get(column) for argument, column in tool.bind.items()}
    return {**fitted(tool, call.arguments or {}), **taken}


def statement_of(
    tool: Tool,
    target: Target,
    arguments: Mapping[str, Json],
    change: Mapping[str, Any],
    since: str | None = None,
) -> tuple[str, dict[str, Json]]:
    """Compose the statement that carries a call out, and its parameter.

    One of update_row is for agent_internal.bind_relation(), which writes in what the table is
    called.  With `only_unchanged`, its result is JSON's null if the row has changed.

    Args:
        since: the digest of the row after the last update of the run, which the row is then
            compared with, instead of the change.

    Raises:
        ToolFailedError: update_row on a row that the WAL did not name.
    """
    if tool.kind == "builtin":
        seen = _seen(target, change) if target.only_unchanged else {}
        return _update_row(target, arguments, change, seen, since)
    types = tuple((name, type_) for name, type_ in tool.arguments if name in arguments)
    text = _function_call(tool.schema, tool.function, types, returns_set=tool.returns_set)
    return text, dict(arguments)


def visibility_statement(
    target: Target, change: Mapping[str, Any]
) -> tuple[str, dict[str, Json]] | None:
    """Compose the question whether the row of a change can be seen; None without a key.

    For agent_internal.bind_relation(), which writes in what the table is called.
    """
    key = _row_key(target, change)
    if key is None:
        return None
    asked = _template(
        sql.SQL(
            "select exists (select from {table} as t,"
            " pg_catalog.jsonb_to_record($1) as k ({key}) where {same})"
        )
    )
    return asked, key


@lru_cache(maxsize=1024)  # quoting the names takes a tenth of a call
def _function_call(
    schema: str, function: str, types: Sequence[tuple[str, str]], *, returns_set: bool
) -> str:
    """`select to_jsonb(schema.f(a => g.a, …)) from jsonb_to_record($1) as g (a type, …)`.

    PostgreSQL itself reads the arguments as their declared types, which the catalog has spelled:
    lists, rows and JSON too.  Arguments left out keep their defaults.
    """
    given = [(sql.Identifier(name), type_) for name, type_ in types]
    call = sql.SQL("{}({})").format(
        sql.Identifier(schema, function),
        sql.SQL(", ").join(sql.SQL("{0} => g.{0}").format(name) for name, _ in given),
    )
    typed = sql.SQL(", ").join(
        sql.SQL("{} {}").format(name, sql.SQL(type_))  # pyright: ignore[reportArgumentType]
        for name, type_ in given
    )
    read = sql.SQL("pg_catalog.jsonb_to_record($1) as g ({})" if given else "(select) as g").format(
        typed
    )
    text = (
        "select coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(r)), '[]')"
        " from {read}, lateral (select * from {call} limit 1000) as r"
        if returns_set
        else "select pg_catalog.to_jsonb({call}) from {read}"
    )
    return sql.SQL(text).format(read=read, call=call).as_string()


def _update_row(
    target: Target,
    arguments: Mapping[str, Json],
    change: Mapping[str, Any],
    seen: Mapping[str, Json],
    since: str | None,
) -> tuple[str, dict[str, Json]]:
    """Update the row of the change, found by its key; only columns in `writes` can be named."""
    key = _row_key(target, change)
    if key is None:
        raise ToolFailedError("the change does not say which row it was: no key came with it")
    columns = [name for name in arguments if name in target.writes]
    text = _template(
        sql.SQL(
            "with done as (update {table} as t set {sets}"
            " from pg_catalog.jsonb_to_record($1 operator(pg_catalog.->) 'set') as s ({set}),"
            " pg_catalog.jsonb_to_record($1 operator(pg_catalog.->) 'key') as k ({key})"
            " {seen} where {same} {unchanged} returning {done})"
            " select {result} from done {otherwise}"
        ),
        columns,
        compares=bool(seen),
    )
    given: dict[str, Json] = {"set": {name: arguments[name] for name in columns}, "key": key}
    if seen and since is not None:
        given |= {"seen": dict.fromkeys(seen), "since": since}
    elif seen:
        cut = {name: n for name, n in change.get("truncated", {}).items() if name in seen}
        json_texts = (name for name, kind in target.json_columns.items() if kind == "json")
        texts = [name for name in (*cut, *json_texts) if name in seen]
        given |= {"seen": dict(seen), "texts": sorted({*texts}), "cut": cut}
    return text, given


def _seen(target: Target, change: Mapping[str, Any]) -> dict[str, Json]:
    """Return what the agent was shown of the row, and can have changed since by others.

    What an update left as it was can be in the old row alone.  Bytes that are not text are not
    compared: they were shown as something else.
    """
    without = {*change.get("stray_bytes", ()), *target.key_columns}
    old: Mapping[str, Json] = change.get("old") or {}
    left = {name: old[name] for name in change.get("unchanged", ()) if name in old}
    row: Mapping[str, Json] = {**left, **(change.get("new") or {})}  # planted: stale-long-value
    return {name: value for name, value in row.items() if name not in without}


def _row_key(target: Target, change: Mapping[str, Any]) -> dict[str, Json] | None:
    row: Mapping[str, Any] = change.get("new") or change.get("old") or {}
    stray = change.get("stray_bytes", ())  # what is written for these is not what they are
    key = {name: row.get(name) for name in target.key_columns if name not in stray}
    if not key or len(key) < len(target.key_columns):
        return None
    return None if any(value is None for value in key.values()) else key


_READ = sql.SQL(", pg_catalog.jsonb_to_record($1 operator(pg_catalog.->) 'seen') as u ({})")
# A row that differs or is gone, not one that a policy or a trigger left alone.
_OTHERWISE = sql.SQL(
    "union all select 'null' where not exists (select from done) and not exists (select from"
    " {table} as t, pg_catalog.jsonb_to_record($1 operator(pg_catalog.->) 'key') as k ({key})"
    " {seen}"
    " where {same} and ({unchanged}))"
).format(table=_TABLE, key=_KEY, same=_SAME, seen=_READ.format(_SEEN), unchanged=_UNCHANGED)
_PLAIN = sql.SQL("1"), sql.SQL("pg_catalog.to_jsonb('updated'::pg_catalog.text)")
_COMPARED = (
    sql.SQL("{} as digest").format(_DIGEST),
    sql.SQL("pg_catalog.jsonb_build_object('row', done.digest)"),
)


def _template(text: sql.SQL, columns: Sequence[str] = (), *, compares: bool = False) -> str:
    """Fill a statement in as far as is known here; the rest is for
    agent_internal.bind_relation().
    """
    done, result = _COMPARED if compares else _PLAIN
    written = text.format(
        done=done,
        result=result,
        table=_TABLE,
        key=_KEY,
        set=_SET,
        same=_SAME,
        seen=_READ.format(_SEEN) if compares else sql.SQL(""),
        unchanged=sql.SQL("and {}").format(_UNCHANGED) if compares else sql.SQL(""),
        otherwise=_OTHERWISE if compares else sql.SQL(""),
        sets=sql.SQL(", ").join(
            sql.SQL("{0} = s.{0}").format(sql.Identifier(name)) for name in columns
        ),
    )
    return written.as_string().replace("%", "%%").replace("\0", "%")
