"""What is confirmed to a server with standbys."""

from hypothesis import given
from hypothesis import strategies as st

from walagent.intake.standby_hold import StandbyHold
from walagent.postgres.lsn import Lsn

# The WAL grows by these bytes; then the checkpoint is written, or the stream passes a part of it.
STEPS = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from(["write", "pass"]), st.integers(0, 100)),
    max_size=30,
)


@given(STEPS)
def test_no_position_is_confirmed_before_standbys_have_its_commit(
    steps: list[tuple[int, str, int]],
) -> None:
    """And the last one that they have is; a position never moves back."""
    hold, end, passed = StandbyHold(Lsn(0)), 0, 0
    written = [(Lsn(0), 0)]  # positions of the checkpoint, and where the WAL ended after each
    for grown, what, share in steps:
        end += grown
        if what == "write":
            position = Lsn(max(written[-1][0], passed))
            end += 1  # the commit of the checkpoint itself
            written.append((position, end))
            hold.hold(position, Lsn(end))
            assert hold.held == position
        else:
            passed = max(passed, end * share // 100)
            hold.release(Lsn(passed))
        assert hold.released == max(position for position, after in written if after <= passed)
