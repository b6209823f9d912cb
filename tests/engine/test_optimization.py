"""Loss, optimizer and schedule against fairseq's and torch's own; a ramp on one stack alone."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.optim.adam import Adam as FairseqAdam
from torch.nn import functional

from ln_repro.engine.plugin.loss import SmoothedNll
from ln_repro.engine.plugin.optimizers import optimizer_of, set_rates, split_param_groups
from ln_repro.engine.trainer import StrictTrainer
from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.settings import Optimizer, Schedule
from tests.engine.made import adam, sgd

BETAS = (0.9, 0.98)
ROUNDING = 1e-5
"""Relative tolerance in float32, above the error of a sum of `TOKENS` or `WORDS` terms in any order."""
TOKENS, WORDS = 14, 12


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, ROUNDING), (torch.bfloat16, 1e-2)])
def test_loss_and_gradient_are_fairseqs(epsilon, kind, tolerance):
    ours = (3 * torch.randn(TOKENS, WORDS)).to(kind).requires_grad_()
    theirs = ours.detach().float().requires_grad_()
    target = torch.randint(2, WORDS, (TOKENS,))
    target[::7] = 1
    loss, nll = SmoothedNll.apply(ours, target, epsilon, 1)
    (loss / 12).backward()
    log_p = functional.log_softmax(theirs, -1)
    their_loss, their_nll = label_smoothed_nll_loss(log_p, target[:, None], epsilon, ignore_index=1)
    (their_loss / 12).backward()
    torch.testing.assert_close(loss, their_loss, rtol=ROUNDING, atol=0)
    torch.testing.assert_close(nll, their_nll, rtol=ROUNDING, atol=0)
    assert ours.grad.dtype == kind
    torch.testing.assert_close(ours.grad.float(), theirs.grad, rtol=tolerance, atol=tolerance / 500)
    assert not ours.grad[::7].any()


def parameters():
    """Return parameters in float64, in which the order of operations changes results by far less than 1e-9."""
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in ((20, 30), (7,))]


def steps(optimizer, params, scale):
    for step in range(50):
        generator = torch.Generator().manual_seed(step)
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator, dtype=param.dtype) * scale
        optimizer.step()
    return torch.cat([param.detach().flatten() for param in params])


@pytest.mark.parametrize(("scale", "weight_decay"), [(1.0, 0.01), (1e-6, 0.0), (1e-8, 0.0)])
def test_adam_is_fairseqs_on_any_gradients(scale, weight_decay):
    """Tiny gradients show where epsilon is added: torch's own Adam differs by 8e-4 at 1e-6."""
    a, b = parameters(), parameters()
    theirs = FairseqAdam(b, lr=1e-3, betas=BETAS, eps=1e-8, weight_decay=weight_decay)
    difference = steps(adam(a, 1e-3, weight_decay=weight_decay), a, scale) - steps(theirs, b, scale)
    assert difference.abs().max() < 1e-9


def test_each_update_has_its_own_rate_also_after_a_resume():
    trainer = StrictTrainer.__new__(StrictTrainer)
    trainer._optimizer, trainer.quantizer = adam(parameters(), lr=1.0), None
    rate = LearningRate(1.0, 4, "linear", 4000, 0, total=100)
    trainer.experiment = SimpleNamespace(learning_rate=lambda updates_per_epoch: rate)
    trainer.set_num_updates(50)  # on resuming, before the length of the run is known
    trainer.plan_rates(updates_per_epoch=10)
    assert trainer.get_lr() == pytest.approx(0.5)
    for done, expected in enumerate([0.25, 0.5, 0.75, 1, 0.96, 0.95]):
        trainer.set_num_updates(done)
        assert trainer.get_lr() == pytest.approx(expected)


def test_sgd_and_rectified_adam_are_torchs():
    """SGD without momentum (section 3.2), and RAdam with decoupled weight decay, unlike SGD's."""
    a, b = parameters(), parameters()
    theirs = torch.optim.SGD(b, lr=1e-2, weight_decay=0.1)
    assert (steps(sgd(a, 1e-2, weight_decay=0.1), a, 1.0) - steps(theirs, b, 1.0)).abs().max() < 1e-9
    a, b = parameters(), parameters()
    ours = optimizer_of(Optimizer(name="radam", betas=BETAS, eps=1e-8, weight_decay=0.1), 1e-2, a)
    theirs = torch.optim.RAdam(b, lr=1e-2, betas=BETAS, weight_decay=0.1, decoupled_weight_decay=True)
    assert (steps(ours, a, 1.0) - steps(theirs, b, 1.0)).abs().max() < 1e-9


@pytest.mark.parametrize("on", [False, True])
def test_a_step_of_sgd_with_layers_of_one_norm_is_the_one_by_hand(on):
    """The norms 7, 1 and 0 become 5, 5 and 0, so that all together stay sqrt(50)."""
    gradients = ([30.0, 40.0], [2.0, 3.0], [6.0], [0.0, 0.0], [1.0], [0.0, 0.0], [0.0])
    embedding, *others = (torch.nn.Parameter(torch.ones(len(gradient))) for gradient in gradients)
    for parameter, gradient in zip([embedding, *others], gradients, strict=True):
        parameter.grad = torch.tensor(gradient)
    layers = [others[:2], others[2:4], others[4:]]
    optimizer = sgd([embedding, *others])
    optimizer.layers = layers if on else ()
    assert float(optimizer.clip_grad_norm(0.0)) == pytest.approx(math.sqrt(2500 + 50))  # what is reported
    optimizer.step()
    assert embedding.tolist() == pytest.approx([-2, -3])
    factors = (5 / 7, 5) if on else (1, 1)
    assert layers[0][0].tolist() == pytest.approx([1 - 0.2 * factors[0], 1 - 0.3 * factors[0]])
    assert [layer[1].item() for layer in layers] == pytest.approx([1 - 0.6 * factors[0], 1 - 0.1 * factors[1], 1])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("embeddings", ["ramp", "full"])
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_the_other_stack_has_the_tail_alone(build_model, part, embeddings, shared):
    model = build_model(layers=1, width=16, ffn=32, heads=2, share_embeddings=shared)
    names = {parameter: name for name, parameter in model.named_parameters()}
    optimizer = adam(list(model.parameters()), 2e-3)
    cfg = Schedule(warmup_updates=6, decay="inverse_sqrt", part=part, embeddings=embeddings)
    split_param_groups(optimizer, cfg, model.named_parameters())
    ramp, full = ({names[parameter] for parameter in group["params"]} for group in optimizer.param_groups)
    other = {"encoder": "decoder", "decoder": "encoder"}[part]
    assert ramp | full == set(names.values()) and not ramp & full
    for name in names.values():
        expected = ramp if name.startswith(f"{part}.stack.") else full if name.startswith(f"{other}.stack.") else None
        assert name in (expected or {"ramp": ramp, "full": full}[embeddings])
    rate = LearningRate(2e-3, 6, "inverse_sqrt", 4000, 0, total=30)
    for t in range(1, 31):
        set_rates(optimizer, rate, t)
        tail = min(1.0, math.sqrt(6 / t))
        rates = [group["lr"] for group in optimizer.param_groups]
        assert rates == pytest.approx([2e-3 * min(t / 6, tail), 2e-3 * tail], rel=1e-12)
        assert optimizer.get_lr() == rates[0]  # what is reported
