"""The built files of the console: read once, compressed once, found by name."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}


@dataclass(frozen=True, slots=True)
class File:
    """One file, as it is sent."""

    body: bytes
    compressed: bytes
    kind: str
    etag: str


@dataclass(frozen=True, slots=True)
class Built:
    """The page, and the files that it loads by name.

    Args:
        page: None if the console was not built.
    """

    page: str | None
    files: Mapping[str, File]


def read_built(folder: Traversable | None = None, page: str = "index.html") -> Built:
    """Read the files that `make web` built.

    Args:
        folder: where they are.  Default: inside this package.
        page: which of the pages is served.
    """
    root = folder if folder is not None else files("walagent.console").joinpath("assets")
    index, assets = root.joinpath(page), root.joinpath("assets")
    if not index.is_file() or not assets.is_dir():
        return Built(None, {})
    found = {each.name: _file(each) for each in assets.iterdir() if each.is_file()}
    # A page in a folder of its own loads files from the one above.
    return Built(index.read_text("utf-8").replace('"../', '"./'), found)


def _file(source: Traversable) -> File:
    body = source.read_bytes()
    kind = _TYPES.get(source.name.rpartition(".")[2], "application/octet-stream")
    return File(
        body, gzip.compress(body, mtime=0), kind, f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    )
