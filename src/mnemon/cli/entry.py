"""The entry point: finds the command, calls it, and turns what goes wrong into a sentence and an exit code."""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Sequence

from mnemon.cli.command import commands
from mnemon.cli.output import table_width
from mnemon.cli.parsing import call
from mnemon.errors import MnemonError, check_known
from mnemon.runtime import messages
from mnemon.runtime.signals import Stopped


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `mnemon`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _dispatch(given)
    except MnemonError as error:
        print(f"mnemon: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:  # a full disk, a folder that cannot be written …
        what = f"{error.filename}: " if error.filename else ""
        print(f"mnemon: {what}{error.strerror or error}", file=sys.stderr)
        sys.exit(2)
    except MemoryError as error:
        print(f"mnemon: {str(error) or 'there is not enough memory for this'}", file=sys.stderr)
        sys.exit(2)


def _dispatch(given: list[str]) -> None:
    if not given or given[0] in ("-h", "--help"):
        _help()
        return
    if given[0] in ("-V", "--version"):
        from mnemon import __version__

        print(f"mnemon {__version__}")
        return
    known = commands()
    words = 2 if any(name.startswith(f"{given[0]} ") for name in known) else 1
    if words == 2 and (len(given) == 1 or given[1] in ("-h", "--help")):
        _help(f"{given[0]} ")
        return
    name = " ".join(given[:words])
    check_known("command", name, known)
    try:
        with messages.printed(quiet="--quiet" in given):
            call(known[name], given[words:])
    except Stopped as stopped:
        again = shlex.join(["mnemon", *given])
        print(f"stopped by {stopped}; everything is saved, and the same command continues: {again}", file=sys.stderr)
        sys.exit(128 + stopped.signal_number)


def _help(group: str = "") -> None:
    """Print the commands with their summaries: all, or those of a group ("data ")."""
    print("mnemon: learn from a stream in which new classes appear, and forget little.\n")
    print(f"usage: mnemon {group}COMMAND …   (mnemon {group}COMMAND --help for its options)\n")
    for name, command in commands().items():
        if name.startswith(group):
            print(
                textwrap.fill(
                    command.summary, table_width(), initial_indent=f"  {name:<12}  ", subsequent_indent=" " * 16
                )
            )
    if not group:
        print("\n  --version     Print the version.")
