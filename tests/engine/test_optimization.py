"""Loss, optimizer and schedule against fairseq's and torch's own."""

import math

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.optim.adam import Adam as FairseqAdam
from torch.nn import functional

from ln_repro.engine.plugin.loss import label_smoothed_nll
from ln_repro.engine.plugin.optimizers import Adam, AdamConfig, RAdam, Sgd, SgdConfig
from ln_repro.engine.plugin.schedules import RampAndTail, RampAndTailConfig

BETAS = (0.9, 0.98)
ROUNDING = 1e-5
"""Of float32, relative: more than sums of `TOKENS` and of `WORDS` terms can err by in any order."""
TOKENS, WORDS = 14, 12


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_loss_is_fairseqs(epsilon):
    logits = torch.randn(TOKENS, WORDS)
    target = torch.randint(2, WORDS, (TOKENS,))
    target[::7] = 1
    loss, nll = label_smoothed_nll(logits, target, epsilon, pad=1)
    log_p = functional.log_softmax(logits, -1)
    their_loss, their_nll = label_smoothed_nll_loss(log_p, target[:, None], epsilon, ignore_index=1)
    torch.testing.assert_close(loss, their_loss, rtol=ROUNDING, atol=0)
    torch.testing.assert_close(nll, their_nll, rtol=ROUNDING, atol=0)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, ROUNDING), (torch.bfloat16, 1e-2)])
def test_the_gradient_in_closed_form_is_autograds_of_fairseqs_loss(epsilon, kind, tolerance):
    ours = (3 * torch.randn(TOKENS, WORDS)).to(kind).requires_grad_()
    theirs = ours.detach().float().requires_grad_()
    target = torch.randint(2, WORDS, (TOKENS,))
    target[::7] = 1
    loss, _ = label_smoothed_nll(ours, target, epsilon, pad=1)
    (loss / 12).backward()
    log_p = functional.log_softmax(theirs, -1)
    (label_smoothed_nll_loss(log_p, target[:, None], epsilon, ignore_index=1)[0] / 12).backward()
    assert ours.grad.dtype == kind
    torch.testing.assert_close(ours.grad.float(), theirs.grad, rtol=tolerance, atol=tolerance / 500)
    assert not ours.grad[::7].any()


def test_loss_is_torchs_with_the_epsilon_rescaled():
    logits, target = torch.randn(TOKENS, WORDS), torch.randint(2, WORDS, (TOKENS,))
    loss, _ = label_smoothed_nll(logits, target, 0.1, pad=1)
    theirs = functional.cross_entropy(logits, target, label_smoothing=0.1 * WORDS / (WORDS - 1), reduction="sum")
    torch.testing.assert_close(loss, theirs, rtol=ROUNDING, atol=0)


def parameters():
    """Return some in float64, in which two ways to one result differ by far less than 1e-9 on any processor."""
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in ((20, 30), (7,))]


def steps(optimizer, params, scale, count=50):
    for step in range(count):
        generator = torch.Generator().manual_seed(step)
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator, dtype=param.dtype) * scale
        optimizer.step()
    return torch.cat([param.detach().flatten() for param in params])


def ours(params, lr=1e-3, eps=1e-8, weight_decay=0.0):
    cfg = AdamConfig(beta1=BETAS[0], beta2=BETAS[1], adam_eps=eps, weight_decay=weight_decay, lr=[lr])
    return Adam(cfg, params)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_adam_is_torchs_on_ordinary_gradients(weight_decay):
    a, b = parameters(), parameters()
    theirs = torch.optim.AdamW(b, lr=1e-3, betas=BETAS, eps=1e-8, weight_decay=weight_decay)
    difference = steps(ours(a, weight_decay=weight_decay), a, 1.0) - steps(theirs, b, 1.0)
    assert difference.abs().max() < 1e-7  # epsilon stands elsewhere


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-8])
def test_adam_is_fairseqs_on_any_gradients(scale):
    """Tiny gradients tell where epsilon stands: torch's own Adam is 8e-4 away at 1e-6."""
    a, b = parameters(), parameters()
    theirs = FairseqAdam(b, lr=1e-3, betas=BETAS, eps=1e-8, weight_decay=0.0)
    difference = steps(ours(a), a, scale) - steps(theirs, b, scale)
    assert difference.abs().max() < 1e-9


def test_adam_goes_on_from_a_checkpoint_bit_for_bit():
    a, b = parameters(), parameters()
    whole = steps(ours(a), a, 1e-6, 20)
    first = ours(b)
    steps(first, b, 1e-6, 10)
    second = ours(b)
    second.load_state_dict(first.state_dict())
    for step in range(10, 20):
        generator = torch.Generator().manual_seed(step)
        for param in b:
            param.grad = torch.randn(param.shape, generator=generator, dtype=param.dtype) * 1e-6
        second.step()
    assert torch.equal(whole, torch.cat([param.detach().flatten() for param in b]))


def schedule_for(**settings):
    optimizer = ours(parameters(), lr=settings["lr"][0])
    schedule = RampAndTail(RampAndTailConfig(**settings), optimizer)
    schedule.plan(updates_per_epoch=10, total=100)
    return optimizer, schedule


def test_schedule_gives_each_update_its_own_rate():
    """fairseq calls step_update(n) after n updates; the rate then set is that of update n + 1."""
    optimizer, schedule = schedule_for(warmup_updates=4, decay="inverse_sqrt", lr=[1.0])
    rates = []
    for done in range(8):
        schedule.step_update(done)
        rates.append(optimizer.get_lr())
    expected = [min(t / 4, math.sqrt(4 / t)) for t in range(1, 9)]
    assert rates == pytest.approx(expected)


def test_schedule_without_a_ramp_starts_at_the_full_rate():
    optimizer, _ = schedule_for(warmup_updates=0, decay="constant", lr=[0.5])
    assert optimizer.get_lr() == 0.5


def test_schedule_steps_after_the_last_update_of_its_epoch():
    optimizer, schedule = schedule_for(warmup_updates=0, decay="step", step_epoch=2, lr=[1.0])
    rates = []
    for done in (18, 19, 20, 21, 90):
        schedule.step_update(done)
        rates.append(optimizer.get_lr())
    assert rates == pytest.approx([1.0, 1.0, 0.1, 0.1, 0.1])


def test_schedule_goes_on_where_a_checkpoint_stopped():
    """On resuming, fairseq tells the updates done before the length of the run is known."""
    optimizer = ours(parameters(), lr=1.0)
    schedule = RampAndTail(RampAndTailConfig(warmup_updates=0, decay="linear", lr=[1.0]), optimizer)
    schedule.step_update(49)
    schedule.plan(updates_per_epoch=10, total=100)
    assert optimizer.get_lr() == pytest.approx(0.51)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_radam_is_torchs(weight_decay):
    a, b = parameters(), parameters()
    cfg = AdamConfig(beta1=BETAS[0], beta2=BETAS[1], adam_eps=1e-8, weight_decay=weight_decay, lr=[1e-3])
    theirs = torch.optim.RAdam(
        b, lr=1e-3, betas=BETAS, eps=1e-8, weight_decay=weight_decay, decoupled_weight_decay=True
    )
    assert (steps(RAdam(cfg, a), a, 1.0) - steps(theirs, b, 1.0)).abs().max() < 1e-9


def test_radam_rectifies_as_its_paper_says():
    """One parameter by the paper's formulas (Liu et al. 2020, algorithm 2), with torch's limit rho_t > 5."""
    beta1, beta2, lr, eps = 0.9, 0.98, 1e-2, 1e-8
    param = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = RAdam(AdamConfig(beta1=beta1, beta2=beta2, adam_eps=eps, lr=[lr]), [param])
    theta, m, v, rho_inf = 1.0, 0.0, 0.0, 2 / (1 - beta2) - 1
    for t in range(1, 51):
        g = math.sin(t) + 0.5
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        rho = rho_inf - 2 * t * beta2**t / (1 - beta2**t)
        if rho > 5:
            r = math.sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
            theta -= lr * r * m / (1 - beta1**t) * math.sqrt(1 - beta2**t) / (math.sqrt(v) + eps)
        else:
            theta -= lr * m / (1 - beta1**t)
        param.grad = torch.tensor([g], dtype=torch.float64)
        optimizer.step()
    assert param.item() == pytest.approx(theta, abs=1e-6)


def test_sgd_is_vanilla():
    a, b = parameters(), parameters()
    theirs = torch.optim.SGD(b, lr=1e-3)
    got = steps(Sgd(SgdConfig(lr=[1e-3]), a), a, 1.0)
    assert (got - steps(theirs, b, 1.0)).abs().max() < 1e-9
    by_hand = torch.cat([param.detach().flatten() for param in parameters()])
    for step in range(50):
        generator = torch.Generator().manual_seed(step)
        drawn = [torch.randn(param.shape, generator=generator, dtype=param.dtype) for param in a]
        by_hand -= 1e-3 * torch.cat([gradient.flatten() for gradient in drawn])
    assert (got - by_hand).abs().max() < 1e-9
