"""Tables stay published while shapes have them, and a minute longer."""

import time

import pytest

from walagent.replication.fan_out import FanOut
from walagent.replication.sinks import Want
from walagent.sync.publishing import Publishing

USED, UNUSED = ("public", "used"), ("public", "unused")


def test_a_table_that_no_shape_has_is_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at once: a page that is loaded again asks for it again."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    publishing = Publishing(FanOut(), 30.0, lambda _: None)
    for table in (USED, UNUSED):
        publishing.request(table)
    now += 59
    publishing.withdraw_unused([USED])
    assert publishing.tables == {USED: Want(), UNUSED: Want()}
    now += 2
    publishing.withdraw_unused([USED])
    assert publishing.tables == {USED: Want()}
    now += 61
    publishing.withdraw_unused([])
    assert publishing.tables == {}
