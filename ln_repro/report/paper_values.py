"""Values of the paper's figures that could be recovered: digitised from the images, or printed in its text.

The curves of figures 2, 3(c), 3(d), 4(c), 4(d), 5(b), 5(c) and 6 could not be read.
"""

FIGURE_3: dict[str, dict[str, dict[int, float]]] = {
    "w1": {
        "preln": {1: 0.22, 2: 0.23, 3: 0.22, 4: 0.18, 5: 0.17, 6: 0.18},
        "postln": {1: 0.06, 2: 0.12, 3: 0.27, 4: 0.37, 5: 0.76, 6: 1.3},
    },
    "w2": {
        "preln": {1: 0.558, 2: 0.430, 3: 0.410, 4: 0.369, 5: 0.310, 6: 0.292},
        "postln": {1: 0.13, 2: 0.199, 3: 0.366, 4: 0.577, 5: 1.098, 6: 1.658},
    },
}
"""Frobenius norm of the mean gradient at initialisation, by layer of a 6-6 model, of figure 3(a) and (b).

W2 was digitised from the plotted points (+-0.005); W1 comes from a second-hand table (+-0.02).
"""
LAST_GRADIENT = (1.55, 1.65)
"""That of the last W2 of Post-LN models with 6 to 14 layers: "around 1.6" (section 3.4), to half of the last digit."""

FIGURE_4B = {
    "preln_nowarm": [11.7, 20.7, 25.8, 28.7, 29.9, 30.4, 31.6, 32.0, 33.0, 33.2, 33.3, 33.5, 33.5, 33.3, 33.4],
    "postln_warm": [1.8, 9.2, 17.4, 23.4, 27.0, 28.4, 30.6, 31.2, 31.2, 32.1, 32.8, 32.8, 33.1, 33.1, 33.1],
    "postln_nowarm_radam": [1.6, 7.0, 15.9, 21.4, 24.8, 26.6, 28.7, 29.5, 30.1, 31.1, 31.3, 31.7, 32.0, 32.1, 32.1],
}  # fmt: skip
"""BLEU of IWSLT14 after each epoch, digitised from the image of figure 4(b) (+-0.1; Post-LN's from epoch 11 on +-0.2).

Pre-LN with RAdam lies at most 0.3 above Pre-LN with Adam from epoch 3 on.
"""
