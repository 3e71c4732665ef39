"""A small model behind its gate, asked in process."""

import contextlib

import pytest
from starlette.testclient import TestClient

from mnemon.serve.http.app import app
from mnemon.serve.http.gate import token_of
from mnemon.serve.http.models import Models
from serving import SMALL, TOKEN


@pytest.fixture
def http(tmp_path):
    """`http(...)` is a client of a server with the model "model"; options are those of Models and of the gate."""
    with contextlib.ExitStack() as stack:

        def start(folder="model", *, token=TOKEN, tokens=None, rate=1e6, options=SMALL, **more):
            models = Models(tmp_path / folder, options=options, device="cpu", **more)
            served = app(models, tokens or [token_of(TOKEN)], rate=rate)
            client = stack.enter_context(TestClient(served, base_url="http://127.0.0.1:8765"))
            client.headers["Authorization"] = f"Bearer {token}"
            client.models = models
            return client

        yield start
