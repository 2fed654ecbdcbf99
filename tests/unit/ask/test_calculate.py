"""Arithmetic that somebody else wrote."""

import sys
import time

import pytest

from walagent.ask.calculate import LONGEST, calculate
from walagent.base.extras import install_hint
from walagent.errors import ConfigError, InvalidCallError


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3 / 4", 2.25),
        ("7 // 2 - 7 % 3", 2),
        ("2 ** 10", 1024),
        ("2 ** -1", 0.5),
        ("2 ** 0.5 * sqrt(2)", 2.0000000000000004),
        ("-5 % 3", 1),
        ("round(max(1, 2.567), 1)", 2.6),
        ("abs(-3) + floor(2.7) + ceil(2.1) + min(4, 5)", 12),
        ("paid / total * 100", 25.0),
        ("where(total == 0, 0, paid / total)", 0.25),
        ("where(paid > 5, 1 / 0, 7)", 7),
        ("where(paid >= 5, where(total != 20, 1, 2), 3)", 2),
        ("paid < total", 1),
        ("(paid == 5) & (total == 5) | ~(paid > 5)", 1),
        ("not paid == 5 or 1 < 2 < 3", 1),
        ("paid if paid > total else total", 20),
        ("arcsin(1) - asin(1) + atan2(0, 1) + arctan2(0, 1)", 0.0),
        ("sinh(0) + cosh(0) + tanh(0) + asinh(0) + arccosh(1) + atanh(0)", 1.0),
    ],
)
def test_arithmetic_is_done(expression: str, value: float) -> None:
    """Whole numbers stay whole; columns of a row are names."""
    found = calculate(expression, {"paid": 5, "total": 20})
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9", "10**5000", "9999999**99999", "(2**4000)*(2**4000)", "1<<100000000", "1e400",
        "1/0", "sqrt(-1)", "arcsin(2)", "", "1 +", "'a' * 10**9", "'a'", "[1] * 10**9", "max([1])",
        "__import__('os')", "(1).__class__", "(lambda: 1)()", "unknown", "open('/etc/passwd')",
        "where(1, 2)", "where(1, 9**9**9, 2)", "where(1, x=2)",
        "[x for x in range(10**9)]", "1" * (LONGEST + 1), "(" * 400 + "1" + ")" * 400,
    ],
)  # fmt: skip
def test_what_is_no_arithmetic_or_too_much_of_it_is_refused_at_once(expression: str) -> None:
    """Without working it out first."""
    started = time.process_time()
    with pytest.raises(InvalidCallError):
        calculate(expression)
    assert time.process_time() - started < 1


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else of asking works without."""
    monkeypatch.setitem(sys.modules, "simpleeval", None)
    with pytest.raises(ConfigError, match="simpleeval") as caught:
        calculate("1 + 1")
    assert caught.value.hint == install_hint("walagent[ask]")
