"""Small tables a model can learn at once: three classes, four features, the same rows in every format."""

import csv
import json

import numpy as np

NAMES = ("wren", "robin", "tit")
FEATURES = ("a", "b", "c", "d")


def rows(n, start=0):
    """Rows `start` … of one endless table."""
    found = []
    for number in range(start, start + n):
        rng = np.random.default_rng([7, number])
        label = int(rng.integers(len(NAMES)))
        values = (rng.normal(size=4) + 4 * np.eye(4)[label]).round(6).tolist()
        found.append(dict(zip(FEATURES, values, strict=True)) | {"bird": NAMES[label]})
    return found


def write(path, found):
    """By the suffix of the path; returns it."""
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(
                file, list(found[0]), delimiter="\t" if path.suffix == ".tsv" else ",", lineterminator="\n"
            )
            writer.writeheader()
            writer.writerows(found)
    elif path.suffix in (".ndjson", ".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in found))
    elif path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(found), path)
    else:
        x = np.array([[row[name] for name in FEATURES] for row in found])
        np.savez(path, x=x, y=np.array([row["bird"] for row in found]))
    return path
