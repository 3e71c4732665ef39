"""Reads the body of a request, within limits."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request

from mnemon.serve.http import wire
from mnemon.serve.http.gate import BODY
from mnemon.serve.http.problems import Problem
from mnemon.serve.http.wire import Body, Part


async def read(request: Request, label: str | None = None, *, key: str | None = None, only: str | None = None) -> Body:
    """Return the body with the headers that describe it. `key` and `label` come from the query; `only` is the one type that
    is accepted."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if only is not None and kind != only:
        raise Problem(415, f"the body must be {only}.")
    headers = request.headers
    if headers.get("content-encoding", "identity").lower() != "identity":  # a small body could become any size
        raise Problem(415, "the body must come as it is, without Content-Encoding.")
    content = await _content(request)
    producer, number = headers.get("mnemon-producer"), headers.get("mnemon-position", "")
    if producer is not None and not (
        0 < len(producer) <= 200 and number.isascii() and number.isdigit() and len(number) < 19
    ):
        raise Problem(
            422, "Mnemon-Producer has 1 to 200 characters and needs Mnemon-Position, a whole number that rises."
        )
    in_header = headers.get("idempotency-key")
    if key is not None and in_header is not None and key != in_header:
        raise Problem(422, "the request has two keys that differ: the header Idempotency-Key and ?id=.")
    parts = await _parts(request, content) if kind == wire.FORM else []
    return Body(
        kind,
        content,
        parts,
        labels=headers.get("mnemon-labels"),
        label=label,
        key=in_header if key is None else key,
        producer=producer,
        number=int(number) if producer is not None else 0,
    )


async def _content(request: Request) -> bytes:
    """Return all bytes. They are counted as they arrive, because Content-Length may be wrong or missing."""
    found: list[bytes] = []
    size = 0
    async for part in request.stream():
        found.append(part)
        size += len(part)
        if size > BODY:
            raise Problem(413, f"a body may have {BODY:,} bytes.")
    return b"".join(found)


async def _parts(request: Request, content: bytes) -> list[Part]:
    request._body = content  # so that Starlette parses these bytes
    try:
        async with request.form(max_files=wire.ROWS, max_fields=wire.ROWS) as form:
            return [
                Part(name, value) if isinstance(value, str) else Part(value.filename or name, await value.read())
                for name, value in form.multi_items()
            ]
    except Exception as error:  # of Starlette's parser, some of them wrapped
        reason = str(getattr(error, "detail", error)).rstrip(".")
        raise Problem(422, f"the form cannot be read: {reason}.") from None


def described(
    kind: type[msgspec.Struct], row: type[msgspec.Struct] | None = None, *, files: bool = False
) -> dict[str, Any]:
    """Return the OpenAPI description of a body, made from the types that decode it."""
    content: dict[str, Any] = {wire.JSON: {"schema": _schema(kind)}}
    if row is not None:
        content[wire.NDJSON] = {"schema": {"type": "string", "description": f"one line per sample: {row.__doc__}"}}
        content[wire.NPY] = {"schema": {"type": "string", "format": "binary"}}
    if files:
        form = {"label": {"type": "array", "items": {"type": "string"}}, "image": _FILES}
        content[wire.FORM] = {"schema": {"type": "object", "properties": form}}
        content |= {name: {"schema": {"type": "string", "format": "binary"}} for name in sorted(wire.IMAGE_TYPES)}
    return {"requestBody": {"required": True, "content": content}}


_FILES = {"type": "array", "items": {"type": "string", "format": "binary"}}


def _schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([kind])
    found: dict[str, Any] = components[kind.__name__]
    return found
