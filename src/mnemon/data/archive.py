"""Reading chosen members of a tar archive, without writing anything to disk."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from mnemon.errors import MnemonError

# Dataset archives have a dozen members and under 200 MB; these bound the work an archive made to hurt can cause.
MAX_MEMBERS = 1000
MAX_TOTAL = 1 << 30  # bytes


def members(source: Path | bytes, limits: Mapping[str, int]) -> tuple[dict[str, bytes], set[str]]:
    """The members whose base names are in `limits` (the most bytes each may have), and every base name met.

    Members are read by name and never extracted, so no path inside the archive is ever used as a path.
    """
    label = source.name if isinstance(source, Path) else "the downloaded archive"
    found: dict[str, bytes] = {}
    met: set[str] = set()
    total = 0
    try:
        stream = source.open("rb") if isinstance(source, Path) else io.BytesIO(source)
        with stream, tarfile.open(fileobj=stream, mode="r:*") as tar:
            for count, member in enumerate(tar):
                total += member.size
                if count >= MAX_MEMBERS or total > MAX_TOTAL:
                    raise MnemonError(f"{label} is larger than any archive of this dataset; it was not read.")
                name = PurePosixPath(member.name).name
                met.add(name)
                if name not in limits or name in found or not member.isfile():
                    continue
                if member.size > limits[name]:
                    raise MnemonError(f"{name} in {label} has {member.size} bytes, more than {limits[name]}.")
                reader = tar.extractfile(member)
                assert reader is not None  # it is a regular file
                found[name] = reader.read()
                if len(found) == len(limits):
                    break
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise MnemonError(f"{label} is not a whole tar archive ({error}).") from error
    return found, met
