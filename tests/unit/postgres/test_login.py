"""What a server says when it lets nobody in, and who acts on it."""

import pytest

from walagent.postgres.login import login_refused, said, sqlstate_of

_TO = 'connection failed: connection to server at "127.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    ("words", "sqlstate"),
    [
        ('FATAL:  password authentication failed for user "app"', "28P01"),
        ('FATAL:  Peer authentication failed for user "app"', "28000"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "app"', "28000"),
        ('FATAL:  role "app" is not permitted to log in', "28000"),
        ('FATAL:  role "app" does not exist', "28000"),
        ('FATAL:  database "shop" does not exist', "3D000"),
        ('FATAL:  permission denied for database "shop"', "42501"),
        ("FATAL:  permission denied to start WAL sender", "42501"),
        ("FATAL:  must be superuser or replication role to start walsender", "42501"),
    ],
)
def test_a_refusal_is_for_a_person_and_has_its_sqlstate(words: str, sqlstate: str) -> None:
    """Libpq keeps the code to itself, so the words must do."""
    refusal = login_refused(_TO + words)
    assert refusal is not None
    assert refusal.sqlstate == sqlstate
    assert f"(SQLSTATE {sqlstate})" in str(refusal)
    assert refusal.hint


@pytest.mark.parametrize(
    ("words", "sqlstate"),
    [
        ("FATAL:  sorry, too many clients already", "53300"),
        ('FATAL:  too many connections for role "app"', "53300"),
        (
            "FATAL:  remaining connection slots are reserved for non-replication superusers",
            "53300",
        ),
        ("FATAL:  the database system is starting up", "57P03"),
        ("Connection refused\n\tIs the server running on that host?", None),
        ('No such file or directory: "/run/role "x" does not exist"', None),
    ],
)
def test_what_passes_by_itself_is_no_refusal(words: str, sqlstate: str | None) -> None:
    """The same is tried again later."""
    assert login_refused(_TO + words) is None
    assert sqlstate_of(_TO + words) == sqlstate


def test_of_several_lines_the_servers_own_is_reported() -> None:
    """Libpq tells of every address that it has tried."""
    words = (
        f'{_TO}Connection refused\n\tIs the server running?\n{_TO}FATAL:  role "app" does not exist'
    )
    assert said(words).endswith('FATAL:  role "app" does not exist')
    assert said("") == ""
