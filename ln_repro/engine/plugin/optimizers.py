"""Optimizers, torch's own, behind fairseq's registry."""

import math
from dataclasses import dataclass, field
from typing import Any, List  # noqa: UP035 - fairseq reads the annotation as text

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II


@dataclass
class AdamConfig(FairseqDataclass):
    """Adam's constants."""

    beta1: float = field(default=0.9, metadata={"help": "decay of the first moment"})
    beta2: float = field(default=0.98, metadata={"help": "decay of the second moment"})
    adam_eps: float = field(default=1e-8, metadata={"help": "added to the root of the second moment"})
    weight_decay: float = field(default=0.0, metadata={"help": "decoupled"})
    lr: List[float] = II("optimization.lr")  # noqa: UP006 - see the import


@register_optimizer("ln_adam", dataclass=AdamConfig)
class Adam(FairseqOptimizer):
    """torch's fused Adam, with epsilon where fairseq has it: added *before* the bias correction.

    That is torch's own step with epsilon / sqrt(1 - beta2^t). The two differ where gradients are hardly larger than
    epsilon, which is enough to tell the losses of a 512-wide model apart after two updates.
    """

    supports_flat_params = True
    supports_memory_efficient_fp16 = True

    def __init__(self, cfg: AdamConfig, params: Any) -> None:
        super().__init__(cfg)
        self._optimizer = torch.optim.AdamW(params, **self.optimizer_config, fused=True)
        self.steps = 0

    def step(self, closure: Any = None, scale: float = 1.0, groups: Any = None) -> None:
        """Take one step with the epsilon that belongs to it."""
        self.steps += 1
        for group in self.param_groups:
            group["eps"] = self.cfg.adam_eps / math.sqrt(1 - self.cfg.beta2**self.steps)
        super().step(closure, scale, groups)

    def load_state_dict(self, state_dict: dict[str, Any], optimizer_overrides: Any = None) -> None:
        """Go on from a checkpoint, where torch has kept count of the steps."""
        super().load_state_dict(state_dict, optimizer_overrides)
        self.steps = max((int(state["step"]) for state in self._optimizer.state.values()), default=0)

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Return torch's keyword arguments; fairseq also applies them over a loaded checkpoint."""
        return {
            "lr": self.cfg.lr[0],
            "betas": (self.cfg.beta1, self.cfg.beta2),
            "eps": self.cfg.adam_eps,
            "weight_decay": self.cfg.weight_decay,
        }
