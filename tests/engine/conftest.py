"""fairseq and the plug-ins, loaded before any test of the engine is."""

import copy
import importlib
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hydra.core.config_store import ConfigStore

from ln_repro.engine import compat
from tests.e2e.conftest import made_up_corpus
from tests.stock_binariser import binarise

store = ConfigStore.instance()
ours = copy.deepcopy(store.repo)
hidden = [name for name in ("wandb", "tensorboardX") if name not in sys.modules]
compat.apply()
for name in hidden:  # only the engine's own process does without them for good
    del sys.modules[name]
for name in ("classification", "encoder_only", "masked_lm", "schedules"):
    importlib.import_module(f"ln_repro.engine.plugin.{name}")
store.repo = ours  # fairseq fills Hydra's store with its own settings, which other tests in this process would meet
torch.set_num_threads(1)
SCRIPT = Path(__file__).with_name("disturbed.py")
SMALL = (
    "--task ln_translation --arch ln_transformer --layers 1 --width 16 --ffn 32 --heads 2 --source-lang de "
    "--target-lang en --criterion ln_cross_entropy --lr-scheduler ln_ramp_and_tail --lr 1e-3 --max-tokens 120 "
    "--max-epoch 2 --num-workers 0 --log-format none --log-interval 10 --save-interval-updates 1000 "
    "--optimizer ln_adam"
).split()


@pytest.fixture(autouse=True)
def seeded():
    """Start every test from the same random numbers, whichever tests this process has run before."""
    torch.manual_seed(0)


@pytest.fixture
def build_model():
    """Return a function that builds the model for a vocabulary of a given size."""
    from ln_repro.engine.plugin.model import LnTransformer, LnTransformerConfig
    from tests.engine.made import dictionary

    def build(size: int = 40, seed: int = 1, **settings):
        words = dictionary(size)
        task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
        torch.manual_seed(seed)
        return LnTransformer.build_model(LnTransformerConfig(**settings), task)

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

    from ln_repro.engine.checkpoints import Checkpoints

    def run(folder, what="stop", method="valid_step", number=0, extra=(), fails=None):
        folder.mkdir(exist_ok=True)
        point = Checkpoints(folder / "checkpoints").resume_point(pytest.fail)
        Checkpoints(folder / "checkpoints").forget_after(point.update if point else -1)
        resume = ["--restore-file", folder / "checkpoints" / point.file] if point else []
        command = [SCRIPT, what, method, number, corpus, *SMALL, *extra, "--save-dir", folder / "checkpoints"]
        command = [sys.executable, *map(str, command + resume)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode != 1 or (fails and fails in done.stderr), done.stderr[-2000:]
        return done.returncode

    return run
