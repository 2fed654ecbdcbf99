"""What the server's errors mean for the reader."""

import pytest
from psycopg import Error, errors

from walagent.errors import GapError, PreconditionError, WalagentError
from walagent.wal.refusals import LOST, SLOTS, WAL_LEVEL, refused


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (
            errors.ObjectNotInPrerequisiteState(
                'replication slots can only be used if "max_replication_slots" > 0'
            ),
            PreconditionError,
            SLOTS,
        ),
        (
            errors.ObjectNotInPrerequisiteState(
                'logical decoding requires "wal_level" >= "logical"'
            ),
            PreconditionError,
            WAL_LEVEL,
        ),
        (
            errors.ObjectNotInPrerequisiteState("can no longer get changes from replication slot"),
            GapError,
            LOST,
        ),
    ],
)
def test_a_setting_is_not_a_gap(error: Error, kind: type[WalagentError], hint: str) -> None:
    """Nothing was lost: no resync is needed."""
    found = refused(error, "walagent")
    assert isinstance(found, kind)
    assert found.hint == hint
