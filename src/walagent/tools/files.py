"""Files below a configured folder, as a model reads and writes them.

Each component of a path is opened relative to the one before, without following links, so that no
name leads out of the folder, whatever is renamed or linked meanwhile.  Only regular files with one
name are read; a file is written beside its place and renamed.
"""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from walagent.errors import ToolFailedError

_MOST_PATH: Final = 1024  # bytes
_MOST_NAME: Final = 200  # bytes of a component: with the suffix of a temporary file, 255
_MOST_DEPTH: Final = 16
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without waiting for the other end of a pipe, and without making a terminal ours.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Files:
    """The folder, which has one of its own for each tenant.

    Args:
        root: an absolute path, which the operator chose: links in it are followed.
        writable: whether files can be written.
        max_bytes: of a file that is read or written.
    """

    root: Path
    writable: bool = False
    max_bytes: int = 65_536

    def read(self, tenant: str, path: str) -> str:
        """Read a text file.

        Raises:
            ToolFailedError: it does not exist, is no regular file, is too large, or is no text.
        """
        with self._folder(tenant, path, create=False) as (folder, name):
            try:
                file = os.open(name, _READ, dir_fd=folder)
            except OSError as error:
                raise _refused(path, error) from error
            with os.fdopen(file, "rb") as opened:
                self._check(path, os.fstat(opened.fileno()))
                content = opened.read(self.max_bytes + 1)
        if len(content) > self.max_bytes:  # it grew
            raise ToolFailedError(f'"{path}" has more than {self.max_bytes:,} bytes')
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise ToolFailedError(f'"{path}" is not UTF-8 text') from error

    def write(self, tenant: str, path: str, text: str) -> int:
        """Write a text file whole, or leave it as it was; return its bytes.

        Raises:
            ToolFailedError: it cannot be written.
        """
        if not self.writable:
            raise ToolFailedError("files cannot be written on this worker (files.writable)")
        content = text.encode("utf-8", "replace")
        if len(content) > self.max_bytes:
            raise ToolFailedError(
                f"the text has {len(content):,} bytes; {self.max_bytes:,} are allowed"
            )
        with self._folder(tenant, path, create=True) as (folder, name):
            self._check_target(folder, path, name)
            temporary = f".{name}.{secrets.token_hex(8)}"
            try:
                with os.fdopen(os.open(temporary, _CREATE, 0o640, dir_fd=folder), "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise _refused(path, error) from error
        return len(content)

    @contextmanager
    def _folder(self, tenant: str, path: str, *, create: bool) -> Generator[tuple[int, str]]:
        """Yield the folder of a file, opened, and the file's name in it."""
        *above, name = _components(path)
        try:
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolFailedError("the folder of files does not exist on this worker") from error
        try:
            for each in (tenant, *above):
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(each, 0o750, dir_fd=folder)
                below = os.open(each, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = below
            yield folder, name
        except OSError as error:
            raise _refused(path, error) from error
        finally:
            os.close(folder)

    def _check(self, path: str, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise ToolFailedError(f'"{path}" is not a regular file')
        if found.st_nlink > 1:  # the other name can be outside
            raise ToolFailedError(f'"{path}" has another name (hard link)')
        if found.st_size > self.max_bytes:
            raise ToolFailedError(
                f'"{path}" has {found.st_size:,} bytes; {self.max_bytes:,} are allowed'
            )

    def _check_target(self, folder: int, path: str, name: str) -> None:
        """Refuse to replace what is no regular file; a link would be replaced, not followed."""
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                raise ToolFailedError(f'"{path}" is not a regular file')


def _components(path: str) -> list[str]:
    """Return the names of a relative path.

    Raises:
        ToolFailedError: it is not one, or has a name that is not allowed.
    """
    parts = path.split("/")
    if not path or path.startswith("/") or len(path.encode("utf-8", "replace")) > _MOST_PATH:
        raise ToolFailedError(f'"{path[:200]}" is not a relative path')
    if len(parts) > _MOST_DEPTH:
        raise ToolFailedError(f"a path has at most {_MOST_DEPTH} names")
    for part in parts:
        if not part or part.startswith("."):  # "..", and files that programs keep to themselves
            raise ToolFailedError(f'name "{part[:100]}" in a path is not allowed')
        if not part.isprintable() or "\\" in part:
            raise ToolFailedError("a name in a path has a character that is not allowed")
        if len(part.encode("utf-8", "replace")) > _MOST_NAME:
            raise ToolFailedError(f"a name in a path has at most {_MOST_NAME} bytes")
    return parts


def _refused(path: str, error: OSError) -> ToolFailedError:
    """Say what is wrong, without the path of the folder."""
    return ToolFailedError(f'"{path}": {os.strerror(error.errno or 0)}')
