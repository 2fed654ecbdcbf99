"""The console's pages and files, asked over real sockets."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from walagent.console.files import Built, read_built
from walagent.console.site import ConsoleSite
from walagent.http.server import listen, serve_on

PAGE = """<!doctype html>
<meta name="walagent-base" content="/">
<script type="module" src="./assets/index-Ab12_-cd.js"></script>
"""
SCRIPT = "export const made = 1;\n" * 50


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """A page with one file."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "assets" / "index-Ab12_-cd.js").write_text(SCRIPT)
    (tmp_path / "secret.txt").write_text("not served")
    return read_built(tmp_path)


@asynccontextmanager
async def _served(built: Built) -> AsyncIterator[int]:
    site = ConsoleSite(built, lambda: {"State": "ready", "Tag": "<b>"})
    sockets = await listen("127.0.0.1", 0)
    port: int = sockets[0].getsockname()[1]
    task = asyncio.create_task(serve_on(site, sockets))
    try:
        yield port
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def _ask(
    port: int, path: str, headers: str = "Accept: text/html\r\n", method: str = "GET"
) -> tuple[int, str, bytes]:
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = f"{method} {path} HTTP/1.1\r\nHost: h\r\n{headers}Connection: close\r\n\r\n"
        writer.write(request.encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
    return int(head.split()[1]), head.decode().lower(), body


@pytest.mark.parametrize("path", ["/", "/runs", "/runs/48213", "/sign-in", "/agents/triage/edit"])
async def test_each_address_answers_with_the_page(built: Built, path: str) -> None:
    """The page decides what an address shows, so links and reloads work."""
    async with _served(built) as port:
        status, head, body = await _ask(port, path)
    assert (status, "text/html" in head) == (200, True)
    assert b'src="/assets/index-Ab12_-cd.js"' in body


async def test_the_page_allows_its_own_files_alone(built: Built) -> None:
    """No inline script or style, no other origin, no frame, no referrer."""
    async with _served(built) as port:
        _, head, _ = await _ask(port, "/")
    policy = next(line for line in head.splitlines() if line.startswith("content-security-policy"))
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "style-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "referrer-policy: no-referrer" in head
    assert "x-content-type-options: nosniff" in head
    assert "cache-control: no-cache" in head


async def test_a_proxy_names_the_prefix_that_it_removed(built: Built) -> None:
    """All addresses of the page start with it."""
    async with _served(built) as port:
        _, _, body = await _ask(port, "/", "Accept: text/html\r\nX-Forwarded-Prefix: /ops/db-1\r\n")
    assert b'content="/ops/db-1/"' in body
    assert b'src="/ops/db-1/assets/index-Ab12_-cd.js"' in body


@pytest.mark.parametrize("prefix", ["//evil.example", 'a"><script>', "/a//b", "https://e.example"])
async def test_what_is_no_path_is_no_prefix(built: Built, prefix: str) -> None:
    """A header must not bring another host or markup into the page."""
    async with _served(built) as port:
        _, _, body = await _ask(port, "/", f"Accept: text/html\r\nX-Forwarded-Prefix: {prefix}\r\n")
    assert b'content="/"' in body
    assert b"evil" not in body
    assert b"<script>" not in body


async def test_files_with_a_hash_are_kept_forever_and_compressed(built: Built) -> None:
    """A browser asks once; a changed file has another name."""
    async with _served(built) as port:
        status, head, body = await _ask(
            port, "/assets/index-Ab12_-cd.js", "Accept-Encoding: gzip, br\r\n"
        )
        _, _, plain = await _ask(port, "/assets/index-Ab12_-cd.js", "")
    assert status == 200
    assert "immutable" in head
    assert "text/javascript" in head
    assert "content-encoding: gzip" in head
    assert gzip.decompress(body).decode() == SCRIPT == plain.decode()


@pytest.mark.parametrize(
    "path",
    ["/assets/../secret.txt", "/assets/%2e%2e/secret.txt", "/assets//etc/passwd", "/assets/"],
)
async def test_only_names_of_built_files_are_served(built: Built, path: str) -> None:
    """No path leads out of the folder."""
    async with _served(built) as port:
        status, _, body = await _ask(port, path)
    assert status == 404
    assert b"not served" not in body


async def test_programs_get_404_and_no_page(built: Built) -> None:
    """An unknown address of the API is not answered with HTML."""
    async with _served(built) as port:
        assert (await _ask(port, "/v1/nothing"))[0] == 404
        assert (await _ask(port, "/nothing", "Accept: application/json\r\n"))[0] == 404
        assert (await _ask(port, "/", method="POST"))[0] == 405


async def test_without_its_files_the_console_is_a_status_page(tmp_path: Path) -> None:
    """It says how to build them, escapes what it shows, and needs no script."""
    async with _served(read_built(tmp_path)) as port:
        status, head, body = await _ask(port, "/runs")
    assert (status, "text/html" in head) == (200, True)
    assert b"make web" in body
    assert b"<script" not in body
    assert b"&lt;b&gt;" in body


async def test_the_status_page_is_there_beside_the_console(built: Built) -> None:
    """For browsers without JavaScript; HEAD has the same headers and no body."""
    async with _served(built) as port:
        _, _, body = await _ask(port, "/status")
        status, head, none = await _ask(port, "/status", method="HEAD")
    assert b"<dd>ready</dd>" in body
    assert (status, none) == (200, b"")
    assert f"content-length: {len(body)}" in head
