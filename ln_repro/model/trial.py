"""A trial of a user's own scheme: a mistake in its file is reported before anything is prepared or trained."""

import torch
from torch import Tensor, nn

from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.model import init
from ln_repro.model.layers import DecoderLayer, EncoderLayer, Shape, Stack
from ln_repro.model.residual import Residual
from ln_repro.model.schemes.registry import failure


def try_own_scheme(experiment: Experiment) -> None:
    """Initialise a model with the experiment's own scheme, if it has one, and pass random numbers through its stacks.

    Raises:
        UserError: the scheme fails, or does not return a tensor of its input's shape; the message has the file's line.
    """
    scheme, model = experiment.norm_file, experiment.model
    if scheme is None or scheme.path is None:  # without a path, the text is that of an earlier run
        return
    x = torch.randn(5, 2, model.width)

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
        shape = Shape.of(experiment.model_copy(update={"norm": f"{scheme.path}:{scheme.class_name}"}))
        kinds = ((EncoderLayer, [None]), (DecoderLayer, [x, None, None]))
        for kind, context in kinds[: 1 if shape.encoder_only else 2]:
            stack = Stack(kind, shape)
            for module in stack.modules():
                if isinstance(module, Residual):
                    module.register_forward_hook(check)
            projection = stack.scheme.projection(model.width, 4)
            init.initialise([nn.Embedding(4, model.width, 1)], [stack], projection, experiment.init)
            for training in (False, True):
                output = projection(stack.train(training)(x, *context))
            output.sum().backward()
    except LnReproError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(error, str(scheme.path)) from error
