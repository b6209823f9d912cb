"""The registered experiments: every setting (`conf/setting`) combined with each of its arms (`conf/arm`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
MASKED_LM_ONLY = MASKED_LM - {"postln_nowarm_linear"}


def yaml_files(folder: Path, pattern: str = "*.yaml") -> list[Path]:
    """Return the YAML files in a folder without hidden ones, such as the locks of editors."""
    return [path for path in folder.glob(pattern) if path.is_file() and not path.name.startswith(".")]


def registered(conf: Path) -> dict[str, tuple[str, str]]:
    """Return the setting and the arm of every registered experiment, by its name ``{setting}_{arm}``."""
    settings, arms = ({path.stem for path in yaml_files(conf / group)} for group in ("setting", "arm"))
    translation = arms - MASKED_LM_ONLY
    return {f"{setting}_{arm}": (setting, arm) for setting in settings for arm in ARMS.get(setting, translation)}


def register(experiments: Mapping[str, tuple[str, str]]) -> None:
    """Add the experiments to Hydra's `ConfigStore`; there must be no files with the same names."""
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().repo["exp"] = _Group({f"{name}.yaml": pair for name, pair in experiments.items()})


class _Group(dict[str, Any]):
    """A group of a `ConfigStore` that creates nodes on demand, since creating all of them takes 0.1 seconds."""

    def __getitem__(self, file: str) -> Any:
        from hydra.core.config_store import ConfigNode
        from omegaconf import OmegaConf

        setting, arm = super().__getitem__(file)
        defaults = [{"/setting": setting}, {"/arm": arm}, "_self_"]
        node = OmegaConf.create({"defaults": defaults, "exp": f"{setting}_{arm}"})
        return ConfigNode(file, node, "exp", "_global_", "ln-repro")
