"""What a wrong name or a missing right gets: the thing by its name, and what to do."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.integration.cli.user import User

NOBODY = "00000000-0000-0000-0000-000000000001"


@pytest.fixture
def user(dsn: str, tmp_path: Path) -> User:
    """The operator."""
    return User(tmp_path, dsn)


@pytest.fixture
def stranger(user: User, dsn: str) -> Iterator[User]:
    """A login without any grant of walagent."""
    name = f"walagent_{uuid4().hex[:8]}"
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"create role {name} login".encode())
        yield User(user.folder, make_conninfo(dsn, user=name))
        conn.execute(f"drop role {name}".encode())


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("tenants audit verify --tenant acne", 'tenant "acne"'),
        (f"tenants audit verify --tenant acne --head 1:{'0' * 64}", 'tenant "acne"'),
        ("tenants audit list --tenant acne", 'tenant "acne"'),
        ("tenants principals list --tenant acne", 'tenant "acne"'),
        ("tenants tokens list --tenant acne", 'tenant "acne"'),
        ("agents personas versions clark", 'persona "clark"'),
        ("agents tools versions refnud", 'tool "refnud"'),
        (f"threads members {NOBODY}", NOBODY),
        ("threads list --limit 0", "--limit"),
        ("runs list --attachment triaeg", 'attachment is named "triaeg"'),
        ("runs list --attachment triaeg --json", 'attachment is named "triaeg"'),
        ("runs retry --attachment triaeg --yes", 'attachment is named "triaeg"'),
        ("runs cancel --attachment triaeg --yes", 'attachment is named "triaeg"'),
        ("approvals approve --attachment triaeg --yes", 'attachment is named "triaeg"'),
        ("approvals reject --attachment triaeg --yes", 'attachment is named "triaeg"'),
        ("tenants principals add ann --email notmail", 'address "notmail"'),
        ("agents tools grant viewer refnud", '"refnud"'),
        ("knowledge memories add helper x --about nobdy", 'principal "nobdy"'),
        ("workflows show triage", 'workflow "triage"'),
        ("workflows runs triage", 'workflow "triage"'),
        ("workflows state 99", "run 99"),
        ("tenants export default --to /dev/null/folder", "/dev/null/folder"),
    ],
)
def test_a_wrong_name_is_no_empty_list(user: User, command: str, named: str) -> None:
    """Nothing found would look as if nothing were wrong: an audit that verifies, no tokens."""
    refused = user.types(*command.split())
    assert refused.code == 2, refused.out
    assert named in refused.err
    assert "Traceback" not in refused.err
    assert not refused.out


def test_a_missing_grant_says_who_lacks_it_and_what_grants_it(stranger: User) -> None:
    """PostgreSQL names the object alone."""
    login = conninfo_to_dict(stranger.dsn or "")["user"]
    for command in ("runs", "tenants audit verify", "threads list", "tenants tokens list"):
        refused = stranger.types(*command.split())
        assert refused.code == 3
        assert "permission denied for schema agent" in refused.err
        assert f'The login "{login}" lacks this right.' in refused.err
        assert f"select agent.grant_viewer('{login}')" in refused.err


def test_a_missing_grant_is_never_that_of_the_daemon(stranger: User, dsn: str) -> None:
    """The capability runner sees and does all: no person gets it to fork a run."""
    login = conninfo_to_dict(stranger.dsn or "")["user"]
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"select agent.grant_viewer('{login}')".encode())
        try:
            for command in ("fork 1 --from 0", "runs score 1 right"):
                refused = stranger.types(*command.split())
                assert refused.code == 3, refused.err
                assert f"select agent.grant_approver('{login}');" in refused.err
                assert "runner" not in refused.err
        finally:
            conn.execute(f"drop owned by {login}".encode())
