"""All runs' ResNets in one kernel a layer compute what each of them computes alone. In Triton's interpreter, on the CPU."""

import copy
import importlib.util
import math
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call, stack_module_state

from mnemon.learning.backbones import ReducedResNet18
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs, Learner

HERE = "MNEMON_TEST_INTERPRETED"  # set in the process that runs the interpreter
interpreted = pytest.mark.skipif(HERE not in os.environ, reason="runs in a process of its own, see test_in_interpreter")
RUNS, IMAGES, CHANNELS, SIDE = 2, 2, 4, 25  # 25: maps of odd sizes 25, 13, 7 and 4


@pytest.mark.slow
@pytest.mark.skipif(HERE in os.environ, reason="it is this process")
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_in_interpreter():
    """Triton decides at its import whether it interprets, and for good: the other tests must not see it."""
    env = {**os.environ, HERE: "1", "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", __file__]  # the others
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(autouse=True)
def scalars(monkeypatch):
    """The interpreter's loop bounds are arrays of one number, which NumPy 2.4 no longer takes for a number."""
    if HERE in os.environ:
        from triton.runtime import interpreter

        patch = interpreter._patch_lang_tensor

        def patched(tensor, scope):
            patch(tensor, scope)
            scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

        monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)
        from mnemon.learning.stacked import kernels

        monkeypatch.setattr(kernels, "FLAT", 4096)  # fewer programs: they run one after the other here
        monkeypatch.setattr(kernels, "ENOUGH", 12)


@pytest.fixture
def networks():
    """Networks of different weights whose BatchNorms have seen other data than they will."""
    torch.manual_seed(0)
    made = [ReducedResNet18(3, SIDE, SIDE, nf=CHANNELS) for _ in range(RUNS)]
    for net in made:
        for p in net.parameters():
            if p.ndim == 1:
                torch.nn.init.uniform_(p, -0.5, 1.5)  # also negative γ
        for name, b in net.named_buffers():
            torch.nn.init.uniform_(b, 0.5 if "var" in name else -0.5, 1.0)
    return made


@pytest.fixture
def x():
    torch.manual_seed(1)
    return torch.randn(RUNS, IMAGES, 3, SIDE, SIDE)


class Entry(torch.nn.Module):
    """`blocks` as the forward pass of a module, for functional_call."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        from mnemon.learning.stacked import resnet

        return resnet.blocks(self.net, x, self.net.training, "fp32")


def alone(networks, x):
    """Maps, gradients by name, the images' gradient and buffers of each network on its own; and the weight of each output."""
    x = x.clone().requires_grad_()
    maps = [net.blocks(net.stem(images)) for net, images in zip(networks, x, strict=True)]
    torch.manual_seed(2)
    of = torch.randn(RUNS, *maps[0].shape)
    names = [name for name, _ in networks[0].named_parameters()]
    loss = sum((m * weight).sum() for m, weight in zip(maps, of, strict=True))
    (dx,) = torch.autograd.grad(loss, x, retain_graph=True)
    each = [torch.autograd.grad(loss, list(net.parameters()), retain_graph=True) for net in networks]
    gradients = {name: torch.stack(g) for name, g in zip(names, zip(*each, strict=True), strict=True)}
    buffers = stack_module_state(networks)[1]
    return torch.stack(maps).detach(), gradients, dx, buffers, of


def together(networks, x, of, shared=False):
    """The same of all of them by vmap."""
    parameters, buffers = stack_module_state(networks)
    channels_last = {  # as the stack holds them
        name: p.detach().permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3) if p.ndim == 5 else p.detach()
        for name, p in parameters.items()
    }
    leaves = {name: p.requires_grad_() for name, p in channels_last.items()}
    entry = Entry(copy.deepcopy(networks[0]))
    x = x.clone().requires_grad_()

    def one(parameters, buffers, x):
        values = {f"net.{name}": tensor for name, tensor in (parameters | buffers).items()}
        return functional_call(entry, values, (x,))

    maps = torch.vmap(one, in_dims=(0, 0, None if shared else 0))(leaves, buffers, x)
    dx, *gradients = torch.autograd.grad((maps * of).sum(), [x, *leaves.values()])
    return maps.detach(), dict(zip(leaves, gradients, strict=True)), dx, buffers, leaves


def close(a, b, tolerance):
    return (a - b).norm() <= tolerance * b.norm()


def compare(got, expected, tolerance):
    assert close(got[0], expected[0], tolerance)
    assert got[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        assert close(got[1][name], gradient, tolerance), name
    assert close(got[2], expected[2], tolerance)
    for name, buffer in expected[3].items():
        assert close(got[3][name], buffer, tolerance), name


@interpreted
def test_training_as_each_network_alone(networks, x):
    expected = alone(copy.deepcopy(networks), x)
    got = together(networks, x, expected[-1])
    compare(got, expected, 2e-5)
    for name, leaf in got[-1].items():  # so that the update of all of them is one kernel
        assert got[1][name].stride() == leaf.stride(), name


@pytest.fixture
def groups(monkeypatch):
    """Three neighbouring pixels are one row of every product; three divides none of the maps' widths."""
    from mnemon.learning.stacked import kernels

    for name in ("FORWARD", "BACKWARD", "WEIGHTS"):
        table = {most: tiles._replace(columns=32, group=3) for most, tiles in getattr(kernels, name).items()}
        monkeypatch.setattr(kernels, name, table)


@interpreted
def test_neighbouring_pixels_as_one_row_change_nothing(networks, x, groups):
    expected = alone(copy.deepcopy(networks), x)
    compare(together(networks, x, expected[-1]), expected, 2e-5)


@interpreted
@pytest.mark.parametrize("width", [2, 6, 7, 8])  # narrower than a group, a multiple of it, and the two others
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("group", [1, 2, 3])
def test_each_layer_whatever_the_groups(width, stride, group, monkeypatch):
    """Nothing that was not written before is read: all new memory holds NaN."""
    from mnemon.learning.stacked import kernels
    from mnemon.learning.stacked.kernels import (
        NUMBERS,
        Running,
        Tiles,
        convolve,
        infer,
        input_gradient,
        weight_gradient,
    )

    monkeypatch.setattr(kernels, "room", lambda shape, dtype, device: torch.full(shape, torch.nan, dtype=dtype))
    tiles = {math.inf: Tiles(16, 16, 16, group=group)}
    for name in ("FORWARD", "BACKWARD", "WEIGHTS", "STEM_WEIGHTS"):
        monkeypatch.setattr(kernels, name, tiles)

    def haloed(t):
        return F.pad(t, (0, 0, 1, 1, 1, 1))

    def convolved(x, w):
        each = zip(x.movedim(-1, 2), w.movedim(-1, 2), strict=True)
        return torch.stack([F.conv2d(a, b, stride=stride, padding=1) for a, b in each]).movedim(2, -1)

    torch.manual_seed(0)
    x = torch.randn(RUNS, IMAGES, 5, width, 4, requires_grad=True)
    w = torch.randn(RUNS, 6, 3, 3, 4, requires_grad=True)
    expected, exact = convolved(x, w), NUMBERS["fp32"]
    y, stats = convolve(haloed(x.detach()), w.detach(), stride, exact, True)
    mean, _, count = stats.unbind(2)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close((mean * count).sum(1) / count.sum(1), expected.mean((1, 2, 3)), rtol=1e-4, atol=1e-5)
    norm = Running(*(torch.rand(RUNS, 6) + 0.5 for _ in range(4)))
    at = [t[:, None, None, None] for t in norm]
    short = torch.randn_like(expected)
    result = ((expected - at[0]) / (at[1] + 1e-5).sqrt() * at[2] + at[3] + short).relu()
    for shortcut in (short, haloed(short)):
        found = infer(haloed(x.detach()), w.detach(), stride, norm, shortcut, exact)
        torch.testing.assert_close(found, haloed(result), rtol=1e-4, atol=1e-5)
    dy = torch.randn_like(expected)
    dx, dw = torch.autograd.grad((expected * dy).sum(), (x, w))
    found = weight_gradient(haloed(x.detach()), haloed(dy), 3, 4, stride, exact)
    torch.testing.assert_close(found, dw, rtol=1e-4, atol=1e-4)
    if stride == 1:
        torch.testing.assert_close(
            input_gradient(haloed(dy), w.detach(), None, None, exact)[0], dx, rtol=1e-4, atol=1e-5
        )


@interpreted
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, which multiplies here
@pytest.mark.parametrize("bad", [0, 1])
def test_a_run_that_diverged_changes_no_bit_of_its_neighbour(networks, x, groups, bad):
    *_, of = alone(copy.deepcopy(networks), x)
    before = together(copy.deepcopy(networks), x, of)
    for p in networks[bad].parameters():
        p.data.fill_(torch.nan)
    x[bad] = torch.inf
    maps, gradients, dx, *_ = together(networks, x, of)
    other = 1 - bad
    assert maps[bad].isnan().any()
    assert torch.equal(maps[other], before[0][other])
    assert torch.equal(dx[other], before[2][other])
    assert all(torch.equal(g[other], before[1][name][other]) for name, g in gradients.items())


@interpreted
@pytest.mark.parametrize("grouped", [False, True])
def test_inference_as_each_network_alone(networks, x, grouped, request):
    """Without gradients a layer is one kernel, which stores nothing in between."""
    from mnemon.learning.stacked import resnet

    if grouped:
        request.getfixturevalue("groups")
    for net in networks:
        net.eval()
    parameters, buffers = stack_module_state(networks)
    tensors = {f"net.{name}": t.detach() for name, t in (parameters | buffers).items()}
    entry, kept = Entry(copy.deepcopy(networks[0])), {name: t.clone() for name, t in buffers.items()}
    with torch.no_grad():
        maps = torch.vmap(lambda tensors, x: functional_call(entry, tensors, (x,)))(tensors, x)
        expected = torch.stack([net.blocks(net.stem(images)) for net, images in zip(networks, x, strict=True)])
    assert close(maps, expected, 2e-5)
    assert all(torch.equal(buffers[name], kept[name]) for name in kept)
    # A layer whose gradient may be asked for is two kernels, of the same arithmetic.
    in_two_kernels = resnet.blocks(networks[0], x[0], False, "fp32").detach()
    assert torch.equal(maps[0], in_two_kernels)


@interpreted
def test_eval_on_the_same_images_as_each_network_alone(networks, x):
    """Images that are not batched reach all runs, and their gradient is the sum over them."""
    for net in networks:
        net.eval()
    maps, gradients, dx, buffers, of = alone(networks, x[:1].expand_as(x))
    before = {name: buffer.clone() for name, buffer in buffers.items()}
    compare(together(networks, x[0], of, shared=True), (maps, gradients, dx.sum(0), before), 2e-5)


@interpreted
def test_the_gradient_of_images_alone_takes_none_of_weights(networks, x, monkeypatch):
    """GMED asks for it twice a step."""
    from mnemon.learning.stacked import kernels

    _, _, dx, _, of = alone(copy.deepcopy(networks), x)
    monkeypatch.delattr(kernels, "weight_gradient")
    parameters, buffers = stack_module_state(networks)
    tensors = {f"net.{name}": t.detach() for name, t in (parameters | buffers).items()}
    entry, x = Entry(copy.deepcopy(networks[0])), x.clone().requires_grad_()
    maps = torch.vmap(lambda tensors, x: functional_call(entry, tensors, (x,)))(tensors, x)
    assert close(torch.autograd.grad((maps * of).sum(), x)[0], dx, 2e-5)


@interpreted
def test_one_network_without_vmap_and_without_gradient(networks, x):
    from mnemon.learning.stacked import resnet

    net = networks[0]
    expected, mine = net.eval().blocks(net.stem(x[0])), resnet.blocks(net, x[0], False, "fp32")
    assert mine.requires_grad
    assert close(mine, expected, 2e-5)
    with torch.no_grad():
        assert not resnet.blocks(net, x[0], False, "fp32").requires_grad


@interpreted
def test_gradients_of_batches_as_each_learner_alone(networks, x):
    """GSS: a stack for a while of as many networks as there are batches, each with the weights of its run."""
    from mnemon.learning.stacked.stack import Convolutions, Stack

    choice = choose("gss", given={"memory_size": 4})
    learners = [Learner(choice.method, choice.objective, Inputs((3, SIDE, SIDE)), backbone=net) for net in networks]
    for learner in learners:
        learner.seen[:3] = True
    batches = torch.cat([x, -x], 1).unflatten(1, (2, IMAGES))  # two for each run
    y = torch.tensor([[[0, 1], [2, 2]], [[1, 2], [0, 2]]])
    alone = [learner.batch_gradients(*mine) for learner, *mine in zip(learners, batches, y, strict=True)]
    stack = Stack(learners)
    stack.learner.net.backbone = Convolutions.of(stack.learner.net.backbone, bf16=False)
    stack.learner.net.backbone.precision = "fp32"

    def gradients(tensors, x, y):
        stack.learner.tensors = tensors
        return tuple(stack.learner.batch_gradients(x, y))

    together = torch.vmap(gradients)(stack.tensors, batches, y)
    for name, mine, theirs in zip(learners[0].names, together, zip(*alone, strict=True), strict=True):
        assert close(mine, torch.stack(theirs), 2e-5), name
