"""Errors as HTTP answers: a status, and one sentence in `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response

from mnemon.errors import MnemonError
from mnemon.serve.events import JournalFailed, KeyReused, NoSpace
from mnemon.serve.learning import OutOfJournal, Refused
from mnemon.serve.pixels import TooMany
from mnemon.serve.service import Busy, Gone, NothingLearned

STATUS: dict[type[MnemonError], int] = {
    Busy: 503,
    JournalFailed: 503,
    NoSpace: 507,
    KeyReused: 422,
    Gone: 410,
    OutOfJournal: 410,
    Refused: 409,
    NothingLearned: 409,
    TooMany: 413,
}


class Problem(MnemonError):
    """An error with its own HTTP status and headers."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, {name.replace("_", "-"): value for name, value in headers.items()}


def answer(error: MnemonError) -> Response:
    """Return the answer for an error. An error without a status of its own means unusable input: 422."""
    if isinstance(error, Problem):
        return problem(error.status, str(error), error.headers)
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 422)
    headers = {}
    if status in (503, 507):
        headers["Retry-After"] = str(math.ceil(getattr(error, "retry_after", 30.0)))
    return problem(status, str(error), headers)


def problem(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    body: dict[str, Any] = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    sentence = sentence.encode(errors="replace").decode()
    return JSONResponse(body | {"detail": sentence}, status, headers=headers, media_type="application/problem+json")
