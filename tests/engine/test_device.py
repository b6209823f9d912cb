"""What a GPU needs, shown without one: tensors that stay on the device, no number that is read, few operations.

torch's device "meta" has shapes and no numbers: it rejects tensors of the CPU, and reading any number is an error.
"""

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ln_repro.engine.inputs import Inputs
from ln_repro.engine.plugin import optimizers
from ln_repro.engine.probing import chosen_batches
from ln_repro.engine.stacked.joint import Joint
from ln_repro.engine.trainer import StrictTrainer
from ln_repro.model.schemes.registry import SCHEMES
from ln_repro.system.distributed import Rank
from tests.engine.conftest import SMALL
from tests.examples import experiment

CASES = [{"norm": norm, "precision": "bf16"} for norm in SCHEMES] + [
    {"precision": "fp32", "optimizer__equal_layer_norms": True, "optimizer__max_relative_update": 1e-4},
    {"task": "masked_lm", "train__block_tokens": 16},
    {"task": "classification", "data__name": "rte"},
]


@pytest.fixture
def begin(corpus, tmp_path):
    """Return a function that returns the trainers of as many runs, and the mini-batches of an update."""
    (corpus.parent / "text" / "train.label").write_text("0\n1\n" * 250)

    def make(rows=1, device="cpu", **changes):
        settings = SMALL | {"model__share_embeddings": True, "train__clip_norm": 0.1, "train__max_tokens": 240}
        inputs = Inputs(experiment(**settings | changes), tmp_path, corpus)
        trainers = [StrictTrainer(inputs, Rank()) for _ in range(rows)]
        batches = chosen_batches(trainers[0].get_train_iterator(1), 2, seed=1, cuda=False)
        for trainer in trainers:
            trainer.get_model().to(device)
        move = lambda value: value.to(device) if isinstance(value, torch.Tensor) else value  # noqa: E731
        return trainers, [torch.utils._pytree.tree_map(move, batch) for batch in batches]

    return make


@pytest.mark.parametrize("changes", CASES, ids=lambda changes: "-".join(map(str, changes.values())))
def test_an_update_leaves_nothing_on_the_cpu_and_reads_nothing(begin, changes, monkeypatch):
    monkeypatch.setitem(optimizers.KINDS, "adam", (torch.optim.AdamW, {"foreach": True}))  # "meta" has no fused one
    trainers, batches = begin(2, "meta", **changes)
    updates = [trainers[0].update(batches)]
    for gradients in Joint(trainers).add_up_gradients(batches):
        updates.append(trainers[0].update(batches, gradients))
    assert {update.gnorm.device.type for update in updates} == {"meta"}


class Operations(TorchDispatchMode):
    """Counts the operations that compute, each of which launches at least one kernel on a GPU."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation._schema.name.removeprefix("aten::")
        self.counts[name] += not (operation.is_view or name.startswith(("empty", "detach", "_unsafe_view")))
        return operation(*args, **(kwargs or {}))


@pytest.mark.parametrize(("rows", "precision", "limit"), [(1, "fp32", 870), (1, "bf16", 1010), (8, "bf16", 1290)])
def test_an_update_of_the_iwslt14_model_has_few_operations(begin, rows, precision, limit):
    """Launching them limits the speed on a GPU. Their number depends on the layers, not on width or batch."""
    deep = {"norm": "preln", "model__layers": 6, "train__clip_norm": 0, "precision": precision}
    trainers, batches = begin(rows, **deep)
    joint = Joint(trainers) if rows > 1 else None
    for _ in range(2):  # the first update makes tables and moments
        with Operations() as operations:
            gradients = joint.add_up_gradients(batches[:1]) if joint else [None]
            for trainer, computed in zip(trainers, gradients, strict=True):
                trainer.update(batches[:1], computed)
    assert limit / 2 < operations.counts.total() <= limit, dict(+operations.counts)


@pytest.mark.usefixtures("double")
@torch.no_grad()
def test_attention_as_it_is_computed_on_a_gpu_is_attention(build_model, monkeypatch):
    model = build_model(layers=2, width=32, ffn=48, heads=4, share_embeddings=True).eval()
    source, target = torch.randint(4, 40, (3, 7)), torch.randint(4, 40, (3, 5))
    source[0, :2] = 1  # padding
    expected, _ = model(source, None, target)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    torch.testing.assert_close(model(source, None, target)[0], expected)
