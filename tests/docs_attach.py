"""The keys of agents and attachments in SQL, and the signature of agent.attach(), from the models.

`make docs` writes migrations/schema/attachment/keys.sql, and a test compares.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from tests.docs_pages import ROOT
from walagent.config import AgentEntry, AttachmentEntry
from walagent.config.entries import COLUMNS
from walagent.config.expected import choices, expected, schema_at

PAGE = ROOT / "migrations" / "schema" / "attachment" / "keys.sql"
_ENTRIES: Mapping[str, type[BaseModel]] = {"agent": AgentEntry, "attachment": AttachmentEntry}
_NOT_KEYS = {"attach", "table"}  # a list of attachments; the first argument
_FIRST = ("model", "system_prompt", "tools", "name")  # arguments that are often given by position
# Where a type of PostgreSQL does not follow from the type of the key; a test compares the columns.
_TYPES = {"max_tokens": "bigint", "run_as": "name", "query_as": "name"}
_SQL_TYPES = {"boolean": "boolean", "integer": "integer", "number": "numeric", "string": "text"}
# Reserved words of SQL have the name of their column.
_ARGUMENTS = {"on": COLUMNS["on"], "when": COLUMNS["when"]}

_MOST = 30  # keys of a call of jsonb_build_object(), which has 100 arguments at most
_AND = ")\n        || jsonb_build_object(\n"

_TEMPLATE = """\
-- What agents and attachments consist of, and agent.attach() with named arguments.
--
-- Generated from src/walagent/config/entries.py by `make docs`.

-- Args: of: agent or attachment.  fallback: the value of a key that is not given.  choices: the
-- words that it or its elements can be.  expected: what it must be, in words.
create or replace function agent_internal.attach_keys()
    returns table (key text, of text, "column" name, fallback jsonb, choices text[],
                   may_be_empty boolean, expected text)
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
    values
{keys}
$$;

-- Attach an agent, with named arguments.  Creates or changes the agent that has the name of the
-- attachment.
--
-- Args: agent: an agent that exists, instead of a new one.
-- tenant: a column of the table whose text names the tenant of each row; NULL: all runs are of the
--   caller's.
-- replace: change an attachment of this name and table that was made in SQL, instead of raising
--   WA013.
create or replace function agent.attach(
    target regclass,
{arguments},
    replace boolean default false
)
    returns bigint
    language sql
begin atomic
    select agent_internal.attach(target, jsonb_build_object(
{values}), agent_internal.schemas_of_caller());
end;
comment on function agent.attach({types}) is 'Attach an agent to a table, with named arguments';
"""


def script() -> str:
    """The file."""
    keys = {key: (of, entry) for of, entry in _ENTRIES.items() for key in _keys(entry)}
    order = [*_FIRST, *(key for key in keys if key not in _FIRST)]
    types = {key: _type(key, schema_at(keys[key][1], [key]) or {}) for key in order}
    return _TEMPLATE.format(
        keys=",\n".join(_row(key, of, entry) for key, (of, entry) in keys.items()),
        arguments=",\n".join(
            f"    {_ARGUMENTS.get(key, key)} {types[key]} default {_default(key, *keys[key])}"
            for key in order
        ),
        values=")\n        || jsonb_build_object(\n".join(
            map(_values, _parts([*order, "replace"]))
        ),
        types=", ".join(["regclass", *types.values(), "boolean"]),
    )


def _parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(keys), _MOST):
        yield keys[at : at + _MOST]


def _values(keys: Sequence[str]) -> str:
    return fill(
        ", ".join(f"'{key}',\u00a0{_ARGUMENTS.get(key, key)}" for key in keys),
        width=110,
        initial_indent=" " * 8,
        subsequent_indent=" " * 8,
    ).replace("\u00a0", " ")


def _keys(entry: type[BaseModel]) -> Iterator[str]:
    yield from (key for key in entry.model_fields if key not in _NOT_KEYS)


def _row(key: str, of: str, entry: type[BaseModel]) -> str:
    schema = schema_at(entry, [key]) or {}
    value, words = _fallback(key, entry), choices(schema)
    cells = [
        _quoted(key),
        _quoted(of),
        _quoted(COLUMNS.get(key, key)),
        "null::jsonb" if value is None else f"{_quoted(json.dumps(value))}::jsonb",
        f"'{{{','.join(words)}}}'::text[]" if words else "null::text[]",
        "false" if {"minLength", "minItems"} & schema.keys() else "true",
        _quoted(expected(schema)),
    ]
    return f"        ({', '.join(cells)})"


def _type(key: str, schema: Mapping[str, Any]) -> str:
    match schema:
        case _ if key in _TYPES:
            return _TYPES[key]
        case {"anyOf": [_, {"type": "array"}]}:
            return "text[]"
        case {"anyOf": [_, {"pattern": _}]}:
            return "interval"
        case _:
            return _SQL_TYPES.get(schema.get("type", "string"), "jsonb")


def _fallback(key: str, entry: type[BaseModel]) -> Any:  # noqa: ANN401 - it is JSON
    field = entry.model_fields[key]
    return (
        None
        if field.is_required()
        else to_jsonable_python(field.get_default(call_default_factory=True))
    )


def _default(key: str, of: str, entry: type[BaseModel]) -> str:
    match _fallback(key, entry):
        case None:
            return "current_user" if key == "run_as" else "null"
        case bool() | int() | float() as value:
            return json.dumps(value)
        case str(value):
            return _quoted(value)
        case value if _type(key, schema_at(entry, [key]) or {}) == "text[]":
            return f"'{{{','.join(value)}}}'"
        case value:
            return _quoted(json.dumps(value))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def write() -> None:
    """Write the file."""
    PAGE.write_text(script(), "utf-8")
