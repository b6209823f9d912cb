"""Every item of the compatibility module, by what fails without it (in a fresh process each)."""

import subprocess
import sys

import pytest


def python(code):
    return subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code], capture_output=True, text=True, check=False
    )


def outcome(code):
    done = python(code)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_fairseq_cannot_be_imported_without_hashable_dataclasses():
    status, error = outcome("import fairseq")
    assert status == 1
    assert "mutable default" in error
    status, error = outcome(
        "import dataclasses; before = dataclasses.dataclass\n"
        "from ln_repro.engine.compat import *; import_with_hashable_dataclasses(); import fairseq.trainer\n"
        "assert dataclasses.dataclass is before"
    )
    assert status == 0, error


CHECKPOINT = """
import argparse, io, torch
{fix}
file = io.BytesIO()
torch.save({{"args": argparse.Namespace(arch="x")}}, file)
file.seek(0)
torch.load(file)
"""


@pytest.mark.slow
def test_checkpoints_with_a_namespace_cannot_be_loaded_without_trust():
    status, error = outcome(CHECKPOINT.format(fix=""))
    assert status == 1
    assert "Weights only load failed" in error
    fix = "from ln_repro.engine.compat import trust_checkpoint_types as t; t()"
    assert outcome(CHECKPOINT.format(fix=fix))[0] == 0


def test_unpickling_anything_else_stays_forbidden():
    code = """
from ln_repro.engine.compat import trust_checkpoint_types as t; t()
import io, os, pickle, torch
class Bad:
    def __reduce__(self):
        return os.system, ("echo executed",)
file = io.BytesIO()
torch.save({"x": Bad()}, file)
file.seek(0)
torch.load(file)
"""
    done = python(code)
    assert done.returncode == 1
    assert "executed" not in done.stdout


@pytest.mark.slow
def test_fairseq_does_not_import_wandb():
    pytest.importorskip("wandb")
    watch = """
import sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "wandb": print("asked for wandb")
sys.meta_path.insert(0, Watch())
from ln_repro.engine import compat
{fix}
compat.import_with_hashable_dataclasses()
import fairseq.logging.progress_bar
"""
    assert "asked for wandb" in python(watch.format(fix="")).stdout
    assert python(watch.format(fix="compat.hide_trackers()")).stdout == ""


@pytest.mark.slow
def test_no_warnings_of_fairseqs_reach_the_log():
    loud = "import torch\n{fix}\nwith torch.cuda.amp.autocast(enabled=False): pass"
    code = "from ln_repro.engine import compat; compat.quiet_warnings()"
    plain = subprocess.run([sys.executable, "-c", loud.format(fix="")], capture_output=True, text=True, check=False)
    quiet = subprocess.run([sys.executable, "-c", loud.format(fix=code)], capture_output=True, text=True, check=False)
    assert "torch.cuda.amp.autocast" in plain.stderr
    assert quiet.stderr == ""


@pytest.mark.slow
def test_an_optimizer_imports_no_compiler():
    code = """
import sys, torch
from ln_repro.engine import compat
compat.import_with_hashable_dataclasses()
from ln_repro.engine.plugin.optimizers import Adam, AdamConfig, RAdam, Sgd, SgdConfig
{fix}
for kind, config in ((Adam, AdamConfig), (RAdam, AdamConfig), (Sgd, SgdConfig)):
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = kind(config(lr=[0.1]), [parameter])
    parameter.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
    assert (parameter < 1).all()
print("torch._dynamo" in sys.modules)
"""
    assert python(code.format(fix="")).stdout.strip() == "True"
    assert python(code.format(fix="compat.leave_the_compiler_out()")).stdout.strip() == "False"
