"""Figure 3 of the paper, read off: Frobenius norm of the mean gradient at initialisation, layers 1 to 6 (6-6 model).

Panel (b) was read from the plotted points, panel (a) from a second-hand table (+-0.02). Panels (c) and (d) could not be
read; the text gives about 1.6 for Post-LN at every size.
"""

FIGURE_3 = {
    "a": {
        "preln": (0.22, 0.23, 0.22, 0.18, 0.17, 0.18),
        "postln": (0.06, 0.12, 0.27, 0.37, 0.76, 1.3),
    },
    "b": {
        "preln": (0.558, 0.430, 0.410, 0.369, 0.310, 0.292),
        "postln": (0.13, 0.199, 0.366, 0.577, 1.098, 1.658),
    },
}
