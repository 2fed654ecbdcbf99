"""What walagent uses of uvicorn's own classes, which a release can change: it is pinned."""

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from walagent.http.limits import LimitedProtocol

OF_PROTOCOL = {"connections", "flow", "conn", "loop", "transport"}
OF_CYCLE = {"response_started", "response_complete", "disconnected", "flow", "transport"}


async def test_a_protocol_has_what_limits_use() -> None:
    """The names, and the methods that are overridden."""
    config = uvicorn.Config(lambda *_: None, http=H11Protocol)
    config.load()
    protocol = LimitedProtocol(config=config, server_state=ServerState(), app_state={}, most=1)
    assert [name for name in OF_PROTOCOL if not hasattr(protocol, name)] == []
    overridden = {name for name in vars(LimitedProtocol) if hasattr(H11Protocol, name)}
    assert {"connection_made", "connection_lost", "data_received"} <= overridden
    assert "handle_websocket_upgrade" in overridden


def test_a_cycle_has_what_direct_writes_use() -> None:
    """Its attributes are set when it is made."""
    made = set(RequestResponseCycle.__init__.__code__.co_names)
    assert made >= OF_CYCLE
