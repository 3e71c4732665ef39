"""Networks: the paper's sizes, and class rows that come without knowing how many classes there will be."""

import pytest
import torch
from torch import nn

from mnemon import MnemonError
from mnemon.learning import backbones
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.methods.er import ER
from mnemon.learning.network import START_CAPACITY, Network
from mnemon.learning.objectives import CrossEntropy, HybridLoss


@pytest.mark.parametrize(
    ("backbone", "shape", "classes", "d", "total"),
    [
        ("mlp", (1, 28, 28), 10, 400, 478_410),
        ("resnet18", (3, 32, 32), 10, 160, 1_094_750),
        ("resnet18", (3, 32, 32), 100, 160, 1_109_240),
        ("resnet18", (3, 84, 84), 100, 640, 1_157_240),
    ],
)
def test_parameter_counts_of_the_paper(backbone, shape, classes, d, total):
    learner = Learner(ER(memory_size=10), CrossEntropy(), Inputs(shape), backbone=backbone)
    learner.grow(classes)
    learner.seen[:classes] = True
    assert learner.net.dim == d
    assert learner.parameter_count() == total


def test_features_are_not_negative():
    body = backbones.build("resnet18", (3, 32, 32), 0)
    assert (body(torch.randn(4, 3, 32, 32)) >= 0).all()


@pytest.mark.parametrize(("size", "d"), [((25, 25), 160), ((28, 40), 160), ((64, 64), 640), ((200, 200), 2560)])
def test_other_image_sizes(size, d):
    assert backbones.feature_size(backbones.build("auto", (3, *size), 0), (3, *size)) == d


def test_auto_takes_the_mlp_for_vectors_and_tiny_images():
    assert isinstance(backbones.build("auto", (20,), 0), backbones.MLP)
    assert isinstance(backbones.build("auto", (1, 8, 8), 0), backbones.MLP)
    with pytest.raises(MnemonError, match="at least 25×25"):
        backbones.build("resnet18", (3, 24, 32), 0)
    with pytest.raises(MnemonError, match="needs images"):
        backbones.build("resnet18", (7,), 0)
    with pytest.raises(MnemonError, match="did you mean 'resnet18'"):
        backbones.build("resnet", (3, 32, 32), 0)


def test_initialisation_is_a_function_of_the_seed_and_leaves_torch_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    a, b, c = (Learner(ER(memory_size=5), CrossEntropy(), Inputs((6,)), seed=s).state() for s in (1, 1, 2))
    assert (torch.rand(3) == expected).all()
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not torch.equal(a["net.backbone.hidden1.weight"], c["net.backbone.hidden1.weight"])
    assert not torch.equal(a["net.head_weight"], c["net.head_weight"])


def test_class_rows_do_not_depend_on_how_many_there_are():
    small = Network(nn.Identity(), 7, ["head", "proxies"], seed=3)
    large = Network(nn.Identity(), 7, ["head", "proxies"], seed=3)
    before = {name: p.clone() for name, p in large.named_parameters()}
    large.grow(4 * START_CAPACITY)
    for name, p in small.named_parameters():
        grown = getattr(large, name)
        assert torch.equal(grown[: len(p)], before[name])
        assert len(grown) == 4 * START_CAPACITY
    direct = Network(nn.Identity(), 7, ["head", "proxies"], seed=3)
    direct.grow(2 * START_CAPACITY)
    direct.grow(4 * START_CAPACITY)
    assert torch.equal(direct.proxies, large.proxies)
    assert torch.equal(direct.head_bias, large.head_bias)


def test_head_is_initialised_like_a_linear_layer():
    rows = Network(nn.Identity(), 400, ["head"]).head_weight.detach()
    assert rows.abs().max() <= 1 / 20
    assert rows.std() == pytest.approx(1 / 20 / 3**0.5, rel=0.02)


def test_proxies_are_unit_vectors_in_all_directions():
    p = Network(nn.Identity(), 50, ["proxies"]).proxies.detach()
    assert torch.allclose(p.norm(dim=1), torch.ones(len(p)), atol=1e-6)
    assert (p @ p.T - torch.eye(len(p))).abs().mean() < 0.15


def test_a_module_of_ones_own_is_copied_never_changed():
    mine = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU())
    before = {k: v.clone() for k, v in mine.state_dict().items()}
    learner = Learner(ER(memory_size=10, lr=1.0), HybridLoss(), Inputs((3, 2, 2)), backbone=mine)
    rows = torch.arange(20).reshape(2, 10).numpy()
    learner.learn(torch.randint(0, 255, (20, 3, 2, 2), dtype=torch.uint8), torch.arange(20) % 2, rows)
    assert all(torch.equal(mine.state_dict()[k], v) for k, v in before.items())
    assert not torch.equal(learner.net.backbone[1].weight, mine[1].weight)
    made = Learner(ER(memory_size=10), HybridLoss(), Inputs((4,)), backbone=lambda: nn.Linear(4, 3), seed=1)
    again = Learner(ER(memory_size=10), HybridLoss(), Inputs((4,)), backbone=lambda: nn.Linear(4, 3), seed=1)
    assert torch.equal(made.net.backbone.weight, again.net.backbone.weight)


def test_a_module_that_returns_no_features_is_refused():
    with pytest.raises(MnemonError, match=r"features of shape \(n, d\)"):
        Learner(ER(), HybridLoss(), Inputs((3, 4, 4)), backbone=nn.Identity())


def test_bf16_is_autocast_with_fewer_kernels():
    """The same loss and gradients, bit for bit; parameters, gradients and features stay float32."""
    body = backbones.build("resnet18", (3, 32, 32), 0)
    net = Network(body, 160, ["head"], bf16=True)
    x, y = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(6)
    parameters = list(net.parameters())

    def gradients(logits):
        loss = nn.functional.cross_entropy(logits, y)
        return loss, torch.autograd.grad(loss, parameters)

    out = net(x)
    loss, ours = gradients(out.logits)
    with torch.autocast("cpu", torch.bfloat16):
        f = body(x)
    expected, theirs = gradients(nn.functional.linear(f.float(), net.head_weight, net.head_bias))
    assert loss == expected
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert {t.dtype for t in (*ours, *parameters, out.features)} == {torch.float32}
    assert not torch.equal(out.features, body(x))  # it is another precision indeed
