"""The layers against PyTorch's own Transformer layers, given the same weights."""

import pytest
import torch
from torch import nn

from ln_repro.engine.plugin.layers import DecoderLayer, EncoderLayer, Shape

pytestmark = pytest.mark.usefixtures("double")
TIME, MEMORY, BATCH, WIDTH, FFN, HEADS = 7, 9, 3, 32, 48, 4


def shape(norm):
    return Shape(norm, 1, WIDTH, FFN, HEADS, 0.0)


def copy_attention(ours, theirs):
    theirs.in_proj_weight.copy_(torch.cat([ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight]))
    theirs.in_proj_bias.copy_(torch.cat([ours.q_proj.bias, ours.k_proj.bias, ours.v_proj.bias]))
    theirs.out_proj.load_state_dict(ours.out_proj.state_dict())


def copy_rest(ours, theirs, norms):
    theirs.linear1.load_state_dict(ours.ffn.fc1.state_dict())
    theirs.linear2.load_state_dict(ours.ffn.fc2.state_dict())
    for name, residual in norms.items():
        nn.init.normal_(residual.norm.weight, 1.0, 0.3)
        nn.init.normal_(residual.norm.bias, 0.0, 0.3)
        getattr(theirs, name).load_state_dict(residual.norm.state_dict())


@pytest.mark.parametrize(("norm", "norm_first"), [("postln", False), ("preln", True)])
@torch.no_grad()
def test_encoder_layer_equals_torch(norm, norm_first):
    torch.manual_seed(0)
    ours = EncoderLayer(shape(norm)).eval()
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, FFN, 0.0, norm_first=norm_first).eval()
    copy_attention(ours.self_attn, theirs.self_attn)
    copy_rest(ours, theirs, {"norm1": ours.self_attn_residual, "norm2": ours.ffn_residual})
    x = torch.randn(TIME, BATCH, WIDTH)
    padding = torch.arange(TIME)[None, :] >= torch.tensor([[7], [5], [2]])
    mask = torch.zeros(BATCH, TIME).masked_fill(padding, float("-inf"))
    got = ours(x, mask[:, None, None, :])
    expected = theirs.train()(x, src_key_padding_mask=mask)  # train: keeps torch off its nested-tensor path
    real = ~padding.T
    torch.testing.assert_close(got[real], expected[real])


@pytest.mark.parametrize(("norm", "norm_first"), [("postln", False), ("preln", True)])
@torch.no_grad()
def test_decoder_layer_equals_torch(norm, norm_first):
    torch.manual_seed(0)
    ours = DecoderLayer(shape(norm)).eval()
    theirs = nn.TransformerDecoderLayer(WIDTH, HEADS, FFN, 0.0, norm_first=norm_first).eval()
    copy_attention(ours.self_attn, theirs.self_attn)
    copy_attention(ours.cross_attn, theirs.multihead_attn)
    norms = {"norm1": ours.self_attn_residual, "norm2": ours.cross_attn_residual, "norm3": ours.ffn_residual}
    copy_rest(ours, theirs, norms)
    x, memory = torch.randn(TIME, BATCH, WIDTH), torch.randn(MEMORY, BATCH, WIDTH)
    got = ours(x, memory, None, None)
    causal = nn.Transformer.generate_square_subsequent_mask(TIME)
    expected = theirs(x, memory, tgt_mask=causal, tgt_is_causal=True)
    torch.testing.assert_close(got, expected)
