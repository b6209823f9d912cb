"""The feed-forward sub-layer."""

import torch.nn.functional as F
from torch import Tensor, nn


class FeedForward(nn.Module):
    """Two linear maps with a ReLU in between: width -> ffn -> width.

    A norm placement may replace ``inner``, applied after the ReLU (`Residual.inside`). ``gain`` is that of the initial
    weights.
    """

    gain = 1.0

    def __init__(self, width: int, ffn: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, ffn)
        self.fc2 = nn.Linear(ffn, width)
        self.inner: nn.Module = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        dtype = self.fc1.weight.dtype
        return self.fc2(self.inner(F.relu(self.fc1(x.to(dtype)))).to(dtype))
