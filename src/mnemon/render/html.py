"""Pages from the templates in templates/: everything that is put into one is escaped, unless the template says `|safe`.

Only what this package makes itself is said to be safe: the style sheet and drawings. A page is one file and loads nothing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mnemon.render import names
from mnemon.render.style import CSS
from mnemon.render.svg import swatch


def page(template: str, **values: Any) -> str:
    """Fill a template."""
    return _environment().get_template(template).render(css=CSS, **values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelt name is an error, not an empty place
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"line": names.text, "thousands": names.thousands}
    made.globals |= {"swatch": swatch, "plural": names.plural}
    return made
