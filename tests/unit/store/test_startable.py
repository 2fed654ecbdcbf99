"""Which runs start as they are inserted."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.build import WHEN
from walagent.domain.run import NewRun
from walagent.postgres.lsn import Lsn
from walagent.store.ingestion import Start, startable

PLAIN = NewRun(1, 1, Lsn(1), 0, WHEN, {}, None, None, 5)
RUNS = st.lists(
    st.builds(
        lambda at, key, priority: replace(
            PLAIN, attachment_id=at, ordering_key=key, priority=priority
        ),
        st.integers(1, 3),
        st.sampled_from(["x", "y", None]),
        st.integers(-1, 1),
    ),
    max_size=12,
)


@given(RUNS, st.integers(0, 6), st.dictionaries(st.integers(1, 3), st.integers(0, 2)))
def test_the_most_urgent_first_runs_of_their_keys_start(
    runs: list[NewRun], room: int, rooms: dict[int, int]
) -> None:
    """No run starts while a more urgent one could, none before an earlier one of its key."""
    started = startable(runs, Start("w", timedelta(1), room, rooms))
    assert len(started) <= room
    of = [run.attachment_id for n, run in enumerate(runs) if n in started]
    assert all(of.count(at) <= most for at, most in rooms.items())
    for n, run in enumerate(runs):
        before = [
            m
            for m in range(n)
            if run.ordering_key is not None
            and (runs[m].attachment_id, runs[m].ordering_key)
            == (run.attachment_id, run.ordering_key)
        ]
        if n in started:
            assert not before
        elif not before and of.count(run.attachment_id) < rooms.get(run.attachment_id, 99):
            assert len(started) == room
            assert all(runs[m].priority >= run.priority for m in started)
