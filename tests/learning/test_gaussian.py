"""The streaming Gaussian classifier against its definition, and the properties that follow from sufficient statistics.

Tolerances are stated on scores, relative to their spread. Measured on these samples, which lie 100 from the origin: 5e-6
against float64 when learned at once, 1e-5 after a merge or a removal, 4e-5 when learned one by one, where each update
rounds the class means to float32. Five times the largest is allowed, since another processor rounds otherwise.
"""

from __future__ import annotations

import pytest
import torch

from mnemon.errors import MnemonError
from mnemon.learning.discriminant import shrinkage
from mnemon.learning.gaussian import Gaussian

N, D, C, LAM = 3000, 24, 6, 1e-3
TOLERANCE = 2e-4  # of the spread of the scores


@pytest.fixture(scope="module")
def samples():
    """Features far from the origin, with unequal scales: what would break G − Σ n μμᵀ in float32."""
    made = torch.Generator().manual_seed(0)
    y = torch.randint(0, C, (N,), generator=made)
    y[:5] = torch.arange(5)
    f = torch.randn(N, D, generator=made) * torch.logspace(-2, 1, D) + torch.randn(C, D, generator=made)[y] + 100
    return f, y


def learned(f, y, cuts=(), **more):
    made = Gaussian(D, C, **more)
    for part, classes in zip(torch.tensor_split(f, cuts), torch.tensor_split(y, cuts), strict=True):
        made.add(part, classes)
    return made


def reference(f, y, lam=LAM):
    """Scores by the definition, in float64: class means, scatter around them, an inverse."""
    f = f.double()
    means = torch.stack([f[y == c].mean(0) for c in range(C)])
    away = f - means[y]
    sigma = sum(torch.outer(a, a) for a in away) / len(f)
    inverse = torch.linalg.inv(sigma + lam * sigma.diagonal().mean() * torch.eye(D, dtype=torch.float64))
    return lambda x: torch.stack([x.double() @ inverse @ m - 0.5 * m @ inverse @ m for m in means], 1)


def apart(a, b):
    """The largest difference of two tables of scores, each minus its row's mean (which predicts nothing), by their spread."""
    a, b = (scores - scores.mean(1, keepdim=True) for scores in (a, b))
    return float((a - b).abs().max() / b.std())


def test_scores_are_those_of_the_definition(samples) -> None:
    f, y = samples
    assert apart(learned(f, y).discriminant(LAM)(f), reference(f, y)(f)) < TOLERANCE


def test_any_order_and_any_chunks_give_the_same_scores(samples) -> None:
    f, y = samples
    whole = learned(f, y).discriminant(LAM)(f)
    by_class = torch.argsort(y, stable=True)
    for order, cuts in (
        (by_class, ()),
        (by_class.flip(0), range(10, N, 10)),
        (torch.arange(N), range(1, N)),
        (torch.randperm(N, generator=torch.Generator().manual_seed(1)), (1, 2, 700, 701)),
    ):
        assert apart(learned(f[order], y[order], list(cuts)).discriminant(LAM)(f), whole) < TOLERANCE


def test_merged_learners_are_one_that_saw_all(samples) -> None:
    f, y = samples
    first, second = learned(f[:1000], y[:1000]), learned(f[1000:], y[1000:])
    first.merge(second)
    assert torch.equal(first.counts, learned(f, y).counts)
    assert apart(first.discriminant(LAM)(f), learned(f, y).discriminant(LAM)(f)) < TOLERANCE


def test_a_merge_maps_the_others_classes_to_its_own(samples) -> None:
    f, y = samples
    turned = torch.tensor([3, 4, 5, 0, 1, 2])
    first, second = learned(f[:1000], y[:1000]), learned(f[1000:], turned[y[1000:]])
    first.merge(second, torch.argsort(turned))
    assert apart(first.discriminant(LAM)(f), learned(f, y).discriminant(LAM)(f)) < TOLERANCE


def test_removed_samples_leave_no_trace(samples) -> None:
    f, y = samples
    gone = torch.arange(N) % 3 == 0
    made = learned(f, y)
    made.remove(f[gone], y[gone])
    rest = learned(f[~gone], y[~gone])
    assert torch.equal(made.counts, rest.counts)
    assert apart(made.discriminant(LAM)(f), rest.discriminant(LAM)(f)) < TOLERANCE


def test_a_class_whose_samples_are_all_removed_is_as_if_never_seen(samples) -> None:
    f, y = samples
    made = learned(f, y)
    made.remove(f[y == 2], y[y == 2])
    rest = learned(f[y != 2], y[y != 2])
    found, expected = made.discriminant(LAM)(f), rest.discriminant(LAM)(f)
    assert bool((found[:, 2] == -torch.inf).all())
    others = [c for c in range(C) if c != 2]
    assert apart(found[:, others], expected[:, others]) < TOLERANCE


def test_a_forgotten_class_is_never_predicted_and_its_covariance_stays(samples) -> None:
    f, y = samples
    made = learned(f, y)
    before = made.covariance()
    made.forget(2)
    assert 2 not in made.discriminant(LAM)(f).argmax(1)
    assert torch.equal(made.covariance(), before)


def test_a_rare_class_never_vanishes(samples) -> None:
    f, y = samples
    rare = f[y == 0][:3]
    many = y != 0
    made = learned(torch.cat([rare, f[many]]), torch.cat([torch.zeros(3, dtype=torch.long), y[many]]))
    assert bool(torch.isfinite(made.discriminant(LAM).bias[0]))
    assert torch.allclose(made.means[0], rare.mean(0), rtol=1e-6)


def test_after_a_swap_of_two_classes_a_window_follows_and_without_one_it_does_not(samples) -> None:
    f, y = samples
    swapped = torch.tensor([1, 0, 2, 3, 4, 5])[y]
    fading, lasting = Gaussian(D, C, half_life=50), Gaussian(D, C)
    for made in (fading, lasting):
        made.add(torch.cat([f, f]), torch.cat([y, swapped]))
    these = y < 2
    right = [(m.discriminant(LAM)(f[these]).argmax(1) == swapped[these]).double().mean() for m in (fading, lasting)]
    assert right[0] > 0.9
    assert right[1] < 0.7


def test_a_class_ages_by_its_own_samples_alone(samples) -> None:
    f, y = samples
    made = Gaussian(D, C, half_life=50)
    made.add(f[y == 0], y[y == 0])
    mean, count = made.means[0].clone(), made.counts[0].clone()
    made.add(f[y != 0], y[y != 0])
    assert torch.equal(made.means[0], mean)
    assert made.counts[0] == count
    assert float(made.counts[1]) == pytest.approx(1 / (1 - 0.5 ** (1 / 50)), rel=0.01)


def test_with_a_long_half_life_the_window_is_none(samples) -> None:
    f, y = samples
    assert apart(learned(f, y, half_life=1e9).discriminant(LAM)(f), learned(f, y).discriminant(LAM)(f)) < 1e-3


def test_the_first_samples_of_a_new_class_move_no_covariance(samples) -> None:
    f, y = samples
    made = Gaussian(D, C, half_life=50)
    made.add(f[y != 5], y[y != 5])
    before = made.scatter.clone()
    made.add(f[y == 5][:1] + 1000, torch.tensor([5]))
    assert torch.equal(made.scatter, before)


def test_before_any_scatter_it_is_the_nearest_class_mean() -> None:
    made = Gaussian(2, 3)
    made.add(torch.tensor([[0.0, 0.0], [4.0, 0.0]]), torch.tensor([0, 1]))
    assert made.discriminant(LAM)(torch.tensor([[1.0, 0.0], [3.0, 9.0]])).argmax(1).tolist() == [0, 1]


def test_shrunk_to_the_diagonal_it_is_its_definition_in_any_units(samples) -> None:
    f, y = samples
    wide = f.double()
    means = torch.stack([wide[y == c].mean(0) for c in range(C)])
    sigma = (wide - means[y]).T @ (wide - means[y]) / N
    within, total = sigma.diagonal().clone(), wide.var(0, correction=0)
    sigma.diagonal().copy_(torch.maximum((1 + LAM) * within, LAM * total))
    weight = torch.linalg.solve(sigma, means.T).T
    expected = wide @ weight.T - 0.5 * (weight * means).sum(1)
    assert apart(learned(f, y).discriminant(LAM, "diagonal")(f), expected) < TOLERANCE
    assert bool((LAM * total < within).any() & (LAM * total > (1 + LAM) * within).any())  # both cases are there
    units = torch.logspace(6, -6, D)
    for cuts in ((), (1, 2, 5, 900)):
        assert apart(learned(f * units, y, cuts).discriminant(LAM, "diagonal")(f * units), expected) < TOLERANCE


def test_constant_features_do_not_matter_to_the_diagonal(samples) -> None:
    f, y = samples
    constant = torch.tensor([0.0, 1e-6, 3.3333, -1.234e6])
    made, less = Gaussian(D, C), Gaussian(D - 4, C)
    for part, classes in zip(torch.split(f, 700), torch.split(y, 700), strict=True):
        made.add(torch.cat([constant.expand(len(part), 4), part[:, 4:]], 1), classes)
        less.add(part[:, 4:], classes)
    found, expected = made.discriminant(LAM, "diagonal"), less.discriminant(LAM, "diagonal")(f[:, 4:])
    assert not bool(found.weight[:, :4].any())
    assert apart(found(f), expected) < TOLERANCE


def test_a_feature_constant_within_classes_tells_them_apart_and_single_samples_do_too() -> None:
    made = Gaussian(3, 3)
    f = torch.tensor([[0.0, 5.0, 1e6], [1.0, 5.0, 2e6]])
    made.add(f[:1], torch.tensor([0]))
    assert bool(torch.isfinite(made.discriminant(LAM, "diagonal")(f)[:, 0]).all())
    made.add(f[1:], torch.tensor([1]))
    halfway = torch.tensor([[0.2, 9.0, 1.3e6], [0.9, 9.0, 1.6e6]])
    assert made.discriminant(LAM, "diagonal")(halfway).argmax(1).tolist() == [0, 1]
    made.add(f + torch.tensor([0.0, 0.0, 3e5]), torch.tensor([0, 1]))  # the first feature is still exact
    scores = made.discriminant(LAM, "diagonal")(torch.tensor([[0.1, 5.0, 1.8e6]]))
    assert scores.argmax(1).tolist() == [0]
    assert float(scores[0, 0] - scores[0, 1]) < 2 / LAM  # certain, but not without bounds


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda g: g.remove(torch.ones(2, D), torch.tensor([0, 0])), "more samples of a class are to be removed"),
        (lambda g: g.merge(Gaussian(3, C)), "3 features cannot be merged with 24"),
        (lambda g: g.merge(Gaussian(D, C, half_life=9)), "cannot be merged"),
        (lambda g: Gaussian(D, C, half_life=0), "half_life is a number of samples above 0"),
        (lambda g: Gaussian(D, C, half_life=9).remove(torch.ones(1, D), torch.tensor([0])), "cannot be taken back"),
    ],
)
def test_what_cannot_be_exact_is_refused(act, sentence) -> None:
    made = Gaussian(D, C)
    made.add(torch.ones(1, D), torch.tensor([0]))
    before = {name: tensor.clone() for name, tensor in made.state().items()}
    with pytest.raises(MnemonError, match=sentence):
        act(made)
    assert all(torch.equal(before[name], tensor) for name, tensor in made.state().items())


def test_a_covariance_without_an_inverse_is_told(samples) -> None:
    f, y = samples
    made = learned(f, y)
    made.scatter[0, 0] = -1e9
    with pytest.raises(MnemonError, match=r"no inverse with lam 0\.001; take a larger one"):
        made.discriminant(LAM)


def test_its_state_has_the_lower_triangle_and_going_on_from_it_is_bit_equal(samples) -> None:
    f, y = samples
    whole, stopped, resumed = (Gaussian(D, C) for _ in range(3))
    for made in (whole, stopped):
        made.add(f[:1000], y[:1000])
    state = stopped.state(classes=C)
    assert state["scatter"].shape == (D * (D + 1) // 2,)
    resumed.restore({name: tensor.clone() for name, tensor in state.items()})
    for made in (whole, resumed):
        made.add(f[1000:], y[1000:])
    assert all(torch.equal(a, whole.state()[name]) for name, a in resumed.state().items())
    assert torch.equal(resumed.discriminant(LAM)(f), whole.discriminant(LAM)(f))


def test_a_forgotten_class_weighs_as_much_in_a_merge_as_in_the_covariance(samples) -> None:
    f, y = samples
    one = Gaussian(f.shape[1], int(y.max()) + 1)
    one.add(f, y)
    one.forget(0)
    other = Gaussian(f.shape[1], int(y.max()) + 1)
    other.merge(one)
    assert torch.allclose(other.covariance(), one.covariance())


def test_joined_classes_are_one_that_was_learned_as_one(samples) -> None:
    f, y = samples
    made = learned(f, y)
    made.join(1, 4)
    made.join(4, 1)  # also into a class without samples
    whole = learned(f, torch.where(y == 1, 4, y))
    assert torch.equal(made.counts, whole.counts)
    assert torch.equal(made.weight, whole.weight)
    found, expected = made.discriminant(LAM)(f), whole.discriminant(LAM)(f)
    assert bool((found[:, 1] == -torch.inf).all())
    others = [c for c in range(C) if c != 1]
    assert apart(found[:, others], expected[:, others]) < TOLERANCE
    with pytest.raises(MnemonError, match="cannot be joined exactly while older samples fade"):
        Gaussian(D, C, half_life=9).join(0, 1)


CHANGES = {
    "add": lambda g, f, y: g.add(f[:7], y[:7]),
    "remove": lambda g, f, y: g.remove(f[:7], y[:7]),
    "merge": lambda g, f, y: g.merge(learned(f[:50], y[:50])),
    "forget": lambda g, f, y: g.forget(1),
    "discount": lambda g, f, y: g.discount(1),
    "join": lambda g, f, y: g.join(0, 1),
    "regroup": lambda g, f, y: g.regroup(torch.tensor([2, 0]), C),
    "restore": lambda g, f, y: g.restore(learned(f[:50], y[:50]).state()),
    "grow": lambda g, f, y: g.grow(2 * C),
}


AGING = [
    change for change in CHANGES if change not in ("remove", "merge", "join")
]  # those are refused where samples age


@pytest.mark.parametrize(
    ("change", "half_life"), [*((each, None) for each in CHANGES), *((each, 50.0) for each in AGING)]
)
def test_a_snapshot_stays_as_it_was_and_what_follows_it_is_what_would_have_been(samples, change, half_life) -> None:
    """A model predicts with a snapshot while it learns on, and goes back to one if learning fails."""
    f, y = samples
    plain, one, other = (learned(f, y, half_life=half_life) for _ in range(3))
    CHANGES[change](plain, f, y)
    for changed, kept in ((one, one.snapshot()), (other.snapshot(), other)):  # either of the two may change
        before = {name: tensor.clone() for name, tensor in kept.state().items()}
        CHANGES[change](changed, f, y)
        assert all(torch.equal(kept.state()[name], tensor) for name, tensor in before.items())
        assert all(torch.equal(changed.state()[name], tensor) for name, tensor in plain.state().items())


def test_lambda_auto_is_ten_samples_of_noise_for_each_class(samples) -> None:
    f, y = samples
    lam = shrinkage(C, N)
    means = torch.stack([f[y == c].double().mean(0) for c in range(C)])
    away = f.double() - means[y]
    noise = 10 * C * away.square().mean() * torch.eye(D, dtype=torch.float64)
    weight = torch.linalg.solve((away.T @ away + noise) / (N + 10 * C), means.T).T
    expected = f.double() @ weight.T - 0.5 * (weight * means).sum(1)
    assert apart((1 + lam) * learned(f, y).discriminant(lam)(f), expected) < TOLERANCE
    assert shrinkage(3, 3) == shrinkage(1, 0) == 10
    assert shrinkage(2, 10**9) == 1e-3


@pytest.mark.parametrize("shrink", ["identity", "diagonal"])
def test_what_rounding_took_from_very_many_samples_is_given_back(shrink) -> None:
    """Columns of categories: Σ_w has no inverse, and what float32 loses makes it less than nothing in some directions."""
    value = torch.arange(3000) * 7 % 8
    y = (value + torch.arange(3000) % 3) % C
    made, f = Gaussian(16, C), torch.eye(8)[value].repeat(1, 2)
    made.add(f, y)
    whole = made.discriminant(1e-3, shrink)(f).argmax(1)
    mean = made.scatter.diagonal().mean()
    made.scatter.diagonal().sub_(2e-3 * mean)
    assert (made.discriminant(1e-3, shrink)(f).argmax(1) == whole).all()
    for lam, lost in ((1e-4, 0), (1e-3, 0.1 * mean)):  # a λ that is too small, and no rounding
        made.scatter.diagonal().sub_(lost)
        with pytest.raises(MnemonError, match="no inverse"):
            made.discriminant(lam, shrink)
