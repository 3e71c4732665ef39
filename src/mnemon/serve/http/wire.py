"""Bodies of requests as arrays and labels: JSON, NDJSON, npy, images. Nothing in a body can run code or fetch anything."""

from __future__ import annotations

import hashlib
import io
import math
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemon.data.layout import channels_last
from mnemon.errors import MnemonError
from mnemon.serve import pixels
from mnemon.serve.http.problems import Problem
from mnemon.serve.samples import Kind
from mnemon.serve.service import Request

ROWS = 1_000  # samples in a request
IMAGE_TYPES = frozenset(f"image/{name.lower()}" for name in pixels.FORMATS)
JSON, NDJSON, NPY, FORM = "application/json", "application/x-ndjson", "application/x-npy", "multipart/form-data"
LONGEST_KEY = 200  # characters
LONGEST_HEADER = 2**14  # bytes; NumPy reads 10,000
T = TypeVar("T")
# The types say how deep lists go and that they hold numbers, so that a body is refused while it is decoded. NumPy would make
# an array of texts in which each has the length of the longest: gigabytes, of a small body.
Number = int | float | bool
Sample = dict[str, Any] | list[Number | list[Number | list[Number]]]
Given = str | int | bool | float  # a label; of floats, whole ones


class Learn(msgspec.Struct, forbid_unknown_fields=True):
    """Samples and their labels. A sample is a list of numbers, an image as nested lists, or an object of named numbers."""

    x: list[Sample]
    y: list[Given]
    id: str | None = None


class Ask(msgspec.Struct, forbid_unknown_fields=True):
    """Samples to be predicted."""

    x: list[Sample]


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """A line of NDJSON: one sample, its label where it is learned, and an id that makes it count once."""

    x: Sample
    y: Given | None = None
    id: str | None = None


class Label(msgspec.Struct, forbid_unknown_fields=True):
    """The label of an earlier prediction."""

    prediction: str
    label: str | int | bool


class Retract(msgspec.Struct, forbid_unknown_fields=True):
    """The position with which samples were acknowledged."""

    position: int


class Part(NamedTuple):
    """A file or a field of a form."""

    name: str
    content: bytes | str


class Body(NamedTuple):
    """What came: the type without parameters, the bytes or the parts of a form, and what else says how to read them."""

    type: str
    content: bytes
    parts: Sequence[Part] = ()
    labels: str | None = None  # as JSON: of an npy array, or of images where labels are numbers
    label: str | None = None  # of one image
    key: str | None = None  # of the header or the query
    producer: str | None = None
    number: int = 0


def learn_requests(body: Body, kind: Kind | None, size: int) -> list[Request]:
    """The requests in a body: one, or one for each row that has an id of its own."""
    key = body.key
    if body.type == JSON:
        given = decoded(body.content, Learn)
        if given.id is not None and key is not None and given.id != key:
            raise MnemonError("the request has two keys that differ: the header Idempotency-Key and id.")
        return [_request(body, array(given.x, kind), given.y, key or given.id)]
    if body.type == NDJSON:
        return _rows(body, kind)
    if body.type == NPY:
        x = npy(body.content)
        return [_request(body, x, _labels(body.labels, len(x)), key)]
    x, labels = _images(body, kind, size)
    if body.labels is not None:
        if labels:
            raise MnemonError("the labels come twice: in the header Mnemon-Labels, and with the images.")
        labels = _labels(body.labels, len(x.values))
    elif len(labels) == 1:
        labels = labels * len(x.values)
    return [_request(body, x, labels, key)]


def samples(body: Body, kind: Kind | None, size: int) -> Any:
    """The samples of a request to predict."""
    if body.type == JSON:
        return array(decoded(body.content, Ask).x, kind)
    if body.type == NDJSON:
        return array([row.x for row in _lines(body.content)], kind)
    if body.type == NPY:
        return npy(body.content)
    return _images(body, kind, size)[0]


def _check_count(n: int) -> None:
    """To be called before anything is made of the samples."""
    if n == 0:
        raise MnemonError("there must be at least one sample.")
    if n > ROWS:
        raise Problem(413, f"a request may hold {ROWS:,} samples; send the others in another one.")


def _request(body: Body, x: Any, y: Any, key: str | None) -> Request:
    producer = {"producer": body.producer, "number": body.number} if body.producer is not None else {}
    if key is None:
        return Request(x, y, **producer)  # type: ignore[arg-type]
    if not 0 < len(key) <= LONGEST_KEY:
        raise MnemonError(f"a key has 1 to {LONGEST_KEY} characters.")
    content = body.content if not body.parts else repr(body.parts).encode()
    digest = hashlib.blake2b(content, digest_size=16, person=b"body")
    digest.update(repr((body.labels, body.label)).encode())
    return Request(x, y, key=key_digest(key), digest=digest.digest(), **producer)  # type: ignore[arg-type]


def key_digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=16).digest()


def _rows(body: Body, kind: Kind | None) -> list[Request]:
    """Rows with ids are requests of their own; the others are one."""
    rows = _lines(body.content)
    for number, row in enumerate(rows, 1):
        if row.y is None:
            raise MnemonError(f"line {number} has no label y.")
    with_ids = [row for row in rows if row.id is not None]
    if with_ids and body.key is not None:
        raise MnemonError("the request has a key, Idempotency-Key, and so have its rows; give one or the other.")
    if not with_ids:
        return [_request(body, array([row.x for row in rows], kind), [row.y for row in rows], body.key)]
    if len(with_ids) < len(rows):
        raise MnemonError("some lines have an id and others have none; give one to each, or to none.")
    if body.producer is not None:
        raise MnemonError("a producer counts whole requests, so its lines have no ids.")
    return [_request(Body(body.type, msgspec.json.encode(row)), array([row.x], kind), [row.y], row.id) for row in rows]


def _lines(content: bytes) -> list[Row]:
    found: list[Row] = []
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            _check_count(len(found) + 1)
            try:
                found.append(decoded(line, Row))
            except MnemonError as error:
                raise MnemonError(f"line {number}: {error}") from None
    _check_count(len(found))
    return found


def decoded(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        hint = (
            " (x is a list of samples, also if there is only one: [[0.2, 1.9]])"
            if str(error).endswith("`$.x[0]`")
            else ""
        )
        raise MnemonError(f"the body is not what is expected: {error}{hint}.") from None


def array(x: list[Sample], kind: Kind | None) -> Any:
    """A list of samples as an array; objects stay as they are. Whole numbers from 0 to 255 are pixels where an image is
    expected: JSON has no type of its own for them."""
    _check_count(len(x))
    if all(isinstance(row, Mapping) for row in x):
        return x
    try:
        found = np.asarray(x)
    except (ValueError, TypeError, OverflowError) as error:
        raise MnemonError(f"x is not one array of numbers: {str(error).rstrip('.')}.") from None
    if found.dtype.kind not in "biuf":
        raise MnemonError("x must hold numbers, in samples of one shape.")
    if found.ndim > 2 and found.dtype.kind in "iu" and (kind is None or kind.dtype == "uint8"):
        if found.size and found.min() >= 0 and found.max() <= 255:
            return found.astype(np.uint8)
        raise MnemonError("the pixels of images are whole numbers from 0 to 255.")
    return found


# NumPy parses the header with `ast`, which in Python 3.11 fails now and then if two threads do so at once.
_ONE_HEADER = threading.Lock()


@lru_cache(64)
def _header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type. A client sends the same header again and again."""
    stream = io.BytesIO(head)
    version = np.lib.format.read_magic(stream)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if reader is None:  # arrays of numbers are saved with version 1
        raise ValueError(f"its version is {version[0]}.{version[1]}")
    with _ONE_HEADER:
        return reader(stream)


def npy(content: bytes) -> NDArray[Any]:
    """An array in NumPy's file format; its header is checked against the length before anything is made of it."""
    size = 2 if content[6:7] == b"\1" else 4  # bytes that tell the length of the header
    start = 8 + size + int.from_bytes(content[8 : 8 + size], "little")
    try:
        shape, fortran, dtype = _header(content[: min(start, LONGEST_HEADER)])
    except Exception as error:  # NumPy's parser raises whatever a broken header leads it to
        raise MnemonError(f"the body is no array in the format npy: {' '.join(str(error).split())}.") from None
    data = memoryview(content)[start:]
    is_shape = all(type(length) is int and length >= 0 for length in shape)  # NumPy takes True and -1, too
    if not is_shape or dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != len(data):
        raise MnemonError("the body is no array of numbers in the format npy, or it was cut off.")
    _check_count(shape[0] if shape else 0)
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _labels(given: str | None, n: int) -> Any:
    if given is None:
        raise MnemonError("the labels of an npy body come in the header Mnemon-Labels, as a JSON list.")
    try:
        found = msgspec.json.decode(given, type=list[Given])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MnemonError(f"the header Mnemon-Labels must be a JSON list of labels: {error}.") from None
    return found * n if len(found) == 1 else found


def _images(body: Body, kind: Kind | None, size: int) -> tuple[Any, list[Any]]:
    """Images of any size as the model takes them, and their labels."""
    if body.type in IMAGE_TYPES:
        files, labels = [Part("the image", body.content)], [] if body.label is None else [body.label]
    elif body.type == FORM:
        files = [part for part in body.parts if isinstance(part.content, bytes)]
        labels = [str(part.content) for part in body.parts if part.name == "label"]
        if strange := [part.name for part in body.parts if isinstance(part.content, str) and part.name != "label"]:
            raise MnemonError(f"the form has a field {strange[0][:100]!r}; it holds files, and their labels as label.")
    else:
        kinds = ", ".join((JSON, NDJSON, NPY, FORM, *sorted(IMAGE_TYPES)))
        raise Problem(415, f"the body must be one of {kinds}.")
    if not files:
        raise MnemonError("the form holds no file.")
    _check_count(len(files))
    budget = pixels.PixelBudget()
    x = [pixels.decoded(io.BytesIO(_bytes(part)), repr(part.name[:100]), kind, size, budget) for part in files]
    return channels_last(np.stack(x)), labels


def _bytes(part: Part) -> bytes:
    assert isinstance(part.content, bytes)
    return part.content
