"""Statistics and runs compute with the bits they say, however the program around them has set PyTorch's switches."""

import numpy as np
import pytest
import torch

import mnemon

SWITCHES = (
    torch.backends.cuda.matmul,
    torch.backends.cudnn.conv,
    torch.backends.mkldnn.matmul,
    torch.backends.mkldnn.conv,
)


@pytest.fixture
def switches():
    """What they are set to; afterwards all are as they were."""
    yield lambda: [switch.fp32_precision for switch in SWITCHES]
    torch.backends.fp32_precision = "none"
    for switch in SWITCHES:
        switch.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True


@pytest.mark.parametrize(
    "choose",
    [
        lambda: torch.set_float32_matmul_precision("medium"),  # on a CPU that can, products of bfloat16
        lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
        lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
        lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"),
        lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    ],
)
def test_a_program_may_set_the_precision_by_any_name(choose, switches, monkeypatch, toy):
    choose()
    before, found = switches(), []

    def noted(*args, real=torch.Tensor.addmm_, **named):
        found.append(switches())
        return real(*args, **named)

    monkeypatch.setattr(torch.Tensor, "addmm_", noted)
    stream, data = toy
    model = mnemon.OnlineClassifier("slda").partial_fit(*data[:2])
    assert np.mean(model.predict(data[2]) == data[3]) > 0.9
    mnemon.run("slda", stream, data=data, backbone="identity")
    assert len(found) >= 2
    assert not {"tf32", "bf16"} & {value for values in found for value in values}
    assert switches() == before


@pytest.mark.parametrize("only_warns", [False, True])
def test_a_run_leaves_a_programs_choice_of_deterministic_kernels(only_warns, toy):
    stream, data = toy
    torch.use_deterministic_algorithms(True, warn_only=only_warns)
    try:
        mnemon.run("er", stream, data=data)
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled() == only_warns
    finally:
        torch.use_deterministic_algorithms(False)
