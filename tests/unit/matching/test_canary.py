"""Which version an attachment with a canary uses for a change."""

import random
from itertools import pairwise

import pytest

from tests.helpers.build import attachment, change
from walagent.domain.change import Op
from walagent.matching.canary import Canary, key_of, shared
from walagent.matching.match import Candidates


def test_a_share_of_the_keys_is_taken() -> None:
    """About as many as it says."""
    canary = Canary(attachment(), 0.2)
    taken = sum(canary.takes(str(key)) for key in range(20_000))
    assert 3_800 < taken < 4_200


def test_what_is_taken_stays_while_the_share_grows() -> None:
    """So that the runs of a row stay together."""
    shares = (0.01, 0.1, 0.5, 0.99)
    taken = [
        {key for key in range(2_000) if Canary(attachment(), share).takes(str(key))}
        for share in shares
    ]
    assert taken == sorted(taken, key=len)
    assert all(less <= more for less, more in pairwise(taken))


def test_another_canary_takes_other_keys() -> None:
    """The rows that met one that was bad do not meet each of the next."""
    one, two = (
        {key for key in range(2_000) if Canary(attachment(version=v), 0.1).takes(str(key))}
        for v in (2, 3)
    )
    assert len(one & two) < 60


def test_changes_are_shared_out_by_key_and_in_order() -> None:
    """None is lost, and those of a key go one way."""
    base, other = attachment(version=1), attachment(version=2)
    canary = Canary(other, 0.5)
    chance = random.Random(7)
    changes = [change(Op.INSERT, {"id": chance.randrange(20), "n": n}) for n in range(200)]
    parts = list(shared(Candidates(base, changes, None), canary))
    assert [part.attachment for part in parts] == [base, other]
    for part in parts:
        assert isinstance(part, Candidates)
        assert [c for c in changes if c in part.changes] == part.changes
        for each in part.changes:
            assert canary.takes(key_of(each, base)) is (part.attachment is other)


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_without_a_canary_nothing_is_shared_out(share: float) -> None:
    """Whatever its share would have been."""
    found = Candidates(attachment(), [change(Op.INSERT, {"id": 1})], None)
    assert list(shared(found, None)) == [found]
    assert 0 < share < 1
