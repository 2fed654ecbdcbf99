"""What the server is told, and when it counts as gone."""

from hypothesis import given
from hypothesis import strategies as st

from walagent.postgres.lsn import Lsn
from walagent.wal.feedback import ANSWER, Feedback, Pulse


def feedback() -> Feedback:
    """Two seconds of silence are much, twenty of rest are too much."""
    return Feedback(0.0, silence=2.0, stall=20.0)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100))))
def test_the_confirmed_position_never_moves_back_nor_past_what_was_received(
    steps: list[tuple[int, int]],
) -> None:
    """Whatever is confirmed, in whatever order."""
    state, received, before = feedback(), 0, 0
    for lsn, arrived in steps:
        received = max(received, arrived)
        state.confirm(Lsn(lsn), Lsn(received))
        assert before <= state.flushed <= received
        assert state.flushed in {before, min(lsn, received)}
        before = state.flushed


def test_there_is_something_to_report_until_it_was_reported() -> None:
    """Confirming the same again is no news."""
    state = feedback()
    assert state.confirm(Lsn(5), Lsn(9))
    assert state.take_flushed() == 5
    assert not state.confirm(Lsn(4), Lsn(9))


def test_a_silent_server_is_asked_and_then_given_up() -> None:
    """Asked once; any byte is an answer."""
    state = feedback()
    assert state.pulse(1.9) is Pulse.STATUS
    assert state.pulse(2.0) is Pulse.PROBE
    assert state.pulse(3.0) is Pulse.STATUS
    state.received(3.5)
    assert state.pulse(5.5) is Pulse.PROBE
    assert state.pulse(5.4 + ANSWER) is Pulse.STATUS
    assert state.pulse(5.5 + ANSWER) is Pulse.LOST


def test_a_full_buffer_stalls_after_its_time_and_silence_does_not_count_meanwhile() -> None:
    """We do not listen, so the server cannot be heard."""
    state = feedback()
    state.rest(1.0)
    state.rest(5.0)  # still the same rest
    assert state.pulse(20.9) is Pulse.STATUS
    assert state.pulse(21.0) is Pulse.STALLED
    state.resume(21.5)
    assert state.pulse(23.4) is Pulse.STATUS
    assert state.pulse(23.5) is Pulse.PROBE
