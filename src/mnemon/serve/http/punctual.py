"""Connections that say nothing are closed: without a token anybody could hold all of them otherwise."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS, BODY = 10.0, 30.0  # seconds for all headers of a request, and in which some of its body must come


class Punctual(HttpToolsProtocol):
    """uvicorn's protocol, with a time for each request to come in. What it waits for behind an answer is uvicorn's business
    (`timeout_keep_alive`)."""

    _late: asyncio.TimerHandle | None = None
    _in_headers = True

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
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
