"""Seeds as they are written on the command line."""

from mnemon.cli.seeds import seeds


def test_seeds():
    assert seeds("3") == [0, 1, 2]
    assert seeds("100-102") == [100, 101, 102]
    assert seeds("3,5,4-6") == [3, 5, 4, 6]
