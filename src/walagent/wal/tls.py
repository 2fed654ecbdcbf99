"""Read and write a TLS connection that libpq has opened, as a socket.

libpq holds each message whole.  So the stream is read from the TLS session itself, through the
OpenSSL library that libpq is linked with: libpq has verified the server and logged in.

Source: PostgreSQL docs, 32.2 Connection Status Functions, PQsslStruct; psycopg docs,
PGconn.pgconn_ptr; OpenSSL's manual, SSL_read(3), SSL_write(3), SSL_get_error(3).
"""

import ctypes
from functools import cache
from importlib import import_module
from typing import Final

from psycopg import pq
from psycopg.pq.abc import PGconn

_RECORD: Final = 1 << 14  # bytes; the most that one call returns
_WANTS: Final = (2, 3)  # results of SSL_get_error: data, or room for it
_CLOSED: Final = 6
_MODULES: Final = {"binary": "psycopg_binary.pq", "c": "psycopg_c.pq"}


class TlsSocket:
    """The part of a non-blocking socket that a transport uses."""

    def __init__(self, library: ctypes.CDLL, session: int) -> None:
        self._library = library
        self._session: ctypes.c_void_p | None = ctypes.c_void_p(session)
        self._buffer = ctypes.create_string_buffer(_RECORD)

    def recv(self, size: int) -> bytes:
        """Return what has arrived, about *size* bytes at most; b"" at the end.

        It returns only if no data is left in the session, where it would not make the socket
        readable.

        Raises:
            BlockingIOError: nothing has arrived.
            OSError: the connection is lost.
        """
        parts, length = list[bytes](), 0
        while True:
            count = self._call("SSL_read", self._buffer, _RECORD)
            if count <= 0:
                break
            parts.append(memoryview(self._buffer)[:count].tobytes())
            length += count
            if length >= size and not self._library.SSL_pending(self._session):
                break
        if not parts:
            return self._raise(count)
        return b"".join(parts)

    def send(self, data: bytes | bytearray) -> int:
        """Send data and return its length.

        After BlockingIOError, the next call must start with the same data.

        Raises:
            BlockingIOError: the socket is not writable.
            OSError: the connection is lost.
        """
        part = bytes(data[:_RECORD])
        count = self._call("SSL_write", part, len(part))
        if count <= 0:
            self._raise(count)
        return count

    def close(self) -> None:
        """Use the session no more; libpq frees it."""
        self._session = None

    def _call(self, name: str, data: object, length: int) -> int:
        if self._session is None:
            raise OSError("connection is closed")
        self._library.ERR_clear_error()
        return getattr(self._library, name)(self._session, data, length)

    def _raise(self, result: int) -> bytes:
        code = self._library.SSL_get_error(self._session, result)
        if code in _WANTS:
            raise BlockingIOError
        if code == _CLOSED:
            return b""
        raise OSError(f"TLS connection was lost (SSL_get_error {code})")


def tls_socket(pgconn: PGconn) -> TlsSocket | None:
    """Return the TLS session of a connection; None if it is not one of OpenSSL that can be used."""
    library = _library()
    pointer: int | None = getattr(pgconn, "pgconn_ptr", None)
    if library is None or not pointer:
        return None
    session = library.PQsslStruct(ctypes.c_void_p(pointer), b"OpenSSL")
    return TlsSocket(library, session) if session else None


@cache
def _library() -> ctypes.CDLL | None:
    """Load psycopg's own libpq; its handle also finds the OpenSSL that this libpq uses."""
    try:
        if (name := _MODULES.get(pq.__impl__)) is None:
            return None
        library = ctypes.CDLL(import_module(name).__file__)
        library.PQsslStruct.restype = ctypes.c_void_p
        library.PQsslStruct.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        for function in (library.SSL_read, library.SSL_write):
            function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
        library.SSL_get_error.argtypes = [ctypes.c_void_p, ctypes.c_int]
        library.SSL_pending.argtypes = [ctypes.c_void_p]
        library.ERR_clear_error.restype = None
    except (AttributeError, ImportError, OSError):
        return None
    return library
