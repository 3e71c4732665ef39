"""uvicorn's connection protocol, with time limits for requests and fewer system calls.

A connection that sends nothing is closed; otherwise anybody, without a token, could occupy all connections. uvicorn itself
limits the time between an answer and the next request (`timeout_keep_alive`).

Each system call releases the interpreter's lock and so lets the learning thread run first. uvicorn writes the head and the
body of an answer separately, and pauses reading from a connection with a large body although the app is about to read it.
Here both are postponed to the next turn of the event loop: the two writes become one, and the pause is usually cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS, BODY = 10.0, 30.0  # seconds: for all headers of a request; between two parts of its body


class Punctual(HttpToolsProtocol):
    """A connection that is closed if a request does not arrive in time."""

    _late: asyncio.TimerHandle | None = None
    _in_headers = True

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.transport = Joining(transport, self.loop)  # type: ignore[assignment]
        self.flow = Patient(transport, self.loop)
        self._expect(HEADERS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True
        if self._late is None:  # from the second request of a connection on
            self._expect(HEADERS)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_headers = False
        self._expect(BODY)

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._expect(BODY)

    def on_message_complete(self) -> None:
        self._expect(None)
        super().on_message_complete()

    def _expect(self, seconds: float | None) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late = None if seconds is None else self.loop.call_later(seconds, self._close)

    def _close(self) -> None:
        if self.flow.read_paused and not self._in_headers:  # the server is not reading, so the client is not late
            self._expect(BODY)
        elif not self.transport.is_closing():
            self.transport.close()


class Joining:
    """A transport that sends all that is written within one turn of the event loop by one system call."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(part)

    def _send(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Patient(FlowControl):
    """Pauses reading from a connection if the received bytes are still unread in the next turn of the event loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(transport)
        self._loop = loop
        self._soon: asyncio.Handle | None = None

    def pause_reading(self) -> None:
        if self._soon is None:
            self._soon = self._loop.call_soon(self._pause)

    def _pause(self) -> None:
        self._soon = None
        super().pause_reading()

    def resume_reading(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        super().resume_reading()
