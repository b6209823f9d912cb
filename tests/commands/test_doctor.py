"""What the doctor finds, and what it advises."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ln_repro import cli
from ln_repro.commands import doctor
from ln_repro.engine.device import Gpu

OLD_DRIVER = Gpu(None, False, problem="/dev/nvidia0 exists, but the driver is too old")


def pretend(patch: pytest.MonkeyPatch, module: str, **parts: Any) -> None:
    """Show the doctor, and nobody else, a module with these parts."""
    patch.setattr(doctor, module, SimpleNamespace(**parts))


def install(patch: pytest.MonkeyPatch, **versions: str) -> None:
    """Show the doctor these packages."""
    patch.setattr(doctor.provenance, "version_of", versions.get)
    pretend(patch, "importlib", util=SimpleNamespace(find_spec=versions.get))


def torch(patch: pytest.MonkeyPatch, code: int, says: str = "") -> None:
    """Let torch answer at once."""
    answer = subprocess.CompletedProcess([], code, says, "")
    pretend(patch, "subprocess", run=lambda *arguments, **options: answer)


def python(patch: pytest.MonkeyPatch, *version: int) -> None:
    """Show the doctor this version of Python."""
    pretend(patch, "sys", version_info=version, executable=sys.executable)


@pytest.fixture(autouse=True)
def good_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pretend a machine without a GPU where everything needed is there; look at an empty place."""
    monkeypatch.chdir(tmp_path)
    install(monkeypatch, fairseq="0.12.2", wandb="0.19.1")
    torch(monkeypatch, 0, "2.13.0\n")
    monkeypatch.setattr(doctor, "gpu", lambda: Gpu(None, False))
    python(monkeypatch, 3, 12, 1)
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=100 * 2**30))


def asked(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return exit code and the checks by name."""
    code = cli.main(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)
    assert all(set(check) == {"name", "ok", "found", "advice", "needed"} for check in checks)
    return code, {check["name"]: check for check in checks}


def test_a_machine_where_everything_works(capsys: pytest.CaptureFixture[str]) -> None:
    code, checks = asked(capsys)
    assert code == 0
    assert set(checks) == {"python", "torch", "gpu", "fairseq", "disk", "data", "wandb"}
    assert all(check["ok"] for check in checks.values() if check["needed"])
    assert not checks["gpu"]["ok"] and "CPU" in checks["gpu"]["advice"]


def test_without_fairseq_it_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, wandb="0.19.1")
    assert cli.main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "FAIL fairseq  not installed  ->  pip install --no-deps fairseq==0.12.2" in lines


@pytest.mark.parametrize(
    ("name", "change", "advice", "code"),
    [
        ("fairseq", lambda patch: install(patch, fairseq="0.10.0"), "fairseq==0.12.2", 1),
        ("python", lambda patch: python(patch, 3, 14, 0), "3.11, 3.12 or 3.13", 1),
        ("disk", lambda patch: patch.setattr(doctor, "FREE_GIB", 1000), "LN_REPRO_RUNS", 1),
        ("torch", lambda patch: torch(patch, 1), "pip install 'torch", 1),
        ("gpu", lambda patch: patch.setattr(doctor, "gpu", lambda: OLD_DRIVER), "or use train.device=cpu", 1),
        ("wandb", lambda patch: install(patch, fairseq="0.12.2"), "tracker=none", 0),
    ],
)
def test_what_is_wrong_has_advice_and_if_needed_decides_the_exit_code(
    name: str, change: Any, advice: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change(monkeypatch)
    found, checks = asked(capsys)
    assert found == code and not checks[name]["ok"] and advice in checks[name]["advice"]
