"""Hydra's side of the command line: YAML and overrides to plain settings. Only this file and `cli` know Hydra."""

import difflib
import re
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ln_repro.errors import UserError
from ln_repro.system.paths import CHECKOUT, PACKAGE

if TYPE_CHECKING:
    from ln_repro.experiment.settings import Experiment

CONF = next(path for path in (PACKAGE / "conf", CHECKOUT / "conf") if path.is_dir())  # wheel, else checkout
PRIMARY = "config"
_own: Path | None = None


def search_also(folder: Path | None) -> None:
    """Find files of the user's own in ``folder`` from now on, below those that are registered; None: no longer.

    Raises:
        UserError: there is no such folder.
    """
    global _own
    if folder and not folder.is_dir():
        raise UserError(f"--config-dir: {folder} is no folder; give the one that has your exp/NAME.yaml")
    _own = folder and folder.resolve()
    if _own:
        from hydra.core.plugins import Plugins

        Plugins.instance().register(_search_path())


@cache
def _search_path() -> type[Any]:
    """Return the plug-in that tells Hydra where else to look: `hydra.main` and `hydra.compose` both ask it."""
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.plugins.search_path_plugin import SearchPathPlugin

    class OwnFolder(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            if _own:
                search_path.append("--config-dir", f"file://{_own}")

    return OwnFolder


def _files(group: str) -> dict[str, Path]:
    """Return the files of a group by the names that can be given for it; none for what is no group."""
    folders = [_own, CONF] if _own else [CONF]
    found = {path.stem: path for folder in folders for path in (folder / group).glob("*.yaml")}
    return dict(sorted(found.items()))


def experiments() -> dict[str, str]:
    """Return every named experiment and what its file says of it."""
    found = {}
    for name, path in _files("exp").items():
        comments = [line[2:] for line in path.read_text().splitlines() if line.startswith("# ")]
        found[name] = comments[-1] if comments else ""
    return found


def grid(name: str) -> dict[str, Any]:
    """Return a grid's file: ``arms``, and perhaps ``corpus``, ``rates`` (a key of the setting's) and ``overrides``."""
    from omegaconf import OmegaConf

    if not name:
        raise UserError(f"grid: which grid? Give grid=NAME ({', '.join(_files('grid'))})")
    _check_choices([f"grid={name}"])
    found = OmegaConf.to_container(OmegaConf.load(_files("grid")[name]))
    assert isinstance(found, dict)
    return {str(key): value for key, value in found.items()}


def launcher(name: str, options: Sequence[str]) -> dict[str, Any]:
    """Return what is asked of Slurm: our defaults, a file of the user's own, then ``KEY=VALUE`` options.

    Args:
        name: `slurm`, or the path of a YAML file that says what differs.
        options: each ``KEY=VALUE``.

    Raises:
        UserError: the file or an option cannot be read.
    """
    from omegaconf import OmegaConf

    try:
        files = [CONF / "hydra" / "launcher" / "slurm.yaml", *([] if name == "slurm" else [Path(name)])]
        merged = OmegaConf.merge(*map(OmegaConf.load, files), OmegaConf.from_dotlist(list(options)))
        found = OmegaConf.to_container(merged, resolve=True)
    except FileNotFoundError:
        raise UserError(f"launcher: there is no file {name}") from None
    except _complaints() as error:
        raise UserError(f"launcher: {_one_line(error)}") from None
    if not isinstance(found, dict):
        raise UserError(f"launcher: {name} is no list of KEY: VALUE")
    return {str(key): value for key, value in found.items() if key != "defaults"}


@cache
def named(exp: str) -> "Experiment | None":
    """Return a named experiment; None if there is no such name."""
    from ln_repro.experiment.settings import build

    return build(compose([f"exp={exp}"])) if (CONF / "exp" / f"{exp}.yaml").is_file() else None


def compose(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the settings that ``overrides`` describe, interpolations resolved.

    Raises:
        UserError: one line naming the override, and the nearest name that exists.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    try:
        _check_choices(overrides)
        with initialize_config_dir(str(CONF), version_base="1.3"):
            cfg = hydra_compose(PRIMARY, list(overrides))
        settings = OmegaConf.to_container(cfg, resolve=True)
    except _complaints() as error:
        raise UserError(_one_line(error)) from None
    assert isinstance(settings, dict)
    return {str(key): value for key, value in settings.items()}


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """Return the override lists of a multirun (``exp=a,b seed=1,2``), one a run."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            parser = OverridesParser.create(GlobalHydra.instance().config_loader())
            values = [
                [f"{item.get_key_element()}={value}" for value in item.sweep_string_iterator()]
                if item.is_sweep_override()
                else [str(item.input_line)]
                for item in parser.parse_overrides(list(overrides))
            ]
    except _complaints() as error:
        raise UserError(_one_line(error)) from None
    if not all(values):
        raise UserError(
            "nothing matches: " + " ".join(o for o, found in zip(overrides, values, strict=True) if not found)
        )
    return [list(choice) for choice in product(*values)]


def multirun(arguments: Sequence[str], job: Any) -> None:
    """Hand the command line to Hydra itself: multirun, launchers, ``--cfg`` and its other flags.

    Raises:
        UserError: Hydra cannot use them.
        Exception: whatever a job raises that another process or machine has run.
    """
    import logging
    import os
    import sys

    import hydra
    from omegaconf import OmegaConf

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name=PRIMARY)
    def task(cfg: Any) -> None:
        job(OmegaConf.to_container(cfg, resolve=True))

    logging.raiseExceptions = False  # Hydra prints by way of logging, which has much to say of a reader that leaves
    sys.argv = ["ln-repro", *arguments]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # what is raised comes to us, instead of being printed at length
    try:
        task()
    except BrokenPipeError:
        raise
    except _complaints() as error:
        raise UserError(_one_line(error)) from None


def _check_choices(overrides: Sequence[str]) -> None:
    """Refuse a group's option that has no file, naming the nearest one; with a search path, that is left to Hydra."""
    elsewhere = any(override.startswith("hydra.searchpath=") for override in overrides)
    for override in overrides:
        group, equals, choice = override.partition("=")
        if not group.strip("+~") or not (equals or group.startswith("~")):
            raise UserError(f"expected key=value, got {override!r}")
        options = _files(group) if re.fullmatch(r"\w+", group) else {}
        if options and choice not in options and not elsewhere:
            raise UserError(f"{group}: there is no {choice!r}{_nearest(choice, list(options))}")


def _complaints() -> tuple[type[Exception], ...]:
    """Return what Hydra and OmegaConf raise for overrides that they cannot use."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    return HydraException, OmegaConfBaseException, YAMLError, ValueError, OSError


def _one_line(error: Exception) -> str:
    """Return what Hydra complains about in one line, with the nearest key when a key is unknown."""
    text = " ".join(str(error).split())
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        key = unknown[1]
        return f"{key}: no such setting{_nearest(key, _keys())}"
    if "You must specify 'exp'" in text:
        return "exp: which experiment? Give exp=NAME (ln-repro run --help lists them)"
    if "LexerNoViableAlt" in text or "mismatched input" in text or "no viable alternative" in text:
        return f"cannot be read: {text} (a value with special characters needs quotes inside quotes)"
    return text


def _keys() -> list[str]:
    """Return every key that an experiment has."""

    def flatten(node: dict[str, Any], prefix: str = "") -> list[str]:
        keys = []
        for name, value in node.items():
            keys.append(f"{prefix}{name}")
            if isinstance(value, dict):
                keys += flatten(value, f"{prefix}{name}.")
        return keys

    return flatten(compose([f"exp={next(iter(experiments()))}"]))


def _nearest(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"; nearest: {', '.join(close)}" if close else f"; known: {', '.join(list(names)[:30])}"


def sources() -> list[Path]:
    """Return the files that decide what a named experiment is: YAML, and the code of its settings."""
    return [*CONF.rglob("*.yaml"), *(PACKAGE / "experiment" / f"{name}.py" for name in ("data", "model", "settings"))]
