"""The figures of our own grids (`conf/grid`): small multiples, the loss above and BLEU below."""

from collections.abc import Mapping

from ln_repro.paper.figures import Figure, Panel, Series

PRE_WARM, PRE_NONE, PRE_LITERAL = "Pre-LN w/ warm-up", "Pre-LN w/o warm-up", "Pre-LN w/o, literally T = 1"
POST_WARM, POST_NONE, POST_LITERAL = "Post-LN w/ warm-up", "Post-LN w/o warm-up", "Post-LN w/o, literally T = 1"
PRETRAINED = ("toybert", "minibert", "bert")
"""Settings of BERT's task: nothing is decoded there, so their figure has no row of BLEUs."""
POST_SHORT = "Post-LN w/ short warm-up"


def grid(title: str, columns: Mapping[str, Mapping[str, str]], about: str = "") -> Figure:
    """Return the figure of a grid.

    Args:
        title: above the figure.
        columns: by heading, the label of each arm; a label means the same in all of them.
        about: see `Figure`.
    """
    series = {heading: tuple(Series(arm, label) for arm, label in arms.items()) for heading, arms in columns.items()}
    return Figure(
        title,
        (
            tuple(Panel(heading, "loss", curves) for heading, curves in series.items()),
            tuple(Panel("", "bleu", curves) for curves in series.values()),
        ),
        about,
    )


GRIDS = {
    "design": grid("The same tail with and without the ramp", {
        "Adam": {
            "preln_warm": PRE_WARM, "preln_nowarm_anchored": PRE_NONE,
            "postln_warm": POST_WARM, "postln_nowarm": POST_NONE,
        },
        "SGD": {
            "preln_warm_sgd": PRE_WARM, "preln_nowarm_sgd": PRE_NONE,
            "postln_warm_sgd": POST_WARM, "postln_nowarm_sgd": POST_NONE,
        },
        "RAdam": {
            "preln_warm_radam": PRE_WARM, "preln_nowarm_radam_anchored": PRE_NONE,
            "postln_warm_radam": POST_WARM, "postln_nowarm_radam_anchored": POST_NONE,
        },
    }),
    "section3_2": grid("Section 3.2: Post-LN by optimizer and rate", {
        "Adam": {
            "postln_warm": POST_WARM, "postln_warm_short": POST_SHORT,
            "postln_nowarm": POST_NONE, "postln_nowarm_literal": POST_LITERAL,
        },
        "Adam, higher rate": {
            "postln_warm_high": POST_WARM, "postln_warm_short_high": POST_SHORT,
            "postln_nowarm_high": POST_NONE, "postln_nowarm_literal_high": POST_LITERAL,
        },
        "Adam, small fixed rate": {"postln_nowarm_fixed": POST_NONE},
        "SGD": {
            "postln_warm_sgd": POST_WARM, "postln_nowarm_sgd": POST_NONE, "postln_nowarm_sgd_literal": POST_LITERAL,
        },
        "SGD, lower rate": {
            "postln_warm_sgd_low": POST_WARM, "postln_nowarm_sgd_low": POST_NONE,
            "postln_nowarm_sgd_low_literal": POST_LITERAL,
        },
    }),
    "section4": grid("Section 4 and its controls: placement by tail", {
        "inverse square root": {
            "preln_warm": PRE_WARM, "preln_nowarm_anchored": PRE_NONE, "preln_nowarm_literal": PRE_LITERAL,
            "postln_warm": POST_WARM,
        },
        "step": {
            "preln_nowarm": PRE_NONE, "preln_nowarm_radam_step": f"{PRE_NONE}, RAdam",
            "postln_warm_step": POST_WARM, "postln_nowarm_step": POST_NONE,
        },
        "linear": {
            "preln_nowarm_radam": f"{PRE_NONE}, RAdam", "postln_nowarm_radam": f"{POST_NONE}, RAdam",
            "postln_nowarm_linear": POST_NONE,
        },
    }),
    "schemes": grid("What followed: schemes by depth, and without warm-up", {
        "with warm-up": {
            "postln_warm": POST_WARM, "postln_warm_high": f"{POST_WARM}, higher rate", "postln_warm_short": POST_SHORT,
            "deepnorm_warm": "DeepNorm w/ warm-up", "admin_warm": "Admin w/ warm-up",
            "admin_warm_closed": "Admin, closed form, w/ warm-up",
        },
        "deeper": {
            "postln_warm_deep": POST_WARM, "deepnorm_warm_deep": "DeepNorm w/ warm-up",
        },
        "deeper still": {
            "postln_warm_deeper": POST_WARM, "deepnorm_warm_deeper": "DeepNorm w/ warm-up",
            "admin_warm_deeper": "Admin w/ warm-up",
        },
        "without warm-up": {
            "preln_nowarm_anchored": PRE_NONE, "deepnorm_nowarm": "DeepNorm w/o warm-up",
            "rezero_nowarm": "ReZero w/o warm-up", "rezero_nowarm_step": "ReZero w/o warm-up, step",
            "admin_nowarm": "Admin w/o warm-up",
        },
        "without warm-up, higher rate": {
            "preln_nowarm_anchored_high": PRE_NONE, "deepnorm_nowarm_high": "DeepNorm w/o warm-up",
            "rezero_nowarm_high": "ReZero w/o warm-up", "admin_nowarm_high": "Admin w/o warm-up",
        },
    }, about="deepnorm_nowarm"),
}  # fmt: skip
GRIDS["bert"] = Figure(
    "Section 4.1: BERT's task by rate and warm-up",
    (
        (
            Panel("lower rate", "loss", (
                Series("preln_warm_linear", PRE_WARM), Series("preln_nowarm_linear", PRE_NONE),
                Series("postln_warm_linear", POST_WARM), Series("postln_nowarm_linear", POST_NONE),
            )),
            Panel("higher rate", "loss", (
                Series("preln_nowarm_linear_high", PRE_NONE), Series("postln_warm_linear_high", POST_WARM),
            )),
        ),
    ),
    about="preln_nowarm_linear_high",
    corpora=PRETRAINED,
)  # fmt: skip
