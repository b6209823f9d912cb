"""A trial of a user's own scheme: a mistake in its file is reported before anything is prepared or trained."""

import sys
from contextlib import redirect_stdout
from typing import Any

import torch
from torch import Tensor, nn

from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.model import init
from ln_repro.model.layers import DecoderLayer, EncoderLayer, Shape, Stack
from ln_repro.model.residual import Residual
from ln_repro.model.schemes.registry import failure

SIZES = ((5, 2), (8, 3))
"""Lengths and numbers of the sentences that a scheme is tried on, first in evaluation, then in training."""
TOLERANCE = 1e-4  # of rounding, in outputs of size 1


def try_own_scheme(experiment: Experiment) -> None:
    """Initialise a model with the experiment's own scheme, if it has one, and pass random numbers through its stacks.

    Raises:
        UserError: the scheme fails, does not return a tensor of its input's shape, mixes sentences or lets the decoder
            see later tokens, or depends on state that checkpoints do not contain; the message has the file's line.
    """
    scheme = experiment.norm_file
    if scheme is None or scheme.path is None:  # without a path, the text is that of an earlier run
        return
    try:
        with redirect_stdout(sys.stderr):  # what the scheme prints
            shape = Shape.of(experiment.model_copy(update={"norm": f"{scheme.path}:{scheme.class_name}"}))
            for kind in (EncoderLayer,) if shape.encoder_only else (EncoderLayer, DecoderLayer):
                _try_stack(kind, shape, experiment.init, f"norm.file: {scheme.class_name}.forward in {scheme.path}")
    except LnReproError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(error, str(scheme.path)) from error


def _try_stack(kind: type[EncoderLayer] | type[DecoderLayer], shape: Shape, init_name: str, forward: str) -> None:
    """Initialise a stack and pass random numbers forward and backward; ``forward`` begins the message of an error."""
    (stack, projection), (restored, _) = (_initialised(kind, shape, init_name) for _ in range(2))
    x = torch.empty(0)

    def check(residual: Residual, _: object, output: object) -> None:
        if isinstance(output, tuple) and not residual.place.last_in_stack:
            return
        found = f"a {type(output).__name__}"
        if isinstance(output, Tensor):
            found = f"a tensor of shape {tuple(output.shape)}"
            if not output.isfinite().all():
                found += " with numbers that are not finite"
            elif output.shape == x.shape:
                return
        raise UserError(
            f"{forward} returns {found} for {residual.place.kind} of layer {residual.place.layer}; expected a tensor "
            f"of the input's shape {tuple(x.shape)}"
        )

    for module in stack.modules():
        if isinstance(module, Residual):
            module.register_forward_hook(check)
    for training, size in zip((False, True), SIZES, strict=True):
        x = torch.randn(*size, shape.width)
        context = [None] if kind is EncoderLayer else [x, None, None]
        projection(stack.train(training)(x, *context)).sum().backward()
        if fault := (not training and _leak(stack, x, context)) or _unsaved(stack, restored, x, context):
            raise UserError(f"{forward} {fault}")


def _initialised(
    kind: type[EncoderLayer] | type[DecoderLayer], shape: Shape, init_name: str
) -> tuple[Stack, nn.Linear]:
    """Return a stack and an output projection with initial weights."""
    stack = Stack(kind, shape)
    projection = stack.scheme.projection(shape.width, 4)
    init.initialise([nn.Embedding(4, shape.width, 1)], [stack], projection, init_name)
    return stack, projection


@torch.no_grad()
def _leak(stack: Stack, x: Tensor, context: list[Any]) -> str | None:
    """Return what an output in evaluation depends on, though it must not; None if there is nothing."""
    last, of_all, once = -1, slice(None), stack(x, *context)
    if any((stack(x, *context) - once).abs().max() > TOLERANCE for _ in range(8)):
        return "gives other results for the same input in evaluation; change state and draw numbers in training alone"
    parts: dict[str, tuple[Any, Any]] = {"mixes sentences; x[:, i] may depend on itself alone": (of_all, last)}
    if context[0] is not None:
        parts["lets the decoder see later tokens; there, x[t] may depend on x[:t + 1] alone"] = (last, of_all)
    for leak, changed in parts.items():
        other = x.clone()
        other[changed] = torch.randn_like(x[changed])
        difference = stack(other, *context) - stack(x, *context)
        difference[changed] = 0
        if difference.abs().max() > TOLERANCE:
            return leak
    return None


@torch.no_grad()
def _unsaved(stack: Stack, restored: Stack, x: Tensor, context: list[Any]) -> str | None:
    """Return what ``restored``, with all that a checkpoint has of ``stack``, lacks; None if there is nothing."""
    if made := stack.state_dict().keys() - restored.state_dict().keys():
        return f"makes {min(made)!r}, which a checkpoint would lack; make parameters in __init__"
    restored.load_state_dict(stack.state_dict())
    outputs = []
    for part in (stack, restored):
        torch.manual_seed(1)  # of dropout
        outputs.append(part.train(stack.training)(x, *context))
    if (outputs[0] - outputs[1]).abs().max() > TOLERANCE:
        return (
            "depends on what a checkpoint lacks; keep state with register_buffer in __init__, and draw numbers with "
            "torch alone"
        )
    return None
