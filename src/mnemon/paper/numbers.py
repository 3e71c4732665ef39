"""What the paper reports: its Tables 1 to 7. Accuracies in percent, mean ± half-width of the 95 % interval over 15 runs.

Its Figures 4 and 5 print no numbers; what the text says of them is in claims/entries.py.

The tables are kept as text, row by row and column by column as they are printed, so that they can be checked against
the paper by eye. Rows and columns carry our names; "-" is a cell the paper leaves empty.
"""

from __future__ import annotations

from typing import NamedTuple

from mnemon.experiments.stats import Estimate

RUNS = 15
QUOTED = frozenset({"aser"})  # numbers the paper took over from the method's own paper

# Table 1: Average Accuracy on Split streams.
TABLE_1 = """
             split-mnist split-cifar10 split-cifar100-10 split-cifar100-20 split-mini_imagenet-10 split-mini_imagenet-20
fine-tune    19.66±0.05  18.40±0.17    6.26±0.30         3.61±0.24         4.43±0.19              3.12±0.15
er           82.34±2.48  39.88±1.52    11.59±0.26        8.95±0.26         10.24±0.41             8.33±0.66
a-gem        25.99±1.62  18.01±0.17    6.48±0.18         3.66±0.09         4.68±0.11              3.37±0.13
gss          83.88±0.72  39.07±2.02    10.78±0.28        7.94±0.47         9.20±0.61              7.76±0.35
mir          86.81±0.95  42.10±1.27    11.52±0.37        8.61±0.34         9.99±0.49              7.93±0.70
gmed-er      81.71±1.87  42.65±1.27    11.86±0.36        9.16±0.47         9.53±0.66              8.14±0.58
gmed-mir     88.70±0.81  44.53±2.23    11.58±0.51        8.48±0.37         9.24±0.53              7.75±0.80
cope         87.58±0.65  47.36±0.96    10.79±0.36        9.11±0.44         11.03±0.68             9.92±0.61
aser         -           43.50±1.40    14.00±0.40        -                 12.20±0.80             -
hybrid       88.79±0.26  51.84±0.91    15.56±0.39        13.65±0.35        16.05±0.38             15.15±0.36
iid-online   86.35±0.64  62.37±1.36    20.62±0.48        20.62±0.48        18.02±0.63             18.02±0.63
iid-offline  92.44±0.61  79.90±0.51    45.59±0.29        45.59±0.29        38.63±0.59             38.63±0.59
"""

# Table 2: Average Forgetting on Split streams.
TABLE_2 = """
             split-mnist split-cifar10 split-cifar100-10 split-cifar100-20 split-mini_imagenet-10 split-mini_imagenet-20
fine-tune    99.24±0.09  85.45±0.63    51.60±0.77        65.51±0.78        41.12±0.82             52.99±0.89
er           18.33±1.77  52.72±1.90    45.94±0.55        57.31±0.71        36.05±0.78             47.70±0.90
a-gem        89.90±2.02  82.80±0.73    54.15±0.42        67.61±0.53        43.31±0.52             54.47±0.78
gss          15.13±0.99  49.96±2.82    44.30±0.57        53.87±0.54        36.17±0.58             45.91±0.79
mir          9.71±1.39   44.34±2.65    46.52±0.52        56.58±0.62        36.98±0.78             45.84±1.11
gmed-er      16.21±2.70  44.93±1.68    46.35±0.50        57.76±0.94        35.22±1.16             45.08±1.28
gmed-mir     12.52±1.05  39.88±2.23    46.56±0.65        58.14±0.55        34.79±1.01             45.50±1.49
cope         9.51±1.15   40.01±1.80    36.51±0.86        43.82±0.62        29.43±0.98             40.99±1.02
aser         -           47.90±1.60    45.00±0.70        -                 28.00±1.30             -
hybrid       9.36±0.37   35.37±1.35    21.79±0.69        27.10±1.10        21.26±0.59             24.98±0.87
"""

# Table 3: Average Accuracy by training loss and classifier, everything else as in ER.
TABLE_3 = """
                split-cifar10 split-cifar100-20
ce+softmax      39.88±1.52    8.95±0.26
ce+ncm          44.46±0.95    8.96±0.38
ms+ncm          51.72±1.02    9.99±0.32
pnca+ncm        41.91±1.78    9.31±0.58
hybrid+proxy    48.16±1.21    7.02±0.75
hybrid+ncm      51.84±0.91    13.65±0.35
"""

# Table 4: final accuracy on Smooth streams.
TABLE_4 = """
             smooth-cifar10 smooth-cifar100 smooth-mini_imagenet
fine-tune    10.02±0.03     1.02±0.03       1.02±0.04
er           20.89±2.07     3.84±0.42       6.85±0.70
mir          18.75±2.53     4.35±0.53       6.09±1.04
gmed-mir     18.78±2.31     3.68±0.48       7.22±0.81
hybrid       34.18±0.81     10.54±0.38      12.24±0.19
iid-online   31.23±2.11     18.08±0.62      17.23±0.42
iid-offline  48.37±1.23     42.68±0.37      39.82±0.46
"""

# Table 5: the Split streams. (The paper has one column for both numbers of tasks.)
TABLE_5 = """
                        image    classes  train  valid  test   tasks  per_task
split-mnist             1×32×32  10       5000   10000  10000  5      2
split-cifar10           3×32×32  10       47500  2500   10000  5      2
split-cifar100-10       3×32×32  100      47500  2500   10000  10     10
split-cifar100-20       3×32×32  100      47500  2500   10000  20     5
split-mini_imagenet-10  3×84×84  100      45600  2400   12000  10     10
split-mini_imagenet-20  3×84×84  100      45600  2400   12000  20     5
"""

# Table 6: the Smooth streams; the smallest and the largest class over the 15 streams.
TABLE_6 = """
                      classes  train  valid  test   mean  smallest  largest
smooth-cifar10        10       5000   2500   10000  500   464       536
smooth-cifar100       100      40000  2500   10000  400   357       450
smooth-mini_imagenet  100      40000  2400   12000  400   354       446
"""

# Table 7: the paper's choice of γ and η for its own method; one for both numbers of tasks.
TABLE_7 = """
                      gamma  lr
split-mnist           0.1    0.05
split-cifar10         0.1    0.2
split-cifar100        0.5    0.35
split-mini_imagenet   1      0.2
smooth-cifar10        0.1    0.25
smooth-cifar100       1      0.5
smooth-mini_imagenet  1      0.2
"""


class Reported(NamedTuple):
    """What the paper prints for one method on one stream; forgetting only where Table 2 has it."""

    accuracy: Estimate
    forgetting: Estimate | None
    table: int  # the number of the table the accuracy is in


def words(table: str) -> dict[tuple[str, str], str]:
    """(row, column) → what is printed there, in the order of the table; empty cells are left out."""
    head, *rows = table.strip().splitlines()
    columns = head.split()
    cells: dict[tuple[str, str], str] = {}
    for row in rows:
        name, *values = row.split()
        cells |= {(name, column): value for column, value in zip(columns, values, strict=True) if value != "-"}
    return cells


def parse(table: str) -> dict[tuple[str, str], Estimate]:
    """The same for a table of means and intervals."""
    pairs = {place: value.split("±") for place, value in words(table).items()}
    return {place: Estimate(float(mean), float(half), RUNS) for place, (mean, half) in pairs.items()}


ACCURACY = parse(TABLE_1)
FORGETTING = parse(TABLE_2)
ABLATION = parse(TABLE_3)
SMOOTH = parse(TABLE_4)
SPLIT_STREAMS = words(TABLE_5)
SMOOTH_STREAMS = words(TABLE_6)
CHOSEN = {place: float(value) for place, value in words(TABLE_7).items()}

# We read the row "CE loss, NCM" as nearest means of the features as they are: normalising comes with the metric losses.
ABLATION_ROWS = {
    ("ce", "softmax"): "ce+softmax",
    ("ce", "ncm-raw"): "ce+ncm",
    ("ms", "ncm"): "ms+ncm",
    ("pnca", "ncm"): "pnca+ncm",
    ("hybrid", "proxy"): "hybrid+proxy",
    ("hybrid", "ncm"): "hybrid+ncm",
}


def memory_size(stream: str) -> int:
    """The rows of the replay memory behind the numbers of a stream."""
    return 500 if stream == "split-mnist" else 1000


def reported(method: str, stream: str, loss: str | None = None, classifier: str | None = None) -> Reported | None:
    """What the paper reports for this cell, or None; a loss or classifier not given is the method's own."""
    own = {"hybrid": ("hybrid", "ncm"), "cope": ("cope", "prototype")}.get(method, ("ce", "softmax"))
    pair = (loss or own[0], classifier or own[1])
    if method in ("er", "hybrid"):
        # The two differ in nothing but their loss and classifier, so the names of those decide.
        twins = {("ce", "softmax"): "er", ("hybrid", "ncm"): "hybrid"}
        if pair not in twins:
            printed = ABLATION.get((ABLATION_ROWS.get(pair, ""), stream))
            return Reported(printed, None, 3) if printed else None
        method = twins[pair]
    elif pair != own:
        return None
    if printed := SMOOTH.get((method, stream)):
        return Reported(printed, None, 4)
    if printed := ACCURACY.get((method, stream)):
        return Reported(printed, FORGETTING.get((method, stream)), 1)
    return None
