"""Samples of a source into a journal, each exactly once: the source is a producer whose last count the journal keeps."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np

from mnemon.data.layout import channels_last
from mnemon.errors import MnemonError
from mnemon.serve.events import JournalFailed, NoSpace
from mnemon.serve.service import Busy, Request, Service

logger = logging.getLogger(__name__)
AT_ONCE, UNDER_WAY = 100, 8  # rows of a request, and requests that are not acknowledged yet


class Sample(Protocol):
    """A row of a source."""

    @property
    def number(self) -> int: ...
    @property
    def where(self) -> str: ...
    @property
    def x(self) -> Any: ...
    @property
    def y(self) -> Any: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def producer(self) -> str | None: ...


class Feeder:
    """One source. `skip`: a bad row is named and left out; else it ends the feeding."""

    def __init__(self, service: Service, producer: str | None, *, skip: bool, stop: Callable[[], int]) -> None:
        self._service, self._producer, self._skip, self._stop = service, producer, skip, stop
        self._rows: list[Sample] = []
        self._under_way: deque[Future[Any]] = deque()
        self._sent: dict[str, int] = {}  # the last number, by producer
        self.sent = self.skipped = 0

    @property
    def after(self) -> int:
        """The last number that was acknowledged, in this process or an earlier one."""
        return 0 if self._producer is None else self._service.journal.producer(self._producer) or 0

    def feed(self, rows: Iterable[Any]) -> None:
        """Send all rows. None among them: nothing new at the moment, so what was read is sent."""
        for row in rows:
            if self._stop():
                break
            if row is None:
                self._send()
            elif hasattr(row, "why"):
                self._send()
                self._refuse(row.where, row.why)
            else:
                if self._rows and _sort(row) != _sort(self._rows[0]):
                    self._send()
                self._rows.append(row)
                if len(self._rows) == AT_ONCE:
                    self._send()
        self._send()
        while self._under_way:
            self._under_way.popleft().result()

    def _refuse(self, where: str, why: str) -> None:
        if not self._skip:
            raise MnemonError(f"{where}: {why}")
        self.skipped += 1
        logger.warning(f"skipped: {where}: {why}")

    def _send(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        try:
            done = self._accepted(rows)
        except (Busy, NoSpace, JournalFailed):
            raise
        except MnemonError as error:
            if len(rows) == 1:
                self._refuse(rows[0].where, str(error))
                return
            for row in rows:  # which one is it?
                self._rows = [row]
                self._send()
            return
        self._under_way.append(done)
        if (producer := self._producer_of(rows[-1])) is not None:
            self._sent[producer] = rows[-1].number
        self.sent += len(rows)
        while len(self._under_way) > UNDER_WAY:
            self._under_way.popleft().result()  # what went wrong with it is no fault of these rows

    def _accepted(self, rows: list[Sample]) -> Future[Any]:
        requests = self._requests(rows)
        while True:
            try:
                return self._service.accept(requests)
            except Busy as busy:
                if self._service.learning.failed is not None or self._stop():
                    raise
                time.sleep(min(busy.retry_after, 1.0))

    def _requests(self, rows: list[Sample]) -> list[Request]:
        """Rows with keys are requests of their own, taken or known one by one; others are one. It follows the one before: of
        several that are under way, none is taken behind one that was rolled back, since the count would pass over its rows."""
        if rows[0].key is not None:
            return [Request(_stacked([row]), [row.y], key=row.key, lasting=True) for row in rows]
        x, y, producer = _stacked(rows), [row.y for row in rows], self._producer_of(rows[0])
        if producer is None:
            return [Request(x, y)]
        return [Request(x, y, producer=producer, number=rows[-1].number, follows=self._count(producer))]

    def _producer_of(self, row: Sample) -> str | None:
        return row.producer or self._producer

    def _count(self, producer: str) -> int:
        """The last number that was sent, or acknowledged before."""
        return self._sent.get(producer) or self._service.journal.producer(producer) or 0


def _sort(row: Sample) -> tuple[bool, type, str | None]:
    return row.key is not None, type(row.x), row.producer


def _stacked(rows: list[Sample]) -> Any:
    x = [row.x for row in rows]
    return channels_last(np.stack(x)) if isinstance(x[0], np.ndarray) and x[0].ndim == 3 else x
