"""fairseq and our classes for it, loaded before any test of the engine is."""

import copy
import math
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hydra.core.config_store import ConfigStore

from ln_repro.engine import compat
from ln_repro.engine.checkpoints import Checkpoints
from ln_repro.engine.inputs import Inputs
from ln_repro.records.run_dir import write_json
from tests.e2e.conftest import made_up_corpus
from tests.examples import experiment
from tests.stock_binariser import binarise

store = ConfigStore.instance()
ours = copy.deepcopy(store.repo)
hidden = [name for name in ("wandb", "tensorboardX") if name not in sys.modules]
compat.apply()
for name in hidden:  # only the engine's own process does without them for good
    del sys.modules[name]
from ln_repro.engine.plugin.model import LnTransformer  # noqa: E402

store.repo = ours  # fairseq fills Hydra's store with its own settings, which other tests in this process would meet
torch.set_num_threads(1)
SCRIPT = Path(__file__).with_name("disturbed.py")
SMALL = {
    "model__layers": 1, "model__width": 16, "model__ffn": 32, "model__heads": 2, "model__share_embeddings": False,
    "lr": 1e-3, "schedule__warmup_updates": 0, "train__max_tokens": 120, "train__max_epoch": 2,
    "train__max_update": None, "train__log_every": 10, "train__save_every": 1000,
}  # fmt: skip


@pytest.fixture(autouse=True)
def seeded():
    """Start every test from the same random numbers, whichever tests this process has run before."""
    torch.manual_seed(0)


@pytest.fixture
def build_model():
    """Return a function that builds the model for a vocabulary of a given size."""
    from tests.engine.made import dictionary

    def build(size: int = 40, seed: int = 1, norm: str = "postln", init: str = "xavier_legacy", **model):
        words = dictionary(size)
        task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
        torch.manual_seed(seed)
        changes = {f"model__{key}": value for key, value in ({"share_embeddings": False} | model).items()}
        return LnTransformer(experiment(norm=norm, init=init, **changes), task)

    return build


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Return a small binarised corpus: made-up words, to be reversed."""
    folder = tmp_path_factory.mktemp("corpus")
    binarise(made_up_corpus(folder / "text"), folder / "bin", "de", "en")
    return folder / "bin"


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    """Return a small binarised corpus: letters, to be reversed; target words of three letters are two subwords."""
    folder = tmp_path_factory.mktemp("letters")
    draw = random.Random(1)
    (folder / "bpe").mkdir()
    for split, size in (("train", 1500), ("valid", 20), ("test", 20)):
        with (folder / "bpe" / f"{split}.de").open("w") as source, (folder / "bpe" / f"{split}.en").open("w") as target:
            for _ in range(size):
                words = [draw.choice("abcdefghijklmnop") * draw.randint(1, 3) for _ in range(draw.randint(3, 12))]
                print(*words, file=source)
                print(*(word.upper().replace(3 * word[0].upper(), f"{2 * word[0].upper()}@@ {word[0].upper()}")
                        for word in reversed(words)), file=target)  # fmt: skip
    binarise(folder / "bpe", folder / "bin", "de", "en")
    return folder / "bin"


@pytest.fixture
def trained(corpus):
    """Return a function that trains in a folder, disturbed, from where it got to; it returns the exit status."""

    def run(folder, what="stop", method="valid_step", number=0, fails=None, unigram_bits=math.inf, **changes):
        folder.mkdir(exist_ok=True)
        small, saved = experiment(**SMALL | changes), Checkpoints(folder / "checkpoints")
        write_json(folder / "experiment.json", small.model_dump(mode="json"))
        point = saved.resume_point(pytest.fail)
        saved.forget_after(point.update if point else -1)
        inputs = Inputs(small, folder, corpus, unigram_bits, resume=saved.folder / point.file if point else None)
        command = [sys.executable, str(SCRIPT), what, method, str(number), *inputs.arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode != 1 or (fails and fails in done.stderr), done.stderr[-2000:]
        return done.returncode

    return run
