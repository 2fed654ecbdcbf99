"""The statements that evaluate conditions on decoded rows."""

from walagent.store.codecs.decoded_rows import Lookup, array, by_columns, by_documents

OPEN = "(new.status = 'open')"
STATUS = {"status": "text"}
LOOKUP = Lookup(7, ("public", "tickets"), {"id": "bigint"})


def test_the_condition_stands_in_parentheses_as_it_is() -> None:
    """Percent signs, dollars and braces are nothing special."""
    condition = "new.a like '{x}%' or new.b = '%s $2'"
    for made in (by_documents(condition, {}, LOOKUP), by_columns([condition], STATUS)):
        assert b"(new.a like '{x}%' or new.b = '%s $2')" in made


def test_names_are_quoted() -> None:
    """Schema, table, key columns and others, however they are called; types are SQL."""
    types = {'s"': 'x."M y"'}
    made = by_documents("true", types, Lookup(7, ('a"b', "T s"), {'k"': "bigint"}))
    assert b'"a""b"."T s"' in made
    assert b't."k""" = wanted."k"""' in made
    assert b'("s""" x."M y")' in made
    assert b'::x."M y" as "s"""' in by_columns(["true"], types)


def test_the_table_is_asked_only_where_a_change_lacks_something() -> None:
    """So its name cannot matter to the others."""
    assert b"tickets" in by_documents(OPEN, STATUS, LOOKUP)
    made = by_documents(OPEN, STATUS)
    assert b"tickets" not in made
    assert b"present" not in made


def test_a_condition_that_reads_no_column_has_rows_without_columns() -> None:
    """The statement is well formed all the same."""
    assert b"(select) as new" in by_documents("true", {})


def test_each_side_is_cast_to_the_types_at_the_change() -> None:
    """A side that no change has is NULL in every column."""
    found = by_columns([OPEN], STATUS, {"new": True, "old": True})
    assert b'given.c0::text as "status"' in found
    assert b'given.c1::text as "status"' in found
    found = by_columns([OPEN], STATUS, {"new": False, "old": True})
    assert b'(select null::text as "status") as new' in found


def test_an_array_is_written_as_postgresql_reads_it() -> None:
    """Quotes and backslashes are escaped; NULL is a word, and "NULL" is a text."""
    assert array([]) == b"{}"
    assert array(["a", "b,c", ""]) == b'{"a","b,c",""}'
    assert array(["NULL", None]) == b'{"NULL",NULL}'
    assert array(['a"b', "c\\d", '","']) == b'{"a\\"b","c\\\\d","\\",\\""}'
    assert array(['","']) == b'{"\\",\\""}'
    assert array(["\udcff"]) == b'{"\xff"}'
