r"""Convert a change to its run's JSON, which PostgreSQL can read as a row and a model can read.

Numbers keep all digits; a number that JSON cannot represent (NaN, infinity) becomes PostgreSQL's
name for it; long text is truncated and marked so; bytes that are not text (in a SQL_ASCII database)
are written as `\xff`, and the column is marked so.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import orjson

from walagent.domain.attachment import Attachment
from walagent.domain.change import UNCHANGED, Change, Op, Relation, Row, Value
from walagent.postgres import pgtypes

_JSON = {pgtypes.JSON: "json", pgtypes.JSONB: "jsonb"}
_STRAY = re.compile("[\udc80-\udcff]")  # bytes that are not UTF-8, as decoded with surrogateescape

_NULL = r"\N"  # as in COPY; ASCII, so valid in every encoding

MAX_TEXT = 256 * 1024  # characters of one value that a run stores; models receive no more
MAX_ROW = 1024 * 1024  # characters of one row


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """The size up to which a run stores a change.

    The key of a row, and values bound to arguments of tools, are exempt from the limit of the row:
    they identify it.
    """

    value: int = MAX_TEXT  # characters
    row: int = MAX_ROW


SIZE_LIMITS = SizeLimits()


@dataclass(frozen=True, slots=True)
class _Form:
    """What all changes of a relation have in common for one attachment."""

    attachment: Attachment
    relation: Relation
    head: Mapping[str, str]
    parsed: frozenset[str]  # columns whose text is stored as JSON
    first: frozenset[str]  # columns that do not count towards `SizeLimits.row`
    shown: frozenset[str] | None  # None: all columns
    given: tuple[str, ...]  # columns that tools receive: the key, and those bound to arguments


# By the identity of attachment and relation: both are one object while they are in effect.
_forms: dict[tuple[int, int], _Form] = {}
_MOST_FORMS = 1000


def _form_of(attachment: Attachment, relation: Relation) -> _Form:
    key = id(attachment), id(relation)
    form = _forms.get(key)
    if form is not None and form.attachment is attachment and form.relation is relation:
        return form
    if len(_forms) >= _MOST_FORMS:
        _forms.clear()
    target, bound = attachment.target, attachment.agent.bound
    # A json column is stored as text: jsonb, the type of the run's column, rejects some JSON.
    kinds = json_columns(attachment, relation).items()
    form = _forms[key] = _Form(
        attachment,
        relation,
        head={"schema": readable(relation.schema), "table": readable(relation.name)},
        parsed=frozenset(name for name, kind in kinds if kind == "jsonb"),
        first=bound.union(target.key_columns),
        shown=None if target.columns is None else target.columns.union(target.key_columns, bound),
        given=(*target.key_columns, *sorted(bound)),
    )
    return form


def document(
    change: Change, attachment: Attachment, limits: SizeLimits = SIZE_LIMITS
) -> dict[str, Any]:
    """Convert a change to its run's JSON, with only the columns that the agent can see."""
    form = _form_of(attachment, change.relation)
    change = without_former_tenant(change, attachment)
    shown: dict[str, Any] = {"op": change.op.value, **form.head}
    truncated: dict[str, int] = {}
    stray: set[str] = set()
    if change.new is not None:
        shown["new"] = _shown_row(change.new, form, limits, truncated, stray)
        if UNCHANGED in change.new.values():
            shown["unchanged"] = [readable(n) for n, v in change.new.items() if v is UNCHANGED]
    if change.old is not None:
        # Of a column that both rows have, the new one counts: update_row compares with it.
        present = shown.get("new", {}).keys()
        former: dict[str, int] = {}
        shown["old"] = _shown_row(change.old, form, limits, former, stray)
        truncated |= {name: n for name, n in former.items() if name not in present}
    if truncated:
        shown["truncated"] = truncated
    if stray:
        shown["stray_bytes"] = sorted(stray)
    return shown


def json_columns(attachment: Attachment, relation: Relation) -> Mapping[str, str]:
    """Return the json and jsonb columns: by their type at the change, if the WAL has it.

    The OID of a domain is not enough; its base type is known from the attachment.
    """
    kinds = dict(attachment.target.json_columns)
    for column in relation.columns:
        if column.type_oid in _JSON:
            kinds[column.name] = _JSON[column.type_oid]
        elif 0 < column.type_oid < pgtypes.FIRST_OF_USERS:
            kinds.pop(column.name, None)
    return kinds


def row_json(row: Row | None, parsed: Collection[str] = ()) -> dict[str, Any] | None:
    """Convert a row to text values that PostgreSQL reads back unchanged, without UNCHANGED ones.

    Args:
        parsed: columns whose text is parsed as JSON.
    """
    if row is None:
        return None
    return {
        name: _exact(value, is_json=name in parsed)
        for name, value in row.items()
        if value is not UNCHANGED
    }


def _exact(value: Value, *, is_json: bool) -> Value | orjson.Fragment:
    if not isinstance(value, str):
        return _plain(value)
    if is_json:
        return orjson.Fragment(value.encode("utf-8", "surrogateescape"))
    if is_text(value):
        return value
    quoted = json.dumps(value, ensure_ascii=False)  # it accepts stray bytes
    return orjson.Fragment(quoted.encode("utf-8", "surrogateescape"))


def _shown_row(
    row: Row, form: _Form, limits: SizeLimits, truncated: dict[str, int], stray: set[str]
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    left, shown = limits.row, form.shown
    for column, value in row.items():
        if value is UNCHANGED or (shown is not None and column not in shown):
            continue
        name = readable(column)
        if not isinstance(value, str):
            out[name] = _plain(value)
            continue
        most = limits.value
        if column not in form.first:
            most = min(most, left)
            left -= min(len(value), most)
        is_whole, has_stray = len(value) <= most, not is_text(value)
        if not is_whole:
            truncated[name] = len(value)
        if has_stray:
            stray.add(name)
        if is_whole and not has_stray:
            out[name] = orjson.Fragment(value) if column in form.parsed else value
        else:
            out[name] = readable(value[:most])
    return out


def _plain(value: Value) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return value


def is_text(value: str) -> bool:
    """Return whether a value is valid text, without bytes of a SQL_ASCII database."""
    return value.isascii() or _STRAY.search(value) is None


def readable(text: str) -> str:
    r"""Replace bytes that are not text by `\xff`; for people and models, not reversible."""
    if is_text(text):
        return text
    return _STRAY.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def unnamed(change: Change, attachment: Attachment) -> str | None:
    """Return a column bound to a tool whose value is not valid text: it would name another row."""
    row = row_of(change)
    for name in _form_of(attachment, change.relation).given:
        if isinstance(value := row.get(name), str) and not is_text(value):
            return readable(name)
    return None


def cut_off(
    change: Change, attachment: Attachment, limits: SizeLimits = SIZE_LIMITS
) -> tuple[str, int] | None:
    """Return a column bound to a tool whose value is longer than is stored, with its length."""
    row = row_of(change)
    for name in _form_of(attachment, change.relation).given:
        if isinstance(value := row.get(name), str) and len(value) > limits.value:
            return readable(name), len(value)
    return None


def is_found(change: Change, attachment: Attachment, limits: SizeLimits = SIZE_LIMITS) -> bool:
    """Whether tools receive the row's values unchanged: `unnamed` and `cut_off` return None."""
    row = row_of(change)
    for name in _form_of(attachment, change.relation).given:
        value = row.get(name)
        if isinstance(value, str) and not (len(value) <= limits.value and is_text(value)):
            return False
    return True


def tenant_of(change: Change, attachment: Attachment) -> str | None:
    """Return the tenant that a row names, "" if none; None: the attachment does not ask."""
    column, row = attachment.tenant_column, row_of(change)
    if column is None or not row:
        return None
    value = row.get(column)
    if value is UNCHANGED:  # TOAST
        value = (change.old or {}).get(column)
    return "" if value is None or value is UNCHANGED else readable(str(value))


def without_former_tenant(change: Change, attachment: Attachment) -> Change:
    """Return an update without its old row, unless that names the same tenant as the new one."""
    column = attachment.tenant_column
    if column is None or change.old is None or change.op is not Op.UPDATE:
        return change
    new, old = (change.new or {}).get(column), change.old.get(column)
    if old is not None and (new is UNCHANGED or new == old):
        return change
    return replace(change, old=None)


def row_of(change: Change) -> Row:
    """Return the side of a change that identifies its row: old for a delete, else new."""
    return (change.old if change.op is Op.DELETE else change.new) or {}


def key_of(row: Row | Mapping[str, Any], attachment: Attachment) -> str | None:
    """Return the row's primary key as text, for people and for `walagent why`; None: no row."""
    return joined(row, attachment.target.key_columns) if row else None


def ordering_key_of(change: Change, attachment: Attachment) -> str | None:
    """Return the ordering key: runs with equal keys execute one at a time.

    An update that changes the ordering key keeps the old one, so its run stays behind the earlier
    ones.
    """
    columns = (
        attachment.target.key_columns
        if attachment.queueing.ordering_key is None
        else attachment.queueing.ordering_key
    )
    change = without_former_tenant(change, attachment)
    row = row_of(change)
    if change.op is Op.UPDATE and change.old and all(name in change.old for name in columns):
        row = change.old
    return joined(row, columns)


def joined(row: Row | Mapping[str, Any], columns: Iterable[str]) -> str | None:
    """Join values to a text that is different for different values; None without columns."""
    values = [row.get(name) for name in columns]
    if not values:
        return None
    if len(values) == 1:
        return _word(values[0])
    return ",".join(_word(value).replace("\\", "\\\\").replace(",", "\\,") for value in values)


def _word(value: object) -> str:
    if type(value) is int:
        return str(value)
    if value is None or value is UNCHANGED:
        return _NULL
    if isinstance(value, Decimal) and value.is_finite():
        return format(value.normalize(), "f")
    return readable(str(value)[:1000])
