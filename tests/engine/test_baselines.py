"""What the benchmark counts."""

import pytest
import torch

from ln_repro.engine.baselines import operations
from ln_repro.engine.plugin.attention import Attention


@pytest.mark.parametrize("causal", [True, False])
def test_the_products_of_attention_are_counted_on_a_cpu(causal):
    width, heads, time, batch = 32, 4, 12, 3
    attention, x = Attention(width, heads), torch.randn(time, batch, width, requires_grad=True)
    forward = 2 * batch * time * width * (4 * width + 2 * time)
    assert operations(lambda: attention(x, x, None, causal, None)) == forward
    assert operations(lambda: attention(x, x, None, causal, None).sum().backward()) == 3 * forward
