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
from ln_repro.engine.process_group import Group
from ln_repro.engine.stop import StopRequest
from ln_repro.records import provenance
from ln_repro.records.run_dir import write_json
from ln_repro.system.distributed import Rank
from tests.e2e.conftest import made_up_corpus
from tests.examples import experiment
from tests.stock_binariser import binarise

store = ConfigStore.instance()
ours = copy.deepcopy(store.repo)
hidden = [name for name in ("wandb", "tensorboardX") if name not in sys.modules]
compat.apply()
for name in hidden:  # only the engine's own process does without them for good
    del sys.modules[name]
from ln_repro.engine.loop import Loop  # noqa: E402
from ln_repro.engine.plugin.model import LnTransformer  # noqa: E402

store.repo = ours  # fairseq fills Hydra's store with its own settings, which other tests in this process would meet
torch.set_num_threads(1)
SCRIPT = Path(__file__).with_name("disturbed.py")
SMALL = {
    "model__layers": 1, "model__width": 16, "model__ffn": 32, "model__heads": 2, "model__share_embeddings": False,
    "lr": 1e-3, "schedule__warmup_updates": 0, "train__max_tokens": 120, "train__max_epoch": 2,
    "train__max_update": None, "train__log_every": 10, "train__save_every": 1000,
}  # fmt: skip
SETTINGS = SMALL | {
    "model__share_embeddings": True, "model__dropout": 0.1,
    "schedule__warmup_updates": 5, "train__max_tokens": 240, "train__max_epoch": None, "train__max_update": 20,
    "train__log_every": 1,
}  # fmt: skip
ROWS = {
    "warm": {"lr": 2e-3},
    "capped": {"schedule__decay": "step", "schedule__step_update": 8, "schedule__step_reset": "optimizer",
               "optimizer__max_relative_update": 1e-2},
    "sgd": {"optimizer__name": "sgd", "optimizer__betas": None, "optimizer__eps": None, "lr": 0.02},
    "part": {"schedule__part": "decoder", "optimizer__equal_layer_norms": True, "train__clip_norm": 0.5},
}  # fmt: skip
"""Settings in which the runs of a stack differ."""


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

    def run(folder, what="stop", method="valid_step", number=0, fails=None, **changes):
        folder.mkdir(exist_ok=True)
        small, saved = experiment(**SMALL | changes), Checkpoints(folder / "checkpoints")
        write_json(folder / "experiment.json", small.model_dump(mode="json"))
        point = saved.resume_point(pytest.fail)
        saved.forget_after(point.update if point else -1)
        inputs = Inputs(small, folder, corpus, resume=saved.folder / point.file if point else None)
        command = [sys.executable, str(SCRIPT), what, method, str(number), *inputs.arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode != 1 or (fails and fails in done.stderr), done.stderr[-2000:]
        return done.returncode

    return run


@pytest.fixture
def loops(corpus, tmp_path, monkeypatch):
    """Return a function that begins the loops of some runs, each in a folder, or resumes them from their last state."""
    monkeypatch.setattr(provenance, "code", dict)  # git takes longer than the updates

    def make(rows=ROWS, place="runs", unigram_bits=math.inf, **changes):
        made = []
        for name, its_own in rows.items():
            folder = tmp_path / place / name
            folder.mkdir(parents=True, exist_ok=True)
            settings = experiment(**SETTINGS | changes | its_own)
            write_json(folder / "experiment.json", settings.model_dump(mode="json"))
            saved = Checkpoints(folder / "checkpoints")
            point = saved.resume_point(pytest.fail)
            inputs = Inputs(settings, folder, corpus, unigram_bits, resume=saved.folder / point.file if point else None)
            made.append(Loop(inputs, StopRequest(), Group(Rank()), len(rows) if place == "runs" else 1))
        return made

    return make
