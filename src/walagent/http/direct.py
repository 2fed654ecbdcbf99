"""Let an application write parts of a response without a task's turn for each client."""

from collections.abc import Callable
from functools import partial
from typing import Final

from starlette.types import Scope, Send
from uvicorn.protocols.http.h11_impl import RequestResponseCycle

Write = Callable[[bytes], bool]

_EXTENSION: Final = "walagent.direct"


def offer_direct(scope: Scope, send: Send) -> None:
    """Add `direct_of` to a request, if its response is sent in chunks."""
    cycle = getattr(send, "__self__", None)
    is_chunked = (
        scope["type"] == "http" and scope["http_version"] == "1.1" and scope["method"] != "HEAD"
    )
    if is_chunked and isinstance(cycle, RequestResponseCycle):
        scope.setdefault("extensions", {})[_EXTENSION] = partial(_write, cycle)


def direct_of(scope: Scope) -> Write | None:
    """Return what writes a part of the body, once the response has begun; None: use `send`.

    It returns False, and writes nothing, if the client takes no more at present, or is gone.
    Nothing that changes bodies may be between the server and the application.
    """
    return scope.get("extensions", {}).get(_EXTENSION)


def _write(cycle: RequestResponseCycle, body: bytes) -> bool:
    is_open = cycle.response_started and not (cycle.response_complete or cycle.disconnected)
    if not is_open or cycle.flow.write_paused or cycle.transport.is_closing():
        return False
    # As h11 does: a chunk changes nothing in its state.
    cycle.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
    return True
