"""Reproduction of "On Layer Normalization in the Transformer Architecture" (Xiong et al., ICML 2020)."""
