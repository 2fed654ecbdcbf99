"""A mapping that keeps what was used most recently."""

from walagent.base.recent import Recent


def test_the_entry_that_was_not_used_for_the_longest_time_is_dropped() -> None:
    """Reading an entry counts as use, and so does replacing it."""
    kept = Recent[str, int](2)
    kept["a"], kept["b"] = 1, 2
    assert kept.get("a") == 1
    kept["c"] = 3
    assert [kept.get(key) for key in "abc"] == [1, None, 3]
    kept["a"] = 4
    kept["d"] = 5
    assert [kept.get(key) for key in "acd"] == [4, None, 5]
    assert len(kept) == 2
    kept.clear()
    assert len(kept) == 0
