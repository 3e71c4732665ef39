"""The claims of the paper's text, in the order of the table."""

from __future__ import annotations

from mnemon.experiments.stats import Estimate
from mnemon.paper import cells, numbers
from mnemon.paper.cells import ablation, row
from mnemon.paper.claims import special
from mnemon.paper.claims.kinds import Best, Claim, Differences, OnEachStream, Special, StepTimes, baselines
from mnemon.paper.claims.special import NEARLY_FREE, WILDER
from mnemon.paper.claims.verdicts import (
    CONTRADICTED,
    DEPENDS,
    FAR,
    UNDECIDED,
    Finding,
    above,
    below,
    far_above,
    far_below,
    not_above,
)
from mnemon.paper.comparison import NOT_RUN
from mnemon.paper.results import Absent, Results
from mnemon.render.tables import Part, Table, headings

A_BIT = 1.15  # times the training time, at most
MARKEDLY = 1.5  # times the training time, at least
CLEARLY = 1.0  # points above ER on CIFAR-100, at least

RULES = (
    "Differences are over runs with the same seed, mean ± half-width of the 95 % interval over 15 of them (n = … where fewer). "
    "In each case that a claim speaks of, a stream or a size, it holds or does not hold where the interval excludes zero. "
    f"Confirmed: it holds in all; so far: not all methods or streams were run; {DEPENDS}: in some; {CONTRADICTED}: in none, "
    f"and in some the opposite holds; {UNDECIDED}: no interval excludes zero. That nothing helps, or that a baseline is "
    f"competitive, holds unless the interval says otherwise. About 3 % of test time is up to {NEARLY_FREE} %, a bit longer "
    f"training up to {A_BIT} times, markedly longer from {MARKEDLY} times on, clearly above ER from {CLEARLY:g} point on, far "
    f"less forgetting from {FAR:g} points on (the smallest difference that the paper calls so), unstable a worse mean or "
    f"{WILDER} times the standard deviation, only the last class an interval (or 0.1 points) around its share, almost always "
    f"the highest mean after {100 * special.ALMOST:g} % of the tasks. Where a verdict rests on a baseline whose number does "
    "not agree with the paper's, the entry says so."
)

TEN, TWENTY = cells.ABLATION_STREAMS  # CIFAR-10, CIFAR-100 in 20 tasks
SOFTMAX, NCM, NCM_RAW = (ablation(f"CE + {name}") for name in ("softmax", "NCM (normalised)", "NCM (raw)"))
HYBRID = ablation("hybrid + NCM (normalised)")
NOT_ABOVE_ER = tuple(rival for rival in baselines(1) if rival.method not in ("fine-tune", "er", "aser"))


def _not_clearly_above(difference: Estimate) -> bool:
    return not (difference.sign > 0 and difference.mean >= CLEARLY)


CLAIMS: tuple[Claim, ...] = (
    Special("Under softmax the logits of the newest classes dominate", special.new_logits_dominate),
    Best("The method is better than every baseline on every Split stream", table=1, kind="Split"),
    Special("It is almost always the best during the whole training (Figure 3)", special.best_all_along),
    OnEachStream(
        "It is clearly better than ASER",
        rows=(row("hybrid"),),
        other=row("aser"),
        streams=tuple(stream for method, stream in numbers.ACCURACY if method == "aser"),
        table=1,
        rule=above,
        written="{points}",
        prefix="hybrid minus ASER, points: ",
        needs="hybrid and ASER on a Split stream that the paper has ASER's number of",
    ),
    Differences(
        "On MNIST GMED-MIR is competitive with it",
        pairs=((row("hybrid"), row("gmed-mir"), "split-mnist"),),
        rule=not_above,
        written="hybrid minus GMED-MIR: {} points",
    ),
    Best("It is the best on every Smooth stream", table=4, kind="Smooth"),
    OnEachStream(
        "No baseline but ASER is clearly above ER on CIFAR-100",
        rows=NOT_ABOVE_ER,
        other=row("er", "softmax"),
        streams=("split-cifar100-10", "split-cifar100-20"),
        table=1,
        rule=_not_clearly_above,
        written="the best is {name}, {points} points over ER ({run})",
        beside=(row("aser"),),
        needs=f"ER and one of {', '.join(rival.name for rival in NOT_ABOVE_ER)} on Split CIFAR-100",
    ),
    OnEachStream(
        "It forgets far less than ER",
        rows=(row("hybrid"),),
        other=row("er", "softmax"),
        streams=cells.SPLIT_STREAMS,
        table=2,
        rule=far_below,
        written="{points}",
        prefix="hybrid minus ER, points: ",
        needs="hybrid and ER on a Split stream",
    ),
    OnEachStream(
        "It forgets far less than every softmax method, except on MNIST",
        rows=tuple(rival for rival in baselines(2) if rival.classifier == "softmax"),
        other=row("hybrid"),
        streams=cells.SPLIT_STREAMS,
        table=2,
        rule=far_above,
        written="{points} to {name} ({run})",
        nearest=min,
        sign=-1,
        prefix="hybrid minus the softmax method nearest to it, points: ",
        unjudged=("split-mnist",),
        needs="hybrid and a softmax baseline on a Split stream of CIFAR or miniImageNet",
    ),
    Differences(
        "NCM instead of softmax helps cross-entropy on CIFAR-10",
        pairs=((NCM_RAW, SOFTMAX, TEN), (NCM, SOFTMAX, TEN)),
        rule=above,
        judged=1,
        written="{} points raw, {} normalised",
    ),
    Differences(
        "NCM does not help cross-entropy on CIFAR-100",
        pairs=((NCM_RAW, SOFTMAX, TWENTY), (NCM, SOFTMAX, TWENTY)),
        rule=not_above,
        judged=1,
        written="{} points raw, {} normalised (20 tasks)",
    ),
    OnEachStream(
        "With a discriminative loss NCM gives no good results: it needs a generative one",
        rows=(row("er", "ncm"),),
        other=row("hybrid"),
        streams=(*cells.SPLIT_STREAMS, *cells.SMOOTH_STREAMS),
        table=1,
        rule=below,
        written="{points}",
        prefix="ER minus hybrid, both with NCM, points: ",
        needs="hybrid and ER, both read by NCM",
    ),
    Special("MS alone degrades as the classes of a batch grow", special.ms_degrades),
    Differences(
        "With the hybrid loss, NCM beats its own proxies",
        pairs=((HYBRID, ablation("hybrid + proxy"), TEN), (HYBRID, ablation("hybrid + proxy"), TWENTY)),
        rule=above,
        written="NCM minus proxies: {} points on CIFAR-10, {} on CIFAR-100 (20 tasks)",
    ),
    Differences(
        "MS is critical for NCM (PNCA alone is worse)",
        pairs=tuple((HYBRID, ablation("PNCA + NCM (normalised)"), stream) for stream in (TEN, TWENTY)),
        rule=above,
        written="hybrid minus PNCA alone, both with NCM: {} points on CIFAR-10, {} on CIFAR-100 (20 tasks)",
    ),
    Special("Cross-entropy is unstable at η = 0.2", special.ce_is_unstable),
    Special("On Smooth streams fine-tune knows only the last class", special.only_the_last_class),
    Special("ER and MIR are clearly worse on Smooth streams than on Split ones", special.worse_on_smooth),
    Special("NCM costs about 3 % of test time", special.ncm_costs_little),
    StepTimes(
        "Training takes only a bit longer than ER",
        methods=("hybrid",),
        holds=lambda ratio: ratio <= A_BIT,
        written="{ratios} ER ({device})",
        needs="training times (`mnemon reproduce fig4`)",
    ),
    StepTimes(
        "GSS, MIR and GMED take markedly longer than ER",
        methods=("gss", "mir", "gmed-er", "gmed-mir"),
        holds=lambda ratio: ratio >= MARKEDLY,
        written="{ratios} ER's step ({timed}, {device})",
        needs="training times of GSS, MIR or GMED (`mnemon reproduce fig4`)",
    ),
    Special("It is better than ER at every size of the memory", special.better_at_every_size),
    Special("The gain is small at memory 500 on CIFAR-100", special.small_gain_at_500),
)


def check(results: Results) -> Table:
    """Every claim with its verdict and numbers."""
    rows = []
    for claim in CLAIMS:
        try:
            found = claim.judge(results)
        except Absent as why:
            found = Finding(NOT_RUN, f"needs {why}" if not str(why).startswith("no ") else str(why))
        rows.append([claim.text, found.verdict, found.numbers])
    part = Part(headings("the paper says", "our records", "number"), rows)
    return Table("claims", "What the paper's text claims", [part], [RULES])
