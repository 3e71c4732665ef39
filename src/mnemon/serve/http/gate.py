"""Who may ask: hosts, origins, tokens, scopes, rates. Everything is refused that is not allowed, on every route and method.

A page of another site can make a browser send requests to this machine. So the Host must be one of ours (a name that was
rebound to 127.0.0.1 is not), the Origin must be ours, and a token comes in a header that no form and no link can set. There
is no cookie, hence nothing that a browser would add by itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mnemon.errors import MnemonError
from mnemon.serve.http.problems import Problem, answer

BODY = 16 * 2**20  # bytes
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
RATE = 2_000  # requests per second and token
SCOPES = frozenset({"predict", "learn", "metrics", "admin"})
# By the last word of the path; what is not listed needs all rights.
NEEDED = {
    "predict": "predict",
    "learn": "learn",
    "label": "learn",
    "retract": "learn",
    "metrics": "metrics",
    "memory": "predict",
    "memory.png": "predict",
    "curves": "predict",
    "events": "predict",
    "models": "predict",
    "openapi.json": "predict",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Permissions-Policy": "camera=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Token(NamedTuple):
    """Only the digest is kept."""

    digest: bytes
    scopes: frozenset[str]


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def new_token() -> str:
    return secrets.token_urlsafe(24)


def read_tokens(path: Path) -> list[Token]:
    """A file with a token on each line, and behind it the scopes it is for (learn,predict); without: all."""
    try:
        mode, text = path.stat().st_mode, path.read_text()
    except (OSError, UnicodeError) as error:
        raise MnemonError(f"the token file {path} cannot be read ({error}).") from None
    if os.name != "nt" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise MnemonError(f"the token file {path} can be read by others: chmod 600 {path}.")
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        token, _, rest = line.partition(" ")
        scopes = frozenset(filter(None, re.split(r"[,\s]+", rest))) or SCOPES
        if strange := scopes - SCOPES:
            raise MnemonError(f"{path} has the scope {min(strange)!r}; there are {', '.join(sorted(SCOPES))}.")
        found.append(token_of(token, scopes))
    if not found:
        raise MnemonError(f"the token file {path} is empty.")
    return found


def token_of(token: str, scopes: frozenset[str] = SCOPES) -> Token:
    if len(token) < 16:
        raise MnemonError("a token has at least 16 characters, so that it cannot be guessed.")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise MnemonError("a token has letters, digits and signs of ASCII alone, since it is sent in a header.")
    return Token(digest(token), scopes)


class Gate:
    """ASGI middleware around everything. `open_paths` need no token: they are files of the page, and say nothing."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Iterable[Token],
        *,
        hosts: Iterable[str] = (),
        rate: float = RATE,
        open_paths: Iterable[str] = ("/", "/healthz"),
    ) -> None:
        self._app, self._tokens, self._rate = app, list(tokens), rate
        self._hosts = frozenset(map(host_name, (*LOOPBACK, *hosts)))
        self._open = frozenset(open_paths)
        self._burst = max(rate, 1.0)  # requests that may come at once
        self._buckets = {token.digest: (self._burst, time.monotonic()) for token in self._tokens}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            return

        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                given = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                message["headers"] = given + [each for each in RAW_HEADERS if each[0] not in names]
            await send(message)

        try:
            self.check(scope["method"], scope["path"], Headers(scope=scope))
        except MnemonError as error:
            await answer(error)(scope, receive, guarded)
            return
        try:
            await self._app(scope, receive, guarded)
        except asyncio.CancelledError:
            if not started:  # the server stops: uvicorn cancels requests that still wait, and would answer with 500
                await answer(Problem(503, "the server is stopping.", Retry_After="5"))(scope, receive, guarded)

    def check(self, method: str, path: str, headers: Headers) -> None:
        """Refuse with a Problem what may not pass."""
        self._check_host(headers)
        is_open = path in self._open and method in ("GET", "HEAD")
        if not is_open:
            self._check_origin(headers)
            self._check_token(path, headers)
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:20]) > BODY:
            raise Problem(413, f"a body may have {BODY:,} bytes.")

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _without_port(hosts[0]) not in self._hosts:
            raise Problem(421, "this host name is not one of this server's; --allow-host adds one.")

    def _check_origin(self, headers: Headers) -> None:
        """As a browser tells where a request comes from; other clients tell nothing."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None and site not in ("same-origin", "none"):
            raise Problem(403, "requests from pages of other sites are refused.")
        if origin is not None and origin.lower().partition("://")[2] != headers["host"].lower():
            raise Problem(403, "requests from pages of other origins are refused.")

    def _check_token(self, path: str, headers: Headers) -> None:
        given = headers.getlist("authorization")
        word, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        sent = digest(secret.strip())
        found = None
        for token in self._tokens:  # all are compared, whichever it is
            if hmac.compare_digest(token.digest, sent):
                found = token
        if found is None or word.lower() != "bearer":
            raise Problem(401, "a valid token is needed: Authorization: Bearer TOKEN.", WWW_Authenticate="Bearer")
        is_status = re.fullmatch(r"/v1/models/[^/]+", path) is not None  # also of a model called "learn"
        needed = "predict" if is_status else NEEDED.get(path.rstrip("/").rpartition("/")[2])
        if not {needed, "admin"} & found.scopes:
            raise Problem(403, f"this token lacks the scope {needed or 'admin'}.")
        self._spend(found)

    def _spend(self, token: Token) -> None:
        left, at = self._buckets[token.digest]
        now = time.monotonic()
        left = min(left + (now - at) * self._rate, self._burst)
        if left < 1:
            wait = math.ceil((1 - left) / self._rate)
            raise Problem(429, f"this token may send {self._rate:,g} requests per second.", Retry_After=str(wait))
        self._buckets[token.digest] = (left - 1, now)


def host_name(given: str) -> str:
    """A name as the header Host has it, without a port."""
    host = given.strip().lower()
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"  # an IPv6 address
    host = _without_port(host)
    if not re.fullmatch(r"[^\s/:@\[\]]+|\[[0-9a-f:.%]+\]", host):
        raise MnemonError(f"{given!r} is no name of a host, as birds.example.org or 192.0.2.7.")
    return host


def _without_port(host: str) -> str:
    return re.sub(r":\d*$", "", host.strip().lower())
