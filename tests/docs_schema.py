"""The page of the schema, docs/reference/schema.md, made from the catalog of a migrated database.

`make docs` writes it from an embedded server, and a test compares.  The schema `agent`, the
interface, comes first and complete; of the others the page has names and comments.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import psycopg

from tests.docs_pages import ROOT
from tests.servers import run_server
from walagent.store.install.files import find_files
from walagent.store.install.migrate import migrate

PAGE = ROOT / "docs" / "reference" / "schema.md"

Connection = psycopg.Connection[Any]

_INTRO = """# Schema

walagent's functions, tables and views by noun, generated from the comments in the database.
[migrations/README.md](../../migrations/README.md) states how the nouns relate, who writes what, and
what they promise. Only the schema `agent` is an interface ([stability](../stability.md)); the last
section has the rest.
"""
_INTERNAL = """
## Internal

Not an interface: it can change in any release.
"""
# Where each noun is explained.
_EXPLAINED = {
    "base": "concepts.md", "tenant": "tenants.md", "capability": "security.md",
    "audit": "tenants.md", "catalog": "attaching.md", "model": "models.md", "tool": "tools.md",
    "persona": "personas.md",
    "agent": "attaching.md", "attachment": "attaching.md", "publication": "operations.md",
    "checkpoint": "recovery.md", "run": "concepts.md", "step": "concepts.md",
    "trampoline": "security.md", "approval": "approvals.md", "policy": "tools.md",
    "budget": "budgets.md", "shared_call": "economy.md",
    "question": "asking.md", "queue": "concepts.md",
    "thread": "threads.md", "turn": "threads.md", "worker": "own-worker.md",
    "outbox": "notifications.md", "memory": "memory.md", "document": "documents.md",
    "workflow": "workflows.md", "team": "teams.md", "console": "console.md",
    "evaluation": "evaluation.md",
}  # fmt: skip
_FUNCTIONS = """
select n.nspname || '.' || p.proname, pg_get_function_arguments(p.oid),
       pg_get_function_result(p.oid), coalesce(obj_description(p.oid, 'pg_proc'), '')
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where n.nspname in ('agent', 'agent_internal', 'agent_signed')
 order by 1, p.pronargs, 2
"""
_RELATIONS = """
select c.oid::regclass::text,
       coalesce(obj_description(c.oid, 'pg_class'), obj_description(c.reltype, 'pg_type'), ''),
       jsonb_agg(jsonb_build_array(
           a.attname,
           format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null'
                                                        else '' end,
           coalesce(col_description(c.oid, a.attnum), '')) order by a.attnum)
  from pg_class c
       join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
 where c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
   and c.relkind in ('r', 'v', 'c')
 group by c.oid
 order by 1
"""
_ENUMS = """
select t.oid::regtype::text, obj_description(t.oid, 'pg_type'),
       string_agg(format('`%s`', e.enumlabel), ', ' order by e.enumsortorder)
  from pg_type t join pg_enum e on e.enumtypid = t.oid
 where t.typnamespace = 'agent'::regnamespace
 group by t.oid
 order by t.typname
"""
_DEFINED = re.compile(
    r"^create (?:or replace )?(?:function|table|view|type) (?P<name>[\w.]+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an object is defined."""

    file: str
    line: int

    @property
    def noun(self) -> str:
        """The folder that it is in."""
        return self.file.split("/")[1]

    def link(self, text: str) -> str:
        """Return *text* as a link to it."""
        return f"[{text}](../../migrations/{self.file}#L{self.line})"


def schema_page(conn: Connection) -> str:
    """Give the whole page."""
    places = _places()
    functions = [(places[name].pop(0), name, *rest) for name, *rest in conn.execute(_FUNCTIONS)]
    relations = [(places[name][0], name, *rest) for name, *rest in conn.execute(_RELATIONS)]
    enums = [(places[name][0], name, *rest) for name, *rest in conn.execute(_ENUMS)]
    parts = [_INTRO]
    for noun, explained in _EXPLAINED.items():
        page = [
            *_functions(found for found in functions if _is_of(found, noun)),
            *_enums(found for found in enums if _is_of(found, noun)),
            *_relations(found for found in relations if _is_of(found, noun)),
        ]
        if page:
            parts += [f"\n## {noun}\n\nExplained in [{explained}](../{explained}).\n", *page]
    parts.append(_INTERNAL)
    for noun in _EXPLAINED:
        rows = [
            (place.link(f"`{name.removeprefix('agent_internal.')}`"), comment)
            for place, name, comment in (
                *((place, name, text) for place, name, text, _ in relations),
                *((place, name, text) for place, name, _, _, text in functions),
            )
            if place.noun == noun and not name.startswith("agent.")
        ]
        if rows:
            parts += [f"\n### {noun}: internal\n\n", _table(("name", "meaning"), rows)]
    return "".join(parts)


def _places() -> dict[str, list[_Place]]:
    """Return the definitions of each name, in the order of their arguments' number."""
    found: dict[str, list[tuple[int, _Place]]] = defaultdict(list)
    for file in find_files().schema:
        text = file.script.decode()
        for match in _DEFINED.finditer(text):
            signature = text[match.end() : text.find("\n    returns", match.end())]
            place = _Place(file.name, text.count("\n", 0, match.start()) + 1)
            found[match["name"]].append((signature.count(","), place))
    return {
        name: [place for _, place in sorted(each, key=itemgetter(0))]
        for name, each in found.items()
    }


def _is_of(found: tuple[Any, ...], noun: str) -> bool:
    return found[0].noun == noun and str(found[1]).startswith("agent.")


def _functions(found: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    rows = [
        (place.link(f"`{name.removeprefix('agent.')}({arguments})`"), f"`{result}`", comment)
        for place, name, arguments, result, comment in found
        if result != "trigger"
    ]
    if rows:
        yield "\n"
        yield _table(("function", "returns", "meaning"), rows)


def _enums(found: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    for place, name, comment, labels in found:
        yield f"\n### {name}\n\n{place.link('Type')}: {comment}. {labels}\n"


def _relations(found: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    kinds = {"tables": "Table", "views": "View", "types": "Type"}
    for place, name, comment, columns in found:
        kind = kinds[place.file.rsplit("/", 1)[1].removesuffix(".sql")]
        yield f"\n### {name}\n\n{place.link(kind)}: {comment}.\n\n"
        yield _table(
            ("column", "type", "meaning"),
            ((f"`{column}`", f"`{type_}`", said) for column, type_, said in columns),
        )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) * len(head), *(tuple(map(_cell, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def write() -> None:
    """Write the page, from an embedded server of its own."""
    with run_server("embedded") as dsn, psycopg.connect(dsn) as conn:
        asyncio.run(_migrate(dsn))
        PAGE.write_text(schema_page(conn), "utf-8")


async def _migrate(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        await migrate(conn)
