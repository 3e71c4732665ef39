"""What is learned and predicted does not depend on the modes of torch that a program has set around the call."""

import contextlib

import numpy as np
import pytest
import torch

import mnemon


@contextlib.contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "default_dtype": default_dtype,
    "default_device": lambda: torch.device("meta"),  # no tensor may come to lie there
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["hybrid", "slda"])
def test_a_model_learns_and_predicts_as_without_the_mode(mode, method, toy, tmp_path):
    _, (x, y, x_test, _) = toy
    found = []
    for around in (contextlib.nullcontext, MODES[mode]):
        with around():
            model = mnemon.OnlineClassifier(method, device="cpu").partial_fit(x[:200], y[:200])
            scores, sure = model.decision_function(x_test), model.predict_proba(x_test)
        model.partial_fit(x[200:], y[200:])  # what was made within goes on without
        with around():
            model.forget(label=3)
            model.save(tmp_path / str(len(found)))
            model = mnemon.OnlineClassifier.load(tmp_path / str(len(found)), device="cpu")
        model.partial_fit(x[:50], y[:50])
        found.append([scores, sure, model.decision_function(x_test), model.novelty(x_test)])
    assert all(map(np.array_equal, *found))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["gmed-mir", "slda"])
def test_a_run_is_the_same_within_the_mode(mode, method, toy):
    stream, data = toy
    backbone = "identity" if method == "slda" else None
    alone = mnemon.run(method, stream, data=data, backbone=backbone, device="cpu")
    with MODES[mode]():
        within = mnemon.run(method, stream, data=data, backbone=backbone, device="cpu")
    assert within["accuracy_matrix"] == alone["accuracy_matrix"]
