"""TensorBoard: a folder with an event file for each record.

A file is written whole or not at all, and its name holds the record's digest, so the files are all there is to know of what was
exported. The same record gives the same bytes. Of the package `tensorboard` only the messages and the framing of event files
are used, not its writer, which would import TensorFlow where that is installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar
from urllib.parse import quote as escaped

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.trackers.contents import Contents
from mnemon.trackers.tracker import Tracker

FILE = re.compile(r"events\.out\.tfevents\.\d+\.mnemon\.([0-9a-f]+)")


class TensorBoard(Tracker):
    """DIR/RUN+CLASSIFIER/events.out.tfevents.TIME.mnemon.DIGEST"""

    name: ClassVar[str] = "tensorboard"
    place_is: ClassVar[str] = "DIR"

    def __init__(self, place: str) -> None:
        try:
            import tensorboard.plugins.hparams.summary_v2  # noqa: F401
        except ImportError:
            raise MnemonError("exporting to TensorBoard needs the extra: pip install 'mnemon[tensorboard]'.") from None
        self._folder = Path(place)
        if self._folder.exists() and not self._folder.is_dir():
            raise MnemonError(f"{place} is a file; name a folder for TensorBoard's event files.")

    def digest(self, name: str) -> str | None:
        folder = self._of_run(name)
        with files.explained(f"{folder} cannot be read"):
            there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        return next((match[1] for file in there if (match := FILE.fullmatch(file))), None)

    def write(self, contents: Contents) -> None:
        folder = self._of_run(contents.name)
        content = b"".join(_framed(event) for event in _events(contents))
        path = folder / f"events.out.tfevents.{int(contents.finished):010}.mnemon.{contents.digest}"
        with files.explained(f"{contents.name} could not be exported to {self._folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            # A TensorBoard that is running reads every file whose name holds "tfevents".
            files.replace(path, lambda part: part.write_bytes(content), part_name="unfinished")

    def look(self) -> str:
        return f"tensorboard --logdir {quote(str(self._folder))}"

    def _of_run(self, name: str) -> Path:
        """A name is a record's, which anybody may have written: it becomes one folder, here."""
        return self._folder / escaped(name, safe=" +=:@").replace(":", ",")  # Windows allows no colon


def _events(contents: Contents) -> Iterator[Any]:
    """What the file says: its version, hyper-parameters, curves, results, the picture, the end of the run."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2, summary_v2

    def event(step: int, *values: Any) -> Any:
        return Event(wall_time=contents.finished, step=step, summary=Summary(value=values))

    yield Event(wall_time=contents.finished, file_version="brain.Event:2")
    # Runs that differ in their seed alone are one line of the HParams tab, which shows their mean.
    session = summary_v2.hparams_pb(
        contents.hyper_parameters, trial_id=contents.group, start_time_secs=contents.started
    )
    yield event(0, *session.value)
    last = 0
    for tag, points in contents.curves.items():
        last = max(last, *(point.step for point in points)) if tag.startswith("over_") else last
        for step, value in points:
            yield event(step, Summary.Value(tag=tag, simple_value=value))
    for tag, value in contents.results.items():
        yield event(last, Summary.Value(tag=tag, simple_value=value))
    if (png := contents.picture()) is not None:
        width, height = (int.from_bytes(png[start : start + 4]) for start in (16, 20))  # of PNG's first chunk
        image = Summary.Image(width=width, height=height, colorspace=4, encoded_image_string=png)
        yield event(last, Summary.Value(tag="task_accuracy/matrix", image=image))
    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS, end_time_secs=contents.finished)
    about = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(session_end_info=end))
    ended = Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=about, tensor=metadata.NULL_TENSOR)
    yield event(0, ended)


def _framed(event: Any) -> bytes:
    """A message as it stands in an event file, with its length and checksums."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    file = BytesIO()
    RecordWriter(file).write(event.SerializeToString(deterministic=True))
    return file.getvalue()
