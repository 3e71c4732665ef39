"""The hybrid's trainings read in other ways than the tables do: by raw class means, and by its proxies at other scales."""

from __future__ import annotations

from mnemon.experiments.spec import Spec
from mnemon.paper import cells
from mnemon.paper.cells import SEEDS, Cell
from mnemon.paper.comparison import AGREES, NOT_RUN, NOTHING, legend, mark, ours, theirs, verdict
from mnemon.paper.results import Results
from mnemon.render import names
from mnemon.render.tables import Heading, Part, Table

SCALES = (2.0, 6.0, 10.0, 18.0, 32.0)  # of Proxy-NCA's cosine; 2 is the paper's formula
SCALE_READ_OUTS = {"ncm": "NCM", "ncm-raw": "NCM, raw", "proxy": "proxies"}
VALIDATION = range(100, 103)


def ncm_readings(results: Results) -> Table:
    """Hybrid's trainings read by class means of normalised features and of features as they are, beside the paper's."""
    columns = [Heading("stream")] + [
        Heading(name, metric) for metric in ("accuracy", "forgetting") for name in ("paper", "normalised", "raw")
    ]
    variants = {name: cells.row("hybrid")._replace(classifier=name) for name in ("ncm", "ncm-raw")}
    rows, absent = [], []
    judged: dict[str, list[str]] = {name: [] for name in variants}
    for stream in (*cells.SPLIT_STREAMS, *cells.SMOOTH_STREAMS):
        smooth = stream in cells.SMOOTH_STREAMS
        if not results.of(Cell(4 if smooth else 1, variants["ncm-raw"], stream)).judged:
            absent.append(names.stream(stream))
            continue
        line = [names.stream(stream)]
        for table in (4,) if smooth else (1, 2):
            line.append(theirs(Cell(table, variants["ncm"], stream)))
            for name, variant in variants.items():
                cell = Cell(table, variant, stream)
                line.append(f"{ours(results.of(cell))} {mark(cell, results.of(cell))}")
                judged[name].append(verdict(cell, results.of(cell)))
        rows.append(line + [NOTHING] * (len(columns) - len(line)))
    agree = {name: said.count(AGREES) for name, said in judged.items()}
    marks = legend([*judged["ncm"], *judged["ncm-raw"]])
    notes = [
        f"Percent. {marks} Of {len(judged['ncm'])} numbers {agree['ncm']} agree with normalised means and "
        f"{agree['ncm-raw']} with raw ones."
    ]
    notes += [f"Not read by raw means: {'; '.join(absent)}."] if absent else []
    return Table("ncm-readings", "Hybrid read by normalised and by raw class means", [Part(columns, rows)], notes)


def proxy_scales(results: Results) -> Table:
    """The hybrid at other scales of Proxy-NCA, read by class means and by its proxies, on the streams of Table 3."""
    columns = [Heading("stream"), Heading("scale")] + [
        Heading(name, split) for split in ("validation", "test") for name in SCALE_READ_OUTS.values()
    ]
    rows = []
    for stream in cells.ABLATION_STREAMS:
        means, proxies = (
            theirs(Cell(3, cells.ablation(f"hybrid + {name}"), stream)) for name in ("NCM (normalised)", "proxy")
        )
        rows.append([names.stream(stream), "paper", *[NOTHING] * 3, means, NOTHING, proxies])
        for scale in SCALES:
            line = [names.stream(stream), f"{scale:g}"]
            for split, seeds in (("valid", VALIDATION), ("test", SEEDS)):
                spec = Spec("hybrid", stream, split=split, options={"scale": scale})
                for name in SCALE_READ_OUTS:
                    found = results.runs(spec, name, seeds).estimate
                    line.append(NOT_RUN if found is None else found.text())
            rows.append(line)
    notes = [
        f"Average Accuracy, percent, mean ± half-width of the 95 % interval: seeds {VALIDATION.start} to {VALIDATION[-1]} on "
        f"validation samples, {len(SEEDS)} seeds on test images."
    ]
    return Table("proxy-scales", "Hybrid at other scales of Proxy-NCA", [Part(columns, rows)], notes)
