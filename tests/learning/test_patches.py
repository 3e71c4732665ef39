"""Patch features against a slow reference in plain loops, and what they must not depend on."""

from __future__ import annotations

import pytest
import torch

from mnemon.errors import MnemonError
from mnemon.learning import patches
from mnemon.learning.backbones import architecture, build, feature_size
from mnemon.learning.backbones.patches import Patches, PatchFeatures

SHAPE = (3, 9, 11)


def images(count=4, seed=0, shape=SHAPE):
    made = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, *shape), generator=made, dtype=torch.uint8)


def fitted(x=None, seed=0, **change):
    net = PatchFeatures(Patches(**({"filters": 5, "side": 4} | change)), SHAPE)
    net.fit(images() if x is None else x, seed)
    return net


def slow(net, image):
    """The features of one image, patch by patch, in float64."""
    count, _, side, _ = net.kernel.shape
    kernel, offset = net.kernel.double(), net.offset.double()
    given = net.given
    rows = range(0, image.shape[1] - side + 1, given.stride)
    columns = range(0, image.shape[2] - side + 1, given.stride)
    maps = torch.zeros(2 * count, len(rows), len(columns), dtype=torch.float64)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            p = image.double()[:, row : row + side, column : column + side]
            p = (p - p.mean()) / torch.sqrt(p.var(unbiased=False) + 10)
            for k in range(count):
                a = (kernel[k] * p).sum() - offset[k]
                maps[k, i, j] = max(a - given.threshold, 0)
                maps[count + k, i, j] = max(-a - given.threshold, 0)
    q, (h, w) = given.quadrants, maps.shape[1:]
    ends = [[(n * i // q, -(-n * (i + 1) // q)) for i in range(q)] for n in (h, w)]
    return torch.stack([m[a:b, c:d].mean() for m in maps for a, b in ends[0] for c, d in ends[1]]) ** given.power


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "quadrants": 1, "threshold": 0.0},
        {"stride": 3, "threshold": 0.5},
        {"power": 0.5},
        {"source": "noise"},
    ],
)
def test_features_are_those_of_the_definition(options) -> None:
    net = fitted(**options)
    x = images(2, seed=1)
    found = net(x)
    assert found.shape == (2, 2 * 5 * net.given.quadrants**2)
    assert torch.allclose(found.double(), torch.stack([slow(net, image) for image in x]), atol=1e-5)


def test_whitened_patches_have_no_covariance() -> None:
    """Z Cov Zᵀ is the identity in every direction whose variance is well above the ridge."""
    kernel, offset = patches.from_images(images(60), filters=200, side=3, seed=0)
    sample = patches.normalised(patches.cut(images(60).double(), torch.arange(0, 60 * 63, 2), 3, (7, 9)))
    responses = sample @ kernel.flatten(1).T - offset
    # Unit filters: the response of a whitened patch has variance wᵀ Cov(white) w, at most 1.
    assert float(responses.var(0).max()) < 1.05
    assert float(responses.var(0).mean()) > 0.8


def test_brightness_and_contrast_hardly_matter() -> None:
    net = fitted(brightest=255.0)
    x = images(2, seed=1) / 2
    assert torch.allclose(net(x + 50), net(x), atol=1e-4)
    assert float((net(1.5 * x) - net(x)).abs().max()) < 0.02 * float(net(x).max())


def test_a_flat_image_is_no_division_by_zero() -> None:
    assert bool(torch.isfinite(fitted()(torch.full((1, *SHAPE), 255, dtype=torch.uint8))).all())
    assert bool(torch.isfinite(fitted(torch.zeros(2, *SHAPE)).kernel).all())


def test_floats_have_their_own_white() -> None:
    """0 … 1 unless it is said; the same image gives the same features."""
    net, x = fitted(), images(2, seed=1)
    assert torch.allclose(net(x / 255), net(x), atol=1e-5)
    assert torch.allclose(fitted(images() / 255)(x), net(x), atol=1e-4)
    named = fitted(images() / 51, brightest=5.0)
    assert torch.allclose(named(x / 51), net(x), atol=1e-4)


def test_large_images_are_halved_by_averages_until_they_fit() -> None:
    shape = (3, 18, 22)
    x = images(3, shape=shape)
    net, small = (PatchFeatures(Patches(filters=5, side=4, largest=most), s) for most, s in ((11, shape), (48, SHAPE)))
    halved = torch.nn.functional.avg_pool2d(x.double(), 2) / 255
    net.fit(x, 0)
    small.fit(halved, 0)
    assert torch.allclose(net.kernel, small.kernel)
    assert torch.allclose(net(x), small(halved), atol=1e-5)


def test_the_dictionary_is_a_function_of_the_images_and_the_seed() -> None:
    same = fitted()
    others = [
        fitted(seed=1),
        fitted(filters=6),
        fitted(threshold=0.5),
        fitted(power=0.5),
        fitted(images(4, 9)),
        fitted(source="noise"),
        fitted(source="noise", seed=1),
    ]
    assert same.digest() == fitted().digest()
    assert fitted(source="noise").digest() == fitted(images(1, 8), source="noise").digest()  # it looks at none
    assert len({net.digest() for net in (same, *others)}) == 8


def test_it_is_a_backbone_with_options_and_its_sizes_are_known_before_it_is_fitted() -> None:
    net = build("patches:filters=7:side=3:quadrants=3", SHAPE, seed=0)
    assert isinstance(net, PatchFeatures)
    assert feature_size(net, SHAPE) == 2 * 7 * 9
    assert (tuple(net.kernel.shape), tuple(net.offset.shape)) == ((7, 3, 3, 3), (7,))
    assert list(net.parameters()) == []
    assert architecture("patches:power=0.5:filters=64").name == "patches:filters=64:power=0.5"
    assert (net.waits_for, Patches(source="noise").build((1, 9, 9)).waits_for) == (10, 0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"side": 10}, "patches of 10×10 pixels do not fit into images of 9×11"),
        ({"side": 4, "largest": 4}, "patches of 4×4 pixels do not fit into images of 2×2"),
        ({"side": 8, "quadrants": 3}, "images of 9×11 pixels have 2×4 patches of 8×8, too few for 3×3 parts"),
    ],
)
def test_images_that_are_too_small_are_refused(options, sentence) -> None:
    with pytest.raises(MnemonError, match=sentence):
        fitted(**options)


def test_vectors_are_refused() -> None:
    with pytest.raises(MnemonError, match="patches need images"):
        build("patches", (7,), seed=0)
