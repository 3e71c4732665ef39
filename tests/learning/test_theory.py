"""Proposition 1, with the conventions of its proof: no mining, the anchor among its positives, divisor n."""

import math
import re
from pathlib import Path

import pytest
import torch

from mnemon import losses

PAGE = Path(__file__).parents[2] / "docs" / "theory.md"
CASES = [(2, 2, 2), (2, 5, 3), (3, 4, 5), (10, 3, 8), (4, 8, 4)]  # classes, samples in each, dimensions


def on_sphere(C, n0, d, seed=0, gather=0.0):
    """Unit rows, n0 of each of C classes; `gather` draws a class towards one point."""
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(C * n0) % C
    z = torch.randn(C * n0, d, generator=g, dtype=torch.float64)
    z = z + gather * torch.randn(C, d, generator=g, dtype=torch.float64)[y]
    return unit(z), y


def unit(f):
    return f / f.norm(dim=1, keepdim=True)


def degrees(*angles):
    a = torch.tensor(angles, dtype=torch.float64) * math.pi / 180
    return torch.stack([a.cos(), a.sin()], 1)


def of_proof(z, y, alpha=2.0, beta=50.0, lam=0.5, own=True):
    """L_MS as the proof takes it, by loops; own: the anchor is among its positives."""
    total = 0.0
    for i in range(len(y)):
        s = z @ z[i]
        pull = sum(torch.exp(-alpha * (s[j] - lam)) for j in range(len(y)) if y[j] == y[i] and (own or j != i))
        push = sum(torch.exp(beta * (s[j] - lam)) for j in range(len(y)) if y[j] != y[i])
        total = total + torch.log(1 + pull) / alpha + torch.log(1 + push) / beta
    return total / len(y)


def log_p(z, y):
    """log N(z_i | μ_c, I) [n, C], with μ_c the mean of class c."""
    C, d = int(y.max()) + 1, z.shape[1]
    mu = torch.stack([z[y == c].mean(0) for c in range(C)])
    return -((z[:, None] - mu) ** 2).sum(2) / 2 - d / 2 * math.log(2 * math.pi)


def gen_bin(z, y):
    """Eq. 6 of the paper, as printed."""
    p, C = log_p(z, y), int(y.max()) + 1
    return (-p[torch.arange(len(y)), y] + p.sum(1) / C).mean()


def pull_and_push(z, y):
    S, same = z @ z.T, y[:, None] == y
    return (S * same).sum(1).div(same.sum(1)).mean(), (S * ~same).sum(1).div((~same).sum(1)).mean()


def constant(C, n0, alpha=2.0, beta=50.0):
    return math.log(n0) / alpha + math.log(n0 * (C - 1)) / beta


def right(z, y):
    """How many samples NCM gives their own class."""
    return int((log_p(z, y).argmax(1) == y).sum())


@pytest.mark.parametrize(("C", "n0", "d"), CASES)
def test_the_generative_objective_is_two_averages_of_similarities(C, n0, d):
    for seed in range(5):
        z, y = on_sphere(C, n0, d, seed, gather=seed)
        pull, push = pull_and_push(z, y)
        assert float(gen_bin(z, y)) == pytest.approx(float((C - 1) / C * (push - pull)), abs=1e-12)


@pytest.mark.parametrize(("C", "n0", "d"), CASES)
def test_the_form_over_other_classes_has_another_factor(C, n0, d):
    """−log p_y + 1/(C−1) Σ_{c≠y} log p_c, which the proof goes on with, is C/(C−1) of the printed form: no constant."""
    z, y = on_sphere(C, n0, d, gather=1)
    p = log_p(z, y)
    own = p[torch.arange(len(y)), y]
    other = (-own + (p.sum(1) - own) / (C - 1)).mean()
    assert float(other) == pytest.approx(float(C / (C - 1) * gen_bin(z, y)), abs=1e-12)


@pytest.mark.parametrize(("C", "n0", "d"), CASES)
@pytest.mark.parametrize(("alpha", "beta", "lam"), [(2.0, 50.0, 0.5), (1.0, 1.0, 0.0), (10.0, 3.0, -0.7)])
def test_multi_similarity_is_an_upper_bound(C, n0, d, alpha, beta, lam):
    for seed in range(4):
        z, y = on_sphere(C, n0, d, seed, gather=2 * seed)
        bound = C / (C - 1) * gen_bin(z, y) + constant(C, n0, alpha, beta)
        assert of_proof(z, y, alpha, beta, lam) >= bound


def test_the_bound_is_false_without_the_factor_and_nearly_tight_with_it():
    """Two collapsed classes with S = 0.5 between them: Jensen is an equality, only the "1 +" is left."""
    z, y = degrees(*[0] * 100, *[60] * 100), torch.arange(200) // 100
    value, c, L = float(of_proof(z, y)), constant(2, 100), float(gen_bin(z, y))
    assert 2 * L + c < value < 2 * L + c + 0.02
    assert value < L + c - 0.2
    told = f"L_MS is {value:.3f}, the bound with the factor {2 * L + c:.3f}, without it {L + c:.3f}"
    assert told in " ".join(PAGE.read_text().split())


@pytest.mark.parametrize(("C", "n0", "d"), CASES)
def test_without_the_anchor_the_pull_weighs_a_little_more(C, n0, d):
    for seed in range(4):
        z, y = on_sphere(C, n0, d, seed, gather=seed)
        pull, push = pull_and_push(z, y)
        bound = push - n0 / (n0 - 1) * pull + 1 / (n0 - 1) + math.log(n0 - 1) / 2 + math.log(n0 * (C - 1)) / 50
        assert of_proof(z, y, own=False) >= bound


@pytest.mark.parametrize(("C", "n0", "d"), CASES)
def test_our_loss_without_mining_is_the_one_of_the_proof_but_for_the_anchor(C, n0, d):
    z, y = on_sphere(C, n0, d, gather=1)
    ours = losses.multi_similarity(z, y, eps=10.0, divisor="batch")  # a slack of 10 mines every pair
    assert float(ours) == pytest.approx(float(of_proof(z, y, own=False)), rel=1e-12)


def test_going_down_on_pairs_goes_down_on_the_generative_objective():
    z, y = on_sphere(3, 10, 4, seed=1)
    before, at_first = float(gen_bin(z, y)), right(z, y)
    f = z.clone().requires_grad_()
    for _ in range(300):
        (g,) = torch.autograd.grad(losses.multi_similarity(unit(f), y), f)
        f = (f - 0.5 * g).detach().requires_grad_()
    after = unit(f).detach()
    told = f"from {before:.2f} to {float(gen_bin(after, y)):.2f} and NCM from {at_first} right to {right(after, y)}"
    assert told in " ".join(PAGE.read_text().split())
    assert float(gen_bin(after, y)) < before - 0.3
    assert at_first < right(after, y) == 30


def test_the_example_of_the_page():
    rows = re.findall(r"^\| (\w+) \| (.*°) \| (.*°) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert [row[0] for row in rows] == ["apart", "mixed"]
    for _, a, b, numbers in rows:
        classes = [[int(angle.rstrip("°")) for angle in text.split(", ")] for text in (a, b)]
        z, y = degrees(*classes[0], *classes[1]), torch.tensor([0, 0, 1, 1])
        pull, push = pull_and_push(z, y)
        L = gen_bin(z, y)
        expected = [pull, push, L, 2 * L + constant(2, 2), of_proof(z, y)]
        *printed, counted = numbers.split(" | ")
        assert printed == [f"{float(value):.4f}" for value in expected]
        assert counted == f"{right(z, y)} of 4"
    assert f"the constant is log(2)/2 + log(2)/50 = {constant(2, 2):.4f}" in PAGE.read_text()
