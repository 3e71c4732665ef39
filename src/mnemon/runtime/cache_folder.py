"""The folder for what can be fetched or computed again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_dir() -> Path:
    """$MNEMON_DATA, else `mnemon` in the platform's cache folder."""
    chosen = os.environ.get("MNEMON_DATA")
    if chosen:
        return Path(chosen).expanduser().absolute()
    platform = str(sys.platform)
    if platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "")
        if not base.is_absolute():  # unset, or relative, which the XDG rules say to ignore
            base = Path.home() / ".cache"
    return base / "mnemon"
