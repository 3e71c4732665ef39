"""uvicorn's protocol for connections, stricter in what it waits for and sparing with system calls.

Connections that say nothing are closed: without a token anybody could hold all of them otherwise. What it waits for behind
an answer is uvicorn's business (`timeout_keep_alive`).

While the learner runs, each system call gives its thread a chance to go first. uvicorn writes the head of an answer and its
body apart, and pauses a connection whose body is large though the app is about to read it: both are put off to the next
turn of the event loop, where they are one call and none.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS, BODY = 10.0, 30.0  # seconds for all headers of a request, and in which some of its body must come


class Punctual(HttpToolsProtocol):
    """With a time for each request to come in."""

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
        if self._late is None:  # not the first request of this connection
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
        if self.flow.read_paused and not self._in_headers:  # it is the server that does not read
            self._expect(BODY)
        elif not self.transport.is_closing():
            self.transport.close()


class Joining:
    """A transport that sends what is written in one turn of the event loop with one call."""

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
    """Pauses a connection when what was received is still there in the next turn of the event loop."""

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
