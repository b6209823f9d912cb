"""The settings of an optimizer, including interventions on its update."""

from typing import Annotated, Literal, Self

from pydantic import model_validator

from ln_repro.experiment.validation import NOT_IN_ARM, Fraction, NotNegative, Positive, Section


class Optimizer(Section):
    """The optimizer, without learning rate and schedule."""

    name: Literal["adam", "sgd", "radam"]
    betas: tuple[Fraction, Fraction] | None = None
    """Decay rates of the moments; SGD has none."""
    eps: Positive | None = None
    weight_decay: NotNegative = 0.0
    equal_layer_norms: Annotated[bool, NOT_IN_ARM] = False
    """Before every step, scale each layer's gradient to the root mean square of the layers' gradient norms."""
    max_relative_update: Annotated[Positive | None, NOT_IN_ARM] = None
    """Maximum ||dW|| / ||W|| of a step for each matrix W; a longer step is shortened. None: no maximum."""
    second_moment: Annotated[Literal["zero", "gradient"], NOT_IN_ARM] = "zero"
    """Initial value of Adam's second moment; `gradient`: the first gradient squared (GI-Adam)."""

    @model_validator(mode="after")
    def _moments(self) -> Self:
        if self.name != "sgd" and not (self.betas and self.eps):
            raise ValueError(f"optimizer.betas: {self.name} needs betas and eps")
        if self.name == "sgd" and (self.betas or self.eps):
            raise ValueError("optimizer.betas: sgd has neither betas nor eps; leave them out, or use optimizer=adam")
        if self.name != "adam" and self.second_moment != "zero":
            raise ValueError(f"optimizer.second_moment: only adam takes it, this is {self.name}")
        return self
