"""What `mnemon fit` keeps beside a model: which files it learned, and how well it predicted them before it did.

Both are tensors of the model's own checkpoint. So they are always about the very state they are saved with: a process that
is killed at any moment goes on with each file learned exactly once.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.image_folder.folder import DIGEST

LATELY = 1000  # images


class Chunk(NamedTuple):
    """One chunk of images, predicted and then learned."""

    samples: int  # learned by the model when it was done
    predicted: int  # how many of the chunk; 0 for the first one, when there was no model yet
    right: int
    classes: int  # known when it was done


WIDTH = len(Chunk._fields)


class Journal:
    """`beside` is what the checkpoint holds, {} for a model that was not fitted with files yet."""

    def __init__(self, beside: dict[str, Tensor] | None = None) -> None:
        empty = {"files": torch.zeros(0, DIGEST, dtype=torch.uint8), "chunks": torch.zeros(0, WIDTH).long()}
        files, chunks = (beside or empty).get("files"), (beside or empty).get("chunks")
        if not _is(files, torch.uint8, DIGEST) or not _is(chunks, torch.int64, WIDTH):
            raise MnemonError("what the model says about the files it learned is damaged.")
        content = files.numpy().tobytes()
        self._files = dict.fromkeys(content[at : at + DIGEST] for at in range(0, len(content), DIGEST))
        self.chunks = [Chunk(*row) for row in chunks.tolist()]
        self.predicted = sum(chunk.predicted for chunk in self.chunks)
        self.right = sum(chunk.right for chunk in self.chunks)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._files

    def add(self, digests: list[bytes], chunk: Chunk) -> None:
        self._files |= dict.fromkeys(digests)
        self.chunks.append(chunk)
        self.predicted += chunk.predicted
        self.right += chunk.right

    def tensors(self) -> dict[str, Tensor]:
        content = bytearray().join(self._files)
        files = torch.frombuffer(content, dtype=torch.uint8) if content else torch.zeros(0, dtype=torch.uint8)
        return {"files": files.reshape(-1, DIGEST), "chunks": torch.tensor(self.chunks).long().reshape(-1, WIDTH)}

    def accuracy(self) -> float | None:
        """Percent right of all images predicted before they were learned; None before any was."""
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
        """The story of the model as JSON, for whoever wants to draw it. No paths: a model may be given away."""
        story = {
            "files": len(self._files),
            "classes": labels,
            "test_then_train": {
                "predicted": self.predicted,
                "accuracy": self.accuracy(),
                f"accuracy_of_last_{LATELY}": self.lately(),
            },
            "chunks": [chunk._asdict() for chunk in self.chunks],
        }
        return (json.dumps(story, indent=1) + "\n").encode()


def _is(found: Tensor | None, dtype: torch.dtype, width: int) -> TypeGuard[Tensor]:
    return found is not None and found.dtype == dtype and found.shape[1:] == (width,)
