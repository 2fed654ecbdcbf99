"""Connection strings of applications: what is wrong is named, and no piece of a password is."""

import json
from pathlib import Path

import pytest

from tests.integration.cli.user import User

PASSWORD = ("s3cretpart", "wordpart")
EXPLAINED = [
    ("postgresql://u@127.0.0.1:1/app?pgbouncer=true&connection_limit=1", '"pgbouncer"'),
    ("postgresql://u@127.0.0.1:1/app?schema=public", "search_path"),
    ("postgresql+asyncpg://u:s3cretpart@127.0.0.1:1/app", '"postgresql+asyncpg"'),
    ("postgis://u:s3cretpart@127.0.0.1:1/app", '"postgis"'),
    ("jdbc:postgresql://127.0.0.1:1/app?user=a&password=s3cretpart", "not a valid"),
    ("postgres://u:s3cretpart@wordpart@127.0.0.1:1/app", "%40"),
    ("postgres://u:s3cretpart@wordpart/more@127.0.0.1:1/app", "%2F"),
    ("postgres://u:s3cretpart/wordpart@127.0.0.1:1/app", "%2F"),
    ("postgres://u:s3cretpart:wordpart/x@127.0.0.1:1/app", "%2F"),
    ("postgres://u:s3cretpart%wordpart@127.0.0.1:1/app", "%25"),
    ("postgres://u:s3cretpart wordpart@127.0.0.1:1/app", "%20"),
    ("postgres://u:s3cretpart?wordpart@h@127.0.0.1:1/app", "%40"),
    ("host=127.0.0.1 port=1 password=s3cretpart wordpart", "libpq cannot read it"),
    ("postgres://u:s3cretpart@127.0.0.1:1/app?sslmode", "no value"),
]  # fmt: skip
ACCEPTED = [
    "postgresql://u:a%40b@127.0.0.1:1/app?sslmode=prefer&connect_timeout=2",
    "postgres://u@127.0.0.1:1,127.0.0.1:2/app?target_session_attrs=any",
    "postgresql:///app?host=/nowhere&port=1",
    "postgresql://u@127.0.0.1:1/app?options=-csearch_path%3Dshop",
    "host=127.0.0.1 port=1 dbname=app password='a b@c'",
]


@pytest.mark.parametrize(("dsn", "words"), EXPLAINED)
def test_what_libpq_does_not_read_is_explained(tmp_path: Path, dsn: str, words: str) -> None:
    """By commands and by the daemon's log."""
    user = User(tmp_path, dsn)
    user.writes("log: {format: json}\nhttp: {enabled: false}\n")
    for command in ("doctor", "run"):
        refused = user.types(command)
        said = refused.out + refused.err
        assert refused.code == 2, said
        assert words in said
        assert not [part for part in PASSWORD if part in said], said
    assert "Traceback" not in said


@pytest.mark.parametrize("dsn", ACCEPTED)
def test_what_libpq_reads_is_tried(tmp_path: Path, dsn: str) -> None:
    """Nobody answers there."""
    tried = User(tmp_path, dsn).types("doctor")
    assert "cannot connect" in tried.out + tried.err, tried


def test_a_refused_string_is_not_in_the_log(tmp_path: Path) -> None:
    """A reload reads it again."""
    user = User(tmp_path, "postgres://u:s3cretpart@wordpart@127.0.0.1:1/app")
    ended = user.types("ask", "how many?", "--json")
    for line in ended.err.splitlines():
        assert not [part for part in PASSWORD if part in json.dumps(line)]
