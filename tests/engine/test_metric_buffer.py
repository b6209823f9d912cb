"""The metrics of updates that are read together."""

import pytest
import torch

from ln_repro.engine.group import Group
from ln_repro.engine.metric_buffer import MetricBuffer, Update
from ln_repro.engine.plugin.task import per_token
from ln_repro.system.distributed import Rank


def update(number, loss, gnorm=1.0, tokens=2):
    """Return an update of so many bits per token."""
    nats = torch.tensor(loss * tokens, dtype=torch.double) * torch.tensor(2.0).double().log()
    log = {"loss": nats, "nll_loss": nats, "sample_size": tokens}
    return Update(number, 0.5, [log], torch.tensor(gnorm))


NAN = float("nan")


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("updates", "last", "counted", "words"),
    [
        ([update(1, 3), update(2, 2), update(3, NAN, NAN), update(4, 1)], 2, 2, "gradients are Nan/Inf"),
        ([update(1, 3), update(2, 2), update(3, NAN), update(4, 1, NAN)], 2, 2, "the loss is not finite"),
        ([update(1, 3), update(2, 2), update(3, 1), update(4, 2)], 4, 4, None),
    ],
)
def test_the_end_of_a_run_does_not_depend_on_when_it_is_read(updates, last, counted, words, at_once):
    metrics, verdict = MetricBuffer(0, None), None
    try:
        for one in updates:
            metrics.unread.append(one)
            if not at_once:
                metrics.flush(Group(Rank()))
        metrics.flush(Group(Rank()))
    except FloatingPointError as error:
        verdict = str(error)
    assert verdict == words
    assert metrics.last.number == last and len(metrics.logs) == counted
    assert metrics.last_loss == pytest.approx(2)
    assert per_token(metrics.logs)["loss"] == pytest.approx((3, 5 / 2, 2, 2)[counted - 1])
