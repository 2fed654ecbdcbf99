"""Which database is meant, and where it was named."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from walagent.config import Config, Database, Embedded
from walagent.config.dsn import Logins, Places, choose, open_places
from walagent.config.environment import Environment, load_env_file, read_assignments
from walagent.errors import ConfigError, PreconditionError
from walagent.telemetry.mask import mask

FILE = Config(database=Database(dsn="host=file", replication_dsn="host=file user=reader"))


def named(
    config: Config = FILE, dsn: str | None = None, variables: Mapping[str, str] | None = None
) -> tuple[str, str] | None:
    """Say which DSN is chosen, and who named it."""
    choice = choose(config, Environment(variables or {}), dsn=dsn)
    return choice and (choice.dsn, choice.named_by)


def test_a_flag_wins_over_the_environment_and_that_over_the_file() -> None:
    """From the most to the least deliberate."""
    everything = {"DATABASE_URL": "host=url", "PGHOST": "libpq"}
    assert named(dsn="host=flag", variables=everything) == ("host=flag", "--dsn")
    assert named(variables=everything) == ("host=url", "DATABASE_URL")
    assert named(variables={"PGHOST": "libpq"}) == ("", "PGHOST")
    assert named() == ("host=file", "database.dsn")
    assert named(Config()) is None


@pytest.mark.parametrize("name", ["PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE"])
def test_a_variable_of_libpq_that_names_a_server_counts(name: str) -> None:
    """Libpq reads them itself, so the connection string is empty."""
    assert named(Config(), variables={name: "x"}) == ("", name)


def test_a_password_in_the_environment_names_no_server() -> None:
    """Nor does a user; many have them set for other reasons."""
    others = {"PGPASSWORD": "x", "PGUSER": "y", "PGSSLMODE": "require"}
    assert named(Config(), variables=others) is None


def test_the_reader_may_have_a_login_of_its_own() -> None:
    """By flag, variable or file; else it is the same."""
    environment = Environment({"DATABASE_REPLICATION_URL": "user=variable"})
    flag = choose(FILE, environment, replication_dsn="user=flag")
    variable = choose(FILE, environment)
    file = choose(FILE, Environment({}))
    same = choose(Config(), Environment({}), dsn="host=flag")
    found = [choice and choice.replication_dsn for choice in (flag, variable, file, same)]
    assert found == ["user=flag", "user=variable", "host=file user=reader", "host=flag"]


@pytest.mark.parametrize("option", ["dsn", "replication_dsn", "dbname"])
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_option_selects_no_database(option: str, value: str) -> None:
    """`--dsn "$URL"` without that variable must not mean another database."""
    with pytest.raises(ConfigError, match="is empty"):
        choose(FILE, Environment({}), **{option: value})


def test_another_database_of_the_same_server_is_chosen_by_its_name() -> None:
    """In both connection strings, whoever has named the server."""
    choice = choose(FILE, Environment({}), dbname="demo")
    assert choice is not None
    assert [conninfo_to_dict(each) for each in (choice.dsn, choice.replication_dsn)] == [
        {"host": "file", "dbname": "demo"},
        {"host": "file", "user": "reader", "dbname": "demo"},
    ]
    libpq = choose(Config(), Environment({"PGHOST": "x"}), dbname="demo")
    assert libpq is not None
    assert libpq.dsn == "dbname=demo"


def test_the_embedded_server_can_be_named() -> None:
    """Commands that the demo prints reach it although a variable names another server."""
    assert named(dsn="embedded", variables={"DATABASE_URL": "host=url"}) is None


def test_a_reader_without_a_database_is_a_mistake() -> None:
    """The embedded one has one login alone."""
    with pytest.raises(ConfigError, match="--replication-dsn"):
        choose(Config(), Environment({}), replication_dsn="user=reader")


def test_a_string_that_cannot_be_read_is_not_repeated() -> None:
    """It may hold a password."""
    with pytest.raises(ConfigError) as caught:
        choose(Config(), Environment({}), dsn="hunter22 and more")
    assert "--dsn" in str(caught.value)
    assert "hunter22" not in str(caught.value)


def test_a_password_is_masked_from_then_on() -> None:
    """Also where a library quotes it without any context."""
    choose(Config(), Environment({}), dsn="postgresql://u:open-sesame-77@h/d")
    assert "open-sesame-77" not in mask("it said open-sesame-77 aloud")


def test_a_credential_of_systemd_wins_over_the_environment(tmp_path: Path) -> None:
    """LoadCredential=DATABASE_URL:… is how a unit is given its database."""
    (tmp_path / "DATABASE_URL").write_text("host=credential\n")
    choice = choose(Config(), Environment({"DATABASE_URL": "host=variable"}, tmp_path))
    assert choice is not None
    assert choice.dsn == "host=credential"


def test_an_env_file_sets_what_is_not_set(tmp_path: Path) -> None:
    """The environment of the process wins, and there need be no file."""
    path = tmp_path / ".env"
    environ = {"A": "kept"}
    load_env_file(path, environ)
    assert environ == {"A": "kept"}
    path.write_text("A=other\nB=new\n")
    load_env_file(path, environ)
    assert environ == {"A": "kept", "B": "new"}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("K=plain", "plain"),
        ("export K=exported", "exported"),
        ("K='a # b'", "a # b"),
        ('K="quoted" # comment', "quoted"),
        ("K=a#b", "a#b"),
        ("K=a # comment", "a"),
        ("K=", ""),
        ("K= # comment", ""),
        ("K=#b", "#b"),
        (r'K="a\"b\n\\"', 'a"b\n\\'),
        (r"K='a\'b\n'", r"a'b\n"),
        ("K='a\nb'", "a\nb"),
        ("K=first\nK=second", "second"),
        ("K=a$HOME$${HOME}", "a$HOME${HOME}"),
        ("K='a${HOME}'", "a${HOME}"),
        ("K=${A-B}", "${A-B}"),
        ("K=${NONE:-other}", "other"),
        ("my-key=x", {"my-key": "x"}),
        ("K=postgresql://u:p@h/d?x=1", "postgresql://u:p@h/d?x=1"),
    ],
)
def test_lines_of_an_env_file_are_read_as_shells_write_them(
    line: str, value: str | dict[str, str]
) -> None:
    """A password may hold a dollar; only ${NAME} is filled in, and not in single quotes."""
    expected = value if isinstance(value, dict) else {"K": value}
    assert read_assignments(f"# comment\n\n{line}\n") == expected


def test_a_value_of_an_env_file_refers_to_others() -> None:
    """The environment counts first, as it does for whole variables."""
    said: list[str] = []
    text = "USER=ada\nPORT=5432\n\nURL=postgresql://${USER}@${HOST}:${PORT}/${NONE}\n"
    found = read_assignments(text, environ={"USER": "root", "HOST": "db"}, warn=said.append)
    assert found["URL"] == "postgresql://root@db:5432/"
    assert said == [".env:4: variable NONE is not set"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_an_env_file_of_windows_is_read(tmp_path: Path, encoding: str) -> None:
    """Its editors and shells put a byte order mark in front."""
    (tmp_path / ".env").write_text("K=ü\nB=1\n", encoding=encoding)
    environ: dict[str, str] = {}
    load_env_file(tmp_path / ".env", environ)
    assert environ == {"K": "ü", "B": "1"}


def test_a_key_of_several_lines_stops_no_command(tmp_path: Path) -> None:
    """In quotes it is a value; without, its first line is one, and the others are warned of."""
    pem = "-----BEGIN KEY-----\nMIIabc+/\n-----END KEY-----"
    assert read_assignments(f'K="{pem}"\nB=1')["K"] == pem
    said: list[str] = []
    (tmp_path / ".env").write_text(f"K={pem}\nB=1")
    environ: dict[str, str] = {}
    load_env_file(tmp_path / ".env", environ, warn=said.append)
    assert environ == {"K": "-----BEGIN KEY-----", "B": "1"}
    assert [each.split(" ")[0] for each in said] == [".env:2:", ".env:3:"]


@pytest.mark.parametrize(
    "line", ["hunter22", "  two words", "K='hunter22", "K='hunter'22", "=hunter22", "K=a\0b"]
)
def test_a_line_that_is_no_assignment_is_named_by_its_number(line: str) -> None:
    """Not by its text, for that may be a secret; the other lines count."""
    said: list[str] = []
    found = read_assignments(f"A=1\n\n# comment\n\n{line}\nB=2\n", warn=said.append)
    assert found == {"A": "1", "B": "2"}
    assert said == [".env:5: ignored: expected NAME=value"]


async def test_an_embedded_database_is_not_made_by_a_question(tmp_path: Path) -> None:
    """`walagent runs` in the wrong folder must not leave a server behind."""
    with pytest.raises(PreconditionError, match="no database is named") as caught:
        async with open_places(None, Embedded(data_dir=tmp_path / "pg"), create=False):
            pass
    assert "walagent init" in caught.value.hint
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - iterdir would block as well


# A running daemon reads them again.


def test_what_the_env_file_has_set_it_may_set_again(tmp_path: Path) -> None:
    """A password that is changed there counts after SIGHUP; what others have set stays theirs."""
    path, environ = tmp_path / ".env", {"THEIRS": "1"}
    path.write_text("DATABASE_URL=postgresql://app:old@db/shop\nTHEIRS=2\n")
    names = load_env_file(path, environ)
    path.write_text("DATABASE_URL=postgresql://app:new@db/shop\nTHEIRS=3\n")
    assert load_env_file(path, environ, names) == names == {"DATABASE_URL"}
    assert environ == {"THEIRS": "1", "DATABASE_URL": "postgresql://app:new@db/shop"}


def test_a_running_daemon_changes_its_login_and_never_its_database() -> None:
    """Checkpoint, slot and queue are in the database that it began with."""
    first = Places("postgresql://app:old@db/shop", "host=db dbname=shop user=reader password=old")
    logins = Logins(first)
    assert not logins.renew(first)
    assert logins.renew(
        Places("postgresql://worker:new@db/shop", "host=db dbname=shop user=reader password=new")
    )
    assert logins.dsn() == "postgresql://worker:new@db/shop"
    assert logins.replication_dsn().endswith("password=new")
    for other in ("postgresql://app:old@db/other", "postgresql://app:old@elsewhere/shop"):
        with pytest.raises(ConfigError, match="cannot change the database"):
            logins.renew(Places(other, other))
    assert logins.dsn() == "postgresql://worker:new@db/shop"
