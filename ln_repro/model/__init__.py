"""The Transformer in pure torch: the place of the norm, layers, initialisation, and what is measured of them.

A norm placement of your own is a subclass of `Residual`; see docs/add-a-scheme.md.
"""

from ln_repro.model.residual import Branch, Place, Residual

__all__ = ["Branch", "Place", "Residual"]
