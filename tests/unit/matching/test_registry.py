"""The attachments in effect at the reader's place in the WAL."""

import json
from dataclasses import replace

import pytest

from tests.helpers.build import TICKETS, attachment, change, changed
from walagent.domain.agent_spec import AgentSpec
from walagent.domain.attachment import Attachment
from walagent.domain.change import UNCHANGED, Change, Op, Relation
from walagent.errors import DecodeError
from walagent.matching.canary import Canary
from walagent.matching.registry import (
    AttachmentRemoved,
    Registry,
    VersionActivated,
    is_ours,
    read_attaching,
)
from walagent.message import Json
from walagent.postgres.lsn import Lsn

OURS = Relation(1, "agent", "attachment")
DEFINITION: dict[str, Json] = {
    "id": 5,
    "version": 2,
    "name": "desk",
    "agent": "desk",
    "relation_oid": TICKETS.oid,
    "schema": "public",
    "table": "tickets",
    "ops": ["insert", "delete"],
    "key_columns": ["id"],
    "run_as": "app",
    "model": "fake",
    "condition": None,
    "condition_columns": [],
    "columns": None,
    "writes": [],
    "ordering_key": None,
    "debounce_seconds": None,
    "cap": None,
    "max_depth": 3,
    "max_attempts": 5,
    "backfill": False,
    "system_prompt": "",
    "tools": [],
    "tool_choice": "auto",
    "examples": [{"text": "a", "tool": "b"}],
    "parameters": {},
    "max_steps": 20,
    "max_tokens": None,
    "max_cost": 0.5,
    "max_seconds": 600,
    "max_output_tokens": None,
    "approval_seconds": 604800,
}


def test_our_own_table_is_known() -> None:
    """By schema and name."""
    assert is_ours(OURS)
    assert not is_ours(Relation(1, "public", "attachment"))
    assert not is_ours(Relation(1, "agent", "agent"))


def test_an_inserted_attachment_comes_into_effect() -> None:
    """With all that its definition says."""
    text = json.dumps(DEFINITION)
    found = read_attaching(change(Op.INSERT, {"id": 5, "definition": text}, relation=OURS))
    assert isinstance(found, VersionActivated)
    assert found.definition == text
    assert found.attachment is not None
    assert (found.attachment.id, found.attachment.version) == (5, 2)
    assert found.attachment.trigger.ops == {Op.INSERT, Op.DELETE}
    assert found.attachment.agent.limits.max_cost == 0.5


def test_a_deleted_attachment_is_gone() -> None:
    """Its key is all that the WAL says."""
    assert read_attaching(change(Op.DELETE, None, {"id": 5}, OURS)) == AttachmentRemoved(5)


@pytest.mark.parametrize("definition", [UNCHANGED, None])
def test_an_update_that_leaves_the_definition_alone_means_nothing(definition: Json) -> None:
    """Pausing, for instance."""
    it = change(Op.UPDATE, {"id": 5, "definition": definition}, relation=OURS)
    assert read_attaching(it) == VersionActivated(5, None, None)


def test_a_canary_is_read_beside_its_attachment() -> None:
    """With its share; its definition is not repeated where it stays."""
    text = json.dumps({**DEFINITION, "version": 3})
    row = {"id": 5, "definition": UNCHANGED, "canary_share": 0.25, "canary_definition": text}
    found = read_attaching(change(Op.UPDATE, row, relation=OURS))
    assert isinstance(found, VersionActivated)
    assert (found.attachment, found.share, found.canary_definition) == (None, 0.25, text)
    assert found.canary is not None
    assert found.canary.version == 3


def test_a_canary_stays_until_it_ends() -> None:
    """Its version, when its share changes; another version of the attachment does not end it."""
    one, two = (Attachment.from_json({**DEFINITION, "version": version}) for version in (2, 3))
    registry = Registry([one])
    assert registry.put_canary(5, 0.1, two)
    assert not registry.put_canary(5, 0.1, None)
    assert registry.put_canary(5, 0.2, None)
    assert registry.canary_of(5) == Canary(two, 0.2)
    assert registry.put(replace(one, version=4))
    assert registry.canary_of(5) == Canary(two, 0.2)
    assert registry.put_canary(5, None, None)
    assert registry.canary_of(5) is None
    assert not registry.put_canary(5, None, None)


def test_a_truncate_means_nothing() -> None:
    """A trigger refuses it."""
    assert read_attaching(change(Op.TRUNCATE, relation=OURS)) is None


@pytest.mark.parametrize(
    "definition",
    [
        "",
        "{}",
        "[]",
        "{broken",
        json.dumps({**DEFINITION, "ops": ["upsert"]}),
        json.dumps({**DEFINITION, "tools": [{}]}),
        json.dumps({k: v for k, v in DEFINITION.items() if k != "run_as"}),
    ],
)
def test_a_definition_that_cannot_be_read_stops_the_stream(definition: str) -> None:
    """It is our own trigger's word: guessing would be worse than stopping."""
    with pytest.raises(DecodeError, match="definition"):
        read_attaching(change(Op.INSERT, {"id": 5, "definition": definition}, relation=OURS))


def test_an_attachment_without_a_number_stops_the_stream() -> None:
    """There would be no telling what ended."""
    with pytest.raises(DecodeError):
        read_attaching(change(Op.DELETE, None, {"id": "x"}, OURS))


def test_attachments_are_found_by_relation() -> None:
    """All of a table, in the order in which they came; none of another."""
    first, second = attachment(id=1), attachment(id=2)
    elsewhere = attachment(id=3, table="orders", relation_oid=9)
    registry = Registry([first, elsewhere, second])
    assert registry.of(TICKETS) == [first, second]
    assert registry.of(Relation(1, "public", "nothing")) == []
    assert registry.relations == {("public", "tickets"), ("public", "orders")}
    assert {a.id for a in registry} == {1, 2, 3}


def test_a_new_version_takes_the_place_of_the_old_one() -> None:
    """The same one again is no news."""
    old = attachment(id=1)
    new = changed(old, version=2, condition="true")
    registry = Registry([old])
    assert not registry.put(replace(old))
    assert registry.put(new)
    assert registry.of(TICKETS) == [new]


def test_an_attachment_may_move_to_another_table() -> None:
    """It leaves nothing at the old one."""
    registry = Registry([attachment(id=1)])
    registry.put(attachment(id=1, version=2, table="orders", relation_oid=9))
    assert registry.of(TICKETS) == []
    assert registry.relations == {("public", "orders")}


def test_what_is_removed_is_found_no_more() -> None:
    """Removing it again does no harm."""
    registry = Registry([attachment(id=1), attachment(id=2)])
    registry.remove(1)
    registry.remove(1)
    assert [a.id for a in registry.of(TICKETS)] == [2]
    registry.remove(2)
    assert registry.relations == frozenset()


def test_a_new_table_of_an_old_name_is_not_adopted() -> None:
    """The oid tells them apart, where the plug-in tells it."""
    registry = Registry([attachment(id=1)])
    assert registry.of(replace(TICKETS, oid=999)) == []
    assert [a.id for a in registry.of(replace(TICKETS, oid=0))] == [1]
    registry.put(attachment(id=2, relation_oid=999))
    assert [a.id for a in registry.of(replace(TICKETS, oid=999))] == [2]


EVENTS = Relation(8, "agent", "event", ())


@pytest.mark.parametrize(
    ("author", "kind", "plain", "with_condition"),
    [
        ("anna", "text", True, True),
        ("bot", "text", False, True),
        ("anna", "joined", False, True),
    ],
)
def test_an_event_that_can_wake_nobody_is_not_looked_up(
    author: str,
    kind: str,
    plain: bool,  # noqa: FBT001
    with_condition: bool,  # noqa: FBT001
) -> None:
    """As agents' own answers: each would cost a query and a commit."""
    row = {"tenant": "default", "author": author, "type": kind}
    event = Change(Lsn(1), 0, Op.INSERT, EVENTS, row, None)
    agent = replace(attachment(id=1, turns={}), agent=AgentSpec("bot", "fake"))
    assert Registry([agent]).may_wake(event) is plain
    asking = replace(agent, trigger=replace(agent.trigger, condition="true"))
    assert Registry([asking]).may_wake(event) is with_condition
