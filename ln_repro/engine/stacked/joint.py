"""The gradients of several models that share their mini-batches, by one forward and one backward pass."""

from collections.abc import Sequence

import torch
from fairseq import utils
from torch import Tensor, nn

from ln_repro.engine.plugin.precision import CastTogether, replaced, slots
from ln_repro.engine.stacked.operations import OutOfVmap
from ln_repro.engine.trainer import Gradients, StrictTrainer
from ln_repro.model.batch import Batch
from ln_repro.model.residual import Residual


class Joint:
    """The models of some trainers, whose parameters become views of the rows of one matrix, and gradients of another.

    Nothing else changes for a trainer, its optimizer and its checkpoints. The models have one norm placement and shape,
    and the trainers one seed and number of updates so far.
    """

    def __init__(self, trainers: Sequence[StrictTrainer]) -> None:
        self.trainers = trainers
        models = [trainer.get_model() for trainer in trainers]
        self.model = models[0]  # computes for all
        if any(len([*module.buffers()]) for module in self.model.modules() if isinstance(module, Residual)):
            raise RuntimeError("the scheme has buffers, of which only the first model's would change")
        first = [*self.model.parameters()]
        self.shapes = [parameter.shape for parameter in first]
        self.sizes = [parameter.numel() for parameter in first]
        self.slots = slots(self.model)
        indices = {id(parameter): index for index, parameter in enumerate(first)}
        self.parameter_of_slot = [indices[id(by_name[name])] for by_name, name in self.slots]  # several may share one
        linear = {id(by_name) for by_name, _ in slots(self.model, nn.Linear)}
        self.linear_slots = [slot for slot, (by_name, _) in enumerate(self.slots) if id(by_name) in linear]  # to bf16
        self.gradients = torch.zeros(len(models), sum(self.sizes), device=first[0].device)
        self.matrix = torch.empty_like(self.gradients)
        for model, *rows in zip(models, self.matrix, self.gradients, strict=True):
            parts = (row.split_with_sizes(self.sizes) for row in rows)
            for parameter, value, gradient in zip(model.parameters(), *parts, strict=True):
                with torch.no_grad():
                    parameter.set_(value.view_as(parameter).copy_(parameter))
                parameter.grad = gradient.view_as(parameter)
        self.matrix.requires_grad_()

    def add_up_gradients(self, samples: list[Batch]) -> list[Gradients]:
        """Set the gradients of all rows as each trainer alone would, and return the logs and the factor of each row."""
        trainer, logs, tokens = self.trainers[0], [], 0
        self.gradients.zero_()
        for sample in trainer.seeded(samples):
            sample, _ = trainer._prepare_sample(sample)
            utils.set_torch_seed(sample["seed"])
            results = [
                row.criterion.from_logits(logits, sample)
                for row, logits in zip(self.trainers, self.logits(sample["net_input"]).unbind(), strict=True)
            ]
            (gradient,) = torch.autograd.grad(torch.stack([loss for loss, _, _ in results]).sum(), self.matrix)
            self.gradients.add_(gradient)
            logs.append([log for _, _, log in results])
            tokens += sample["ntokens"]
        return [([*of_row], 1 / max(tokens, 1)) for of_row in zip(*logs, strict=True)]

    def logits(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the logits (rows, ..., vocabulary) of all models for a mini-batch."""
        split = zip(self.matrix.split_with_sizes(self.sizes, dim=1), self.shapes, strict=True)
        parameters = [part.view(-1, *shape) for part, shape in split]
        weights = [parameters[index] for index in self.parameter_of_slot]
        if low := self.trainers[0].criterion.low_precision:
            cast = CastTogether.apply(low, *(weights[slot] for slot in self.linear_slots))  # type: ignore[no-untyped-call]
            for slot, weight in zip(self.linear_slots, cast, strict=True):
                weights[slot] = weight

        def of_row(weights: list[Tensor]) -> Tensor:
            with replaced(self.slots, weights):
                logits: Tensor = self.model(**inputs)[0]
            return logits

        with OutOfVmap():
            return torch.vmap(of_row, randomness="same")(weights)
