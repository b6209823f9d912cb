"""A trial of a user's own scheme: a mistake in its file is reported before anything is prepared or trained."""

import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.model import init
from ln_repro.model.layers import DecoderLayer, EncoderLayer, Shape, Stack
from ln_repro.model.residual import Residual
from ln_repro.model.schemes.registry import failure

SIZES = ((5, 2), (8, 3))
"""Lengths and numbers of the sentences that a scheme is tried on."""
Name = tuple[str, str]  # those of a module and its attribute


class State(NamedTuple):
    """What the residual connections of a stack have: the names of what checkpoints contain, the rest with values."""

    saved: list[Name]
    other: dict[Name, Any]


def try_own_scheme(experiment: Experiment) -> None:
    """Initialise a model with the experiment's own scheme, if it has one, and pass random numbers through its stacks.

    Raises:
        UserError: the scheme fails, does not return a tensor of its input's shape, or changes state that checkpoints do
            not contain; the message has the file's line.
    """
    scheme, model = experiment.norm_file, experiment.model
    if scheme is None or scheme.path is None:  # without a path, the text is that of an earlier run
        return
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
            f"norm.file: {scheme.class_name}.forward in {scheme.path} returns {found} for {residual.place.kind} of "
            f"layer {residual.place.layer}; expected a tensor of the input's shape {tuple(x.shape)}"
        )

    try:
        with redirect_stdout(sys.stderr):  # what the scheme prints
            shape = Shape.of(experiment.model_copy(update={"norm": f"{scheme.path}:{scheme.class_name}"}))
            for kind in (EncoderLayer,) if shape.encoder_only else (EncoderLayer, DecoderLayer):
                stack = Stack(kind, shape)
                for module in stack.modules():
                    if isinstance(module, Residual):
                        module.register_forward_hook(check)
                projection = stack.scheme.projection(model.width, 4)
                init.initialise([nn.Embedding(4, model.width, 1)], [stack], projection, experiment.init)
                states = [_state(stack)]
                for training, size in zip((False, True), SIZES, strict=True):
                    x = torch.randn(*size, model.width)
                    context = [None] if kind is EncoderLayer else [x, None, None]
                    output = projection(stack.train(training)(x, *context))
                    states.append(_state(stack))
                output.sum().backward()
                for what, name in (lost for pair in pairwise(states) for lost in _lost(*pair)):
                    raise UserError(
                        f"norm.file: {scheme.class_name}.forward in {scheme.path} {what} {name!r}, which a checkpoint "
                        "would lack; make parameters and, with register_buffer, what changes in __init__"
                    )
    except LnReproError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(error, str(scheme.path)) from error


def _state(stack: Stack) -> State:
    """Return the attributes of the residual connections of a stack."""
    state = State([], {})
    for path, module in stack.named_modules():
        if isinstance(module, Residual):
            state.saved.extend((path, name) for name in module.state_dict())
            other = {name: value for name, value in vars(module).items() if name[0] != "_" and name != "training"}
            state.other.update({(path, name): value for name, value in other.items()})
    return state


def _lost(before: State, after: State) -> Iterator[tuple[str, str]]:
    """Yield what a checkpoint would lack: what the forward pass "makes" or "changes", and its name."""
    yield from (("makes", key[1]) for key in after.saved if key not in before.saved)
    for key, value in after.other.items():
        if key in before.saved or before.other.get(key, value) is not value:  # a new one may be no more than a note
            yield "changes", key[1]
