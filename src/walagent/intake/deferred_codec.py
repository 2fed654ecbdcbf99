r"""Store a change of a broken attachment whole, until it can be evaluated.

Values are stored as PostgreSQL's text, so they are read as the WAL had them; bytes of a SQL_ASCII
database become lone surrogates, which JSON writes as `\udcXX`.
"""

import json
from collections.abc import Mapping
from typing import Any

from walagent.domain.change import UNCHANGED, Change, Column, Op, Relation, Row, Value
from walagent.postgres.lsn import Lsn
from walagent.postgres.text_values import PARSERS, kind_of


def write_change(change: Change) -> str:
    """Serialize a change."""
    relation = change.relation
    return json.dumps({
        "op": change.op.value,
        "lsn": int(change.commit_lsn),
        "ordinal": change.ordinal,
        "xid": change.xid,
        "oid": relation.oid,
        "schema": relation.schema,
        "table": relation.name,
        "identity": relation.identity,
        "columns": [[c.name, c.type_oid, c.type_name, c.in_key] for c in relation.columns],
        "new": _texts(change.new),
        "old": _texts(change.old),
        "unchanged": [name for name, value in (change.new or {}).items() if value is UNCHANGED],
    })  # fmt: skip


def read_change(text: str) -> Change:
    """Read the result of `write_change`."""
    raw: dict[str, Any] = json.loads(text)
    columns = tuple(Column(name, oid, kind, in_key=key) for name, oid, kind, key in raw["columns"])
    relation = Relation(raw["oid"], raw["schema"], raw["table"], columns, raw["identity"])
    types = {column.name: column.type_oid for column in columns}
    new = _row(raw["new"], types)
    if new is not None:
        new |= dict.fromkeys(raw["unchanged"], UNCHANGED)
    old = _row(raw["old"], types)
    op, lsn = Op(raw["op"]), Lsn(raw["lsn"])
    return Change(lsn, raw["ordinal"], op, relation, new, old, raw["xid"])


def _texts(row: Row | None) -> dict[str, str | None] | None:
    if row is None:
        return None
    return {name: _text(value) for name, value in row.items() if value is not UNCHANGED}


def _text(value: Value) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "t" if value else "f"
    return repr(value) if isinstance(value, float) else str(value)


def _row(
    texts: Mapping[str, str | None] | None, types: Mapping[str, int]
) -> dict[str, Value] | None:
    if texts is None:
        return None
    return {
        name: None if text is None else PARSERS[kind_of(types.get(name, 0))](text)
        for name, text in texts.items()
    }
