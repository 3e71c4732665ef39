"""The look of the pages, for what is drawn outside of them: the colours of templates/page.css."""

from __future__ import annotations

import re
from pathlib import Path

CSS = Path(__file__).with_name("templates").joinpath("page.css").read_text(encoding="utf-8")
LIGHT = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)[0]
