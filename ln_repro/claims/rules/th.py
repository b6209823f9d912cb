"""TH-1 to TH-9 and TH-11: what the paper states about initialisation.

The checks from which their rules and verdicts are derived are in `ln_repro.theory.checks`, because `ln-repro theory`
makes them without training. TH-10 is about training and therefore among the rules of X.
"""

from typing import NamedTuple


class Statement(NamedTuple):
    """A statement of the paper, with its value and the section or figure."""

    statement: str
    paper: str
    place: str


GROWTH, EXPLANATION = "ratio a layer (growth)", "ratio a layer (explanation)"
"""The quantities of TH-11, each of which is shown with a verdict of its own."""
STATEMENTS = {
    "TH-1": Statement("Lemma 1: E norm^2 of ReLU(X) is sigma^2 d / 2 for X ~ N(0, sigma^2 I)",
        "sigma^2 d / 2", "section 3.3, appendix B"),
    "TH-2": Statement("Lemma 2, Post-LN: E norm^2 of x5 is 3/2 d in every layer; (1 + c) d if d_ff is not d",
        "3/2 d for every l", "section 3.3, appendix C"),
    "TH-3": Statement(
        "Lemma 2, Pre-LN: E norm^2 after l layers is between (1 + l/2) d and (1 + 3l/2) d; c for 1/2 if d_ff is not d",
        "(1 + l/2) d to (1 + 3l/2) d", "section 3.3, appendix C"),
    "TH-4": Statement("Lemma 3: the spectral norm of the layer norm's Jacobian is O(sqrt(d) / norm of x)",
        "O(sqrt(d) / norm of x)", "section 3.3, appendix D"),
    "TH-5": Statement("Norm and norm^2 of hidden states are (0.1, 0.125)-bounded in an initialised model",
        "(0.1, 0.125)", "section 3.4"),
    "TH-6": Statement("Theorem 1, Post-LN: the gradient of the last layer's W2 does not depend on L",
        "exponent 0; around 1.6 for L from 6 to 14", "sections 3.3 and 3.4, figure 3(c)"),
    "TH-7": Statement("Theorem 1, Pre-LN: the gradient of the last layer's W2 falls as L^-1/2",
        "decreases; exponent -1/2", "sections 3.3 and 3.4, figure 3(d)"),
    "TH-8": Statement("Post-LN: the gradients of W1 and W2 grow with the layer at initialisation",
        "over 6 layers 12.8 times (W2), 22 (W1)", "section 3.4, figure 3(a, b)"),
    "TH-9": Statement("Pre-LN: the gradients of W1 and W2 are almost the same in every layer at initialisation",
        "over 6 layers 1.9 times (W2), 1.4 (W1)", "section 3.4, figure 3(a, b)"),
    "TH-11": Statement(
        "Extended theory, Post-LN: the gradient of W2 grows with the layer because the norms shrink it by (2/3)^1/2",
        "1.22 a layer; 1.66 in figure 3(b)", "appendix F"),
}  # fmt: skip
