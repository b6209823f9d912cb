"""The registered experiments: every setting (`conf/setting`) combined with each of its arms (`conf/arm`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf

from ln_repro.system.files import Json

MASKED_LM = {
    "postln_nowarm_linear", "postln_warm_linear", "postln_warm_linear_high",
    "preln_nowarm_linear", "preln_nowarm_linear_high", "preln_warm_linear",
}  # fmt: skip
CLASSIFICATION = {"postln_nowarm_linear", "preln_nowarm_linear"}
ARMS = {
    **dict.fromkeys(("bert", "wikinews", "minibert", "toybert"), MASKED_LM),
    **dict.fromkeys(("mrpc", "rte", "minimrpc", "minirte"), CLASSIFICATION),
}
"""The arms of settings; those not listed are translation settings and have all arms except `MASKED_LM_ONLY`."""
WITHOUT_ARMS = {"own", "admin_closed"}
"""Names in `conf/norm` without registered arms: the user's own, and a variation of Admin that has an arm in a file."""
MASKED_LM_ONLY = MASKED_LM - {"postln_nowarm_linear"}


def yaml_files(folder: Path, pattern: str = "*.yaml") -> list[Path]:
    """Return the YAML files in a folder without hidden ones, such as the locks of editors."""
    return [path for path in folder.glob(pattern) if path.is_file() and not path.name.startswith(".")]


class RegisteredExperiment(NamedTuple):
    """A registered experiment: its setting, the file of its arm, and the norm that replaces the one of that file."""

    setting: str
    arm: str
    norm: str | None = None


def registered(conf: Path) -> dict[str, RegisteredExperiment]:
    """Return every registered experiment by its name ``{setting}_{arm}``.

    The arms are the files in `conf/arm` and, for each norm placement without files of its own, ``{norm}_warm`` and
    ``{norm}_nowarm``, which are Post-LN's with another norm.
    """
    settings, arms, norms = ({path.stem for path in yaml_files(conf / group)} for group in ("setting", "arm", "norm"))
    files: dict[str, tuple[str, str | None]] = {
        f"{norm}{ramp}": (f"postln{ramp}", norm) for norm in norms - WITHOUT_ARMS for ramp in ("_warm", "_nowarm")
    }
    files |= {arm: (arm, None) for arm in arms}
    translation = files.keys() - MASKED_LM_ONLY
    return {
        f"{setting}_{arm}": RegisteredExperiment(setting, *files[arm])
        for setting in settings
        for arm in ARMS.get(setting, translation)
    }


def register(experiments: Mapping[str, RegisteredExperiment]) -> None:
    """Add the experiments to Hydra's `ConfigStore`; there must be no files with the same names."""
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().repo["exp"] = _Group(
        {f"{name}.yaml": experiment for name, experiment in experiments.items()}
    )


class _Group(Json):
    """A group of a `ConfigStore` that creates nodes on demand, since creating all of them takes 0.1 seconds."""

    def __getitem__(self, file: str) -> Any:
        from hydra.core.config_store import ConfigNode

        setting, arm, norm = super().__getitem__(file)
        replaced = [{"override /norm": norm}] if norm else []
        defaults = [{"/setting": setting}, {"/arm": arm}, *replaced, "_self_"]
        node = OmegaConf.create({"defaults": defaults, "exp": file.removesuffix(".yaml")})
        return ConfigNode(file, node, "exp", "_global_", "ln-repro")
