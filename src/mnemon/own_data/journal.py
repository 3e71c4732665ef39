"""What `mnemon fit` keeps beside a model: which files and rows it learned, and how well it predicted them before it did.

All of it is tensors of the model's own checkpoint. So it is always about the very state it is saved with: a process that is
killed at any moment goes on with each file and each row learned exactly once.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor

from mnemon import files as on_disk
from mnemon.errors import MnemonError
from mnemon.own_data.folder import DIGEST
from mnemon.own_data.readers.reader import START, Position
from mnemon.readers.columns import NONE, UNTIL_0_2, Columns

LATELY = 1000  # samples


class Chunk(NamedTuple):
    """One chunk of samples, learned; before that, the model was asked about some of them."""

    samples: int  # learned by the model when it was done
    predicted: int  # how many of the chunk; 0 for the first one, when there was no model yet
    right: int
    classes: int  # known when it was done


class Mark(NamedTuple):
    """What a chunk was made of."""

    files: tuple[bytes, ...] = ()  # digests of image files
    table: bytes = b""  # the table, as `table_key` has it,
    before: Position = START  # from where it was read
    position: Position | None = None  # and how far


WIDTH = len(Chunk._fields)
DAMAGED = "what the model says about the files it learned is damaged."


def table_key(path: Path) -> bytes:
    """A table is known by its name: where it lies does not matter, and nothing in the model says it."""
    return hashlib.blake2b(path.name.encode(errors="surrogateescape"), digest_size=DIGEST).digest()


class Journal:
    """`beside` is what the checkpoint holds, {} for a model that was not fitted with files yet."""

    def __init__(self, beside: dict[str, Tensor] | None = None) -> None:
        empty = {"files": torch.zeros(0, DIGEST, dtype=torch.uint8), "chunks": torch.zeros(0, WIDTH).long()}
        given = beside or {}
        if "files" not in given and "chunks" not in given:  # others may note something about a model, too
            given = given | empty
        files, chunks = given.get("files"), given.get("chunks")
        if not _is(files, torch.uint8, DIGEST) or not _is(chunks, torch.int64, WIDTH):
            raise MnemonError(DAMAGED)
        content = files.numpy().tobytes()
        self._files = dict.fromkeys(content[at : at + DIGEST] for at in range(0, len(content), DIGEST))
        self.tables = _tables(given)
        self.columns = _columns(given.get("columns"))
        self.chunks = [Chunk(*row) for row in chunks.tolist()]
        self.predicted = sum(chunk.predicted for chunk in self.chunks)
        self.right = sum(chunk.right for chunk in self.chunks)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._files

    def add(self, mark: Mark, chunk: Chunk) -> None:
        self.pass_over(mark)
        self.chunks.append(chunk)
        self.predicted += chunk.predicted
        self.right += chunk.right

    def pass_over(self, mark: Mark) -> None:
        """Note as read what need not be read again."""
        self._files |= dict.fromkeys(mark.files)
        if mark.position is not None:
            self.tables[mark.table] = {at for at in self.tables.get(mark.table, ()) if at != mark.before} | {
                mark.position
            }

    def common(self, other: Journal) -> tuple[int, bool]:
        """How many files and tables are in both journals; and whether both have tables of one name and other content, which
        may be different ones or one that has grown."""
        same = {key: self.tables[key] & other.tables[key] for key in self.tables.keys() & other.tables.keys()}
        files = len(self._files.keys() & other._files.keys()) + sum(map(len, same.values()))
        return files, not all(same.values())

    def join(self, other: Journal) -> None:
        """Take in the journal of a model that was merged into this one."""
        self._files |= other._files
        for key, positions in other.tables.items():
            self.tables[key] = self.tables.get(key, set()) | positions
        self.columns = other.columns if self.columns == NONE else self.columns
        begun = self.chunks[-1] if self.chunks else Chunk(0, 0, 0, 0)
        self.chunks += [
            Chunk(begun.samples + c.samples, c.predicted, c.right, max(begun.classes, c.classes)) for c in other.chunks
        ]
        self.predicted += other.predicted
        self.right += other.right

    def tensors(self) -> dict[str, Tensor]:
        """What is saved; what tables need is there only if some were learned."""
        made = {
            "files": _bytes(b"".join(self._files)).reshape(-1, DIGEST),
            "chunks": torch.tensor(self.chunks).long().reshape(-1, WIDTH),
        }
        if self.tables:
            found = [(key, at) for key, positions in self.tables.items() for at in sorted(positions)]
            made["tables"] = _bytes(b"".join(key + at.digest for key, at in found)).reshape(-1, 2 * DIGEST)
            made["positions"] = torch.tensor([[at.rows, at.offset] for _, at in found])
        if self.columns != NONE:
            made["columns"] = _bytes(json.dumps(self.columns._asdict()).encode())
        return made

    def accuracy(self) -> float | None:
        """Percent right of all samples predicted before they were learned; None before any was."""
        return 100 * self.right / self.predicted if self.predicted else None

    def lately(self) -> float | None:
        """The same for the chunks that hold the last thousand."""
        predicted = right = 0
        for chunk in reversed(self.chunks):
            predicted, right = predicted + chunk.predicted, right + chunk.right
            if predicted >= LATELY:
                break
        return 100 * right / predicted if predicted else None

    def log(self, labels: list[Any]) -> bytes:
        """The story of the model as JSON, to be drawn. No paths: a model may be given away."""
        positions = [at for each in self.tables.values() for at in each]
        rows = {"tables": len(positions), "rows": sum(at.rows for at in positions)}
        story = {
            "files": len(self._files),
            **(rows if self.tables else {}),
            "classes": labels,
            "test_then_train": {
                "predicted": self.predicted,
                "accuracy": self.accuracy(),
                f"accuracy_of_last_{LATELY}": self.lately(),
            },
            "chunks": [chunk._asdict() for chunk in self.chunks],
        }
        return (json.dumps(story, indent=1) + "\n").encode()


def _tables(given: dict[str, Tensor]) -> dict[bytes, set[Position]]:
    """How far each table was read; several of one name come from models that were merged."""
    digests, positions = given.get("tables"), given.get("positions")
    if digests is None and positions is None:
        return {}
    if (
        not _is(digests, torch.uint8, 2 * DIGEST)
        or not _is(positions, torch.int64, 2)
        or len(digests) != len(positions)
    ):
        raise MnemonError(DAMAGED)
    if bool((positions < 0).any()):
        raise MnemonError(DAMAGED)
    found: dict[bytes, set[Position]] = {}
    for digest, (rows, offset) in zip(digests, positions.tolist(), strict=True):
        both = digest.numpy().tobytes()
        found.setdefault(both[:DIGEST], set()).add(Position(rows, offset, both[DIGEST:]))
    return found


def _columns(given: Tensor | None) -> Columns:
    """Which columns of the tables were label, identifier and neither; later tables have the same."""
    if given is None:
        return NONE
    try:
        found = on_disk.parsed(given.numpy().tobytes())
        label, name, between = found["label"], found["id"], found.get("separator")
        lists = [found["ignore"], found.get("category", []), found.get("missing", UNTIL_0_2)]
        strip = found.get("strip", "missing" in found)  # older models have names with their blanks
        fine = all(isinstance(each, str | None) for each in (label, name, between)) and isinstance(strip, bool)
        fine = fine and all(isinstance(each, list | tuple) and all(isinstance(t, str) for t in each) for each in lists)
    except (ValueError, KeyError, TypeError):
        fine = False
    if not fine:
        raise MnemonError(DAMAGED)
    ignore, category, missing = map(tuple, lists)
    return Columns(label, name, ignore, category, missing, between, strip)


def _bytes(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.zeros(0, dtype=torch.uint8)


def _is(found: Tensor | None, dtype: torch.dtype, width: int) -> TypeGuard[Tensor]:
    return found is not None and found.dtype == dtype and found.shape[1:] == (width,)
