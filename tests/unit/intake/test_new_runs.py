"""What a matched change starts."""

from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.build import attachment, change
from walagent.domain.change import Op, Value
from walagent.domain.run import RunState
from walagent.intake.new_runs import state_of
from walagent.matching.document import SizeLimits, cut_off, is_found, unnamed
from walagent.matching.match import Match

ON = attachment(key_columns=("id", "code"))
VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=6), st.just("x\udcff"))


@given(VALUES, VALUES)
def test_a_run_is_pending_if_its_row_can_be_found(id: Value, code: Value) -> None:  # noqa: A002
    """The quick look and the two that say what is wrong agree about every row."""
    it, room = change(Op.INSERT, {"id": id, "code": code}), SizeLimits(value=4)
    wrong = unnamed(it, ON) or cut_off(it, ON, room)
    assert is_found(it, ON, room) is not bool(wrong)
    assert state_of(Match(ON, it, None), room)[0] is (RunState.DEAD if wrong else RunState.PENDING)
