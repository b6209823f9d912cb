"""Training speed beside stock fairseq: the same corpus, model and batches, in pairs, so that a noisy machine cancels.

`python scripts/bench.py [--rounds 5] [--updates 100] [--json FILE]`; one thread each. Prints the median ratio
(above 1: ours is faster) and writes results under results/bench/ when asked to.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

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


def our_speed(experiment: Experiment, corpus: Path, folder: Path) -> float:
    """Return our target tokens per second after the warm-up."""
    run = folder / "ours"
    run.mkdir()
    worker = process.Worker("train", training_arguments(experiment, corpus, run / "checkpoints"), run / "train.log")
    worker.wait()
    worker.check()
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    timed = [event for event in events if event["kind"] == "train" and event["update"] > WARM_UP]
    return float(sum(event["tokens"] for event in timed) / sum(event["seconds"] for event in timed))


def main() -> None:
    """Measure in pairs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=120)
    parser.add_argument("--json", type=Path)
    parser.add_argument("overrides", nargs="*", default=["exp=toy_preln_nowarm"], help="exp=NAME key=value ...")
    options = parser.parse_args()
    wanted = [*options.overrides, f"train.max_update={options.updates}", f"train.log_every={WARM_UP}",
              "train.save_every=1000000", "train.device=cpu", "tracker=none"]  # fmt: skip
    experiment = settle(build(compose(wanted)))
    corpus = prepare(experiment.data, experiment.paths.data, process.binarise, print)
    ratios = []
    print(f"{experiment.exp}: {options.updates} updates, {options.rounds} pairs, target tokens per second")
    for number in range(1, options.rounds + 1):
        with tempfile.TemporaryDirectory() as name:
            stock, ours = stock_speed(experiment, corpus.bin, Path(name)), our_speed(experiment, corpus.bin, Path(name))
        ratios.append(round(ours / stock, 4))
        print(f"pair {number}: stock {stock:,.0f}  ours {ours:,.0f}  ratio {ratios[-1]:.3f}", flush=True)
    print(f"stock/run: median ratio {statistics.median(ratios):.3f}")
    if options.json:
        machine = {"gpu": None, "cores": os.cpu_count(), "threads": 1, **provenance.environment(platform.machine())}
        rows = [{"name": "stock/run", "ratio": statistics.median(ratios), "rounds": ratios, "exp": experiment.exp}]
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
