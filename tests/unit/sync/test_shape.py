"""What a shape says of the changes of its table, against a client that applies it to a dict."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.sync.build import ITEM, Row, item_table
from walagent.domain.change import UNCHANGED, Change, Column, Op, Relation, Value
from walagent.postgres.lsn import Lsn
from walagent.sync.definition import Definition
from walagent.sync.limits import EngineLimits
from walagent.sync.predicate import compile_where
from walagent.sync.shape import RowChange, Shape, ShapeChange, lacks_values
from walagent.sync.shape_log import Offset
from walagent.sync.where import parse_where

Texts = Mapping[str, str | None]


@dataclass(frozen=True)
class Setting:
    """What differs between shapes, and what the server sends of an old row."""

    identity: str  # d: its key, if that changes; f: all of it
    replica: str
    where: str
    columns: tuple[str, ...] | None


SETTINGS = st.builds(
    Setting,
    st.sampled_from(["d", "f"]),
    st.sampled_from(["default", "full"]),
    st.sampled_from(
        ["", "number = 1", "number <> 1 or text is null", "not flag", "id > 1", "id in (0, 3)"]
    ),
    st.sampled_from([None, ("id", "text")]),
)
ROWS = st.builds(
    lambda number, text, flag: {"number": number, "text": text, "flag": flag},
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from([None, "", "a", 'q"\\é']),
    st.sampled_from([None, True, False]),
)
KEYS = st.integers(0, 3)
# write: insert or update; move: to another key; delete.  What cannot be done is left out.
STEPS = st.lists(st.tuples(st.sampled_from(["write", "write", "move", "delete"]), KEYS, KEYS, ROWS))


def relation(identity: str) -> Relation:
    """The table as the WAL describes it."""
    columns = tuple(
        Column(name, oid, "", in_key=identity == "f" or name == "id") for name, oid in ITEM.items()
    )
    return Relation(7, "public", "item", columns, identity)


def change_of(on: Relation, old: Row | None, new: Row | None) -> Change:
    """A change as the server sends it."""
    op = Op.INSERT if old is None else Op.DELETE if new is None else Op.UPDATE
    sent: Row | None = old
    if old is not None and on.identity == "d":
        has_moved = new is None or new["id"] != old["id"]
        sent = {"id": old["id"]} if has_moved else None
    return Change(Lsn(1), 0, op, on, new, sent)


class Client:
    """Applies messages to its rows; each must be possible."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rows: dict[str, dict[str, Any]] = {}

    def apply(self, message: Mapping[str, Any]) -> None:
        """Apply one message, as the public client does."""
        key, value, operation = message["key"], message["value"], message["headers"]["operation"]
        assert "id" in value, message  # without its key, an application cannot find the row
        before = self.rows.get(key)
        match operation:
            case "insert":
                assert before is None, message
                self.rows[key] = value
            case "update":
                assert before is not None, message
                for name, text in message.get("old_value", {}).items():
                    assert before[name] == text, message
                self.rows[key] = {**before, **value}
            case _:
                assert before is not None, message
                if self.setting.replica == "full" and self.setting.identity == "f":
                    assert value == before, message
                del self.rows[key]


def steps_of(steps: Sequence[tuple[str, int, int, Row]]) -> list[tuple[Row | None, Row | None]]:
    """Carry out steps on a table; return what each did to a row, and leave out what did nothing."""
    rows: dict[Value, Row] = {}
    done = list[tuple[Row | None, Row | None]]()
    for what, key, to, values in steps:
        old = rows.get(key)
        if what == "write":
            new: Row | None = {"id": key, **values}
        elif old is None or (what == "move" and to in rows):
            continue
        else:
            new = {**old, "id": to} if what == "move" else None
        rows.pop(key, None)
        if new is not None:
            rows[new["id"]] = new
        done.append((old, new))
    return done


def append(shape: Shape, lsn: int, changes: Sequence[ShapeChange]) -> bool:
    """Append a transaction as the stream does; return whether it fitted."""
    messages = [
        each.message(shape.table.relation, lsn, [lsn], is_last=each is changes[-1])
        for each in changes
    ]
    places = [each.position for each in changes]
    return not changes or shape.extend(lsn, zip(places, messages, strict=True))


async def follow(setting: Setting, steps: Sequence[tuple[str, int, int, Row]]) -> None:
    """Let a client follow a shape; after each change it must have the rows of the shape."""
    table, on = item_table(setting.identity), relation(setting.identity)
    where = parse_where(setting.where) if setting.where else None
    replica = "full" if setting.replica == "full" else "default"
    definition = Definition("public", "item", where, setting.columns, replica)
    predicate = None if where is None else compile_where(where, table)
    assert (predicate is None) == (where is None)
    shape, client = Shape(definition, table, predicate, EngineLimits()), Client(setting)
    rows: dict[Value, Row] = {}
    at = shape.end
    for lsn, (old, new) in enumerate(steps_of(steps), start=10):
        change = change_of(on, old, new)
        row = RowChange.of(table, change, None if new is None else table.texts(new))
        assert append(shape, lsn, shape.changes_of(row))
        messages, at, is_end = shape.log.after(at)
        assert is_end
        for message in map(json.loads, messages):
            client.apply(message)
        if old is not None:
            del rows[old["id"]]
        if new is not None:
            rows[new["id"]] = new
        every = {table.key_of(texts): texts for texts in map(table.texts, rows.values())}
        assert client.rows == {
            key: {name: texts[name] for name in shape.columns}
            for key, texts in every.items()
            if predicate is None or predicate(texts) is True
        }


SOME: Row = {"number": 1, "text": "a", "flag": None}
OTHER: Row = {"number": 2, "text": "a", "flag": None}


@given(SETTINGS, STEPS)
@example(Setting("f", "full", "", None), [("write", 0, 0, SOME), ("move", 0, 1, SOME)])
@example(Setting("d", "full", "", None), [("write", 0, 0, SOME), ("move", 0, 1, SOME)])
@example(
    Setting("d", "default", "id in (0, 3)", None), [("write", 0, 0, SOME), ("move", 0, 1, SOME)]
)
@example(
    Setting("d", "default", "number = 1", None),
    [("write", 0, 0, SOME), ("move", 0, 1, SOME), *[("write", 0, 0, OTHER)] * 2],
)
def test_a_client_has_the_rows_of_the_shape_after_each_change(
    setting: Setting, steps: list[tuple[str, int, int, Row]]
) -> None:
    """Rows come, change, leave the condition, move to another key and go."""
    asyncio.run(follow(setting, steps))


@pytest.mark.parametrize("identity", ["d", "f"])
async def test_an_update_names_the_row_by_its_key(identity: str) -> None:
    """Also if only what has changed is sent."""
    table = item_table(identity)
    old: Row = {"id": 1, "number": 1, "text": "a", "flag": None}
    new: Row = {**old, "number": 2}
    row = RowChange.of(table, change_of(relation(identity), old, new), table.texts(new))
    (found,) = Shape(Definition("public", "item"), table, None, EngineLimits()).changes_of(row)
    whole = {"id": "1", "number": "2", "text": "a", "flag": None}
    assert found.value == (whole if identity == "d" else {"id": "1", "number": "2"})


async def test_an_update_that_changes_nothing_is_no_message() -> None:
    """If the whole old row is known."""
    table, row = item_table("f"), {"id": 1, "number": 1, "text": "a", "flag": None}
    same = RowChange.of(table, change_of(relation("f"), row, row), table.texts(row))
    assert Shape(Definition("public", "item"), table, None, EngineLimits()).changes_of(same) == []


@pytest.mark.parametrize(("text", "lacks"), [("a", False), (None, False), (UNCHANGED, True)])
def test_a_value_that_was_not_sent_is_noticed(text: Value, lacks: bool) -> None:  # noqa: FBT001
    """NULL was sent."""
    new: Row = {"id": 1, "text": text}
    assert lacks_values(Change(Lsn(1), 0, Op.UPDATE, relation("d"), new, None)) is lacks


async def test_a_log_that_is_full_takes_no_more() -> None:
    """What does not fit is not there in part either."""
    table = item_table("d")
    shape = Shape(Definition("public", "item"), table, None, EngineLimits(log_bytes=300))
    for n, fits in ((1, True), (2, False)):
        new: Row = {"id": n, "number": 1, "text": "x" * 60, "flag": None}
        row = RowChange.of(table, change_of(relation("d"), None, new), table.texts(new))
        assert append(shape, n, shape.changes_of(row)) is fits
    assert len(shape.log.after(shape.end)[0]) == 0
    assert shape.log.has_after(shape.end) is False


async def test_a_message_is_written_once_for_all_shapes_that_have_it() -> None:
    """Whatever their conditions; not for one of other columns, and the last one says so."""
    table, on = item_table("d"), relation("d")
    definitions = [
        Definition("public", "item"),
        Definition("public", "item", parse_where("number > 0")),
        Definition("public", "item", None, ("id",)),
    ]
    shapes = [
        Shape(d, table, compile_where(d.where, table) if d.where else None, EngineLimits())
        for d in definitions
    ]
    rows = [
        RowChange.of(table, replace(change_of(on, None, new), ordinal=n), table.texts(new))
        for n in range(3)
        if (new := {"id": n, "number": n, "text": "a", "flag": None})
    ]
    for shape in shapes:
        assert append(shape, 10, [c for row in rows for c in shape.changes_of(row)])
    whole, some, other = (shape.log.after(Offset(0, 0))[0] for shape in shapes)
    assert len(whole) == len(other) == 3
    assert some[0] is whole[1]
    assert other[1] is not whole[1]
    assert [json.loads(m)["headers"].get("last", False) for m in some] == [False, True]
    positions = [json.loads(m)["headers"]["op_position"] for m in whole]
    assert positions == sorted(set(positions))
    assert shapes[0].end > Offset(10, positions[-1])
