"""What the paper claims of training, claim by claim, with the rule by which a reproduction is judged.

The rules for the paper's own data, IWSLT14 and WMT14, were written before any run on them; those for other data use the
same definitions. Runs are named by their arm (`conf/arm`). The claims of the theory, TH-1 to TH-11 without TH-10, are
judged by `ln-repro theory`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """One claim.

    Args:
        id: in the registry. ``.anchored`` takes "no warm-up" to mean that the ramp alone is left out; without it, the
            paper's literal reading, T = 1 in the formula of the schedule.
        claim: the sentence.
        place: where the paper says it.
        paper: its number, and how it was obtained.
        rule: when the claim is reproduced on the paper's own data.
        elsewhere: when the same question is answered alike on other data; empty if it is not asked there.
        corpus: the paper's own data.
        arms: the runs that the rule needs; none if there is no experiment of it yet.
        controls: runs that tell between explanations, if there are any; the rule does without.
    """

    id: str
    claim: str
    place: str
    paper: str
    rule: str
    elsewhere: str = ""
    corpus: str = "iwslt"
    arms: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()


LITERAL, ANCHORED = "without: T = 1, which also starves the tail", "without: only the ramp left out"
"""The paper's reading of "no warm-up", and the one that changes nothing else."""


def _needs_warm_up(id: str, reading: str, without: str, more: str, *controls: str) -> Claim:
    return Claim(
        id, f"Post-LN with Adam needs warm-up ({reading})", "section 3.2, figure 2",
        "without 8.45 (text), with about 34 (text; plotted plateau 33.1)",
        f"with: BLEU in [32, 35.5]; without: below 15{more}; difference at least 15",
        "with: p at least 0.8 (it trains); without: p at most 0.2 (it fails)",
        arms=("postln_warm", without), controls=controls,
    )  # fmt: skip


def _same_under_sgd(id: str, reading: str, *without: str) -> Claim:
    return Claim(
        id, f"The same holds for SGD ({reading})", "section 3.2, figure 2",
        "without: just above 0 in 15 epochs; with: better, significantly worse than Adam (text)",
        "without: BLEU at most 2 at both rates; with above without at one rate; Adam at least 5 above SGD",
        "loss without warm-up above the loss with it at one rate; both above Adam's",
        arms=("postln_warm", "postln_warm_sgd", "postln_warm_sgd_low", *without),
    )  # fmt: skip


TRANSLATION = (
    _needs_warm_up("MT-1", LITERAL, "postln_nowarm_literal", ", in [4, 15]", "preln_nowarm_literal"),
    _needs_warm_up("MT-1.anchored", ANCHORED, "postln_nowarm", ""),
    Claim(
        "MT-2", "Post-LN is sensitive to the length of the ramp", "section 3.2",
        "500 updates: 31.16 at 5e-4, 2.77 at 1e-3 (text)",
        "short ramp: BLEU in [29.5, 33] at the low rate, below 15 at the high one; difference at least 10",
        "shortening the ramp costs more loss at the high rate than at the low one",
        arms=("postln_warm_short", "postln_warm_short_high", "postln_warm", "postln_warm_high"),
    ),
    _same_under_sgd("MT-3", LITERAL, "postln_nowarm_sgd_literal", "postln_nowarm_sgd_low_literal"),
    _same_under_sgd("MT-3.anchored", ANCHORED, "postln_nowarm_sgd", "postln_nowarm_sgd_low"),
    Claim(
        "MT-4", "Pre-LN without warm-up is comparable to Post-LN with it", "section 4.2, figure 4(a, b)",
        "about 34 BLEU and loss 4 (text); plotted 33.4 and 33.1, loss 4.0 and 4.0",
        "difference in BLEU in (-1, 1), both in [32, 35.5]; difference in loss within 0.15 bits, both in [3.75, 4.25]",
        "Pre-LN without trains (p at least 0.8) at the rate at which Post-LN without fails (p at most 0.2); its loss "
        "is within 5 % of Post-LN's with warm-up",
        arms=("preln_nowarm", "postln_warm"),
    ),
    Claim(
        "MT-5", "Pre-LN converges faster: its epoch 9 equals Post-LN's epoch 15", "section 4.2, figure 4",
        "BLEU 33.0 at 9 and 33.1 at 15 (read off): 1.67 times",
        "epochs of Post-LN over those of Pre-LN to Pre-LN's BLEU at epoch 9: at least 1.3 (contradicted: at most 1.1); "
        "Post-LN at 15 within 0.5 of Pre-LN at 9",
        "updates to nine tenths of the fall in training loss, Post-LN over Pre-LN: at least 1.3 (contradicted: at most "
        "1.1)",
        arms=("preln_nowarm", "postln_warm"),
    ),
    Claim(
        "MT-6", "RAdam trains Post-LN without warm-up, but placement matters more than the optimizer",
        "section 4.2, figure 4", "Post-LN RAdam 32.1, Adam with warm-up 33.1; Pre-LN 33.4 with both (read off)",
        "Post-LN RAdam: BLEU in [31, 33.5], below Adam with warm-up; Pre-LN RAdam within 0.5 of Pre-LN Adam; "
        "placement's difference above the optimizer's",
        "difference in loss that placement makes under RAdam above the one that the optimizer makes in Pre-LN",
        arms=("postln_nowarm_radam", "preln_nowarm_radam", "preln_nowarm", "postln_warm"),
    ),
    Claim(
        "MT-7", "A small fixed rate trains Post-LN slowly without warm-up", "appendix H, figure 6",
        "1e-4: loss about 4.3 after 27 epochs; below the large rate's, above the best (text)",
        "loss 4.3 +- 0.2; below Post-LN's without warm-up at the high rate, above the better of Post-LN with warm-up "
        "and Pre-LN without",
        "loss below Post-LN's without warm-up at the high rate, above the better of Post-LN with warm-up and Pre-LN "
        "without",
        arms=("postln_nowarm_fixed", "postln_nowarm_literal_high", "postln_warm", "preln_nowarm"),
    ),
    Claim(
        "WMT-1", "Pre-LN without warm-up is comparable on WMT14 too, at both rates", "section 4.2, figure 4(c, d)",
        "no numbers", "difference in BLEU in (-1, 1) at both rates, or above",
        corpus="wmt", arms=("preln_nowarm", "postln_warm", "preln_nowarm_high", "postln_warm_high"),
    ),
    Claim(
        "WMT-2", "Pre-LN converges faster on WMT14 at equal rates", "section 4.2",
        'no numbers ("similar observations")',
        "epochs of Post-LN over those of Pre-LN to Pre-LN's BLEU at epoch 9: above 1.1 at both rates",
        corpus="wmt", arms=("preln_nowarm", "postln_warm", "preln_nowarm_high", "postln_warm_high"),
    ),
    Claim(
        "TH-10", "Post-LN: gradients are tiny after warm-up", "section 3.4, figure 3(a, b)",
        "about 0.015 in every layer, 110 times below layer 6 at initialisation (read off)",
        "W2 of every decoder layer after the ramp: at most 0.1, and at most a twentieth of the last layer's at "
        "initialisation",
        "W2 of the last decoder layer after the ramp: at most a fifth of what it was at initialisation",
        arms=("postln_warm",),
    ),
)  # fmt: skip

PRETRAINING = (
    Claim(
        "BERT-1", "Pre-LN reaches the same loss earlier in pre-training", "section 4.2, figure 5(a)",
        "1.69 nats (2.44 bits) after 500k updates (Pre-LN) and 700k (Post-LN): 1.4 times; the paper's sentence has the "
        "two names swapped, its figure has not",
        "updates of Post-LN over those of Pre-LN to the validation loss that Post-LN has after 70 % of its run: in "
        "[1.15, 1.7]",
        "the same, above 1",
        corpus="bert", arms=("preln_nowarm_linear_high", "postln_warm_linear"),
    ),
    Claim(
        "BERT-2", "Post-LN diverges at 3e-4 in pre-training, Pre-LN trains there without warm-up", "section 4.1",
        "diverged and trained (text; whether Post-LN had its warm-up is not stated)",
        "Post-LN with warm-up diverges, or ends 0.5 nats (0.72 bits) or more above its loss at 1e-4, in most seeds; "
        "Pre-LN without does so in none",
        "the same at the two rates of the small model, which are about 1 to 3, too",
        corpus="bert", arms=("postln_warm_linear_high", "preln_nowarm_linear_high", "postln_warm_linear"),
    ),
)  # fmt: skip

_FINER = (
    "accuracy, mean over seeds: Pre-LN's above Post-LN's in at least two thirds of the checkpoints that follow "
    "equally long pre-training; difference over all of them above 0"
)
FINE_TUNING = tuple(
    Claim(
        id, f"Pre-LN checkpoints fine-tune faster on {name}", f"section 4.2, figure 5({panel})",
        "no numbers (curve above Post-LN's)", _FINER,
        corpus=corpus, arms=("preln_nowarm_linear", "postln_nowarm_linear"),
    )
    for id, name, panel, corpus in (("BERT-3", "MRPC", "b", "mrpc"), ("BERT-3.rte", "RTE", "c", "rte"))
)  # fmt: skip

SCHEMES = (
    Claim(
        "X-1", "DeepNorm trains at depths where Post-LN fails", "Wang et al. 2022; Liu et al. 2020",
        "Post-LN fails at 18-18 on WMT14; DeepNorm 28.8, 29.0, 28.9 at 18, 50, 100 on WMT17",
        "at 12-12 or at 18-18, both with warm-up: Post-LN trains (BLEU at least 30) in a third of the seeds at most, "
        "DeepNorm in all",
        "at one of the two greater depths, both with warm-up: Post-LN trains (p at least 0.8) in a third of the seeds "
        "at most, DeepNorm in all",
        arms=("postln_warm_deep", "deepnorm_warm_deep", "postln_warm_deeper", "deepnorm_warm_deeper"),
    ),
    Claim(
        "X-2", "ReZero needs neither warm-up nor norm", "Bachlechner et al. 2020",
        "34.66 on IWSLT14, 1 to 2 below others",
        "trains (BLEU at least 30) in all seeds without warm-up, with the ramp's tail and with the step's",
        "trains (p at least 0.8) in all seeds without warm-up, with the ramp's tail and with the step's",
        arms=("rezero_nowarm", "rezero_nowarm_step", "postln_warm"),
    ),
    Claim(
        "X-3", "Admin matches or betters Post-LN", "Liu et al. 2020",
        "35.67 +- 0.15 and 35.64 +- 0.23 on IWSLT14; trains at 18-18 on WMT14, where Post-LN does not",
        "BLEU, measured and in closed form: above Post-LN's - 0.3 at 6-6; at 18-18 it trains in all seeds, Post-LN in "
        "a third at most",
        "loss, measured and in closed form: at most 2 % above Post-LN's",
        arms=("admin_warm", "admin_warm_closed", "postln_warm", "admin_warm_deeper", "postln_warm_deeper"),
    ),
    Claim(
        "X-4", "A scheme with even gradients throughout training and Post-LN's final quality exists",
        "open question", "none claimed",
        "for one scheme, without warm-up: W2's gradient in the decoder's layers at most 3 times as large in one as in "
        "another whenever it is looked at; trains in all seeds, at the higher rate, too; BLEU above the best "
        "Post-LN's - 0.3",
        "for one scheme, without warm-up: W2's gradient in the decoder's layers at most 3 times as large in one as in "
        "another whenever it is looked at; trains in all seeds, at the higher rate, too; loss at most 2 % above the "
        "best Post-LN's",
        arms=("preln_nowarm_anchored", "deepnorm_nowarm", "rezero_nowarm", "admin_nowarm",
              "preln_nowarm_anchored_high", "deepnorm_nowarm_high", "rezero_nowarm_high", "admin_nowarm_high",
              "postln_warm", "postln_warm_high", "postln_warm_short"),
    ),
)  # fmt: skip
"""The schemes that followed, each by its own authors' claim."""

NOT_NAMED_ALIKE = {"bert": {"toy": "toybert", "multi30k": "minibert"}}
"""By the paper's corpus, the setting (`conf/setting`) that asks the same of other data, where it is not their name."""
OTHER_CORPORA = ("toy", "multi30k", "tatoeba")
"""The same questions are asked on them; they decide nothing about the paper's numbers."""
FAILS, TRAINS = 0.2, 0.8
"""Progress p = (H1 - loss) / (H1 - loss of the best arm) of an arm that fails, or trains; H1: unigram entropy."""
SEEDS = 5
"""Runs that a verdict on training needs at least."""
FINE_TUNING_SEEDS = 6
"""The paper's."""
