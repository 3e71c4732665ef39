"""Patch features against a slow reference in plain loops, and what they must not depend on."""

from __future__ import annotations

import pytest
import torch

from mnemon.errors import MnemonError
from mnemon.learning import patches

SHAPE = (3, 9, 11)


def images(count=4, seed=0):
    made = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, *SHAPE), generator=made, dtype=torch.uint8).float()


def fitted(**change):
    return patches.fit(images(), **({"filters": 5, "side": 4, "seed": 0} | change))


def slow(net, image):
    """The features of one image, patch by patch, in float64."""
    count, _, side, _ = net.kernel.shape
    kernel, offset = net.kernel.double(), net.offset.double()
    rows = range(0, SHAPE[1] - side + 1, net.stride)
    columns = range(0, SHAPE[2] - side + 1, net.stride)
    maps = torch.zeros(2 * count, len(rows), len(columns), dtype=torch.float64)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            p = image.double()[:, row : row + side, column : column + side]
            p = (p - p.mean()) / torch.sqrt(p.var(unbiased=False) + 10)
            for k in range(count):
                a = (kernel[k] * p).sum() - offset[k]
                maps[k, i, j] = max(a - net.threshold, 0)
                maps[count + k, i, j] = max(-a - net.threshold, 0)
    q, (h, w) = net.quadrants, maps.shape[1:]
    ends = [[(n * i // q, -(-n * (i + 1) // q)) for i in range(q)] for n in (h, w)]
    return torch.stack([m[a:b, c:d].mean() for m in maps for a, b in ends[0] for c, d in ends[1]])


@pytest.mark.parametrize(("stride", "quadrants", "threshold"), [(1, 2, 0.25), (2, 1, 0.0), (3, 2, 0.5)])
def test_features_are_those_of_the_definition(stride, quadrants, threshold) -> None:
    net = fitted(stride=stride, quadrants=quadrants, threshold=threshold)
    x = images(2, seed=1)
    found = net(x)
    assert found.shape == (2, 2 * 5 * quadrants**2)
    assert torch.allclose(found.double(), torch.stack([slow(net, image) for image in x]), atol=1e-5)


def test_whitened_patches_have_no_covariance() -> None:
    """Z Cov Zᵀ is the identity in every direction whose variance is well above the ridge."""
    net = patches.fit(images(60), filters=200, side=3, seed=0)
    sample = patches._normalised(patches._cut(images(60).double(), torch.arange(0, 60 * 63, 2), 3, (7, 9)))
    responses = sample @ net.kernel.flatten(1).double().T - net.offset.double()
    # Unit filters: the response of a whitened patch has variance wᵀ Cov(white) w, at most 1.
    assert float(responses.var(0).max()) < 1.05
    assert float(responses.var(0).mean()) > 0.8


def test_brightness_and_contrast_hardly_matter() -> None:
    net = fitted()
    x = images(2, seed=1) / 2
    assert torch.allclose(net(x + 50), net(x), atol=1e-4)
    assert float((net(1.5 * x) - net(x)).abs().max()) < 0.02 * float(net(x).max())


def test_a_flat_image_is_no_division_by_zero() -> None:
    assert bool(torch.isfinite(fitted()(torch.full((1, *SHAPE), 255.0))).all())
    assert bool(torch.isfinite(patches.fit(torch.zeros(2, *SHAPE), filters=3, side=4, seed=0).kernel).all())


def test_the_dictionary_is_a_function_of_the_images_and_the_seed() -> None:
    same, other_seed = fitted(), fitted(seed=1)
    assert same.digest() == fitted().digest()
    others = [
        other_seed,
        fitted(filters=6),
        fitted(threshold=0.5),
        patches.fit(images(4, 9), filters=5, side=4, seed=0),
    ]
    assert len({net.digest() for net in (same, *others)}) == 5


def test_images_smaller_than_a_patch_are_refused() -> None:
    with pytest.raises(MnemonError, match="patches of 10×10 pixels do not fit into images of 9×11"):
        fitted(side=10)
