"""In bf16 a run takes the course that it takes in fp32, as nearly as another seed does."""

from itertools import pairwise
from statistics import fmean

import pytest

from tests.engine.test_stock import losses

SMALL = (
    "--task ln_translation --arch ln_transformer --norm preln --layers 2 --width 32 --ffn 64 --heads 2 --dropout 0.1 "
    "--source-lang de --target-lang en --criterion ln_cross_entropy --optimizer ln_adam --share-embeddings "
    "--lr-scheduler ln_ramp_and_tail --lr 2e-3 --max-tokens 240 --max-update 120 --num-workers 0 --log-format none "
    "--save-interval-updates 1000"
).split()


def course(corpus, folder, seed, precision="fp32"):
    """Return the mean loss of every twenty updates."""
    where = ["--save-dir", folder / f"{precision}-{seed}" / "checkpoints"]
    where[1].parent.mkdir()
    every = losses("ours", [corpus, *SMALL, "--seed", seed, "--precision", precision, *where])
    return [fmean(every[start:end]) for start, end in pairwise(range(0, 121, 20))]


@pytest.mark.slow
def test_courses_in_bf16_and_fp32_lie_within_what_a_seed_changes(corpus, tmp_path):
    seeds = [course(corpus, tmp_path, seed) for seed in (7, 1_000_010, 2_000_013)]
    low = course(corpus, tmp_path, 7, "bf16")
    by_seed = max(max(values) - min(values) for values in zip(*seeds, strict=True))
    by_precision = max(abs(here - there) for here, there in zip(low, seeds[0], strict=True))
    assert seeds[0][0] - seeds[0][-1] > 1  # it learns
    assert 0 < by_precision < by_seed
