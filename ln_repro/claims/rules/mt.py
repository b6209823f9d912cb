"""MT-1 to MT-7, WMT-1 and WMT-2: translation (sections 3.2 and 4, appendix H), on IWSLT14, WMT14 and other data."""

import math

from ln_repro.claims import metrics
from ln_repro.claims.criteria import Claim, Criterion, Either, Report, Rule, Trains, Within
from ln_repro.claims.metrics import BLEU, LOSS, SHARE
from ln_repro.claims.over_rates import AtBestRates, JustAboveNothing, NotStarved, RateFactor
from ln_repro.claims.rules.amendments import AMENDED, AUDITED, CORRECTED, CORRECTED_AMENDMENT, FIRST, SECOND

LITERAL, ANCHORED = "T = 1, as the paper has it", "only the ramp left out"
"""The paper's reading of "no warm-up", which also lowers all later rates, and the one that changes nothing else."""
FAILED_BLEU, TRAINED_BLEU = 15.0, 30.0  # on IWSLT14, a run fails below the first BLEU and trains at or above the second
FASTER, NO_FASTER = 1.3, 1.1
"""Ratio of Post-LN's to Pre-LN's time to the target: at least the first, Pre-LN is faster; at most the second, not."""
EITHER = 0.975
"""Confidence level of each of two intervals if one of them must hold, so that the pair has a level of 95 %."""
LOSS_MARGIN = 0.15  # maximum difference in loss, in bits, between arms that count as comparable
LOWER_BLEU, HIGHER_LOSS = (-math.inf, -1.0), (LOSS_MARGIN, math.inf)
"""Differences to Post-LN that contradict "comparable"; in the other direction, Pre-LN is better than claimed."""


def _needs_warm_up(id: str, reading: str, without: str, least: float, grid: str, *controls: str) -> Claim:
    return Claim(
        id, f"Post-LN needs warm-up at higher rates ({reading})", "section 3.2, figure 2",
        "8.45 BLEU without warm-up (text), about 34 with it (text; plotted plateau 33.1)",
        "8.45 and 34 BLEU" if reading == LITERAL else "8.45 and 34 BLEU, T = 1",
        Rule((
            Within(BLEU, ("postln_warm",), 32, 35.5),
            Within(BLEU, (without,), least, FAILED_BLEU, (FAILED_BLEU, math.inf)),
            Within(BLEU.minus(), ("postln_warm", without), 15),
            *(Report(BLEU, (control,)) for control in controls),
        ), AUDITED),
        Rule((RateFactor(("postln_warm", without)),), SECOND),
        grid=f"{grid} arms={','.join(('postln_warm', without, *controls))}", controls=controls,
    )  # fmt: skip


def _same_under_sgd(id: str, reading: str, suffix: str, criterion: Criterion) -> Claim:
    warm = ("postln_warm_sgd", "postln_warm_sgd_low")
    none = (f"postln_nowarm_sgd{suffix}", f"postln_nowarm_sgd_low{suffix}")
    return Claim(
        id, f"Post-LN under SGD needs warm-up ({reading})", "section 3.2, figure 2",
        "without warm-up just above 0 BLEU in 15 epochs; with it better, but significantly worse than Adam (text)",
        "just above 0 BLEU",
        Rule((
            *(Within(BLEU, (arm,), high=2) for arm in none),
            Either((Within(BLEU.minus(), (warm[0], none[0]), 0, level=EITHER),
                    Within(BLEU.minus(), (warm[1], none[1]), 0, level=EITHER)), "at one of the two rates"),
            *(Within(BLEU.minus(), ("postln_warm", arm), 5) for arm in warm),
        ), FIRST),
        Rule((criterion,), SECOND),
        grid=f"rates_sgd arms={warm[0]},{none[0]}",
    )  # fmt: skip


AT_BOTH_RATES = (("preln_nowarm", "postln_warm"), ("preln_nowarm_high", "postln_warm_high"))
"""The arms that are compared on WMT14."""
FALL = metrics.TIMES_TO_FALL
BETWEEN = (
    Within(metrics.LOSS_GAP, ("postln_nowarm_literal_high", "postln_nowarm_fixed"), 0),
    Within(metrics.ABOVE_THE_BETTER, ("postln_nowarm_fixed", "postln_warm", "preln_nowarm"), 0),
)
"""A small fixed rate is better than the large one and worse than the better placement."""
TRANSLATION = (
    _needs_warm_up("MT-1", LITERAL, "postln_nowarm_literal", 4, "rates_literal", "preln_nowarm_literal"),
    _needs_warm_up("MT-1.anchored", ANCHORED, "postln_nowarm", -math.inf, "rates"),
    Claim(
        "MT-2", "Post-LN is sensitive to the length of the ramp", "section 3.2",
        "500 updates: 31.16 at 0.0005, 2.77 at 0.001 (text)", "31.16 and 2.77 BLEU",
        Rule((
            Within(BLEU, ("postln_warm_short",), 29.5, 33),
            Within(BLEU, ("postln_warm_short_high",), high=FAILED_BLEU),
            Within(BLEU.minus(), ("postln_warm_short", "postln_warm_short_high"), 10),
        ), FIRST),
        Rule((Within(metrics.RAMP_BY_RATE, ("postln_nowarm", "postln_warm_short", "postln_warm", "postln_nowarm_high",
                                            "postln_warm_short_high", "postln_warm_high"), 0),), AMENDED),
    ),
    _same_under_sgd("MT-3", LITERAL, "_literal",
                    JustAboveNothing(("postln_nowarm_sgd_literal", "postln_warm_sgd", "postln_warm"))),
    _same_under_sgd("MT-3.anchored", ANCHORED, "", NotStarved(("postln_nowarm_sgd", "postln_warm_sgd"))),
    Claim(
        "MT-4", "Pre-LN without warm-up is comparable to Post-LN with it", "section 4.2, figure 4(a, b)",
        "about 34 BLEU and loss 4 (text); plotted 33.4 and 33.1, loss 4.0 and 4.0", "+0.3 BLEU",
        Rule((
            Within(BLEU.minus(), ("preln_nowarm", "postln_warm"), -1, 1, LOWER_BLEU),
            Within(LOSS.minus(), ("preln_nowarm", "postln_warm"), -LOSS_MARGIN, LOSS_MARGIN, HIGHER_LOSS),
            *(Within(BLEU, (arm,), 32, 35.5) for arm in ("preln_nowarm", "postln_warm")),
            *(Within(LOSS, (arm,), 3.75, 4.25) for arm in ("preln_nowarm", "postln_warm")),
        ), CORRECTED),
        Rule((AtBestRates(("preln_nowarm_anchored", "postln_warm")),), SECOND),
        grid="rates arms=preln_nowarm_anchored,postln_warm",
    ),
    Claim(
        "MT-5", "Pre-LN converges faster (both with warm-up)",
        "section 4.2, figure 4", "BLEU 33.0 at 9 and 33.1 at 15 (read off): 1.67 times, Pre-LN without warm-up", "-",
        Rule((
            *(Within(metric, ("postln_warm", "preln_nowarm"), FASTER, math.inf, (-math.inf, NO_FASTER))
              for metric in (metrics.EPOCHS_TO_BLEU, metrics.EPOCHS_TO_LOSS)),
            Within(metrics.LATE_MINUS_EARLY, ("postln_warm", "preln_nowarm"), -0.5, 0.5, (0.5, math.inf)),
            Report(metrics.EPOCHS_TO_BLEU, ("postln_warm", "preln_warm")),
            Report(metrics.EPOCHS_TO_BLEU, ("postln_warm_step", "preln_nowarm")),
        ), AUDITED),
        Rule((
            Within(FALL[0.9], ("postln_warm", "preln_warm"), NO_FASTER),
            *(Report(FALL[level], ("postln_warm", "preln_warm"), f"at {level:.0%}") for level in (0.7, 0.8)),
            Report(metrics.TIMES_TO_FINAL_BLEU, ("postln_warm", "preln_warm"), "to the final BLEU"),
            Report(FALL[0.9], ("postln_warm", "preln_nowarm_anchored"), "Pre-LN without warm-up"),
        ), SECOND),
        controls=("preln_warm", "postln_warm_step"),
    ),
    Claim(
        "MT-5.bleu", "Pre-LN without warm-up has Post-LN's final BLEU earlier",
        "section 4.2, figure 4", "BLEU 33.0 at epoch 9 and 33.1 at epoch 15 (read off): 1.67 times", "x1.67 in epochs",
        None, Rule((Report(metrics.TIMES_TO_FINAL_BLEU, ("postln_warm", "preln_nowarm_anchored"), "epochs"),
                    Report(metrics.LATE_MINUS_EARLY, ("postln_warm", "preln_nowarm_anchored"), "at 15 and 9")), SECOND,
                   judged=False),
    ),
    Claim(
        "MT-6", "RAdam trains Post-LN without warm-up, but placement matters more than the optimizer",
        "section 4.2, figure 4", "Post-LN RAdam 32.1, Adam with warm-up 33.1; Pre-LN 33.4 with both (read off)",
        "+1.3 BLEU",
        Rule((
            Trains("postln_nowarm_radam", least=SHARE, bleu=TRAINED_BLEU),
            Within(BLEU, ("postln_nowarm_radam",), 31, 33.5),
            Within(BLEU.minus(), ("postln_warm", "postln_nowarm_radam"), 0),
            Within(BLEU.minus(), ("preln_nowarm_radam", "preln_nowarm"), -0.5, 0.5),
            Within(metrics.DOMINANCE_BLEU, ("postln_nowarm_radam", "preln_nowarm_radam", "preln_nowarm"), 0),
        ), CORRECTED),
        Rule((
            Trains("postln_nowarm_radam", least=SHARE),
            Within(metrics.DOMINANCE_LOSS, ("postln_nowarm_radam", "preln_nowarm_radam", "preln_nowarm"), 0),
        ), CORRECTED_AMENDMENT),
    ),
    Claim(
        "MT-7", "A small fixed rate trains Post-LN slowly without warm-up", "appendix H, figure 6",
        "0.0001: loss about 4.3 after 27 epochs; below the large rate's, above the best (text)", "loss 4.3",
        Rule((Within(metrics.FINAL_LOSS, ("postln_nowarm_fixed",), 4.1, 4.5), *BETWEEN), FIRST), Rule(BETWEEN, AMENDED),
    ),
    Claim(
        "WMT-1", "Pre-LN without warm-up is comparable on WMT14 too, at both rates", "section 4.2, figure 4(c, d)",
        "no numbers", "-",
        Rule((*(Within(BLEU.minus(), pair, -1) for pair in AT_BOTH_RATES),
              *(Within(LOSS.minus(), pair, high=LOSS_MARGIN) for pair in AT_BOTH_RATES)), FIRST),
        setting="wmt",
    ),
    Claim(
        "WMT-2", "Pre-LN converges faster on WMT14 at equal rates", "section 4.2",
        'no numbers ("similar observations")', "-",
        Rule((*(Within(metrics.EPOCHS_TO_BLEU, (post, pre), NO_FASTER) for pre, post in AT_BOTH_RATES),
              *(Within(metrics.EPOCHS_TO_LOSS, (post, pre), NO_FASTER) for pre, post in AT_BOTH_RATES)), FIRST),
        setting="wmt",
    ),
)  # fmt: skip
