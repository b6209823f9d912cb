"""What a record keeps of a run's events."""

from ln_repro.records.series import POINTS, Probe, TrainingCurve, curve, probes

LAYERS = [0.987654, 0.9912, 0.99, 1.0, 1.0, 0.998765]


def collapse(update, **changes):
    """Return the event of a probe of collapse of 6+6 layers."""
    norms = [1.2345e-05, 0.0012345, 0.012345, 0.12345, 0.12345, 0.12345]
    values = {
        "cosine": {"encoder": LAYERS, "decoder": LAYERS}, "squared_cosine": {"encoder": LAYERS, "decoder": [0.5, 0.25]},
        "entropy": {"encoder.self": LAYERS},
        "gradient": dict.fromkeys(("encoder.w2", "decoder.w2", "decoder.cross.v"), norms),
        "nll": {"eval": 5.762, "dropout": 5.809}, **changes,
    }  # fmt: skip
    return {"kind": "probe", "name": "collapse", "update": update, "batches": 3, "values": values}


def test_a_curve_has_the_means_of_equally_many_losses():
    events = [{"kind": "train", "update": 20 * n, "loss": float(n)} for n in range(1, 150)]
    thinned = curve([*events, {"kind": "train", "update": 3000, "loss": None}, {"kind": "valid", "update": 1}])
    assert len(thinned.update) == len(thinned.loss) == 50 <= POINTS
    assert (thinned.update[0], thinned.loss[0]) == (60, 2.0)  # the mean of 1, 2, 3
    assert (thinned.update[-1], thinned.loss[-1]) == (3000, 148.5)  # without the one that is not finite
    assert curve([]) == TrainingCurve()


def test_a_series_of_collapse_is_thinned_to_five_kilobytes():
    due = sorted({*range(0, 1323, 200), *(2**n for n in range(11))})
    found = probes([collapse(update) for update in due])
    assert [probe.update for probe in found] == [0, 1, 2, 4, 8, 16, 32, 64, 256, 1024, 1200]
    assert sum(len(probe.model_dump_json()) for probe in found) < 5000
    assert found[0].values["gradient"] == {"encoder.w2": 1.23e-05, "decoder.w2": 1.23e-05}, "of the first layer"
    cosines = [0.988, 0.991, 0.99, 1.0, 1.0, 0.998765]
    assert found[0].values["cosine"] == {"encoder": cosines, "decoder": cosines}, "the output's with all digits"
    assert found[0].values["squared_cosine"] == {"encoder": 0.998765, "decoder": 0.25}, "of the output"
    old = collapse(0)
    del old["values"]["squared_cosine"]
    assert "squared_cosine" not in probes([old])[0].values


def test_a_probe_with_a_value_that_is_not_finite_has_no_values():
    (found,) = probes([collapse(8, nll={"eval": None, "dropout": 1.0})])
    assert found == Probe(name="collapse", update=8, batches=3, values=None)


def test_of_gradients_and_updates_what_is_reported_is_kept():
    weights = {name: [1.0, 2.0] for name in ("encoder.w2", "decoder.w2", "decoder.w1", "decoder.cross.q")}
    of_one_stack = {key: {"encoder.w1": [1.0], "encoder.w2": [3.0]} for key in ("norm_of_mean", "mean_of_norms")}
    gradients = {"norm_of_mean": weights, "mean_of_norms": weights, "noise": weights}
    updates = {"weights": {"encoder.w1": [0.1, 0.3], "decoder.w2": [0.2, 0.1]}, "outputs": {"decoder": [0.4, 0.5]}}
    events = [
        {"kind": "probe", "name": name, "update": 4, "batches": 2, "values": values}
        for name, values in (("gradients", gradients), ("gradients", of_one_stack), ("updates", updates))
    ]
    first, masked_lm, second = probes(events)
    assert first.values == {key: {"decoder.w2": [1.0, 2.0]} for key in of_one_stack}
    assert masked_lm.values == {key: {"encoder.w2": [3.0]} for key in of_one_stack}
    assert second.values == {"weights": 0.3, "outputs": {"decoder": 0.5}}
