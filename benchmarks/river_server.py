"""A River model behind FastAPI, as people write it: the model in memory, learn_one in the handler, a pickle now and then.

It is more careful than most: the pickle is written every SAVE requests and when the server stops, beside the old one, and
moved into place. Only `benchmarks/serve.py` starts it, as `python river_server.py FILE PORT`; mnemon never reads a pickle.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from river import naive_bayes

SAVE = 100  # requests


class Sample(BaseModel):
    x: dict[str, float]
    y: str


def app(file: Path) -> FastAPI:
    model = pickle.loads(file.read_bytes()) if file.exists() else naive_bayes.GaussianNB()  # type: ignore[no-untyped-call]
    requests = 0

    def save() -> None:
        part = file.with_suffix(".part")
        part.write_bytes(pickle.dumps(model))
        os.replace(part, file)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        save()

    api = FastAPI(lifespan=lifespan)

    @api.get("/healthz")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @api.post("/learn")
    async def learn(sample: Sample) -> dict[str, bool]:
        nonlocal requests
        model.learn_one(sample.x, sample.y)
        requests += 1
        if requests % SAVE == 0:
            save()
        return {"learned": True}

    return api


if __name__ == "__main__":
    uvicorn.run(app(Path(sys.argv[1])), port=int(sys.argv[2]), log_level="error")
