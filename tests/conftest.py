"""What every test shares."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["WANDB_MODE"] = "offline"
os.environ["COLUMNS"] = "80"
os.environ["no_proxy"] = "*"  # every server that a test asks is on this machine
for variable in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID",
                 "SLURM_RESTART_COUNT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"):  # fmt: skip
    os.environ.pop(variable, None)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background, and children inherit that
VISIBLE = "LN_REPRO_TESTS_VISIBLE_GPUS"
os.environ.setdefault(VISIBLE, os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # tests compute on the CPU, except those that are marked with `gpu`


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with those that take minutes: at the end, one process would be left alone with them."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Let the garbage collector look through what the tests make, and not through three thousand tests."""
    gc.freeze()


@pytest.fixture(autouse=True)
def visible_gpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test that is marked with `gpu` start processes on the GPU, or skip it if there is none."""
    if request.node.get_closest_marker("gpu") is None:
        return
    if os.environ[VISIBLE] == "all":
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", os.environ[VISIBLE])
    from ln_repro.system import gpu

    if gpu.default.__wrapped__().name is None:
        pytest.skip("torch finds no GPU")


@pytest.fixture
def empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, with `runs` and `data` in it unless a test says otherwise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LN_REPRO_RUNS", raising=False)
    monkeypatch.delenv("LN_REPRO_DATA", raising=False)
    return tmp_path


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command here; it returns exit code, standard output and standard error."""
    from ln_repro import cli

    def run(*words: object) -> tuple[int, str, str]:
        capfd.readouterr()
        handler = signal.getsignal(signal.SIGTERM)
        code = cli.main(list(map(str, words)))
        signal.signal(signal.SIGTERM, handler)
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def refused(call: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """Return a function that asserts that a command exits with 2 and says one line, and returns that line."""

    def check(words: str | list[str], begins: str = "") -> str:
        code, out, err = call(*(words.split() if isinstance(words, str) else words))
        assert (code, out) == (2, "") and err.startswith(f"ln-repro: {begins}")
        assert err.endswith("\n") and err.count("\n") == 1
        return err

    return check


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that puts a shell script on the PATH, before other programs of that name."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def add(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return add


@pytest.fixture
def double() -> Iterator[None]:
    """Compute in float64: two ways to one result then differ by far less than `assert_close` allows, anywhere."""
    import torch

    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
