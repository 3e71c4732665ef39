"""A client of `mnemon serve`: keys and retries, so that what it sends is learned exactly once. Standard library alone."""

from __future__ import annotations

import http.client
import io
import json
import os
import random
import ssl
import threading
import time
import uuid
from typing import Any, Self
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from mnemon.errors import MnemonError
from mnemon.files import parsed

AGAIN = frozenset({429, 503, 504, 507})  # statuses after which it is worth trying again
LONGEST_HEADER = 16_000  # characters of labels
CUT_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)  # a connection that was lost
FIRST, MOST = 0.1, 10.0  # seconds between two tries


class ClientError(MnemonError):
    """The server refused, with this status and sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Client:
    """One model on one server; any thread may use it.

    url       as `mnemon serve` prints it, with or without #token=…
    model     its name; None: the only one there is
    token     None: the one in the URL, else the environment variable MNEMON_TOKEN
    timeout   seconds that one try may take
    patience  seconds for which tries are repeated while the server cannot be reached or is busy
    cafile    a file with the certificate that is to be trusted, as of a server that made its own
    context   how to speak TLS, in place of that
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8765",
        model: str | None = None,
        *,
        token: str | None = None,
        timeout: float = 60.0,
        patience: float = 60.0,
        cafile: str | os.PathLike[str] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise MnemonError(f"{parts.scheme}://{parts.hostname} is no address of a server: http://HOST:PORT.")
        self._parts, self._timeout, self._patience = parts, timeout, patience
        in_url = parse_qs(parts.fragment).get("token", [None])[0]
        self._token = token or in_url or os.environ.get("MNEMON_TOKEN") or ""
        if not self._token.isascii() or not self._token.isprintable():
            raise MnemonError("a token has letters, digits and signs of ASCII alone, since it is sent in a header.")
        self._context = context
        if cafile is not None:
            try:
                self._context = ssl.create_default_context(cafile=cafile)
            except OSError as error:
                raise MnemonError(f"{cafile} is no file with a certificate ({error}).") from None
        self._local, self._lock = threading.local(), threading.Lock()
        self._connections: set[http.client.HTTPConnection] = set()
        self._model = model

    def learn(self, x: Any, y: Any, *, id: str | None = None, wait: str | None = None) -> dict[str, Any]:
        """Send samples and their labels: a NumPy array, lists of numbers, or dicts of features. It returns when they are on
        the server's disk ({"position", "samples", "repeated"}); wait="learned" or "published": when they are.

        `id` names the request: one that is sent twice with the same id counts once, also from another client.
        """
        labels = _plain(y)
        headers, key = {}, id or uuid.uuid4().hex
        in_header = key.isascii() and key.isprintable() and key == key.strip()
        if in_header:
            headers["Idempotency-Key"] = key
        written = json.dumps(labels)
        if hasattr(x, "__array__") and len(written) <= LONGEST_HEADER:
            content = _npy(x)
            headers |= {"Content-Type": "application/x-npy", "Mnemon-Labels": written}
        else:
            content = json.dumps({"x": _plain(x), "y": labels}).encode()
            headers["Content-Type"] = "application/json"
        return self._ask("POST", "learn", content, headers, wait=wait, id=None if in_header else key)

    def predict(self, x: Any, *, top: int = 3, after: int | None = None, keep: bool = False) -> dict[str, Any]:
        """{"predictions": [{"label", "confidence", "top"}], "learned", "id"}. `after`: a position that is to be learned first;
        `keep`: the answer has an id, by which `label` tells the right label later."""
        if hasattr(x, "__array__"):
            content, kind = _npy(x), "application/x-npy"
        else:
            content, kind = json.dumps({"x": _plain(x)}).encode(), "application/json"
        options = {"top": top, "after": after, "keep": "true" if keep else None}
        return self._ask("POST", "predict", content, {"Content-Type": kind}, **options)

    def label(self, prediction: str, label: Any) -> dict[str, Any]:
        """Tell the label of what was predicted with keep=True."""
        content = json.dumps({"prediction": prediction, "label": _plain(label)}).encode()
        return self._ask("POST", "label", content, {"Content-Type": "application/json"})

    def retract(self, position: int) -> dict[str, Any]:
        """Take back the request that was acknowledged with this position."""
        content = json.dumps({"position": position}).encode()
        return self._ask("POST", "retract", content, {"Content-Type": "application/json"})

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            connections, self._connections = self._connections, set()
        for connection in connections:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def status(self) -> dict[str, Any]:
        """How far the model is: acknowledged, learned, published, classes, rates."""
        return self._ask("GET", "")

    @property
    def model(self) -> str:
        """The name of the model."""
        if self._model is None:
            names = self._send("GET", "/v1/models", b"", {})["models"]
            if len(names) != 1:
                raise MnemonError(f"the server has {len(names)} models; say which: {', '.join(names[:10])}.")
            self._model = names[0]
        return self._model

    def _ask(self, method: str, what: str, content: bytes = b"", headers: Any = None, **options: Any) -> dict[str, Any]:
        path = f"/v1/models/{quote(self.model, safe='')}" + (f"/{what}" if what else "")
        query = urlencode({name: value for name, value in options.items() if value is not None})
        return self._send(method, path + (f"?{query}" if query else ""), content, headers or {})

    def _send(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> dict[str, Any]:
        """Try until there is an answer, or patience ends. The key of a request makes trying again safe."""
        end, pause = time.monotonic() + self._patience, FIRST
        while True:
            wait: float = 0.0
            try:
                status, answer, after = self._once(method, path, content, headers)
                if status < 400:
                    return answer
                error: MnemonError = ClientError(status, str(answer.get("detail", answer)))
                if status not in AGAIN:
                    raise error
                wait = float(after) if after and after.isdigit() else 0.0
            except (OSError, http.client.HTTPException) as problem:
                self._disconnect()
                if isinstance(problem, ssl.SSLError) and not isinstance(problem, CUT_OFF):
                    raise MnemonError(f"{self._parts.hostname} cannot be trusted: {_reason(problem)}.") from None
                error = MnemonError(f"{self._parts.netloc.rpartition('@')[2]} cannot be reached ({problem}).")
            pause = min(2 * pause, MOST)
            wait = max(min(wait, MOST), pause * (0.5 + random.random() / 2))  # so that not all come at once
            if time.monotonic() + wait > end:
                raise error
            time.sleep(wait)

    def _once(
        self, method: str, path: str, content: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, Any], str | None]:
        connection = self._connection()
        sent = {"Authorization": f"Bearer {self._token}", **headers}
        connection.request(method, self._parts.path.rstrip("/") + path, content or None, sent)
        response = connection.getresponse()
        body = response.read()
        try:
            answer = parsed(body)
        except ValueError:
            answer = None
        found = answer if isinstance(answer, dict) else {"detail": f"the server answered {response.status}."}
        return response.status, found, response.getheader("Retry-After")

    def _connection(self) -> http.client.HTTPConnection:
        """Of this thread, kept open."""
        found: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if found is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                found = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._context)
            else:
                found = http.client.HTTPConnection(host, port, timeout=self._timeout)
            self._local.connection = found
            with self._lock:
                self._connections.add(found)
        return found

    def _disconnect(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None
            with self._lock:
                self._connections.discard(connection)


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused ({error.verify_message}); cafile= names one that is trusted"
    return f"it does not speak TLS as expected ({error.reason or error})"


def _npy(x: Any) -> bytes:
    import numpy as np

    if hasattr(x, "columns"):
        raise MnemonError("x is a table; send its rows with the names of their columns: x.to_dict('records').")
    stream = io.BytesIO()
    a = np.asarray(x)
    if a.dtype.kind not in "biuf":
        raise MnemonError(f"x holds {a.dtype}, and no plain numbers.")
    np.save(stream, a, allow_pickle=False)
    return stream.getvalue()


def _plain(values: Any) -> Any:
    """NumPy's arrays and scalars as lists and numbers."""
    if hasattr(values, "tolist"):
        return values.tolist()
    if isinstance(values, list | tuple):
        return [_plain(value) for value in values]
    if isinstance(values, dict):
        return {str(name): _plain(value) for name, value in values.items()}
    return values
