"""uvicorn's connection protocol, with limits for the client and fewer system calls.

A client without a token could occupy all connections or the memory with requests that do not end or answers that it does not
read. Such connections are closed. (uvicorn's own limit, `timeout_keep_alive`, ends with the first byte of the next request.)

Each system call releases the interpreter's lock, and the learning thread may then run first. uvicorn writes the head and the
body of an answer separately, and pauses reading from a connection with a large body although the app is about to read it.
Here both wait for the next turn of the event loop: the two writes become one, and the pause is usually cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS, BODY = 10.0, 30.0  # seconds: for all headers of a request; between two parts of its body
ANSWER = 120.0  # seconds in which a client must read some of an answer; the system tells of steps of a megabyte
# Bytes without a body: of headers, or of what stands between the parts of a body. Up to 256 KiB, which asyncio reads at once,
# may be counted that belong to a body before them.
HEADERS_BYTES = 2**19


class LimitedConnection(HttpToolsProtocol):
    """A connection that is closed if a request does not arrive in time, if its headers are too large, or if its answer is not
    read."""

    _timer: asyncio.TimerHandle | None = None
    _in_headers = True
    _without_body = 0  # bytes

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.transport = JoinedWrites(transport, self.loop, ANSWER)  # type: ignore[assignment]
        self.flow = LatePause(transport, self.loop, self.pipeline)
        self._expect(HEADERS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._without_body += len(data)
        if self._without_body > HEADERS_BYTES:
            self.transport.abort()
        elif self._timer is None and self._is_idle():  # it sent empty lines, which stopped uvicorn's clock
            self._expect(HEADERS)

    def _is_idle(self) -> bool:
        return self.timeout_keep_alive_task is None and (self.cycle is None or self.cycle.response_complete)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True
        self._without_body = 0
        if self._timer is None:  # from the second request of a connection on
            self._expect(HEADERS)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_headers = False
        self._expect(BODY)

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._without_body = 0
        if not self.cycle.response_complete:  # after the answer, as of a refusal, the rest of the body has BODY seconds
            self._expect(BODY)

    def on_message_complete(self) -> None:
        self._expect(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline:
            self.flow.resume_reading()

    def _expect(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._close)

    def _close(self) -> None:
        if self.flow.read_paused and not self._in_headers:  # the server is not reading, so the client is not late
            self._expect(BODY)
        elif not self.transport.is_closing():
            self.transport.close()


class JoinedWrites:
    """A transport that sends all that is written within one turn of the event loop by one system call. It closes the connection
    if the client reads nothing for `patience` seconds while there is something to read."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self._transport, self._loop, self._patience = transport, loop, patience
        self._parts: list[bytes] = []
        self._written = 0  # bytes
        self._looking = False

    def write(self, part: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(part)

    def _send(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            content = b"".join(parts)
            self._transport.write(content)
            self._written += len(content)
            if not self._looking and self._transport.get_write_buffer_size():
                self._looking = True
                self._loop.call_later(self._patience, self._look, self._read())

    def _read(self) -> int:
        """The bytes that went to the client."""
        return self._written - self._transport.get_write_buffer_size()

    def _look(self, before: int) -> None:
        """`before`: what had gone to the client when it was looked at last."""
        self._looking = self._transport.get_write_buffer_size() > 0
        if self._looking and self._read() == before:
            self._transport.abort()
        elif self._looking:
            self._loop.call_later(self._patience, self._look, self._read())

    def close(self) -> None:
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LatePause(FlowControl):
    """Pauses reading from a connection if the received bytes are still unread in the next turn of the event loop, and as long
    as received requests are `queued` behind the one that is answered: uvicorn would go on and keep any number of them."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, queued: Sized) -> None:
        super().__init__(transport)
        self._loop, self._queued = loop, queued
        self._soon: asyncio.Handle | None = None

    def pause_reading(self) -> None:
        if self._soon is None:
            self._soon = self._loop.call_soon(self._pause)

    def _pause(self) -> None:
        self._soon = None
        super().pause_reading()

    def resume_reading(self) -> None:
        if self._queued:  # the body of the request that is answered came before them
            return
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        super().resume_reading()
