"""What the doctor finds, and what it advises."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from ln_repro.commands import doctor
from ln_repro.system.gpu import Gpu

GOOD = {
    "python": (3, 12, 1), "torch exits with": 0, "fairseq": "0.12.2", "wandb": "0.19.1", "gpu": Gpu(None, False),
    "free GiB": 100,
}  # fmt: skip
"""A machine without a GPU where everything needed is there."""
OLD_DRIVER = Gpu(None, False, problem="/dev/nvidia0 exists, but the driver is too old")


@pytest.fixture
def examined(monkeypatch, tmp_path, call):
    """Return a function that changes the good machine and returns exit code and output of the doctor."""

    def examine(changes, *flags):
        machine = GOOD | changes
        torch = subprocess.CompletedProcess([], machine["torch exits with"], "2.13.0\n", "")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(doctor, "sys", SimpleNamespace(version_info=machine["python"], executable=sys.executable))
        monkeypatch.setattr(doctor, "subprocess", SimpleNamespace(run=lambda *arguments, **options: torch))
        monkeypatch.setattr(doctor.provenance, "version_of", machine.get)
        monkeypatch.setattr(doctor.gpu, "default", lambda: machine["gpu"])
        monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=machine["free GiB"] * 2**30))
        return call("doctor", *flags)[:2]

    return examine


def test_a_machine_where_everything_works(examined):
    code, out = examined({}, "--json")
    checks = {check.pop("name"): check for check in json.loads(out)}
    assert code == 0
    assert set(checks) == {"python", "torch", "gpu", "fairseq", "disk", "data", "wandb"}
    assert all(check["ok"] for check in checks.values() if check["needed"])
    assert not checks["gpu"]["ok"] and "CPU" in checks["gpu"]["advice"]


def test_folders_that_cannot_be_written_to_are_found(examined, monkeypatch, tmp_path):
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(doctor, "existing", lambda folder: folder)  # `data` does not exist
    code, out = examined({})
    assert code == 1 and "data: not writable  ->  set LN_REPRO_RUNS and LN_REPRO_DATA" in out


@pytest.mark.parametrize(("changes", "line", "advice", "code"), [
    ({"fairseq": None}, "FAIL fairseq  not installed", "pip install --no-deps fairseq==0.12.2", 1),
    ({"python": (3, 14, 0)}, "FAIL python", "3.11, 3.12 or 3.13", 1),
    ({"free GiB": 1}, "FAIL disk     1 GiB free", "LN_REPRO_RUNS", 1),
    ({"torch exits with": 1}, "FAIL torch    cannot be imported", "pip install 'torch", 1),
    ({"gpu": OLD_DRIVER}, "FAIL gpu      /dev/nvidia0 exists", "or use train.device=cpu", 1),
    ({"wandb": None}, "-    wandb    not installed", "tracker=none", 0),
])  # fmt: skip
def test_what_is_wrong_has_advice_and_if_needed_decides_the_exit_code(changes, line, advice, code, examined):
    found, out = examined(changes)
    (said,) = (each for each in out.splitlines() if each.startswith(line))
    assert found == code and advice in said.partition("  ->  ")[2]
