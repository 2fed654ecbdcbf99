"""Values are the texts that COPY writes, for every type: those of the type's output function."""

import ipaddress

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, rows, run_all
from walagent.guard.query import Guard
from walagent.guard.read_limits import ReadLimits

# Of each built-in type a few values, as text; a type without any here fails the test.
VALUES = {
    "aclitem": [],
    "bit": ["1", "0"],
    "bool": ["t", "f"],
    "box": ["(1,1),(0,0)"],
    "bpchar": ["a  ", ""],
    "bytea": ["\\x00ff", ""],
    "char": ["a", "\\200"],
    "cid": ["7"],
    "cidr": ["10.0.0.0/8", "2001:db8::/32"],
    "circle": ["<(1.5,2),3>"],
    "cstring": [],
    "date": ["2024-02-29", "infinity", "0044-03-15 BC"],
    "datemultirange": ["{[2024-01-01,2024-02-01)}"],
    "daterange": ["[2024-01-01,2024-02-01)", "empty"],
    "float4": ["0.1", "NaN", "-Infinity", "1e-30"],
    "float8": ["0.1", "0.30000000000000004", "1e+300", "-0"],
    "gtsvector": [],
    "inet": ["192.168.0.1", "192.168.0.1/24", "::1"],
    "int2": ["-1"],
    "int2vector": ["1 2"],
    "int4": ["7"],
    "int4multirange": ["{[1,2),[5,9)}"],
    "int4range": ["[1,5)"],
    "int8": ["9223372036854775807"],
    "int8multirange": ["{}"],
    "int8range": ["[1,)"],
    "interval": ["1 year 2 mons -3 days 04:05:06.7", "-00:00:01"],
    "json": ['{"a":  1, "a": 2}'],
    "jsonb": ['{"a": [1, null]}'],
    "jsonpath": ["$.a[*]"],
    "line": ["{1,2,3}"],
    "lseg": ["[(0,0),(1,1)]"],
    "macaddr": ["08:00:2b:01:02:03"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "money": ["$1,234.50", "-$0.01"],
    "name": ["a name"],
    "numeric": ["1.10", "NaN", "Infinity", "1e-20"],
    "nummultirange": ["{[1.10,2)}"],
    "numrange": ["[1.10,2)"],
    "oid": ["4294967295"],
    "oid8": ["7"],
    "oidvector": ["1 2"],
    "path": ["((0,0),(1,1))", "[(0,0),(1,1)]"],
    "pg_lsn": ["16/B374D848"],
    "pg_snapshot": ["10:20:10,14"],
    "point": ["(1.5,-2)"],
    "polygon": ["((0,0),(1,1),(2,0))"],
    "refcursor": ["a"],
    "regclass": ["pg_class"],
    "regcollation": ['"C"'],
    "regconfig": ["simple"],
    "regdatabase": ["postgres"],
    "regdictionary": ["simple"],
    "regnamespace": ["pg_catalog"],
    "regoper": ["||/"],
    "regoperator": ["+(integer,integer)"],
    "regproc": ["now"],
    "regprocedure": ["abs(integer)"],
    "regrole": ["pg_monitor"],
    "regtype": ["integer", "character varying[]"],
    "text": ["a\ttab", "", "é"],
    "tid": ["(0,1)"],
    "time": ["24:00:00", "12:34:56.789"],
    "timestamp": ["2024-02-29 01:02:03.000004", "-infinity", "0044-03-15 01:02:03 BC"],
    "timestamptz": ["2024-02-29 01:02:03+00"],
    "timetz": ["01:02:03-07"],
    "tsmultirange": ['{["2024-01-01 00:00:00","2024-02-01 00:00:00")}'],
    "tsquery": ["'a' & !'b':*"],
    "tsrange": ['["2024-01-01 00:00:00","2024-02-01 00:00:00")'],
    "tstzmultirange": ["{}"],
    "tstzrange": ['["2024-01-01 00:00:00+00",)'],
    "tsvector": ["'a':1 'b':2A"],
    "txid_snapshot": ["10:20:10,14"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "varbit": ["101", ""],
    "varchar": ["a  "],
    "xid": ["7"],
    "xid8": ["7"],
    "xml": ["<a>1</a>"],
}
# Types of values that come from statistics only, or for which there is no input.
UNREADABLE = {"pg_brin_bloom_summary", "pg_brin_minmax_multi_summary", "pg_dependencies",
              "pg_mcv_list", "pg_ndistinct", "pg_node_tree", "pg_ddl_command"}  # fmt: skip
TYPES = """
select typname, oid::regtype::text from pg_type
 where oid < 10000 and typtype in ('b', 'r', 'm') and typcategory <> 'A'
   and typnamespace = 'pg_catalog'::regnamespace
"""


async def copied(conn: AsyncConnection, query: str) -> list[tuple[str | None, ...]]:
    """What COPY writes, as its own decoder reads it."""
    async with conn.cursor().copy(f"copy ({query}) to stdout".encode()) as copy:
        copy.set_types(["text"] * 4)
        return [row async for row in copy.rows()]


@pytest.mark.slow
async def test_values_of_every_built_in_type_are_those_of_copy(
    reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """And of arrays, composites and domains of them; NULL stays NULL."""
    types = await rows(conn, TYPES)
    if not await column(conn, "select 1 from pg_config where setting ~ 'with-libxml'"):
        types = [each for each in types if each[0] != "xml"]
    assert {name for name, _ in types} - VALUES.keys() <= UNREADABLE
    wrong: dict[str, object] = {}
    await run_all(conn, "set timezone = 'UTC'; set extra_float_digits = 1; set bytea_output = hex")
    for n, (name, title) in enumerate(types):
        if not (given := VALUES.get(name)):
            continue
        literals = ", ".join("('" + text.replace("'", "''") + f"'::{title})" for text in given)
        await run_all(
            conn,
            f"create table t{n} as select v, array[v, null] as many,"
            f" null::{title} as none from (values {literals}) x (v);"
            f"grant select on t{n} to {reader.info.user}",
        )
        await run_all(reader, "set timezone = 'UTC'")
        read = await Guard(reader).read(query := f"select *, t{n} from t{n}")
        if list(read.texts) != (expected := await copied(conn, query)):
            wrong[name] = (read.texts, expected)
    assert wrong == {}


async def test_values_are_python_values(reader: AsyncConnection) -> None:
    """An address without a mask is one, and a row of NULL is not NULL."""
    read = await Guard(reader).read(
        "select inet '192.168.0.1', true, 'a'::char(3), row(null, null), null::customer"
    )
    assert read.texts == [("192.168.0.1", "t", "a  ", "(,)", None)]
    assert read.values[0][:2] == (ipaddress.ip_address("192.168.0.1"), True)


async def test_a_function_of_the_same_name_is_not_called(
    reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """However well its argument fits, and whatever casts there are."""
    await run_all(
        conn,
        """
        create function public.format(text, invoice) returns text language sql volatile
            as $$ select spring('format')::text $$;
        create function public."left"(text, bigint) returns text language sql volatile
            as $$ select spring('left')::text $$;
        create type hue as enum ('red');
        create function to_text(hue) returns text language sql volatile
            as $$ select spring('cast')::text $$;
        create cast (hue as text) with function to_text(hue);
        create table painted (hue hue);
        insert into painted values ('red');
        """
        f"grant select on painted to {reader.info.user}",
    )
    read = await Guard(reader, limits=ReadLimits(cell=5)).read(
        "select i, p.* from invoice i, painted p"
    )
    assert read.texts[0] == ("(1,2,…", "red")
