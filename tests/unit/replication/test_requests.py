"""What all sinks together need of tables."""

from collections.abc import Sequence

from walagent.domain.change import Item
from walagent.postgres.lsn import Lsn
from walagent.replication.fan_out import FanOut
from walagent.replication.sinks import TableRequest, Want, Wants, requests_of, tables_of

ONE, OTHER, THIRD = ("public", "one"), ("public", "other"), ("s", "third")
INSERTS, ALL = Want(inserts_only=True), Want()


class Keeper:
    """A durable sink that takes nothing."""

    durable = Lsn(1)

    def __init__(self, wants: Wants) -> None:
        self._wants = wants

    def tables(self) -> Wants:
        """Return what it was made for."""
        return self._wants

    async def take(self, items: Sequence[Item]) -> None:
        """Drop them."""


def test_updates_are_requested_if_one_sink_needs_them() -> None:
    """And a loss is a gap if one sink is durable."""
    watching = FanOut()
    keeper = Keeper({ONE: INSERTS, THIRD: INSERTS})
    with watching.subscribe({ONE: ALL, OTHER: INSERTS}), watching.subscribe({OTHER: INSERTS}):
        assert requests_of([watching, keeper]) == {
            ONE: TableRequest(inserts_only=False, durable=True),
            OTHER: TableRequest(inserts_only=True, durable=False),
            THIRD: TableRequest(inserts_only=True, durable=True),
        }
        with watching.subscribe({OTHER: ALL}):
            assert not requests_of([watching])[OTHER].inserts_only
        assert requests_of([watching])[OTHER].inserts_only
    assert requests_of([watching, keeper]).keys() == {ONE, THIRD}


def test_what_is_published_already_is_not_requested() -> None:
    """The stream carries it all the same, and what another sink needs of it is requested."""
    keeper, watching = Keeper({ONE: Want(is_published=True)}), FanOut()
    assert requests_of([keeper]) == {}
    assert tables_of([keeper]) == {ONE}
    with watching.subscribe({ONE: ALL}):
        assert requests_of([keeper, watching]) == {
            ONE: TableRequest(inserts_only=False, durable=False)
        }
