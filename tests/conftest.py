"""Shared by all tests: a data cache of their own, and a small stream of arrays."""

import os
import shutil

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from mnemon import streams
from mnemon.experiments.recipes import recipes

# The tests run in one process per core: more threads than that would only wait for each other.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # for the commands the tests start
os.environ.pop("COLUMNS", None)  # tables are printed for its width

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch, request):
    """Tests never touch the user's datasets; those on real data (slow) are the exception."""
    if "slow" not in request.keywords:
        monkeypatch.setenv("MNEMON_DATA", str(tmp_path_factory.mktemp("data")))


@pytest.fixture
def toy():
    """Six Gaussian blobs in 12 dimensions as three tasks of two classes: (stream, data)."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(6, 12)) * 2

    def draw(n):
        y = np.arange(n) % 6
        return (centres[y] + rng.normal(size=(n, 12))).astype(np.float32), y

    x, y = draw(360)
    x_test, y_test = draw(120)
    return streams.split(y, tasks=3, seed=0), (x, y, x_test, y_test)


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the recipes that a test may change."""
    path = tmp_path / "recipes.json"
    shutil.copy(recipes.PATH, path)
    monkeypatch.setattr(recipes, "PATH", path)
    recipes.cells.cache_clear()
    yield path
    recipes.cells.cache_clear()
