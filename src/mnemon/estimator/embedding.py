"""Embedding functions: raw inputs of any kind (texts, pictures, arrays) to vectors, by code of the user's, not trained."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from mnemon.data import arrays
from mnemon.errors import MnemonError
from mnemon.learning.backbones import Backbone

Vector = NDArray[np.float32]  # [d]
MOST_CACHED = 100_000_000


class Embedding:
    """`OnlineClassifier(backbone=Embedding(function))`: X is a list of whatever `function` takes, and it is called with some
    of them to return their vectors [n, d]. The classifier learns from the vectors as they are, as with backbone="identity".

    function   a callable, or an object with `encode`, such as a SentenceTransformer. An nn.Module without `encode` takes
               tensors instead, and is itself a backbone
    cache      how many vectors are kept, by a hash of the input's content; the one that was not asked for longest goes first.
               0: none. Texts, bytes, numbers, arrays, tensors, PIL images, and lists, tuples and dicts of these can be kept

    The function is taken to be fixed: the same input gives the same vector. One Embedding may serve several classifiers and
    threads. Neither function nor cache is saved: `OnlineClassifier.load(path, backbone=Embedding(function))`.
    """

    def __init__(self, function: Any, cache: int = 10_000) -> None:
        encode = getattr(function, "encode", None)
        if isinstance(function, str | type) or not callable(encode if encode is not None else function):
            raise MnemonError(f"an embedding is made of a function or an object with encode, not of {function!r:.80}.")
        if encode is None and isinstance(function, nn.Module):
            raise MnemonError(
                "an nn.Module takes tensors and is a backbone itself: backbone=module, without Embedding."
            )
        if type(cache) is not int or not 0 <= cache <= MOST_CACHED:
            raise MnemonError(f"cache is a number of vectors from 0 to {MOST_CACHED:,}, not {cache!r}.")
        self.function, self.cache = function, cache
        self._call: Callable[[Any], Any] = function if encode is None else encode
        self._begin()

    def _begin(self) -> None:
        self._kept: OrderedDict[bytes, Vector] = OrderedDict()  # the last one was asked for last
        self._width: int | None = None  # d, once it is known
        self._lock = threading.Lock()

    def __call__(self, X: Any) -> NDArray[np.float32]:
        """The vectors of these inputs [n, d]; inputs that are equal are embedded once."""
        inputs = _inputs(X)
        keys = [_key(each) if self.cache else None for each in inputs]
        with self._lock:
            found = {key: self._kept[key] for key in keys if key is not None and key in self._kept}
        places: dict[bytes | int, int] = {}  # what is to be embedded, and the place of its first one
        for i, key in enumerate(keys):
            if key not in found:
                places.setdefault(i if key is None else key, i)
        fresh = self._embedded(inputs, list(places.values())) if places else ()
        new = dict(zip(places, fresh, strict=True))
        with self._lock:
            for key in keys:
                if key is not None:
                    self._kept[key] = found[key] if key in found else new[key].copy()
                    self._kept.move_to_end(key)
            while len(self._kept) > self.cache:
                self._kept.popitem(last=False)
        return np.stack([found[key] if key in found else new[i if key is None else key] for i, key in enumerate(keys)])

    def _embedded(self, inputs: Any, rows: list[int]) -> NDArray[np.float32]:
        """What the function returns for these rows [n, d], checked. An error of its own stays its own."""
        if len(rows) < len(inputs):
            inputs = [inputs[i] for i in rows] if isinstance(inputs, list) else inputs[rows]
        out = self._call(inputs)
        try:
            a = np.asarray(arrays.on_host(out))
        except (ValueError, TypeError) as error:
            raise MnemonError(f"the embedding function must return one array of numbers [n, d]: {error}.") from None
        if a.dtype.kind not in "fiu" or a.ndim != 2 or 0 in a.shape[1:]:
            raise MnemonError(
                f"the embedding function must return numbers of shape (n, d), not {type(out).__name__} of {a.dtype} and shape "
                f"{a.shape}."
            )
        if len(a) != len(rows):
            raise MnemonError(f"the embedding function got {len(rows)} inputs and returned {len(a)} vectors.")
        with np.errstate(over="ignore"):
            a = a.astype(np.float32)  # a copy: the function may use its own again
        if not np.isfinite(a).all():
            raise MnemonError("the embedding function returned a number that is not finite (NaN, infinite, too large).")
        with self._lock:
            if self._width not in (None, a.shape[1]):
                raise MnemonError(
                    f"the embedding function returned vectors of {a.shape[1]} numbers, and of {self._width} before."
                )
            self._width = a.shape[1]
        return a

    def __repr__(self) -> str:
        return f"Embedding({getattr(self.function, '__name__', type(self.function).__name__)}, cache={self.cache})"

    # --- copies: clones of a classifier share the function, which may be of gigabytes

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self.function, "cache": self.cache, "_call": self._call}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()


def network(backbone: Any) -> Backbone:
    """What the learner has as its backbone: behind an embedding function none is left."""
    if isinstance(backbone, Embedding):
        return "identity"
    if not isinstance(backbone, str | type) and callable(getattr(backbone, "encode", None)):
        raise MnemonError(
            "a backbone with encode is an embedding function: give it as backbone=mnemon.Embedding(model)."
        )
    return backbone  # type: ignore[no-any-return]


def _inputs(X: Any) -> Any:
    """X as something with a length and rows: an array or tensor as it is, all else as a list."""
    X = arrays.drained(X)
    sparse = hasattr(X, "toarray")  # which has a length in name only
    if (
        isinstance(X, str | bytes | Mapping)
        or sparse
        or arrays.is_frame(X)
        or not hasattr(X, "__len__")
        or _is_scalar(X)
    ):
        raise MnemonError(
            f"X must be a list or an array of what the embedding function takes, not one {type(X).__name__}; of a frame give "
            "the column, X['text']."
        )
    arrays.check_mask(X, "X")
    if len(X) == 0:
        raise MnemonError("there must be at least one sample.")
    return X if isinstance(X, Tensor) else np.asarray(X) if isinstance(X, np.ndarray) else list(X)


def _is_scalar(X: Any) -> bool:
    return isinstance(X, np.ndarray | Tensor) and X.ndim == 0


def _key(value: Any) -> bytes | None:
    """A hash of the content; None for what has none that is known."""
    hashed = hashlib.blake2b(digest_size=16)
    try:
        _feed(hashed, value)
    except (_Unknown, RecursionError):
        return None
    return hashed.digest()


class _Unknown(Exception):
    """An object whose content cannot be read."""


def _feed(hashed: Any, value: Any) -> None:
    """Feed kind, size and content, so that no two contents are fed as the same bytes."""
    if isinstance(value, Tensor):
        value = arrays.on_host(value)
    if isinstance(value, str):
        kind, content = "str", value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes | bytearray):
        kind, content = "bytes", bytes(value)
    elif value is None or type(value) in (bool, int, float):
        kind, content = type(value).__name__, repr(value).encode()
    elif isinstance(value, np.ndarray | np.generic):
        a = np.asarray(value)
        if a.dtype.hasobject or isinstance(value, np.ma.MaskedArray):
            raise _Unknown
        kind, content = f"array {a.dtype.descr} {a.shape}", a.tobytes()
    elif hasattr(value, "getpalette") and hasattr(value, "tobytes"):  # a PIL image
        kind, content = f"image {value.mode} {value.size} {value.getpalette()} {value.info}", value.tobytes()
    elif isinstance(value, list | tuple | Mapping):
        parts = [part for pair in value.items() for part in pair] if isinstance(value, Mapping) else value
        hashed.update(f"{type(value).__name__} {len(parts)};".encode())
        for part in parts:
            _feed(hashed, part)
        return
    else:
        raise _Unknown
    hashed.update(f"{kind} {len(content)};".encode() + content)
