"""Calls a command with its arguments: tyro reads them; help is wrapped here, and a mistake becomes one sentence."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import inspect
import io
import re
import sys
import textwrap
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import tyro

from mnemon.cli.command import Command
from mnemon.cli.options import written
from mnemon.cli.output import table_width
from mnemon.errors import MnemonError

NUMBERS = {int: "a whole number", float: "a number"}


def call(command: Command, given: Sequence[str]) -> None:
    """Call the command, print its help, or raise the sentence that says what is wrong with the arguments."""
    if command.prepare is not None:
        command.prepare(given)
    asked = {"-h", "--help"} & set(given)
    with _wrapped_help() if asked else _sentences(command, given):
        tyro.cli(command.function, prog=f"mnemon {command.name}", args=given, config=(tyro.conf.FlagCreatePairsOff,))


@contextlib.contextmanager
def _wrapped_help() -> Iterator[None]:
    """Wrap the usage and the description, which tyro prints as long as they are."""
    out = sys.stdout

    class Page(io.StringIO):
        encoding = out.encoding  # tyro asks for it, and whether it may use colours

        def isatty(self) -> bool:
            return out.isatty()

    page = Page()
    try:
        with contextlib.redirect_stdout(page):
            yield
    finally:
        for line in re.sub(r"\n{3,}", "\n\n", page.getvalue()).splitlines():
            plain = re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()
            print(line if len(plain) <= table_width() else textwrap.fill(plain, table_width(), break_on_hyphens=False))


@contextlib.contextmanager
def _sentences(command: Command, given: Sequence[str]) -> Iterator[None]:
    """Have tyro's errors as a MnemonError. Those without a sentence of ours stay as tyro prints them."""

    def explain(event: Any) -> None:
        sentence = None
        with contextlib.suppress(Exception):  # of another version of tyro: it then speaks for itself
            sentence = _sentence(event, command, given)
        if sentence is not None:
            raise MnemonError(sentence)

    try:
        from tyro._errors import on_parse_error  # private: a version without it prints its own message
    except ImportError:
        yield
    else:
        with on_parse_error(explain):
            yield


def _sentence(event: Any, command: Command, given: Sequence[str]) -> str | None:
    """Say what is wrong and what would be right."""
    kind, more = type(event).__name__, f"see `mnemon {command.name} --help`."
    unread: list[str] = getattr(event, "tokens", None) or getattr(event, "unrecognized_tokens", [])
    for i, token in enumerate(unread):
        if re.match(r"--?[a-zA-Z]", token):
            return _unknown_option(token, "".join(unread[i + 1 : i + 2]), command) or (
                f"{command.name} has no option {token.partition('=')[0]}; {more}"
            )
    if kind == "MissingArgs":
        missing = [_written(context.arg) for context in event.missing_arguments]
        return f"{command.name} needs {' and '.join(missing)}; {more}"
    if kind == "UnrecognizedArgs":
        return f"{unread[0]!r} is one argument too many for {command.name}; {more}"
    if kind == "BadValue" and event.reason == "too_few_values":
        return f"{event.argument.lowered.name_or_flags[-1]} needs a value: {_written(event.argument)}."
    if kind == "InstantiationFailure":
        flag = event.argument.lowered.name_or_flags[-1]
        wanted = event.argument.field.type_stripped
        texts = [text for number, text in NUMBERS.items() if number in (wanted, *typing.get_args(wanted))]
        value = _value(flag, given)
        if texts and value is not None:
            return f"{flag} takes {texts[-1]}, not {value!r}."
    return None


def _unknown_option(token: str, value: str, command: Command) -> str | None:
    """Point to what was probably meant."""
    option, equals, attached = token.partition("=")
    if command.unknown_option and (hint := command.unknown_option(option, attached if equals else value)):
        return hint
    near = difflib.get_close_matches(option.strip("-").replace("_", "-"), _options(command), n=1, cutoff=0.75)
    return f"{command.name} has no option {option}; did you mean --{near[0]}?" if near else None


def _options(command: Command) -> list[str]:
    """The names of a command's options."""
    names: list[str] = []
    for name, parameter in inspect.signature(command.function).parameters.items():
        default = parameter.default
        names += [f.name for f in dataclasses.fields(default)] if dataclasses.is_dataclass(default) else [name]
    return [name.replace("_", "-") for name in names]


def _written(argument: Any) -> str:
    """An argument as it is typed: --lr FLOAT, or FOLDER."""
    metavar = str(argument.lowered.metavar)
    return metavar if argument.is_positional() else f"{argument.lowered.name_or_flags[-1]} {metavar}"


def _value(flag: str, given: Sequence[str]) -> str | None:
    """The value that an option was given last."""
    return next(reversed([value for _, value in written(given, (flag,))]), None)
