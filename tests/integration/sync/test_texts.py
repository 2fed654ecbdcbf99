"""Values of the stream have the texts that COPY gives them in a snapshot."""

import random
import struct

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows
from walagent.postgres import pgtypes
from walagent.postgres.text_values import PARSERS, kind_of
from walagent.sync.table import writer_of

TYPES = {
    "float4": (pgtypes.FLOAT4, "<f"),
    "float8": (pgtypes.FLOAT8, "<d"),
}


def floats(form: str) -> list[float]:
    """Numbers of all sizes, and those where the form changes."""
    chance = random.Random(7)
    size = struct.calcsize(form)
    some = [struct.unpack(form, chance.randbytes(size))[0] for _ in range(500)]
    small = [chance.randint(-(10**5), 10**5) / 10 ** chance.randint(0, 8) for _ in range(200)]
    edges = [digit * 10.0**power for digit in (1, 1.5, 9.99) for power in range(-8, 20)]
    return [*some, *small, *edges, 0.0, -0.0, 123456.0, 1234567.0, 999999.0, 100001.0]


@pytest.mark.parametrize("name", TYPES)
async def test_a_float_of_the_stream_is_written_as_postgresql_does(
    conn: AsyncConnection, name: str
) -> None:
    """Else a row would seem to change as soon as it is written again."""
    oid, form = TYPES[name]
    query = f"select v::{name}::text from unnest(%s::float8[]) v"
    wanted = [str(text) for (text,) in await rows(conn, query, floats(form))]
    read, write = PARSERS[kind_of(oid)], writer_of(oid)
    assert [write(read(text)) for text in wanted] == wanted


async def test_a_numeric_of_the_stream_is_written_as_postgresql_does(conn: AsyncConnection) -> None:
    """With its scale, and no exponent."""
    query = """
        select v::text from unnest('{0,0.00,-1.50,1e30,1e-30,NaN,Infinity,-Infinity}'::numeric[]) v
        union all select round((random() * 1e12)::numeric, n)::text from generate_series(-3, 9) n
    """
    wanted = [str(text) for (text,) in await rows(conn, query)]
    read, write = PARSERS[kind_of(pgtypes.NUMERIC)], writer_of(pgtypes.NUMERIC)
    assert [write(read(text)) for text in wanted] == wanted
