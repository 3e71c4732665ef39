"""The losses against the paper's formulas, written out as loops, and against pytorch-metric-learning."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon import MnemonError, losses
from mnemon.learning.losses import proxy_logits


def circle(*degrees):
    angles = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([angles.cos(), angles.sin()], 1)


Z = circle(0, 35, 70, 40, 60, 80, 20)
Y = torch.tensor([0, 0, 0, 1, 1, 2, 3])
PROXIES = circle(10, 50, 80, 350)


def slow_multi_similarity(z, y, alpha, beta, lam, eps):
    """Eq. 3 and 4 as they are printed, the anchor left out of its positives; the rows, and which of them mined a pair."""
    rows, active = [], []
    for i in range(len(y)):
        s = [float(z[i] @ z[k]) for k in range(len(y))]
        positives = [k for k in range(len(y)) if k != i and y[k] == y[i]]
        negatives = [k for k in range(len(y)) if y[k] != y[i]]
        mined_p = [k for k in positives if negatives and s[k] < max(s[j] for j in negatives) + eps]
        mined_n = [k for k in negatives if positives and s[k] > min(s[j] for j in positives) - eps]
        rows.append(
            math.log(1 + sum(math.exp(-alpha * (s[k] - lam)) for k in mined_p)) / alpha
            + math.log(1 + sum(math.exp(beta * (s[k] - lam)) for k in mined_n)) / beta
        )
        active.append(bool(mined_p))
        assert bool(mined_p) == bool(mined_n)
    return rows, active


def test_multi_similarity_vectors():
    assert losses.multi_similarity(Z, Y).item() == pytest.approx(0.839107, abs=1e-6)
    assert losses.multi_similarity(Z, Y, divisor="batch").item() == pytest.approx(0.599362, abs=1e-6)


def test_proxy_nca_vectors():
    assert losses.proxy_nca(Z, Y, PROXIES).item() == pytest.approx(1.183556, abs=1e-6)
    by_cosine = torch.nn.functional.cross_entropy(2 * Z @ PROXIES.T, Y)
    assert losses.proxy_nca(Z, Y, PROXIES).item() == pytest.approx(by_cosine.item(), abs=1e-12)
    hybrid = losses.multi_similarity(Z, Y) + 0.5 * losses.proxy_nca(Z, Y, PROXIES)
    assert hybrid.item() == pytest.approx(1.430885, abs=1e-6)


def test_the_scale_of_proxy_nca_is_a_factor_on_the_cosine():
    """At 2, the paper's distance, not a bit is another one."""
    plain = 2 * Z @ PROXIES.T - PROXIES.square().sum(1)
    assert torch.equal(proxy_logits(Z, PROXIES), plain)
    assert torch.equal(proxy_logits(Z, PROXIES, scale=2.0), plain)
    cosine = Z @ F.normalize(PROXIES, dim=1).T
    for scale in (0.5, 16.0):
        found = proxy_logits(Z, F.normalize(PROXIES, dim=1), scale=scale)
        assert torch.allclose(found.log_softmax(1), (scale * cosine).log_softmax(1), atol=1e-10)


def test_proxy_nca_runs_over_the_classes_seen():
    more = torch.cat([PROXIES, circle(30, 60)])
    seen = torch.tensor([True] * 4 + [False] * 2)
    assert losses.proxy_nca(Z, Y, more, seen=seen).item() == pytest.approx(1.183556, abs=1e-6)
    assert losses.proxy_nca(Z, Y, more).item() > 1.2


@st.composite
def batches(draw):
    n = draw(st.integers(1, 12))
    labels = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    seed = draw(st.integers(0, 2**31))
    f = torch.randn(n, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    if draw(st.booleans()):
        f[-1] = f[0]  # duplicates
    return torch.nn.functional.normalize(f, dim=1), torch.tensor(labels)


@given(batches(), st.sampled_from([(2.0, 50.0, 0.5, 0.1), (1.0, 10.0, 0.2, 0.3)]))
@settings(max_examples=200)
def test_multi_similarity_equals_the_slow_loop(batch, constants):
    z, y = batch
    alpha, beta, lam, eps = constants
    rows, active = slow_multi_similarity(z, y, *constants)
    for divisor, n in (("active", max(1, sum(active))), ("batch", len(y))):
        got = losses.multi_similarity(z, y, alpha=alpha, beta=beta, lam=lam, eps=eps, divisor=divisor)
        assert got.item() == pytest.approx(sum(rows) / n, abs=1e-9)


@given(batches())
@settings(max_examples=100)
def test_multi_similarity_has_a_finite_gradient(batch):
    f, y = batch
    f = f.float().clone().requires_grad_()
    loss = losses.multi_similarity(torch.nn.functional.normalize(f, dim=1), y)
    (gradient,) = torch.autograd.grad(loss, f)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("labels", [[0], [0] * 6, list(range(6))], ids=["one sample", "one class", "all distinct"])
def test_nothing_to_compare_is_no_loss(labels):
    z = torch.nn.functional.normalize(torch.rand(len(labels), 5), dim=1).requires_grad_()
    loss = losses.multi_similarity(z, torch.tensor(labels))
    (gradient,) = torch.autograd.grad(loss, z)
    assert loss.item() == 0
    assert not gradient.any()


def test_no_overflow():
    z = torch.ones(8, 1)  # every similarity is 1; β is far beyond what exp() could hold
    loss = losses.multi_similarity(z, torch.tensor([0, 1] * 4), beta=5e4)
    assert loss.item() == pytest.approx(math.log(1 + 3 * math.exp(-1)) / 2 + 0.5, abs=1e-3)


def test_what_is_not_a_number_shows_in_the_loss():
    """Mining must not hide divergence: a pair that compares with nothing is not left out."""
    z = torch.eye(6)
    z[2] = math.nan
    assert losses.multi_similarity(z, torch.tensor([0, 0, 0, 1, 1, 1])).isnan()


def test_unknown_divisor():
    with pytest.raises(MnemonError, match="did you mean 'batch'"):
        losses.multi_similarity(Z, Y, divisor="bach")


def test_multi_similarity_equals_pytorch_metric_learning():
    """Theirs with mining means the same where every anchor has a positive and a negative, with the divisor |B|."""
    from pytorch_metric_learning.losses import MultiSimilarityLoss
    from pytorch_metric_learning.miners import MultiSimilarityMiner

    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        z = torch.nn.functional.normalize(torch.randn(20, 8, dtype=torch.float64, generator=generator), dim=1)
        y = torch.arange(20) % 5
        theirs = MultiSimilarityLoss(alpha=2, beta=50, base=0.5)(z, y, MultiSimilarityMiner(epsilon=0.1)(z, y))
        assert losses.multi_similarity(z, y, divisor="batch").item() == pytest.approx(theirs.item(), rel=1e-9)


def test_proxy_nca_equals_pytorch_metric_learning():
    """The same softmax over all proxies where every class has been seen."""
    from pytorch_metric_learning.losses import ProxyNCALoss

    theirs = ProxyNCALoss(num_classes=4, embedding_size=2, softmax_scale=1).double()
    theirs.proxies.data = PROXIES.clone()
    assert losses.proxy_nca(Z, Y, PROXIES).item() == pytest.approx(theirs(Z, Y).item(), rel=1e-6)


HALF = torch.tensor([True, True, True, False])


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ((Z, Y[:, None]), r"one whole number for each of the 7 samples, not a tensor \(7, 1\)"),
        ((Z, Y[:-1]), "one whole number for each of the 7 samples"),
        ((Z, Y.double()), "of torch.float64"),
        ((3 * Z, Y), "the rows of z must have unit length, and row 0 has 3; use F.normalize"),
        ((Z[:0], Y[:0]), "of at least one sample"),
        ((Z[0], Y[:1]), "of at least one sample"),
        ((Z.numpy(), Y), r"z must be a tensor, not a ndarray; use torch.as_tensor\(z\)"),
        ((Z, Y.tolist()), "y must be a tensor, not a list"),
    ],
)
def test_a_batch_that_would_give_a_wrong_number_is_refused(batch, words):
    with pytest.raises(MnemonError, match=words):
        losses.multi_similarity(*batch)
    with pytest.raises(MnemonError, match=words):
        losses.proxy_nca(*batch, PROXIES)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seen": HALF}, "the class 3 is in the batch, but not among those that were seen"),
        ({"seen": HALF[:2]}, "one bool for each of the 4 classes"),
        ({"seen": HALF.long()}, "one bool for each of the 4 classes"),
        ({"y": Y + 1}, "labels are from 0 to 3, one for each proxy, not 4"),
        ({"y": Y - 1}, "not -1"),
        ({"proxies": PROXIES[:, :1]}, "proxies must hold a row of 2 values"),
        ({"proxies": PROXIES.tolist()}, "proxies must be a tensor, not a list"),
    ],
)
def test_classes_without_a_proxy_are_refused(change, words):
    given = {"z": Z, "y": Y, "proxies": PROXIES} | change
    with pytest.raises(MnemonError, match=words):
        losses.proxy_nca(**given)


def test_features_of_half_precision_and_a_zero_row_are_taken():
    """F.normalize leaves a row of zeros, as after ReLU, as it is."""
    z = F.normalize(torch.relu(torch.randn(64, 20)), dim=1).bfloat16()
    z[3] = 0
    assert losses.multi_similarity(z, torch.arange(64) % 4).isfinite()
