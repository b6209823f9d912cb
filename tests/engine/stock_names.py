"""Our weights by stock fairseq's names."""

RENAMED = {
    ".stack.norm.": ".layer_norm.",
    ".stack.": ".",
    ".embed.embedding.": ".embed_tokens.",
    ".projection.": ".output_projection.",
    ".cross_attn.": ".encoder_attn.",
    ".ffn.fc": ".fc",
    ".self_attn_residual.norm.": ".self_attn_layer_norm.",
    ".cross_attn_residual.norm.": ".encoder_attn_layer_norm.",
    ".ffn_residual.norm.": ".final_layer_norm.",
}


def stock_names(weights):
    """Return our weights by fairseq's names."""
    found = {}
    for name, values in weights.items():
        for ours, theirs in RENAMED.items():
            name = name.replace(ours, theirs)
        found[name] = values
    return found
