"""The SQL statement that a call of a SQL tool is."""

import pytest

from tests.helpers.build import attachment, tool, wants
from walagent.domain.tool_spec import Effect
from walagent.errors import ToolFailedError
from walagent.message import Json
from walagent.tools.statements import bound, statement_of, visibility_statement

CHANGE = {"op": "update", "new": {"id": 1, "owner": 5}, "old": {"id": 1, "owner": 4}}
UPDATE = tool("update_row", kind="builtin", target="update_row", effect=Effect.TRANSACTIONAL)
DESK = attachment(UPDATE, writes=("status", "note"))


def test_bound_arguments_come_from_the_change() -> None:
    """What the model says for one of them counts for nothing."""
    made = bound(tool(bind={"user": "owner"}), wants(amount=5, user=999), CHANGE)
    assert made == {"amount": 5, "user": 5}


@pytest.mark.parametrize(
    ("change", "owner"),
    [
        (CHANGE, 5),
        ({"op": "delete", "old": {"owner": 4}}, 4),
        ({"op": "delete", "old": {"id": 1}}, None),
        ({"op": "truncate"}, None),
    ],
)
def test_a_bound_argument_is_of_the_row_as_it_is_after_the_change(
    change: dict[str, Json], owner: int | None
) -> None:
    """Or was, where it is gone; what the WAL did not bring is NULL, and not the model's choice."""
    assert bound(tool(bind={"user": "owner"}), wants(user=999), change)["user"] == owner


def test_a_function_is_called_by_the_names_of_its_arguments() -> None:
    """Each read as its declared type; those left out keep their defaults."""
    function = tool(
        "f",
        schema='My "App"',
        function="Do It",
        arguments=(("a", "integer"), ("B b", "app.mood[]"), ("c", "text")),
    )
    text, parameter = statement_of(function, DESK.target, {"a": 1, "B b": ["x"]}, CHANGE)
    assert text == (
        'select pg_catalog.to_jsonb("My ""App"""."Do It"("a" => g."a", "B b" => g."B b"))'
        ' from pg_catalog.jsonb_to_record($1) as g ("a" integer, "B b" app.mood[])'
    )
    assert parameter == {"a": 1, "B b": ["x"]}


def test_a_function_without_arguments_is_called() -> None:
    """With nothing."""
    text, _ = statement_of(tool("f", arguments=()), DESK.target, {}, CHANGE)
    assert text == 'select pg_catalog.to_jsonb("public"."f"()) from (select) as g'


def test_an_argument_that_the_function_does_not_have_is_not_passed() -> None:
    """The schema has refused it before; nothing is made of it here either."""
    text, _ = statement_of(tool(), DESK.target, {"amount": 1, "x) ; drop table t": 2}, CHANGE)
    assert "drop" not in text


def test_rows_that_a_function_returns_become_a_list() -> None:
    """Not without end."""
    text, _ = statement_of(tool("f", returns_set=True), DESK.target, {"amount": 1}, CHANGE)
    assert "jsonb_agg" in text
    assert "limit 1000" in text


def test_update_row_finds_the_row_by_its_key() -> None:
    """And writes what it was told to."""
    text, parameter = statement_of(UPDATE, DESK.target, {"status": "closed"}, CHANGE)
    assert 'update %1$s as t set "status" = s."status"' in text
    assert "where %4$s" in text
    assert parameter == {"set": {"status": "closed"}, "key": {"id": 1}}


def test_a_percent_sign_in_a_name_is_doubled() -> None:
    """The statement goes through format(), which writes in what the table is called."""
    on = attachment(key_columns=("%1$s",), writes=("100%",))
    text, _ = statement_of(UPDATE, on.target, {"100%": 1}, {"op": "insert", "new": {"%1$s": 1}})
    assert '"100%%" = s."100%%"' in text


def test_a_key_of_bytes_that_are_no_text_is_no_key() -> None:
    """What is written in its place could be another row's."""
    change = {"op": "insert", "new": {"id": "\\xff"}, "stray_bytes": ["id"]}
    with pytest.raises(ToolFailedError, match="which row"):
        statement_of(UPDATE, DESK.target, {"status": "x"}, change)
    assert visibility_statement(DESK.target, change) is None


def test_update_row_names_no_column_but_those_that_it_may_write() -> None:
    """Whatever gets past the schema."""
    arguments = {"status": "x", "owner": 1, 'a" = 1, "b': 2}
    text, parameter = statement_of(UPDATE, DESK.target, arguments, CHANGE)
    assert parameter["set"] == {"status": "x"}
    assert "owner" not in text
    assert '"b' not in text


@pytest.mark.parametrize(
    "change",
    [{"op": "delete", "old": {}}, {"op": "truncate"}, {"op": "insert", "new": {"id": None}}],
)
def test_update_row_needs_to_know_which_row(change: dict[str, Json]) -> None:
    """Without a key, nothing is updated, and the model is told."""
    with pytest.raises(ToolFailedError, match="which row"):
        statement_of(UPDATE, DESK.target, {"status": "x"}, change)


def test_sight_asks_for_the_row_by_its_key() -> None:
    """Where there is none, there is nothing to ask."""
    asked = visibility_statement(DESK.target, CHANGE)
    assert asked is not None
    text, key = asked
    assert "where %4$s" in text
    assert key == {"id": 1}
    assert visibility_statement(DESK.target, {"op": "truncate"}) is None
    assert visibility_statement(attachment(key_columns=()).target, CHANGE) is None
