"""Training and decoding on a pretended GPU: the numbers of the CPU, and a host that does not wait for the device.

See `tests.engine.pretended_gpu.device` for what this shows and what it cannot.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from ln_repro.engine.inputs import Inputs
from ln_repro.records.run_dir import write_json
from tests.examples import experiment

HERE = Path(__file__).parent / "pretended_gpu"
ROOT = HERE.parents[2]
COMPILER = shutil.which("c++")
SETTINGS = {
    "model__layers": 1, "model__width": 16, "model__ffn": 32, "model__heads": 2, "train__clip_norm": 0.1, "lr": 1e-3,
    "schedule__warmup_updates": 0, "train__max_tokens": 240, "train__log_every": 2, "train__save_every": 2,
    "train__max_update": 4,
}  # fmt: skip
pytestmark = [
    pytest.mark.skipif(torch.version.cuda is not None, reason="the pretended GPU needs a build of torch without CUDA"),
    pytest.mark.skipif(COMPILER is None, reason="the pretended GPU needs a C++ compiler (c++)"),
]


def built(library):
    """Build the library that answers for CUDA."""
    from torch.utils import cpp_extension

    torchs = cpp_extension.TORCH_LIB_PATH
    flags = [f"-I{path}" for path in cpp_extension.include_paths()] + [f"-L{torchs}", f"-Wl,-rpath,{torchs}"]
    command = [COMPILER, "-w", "-O0", "-std=c++17", "-shared", "-fPIC", HERE / "guard.cpp", "-o", library, *flags]
    subprocess.run([*command, "-ltorch_cpu", "-lc10"], check=True)
    return library


KINDS = [
    ("translation", "preln", "fp32"), ("translation", "postln", "bf16"), ("translation", "admin", "bf16"),
    ("masked_lm", "deepnorm", "fp32"), ("masked_lm", "rezero", "bf16"), ("masked_lm", "preln", "bf16"),
    ("classification", "admin_closed", "fp32"), ("classification", "preln", "bf16"),
    ("classification", "postln", "bf16"), ("translation", "residual", "bf16"), ("masked_lm", "b2t", "bf16"),
    ("translation", "periln", "bf16"), ("translation", "normformer", "bf16"), ("translation", "subln", "bf16"),
    ("translation", "hybridnorm", "bf16"), ("masked_lm", "dyt", "bf16"), ("translation", "ngpt", "bf16"),
    ("classification", "ngpt", "bf16"), ("translation", "keel", "bf16"), ("translation", "siamesenorm", "bf16"),
    ("masked_lm", "derf", "bf16"),
]  # fmt: skip
"""Every task in every precision, and every scheme that computes differently."""
PROBED = {"probe": "gradients", "every": 2, "probe_batches": 1}
INTERVENTIONS = {"equal_layer_norms": True, "max_relative_update": 1e-4, "second_moment": "gradient"}
TASKS = {"translation": {}, "masked_lm": {"train__block_tokens": 16}, "classification": {"data__name": "rte"}}
PLANTED = {
    "table on the CPU": "on cuda:0 and on the CPU",
    "mask in fp32": "a mask of torch.float32",
    "read of the norm": "_local_scalar_dense",
    "blocking copy": "blocking copy",
}
"""Errors that only a device shows, and what the pretended one says of them."""
STACKED = [("preln", "bf16"), ("postln", "fp32"), ("ngpt", "bf16")]
PLANTED_IN_STACK = ("read in a stack", "draw per row")


@pytest.fixture(scope="module")
def results(worker_id, request, tmp_path_factory):
    """Return the results of all cases, by name and device; of the processes that run tests, one computes them."""
    folder = tmp_path_factory.getbasetemp()
    shared = (folder if worker_id == "master" else folder.parent) / "pretended_gpu.json"
    with FileLock(f"{shared}.lock"):
        if not shared.exists():
            computed = all_cases(request.getfixturevalue("corpus"), tmp_path_factory.mktemp("cases"))
            shared.write_text(json.dumps([*computed.items()]))
    return {tuple(case): result for case, result in json.loads(shared.read_text())}


def all_cases(corpus, folder):
    """Compute the results of all cases in one process, which takes seconds to start."""
    for split, size in (("train", 500), ("valid", 30)):
        (corpus.parent / "text" / f"{split}.label").write_text("0\n1\n" * (size // 2))
    cases = {}

    def arguments(name, device, changes=None, resume=None):
        """Return the arguments of a worker for a run with settings that differ from the usual ones."""
        place = folder / name / device
        place.mkdir(parents=True)
        small = experiment(**SETTINGS | {"train__device": device} | (changes or {}))
        write_json(place / "experiment.json", small.model_dump(mode="json"))
        return Inputs(small, place, corpus, resume=resume).arguments

    def add(name, device, changes=None, resume=None, **more):
        cases[name, device] = {"device": device, "arguments": arguments(name, device, changes, resume), **more}

    def add_stack(name, rows, changes, **more):
        """Add a case of several runs, each with its own rate."""
        stack = [arguments(f"{name} {row}", "cuda", {**changes, "lr": 1e-3 / row}) for row in range(1, rows + 1)]
        cases[name, "cuda"] = {"device": "cuda", "stack": stack, **more}

    saved = folder / "translation preln fp32" / "cuda" / "checkpoints"
    for device in ("cpu", "cuda"):
        for task, norm, precision in KINDS:
            chosen = {"task": task, "norm": norm, "precision": precision, **PROBED, **TASKS[task]}
            add(f"{task} {norm} {precision}", device, chosen)
        add("interventions", device, PROBED | {f"optimizer__{key}": value for key, value in INTERVENTIONS.items()})
    add("resumed", "cuda", {"norm": "preln", **PROBED}, saved / "update2.pt")
    for device in ("cpu", "cuda"):
        request = {"split": "test", "weights": [str(saved / "epoch1.pt")], "out": str(folder / device)}
        search = {"eval__beam": 2, "eval__lenpen": 1.0}
        add("decoded", device, {"norm": "preln", **search}, decode=request)
    for plant in PLANTED:
        add(plant, "cuda", {"precision": "bf16"}, plant=plant)
    for precision in ("fp32", "bf16"):
        deep = {"model__layers": 6, "train__clip_norm": 0, "precision": precision}
        add(f"6 layers {precision}", "cuda", deep)
    for norm, precision in STACKED:
        chosen = {"norm": norm, "precision": precision}
        add_stack(f"stack {norm} {precision}", 3, chosen)
        for row in (1, 2, 3):
            add(f"separate {norm} {precision} {row}", "cpu", {**chosen, "lr": 1e-3 / row})
    for plant in PLANTED_IN_STACK:
        add_stack(plant, 3, {"norm": "postln", "precision": "fp32"}, plant=plant)
    add_stack("8 rows", 8, {"norm": "preln", "model__layers": 6, "train__clip_norm": 0, "precision": "bf16"})
    command = [sys.executable, "-W", "ignore", "-m", "tests.engine.pretended_gpu.rehearse", built(folder / "guard.so")]
    given = json.dumps([*cases.values()])
    done = subprocess.run([*command, given], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(cases, json.loads(done.stdout.splitlines()[-1]), strict=True))


def waiting(result):
    """Return the updates that waited for the device, of those after which nothing is due."""
    return {update: found for update, found in result["waits"].items() if found and int(update) % 2}


@pytest.mark.parametrize("name", [*map(" ".join, KINDS), "interventions"])
def test_training_is_that_of_the_cpu_and_does_not_wait_for_the_device(results, name):
    cpu, gpu = (results[name, device] for device in ("cpu", "cuda"))
    assert "error" not in gpu, gpu
    assert (cpu["device"], gpu["device"]) == ("cpu", "Pretended GPU")
    assert gpu["losses"].keys() == cpu["losses"].keys()
    assert gpu["losses"] == pytest.approx(cpu["losses"], rel=1e-2 if name.endswith("16") else 1e-6)
    assert len(gpu["waits"]) == 4 and not waiting(gpu)


def test_a_run_resumes_exactly(results):
    assert results["resumed", "cuda"]["losses"] == results["translation preln fp32", "cuda"]["losses"]


def test_hypotheses_are_those_of_the_cpu(results):
    hypotheses = results["decoded", "cuda"]["hypotheses"]
    assert hypotheses == results["decoded", "cpu"]["hypotheses"] and hypotheses.count("\n") == 25


@pytest.mark.parametrize(("plant", "found"), PLANTED.items())
def test_an_error_on_the_device_is_found(results, plant, found):
    result = results[plant, "cuda"]
    assert found in (result["error"] if "error" in result else str(waiting(result)))


@pytest.mark.parametrize(("precision", "limit"), [("bf16", 880), ("fp32", 750)])
def test_an_update_of_the_iwslt14_model_has_few_operations(results, precision, limit):
    """Launching them limits the speed on a GPU. Their number depends on the layers, not on width or batch."""
    assert 500 < results[f"6 layers {precision}", "cuda"]["operations"]["3"] <= limit


def separate(results, name):
    """Return the losses of the runs of a stack, trained separately on the CPU."""
    return [results[f"{name.replace('stack', 'separate')} {row}", "cpu"]["losses"] for row in (1, 2, 3)]


@pytest.mark.parametrize("name", [f"stack {norm} {precision}" for norm, precision in STACKED])
def test_a_stack_is_the_runs_on_the_cpu_and_does_not_wait_for_the_device(results, name):
    result = results[name, "cuda"]
    assert result["together"] and result["trusted"] and result["errors"] == ["None"] * 3
    for losses, expected in zip(result["losses"], separate(results, name), strict=True):
        assert losses == pytest.approx(expected, rel=1e-2 if name.endswith("16") else 1e-6)
    assert len(result["waits"]) == 4 and result["waits"]["3"] == {}  # the first one makes tables, the others report


def test_a_read_and_a_draw_in_a_stack_are_found(results):
    read, draw = (results[plant, "cuda"] for plant in PLANTED_IN_STACK)
    assert read["waits"]["3"] == {"_local_scalar_dense": 1}
    expected = separate(results, "stack postln fp32")
    assert draw["together"] and not draw["trusted"]
    assert draw["losses"][1] != pytest.approx(expected[1], rel=1e-4)


def test_an_update_of_eight_rows_has_few_operations(results):
    """Eight separate ones have more than five times as many."""
    assert 1000 < results["8 rows", "cuda"]["operations"]["3"] <= 1300
