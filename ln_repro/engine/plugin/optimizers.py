"""torch's optimizers with fairseq's interface, and their learning rates by `ln_repro.experiment.learning_rate`."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from fairseq.optim import FairseqOptimizer
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm, parameters_to_vector

from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.settings import Optimizer, Schedule


def gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    """Return the gradients of the parameters that have one."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def equalise(layers: Sequence[list[Tensor]]) -> None:
    """Scale each layer's gradients to the root mean square of the layers' norms, except those of 0.

    The norm of all layers together does not change. Nothing is read from the device.
    """
    norms = torch.stack([get_total_norm(layer) for layer in layers])
    common = norms.norm() / norms.count_nonzero().sqrt()
    for layer, factor in zip(layers, torch.where(norms > 0, common / norms, 1.0).unbind(), strict=True):
        torch._foreach_mul_(layer, factor)


def cap_changes(matrices: list[Tensor], before: list[Tensor], most: float) -> None:
    """Shorten the change of each matrix since ``before`` to at most ``most`` times its norm before, in place.

    The change of a matrix that was zero is not limited. Nothing is read from the device.
    """
    changes = torch._foreach_sub(matrices, before)
    norms, changed = (torch.stack(torch._foreach_norm(tensors)) for tensors in (before, changes))
    factors = torch.where((norms > 0) & (changed > most * norms), most * norms / changed, 1.0)
    torch._foreach_copy_(matrices, before)
    torch._foreach_add_(matrices, torch._foreach_mul(changes, factors.unbind()))


KINDS: dict[str, tuple[Callable[..., torch.optim.Optimizer], dict[str, bool]]] = {
    "adam": (torch.optim.AdamW, {"fused": True}),
    "sgd": (torch.optim.SGD, {"fused": True}),
    "radam": (torch.optim.RAdam, {"decoupled_weight_decay": True, "foreach": True}),
}
"""torch's class for each optimizer, and its options. SGD has no momentum (paper section 3.2); a step of rectified Adam
(Liu et al. 2020) uses the first moment alone while rho_t <= 5."""


class TorchOptimizer(FairseqOptimizer):
    """An optimizer of torch with fairseq's interface; ``cfg`` are its settings."""

    layers: Sequence[Sequence[Tensor]] = ()
    """The parameters of each layer, if their gradients are to be scaled to the same norm."""

    def __init__(self, cfg: Optimizer, lr: float, parameters: Sequence[Tensor]) -> None:
        super().__init__(cfg)
        kind, options = KINDS[cfg.name]
        moments = {} if cfg.betas is None else {"betas": cfg.betas, "eps": cfg.eps}
        self._optimizer = kind(parameters, lr, weight_decay=cfg.weight_decay, **moments, **options)

    def multiply_grads(self, c: Tensor | float) -> None:
        torch._foreach_mul_(gradients(self.params), c)

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: None = None) -> Tensor:
        """Clip the gradients (0: do not clip) and return their norm before; then equalise the layers."""
        norm = get_total_norm(gradients(self.params))
        if max_norm > 0:
            clip_grads_with_norm_(self.params, max_norm, norm)
        if self.layers:
            equalise([gradients(layer) for layer in self.layers])
        return norm

    def reset(self) -> None:
        """Forget the moments, and the number of steps that they were averaged over."""
        self._optimizer.state.clear()

    def step(self) -> None:
        """Call torch's step without its wrapper, which would import the compiler."""
        with torch.no_grad():
            most = self.cfg.max_relative_update
            matrices = [parameter for parameter in self.params if parameter.dim() > 1] if most else []
            before = [matrix.clone() for matrix in matrices]
            inspect.unwrap(type(self._optimizer).step)(self._optimizer)
            if matrices:
                cap_changes(matrices, before, most)


class Adam(TorchOptimizer):
    """torch's fused Adam with fairseq's epsilon, which is added *before* the bias correction.

    This equals torch's step with epsilon / sqrt(1 - beta2^t). It matters for gradients that are hardly larger than
    epsilon: the losses of a model of width 512 differ after two updates.
    """

    steps = 0

    def step(self) -> None:
        """Update the parameters, with epsilon corrected for the step."""
        if not self.steps and self.cfg.second_moment == "gradient":
            self._start_second_moment()
        self.steps += 1
        for group in self.param_groups:
            group["eps"] = self.cfg.eps / math.sqrt(1 - self.cfg.betas[1] ** self.steps)
        super().step()

    def reset(self) -> None:
        super().reset()
        self.steps = 0

    def _start_second_moment(self) -> None:
        """Start the second moment at the first gradient squared instead of 0 (GI-Adam, Kalra and Barkeshli 2024).

        The bias correction remains, so that the rate rises with sqrt(1 - beta2^t), as in a ramp.
        """
        for parameter in self.params:
            if parameter.grad is not None:
                self._optimizer.state[parameter] = {
                    "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": parameter.grad.square(),
                }

    def load_state_dict(self, state_dict: Mapping[str, object], optimizer_overrides: None = None) -> None:
        super().load_state_dict(state_dict, optimizer_overrides)
        self.steps = max((int(state["step"]) for state in self._optimizer.state.values()), default=0)


def optimizer_of(cfg: Optimizer, lr: float, parameters: Sequence[Tensor]) -> TorchOptimizer:
    return (Adam if cfg.name == "adam" else TorchOptimizer)(cfg, lr, parameters)


def preconditioner(optimizer: TorchOptimizer, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """Return the diagonal of P, flat, for a next step along ``gradients``; 1 without moments.

    For Adam, with v_t including these gradients, P = (1 - beta1^t) (sqrt(v_t / (1 - beta2^t)) + eps), eps being
    corrected as in `Adam`.
    """
    if not isinstance(optimizer, Adam):
        return torch.ones_like(parameters_to_vector(parameters))
    (beta1, beta2), state, t = optimizer.cfg.betas, optimizer.optimizer.state, optimizer.steps + 1
    diagonal = []
    for parameter, gradient in zip(parameters, gradients, strict=True):
        square = gradient.square()
        initial = square if optimizer.cfg.second_moment == "gradient" else torch.zeros_like(square)
        v = state[parameter]["exp_avg_sq"] if parameter in state else initial
        diagonal.append((beta2 * v + (1 - beta2) * square).sqrt() + optimizer.cfg.eps)
    return (1 - beta1**t) / (1 - beta2**t) ** 0.5 * parameters_to_vector(diagonal)


def threshold(optimizer: TorchOptimizer) -> float:
    """Return the threshold of eta times the sharpness."""
    beta1 = optimizer.cfg.betas[0] if optimizer.cfg.betas else 0.0
    return float((2 + 2 * beta1) / (1 - beta1))


def set_rates(optimizer: TorchOptimizer, rate: LearningRate, update: int) -> None:
    """Set the learning rates of an update, counted from 1; the second group of parameters, if any, has no ramp."""
    for group, of_group in zip(optimizer.param_groups, (rate, rate.without_ramp()), strict=False):
        group["lr"] = of_group.at(update)


def split_param_groups(
    optimizer: TorchOptimizer, cfg: Schedule, named_parameters: Iterable[tuple[str, Tensor]]
) -> None:
    """Give the parameters that do not follow the ramp of ``cfg.part`` a group of their own, the second.

    ``named_parameters`` are the model's parameters with their names, of which those of a stack begin with its name.
    """
    if cfg.part == "all":
        return
    ramped = set()
    for name, parameter in named_parameters:
        of_part = name.startswith(f"{cfg.part}.stack.")
        of_embeddings = ".stack." not in name
        if of_part or (of_embeddings and cfg.embeddings == "ramp"):
            ramped.add(parameter)
    (group,) = optimizer.param_groups
    others = [parameter for parameter in group["params"] if parameter not in ramped]
    group["params"] = [parameter for parameter in group["params"] if parameter in ramped]
    optimizer.param_groups.append({**group, "params": others})
