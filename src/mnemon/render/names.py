"""How methods, streams, labels and numbers are written on the page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mnemon import data
from mnemon.experiments.record import Variant
from mnemon.experiments.stats import fixed as fixed  # a number is written in one way everywhere
from mnemon.experiments.stats import minus
from mnemon.learning import plugins
from mnemon.streams.kinds import kinds, schedule

METHODS = {  # in the order of the paper's tables; methods not named here come before the paper's own
    "fine-tune": "fine-tune",
    "er": "ER",
    "a-gem": "A-GEM",
    "gss": "GSS",
    "mir": "MIR",
    "gmed-er": "GMED-ER",
    "gmed-mir": "GMED-MIR",
    "cope": "CoPE",
    "aser": "ASER",
    "er-ace": "ER-ACE",
    "er-aml": "ER-AML",
    "der++": "DER++",
    "scr": "SCR",
    "pcr": "PCR",
    "las": "LAS",
    "hybrid-ace": "hybrid-ACE",
    "hybrid": "hybrid",
    "iid-online": "i.i.d. online",
    "iid-offline": "i.i.d. offline",
}
UPPER_BOUNDS = ("iid-online", "iid-offline")
BOUNDS = ("fine-tune", *UPPER_BOUNDS)  # they have one classifier, so the name alone is enough
THE_PAPERS = Variant("hybrid", "hybrid", "ncm")  # the method the paper proposes
CLASSIFIERS = {"softmax": "softmax", "ncm": "NCM", "ncm-raw": "NCM on raw features"}
SYMBOLS = {"lr": "η", "gamma": "γ", "edit_rate": "α", "edit_hold": "β", "logit_weight": "a", "pair_weight": "γ"}
LOSSES = {"ce": "CE", "ms": "MS", "pnca": "PNCA", "ace": "ACE", "hybrid-ce": "hybrid-CE"}
OPTIONS = {"memory_size": "memory", "batch_size": "batch", "replay_size": "replay"}
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def method_order(method: str) -> int:
    known = list(METHODS)
    return known.index(method) if method in METHODS else known.index("hybrid-ace")


def variant(of: Variant) -> str:
    """ER + NCM; the loss only where it is not the method's own: ER (MS loss) + NCM."""
    name = training(of.method, of.loss)
    if of.method in BOUNDS and of.classifier == "softmax":
        return name
    return f"{name} + {CLASSIFIERS.get(of.classifier, text(of.classifier))}"


def training(method: str, loss: str) -> str:
    """ER, or ER (MS loss); the loss of a method that is not known here is always named, since it may not be its own."""
    name, known = METHODS.get(method, text(method)), plugins.known("method").get(method)
    own = known is not None and known.default_objective == loss
    return name if own else f"{name} ({LOSSES.get(loss, text(loss))} loss)"


def settings(values: dict[str, Any]) -> str:
    """η 0.05, γ 0.1"""
    return ", ".join(f"{SYMBOLS.get(name, name)} {value}" for name, value in values.items())


def stream(name: str, *, with_tasks: bool = True) -> str:
    """split-cifar100-20 → Split CIFAR-100, 20 tasks; smooth-cifar10-0.25 → Smooth CIFAR-10, spread 0.25."""
    kind, _, rest = name.partition("-")
    dataset, _, parameters = rest.partition("-")
    known, found = kinds().get(kind), schedule(name)
    title = f"{known.title if known else text(kind).capitalize()} {text(data.title(dataset))}".strip()
    said = found.words() if found else text(parameters)
    return f"{title}, {said}" if said and (with_tasks or not (found and found.has_tasks)) else title


def option(name: str, value: Any) -> str:
    return f"{OPTIONS.get(name, text(name))} {number(value) if isinstance(value, float) else text(value)}"


def text(value: Any) -> str:
    """Anything from a record as one line; characters XML does not allow become a dot."""
    return "".join(c if c.isprintable() else "·" for c in str(value))


def short(value: Any, length: int) -> str:
    written = text(value)
    return written if len(written) <= length else written[: length - 1] + "…"


def number(value: float) -> str:
    """0.05, 2, 50: as short as it is exact."""
    return minus(f"{value:g}")


def thousands(value: int) -> str:
    return f"{value:,}"


def word(count: int) -> str:
    """Small numbers as words."""
    return WORDS[count] if count < len(WORDS) else thousands(count)


def plural(count: int, noun: str) -> str:
    return f"{thousands(count)} {noun}{'' if count == 1 else 's'}"


def ranges(numbers: Iterable[int], dash: str = "–") -> str:
    """0, 1, 2, 5 → 0–2, 5."""
    parts: list[list[int]] = []
    for n in sorted(set(numbers)):
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    joint = ", " if dash == "–" else ","
    return joint.join(f"{a}" if a == b else f"{a}{dash}{b}" for a, b in parts)


def seeds(numbers: Iterable[int]) -> str:
    """As `--seeds` takes them: 15 for 0 to 14, else 3-5,8; a single seed as a range of one, since a bare number is a count."""
    found = sorted(set(numbers))
    if found == list(range(len(found))):
        return str(len(found))
    return f"{found[0]}-{found[0]}" if len(found) == 1 else ranges(found, "-")


def seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"
