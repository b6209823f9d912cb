"""Every item of the compatibility module, by what fails without it (in a fresh process each)."""

import subprocess
import sys

import pytest

COMPAT = "import argparse, io, os, sys\nfrom ln_repro.engine import compat\n"
LOAD = """
import torch
class Bad:
    def __reduce__(self):
        return os.system, ("echo executed",)
file = io.BytesIO()
torch.save({{"x": {content}}}, file)
file.seek(0)
torch.load(file)
"""
CUDNN = "import torch\nassert not torch.backends.cuda.cudnn_sdp_enabled(), 'attention by cuDNN'"
OPTIMIZE = """
compat.import_with_hashable_dataclasses()
import torch
from ln_repro.engine.plugin.optimizers import KINDS, optimizer_of
from ln_repro.experiment.optimizer import Optimizer
for name in KINDS:
    parameter = torch.nn.Parameter(torch.ones(3))
    moments = {} if name == "sgd" else {"betas": (0.9, 0.98), "eps": 1e-8}
    optimizer = optimizer_of(Optimizer(name=name, **moments), 0.1, [parameter])
    parameter.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
    assert (parameter < 1).all()
assert "torch._dynamo" not in sys.modules, "the compiler was imported"
"""
TRACKERS = """
compat.import_with_hashable_dataclasses()
import fairseq.logging.progress_bar
assert not sys.modules.get("wandb"), "wandb was imported"
"""
HASHABLE = "import dataclasses, fairseq.trainer\nassert dataclasses.dataclass.__module__ == 'dataclasses'"
NEEDED = {  # item: code, and what it complains of without the item
    "import_with_hashable_dataclasses": (HASHABLE, "mutable default"),
    "trust_checkpoint_types": (LOAD.format(content='argparse.Namespace(arch="x")'), "Weights only load failed"),
    "hide_trackers": (TRACKERS, "wandb was imported"),
    "quiet_warnings": ("import torch\nwith torch.cuda.amp.autocast(enabled=False): pass", "torch.cuda.amp.autocast"),
    "leave_the_compiler_out": (OPTIMIZE, "the compiler was imported"),
    "leave_cudnn_attention_out": (CUDNN, "attention by cuDNN"),
}


def python(code):
    return subprocess.run([sys.executable, "-c", COMPAT + code], capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("item", NEEDED)
def test_every_item_is_needed(item):
    code, complaint = NEEDED[item]
    assert complaint in python(code).stderr
    done = python(f"compat.{item}()\n{code}")
    assert done.returncode == 0 and complaint not in done.stderr, done.stderr


def test_unpickling_anything_else_stays_forbidden():
    done = python("compat.trust_checkpoint_types()\n" + LOAD.format(content="Bad()"))
    assert "Weights only load failed" in done.stderr and "executed" not in done.stdout
