"""A later version of the schema, to upgrade to: each kind of change to state and code at once."""

import re
from dataclasses import replace

from walagent.store.install.files import SchemaFile, SchemaFiles

_COLUMN = "alter table agent.run add note text not null default 'none';\n"
UPGRADE = SchemaFile("upgrades/9999_note.sql", _COLUMN.encode())
# File, what it has now, and what it has then.
_SCRATCH = """
create or replace function agent_internal.scratch() returns integer language sql as 'select 1';
"""
_CHANGES = (
    ("run/tables.sql", None, _COLUMN),
    # A result of another type: the function cannot be replaced in place.
    (
        "base/functions.sql",
        "agent_internal.edit_distance(_a text, _b text)\n    returns integer",
        "agent_internal.edit_distance(_a text, _b text)\n    returns bigint",
    ),
    ("run/functions.sql", None, _SCRATCH),
    ("run/grants.sql", "    ('table', 'agent.worker', 'select', '{viewer}'),\n", ""),
    (
        "run/grants.sql",
        "values\n",
        "values\n    ('function', 'agent_internal.scratch()', 'execute', '{viewer,asker}'),\n",
    ),
    ("run/policies.sql", "create policy reading on agent.run ", "create policy seen on agent.run "),
    ("run/triggers.sql", "create trigger check_transition", "create trigger check_state"),
    ("run/comments.sql", "comment on table agent.run is '", "comment on table agent.run is 'All "),
    # Columns in another order: the view cannot be replaced in place.
    ("run/views.sql", "    select r.id, r.kind,\n", "    select r.kind, r.id,\n"),
)
_REMOVED = re.compile(
    r"create or replace function agent\.workflow_dot.*?"
    r"comment on function agent\.workflow_dot[^\n]*\n"
    r"|    \('function', 'agent\.workflow_dot\(text\)'[^\n]*,\n",
    re.DOTALL,
)


def later(files: SchemaFiles) -> SchemaFiles:
    """Return the files of a later version than *files*."""
    texts = {file.name: _REMOVED.sub("", file.script.decode()) for file in files.schema}
    for name, old, new in _CHANGES:
        path = f"schema/{name}"
        assert old is None or old in texts[path], (name, old)
        texts[path] = texts[path] + new if old is None else texts[path].replace(old, new, 1)
    schema = [replace(file, script=texts[file.name].encode()) for file in files.schema]
    return SchemaFiles(schema, [*files.upgrades, UPGRADE])
