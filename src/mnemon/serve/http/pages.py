"""The files of the page at `/`. They contain nothing secret, so the gate serves them without a token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import resources

from fastapi import FastAPI
from fastapi.responses import Response

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
INDEX = "index.html"


@cache
def files() -> dict[str, tuple[bytes, str]]:
    """Return path → (content, type). The files are read once, so no path of a request ever reaches the disk."""
    found = {}
    for file in resources.files("mnemon.serve").joinpath("page").iterdir():
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            found["/" if file.name == INDEX else f"/page/{file.name}"] = (file.read_bytes(), kind)
    return found


def add(api: FastAPI) -> None:
    """Add a route for each file. They are not part of the HTTP interface, so OpenAPI does not list them."""
    for path, (content, kind) in files().items():
        api.add_api_route(path, _answer(content, kind), methods=["GET", "HEAD"], include_in_schema=False)


def _answer(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def file() -> Response:
        return Response(content, media_type=kind)

    return file
