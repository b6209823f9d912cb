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


def main() -> int:
    raise_on_stop_signals()
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
    fixed = [f"train.log_every={WARM_UP}", "train.save_every=null", "tracker=none", "train.max_epoch=null"]
    known = [*ROWS, *NORMS]
    for pattern in options.rows or ():
        if not any(fnmatch(name, pattern) for name in known):
            parser.error(f"--rows: no row matches {pattern!r}; see --help")
    experiment = resolve_precision(
        build(compose([f"exp={EXP}", *options.overrides, *fixed, f"train.max_update={options.updates}"]))
    )
    work = Workload(experiment, prepare(experiment.data, experiment.paths.data, print).bin)
    machine = {"gpu": work.gpu, "cores": cores(), **provenance.environment({"device": work.gpu or platform.machine()})}
    update = work.update()
    launches = {"name": f"launches/{experiment.precision}", "value": update["operations"], "exp": experiment.exp}
    print(f"an update: {update['operations']} operations, {update['bytes'] / 1e9:.2f} GB ({experiment.precision})")
    patterns = options.rows or default_rows(bool(work.gpu))
    names = [name for pattern in patterns for name in known if fnmatch(name, pattern)]
    places = ("data.source=", "paths.")  # where files lie on this machine, which does not change what is measured
    overrides = [one for one in options.overrides if not one.startswith(places)]
    command = {"rows": names, "rounds": options.rounds, "updates": options.updates, "overrides": overrides}
    needs_stacks = not options.rows or any(name.startswith("stack/") for name in names)
    for stack in work.stacks if needs_stacks else ():
        size = f"{stack['bytes'] / 1e9:.2f} GB, {stack['milliseconds']:.1f} ms of CPU"
        size += f", {stack['tokens_per_s']:.0f} tokens/s together"
        print(f"in a stack of {stack['stack']}, for each run: {stack['operations']:.0f} operations, {size}", flush=True)
    rows = unfinished(options.json, command, machine) if options.json else []
    measured, failed = {row["name"] for row in rows}, False
    for name in (name for name in names if name not in measured):
        try:
            ratios = [round(ratio, 4) for ratio in (ROWS | NORMS)[name](work, options.rounds)]
            saved = {"saved": round(saved_ratio(work, name), 4)} if name in NORMS else {}
        except Interrupted:
            raise
        except Exception as error:
            print(f"{name:18} failed: {error}", flush=True)
            failed = True
            continue
        ratio, spread = statistics.median(ratios), f"{min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} rounds"
        rows.append({"name": name, "ratio": ratio, "rounds": ratios, **saved, "exp": experiment.exp})
        print(f"{name:18} {ratio:.3f}   ({spread})", flush=True)
        if options.json:  # after every row, because time may run out before the last one
            options.json.parent.mkdir(parents=True, exist_ok=True)
            kept = {
                "machine": machine,
                "command": command,
                "update": update,
                "stacks": work.measured_stacks,
                "speeds": [{"way": way, "round": n, "tokens_per_s": value} for (way, n), value in work.speeds.items()],
                "rows": [launches, *rows],
            }
            write_atomically(options.json, json.dumps(kept, indent=1) + "\n")
    return int(failed)


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
