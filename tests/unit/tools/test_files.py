"""Files of a folder: no name, link, device or race leads out of it."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from walagent.errors import ToolFailedError
from walagent.tools.files import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A folder with a file of a tenant, beside a secret."""
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "root" / "acme" / "notes").mkdir(parents=True)
    (tmp_path / "root" / "acme" / "notes" / "a.txt").write_text("hello")
    (tmp_path / "root" / "other").mkdir()
    (tmp_path / "root" / "other" / "b.txt").write_text("of another tenant")
    return Files(tmp_path / "root", writable=True, max_bytes=1000)


def test_a_file_is_read_and_written_whole(files: Files) -> None:
    """Folders are created; nothing temporary is left."""
    assert files.read("acme", "notes/a.txt") == "hello"
    assert files.write("acme", "new/deep/c.txt", "größer") == 8
    assert files.read("acme", "new/deep/c.txt") == "größer"
    files.write("acme", "new/deep/c.txt", "again")
    assert files.read("acme", "new/deep/c.txt") == "again"
    assert [each.name for each in (files.root / "acme" / "new" / "deep").iterdir()] == ["c.txt"]
    assert files.write("fresh", "x.txt", "") == 0


PATHS = [
    "", "/", "/etc/passwd", "..", "../secret.txt", "../other/b.txt", "notes/../../other/b.txt",
    "notes//a.txt", "./notes/a.txt", "notes/", ".hidden", "notes/.git/config", "a\0b", "a\nb",
    "notes\\..\\a", "\u202etxt.a", "x" * 300, "a/" * 40 + "b", "~root/x", "notes/a.txt/b",
    "missing.txt", "notes", "/proc/self/environ", "../../../../../../proc/self/environ",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_is_none_is_refused(files: Files, path: str) -> None:
    """Neither read, nor, if it exists or leads out, written; the root is not named."""
    with pytest.raises(ToolFailedError) as caught:
        files.read("acme", path)
    assert str(files.root) not in str(caught.value)
    if path not in {"missing.txt", "~root/x"}:
        with pytest.raises(ToolFailedError):
            files.write("acme", path, "x")
    assert (files.root.parent / "secret.txt").read_text() == "secret"
    assert (files.root / "other" / "b.txt").read_text() == "of another tenant"


def _symlink(place: Path, secret: Path) -> None:
    place.symlink_to(secret)


def _folder_link(place: Path, secret: Path) -> None:
    place.symlink_to(secret.parent)


def _hard_link(place: Path, secret: Path) -> None:
    place.hardlink_to(secret)


def _pipe(place: Path, _secret: Path) -> None:
    os.mkfifo(place)


def _device(place: Path, _secret: Path) -> None:
    try:
        os.mknod(place, 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this user creates no devices")


@pytest.mark.parametrize("make", [_symlink, _folder_link, _hard_link, _pipe, _device])
def test_what_is_no_file_of_its_own_is_refused(
    files: Files, make: Callable[[Path, Path], None]
) -> None:
    """Links are not followed, a pipe is not waited for, a device is not opened."""
    secret = files.root.parent / "secret.txt"
    make(files.root / "acme" / "evil", secret)
    for path in ("evil", "evil/secret.txt"):
        with pytest.raises(ToolFailedError):
            files.read("acme", path)
    for path in ("evil/secret.txt", "evil") if make is not _hard_link else ("evil/x",):
        with pytest.raises(ToolFailedError):
            files.write("acme", path, "overwritten")
    if make is _hard_link:
        files.write("acme", "evil", "replaced, not written through")
    assert secret.read_text() == "secret"


def test_a_tenant_that_is_a_link_is_refused(files: Files) -> None:
    """Only the root itself, which the operator chose, can be one."""
    (files.root / "linked").symlink_to(files.root.parent)
    with pytest.raises(ToolFailedError):
        files.read("linked", "secret.txt")


def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(files: Files) -> None:
    """A race that swaps a folder and a link never reads or writes outside."""
    inside, outside = files.root / "acme" / "swap", files.root.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    stop = threading.Event()

    def swap() -> None:
        aside = inside.with_name("aside")
        while not stop.is_set():
            inside.mkdir()
            (inside / "f").write_text("mine")
            inside.rename(aside)
            inside.symlink_to(outside)
            inside.unlink()
            (aside / "f").unlink(missing_ok=True)
            for left in aside.iterdir():
                left.unlink()
            aside.rmdir()

    thread = threading.Thread(target=swap, daemon=True)
    thread.start()
    seen = set[str]()
    try:
        for _ in range(3000):
            try:
                seen.add(files.read("acme", "swap/f"))
            except ToolFailedError:
                continue
    finally:
        stop.set()
        thread.join(10)
    assert "secret" not in seen
    assert [each.name for each in outside.iterdir()] == ["f"]


def test_sizes_and_encodings_have_limits(files: Files) -> None:
    """A large file, a large text and bytes that are no text are refused."""
    (files.root / "acme" / "large").write_bytes(b"x" * 1001)
    (files.root / "acme" / "binary").write_bytes(b"\xff\x00")
    for path in ("large", "binary"):
        with pytest.raises(ToolFailedError):
            files.read("acme", path)
    with pytest.raises(ToolFailedError):
        files.write("acme", "x", "y" * 1001)
    with pytest.raises(ToolFailedError):
        Files(files.root).write("acme", "x", "y")
    assert not (files.root / "acme" / "x").exists()
    with pytest.raises(ToolFailedError):
        Files(files.root / "missing").read("acme", "x")
