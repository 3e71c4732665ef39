"""Print the lowest versions that pyproject.toml allows, as constraints for pip (`make test-lowest`).

Of the dependencies and of the extras named as arguments. torch stays at the version of constraints.txt: another one may compute
other bytes, and most versions exist for other CUDA toolkits only.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = "torch"


def lowest(extras):
    """NAME==LOWEST of each requirement."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    pinned = re.search(rf"^{KEPT}==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    found = [pinned[0]]
    for requirement in asked:
        name, bound, version = re.fullmatch(r"([\w-]+)(>=)?([\w.]*)", requirement).groups()
        assert bound, f"{requirement!r} has no lowest version"
        found += [f"{name}=={version}"] * (name != KEPT)
    return found


if __name__ == "__main__":
    print(*lowest(sys.argv[1:]), sep="\n")
