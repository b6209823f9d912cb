"""Training speed beside stock fairseq, and what probes cost: on one thread, in pairs, so that a noisy machine cancels.

`python scripts/bench.py [--rounds 5] [--updates 120] [--json FILE] [exp=NAME key=value ...]` prints median ratios
(above 1: ours is faster) and writes them under results/bench/ when asked to.

stock/run: fairseq's trainer and ours, one after the other, on the same corpus, model and batches. probes/run: training
without probes and with them, at the default cadence; both from one run, which is probed at the start of every period.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from ln_repro import provenance
from ln_repro.compose import compose
from ln_repro.corpus.prepare import prepare
from ln_repro.engine import process
from ln_repro.engine.command import training_arguments
from ln_repro.engine.device import settle
from ln_repro.experiment import Experiment, build

WARM_UP = 20
"""Updates at the start that are not timed."""

STOCK = """
import sys
from ln_repro.engine import compat
compat.apply()
from fairseq_cli import train
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
train.main(convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), sys.argv[1:])))
"""


def stock_arguments(experiment: Experiment, corpus: Path, folder: Path) -> list[str]:
    """Return fairseq-train's own command line for the same training."""
    model, train, optimizer = experiment.model, experiment.train, experiment.optimizer
    sizes = [
        part
        for side in ("encoder", "decoder")
        for part in (f"--{side}-layers", model.layers, f"--{side}-embed-dim", model.width,
                     f"--{side}-ffn-embed-dim", model.ffn, f"--{side}-attention-heads", model.heads,
                     *([f"--{side}-normalize-before"] if experiment.norm == "preln" else []))
    ]  # fmt: skip
    return [str(part) for part in [
        corpus, "--task", "translation", "--source-lang", experiment.data.source_lang,
        "--target-lang", experiment.data.target_lang, "--arch", "transformer", *sizes, "--dropout", model.dropout,
        "--share-all-embeddings", "--criterion", "label_smoothed_cross_entropy",
        "--label-smoothing", train.label_smoothing, "--optimizer", "adam", "--adam-betas", str(optimizer.betas),
        "--lr", experiment.lr, "--lr-scheduler", "fixed", "--clip-norm", train.clip_norm,
        "--seed", experiment.torch_seed, "--max-tokens", train.max_tokens, "--max-update", train.max_update,
        "--num-workers", 0, "--distributed-world-size", 1, "--log-interval", WARM_UP, "--log-format", "json",
        "--save-dir", folder, "--no-save", "--disable-validation", "--cpu",
    ]]  # fmt: skip


def measure(command: list[str], log: Path) -> None:
    """Run one training on one thread; its output goes to ``log``."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with log.open("w") as out:
        subprocess.run(command, stdin=sys.stdin, stdout=out, stderr=subprocess.STDOUT, env=environment, check=True)


def stock_speed(experiment: Experiment, corpus: Path, folder: Path) -> float:
    """Return stock fairseq's target tokens per second after the warm-up."""
    log = folder / "stock.log"
    measure([sys.executable, "-c", STOCK, *stock_arguments(experiment, corpus, folder)], log)
    reports = [
        json.loads(line[line.index("{") :]) for line in log.read_text().splitlines() if "| train_inner |" in line
    ]
    timed = [report for report in reports if int(report["num_updates"]) > WARM_UP]
    tokens = sum(float(report["wpb"]) * WARM_UP for report in timed)
    return tokens / sum(float(report["wpb"]) * WARM_UP / float(report["wps"]) for report in timed)


def train(experiment: Experiment, corpus: Path, folder: Path) -> list[dict[str, Any]]:
    """Train with ours; return the events of training."""
    run = folder / "ours"
    run.mkdir()
    worker = process.Worker("train", training_arguments(experiment, corpus, run / "checkpoints"), run / "train.log")
    worker.wait()
    worker.check()
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    return [event for event in events if event["kind"] == "train"]


def our_speed(experiment: Experiment, corpus: Path, folder: Path) -> float:
    """Return our target tokens per second after the warm-up."""
    timed = [event for event in train(experiment, corpus, folder) if event["update"] > WARM_UP]
    return float(sum(event["tokens"] for event in timed) / sum(event["seconds"] for event in timed))


def stock_rounds(experiment: Experiment, corpus: Path, rounds: int) -> list[float]:
    """Return our speed over stock fairseq's, pair by pair."""
    ratios = []
    print(f"{experiment.exp}: {experiment.train.max_update} updates, {rounds} pairs, target tokens per second")
    for number in range(1, rounds + 1):
        with tempfile.TemporaryDirectory() as name:
            stock, ours = stock_speed(experiment, corpus, Path(name)), our_speed(experiment, corpus, Path(name))
        ratios.append(round(ours / stock, 4))
        print(f"pair {number}: stock {stock:,.0f}  ours {ours:,.0f}  ratio {ratios[-1]:.3f}", flush=True)
    return ratios


def probe_rounds(experiment: Experiment, corpus: Path) -> list[float]:
    """Return the speed with probes over that without, period by period; the first is left out.

    A probe falls into the first reported window of its period; the others tell what an update costs without.
    """
    with tempfile.TemporaryDirectory() as name:
        windows = train(experiment, corpus, Path(name))
    ratios, done, periods = [], 0, defaultdict[int, list[tuple[int, float]]](list)
    for window in windows:
        periods[(window["update"] - 1) // experiment.every].append((window["update"] - done, window["seconds"]))
        done = window["update"]
    for (updates, seconds), *others in [*periods.values()][1:]:
        plain = statistics.median(seconds / updates for updates, seconds in others)
        ratios.append(round(experiment.every * plain / ((experiment.every - updates) * plain + seconds), 4))
    return ratios


def main() -> None:
    """Measure in pairs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=120)
    parser.add_argument("--json", type=Path)
    parser.add_argument("overrides", nargs="*", default=["exp=toy_preln_nowarm"], help="exp=NAME key=value ...")
    options = parser.parse_args()
    common = [f"train.log_every={WARM_UP}", "train.save_every=1000000", "train.device=cpu", "tracker=none"]
    plain = settle(build(compose([*options.overrides, *common, f"train.max_update={options.updates}"])))
    every = plain.every
    more = ["probe=gradients", "train.max_epoch=null", f"train.max_update={every * (options.rounds + 1)}"]
    probed = settle(build(compose([*options.overrides, *common, *more])))
    corpus = prepare(plain.data, plain.paths.data, process.binarise, print).bin
    found = {"stock/run": stock_rounds(plain, corpus, options.rounds), "probes/run": probe_rounds(probed, corpus)}
    rows = [
        {"name": name, "ratio": statistics.median(ratios), "rounds": ratios, "exp": plain.exp}
        for name, ratios in found.items()
    ]
    for row in rows:
        print(f"{row['name']}: median ratio {row['ratio']:.3f}")
    if options.json:
        machine = {"gpu": None, "cores": os.cpu_count(), "threads": 1, **provenance.environment(platform.machine())}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
