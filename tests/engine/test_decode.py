"""The mean of several epochs' weights."""

import torch

from ln_repro.engine.decode import mean_weights

SMALL = {"layers": 1, "width": 16, "ffn": 24, "heads": 2, "norm": "preln"}


def saved(folder, *models):
    files = [folder / f"{number}.pt" for number in range(len(models))]
    for file, model in zip(files, models, strict=True):
        torch.save({"model": model.state_dict()}, file)
    return files


def test_the_mean_of_weights_is_their_mean(build_model, tmp_path):
    models = [build_model(seed=seed, share_embeddings=True, **SMALL) for seed in (1, 2, 3)]
    mean = mean_weights(saved(tmp_path, *models))
    states = [model.state_dict() for model in models]
    assert list(mean) == list(states[0])
    for name, values in mean.items():
        expected = torch.stack([state[name].double() for state in states]).mean(0)
        torch.testing.assert_close(values, expected, atol=1e-15, rtol=1e-15)
    models[0].load_state_dict(mean)
    assert all(torch.equal(values, mean[name].float()) for name, values in models[0].state_dict().items())
    (embedding,) = {  # still one matrix
        values.data_ptr() for values in models[0].state_dict().values() if values.shape == (40, SMALL["width"])
    }
    assert embedding


def test_the_mean_of_copies_is_the_original_bit_for_bit(build_model, tmp_path):
    state = build_model(share_embeddings=False, **SMALL).state_dict()
    (file,) = saved(tmp_path, build_model(share_embeddings=False, **SMALL))
    for number in (1, 2, 3, 7):
        mean = mean_weights([file] * number)
        assert all(torch.equal(mean[name].float(), values) for name, values in state.items())
