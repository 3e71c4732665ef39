"""Methods, losses and classifiers from outside the package: from a file (`path/to/file.py:Class`), an installed package or as a
class.

Only a command line that names the file, the arguments of `mnemon.run` and the entry points of installed packages import code.
Records, checkpoints and models hold names, and a name alone imports nothing: `find` knows what this process was given before.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import logging
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.abc import SourceLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mnemon.errors import MnemonError, unknown
from mnemon.learning import named, sources
from mnemon.learning.classifier import Classifier
from mnemon.learning.classifiers import CLASSIFIERS
from mnemon.learning.memory import Column
from mnemon.learning.method import Method
from mnemon.learning.methods import methods
from mnemon.learning.network import CLASS_ROWS
from mnemon.learning.objectives import OBJECTIVES, Objective

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger(__name__)

BASES: dict[str, type[Any]] = {"method": Method, "loss": Objective, "classifier": Classifier}
PLURALS = {"method": "methods", "loss": "losses", "classifier": "classifiers"}  # entry points: mnemon.methods …
FILE = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_]\w*)(?P<options>(?::.*)?)")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,59}")  # part of file names and of lists

_added: dict[str, dict[str, type[Any]]] = {kind: {} for kind in BASES}
_failed: dict[str, dict[str, str]] = {kind: {} for kind in BASES}  # entry points that cannot be used → why
_files: dict[type[Any], str] = {}  # class → the text that named its file


def known(kind: str) -> dict[str, type[Any]]:
    """The methods, losses or classifiers by name: the package's own, then those from outside."""
    built_in: dict[str, dict[str, type[Any]]] = {"method": methods(), "loss": OBJECTIVES, "classifier": CLASSIFIERS}
    return built_in[kind] | _added[kind]


def find(kind: str, name: str) -> type[Any]:
    """The class of a name. Imports nothing."""
    found = known(kind)
    if name in found:
        return found[name]
    if name in _failed[kind]:
        raise MnemonError(_failed[kind][name])
    raise MnemonError(f"{unknown(kind, name, found)} One of your own is named by its file: path/to/file.py:Class.")


def classifier(text: str) -> Classifier:
    """Make the classifier that `NAME` or `NAME:OPTION=VALUE:…` stands for."""
    made: Classifier = named.parse(text, known("classifier"), "classifier")
    return made


def use(kind: str, what: Any) -> str:
    """The name by which `find` knows what the caller gave: a name, a file with a class (it is imported) or a class.

    What follows the name of a classifier, its options, stays there.
    """
    if isinstance(what, str):
        match = FILE.fullmatch(what)
        if match is None:
            return what
        return _from_file(kind, Path(match["path"]), match["name"], what[: match.end("name")]) + match["options"]
    if not (isinstance(what, type) and issubclass(what, BASES[kind])):
        base = BASES[kind].__name__
        raise MnemonError(f"{kind} must be a name or {'an' if base[0] in 'AEIOU' else 'a'} {base} class, not {what!r}.")
    return _add(kind, what)


@cache
def use_installed() -> None:
    """Import what installed packages offer as entry points, once. One that cannot be used is a warning, and an error where it
    is asked for."""
    from importlib.metadata import entry_points  # slow to import, and not needed for names

    for kind, plural in PLURALS.items():
        for point in entry_points(group=f"mnemon.{plural}"):
            try:
                _use_entry_point(kind, point)
            except MnemonError as error:
                _failed[kind][point.name] = str(error)
                logger.warning(str(error))


def files(classes: list[type[Any]]) -> list[list[str]]:
    """Of these classes, those that came from a file: [kind, file with class, digest] each, for another process."""
    found = []
    for each in classes:
        if each in _files:
            path, _, name = _files[each].rpartition(":")
            kind = next(kind for kind, base in BASES.items() if issubclass(each, base))
            found.append([kind, f"{Path(path).resolve()}:{name}", sources.digest(each) or ""])
    return found


def use_files(found: list[list[str]]) -> None:
    """Import what the process that asks has imported; refuse code that is another by now."""
    for kind, text, digest in found:
        made = find(kind, use(kind, text))
        if sources.digest(made) != digest:
            raise MnemonError(f"{text} has changed since the command was started; start it again.")


def described(kind: type[Any]) -> dict[str, str] | None:
    """Where a class from outside comes from, as its records state it; None for the package's own and where no file tells."""
    digest = sources.digest(kind)
    if is_built_in(kind) or digest is None:
        return None
    path = Path(str(sys.modules[kind.__module__].__file__))
    return {"source": _files.get(kind, f"{path.name}:{kind.__qualname__}"), "digest": digest}


def is_built_in(kind: type[Any]) -> bool:
    return kind.__module__.partition(".")[0] == "mnemon"


def _use_entry_point(kind: str, point: EntryPoint) -> None:
    try:
        found: Any = point.load()
    except Exception as error:  # anything may happen in code of others
        raise MnemonError(f"the {kind} {point.name!r} ({point.value}) cannot be imported: {_said(error)}") from error
    if not (isinstance(found, type) and issubclass(found, BASES[kind])):
        raise MnemonError(f"the {kind} {point.name!r} ({point.value}) is no {BASES[kind].__name__} class.")
    if (name := getattr(found, "name", None)) != point.name:
        raise MnemonError(f"the {kind} {point.name!r} ({point.value}) calls itself {name!r}: both must be equal.")
    _add(kind, found)


def _from_file(kind: str, path: Path, name: str, text: str) -> str:
    """Import the file, as it is now, and add the class; losses and classifiers beside it are known by their names too."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MnemonError(f"{path} cannot be read ({error.strerror}).") from None
    module = _module(path.resolve(), content)
    found = getattr(module, name, None)
    if not (isinstance(found, type) and issubclass(found, BASES[kind])):
        there = [name for _, each in _own(module) for name in [each.__name__] if issubclass(each, BASES[kind])]
        others = f"; it has {', '.join(there)}" if there else ""
        raise MnemonError(f"{path} has no {BASES[kind].__name__} class {name!r}{others}.")
    added = _add(kind, found)
    _files[found] = text
    for other, each in _own(module):
        if each is not found and isinstance(getattr(each, "name", None), str):
            _add(other, each)
            _files[each] = f"{text.rpartition(':')[0]}:{each.__name__}"
    return added


def _module(path: Path, content: bytes) -> ModuleType:
    """The module of a file with this content; executed once."""
    name = f"mnemon_plugin_{sources.of_content(content)[:16]}_{path.stem}"
    if name in sys.modules and sys.modules[name].__file__ == str(path):
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # it may import its neighbours; last, so that it hides no other module
    loader = _Loader(path, content)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    setattr(module, sources.EXECUTED, content)
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise MnemonError(f"{path} cannot be imported: {_said(error)}") from error
    return module


class _Loader(SourceLoader):
    """Imports a file with a content that was read before: the file may be another by now."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.content = path, content

    def get_filename(self, fullname: str) -> str:
        return str(self.path)

    def get_data(self, path: str | bytes) -> bytes:
        return self.content


def _own(module: ModuleType) -> Iterator[tuple[str, type[Any]]]:
    """The classes that a module defines, with their kinds."""
    for each in list(vars(module).values()):
        if isinstance(each, type) and each.__module__ == module.__name__:
            yield from ((kind, each) for kind, base in BASES.items() if issubclass(each, base))


def _add(kind: str, found: type[Any]) -> str:
    """Make a class known by its name; a later one of the same name takes its place."""
    name = getattr(found, "name", None)
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise MnemonError(
            f"{found.__name__} needs a `name` of up to 60 letters, digits and - + _ . signs, not {name!r}."
        )
    if is_built_in(found):
        return name
    if name in known(kind) and name not in _added[kind]:
        plural = PLURALS[kind]
        raise MnemonError(
            f"{found.__name__} is called {name!r} as one of mnemon's {plural} is: give it a `name` of its own."
        )
    for attribute, value in vars(found).items():
        if isinstance(value, dataclasses.Field):  # no dataclass has made an option of it
            raise MnemonError(f"{found.__name__} has the option {attribute}, so it needs @dataclass(frozen=True).")
    _check_state(found)
    _added[kind][name] = found
    return name


def _check_state(found: type[Any]) -> None:
    """Refuse a class that asks for state which no learner has, with what there is."""
    columns = getattr(found, "columns", {}) if issubclass(found, Method) else {}
    for column, value in columns.items():
        if not isinstance(value, Column):
            raise MnemonError(
                f"{found.__name__}.columns[{column!r}] must be a Column of mnemon.learning.memory, not {value!r}."
            )
    trained = {group for group, rows in CLASS_ROWS.items() if all(row.trained for row in rows.values())}
    there = {"trains": trained, "keeps": CLASS_ROWS.keys() - trained} if issubclass(found, Objective) else {}
    if issubclass(found, Method):
        there = {"needs": trained}
    for attribute, names in there.items():
        if (name := getattr(found, attribute)) not in (None, *names):
            listed = ", ".join(sorted(names))
            raise MnemonError(
                f"{found.__name__}.{attribute} is {name!r}, and class rows of that name do not exist; there are {listed}."
            )
    if issubclass(found, Classifier):
        readable = {"memory", "statistics", *CLASS_ROWS}
        if not (isinstance(found.needs, tuple) and readable.issuperset(found.needs)):
            listed = ", ".join(sorted(readable))
            raise MnemonError(f"{found.__name__}.needs must be a tuple of names among {listed}, not {found.needs!r}.")


def _said(error: BaseException) -> str:
    """An error of others in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}." if text else f"{type(error).__name__}."
