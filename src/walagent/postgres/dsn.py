"""Say what is wrong with a connection string, without a piece of it that could be a password."""

import re
from typing import Final
from urllib.parse import unquote

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from walagent.errors import ConfigError

_SCHEME: Final = re.compile(r"^\s*([A-Za-z][A-Za-z0-9+.-]*)://")
_LIBPQ: Final = {"postgres", "postgresql"}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,40}")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FORM: Final = "Use postgresql://user@host/database or host=… dbname=… user=…."
_ENCODE: Final = "In a URL, write @ as %40, / as %2F, : as %3A, # as %23, ? as %3F and % as %25."
# Parameters of other programs, and what stands for them here.
_OTHERS: Final = {
    "schema": "Use ?options=-csearch_path%3DNAME instead.",
    "currentschema": "Use ?options=-csearch_path%3DNAME instead.",
    "ssl": "Use sslmode=require instead.",
    "user": "Write it before the host: postgresql://user@host/database.",
}


def check_dsn(dsn: str, name: str) -> None:
    """Check a connection string.

    Args:
        name: what holds it, such as `DATABASE_URL`.

    Raises:
        ConfigError: libpq would reject it, or take a part of the password for the host.
    """
    if (wrong := _wrong(dsn)) is not None:
        text, hint = wrong
        raise ConfigError(f"{name} is not a valid connection string: {text}", hint=hint)


def _wrong(dsn: str) -> tuple[str, str] | None:
    if (found := _SCHEME.match(dsn)) is not None:
        if (wrong := _wrong_url(found[1], dsn[found.end() :])) is not None:
            return wrong
    elif "://" in dsn.partition("=")[0]:
        return "it has no scheme", _FORM
    try:
        conninfo_to_dict(dsn)
    except ProgrammingError:
        return "libpq cannot read it", _FORM
    return None


def _wrong_url(scheme: str, rest: str) -> tuple[str, str] | None:
    if scheme not in _LIBPQ:
        return f'its scheme is "{scheme}", expected "postgresql"', (
            "Drivers of programs have schemes of their own: write postgresql:// and the rest."
        )
    if any(letter.isspace() for letter in rest.strip()):
        return "it has a space", f"{_ENCODE} A space is %20."
    before, mark, query = _split(rest)
    if before.count("@") > 1 or "@" in before.partition("/")[2]:
        return "the user name or the password has a character that is not encoded", _ENCODE
    if mark and "@" in query and "@" not in before:
        return "the user name or the password has a character that is not encoded", _ENCODE
    if _BROKEN_ESCAPE.search(before):
        return "it has a % that is not followed by two hexadecimal digits", _ENCODE
    return _wrong_parameter(query)


def _split(rest: str) -> tuple[str, str, str]:
    """Split what follows the scheme at the ? of the parameters: a password can have one."""
    credentials, at, place = rest.rpartition("@")
    before, mark, query = place.partition("?")
    return f"{credentials}{at}{before}", mark, query


def _wrong_parameter(query: str) -> tuple[str, str] | None:
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    for pair in filter(None, query.split("&")):
        name, equals, _ = pair.partition("=")
        if not equals:
            return "a parameter has no value", "Write parameters as ?name=value&name=value."
        name = unquote(name)
        if name in known or (name, pair) == ("ssl", "ssl=true"):
            continue
        if not _NAME.fullmatch(name):
            return "the name of a parameter is invalid", _ENCODE
        return f'libpq has no parameter "{name}"', _OTHERS.get(
            name.lower(), "Remove it: it is of another driver."
        )
    return None
