"""`mnemon demo`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from mnemon.cli.command import Command
from mnemon.cli.options import flag
from mnemon.cli.output import results
from mnemon.cli.seeds import seeds as read_seeds
from mnemon.cli.serve import check_installed


def demo(
    out: Annotated[Path, arg(help="folder for the records and the report")] = Path("out/demo"),
    seeds: Annotated[str, arg(metavar="SEEDS", help="how many runs of each method, or which seeds (0-4, 1,3)")] = "5",
    serve: Annotated[
        bool, flag("instead, teach a model digits in the browser (needs the extra mnemon[serve])")
    ] = False,
) -> None:
    """Show the paper's claim on real handwritten digits: softmax forgets, the generative classifier does not.

    Runs fine-tune, ER (softmax and NCM) and the paper's hybrid on Split Digits, and writes a report. With --serve it opens a
    page on which you teach a model, which knows the digits 0 to 4, the others by drawing them.
    """
    if serve:
        _serve()
        return
    from mnemon import report
    from mnemon.experiments.runner import run_all
    from mnemon.experiments.spec import Spec
    from mnemon.runtime.progress import Progress

    rows = (("fine-tune", ()), ("er", ("softmax", "ncm")), ("hybrid", ("ncm",)))
    specs = [
        Spec(method, "split-digits", seed, classifiers=classifiers)
        for method, classifiers in rows
        for seed in read_seeds(seeds)
    ]
    results(run_all(specs, out, progress=Progress()))
    print(f"report: {report.write(out)}")


def _serve() -> None:
    """A server on a model in a temporary folder, until Ctrl-C."""
    check_installed()
    import tempfile
    import webbrowser

    from mnemon.runtime.signals import watched
    from mnemon.serve import digits
    from mnemon.serve.http import gate
    from mnemon.serve.http.models import Models
    from mnemon.serve.http.server import listening
    from mnemon.serve.http.server import serve as run

    token = gate.new_token()
    with (
        watched() as stop,
        tempfile.TemporaryDirectory(prefix="mnemon-demo-") as folder,
        listening("127.0.0.1", 0) as at,
    ):
        models = Models(Path(folder) / "digits", options=digits.OPTIONS, size=8, device="cpu")
        samples = digits.teach(models.get("digits"))
        address = f"http://127.0.0.1:{at.getsockname()[1]}/#token={token}"
        print(f"a model that learned {samples} digits, 0 to 4; draw it a 5 and teach it.\n{address}", flush=True)
        print("Ctrl-C ends it; the model is temporary, `mnemon serve MODEL` keeps one.", flush=True)
        if _has_display():
            webbrowser.open(address)
        run(models, at, [gate.token_of(token)], stop=stop)


def _has_display() -> bool:
    """Whether a browser would be seen: without a display, a text browser would take over the terminal."""
    graphical = sys.platform in ("win32", "darwin") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    return graphical and not os.environ.get("SSH_CONNECTION")


COMMANDS = (Command("demo", demo),)
