"""Optimizers, torch's own, behind fairseq's registry."""

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
    adam_eps: float = field(default=1e-8, metadata={"help": "added to the root of the corrected second moment"})
    weight_decay: float = field(default=0.0, metadata={"help": "decoupled"})
    lr: List[float] = II("optimization.lr")


@register_optimizer("ln_adam", dataclass=AdamConfig)
class Adam(FairseqOptimizer):
    """torch's fused Adam (AdamW when weights decay).

    Its epsilon is added after the bias correction; fairseq's own Adam adds it before, which differs only where
    gradients are as small as epsilon.
    """

    supports_flat_params = True
    supports_memory_efficient_fp16 = True

    def __init__(self, cfg: AdamConfig, params: Any) -> None:
        super().__init__(cfg)
        self._optimizer = torch.optim.AdamW(params, **self.optimizer_config, fused=True)

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Return torch's keyword arguments; fairseq also applies them over a loaded checkpoint."""
        return {
            "lr": self.cfg.lr[0],
            "betas": (self.cfg.beta1, self.cfg.beta2),
            "eps": self.cfg.adam_eps,
            "weight_decay": self.cfg.weight_decay,
        }
