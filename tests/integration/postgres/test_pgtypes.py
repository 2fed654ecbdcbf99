"""Our names of built-in types, against the server's."""

from psycopg import AsyncConnection

from walagent.postgres import pgtypes

# Modifiers as typmodin functions make them: of lengths, times, and of numeric(10,2) and (3,-2).
MODIFIERS = [-1, 6, 24, (10 << 16 | 2) + 4, (3 << 16 | 0x7FE) + 4]


async def test_built_in_types_are_named_as_the_server_names_them(conn: AsyncConnection) -> None:
    """With every kind of modifier that a column can have; arrays, too."""
    cursor = await conn.execute(
        """
        select t.oid::int8, typmod, format_type(t.oid, typmod)
          from pg_type t, unnest(%s::int4[]) typmod
         where t.oid = any(%s) and (typmod = -1 or t.typmodin <> 0 and t.typname !~ 'interval')
        """,
        [MODIFIERS, [oid for oid in range(pgtypes.FIRST_OF_USERS) if pgtypes.type_name(oid, -1)]],
    )
    named = await cursor.fetchall()
    assert len(named) > 150
    assert [row for row in named if pgtypes.type_name(row[0], row[1]) != row[2]] == []


async def test_the_constants_are_what_the_server_calls_by_these_names(
    conn: AsyncConnection,
) -> None:
    """Each constant has the name of its type in pg_type."""
    constants = {
        name.lower(): value
        for name, value in vars(pgtypes).items()
        if name.isupper() and isinstance(value, int) and name != "FIRST_OF_USERS"
    }
    cursor = await conn.execute(
        "select typname, oid::int8 from pg_type where oid = any(%s)", [list(constants.values())]
    )
    assert dict(await cursor.fetchall()) == constants
