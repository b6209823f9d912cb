"""Every item of the compatibility module, by what fails without it (in a fresh process each)."""

import subprocess
import sys

import pytest

COMPAT = "from ln_repro.engine import compat; compat."


def python(code, *flags):
    return subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_fairseq_cannot_be_imported_without_hashable_dataclasses():
    assert "mutable default" in python("import fairseq").stderr
    done = python(
        "import dataclasses; before = dataclasses.dataclass\n"
        f"{COMPAT}import_with_hashable_dataclasses(); import fairseq.trainer\n"
        "assert dataclasses.dataclass is before",
        "-W", "error::UserWarning",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


LOAD = """
import argparse, io, os, torch
class Bad:
    def __reduce__(self):
        return os.system, ("echo executed",)
file = io.BytesIO()
torch.save({{"x": {content}}}, file)
file.seek(0)
torch.load(file)
"""
TRUST = f"{COMPAT}trust_checkpoint_types()"


@pytest.mark.slow
def test_checkpoints_with_a_namespace_cannot_be_loaded_without_trust():
    load = LOAD.format(content='argparse.Namespace(arch="x")')
    assert "Weights only load failed" in python(load).stderr
    assert python(TRUST + load).returncode == 0


def test_unpickling_anything_else_stays_forbidden():
    done = python(TRUST + LOAD.format(content="Bad()"))
    assert "Weights only load failed" in done.stderr and "executed" not in done.stdout


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
    loud = "\nimport torch\nwith torch.cuda.amp.autocast(enabled=False): pass"
    assert "torch.cuda.amp.autocast" in python(loud).stderr
    assert python(f"{COMPAT}quiet_warnings()" + loud).stderr == ""


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
