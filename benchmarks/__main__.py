"""Measure training speed, print one line per row, and save the results as JSON.

If a row failed or the command was stopped, the same command measures the missing rows.
"""

import argparse
import json
import platform
import statistics
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.rows import NORMS, ROWS, default_rows, saved_ratio
from benchmarks.trainings import WARM_UP, Workload
from ln_repro.corpus.prepare import prepare
from ln_repro.errors import Interrupted, LnReproError
from ln_repro.experiment.compose import compose
from ln_repro.experiment.precision import resolve_precision
from ln_repro.experiment.settings import build
from ln_repro.records import provenance
from ln_repro.system.files import read_json, write_atomically
from ln_repro.system.signals import raise_on_stop_signals
from ln_repro.system.subprocesses import cores

EXP = "multi30k_preln_nowarm_anchored"
KNOWN = [*ROWS, *NORMS]


def main() -> int:
    """Measure the rows that are asked for, and save the results after each; return 1 if one has failed."""
    raise_on_stop_signals()
    options = parse_arguments()
    fixed = [f"train.log_every={WARM_UP}", "train.save_every=null", "tracker=none", "train.max_epoch=null"]
    settings = [f"exp={EXP}", *options.overrides, *fixed, f"train.max_update={options.updates}"]
    experiment = resolve_precision(build(compose(settings)))
    work = Workload(experiment, prepare(experiment.data, experiment.paths.data, print).bin)
    machine = {"gpu": work.gpu, "cores": cores(), **provenance.environment({"device": work.gpu or platform.machine()})}
    update = work.update_cost()
    print(f"an update: {update['operations']} operations, {update['bytes'] / 1e9:.2f} GB ({experiment.precision})")
    patterns = options.rows or default_rows(bool(work.gpu))
    names = [name for pattern in patterns for name in KNOWN if fnmatch(name, pattern)]
    if not options.rows or any(name.startswith("stack/") for name in names):
        print_stacks(work)
    places = ("data.source=", "paths.")  # where files lie on this machine, which does not change what is measured
    overrides = [override for override in options.overrides if not override.startswith(places)]
    command = {"rows": names, "rounds": options.rounds, "updates": options.updates, "overrides": overrides}
    rows = unfinished(options.json, command, machine) if options.json else []
    measured, failed = {row["name"] for row in rows}, False
    for name in (name for name in names if name not in measured):
        try:
            rows.append(measure(work, name, options.rounds))
        except Interrupted:
            raise
        except Exception as error:
            print(f"{name:18} failed: {error}", flush=True)
            failed = True
            continue
        if options.json:  # after every row, because time may run out before the last one
            save(options.json, work, rows, {"machine": machine, "command": command, "update": update})
    return int(failed)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--updates", type=int, default=50, help=f"updates of each training run; the first {WARM_UP} are not timed"
    )
    parser.add_argument("--rows", nargs="+", metavar="PATTERN", help=f"{', '.join(ROWS)}, norm/NAME ('norm/*' for all)")
    parser.add_argument("--json", type=Path, help="file for the results: results/bench/NAME.json")
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help=f"settings of the experiment to train; default: exp={EXP}"
    )
    options = parser.parse_intermixed_args()
    for pattern in options.rows or ():
        if not any(fnmatch(name, pattern) for name in KNOWN):
            parser.error(f"--rows: no row matches {pattern!r}; see --help")
    return options


def print_stacks(work: Workload) -> None:
    """Measure and print what an update costs in stacks of several sizes."""
    for stack in work.measure_stacks():
        size = f"{stack['bytes'] / 1e9:.2f} GB, {stack['milliseconds']:.1f} ms of CPU"
        size += f", {stack['tokens_per_s']:.0f} tokens/s together"
        print(f"in a stack of {stack['stack']}, for each run: {stack['operations']:.0f} operations, {size}", flush=True)


def measure(work: Workload, name: str, rounds: int) -> dict[str, Any]:
    """Measure, print and return a row."""
    ratios = [round(ratio, 4) for ratio in (ROWS | NORMS)[name](work, rounds)]
    saved = {"saved": round(saved_ratio(work, name), 4)} if name in NORMS else {}
    ratio = statistics.median(ratios)
    print(f"{name:18} {ratio:.3f}   ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} rounds)", flush=True)
    return {"name": name, "ratio": ratio, "rounds": ratios, **saved, "exp": work.experiment.exp}


def save(path: Path, work: Workload, rows: list[dict[str, Any]], conditions: dict[str, Any]) -> None:
    """Write the rows so far, after what was measured, where and how."""
    experiment, operations = work.experiment, conditions["update"]["operations"]
    launches = {"name": f"launches/{experiment.precision}", "value": operations, "exp": experiment.exp}
    speeds = [{"way": way, "round": number, "tokens_per_s": value} for (way, number), value in work.speeds.items()]
    results = {**conditions, "stacks": work.measured_stacks, "speeds": speeds, "rows": [launches, *rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(results, indent=1) + "\n")


def unfinished(path: Path, command: dict[str, Any], machine: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that an incomplete run of the same command on this machine has measured."""
    kept = read_json(path, dict) or {}
    same = kept.get("command") == command and kept["machine"] == machine
    rows = [row for row in kept.get("rows", []) if "ratio" in row]
    return rows if same and len(rows) < len(command["rows"]) else []


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LnReproError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(Interrupted.exit_code)
