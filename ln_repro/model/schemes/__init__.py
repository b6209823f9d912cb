"""The schemes that followed the paper's two, by what they change."""
