"""Values of figure 3: Frobenius norm of the mean gradient at initialisation, by layer or by depth.

Panel (b) was digitised from the plotted points, panel (a) comes from a second-hand table (+-0.02); both are for a 6-6
model. Panels (c) and (d) could not be read; for (c), the text gives "around 1.6" at every depth.
"""

FIGURE_3: dict[str, dict[str, dict[int, float]]] = {
    "a": {
        "preln": {1: 0.22, 2: 0.23, 3: 0.22, 4: 0.18, 5: 0.17, 6: 0.18},
        "postln": {1: 0.06, 2: 0.12, 3: 0.27, 4: 0.37, 5: 0.76, 6: 1.3},
    },
    "b": {
        "preln": {1: 0.558, 2: 0.430, 3: 0.410, 4: 0.369, 5: 0.310, 6: 0.292},
        "postln": {1: 0.13, 2: 0.199, 3: 0.366, 4: 0.577, 5: 1.098, 6: 1.658},
    },
    "c": {"postln": {6: 1.6, 8: 1.6, 10: 1.6, 12: 1.6, 14: 1.6}},
}
