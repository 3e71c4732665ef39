"""A served model as JSON and files: status, predictions, memory, curves, events, snapshot."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import tarfile
import time
from concurrent.futures import Future
from typing import Any

import msgspec
import numpy as np

from mnemon import checkpoint
from mnemon.files import parsed
from mnemon.serve.http.problems import Problem
from mnemon.serve.published import Published, Rows
from mnemon.serve.samples import Samples, encode
from mnemon.serve.service import Service

LATELY = 1000
DRIFTS = 100  # the newest, in a status
SHEET, PIXELS = 200, 16_000_000  # classes of which thumbnails are shown, and pixels of all of them
BYTES = 16 * 2**20  # of JSON, for the rows of the memory


def status(name: str, model: Service) -> dict[str, Any]:
    learning, published, kind = model.learning, model.published, model.kind
    waiting = max(learning.waiting, 0)
    names = None if kind is None or kind.names is None else [str(each) for each in kind.names]
    return {
        "name": name,
        "acknowledged": model.journal.position,
        "learned": learning.state.learned,
        "published": published.learned,
        "refused": len(learning.state.refused),
        "classes": _counted(published.labels, published.counts),
        "shape": None if kind is None else list(kind.shape),
        "dtype": None if kind is None else kind.dtype,
        "features": names,
        "image_size": model.size,
        "method": learning.state.method,
        "drifts": [
            {"label": drift.classes[0], "when": drift.when, "samples": drift.samples}
            for drift in published.drifts[-DRIFTS:]
        ],
        "rates": {
            "learned_per_second": round(learning.rate, 1),
            "waiting": waiting,
            "seconds_to_catch_up": round(waiting / learning.rate, 3) if learning.rate else 0.0,
        },
        "failed": learning.failed or model.journal.failed,
    }


def predictions(model: Service, x: Any, top: int, keep: bool) -> tuple[dict[str, Any], Future[Any] | None]:
    """The answer, and what is to be waited for before it is given."""
    published, probabilities, samples = model.predict(x)
    labels, found = published.labels, []
    best = np.argsort(-probabilities, axis=1, kind="stable")[:, :top]
    for row, classes in zip(probabilities.tolist(), best.tolist(), strict=True):
        guesses = [{"label": labels[c], "confidence": row[c]} for c in classes]
        found.append({**guesses[0], "top": guesses})
    name = f"p-{secrets.token_hex(12)}" if keep else None
    kept = None if name is None else model.journal.keep(name, encode(Samples(samples.x, [])))
    return {"predictions": found, "learned": published.learned, "id": name}, kept


def memory(model: Service, limit: int, label: str | None) -> bytes:
    """As JSON; of the rows, as many as fit."""
    published = model.published
    source, rows = _shown(published)
    if rows is None:
        return msgspec.json.encode({"source": source, "kept": 0, "classes": [], "rows": []})
    x, y = rows
    labels = published.labels
    counts = np.bincount(y, minlength=len(labels)).tolist()
    wanted = [c for c, each in enumerate(labels) if label is None or str(each) == label]
    chosen = np.flatnonzero(np.isin(y, wanted))[:limit].tolist()
    shown = x.transpose(0, 2, 3, 1) if x.ndim == 4 else x
    found: list[msgspec.Raw] = []
    size = 0
    for row in chosen:
        one = msgspec.json.encode({"row": row, "label": labels[y[row]], "x": shown[row].tolist()})
        size += len(one)
        if found and size > BYTES:
            break
        found.append(msgspec.Raw(one))
    answer = {"source": source, "kept": len(x), "classes": _counted(labels, counts), "rows": found}
    return msgspec.json.encode(answer)


def _shown(published: Published) -> tuple[str, Rows | None]:
    """What is replayed; of a learner that replays nothing, what is held out of learning."""
    if published.memory is None and published.exam is not None:
        return "exam", published.exam
    return "memory", published.memory


def thumbnails(model: Service, each: int) -> bytes:
    """A PNG of [classes × height, each × width] pixels; places without an image are transparent. Where that is too large, of
    fewer images a class and of the first classes alone."""
    from PIL import Image

    published = model.published
    found = _shown(published)[1]
    if found is None or found.x.ndim != 4 or found.x.dtype != np.uint8:
        raise Problem(409, "this model keeps no images.")
    x, y = found  # [n, channels, height, width], [n]
    channels, height, width = x.shape[1:]
    if channels not in (1, 3):
        raise Problem(409, "this model keeps images of other than one or three channels.")
    fit = PIXELS // (height * width)  # images
    each = min(each, max(fit, 1))
    rows = min(len(published.labels), SHEET, max(fit // each, 1))
    sheet = np.zeros((rows, height, each, width, 4), np.uint8)
    for c in range(rows):
        for place, row in enumerate(np.flatnonzero(y == c)[-each:][::-1].tolist()):
            sheet[c, :, place, :, :3] = x[row].transpose(1, 2, 0)
            sheet[c, :, place, :, 3] = 255
    content = io.BytesIO()
    Image.fromarray(sheet.reshape(rows * height, each * width, 4)).save(content, "PNG", compress_level=1)
    return content.getvalue()


def curves(model: Service) -> dict[str, Any]:
    curve = model.learning.curve
    points = [dict(zip(("learned", "predicted", "right"), point, strict=True)) for point in curve.points]
    return {
        "points": points,
        "accuracy": curve.accuracy(),
        "accuracy_of_last_1000": curve.accuracy(LATELY),
        "exam": exam(model),
    }


def exam(model: Service) -> dict[str, Any] | None:
    """How the published state does on samples that it never learned, and how well it ever did; None where there are none."""
    published, best = model.published, model.learning.best
    if published.results is None:
        return None
    classes = [
        {"label": label, "samples": asked, "accuracy": right / asked, "best": best.of(label, right / asked)}
        for label, (asked, right) in zip(published.labels, published.results.tolist(), strict=True)
        if asked > 0
    ]
    mean = sum(each["accuracy"] for each in classes) / len(classes)
    return {"samples": sum(each["samples"] for each in classes), "accuracy": mean, "classes": classes}


def event(boot: str, found: dict[str, Any]) -> tuple[int, str]:
    """Its number, and the text of a server-sent event."""
    more = {name: value for name, value in found.items() if name not in ("id", "event")}
    return found["id"], f"id: {boot}-{found['id']}\nevent: {found['event']}\ndata: {json.dumps(more)}\n\n"


def last_event(boot: str, last: str) -> int:
    """The number of the last event that a client knows: none, where events were counted anew since."""
    known, _, number = last.rpartition("-")
    return int(number) if known == boot and number.isascii() and number.isdigit() and len(number) < 16 else 0


def status_event(name: str, model: Service) -> str:
    now = status(name, model)
    short = {key: now[key] for key in ("acknowledged", "learned", "published", "refused", "failed")}
    accuracy = model.learning.curve.accuracy(LATELY)
    return f"event: status\ndata: {json.dumps(short | {'classes': len(now['classes']), 'accuracy': accuracy})}\n\n"


def snapshot(model: Service, known: str | None) -> tuple[str, bytes | None]:
    """The tag of the newest snapshot, and its files; None where the client has them. A number is used again after a retraction,
    so the tag is of the content."""
    for _ in range(10):
        number = checkpoint.newest(model.folder)
        if number == 0:
            raise Problem(404, "there is no snapshot yet.")
        values, tensors = (model.folder / f"{number:010d}.{suffix}" for suffix in ("json", "safetensors"))
        try:
            about, saved = values.read_bytes(), int(values.stat().st_mtime)  # with the digest of the tensors
            tag = f'"{hashlib.sha256(about).hexdigest()[:32]}"'
            if known is not None and tag in known:
                return tag, None
            packed = tensors.read_bytes()
        except FileNotFoundError:
            continue
        if parsed(about)["tensors"] == hashlib.sha256(packed).hexdigest():
            return tag, _tar({values.name: about, tensors.name: packed}, saved)
        time.sleep(0.05)  # one of its two files is replaced, and the other not yet
    raise Problem(503, "snapshots change faster than they can be read.", Retry_After="5")


def _tar(files: dict[str, bytes], saved: int) -> bytes:
    """The same bytes whenever it is asked for: one tag has one content."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, each in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(each), saved, 0o600
            tar.addfile(member, io.BytesIO(each))
    return content.getvalue()


def _counted(labels: list[Any], counts: list[int]) -> list[dict[str, Any]]:
    return [{"label": label, "samples": n} for label, n in zip(labels, counts, strict=True)]
