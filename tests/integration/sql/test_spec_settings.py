"""An attachment means the same, whatever the session that attaches has set."""

import json
import re

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows, run_all

_LITERAL = re.compile(r"(?<![eE])'(?:[^']|'')*'")
SETTINGS = {
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "standard_conforming_strings": "off",
    "datestyle": "German",
    "intervalstyle": "sql_standard",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "xmloption": "document",
}
ATTACHMENTS = """
create type public.mood as enum ('good', 'bad');
create table public.visit (
    id bigint primary key, "Said Of" text check ("Said Of" in ('a', 'b')), mood public.mood,
    at timestamptz default now(), notes text[], price numeric(8, 2)
);
create function public.note(id bigint, mood public.mood, texts text[] default '{}') returns text
    language sql as $$ select 'noted' $$;
"""
SPEC = (
    'name={}, model=gpt-4o, tools=["public.note"], bind=[id=id, mood=mood], on=[insert, update],'
    " writes=[\"Said Of\", notes, price], when=\"new.mood = 'good' and new.at > '2026-01-02'\""
)


@pytest.mark.few(3)
@pytest.mark.parametrize("setting", SETTINGS)
async def test_what_is_attached_does_not_depend_on_settings_of_the_session(
    conn: AsyncConnection, setting: str
) -> None:
    """A role or a database can have them.  A time zone and a search_path are meant as they are."""
    await run_all(conn, ATTACHMENTS)
    for name in ("plain", "turned"):
        spec = SPEC.format(name)
        await run_all(conn, f"select agent.attach('public.visit', $${spec}$$)")
        await run_all(conn, f"set {setting} = '{SETTINGS[setting]}'")
    await run_all(conn, "reset all")
    listed = await rows(conn, "select definition::text from agent.attachment order by id")
    plain, turned = (json.loads(text.replace("turned", "plain")) for (text,) in listed)
    del plain["id"], turned["id"]
    assert turned == plain


async def test_a_backslash_is_one_whatever_is_set(conn: AsyncConnection) -> None:
    """A session that first calls a function reads its literals by its own settings."""
    found = await rows(
        conn,
        "select oid::regprocedure::text, prosrc, proconfig from pg_proc"
        " where pronamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)",
    )
    without = [
        name
        for name, text, settings in found
        if any("\\" in literal for literal in _LITERAL.findall(re.sub("--.*", "", text)))
        and "standard_conforming_strings=on" not in (settings or [])
    ]
    assert without == []
