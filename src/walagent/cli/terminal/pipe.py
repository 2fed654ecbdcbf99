"""Write to stdout while its reader might rest, without delaying anything else.

A thread writes: the event loop never waits for the reader.  It is a daemon thread that uses the
file descriptor itself, so the process can end while a write waits.
"""

import asyncio
import errno
import os
import stat
import sys
from queue import SimpleQueue
from threading import Thread
from typing import Never

_Order = tuple[bytes, asyncio.Future[None]]


class Pipe:
    """Standard output of a command that streams, within the running event loop."""

    def __init__(self) -> None:
        self._fd = sys.stdout.fileno()
        self._loop = asyncio.get_running_loop()
        self._orders = SimpleQueue[_Order]()
        Thread(target=self._work, name="stdout", daemon=True).start()

    async def write(self, data: bytes) -> None:
        """Return when the kernel has all of *data*.

        Raises:
            OSError: it cannot be written; BrokenPipeError if the reader is gone.
        """
        done = self._loop.create_future()
        self._orders.put((data, done))
        await done

    async def closed(self) -> Never:
        """Wait until the reader of a pipe is gone; without a pipe, forever.

        Raises:
            BrokenPipeError: it is gone.
        """
        gone = asyncio.Event()
        if stat.S_ISFIFO(os.fstat(self._fd).st_mode):
            # The writing end is never readable; the event loop calls this for its error.
            self._loop.add_reader(self._fd, gone.set)
        try:
            await gone.wait()
        finally:
            self._loop.remove_reader(self._fd)
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def _work(self) -> None:
        while True:
            data, done = self._orders.get()
            error: OSError | None = None
            try:
                _write_all(self._fd, data)
            except OSError as trouble:
                error = trouble
            try:
                self._loop.call_soon_threadsafe(_settle, done, error)
            except RuntimeError:  # the loop is closed: the command ends
                return


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _settle(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.done():  # cancelled
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
