"""Streams by name: one name for each, as the records have it, and what is said of them."""

import pytest

from mnemon.experiments import protocol


@pytest.mark.parametrize(
    ("written", "name"),
    [
        *((str(name), str(name)) for name in protocol.listing()),
        ("split-digits-5", "split-digits"),
        ("split-mnist-5", "split-mnist"),
        ("split-mnist-3", "split-mnist-3"),
        ("split-cifar100", "split-cifar100-10"),
        ("split-mini_imagenet", "split-mini_imagenet-10"),
        ("smooth-mnist-0.50", "smooth-mnist"),
        ("smooth-mnist-0.25", "smooth-mnist-0.25"),
    ],
)
def test_a_stream_has_one_name(written, name):
    assert str(protocol.parse(written)) == name


def test_smooth_mnist_is_listed_with_its_memory():
    name = protocol.parse("smooth-mnist")
    assert name in protocol.listing()
    assert name.rules.memory == 500


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        ("split-mnist-3", "split-mnist-3: tasks of 4, 3 and 3 classes"),
        ("split-digits-9", "split-digits-9: tasks of 2, 1, 1, 1, 1, 1, 1, 1 and 1 classes"),
        ("split-mnist", ""),
        ("split-cifar100", ""),
        ("split-mnist-11", ""),  # more than there are classes: `split` refuses it
        ("smooth-mnist", ""),
    ],
)
def test_tasks_of_different_sizes_are_said(stream, sentence):
    assert protocol.parse(stream).notice() == sentence
