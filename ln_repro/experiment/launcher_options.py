"""The types of options for Slurm: text, except null, true, false and some numbers.

They are read by YAML's base loader, which leaves all values text: in YAML 1.1, 12:00:00 is 43200, and no is false.
"""

from typing import Any

import yaml

from ln_repro.errors import UserError

NUMBERS: dict[str, type[int] | type[float]] = {
    "timeout_min": int, "signal_delay_s": int, "nodes": int, "tasks_per_node": int, "cpus_per_task": int,
    "gpus_per_node": int, "mem_gb": float, "array_parallelism": int, "max_num_timeout": int,
}  # fmt: skip
"""The options that are numbers, which submitit computes with."""
FLAGS = ("stderr_to_stdout", "use_srun")
"""The options that are true or false; any other that is true is given to sbatch without a value."""
STRUCTURED = ("setup", "teardown", "srun_args", "additional_parameters")  # the options that are lists or mappings
WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
"""The only text, in upper or lower case, that means something else."""


def option_value(key: str, text: str) -> Any:
    """Return the value of an option on the command line, where ``[a|b]&c`` is text although it is not YAML."""
    try:
        value = yaml.load(text, yaml.BaseLoader)
    except yaml.YAMLError:
        return text
    return text if isinstance(value, dict | list) and key not in STRUCTURED else value


def typed(key: str, value: Any) -> Any:
    """Return the value of an option with its type, or raise `UserError` if it has another.

    Brackets of sbatch, which YAML reads as a list, are text again.
    """
    if isinstance(value, str):
        value = WORDS.get(value.lower(), value)
    if value is not None and isinstance(value, dict) != (key == "additional_parameters"):
        kind = "options of sbatch, like {account: ours}" if key == "additional_parameters" else "a value without names"
        raise UserError(f"launcher.{key}: expected {kind}, got {value!r}")
    if isinstance(value, dict):
        return {name: typed(f"{key}.{name}", item) for name, item in value.items()}
    if isinstance(value, list) and key not in STRUCTURED:
        return f"[{','.join(map(str, value))}]"
    if key in FLAGS and not isinstance(value, bool):
        raise UserError(f"launcher.{key}: expected true or false, got {value!r}")
    if key in NUMBERS and value is not None:
        try:
            number = NUMBERS[key](value if isinstance(value, str) else "")
        except ValueError:
            number = -1
        if not number >= 0:  # nan is neither
            raise UserError(f"launcher.{key}: expected a number, got {value!r}; for the options, see conf/slurm.yaml")
        return number
    return value
