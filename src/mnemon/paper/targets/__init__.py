"""The targets of `mnemon reproduce`, and everything that a document can ask for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from mnemon.learning.methods import methods
from mnemon.paper import agreement, cells, device_time, documents, hybrid_readings, pages, searches
from mnemon.paper.results import Results
from mnemon.paper.targets.target import Block, FigureTarget, Target
from mnemon.render import markup
from mnemon.render.tables import Table

# The files of this folder, in the order their TARGETS are planned and written. A new target is a file and its name here.
FAMILIES = (
    "result_tables",
    "stream_tables",
    "hyperparameters",
    "fig1",
    "fig2",
    "fig3",
    "fig4",
    "fig5",
    "ranking",
    "sensitivity",
    "beyond",
    "claims",
)
TARGETS: tuple[Target, ...] = tuple(
    target for family in FAMILIES for target in import_module(f"{__name__}.{family}").TARGETS
)


def _figures(results: Results, beside: Path) -> str:
    """All of the paper's figures."""
    captions = {
        n: text for t in TARGETS if isinstance(t, FigureTarget) for n, text in t.captions.items() if n.startswith("fig")
    }
    return documents.pictures(results.out / "figures", captions, beside)


def _table(make: Callable[[str, Results], Table], name: str) -> Block:
    return lambda results, _: markup.markdown(make(name, results))


# The name a document asks with → what stands there.
BLOCKS: dict[str, Block] = {
    **{name: block for target in TARGETS for name, block in target.blocks().items()},
    "figures": _figures,
    "device-time": lambda results, _: device_time.sentence(results),
    "searches": lambda results, _: searches.markdown(results.out),
    **{name: _table(pages.one_stream, name) for name in cells.SPLIT_STREAMS},
    **{f"method-{name}": _table(pages.one_method, name) for name in methods()},
    "step-times": lambda results, _: markup.markdown(pages.step_times(results)),
    "agreement": lambda results, _: markup.markdown(agreement.table(results)),
    "ncm-readings": lambda results, _: markup.markdown(hybrid_readings.ncm_readings(results)),
    "proxy-scales": lambda results, _: markup.markdown(hybrid_readings.proxy_scales(results)),
}
