"""The parameters of connections, and why there is none."""

import socket

import pytest
from psycopg import AsyncConnection

from walagent.errors import ConfigError, DatabaseLostError, StreamLostError
from walagent.postgres.connection import open_connection, parameters


def options(dsn: str, **settings: str) -> list[str]:
    """The options of a session, in their order; of two alike the last one counts."""
    words = parameters(dsn, "walagent test", settings)["options"].split("-c ")
    return [word.strip() for word in words if word]


def test_a_dead_peer_is_noticed_on_both_sides() -> None:
    """Without a word in the connection string; each way within half a minute."""
    given = parameters("host=db", "walagent test")
    assert given["keepalives_idle"] + given["keepalives_count"] * given["keepalives_interval"] <= 30
    assert given["tcp_user_timeout"] == 30_000
    assert "tcp_keepalives_idle=10" in options("host=db")


def test_what_the_connection_string_says_of_time_counts() -> None:
    """An operator knows their network."""
    given = parameters("postgresql://db/shop?connect_timeout=3&keepalives_idle=77", "walagent test")
    assert not given.keys() & {"connect_timeout", "keepalives_idle"}
    assert given["keepalives_interval"] == 5


def test_the_name_and_the_encoding_are_ours() -> None:
    """The one is looked for in pg_stat_activity, the other is what texts are read in."""
    given = parameters("application_name=x client_encoding=LATIN1", "walagent test")
    assert (given["application_name"], given["client_encoding"]) == ("walagent test", "UTF8")


def test_options_of_the_connection_string_stand_between_defaults_and_needs() -> None:
    """They win over a default; what a part needs wins over them."""
    dsn = "options='-c tcp_keepalives_idle=99 -c statement_timeout=1'"
    found = options(dsn, statement_timeout="5s")
    assert found.index("tcp_keepalives_idle=10") < found.index("tcp_keepalives_idle=99")
    assert found.index("statement_timeout=1") < found.index("statement_timeout=5s")


def test_options_of_the_environment_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libpq would ignore PGOPTIONS where options are given."""
    monkeypatch.setenv("PGOPTIONS", "-c geqo=off")
    assert "geqo=off" in options("host=db")
    assert "geqo=off" not in options("host=db options='-c geqo=on'")


def test_a_connection_string_that_is_none_is_not_quoted() -> None:
    """It may hold a password."""
    with pytest.raises(ConfigError) as caught:
        parameters("host=db password='hunter22", "walagent test")
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("lost", [DatabaseLostError, StreamLostError])
async def test_a_server_that_is_not_there_is_an_error_of_the_callers_kind(
    lost: type[DatabaseLostError | StreamLostError],
) -> None:
    """Streams and statements are tried again in different places."""
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        dsn = f"host=127.0.0.1 port={taken.getsockname()[1]}"
        with pytest.raises(lost, match=r"cannot connect: .*refused"):
            await open_connection(AsyncConnection, dsn, "walagent test", lost=lost)
