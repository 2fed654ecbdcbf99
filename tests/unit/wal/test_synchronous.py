"""Which walsenders a server counts, by the setting's own grammar."""

import pytest

from walagent.wal.synchronous import is_synchronous


@pytest.mark.parametrize(
    "names",
    [
        "*",
        "walagent",
        "WalAgent",
        '"walagent"',
        "s1, walagent",
        "2 (s1, walagent, s2)",
        "FIRST 1 (*)",
        "any 2(s1,*)",
        ' Any 1 ( s1 , "WALAGENT" ) ',
        '"*"',
    ],
)
def test_it_is_counted(names: str) -> None:
    """By its name in any case, or by the star."""
    assert is_synchronous(names, "walagent")


@pytest.mark.parametrize(
    "names",
    ["", " ", "s1", "walagent2, s1", "1 (s1)", "first 2 (s1, s2)", '"wal agent"', '"a""*"', "any"],
)
def test_it_is_not_counted(names: str) -> None:
    """By names of others."""
    assert not is_synchronous(names, "walagent")
