"""Optimizers, torch's own, behind fairseq's registry."""

import inspect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, List  # noqa: UP035 - fairseq reads the annotation as text

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from omegaconf import II
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm


@dataclass
class SgdConfig(FairseqDataclass):
    """Constants of a rule without moments."""

    weight_decay: float = field(default=0.0, metadata={"help": "decoupled, except in SGD"})
    equal_layer_norms: bool = field(default=False, metadata={"help": "scale layers' gradients to one norm"})
    lr: List[float] = II("optimization.lr")  # noqa: UP006 - see the import


@dataclass
class AdamConfig(SgdConfig):
    """Constants of a rule with two moments."""

    beta1: float = field(default=0.9, metadata={"help": "decay of the first moment"})
    beta2: float = field(default=0.98, metadata={"help": "decay of the second moment"})
    adam_eps: float = field(default=1e-8, metadata={"help": "added to the root of the second moment"})


def gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    """Return the gradients that there are."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def equalise(layers: Sequence[list[Tensor]]) -> None:
    """Scale each layer's gradients to the root mean square of the layers' norms, those of 0 left out.

    The norm of all layers together stays what it was. Nothing is read off the device.
    """
    norms = torch.stack([get_total_norm(layer) for layer in layers])
    common = norms.norm() / norms.count_nonzero().sqrt()
    for layer, factor in zip(layers, torch.where(norms > 0, common / norms, 1.0).unbind(), strict=True):
        torch._foreach_mul_(layer, factor)


class TorchOptimizer(FairseqOptimizer):
    """What fairseq asks of an optimizer, for one of torch's."""

    scaler: DynamicLossScaler | None = None
    """fp16's loss scale; its gradients would vanish without one."""
    layers: Sequence[Sequence[Tensor]] = ()
    """The parameters of each layer, if their gradients are to have the same norm at every step."""

    def backward(self, loss: Tensor) -> None:
        """Add up the gradients of ``loss``, scaled."""
        super().backward(loss if self.scaler is None else self.scaler.scale(loss))

    def multiply_grads(self, c: Tensor | float) -> None:
        """Multiply all gradients by ``c``, together and not one by one."""
        torch._foreach_mul_(gradients(self.params), c)

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Any = None) -> Tensor:
        """Undo the scale, clip (0: only measure) and return the norm.

        Raises:
            OverflowError: the scale was too large, and is smaller now; the trainer leaves this update out.
            FloatingPointError: it cannot get any smaller.
        """
        if self.scaler is not None:
            self.multiply_grads(1 / self.scaler.loss_scale)
        norm = get_total_norm(gradients(self.params))
        if max_norm > 0:
            clip_grads_with_norm_(self.params, max_norm, norm)
        if self.scaler is not None:
            self.scaler.check_overflow(float(norm))
            self.scaler.update()
        return norm

    def step(self, closure: Any = None, scale: float = 1.0, groups: Any = None) -> None:
        """Take one step: torch's own, without its wrapper, which imports the compiler."""
        with torch.no_grad():
            if self.layers:
                equalise([gradients(layer) for layer in self.layers])
            inspect.unwrap(type(self._optimizer).step)(self._optimizer)

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Return torch's keyword arguments; those of a loaded checkpoint take their place."""
        return {"lr": self.cfg.lr[0], "weight_decay": self.cfg.weight_decay}


@register_optimizer("ln_sgd", dataclass=SgdConfig)
class Sgd(TorchOptimizer):
    """Vanilla stochastic gradient descent, without momentum (paper section 3.2)."""

    def __init__(self, cfg: SgdConfig, params: Any) -> None:
        super().__init__(cfg)
        self._optimizer = torch.optim.SGD(params, **self.optimizer_config, fused=True)


class WithMoments(TorchOptimizer):
    """A rule with two moments."""

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """Return torch's keyword arguments."""
        moments = {"betas": (self.cfg.beta1, self.cfg.beta2), "eps": self.cfg.adam_eps}
        return {**super().optimizer_config, **moments}


@register_optimizer("ln_radam", dataclass=AdamConfig)
class RAdam(WithMoments):
    """Rectified Adam (Liu et al. 2020), torch's: below rho_t = 5 it takes the step of the first moment alone."""

    def __init__(self, cfg: AdamConfig, params: Any) -> None:
        super().__init__(cfg)
        self._optimizer = torch.optim.RAdam(params, **self.optimizer_config, decoupled_weight_decay=True, foreach=True)


@register_optimizer("ln_adam", dataclass=AdamConfig)
class Adam(WithMoments):
    """torch's fused Adam, with epsilon where fairseq has it: added *before* the bias correction.

    That is torch's own step with epsilon / sqrt(1 - beta2^t). The two differ where gradients are hardly larger than
    epsilon, which is enough to tell the losses of a 512-wide model apart after two updates.
    """

    def __init__(self, cfg: AdamConfig, params: Any) -> None:
        super().__init__(cfg)
        self._optimizer = torch.optim.AdamW(params, **self.optimizer_config, fused=True)
        self.steps = 0

    def step(self, closure: Any = None, scale: float = 1.0, groups: Any = None) -> None:
        """Take one step with the epsilon that belongs to it."""
        self.steps += 1
        for group in self.param_groups:
            group["eps"] = self.cfg.adam_eps / math.sqrt(1 - self.cfg.beta2**self.steps)
        super().step()

    def load_state_dict(self, state_dict: dict[str, Any], optimizer_overrides: Any = None) -> None:
        """Go on from a checkpoint, where torch has kept count of the steps."""
        super().load_state_dict(state_dict, optimizer_overrides)
        self.steps = max((int(state["step"]) for state in self._optimizer.state.values()), default=0)
