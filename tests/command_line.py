"""A command of mnemon, in this process."""

from mnemon import cli


def run(*words, code=0, capsys):
    """What `mnemon WORDS` prints on stdout and stderr."""
    found = 0
    try:
        cli.main(list(words))
    except SystemExit as stop:
        found = stop.code
    out, err = capsys.readouterr()
    assert found == code, err
    return out, err
