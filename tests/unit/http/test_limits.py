"""Places of sockets whose clients are unknown."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from walagent.http.limits import LimitedSocket


class _Many(set[Any]):
    """The connections of a server, of which there are too many to look at each."""

    def __iter__(self) -> Iterator[Any]:
        """Refuse."""
        raise AssertionError("each new socket looks at all connections")


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - the event is a callback of the transport
            await asyncio.sleep(0)


async def test_the_oldest_unknown_socket_goes_without_a_look_at_all() -> None:
    """Two may be unknown here; one that is known, or gone, has no place among them."""
    config = uvicorn.Config(lambda *_: None, http=H11Protocol)
    config.load()
    state = ServerState()
    state.connections = _Many()
    made: list[LimitedSocket] = []
    unknown: dict[LimitedSocket, None] = {}

    def socket() -> LimitedSocket:
        made.append(
            LimitedSocket(config=config, server_state=state, app_state={}, most=8, unknown=unknown)
        )
        return made[-1]

    server = await asyncio.get_running_loop().create_server(socket, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def connect() -> None:
        clients.append(await asyncio.open_connection("127.0.0.1", port))
        await _until(lambda: len(made) == len(clients) and made[-1] in state.connections)

    async def is_cut_off(number: int) -> bool:
        try:
            async with asyncio.timeout(0.3):
                return await clients[number][0].read(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    async with server:
        for _ in range(2):
            await connect()
        made[0].be_known()
        for _ in range(2):
            await connect()
        assert [await is_cut_off(n) for n in range(4)] == [False, True, False, False]
        clients[2][1].close()
        await _until(lambda: made[2] not in unknown)
        await connect()
        assert [await is_cut_off(n) for n in (0, 3, 4)] == [False, False, False]
        assert list(unknown) == [made[3], made[4]]
        for _, writer in clients:
            writer.close()
        await _until(lambda: not unknown and not len(state.connections))
