"""The command line: one clear line and the right exit code, whatever is typed; and quick to say what there is."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ln_repro.claims.words import display_name
from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.experiment.compose import CONF, compose, experiments
from ln_repro.experiment.settings import Experiment, build
from ln_repro.system.subprocesses import environment

ROOT = Path(__file__).resolve().parents[2]
TOY = "exp=toy_preln_nowarm"
pytestmark = pytest.mark.usefixtures("empty_place")


class Runs(list[Experiment]):
    """What is run, instead of running it; with seed 1, it may end with an ``error``."""

    error: BaseException | None = None

    def run(self, experiment: Experiment, say: Any) -> str:
        self.append(experiment)
        if self.error and experiment.seed == 1:
            raise self.error
        return f"/runs/{experiment.exp}-s{experiment.seed}"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    found = Runs()
    monkeypatch.setattr("ln_repro.runner.run.run", found.run)
    return found


def command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ln_repro.cli", *arguments], capture_output=True, text=True,
                          env=environment(**variables), check=False)  # fmt: skip


@pytest.mark.parametrize(("line", "message"), [
    ("run", "exp: no experiment is given; use exp=NAME"),
    ("run exp=toy", "exp: there is no 'toy'; nearest: toy_postln_nowarm, toy_postln_warm, toy_preln_nowarm, "),
    (f"run {TOY} exp=null", "a group (data, exp, model, norm, ...) expects the name of one of its files, not null"),
    ("run toy_preln_warm", "expected key=value, got 'toy_preln_warm' (an experiment is exp=NAME)"),
    (f"run {TOY} norm=prelm", "norm: there is no 'prelm'; nearest: preln"),
    (f"run {TOY} norm=own", "norm.file: give norm=NAME norm.file=PATH"),
    (f"run {TOY} warmup=10", "warmup: no such option; nearest: schedule.warmup_updates (ln-repro run exp=NAME"),
    (f"run {TOY} epochs=3", "epochs: no such option; nearest: eval.epochs, schedule.step_epoch, train.max_epoch ("),
    (f"run {TOY} +new=1", "new: no such option"),
    (f"run {TOY} lr=${{nope}}", "Interpolation key 'nope' not found"),
    (f"run {TOY} seed=1,2", "seed=1,2: expected one value; `ln-repro run -m` takes several, a sweep rates=A,B and"),
    (f"run {TOY} lr=interval(1,2)", "lr=interval(1,2): expected one value; `ln-repro run -m` takes several, "),
    (f"run -m {TOY} lr=interval(1,2)", "interval() has no end of values; give them (KEY=A,B) or a range"),
    (f"run {TOY} data.source=a'b", 'expected key=value, got "data.source=a\'b" (special characters need quotes '),
    (f"run {TOY} data.only=test", "data.only: a run needs the whole corpus"),
    (f"run -m {TOY} hydra/launcher=submitit_slurm", "hydra/launcher: is not for one run; see `ln-repro sweep "),
    (f"run {TOY} hydra.run.dir=here", "hydra.run.dir: has no effect: Hydra only composes the settings; runs are "),
    (f"run {TOY} tracker.project=a/b", "tracker.project: "),
    (f"run {TOY} --cgf job", "unrecognized arguments: --cgf"),
    (f"run {TOY} --config-dir=", "argument --config-dir: is empty; name a folder"),
    (f"run {TOY} --config-dir nowhere", "--config-dir: nowhere is not a folder"),
    ("run -m exp=glob(nope_*)", "no experiment matches exp=glob(nope_*)"),
    ("rum", "argument COMMAND: invalid choice: 'rum'"),
    ("", "expected a COMMAND (ln-repro --help)"),
    ("--verson", "unrecognized arguments: --verson (ln-repro --help)"),
    ("sweep grid=rates warmup=10", "warmup: no such option; nearest: schedule.warmup_updates ("),
    ("claims --records .", "--records: . has no records (SETTING.jsonl, "),
    ("status two\nlines", "expected key=value, got 'two\\nlines'"),
    ("status --only nothing", "--only and --except select runs of a grid: add grid=NAME"),
    ("cancel toy_preln_warm-s1-0123456789 --only nothing", "--only and --except select runs of a grid: add grid="),
    ("theory --seeds 1", "--seeds: expected at least 10, which a verdict needs, got 1"),
    ("sync nowhere", "nowhere: not a run directory"),
    ("data", "the following arguments are required: action"),
    ("data prepare", "data: no corpus is given; use data=NAME (toy, "),
    ("data prepare data=toy lr=3", "lr=3: not for a corpus; expected data=NAME, data.KEY=VALUE or paths.data=DIR"),
    ("collect --records ", "argument --records: is empty; name a folder"),
    (f"LN_REPRO_RUNS= run {TOY}", "paths.runs: is empty; name a folder (unset LN_REPRO_RUNS for ./runs)"),
    ("LN_REPRO_RUNS= status", "LN_REPRO_RUNS: is empty; name a folder"),
])  # fmt: skip
def test_wrong_input_is_one_line_exit_code_2_and_nothing_written(line, message, empty_place, monkeypatch, refused):
    words = line.split(" ") if line else []
    if line.startswith("LN_REPRO_"):
        monkeypatch.setenv(words.pop(0).removesuffix("="), "")
    refused(words, message)
    assert list(empty_place.iterdir()) == []


@pytest.mark.parametrize("line", ["figures --out", "theory --only TH-1 --out", "collect --records"])
def test_a_folder_to_write_into_that_is_a_file_is_one_line(line, empty_place, refused):
    (empty_place / "taken").touch()
    assert str(empty_place / "taken") in refused([*line.split(), str(empty_place / "taken" / "below")])


@pytest.mark.parametrize("line", ["status", "collect", "cancel --all", f"run {TOY}", "sweep grid=rates"])
def test_a_folder_of_runs_that_is_a_file_is_one_line(line, empty_place, monkeypatch, refused):
    (empty_place / "taken").touch()
    for path in (empty_place / "taken", empty_place / "taken" / "below"):
        monkeypatch.setenv("LN_REPRO_RUNS", str(path))
        assert f": {empty_place / 'taken'} is a file; name a folder" in refused(line)
    (empty_place / "link").symlink_to("unmounted")
    monkeypatch.setenv("LN_REPRO_RUNS", str(empty_place / "link"))
    assert "link is a link to unmounted, which does not exist; name a folder" in refused(line)


@pytest.mark.parametrize(("error", "code", "said"), [
    (LnReproError("the trainer failed (see train.log)"), 1, "ln-repro: the trainer failed (see train.log)\n"),
    (LnReproError("two\nlines"), 1, "ln-repro: two\\nlines\n"),
    (UserError("wrong"), 2, "ln-repro: wrong\n"),
    (OSError(28, "No space left on device", "/a\nfile"), 1, "ln-repro: No space left on device: /a\\nfile\n"),
    (ValueError("bug"), 1, "ln-repro: unexpected ValueError: bug (see "),
    (Interrupted("saved"), 130, "ln-repro: saved\n"),
    (KeyboardInterrupt(), 130, "ln-repro: interrupted; run the same command again to continue\n"),
], ids=repr)  # fmt: skip
def test_what_ends_a_run_has_its_exit_code_and_an_interruption_ends_those_after_it(error, code, said, runs, call):
    runs.error = error
    for words, last in (([TOY], ""), (["-m", TOY, "seed=1,2"], "" if code == 130 else "/runs/toy_preln_nowarm-s2\n")):
        status, out, err = call("run", *words)
        assert (status, out) == (code, last) and err.startswith(said)
    assert list(Path().iterdir()) == []  # and Hydra leaves nothing behind


def test_a_stop_signal_does_not_hide_the_error_that_ends_the_command(monkeypatch, call):
    def fail_slowly(*_):
        try:
            raise LnReproError("process 2 of 2 failed")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # torchrun stops the other processes

    monkeypatch.setattr("ln_repro.runner.run.run", fail_slowly)
    assert call("run", TOY) == (1, "", "ln-repro: process 2 of 2 failed\n")


def test_a_multirun_prints_and_runs_every_combination(runs, call):
    words = ("run", "exp=toy_preln_nowarm,toy_postln_nowarm", "-m", "seed=1,2")
    combinations = [(f"toy_{norm}_nowarm", norm, seed) for norm in ("preln", "postln") for seed in (1, 2)]
    code, out, err = call(*words, "--cfg", "job")
    assert (code, err, runs) == (0, "", [])
    assert [(job["exp"], job["norm"], job["seed"]) for job in yaml.safe_load_all(out)] == combinations
    assert "# ln-repro run exp=toy_postln_nowarm seed=2\n" in out
    assert call(*words)[:2] == (0, "".join(f"/runs/{exp}-s{seed}\n" for exp, _, seed in combinations))
    assert [(run.exp, run.norm, run.seed) for run in runs] == combinations


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a folder of a user's own experiments, in a setting of their own."""
    folder = tmp_path / "my own=1"
    for group in ("exp", "setting", "data", "grid"):
        (folder / group).mkdir(parents=True)
    (folder / "data" / "my_corpus.yaml").write_text("name: unknown\n")
    toy = (CONF / "setting" / "toy.yaml").read_text()
    (folder / "setting" / "mine.yaml").write_text(toy.replace("  lr: 2e-3\n", "  lr: 7e-3\n"))
    for arm in ("postln_warm", "preln_warm"):
        defaults = f"  - /setting: mine\n  - /arm: {arm}\n  - _self_\n"
        text = f"# @package _global_\n# My {arm}.\ndefaults:\n{defaults}exp: mine_{arm}\n"
        (folder / "exp" / f"mine_{arm}.yaml").write_text(text)
    return folder


def test_experiments_of_ones_own_are_run_listed_shown_and_swept(own, runs, call):
    def said(line: str, expected: int = 0) -> str:
        code, out, err = call(*line.split(), "--config-dir", "my own=1")
        assert code == expected
        return out + err

    said("run -m exp=glob(mine_*)")
    said("run -m exp=toy_preln_warm")
    rates = {"mine_postln_warm": 7e-3, "mine_preln_warm": 7e-3, "toy_preln_warm": 2e-3}
    assert [(run.exp, run.lr) for run in runs] == [*rates.items()]
    assert "and ARM one of\n\n  postln_warm\n      My postln_warm." in said("run --list")
    assert "nearest: mine_postln_warm" in said("run exp=mine_postln_wram", 2)
    assert "\nlr: 0.007\n" in said("run exp=mine_postln_warm --cfg job")
    Path("my own=1/grid/mine.yaml").write_text("corpus: mine\narms: [postln_warm, preln_warm]\nrates: [1e-3]\n")
    grid = "grid=mine"
    _, *planned, last = said(f"sweep {grid} --dry-run").splitlines()
    assert last == "2 runs: 2 planned" and len(planned) == 2
    assert all(line.endswith("lr=0.001 '--config-dir=my own=1'") for line in planned)
    assert "mine_preln_warm" in said(f"status {grid}")
    for line in (f"cancel {grid}", f"cancel {grid} precision=bf16"):  # a login node needs no GPU that can do it
        assert said(line).endswith("running sweeps skip those that they have not started\n")
    assert "data.name: input should be" in said("data verify data=my_corpus", 2)
    assert call("run", "exp=mine_postln_warm")[0] == 2  # found only where it is asked for


@pytest.mark.parametrize(("content", "message"), [
    (b"", "grid/mine.yaml.arms: is not set"),
    (b"arms: [postln_warm]\nrate: 3", "mine.yaml.rate: no such option; nearest: rates"),
    (b"arms: [postln_warm]\noverrides: [[seed=3]]", "seed: a grid numbers its seeds"),
    (b"- postln_warm", "mine.yaml: expected keys with values, found a list"),
    (b"arms: [postln_warm]\nrates: []", "mine.yaml.rates.list[float]: list should have at least 1 item"),
    (b"arms: [postln_warm]\nrates: [1e-3, x]", "mine.yaml.rates.list[float].1: input should be a valid number"),
    (b"arms: [\xff]", "mine.yaml: settings must be UTF-8 text, but 'utf-8' codec can't decode"),
])  # fmt: skip
def test_a_grid_of_ones_own_that_cannot_be_used_is_one_line(content, message, refused):
    Path("own/grid").mkdir(parents=True)
    Path("own/grid/mine.yaml").write_bytes(content)
    assert message in refused("sweep grid=mine --dry-run --config-dir own")


@pytest.mark.parametrize("name", ["exp/mine.yaml", "setting/mine.yaml"])
def test_a_file_of_ones_own_that_is_not_text_is_named(name, own, refused):
    (own / "exp" / "mine.yaml").write_text("# @package _global_\ndefaults:\n  - /setting: mine\n")
    with (own / name).open("ab") as file:
        file.write(b"# \xff\n")
    message = refused(["run", "exp=mine", "--cfg", "job", "--config-dir", str(own)])
    assert f"{own / name}: settings must be UTF-8 text, but 'utf-8' codec can't decode" in message


def test_the_list_of_experiments_has_every_arm_of_every_setting(call):
    text = call("run", "--list")[1]
    assert max(map(len, text.splitlines())) <= 80
    blocks = " ".join(text.split()).split("SETTING is one of ")[1:]
    assert " toy The demonstration: generated text, one or two minutes per run on one core." in f" {blocks[0]}"
    for name, text in experiments().items():
        setting, _, arm = name.partition("_")
        parts = [f" {block}".split("and ARM one of") for block in blocks]
        norm, _, rest = text.partition(" ")
        line = f" {arm} {display_name(norm)} {rest}"
        assert any(f" {setting} " in settings and line in arms for settings, arms in parts), name


def test_ctrl_c_during_the_imports_ends_quietly(tmp_path):
    (tmp_path / "argparse.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = command("status", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_help_imports_nothing_heavy():
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "ln_repro.cli", "--help"], capture_output=True,
                          text=True, env=environment(), check=True)  # fmt: skip
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    heavy = {"torch", "hydra", "omegaconf", "wandb", "fairseq", "pydantic", "numpy", "matplotlib", "sacrebleu"}
    assert "argparse" in imported and not heavy & imported
    assert all(word in done.stdout for word in ("run", "data", "status", "tables", "doctor", "exit codes"))


@pytest.mark.parametrize("line", ["run --list", f"run {TOY} --cfg job"])
def test_a_reader_that_leaves_early_is_no_traceback(line):
    arguments = [sys.executable, "-m", "ln_repro.cli", *line.split()]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    assert process.stdout and process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""


def test_status_of_no_runs(call):
    for words in ((), ("--watch",)):  # into a pipe: once
        assert call("status", *words) == (0, "no runs yet; `ln-repro run exp=NAME` starts one\n", "")
    assert call("status", "--json") == (0, "[]\n", "")


def test_status_marks_runs_with_settings_of_their_own(empty_place, monkeypatch, call):
    for number, overrides in enumerate([[], ["model.layers=2", "train.max_epoch=1"], ["init=fairseq", "lr=1e-3"]]):
        settings = build(compose([TOY, *overrides])).model_dump(mode="json")
        folder = empty_place / "runs" / f"toy_preln_nowarm-s1-{number:010}"
        folder.mkdir(parents=True)
        (folder / "experiment.json").write_text(json.dumps({**settings, "id": f"{number:010}"}))
    rows = json.loads(call("status", "--json")[1])
    assert rows[0].keys() >= {"id", "exp", "seed", "state", "update", "loss", "bleu", "dir"}
    found = [row["settings"] for row in rows]
    assert found == [None, "model.layers=2, train.max_epoch=1", "lr=0.001, init=fairseq"]
    assert "not shown: 3 runs with settings" in call("status", "grid=section4")[2]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    lines = call("status")[1].splitlines()
    assert max(map(len, lines)) <= 60
    assert {f"    {settings}" for settings in found if settings} <= {*lines}


def test_a_grid_is_watched_until_ctrl_c(monkeypatch, call):
    naps = iter([lambda: None, lambda: signal.raise_signal(signal.SIGINT)])
    monkeypatch.setattr("ln_repro.commands.status.time", SimpleNamespace(sleep=lambda _: next(naps)()))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = call("status", "grid=design", "--only", "preln_warm", "--watch")
    assert code == 0 and out.count("1 run: 1 planned") == 2


@pytest.mark.parametrize("line", ["sweep grid=design", f"run -m {TOY} seed=1,2"])
def test_under_torchrun_several_runs_are_refused_in_one_line(line):
    torchrun = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2"}
    said = [command(*line.split(), **torchrun, RANK=rank, LOCAL_RANK=rank) for rank in "01"]
    assert [done.returncode for done in said] == [2, 2]
    assert [done.stderr.count("\n") for done in said] == [1, 0] and "torchrun" in said[0].stderr


def test_an_update_that_cannot_be_divided_among_the_processes_is_one_line(monkeypatch, refused):
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    refused(f"run {TOY} train.batches_per_update=3", "train.batches_per_update: 3 cannot be spread over 2 processes")


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_output_is_no_failure(closed: str) -> None:
    line = shlex.join([sys.executable, "-m", "ln_repro.cli", "status" if closed == ">&-" else "sync"])
    result = subprocess.run(["sh", "-c", f"exec {line} {closed}"], capture_output=True, text=True, env=environment())
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_what_the_encoding_of_the_output_lacks_is_escaped():
    Path("名").mkdir()
    words = ("sweep", "grid=rates", "--only=preln_warm-lr0.001*", "--dry-run", "--config-dir=名")
    done = command(*words, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0 and r"--config-dir=\u540d" in done.stdout
