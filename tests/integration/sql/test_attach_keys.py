"""Each key of an agent or attachment, at each door: known, with one default and one error.

The keys come from the models of agents.yaml, so a new one is tested without a line here.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from psycopg import AsyncConnection
from pydantic import BaseModel

from tests.docs_attach import script
from tests.helpers.database import DESK, message_of, refused, rows, run_all, value
from walagent.apply.apply import apply
from walagent.config import AgentEntry, AttachmentEntry, parse_config
from walagent.config.entries import COLUMNS
from walagent.config.expected import Schema, choices, expected, schema_at
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.store.errors import translating
from walagent.store.people import operator


@dataclass(frozen=True)
class Key:
    """A key of the definition."""

    name: str
    of: str
    schema: Schema

    @property
    def argument(self) -> str:
        """The name of the argument of agent.attach()."""
        return COLUMNS[self.name] if self.name in {"on", "when"} else self.name

    @property
    def error(self) -> str:
        """What a wrong value is told."""
        return f"{self.name}: {expected(self.schema)}"


def _keys() -> Iterator[Key]:
    entries: list[tuple[str, type[BaseModel]]] = [
        ("agent", AgentEntry),
        ("attachment", AttachmentEntry),
    ]
    for of, entry in entries:
        for name in entry.model_fields:
            if name not in {"attach", "table"}:
                yield Key(name, of, schema_at(entry, [name]) or {})


KEYS = list(_keys())


def wrong(key: Key) -> Iterator[Json]:
    """Values that a key must refuse, as JSON."""
    schema = key.schema
    match schema:
        case _ if choices(schema):
            yield "zzz"
        case {"type": "integer" | "number"}:
            yield "many"
            yield [1]
            yield schema.get("exclusiveMinimum", schema.get("minimum", 1) - 1)
            if "maximum" in schema:
                yield schema["maximum"] + 1
        case {"type": "boolean"}:
            yield "perhaps"
        case {"type": "string", "minLength": 1}:
            yield ""
        case {"anyOf": [_, {"pattern": _}]}:
            yield "soon"
            yield "0s"
        case {"type": "string"}:
            yield ["a", "b"]
        case {"type": "object"}:
            yield ["a"]
        case _:
            yield {"a": {}}


def _said(value: Json) -> str:
    """A value in a spec."""
    return f"[{','.join(map(str, value))}]" if isinstance(value, list) else f'"{value}"'


async def test_the_file_of_keys_is_the_one_that_is_installed(conn: AsyncConnection) -> None:
    """And the named arguments have the types of their columns."""
    known = await rows(conn, "select key, expected from agent_internal.attach_keys()")
    assert known == [(key.name, expected(key.schema)) for key in KEYS]
    differ = await rows(
        conn,
        "select k.key, a.type, format_type(c.atttypid, null)"
        "  from agent_internal.attach_keys() k"
        "       join pg_attribute c on c.attrelid = ('agent.' || k.of)::regclass"
        "                          and c.attname = k.column"
        "       join (select unnest(proargnames) as name,"
        "                    unnest(string_to_array(oidvectortypes(proargtypes), ', ')) as type"
        "               from pg_proc where proname = 'attach' and pronargs > 2) a"
        "         on a.name = case k.key when 'on' then 'ops' when 'when' then 'condition'"
        "                                else k.key end"
        " where a.type <> format_type(c.atttypid, null)",
    )
    assert differ == []
    assert script().count(" default ") == len(KEYS) + 1  # and replace


ROWS = """
select to_jsonb(g) - '{updated_at,version}'::text[],
       to_jsonb(a) - '{id,attached_at,definition,source,version}'::text[]
           || jsonb_build_object('approval_ttl', extract(epoch from a.approval_ttl)::integer)
  from agent.agent g cross join agent.attachment a
"""
MINIMAL = {
    "text": "select agent.attach('support_tickets', 'model=fake, name=desk')",
    "named": "select agent.attach('support_tickets'::regclass, 'fake', name => 'desk')",
    "json": "select agent_internal.attach('support_tickets',"
    """ '{"model": "fake", "name": "desk"}', '{public}')""",
    "rows": "insert into agent.agent (name, model) values ('desk', 'fake');"
    "insert into agent.attachment (name, agent, relation)"
    " values ('desk', 'desk', 'support_tickets')",
}
FILE = {"agents": {"desk": {"model": "fake", "attach": [{"table": "support_tickets"}]}}}


async def test_what_is_not_given_has_the_same_value_at_each_door(conn: AsyncConnection) -> None:
    """Spec, named arguments, the console's JSON, plain inserts and a file."""
    await run_all(conn, DESK)
    found = dict[str, Json]()
    for door, statement in MINIMAL.items():
        async with conn.transaction(force_rollback=True):
            await run_all(conn, statement)
            found[door] = await rows(conn, ROWS)
    async with conn.transaction(force_rollback=True):
        await apply(conn, parse_config(FILE, lambda _: ""))
        found["file"] = await rows(conn, ROWS)
    for door, each in found.items():
        assert each == found["rows"], door


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
async def test_a_wrong_value_has_the_same_error_at_each_door(
    conn: AsyncConnection, key: Key
) -> None:
    """The sentence of the key, after its name; from SQL with WA010."""
    await run_all(conn, DESK)
    for bad in wrong(key):
        own = {"model": "fake", "name": "desk"} if key.name != "agent" else {"name": "desk"}
        document = json.dumps(own | {key.name: bad})
        errors = [
            await refused(
                conn,
                "select agent_internal.attach('support_tickets', %s::jsonb, '{public}')",
                document,
                state="WA010",
            )
        ]
        if not isinstance(bad, dict):
            given = ", ".join(
                f"{name}={_said(each)}" for name, each in own.items() if name != key.name
            )
            spec = f"{given}, {key.name}={_said(bad)}"
            with pytest.raises(ConfigError) as caught, translating():
                await operator.attach(conn, "support_tickets", spec)
            assert str(caught.value) == key.error, bad
        if isinstance(bad, int) or bad == "":
            errors.append(await refused(conn, named(key, bad), state="WA010"))
        for error in errors:
            assert message_of(error).startswith(key.error), bad
        assert key.error in in_file(key, bad)
    assert await value(conn, "select count(*) from agent.agent") == 0


def named(key: Key, bad: Json) -> str:
    """The call with the value as a named argument."""
    arguments = {"name": "'desk'"} if key.name == "agent" else {"model": "'fake'", "name": "'desk'"}
    arguments[key.argument] = str(bad) if bad != "" else "''"
    listed = ", ".join(f"{name} => {each}" for name, each in arguments.items())
    return f"select agent.attach('support_tickets'::regclass, {listed})"


def in_file(key: Key, bad: Json) -> str:
    """What a file with the value is told."""
    agent: dict[str, Json] = {"model": "fake"}
    attachment: dict[str, Json] = {"table": "support_tickets", "agent": "desk"}
    (agent if key.of == "agent" else attachment)[key.name] = bad
    document = {"agents": {"desk": agent}, "attachments": {"at": attachment}}
    with pytest.raises(ConfigError) as caught:
        parse_config(document, lambda _: "")
    return str(caught.value)


async def test_a_version_of_the_console_has_the_errors_of_a_spec(conn: AsyncConnection) -> None:
    """The page that edits an agent, and a trial of its draft."""
    await run_all(conn, DESK)
    await run_all(conn, "insert into agent.agent (name, model) values ('desk', 'fake')")
    for key in KEYS:
        for bad in wrong(key) if key.of == "agent" else ():
            error = await refused(
                conn,
                "select agent_internal.change_agent('desk', %s::jsonb)",
                json.dumps({key.name: bad}),
                state="WA010",
            )
            assert message_of(error).startswith(key.error)
    changed = "select agent_internal.change_agent('desk', '{\"max_steps\": \"7\"}')"
    assert await value(conn, changed) == 2
    assert await rows(conn, "select max_steps, max_seconds from agent.agent") == [(7, 600)]
