"""The names of PostgreSQL's built-in types."""

import pytest

from walagent.postgres.pgtypes import type_name


@pytest.mark.parametrize(
    ("oid", "typmod", "name"),
    [
        (23, -1, "integer"),
        (1043, 24, "character varying(20)"),
        (1700, (10 << 16 | 2) + 4, "numeric(10,2)"),
        (1700, (3 << 16 | 0x7FE) + 4, "numeric(3,-2)"),
        (1184, 3, "timestamp(3) with time zone"),
        (1009, -1, "text[]"),
        (1015, 14, "character varying(10)[]"),
        (1042, -1, "bpchar"),
        (424242, -1, ""),
    ],
)
def test_types_are_named_as_the_server_names_them(oid: int, typmod: int, name: str) -> None:
    """The printed form of a change shows them."""
    assert type_name(oid, typmod) == name
