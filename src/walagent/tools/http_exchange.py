"""Send one request of a tool to a checked address, and read a bounded answer."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final
from urllib.parse import urlsplit

import httpx2

from walagent import __version__
from walagent.base.retries import retry_after
from walagent.errors import OutcomeUnknownError, ToolFailedError
from walagent.models.clients import ssl_context
from walagent.tools.addresses import Address
from walagent.tools.http_request import HttpRequest, Limits

_SERVER_ERROR: Final = 500
_MULTIPLE_CHOICES: Final = 300
_BAD_REQUEST: Final = 400
_DECODER: Final = codecs.getincrementaldecoder("utf-8")  # it keeps a part of a character back


@dataclass(frozen=True, slots=True)
class Said:
    """An answer.

    Args:
        text: its body, up to the limit.
        is_cut: whether that is not all of it.
        retry_after: seconds that it asks to wait.
    """

    status: int
    text: str
    is_cut: bool = False
    retry_after: float | None = None

    @property
    def is_success(self) -> bool:
        """Whether the server says that it did what was asked."""
        return self.status < _MULTIPLE_CHOICES


async def send(
    request: HttpRequest,
    addresses: Sequence[Address],
    limits: Limits,
    tls: SSLContext | None = None,
) -> Said:
    """Send *request* to the first of *addresses* that accepts a connection.

    A client of its own: a connection in a pool is found by its address, and two hosts at one
    address must not share the one that was verified for the other.  No proxy of the environment is
    used, because it would resolve the name again.

    Args:
        tls: the certificates that are trusted.  Default: those that models use.

    Raises:
        ToolFailedError: nothing was sent, as for a URL that is too long, or the answer is a
            redirect.
        OutcomeUnknownError: it was sent, and the answer is missing or an error of the server.
    """
    refused: Exception | None = None
    try:
        url = httpx2.URL(request.url)
    except httpx2.InvalidURL as error:
        raise ToolFailedError("the URL of the request is invalid or too long") from error
    async with httpx2.AsyncClient(
        verify=tls or ssl_context(), trust_env=False, follow_redirects=False, timeout=limits.seconds
    ) as client:
        for address in addresses:
            try:
                return await _exchange(client, request, url, address, limits.most)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                refused = error
    host = urlsplit(request.url).hostname
    raise ToolFailedError(f'host "{host}" cannot be reached: {type(refused).__name__}') from refused


async def _exchange(
    client: httpx2.AsyncClient, request: HttpRequest, url: httpx2.URL, address: Address, most: int
) -> Said:
    parts = urlsplit(request.url)
    host = parts.hostname or ""
    built = client.build_request(
        request.method,
        url.copy_with(host=str(address)),
        headers={
            "User-Agent": f"walagent/{__version__}",
            "Accept-Encoding": "identity",
            **request.headers,
            "Host": parts.netloc,
        },
        content=request.body,
        extensions={"sni_hostname": host},
    )
    try:
        response = await client.send(built, stream=True)
        try:
            body = await _read(response, most)
            said = Said(response.status_code, *body, retry_after(response.headers))
        finally:
            await response.aclose()
    except (httpx2.ConnectError, httpx2.ConnectTimeout):
        raise
    except httpx2.HTTPError as error:
        raise OutcomeUnknownError(f"{host}: {type(error).__name__}") from error
    if said.status >= _SERVER_ERROR:
        text = f"{host} answered HTTP {said.status}"
        raise OutcomeUnknownError(text, retry_after=said.retry_after)
    if _MULTIPLE_CHOICES <= said.status < _BAD_REQUEST:
        raise ToolFailedError(f"{host} answered HTTP {said.status}; redirects are not followed")
    return said


async def _read(response: httpx2.Response, most: int) -> tuple[str, bool]:
    """Read up to *most* bytes, as they were sent: what is small compressed can be large.

    Returns:
        the text, and whether it was cut; not within a character.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        return "(a compressed body, left out)", False
    body = b""
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > most:
            return _DECODER(errors="replace").decode(body[:most]), True
    return body.decode(errors="replace"), False
