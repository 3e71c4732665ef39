"""The models of a server: one model folder, or all model folders in a folder. Each is opened at its first request."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Any

from mnemon import checkpoint
from mnemon.errors import MnemonError
from mnemon.estimator.served import JOURNAL
from mnemon.files import is_clutter
from mnemon.serve.http.problems import Problem
from mnemon.serve.service import Service
from mnemon.serve.unlearned import has_unlearned_samples

logger = logging.getLogger(__name__)


def is_model(folder: Path) -> bool:
    return checkpoint.newest(folder) > 0 or (folder / JOURNAL).is_file()


class Models:
    """The models at `path`: a model, a folder of models, or a model to be created. `options` are those of `Service`."""

    def __init__(self, path: Path, **options: Any) -> None:
        if path.exists() and not path.is_dir():
            raise MnemonError(f"{path} is a file; a model is a folder.")
        self._path, self._options = path, options
        self._several = not is_model(path) and path.is_dir() and any(map(is_model, _folders(path)))
        given = {name: value for name, value in options.get("options", {}).items() if value is not None}
        if options.get("size") is not None:
            given["size"] = options["size"]
        if self._several and given:
            raise MnemonError(f"{path} has models that exist already, so the option {min(given)} cannot be given.")
        self._services: dict[str, Service] = {}
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}  # one lock per model: a slow opening delays no other model
        self._closed = False
        self.stopping = False  # event streams end when this is set
        # Models share these turns to learn, which leaves one processor for requests.
        self._turn = threading.Semaphore(max(1, (os.cpu_count() or 1) - 1))
        if not self._several:
            self.get(self._name)  # a model that cannot be opened is reported at the start
        else:
            threading.Thread(target=self._catch_up, name="models left behind", daemon=True).start()

    def _catch_up(self) -> None:
        """Open the models that have acknowledged samples left to learn, without waiting for a request."""
        for name in self.names():
            try:
                with self._door(name):
                    wanted = (
                        not self._closed and name not in self._services and has_unlearned_samples(self._path / name)
                    )
                if wanted:
                    self.get(name)
            except Exception as error:  # a request for this model reports the error again
                logger.warning(f"the model {name} is not opened: {error}")

    def _door(self, name: str) -> threading.Lock:
        with self._lock:
            return self._opening.setdefault(name, threading.Lock())

    @property
    def _name(self) -> str:
        return self._path.resolve().name

    def names(self) -> list[str]:
        if not self._several:
            return [self._name]
        return sorted(folder.name for folder in _folders(self._path) if is_model(folder))

    def opened(self) -> dict[str, Service]:
        """Return the models that are open, by name."""
        return dict(self._services)

    def get(self, name: str) -> Service:
        """Return the model of this name; opening it at its first request may take a while."""
        found = self._services.get(name)
        if found is not None:
            return found
        if name not in self.names():  # so a client cannot name any other path
            raise Problem(404, "there is no such model.")
        with self._door(name):
            if name not in self._services:
                if self._closed:
                    raise Problem(503, "the server is stopping.", Retry_After="5")
                folder = self._path / name if self._several else self._path
                try:
                    self._services[name] = Service(folder, turn=self._turn, **self._options)
                except MnemonError as error:
                    if self._several:
                        raise Problem(503, f"the model cannot be opened: {error}", Retry_After="60") from None
                    raise
            return self._services[name]

    def close(self) -> None:
        self._closed = True
        with self._lock:
            doors = dict(self._opening)
        for name, door in doors.items():
            with door:  # wait for a model that is being opened, then close it
                if name in self._services:
                    self._services[name].close()

    @property
    def failed(self) -> str | None:
        """The reason why a model accepts no more samples; None if all do."""
        reasons = [service.learning.failed or service.journal.failed for service in self.opened().values()]
        return next(filter(None, reasons), None)


def _folders(path: Path) -> list[Path]:
    return [folder for folder in path.iterdir() if folder.is_dir() and not is_clutter(folder.name)]
