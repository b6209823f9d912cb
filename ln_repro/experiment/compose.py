"""Compose settings from YAML files and overrides with Hydra, which only this package uses."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ln_repro.errors import UserError
from ln_repro.experiment.launcher_options import option_value, typed
from ln_repro.experiment.name import Name
from ln_repro.experiment.registry import register, registered, yaml_files
from ln_repro.experiment.settings import Experiment, build
from ln_repro.experiment.validation import nearest
from ln_repro.system.files import Json
from ln_repro.system.paths import CHECKOUT, PACKAGE, expanded

CONF = next(path for path in (PACKAGE / "conf", CHECKOUT / "conf") if path.is_dir())  # wheel, else checkout
PRIMARY = "config"
HINTS = {
    "norm": " (norm.file=PATH gives a file of your own)",
    "exp": " (all: ln-repro run --list; --config-dir=DIR adds DIR/exp)",
}
"""What messages about unknown names of a group end with."""
_own: Path | None = None  # the user's folder of configuration files


def search_also(folder: Path | None) -> None:
    """From now on, search the user's ``folder`` for configuration files before `conf`; None: only `conf`."""
    global _own
    if folder and not folder.is_dir():
        raise UserError(f"--config-dir: {folder} is not a folder; give the one that contains your exp/NAME.yaml")
    _own = folder and folder.resolve()


@contextmanager
def hydra_app() -> Iterator[Any]:
    """Yield an initialised Hydra; what it raises for wrong overrides or files becomes a `UserError` of one line."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    logging.raiseExceptions = False  # Hydra prints by logging, which would print a traceback for a closed pipe
    files = _files("exp")
    register({name: parts for name, parts in registered(CONF).items() if name not in files})
    try:
        with initialize_config_dir(str(CONF), job_name="ln-repro", version_base="1.3"):
            app = GlobalHydra.instance().hydra
            if _own:
                search_path = app.config_loader.get_search_path()
                search_path.prepend("--config-dir", f"file://{_own}", "main")
                app.config_loader = type(app.config_loader)(search_path)
            yield app
    except BrokenPipeError:
        raise
    except UnicodeDecodeError as error:  # does not say in which file
        paths = [path for folder in (_own, CONF) if folder for path in yaml_files(folder, "**/*.yaml")]
        place = next((f"{path}: " for path in paths if error.object in path.read_bytes()), "")
        raise UserError(f"{place}{_one_line(error)}") from None
    except _complaints() as error:
        raise UserError(_one_line(error)) from None


def _files(group: str) -> dict[str, Path]:
    """Return the files of a group by name; the user's own take precedence."""
    folders = [CONF, _own] if _own else [CONF]
    files = {path.stem: path for folder in folders for path in yaml_files(folder / group)}
    return dict(sorted(files.items()))


def experiments() -> dict[str, str]:
    """Return the description of every experiment, which stands in its file, or in that of its arm."""
    arms = descriptions("arm")
    described = {
        name: arms[arm].replace("Post-LN", norm).replace(" (section 3.2)", "") if norm else arms[arm]
        for name, (_, arm, norm) in registered(CONF).items()
    }
    return dict(sorted((described | descriptions("exp")).items()))


def descriptions(group: str) -> dict[str, str]:
    """Return the first sentence of the comment in each file of a group, such as `conf/setting`."""
    texts = {}
    for name, path in _files(group).items():
        lines = path.read_text("utf-8", errors="replace").splitlines()
        comment = " ".join(line[2:] for line in lines if line.startswith("# ") and not line.startswith("# @package"))
        texts[name] = re.split(r"(?<=[^.]\.) ", comment, maxsplit=1)[0]
    return texts


def grid(name: str) -> Json:
    """Return the content of a grid's file, see `ln_repro.sweep.grid.Grid`."""
    known = _files("grid")
    if not name:
        raise UserError(f"grid: no grid is given; use grid=NAME ({', '.join(known)})")
    if name not in known:
        raise UserError(f"grid: there is no {name!r}{nearest(name, list(known))}")
    try:
        return _plain(OmegaConf.load(known[name]))
    except _complaints() as error:
        raise UserError(f"{known[name]}: {_one_line(error)}") from None


def launcher(name: str, options: Sequence[str]) -> Json:
    """Return the options for Slurm: our defaults, overridden by the YAML file ``name`` and by ``KEY=VALUE`` options."""
    files = [CONF / "slurm.yaml", *([] if name == "slurm" else [expanded(name)])]
    try:
        for file in files:
            OmegaConf.load(file)  # refuses a key that is given twice
        content = OmegaConf.merge(*(yaml.load(file.read_text("utf-8"), yaml.BaseLoader) or {} for file in files))
        for option in options:
            key, _, text = option.partition("=")
            OmegaConf.update(content, key, option_value(key, text))
        return {key: typed(key, value) for key, value in _plain(content).items()}
    except FileNotFoundError:
        raise UserError(f"launcher: there is no file {name}") from None
    except TypeError:
        raise UserError(f"launcher: {name}: expected OPTION: VALUE in each line; see conf/slurm.yaml") from None
    except _complaints() as error:
        raise UserError(f"launcher: {_one_line(error)}") from None


@cache
def registered_experiment(exp: str) -> Experiment | None:
    """Return a registered experiment; None if there is no such name."""
    return build(compose([f"exp={exp}"])) if exp in registered(CONF) or exp in _files("exp") else None


def compose(overrides: Sequence[str]) -> Json:
    """Return the settings that result from ``overrides``, with interpolations resolved.

    Raises:
        UserError: an override is invalid; the message names it and the closest valid names.
    """
    return compose_all([(overrides, ())])[0]


def compose_all(runs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Json]:
    """Return the settings of many runs, each given by overrides as for `compose` and by some that only replace a value.

    Runs that differ in the latter are composed together, since composing takes a tenth of a second.
    """
    from hydra import compose as hydra_compose

    configs: dict[tuple[str, ...], Any] = {}
    composed = []
    with hydra_app():
        for overrides, values in runs:
            if idle := [key for key in values_of(overrides) if key.lstrip("+~").startswith(("hydra.", "hydra/"))]:
                raise UserError(f"{idle[0]}: has no effect: Hydra only composes the settings; runs are in paths.runs")
            if (key := tuple(overrides)) not in configs:
                configs[key] = hydra_compose(PRIMARY, with_own_norm(overrides))
                _check_packages(configs[key])
                _check_name(configs[key], overrides)
                _check_norm(configs[key], overrides)
            composed.append(_plain(OmegaConf.merge(configs[key], OmegaConf.from_dotlist(list(values)))))
    return composed


def _check_packages(config: Any) -> None:
    """Raise `UserError` if a file of one's own lacks the line that makes its settings those of the experiment."""
    for group in ("setting", "arm", "norm"):
        if group in config and OmegaConf.is_dict(config[group]):
            raise UserError(f"{group}: the file of your own {group} must begin with `# @package _global_`")


def _check_name(config: Any, overrides: Sequence[str]) -> None:
    """Raise `UserError` if an experiment's file does not set its own name, so that its runs would have another's."""
    name = values_of(overrides).get("exp", "")
    own_name = None if OmegaConf.is_missing(config, "exp") else config.exp
    if (path := _files("exp").get(name)) and own_name != name:
        quoted = f"'{name}'" if isinstance(own_name, bool | int | float) else name  # as YAML has read it
        raise UserError(
            f"{path}: must contain `exp: {quoted}`, by which its runs are named, begin with `# @package _global_`, "
            "and have `- _self_` last in its defaults, if at all"
        )


def _check_norm(config: Any, overrides: Sequence[str]) -> None:
    """Raise `UserError` for a norm that an experiment's file has set as a value, if it is unknown or was not asked for.

    Such a value has precedence over ``norm=NAME`` on the command line.
    """
    if not OmegaConf.is_missing(config, "norm") and not config.get("norm_file"):
        known = sorted(path.stem for path in yaml_files(CONF / "norm") if path.stem != "own")
        if config.norm not in known:
            raise UserError(f"norm: there is no {config.norm!r}{nearest(str(config.norm), known)}{HINTS['norm']}")
        values = values_of(overrides)
        asked = values.get("norm", config.norm)
        if asked != config.norm and not (_own and (_own / "norm" / f"{asked}.yaml").is_file()):
            raise UserError(
                f"norm={asked}: the file of exp={values.get('exp')}, or one that it extends, sets another one, which "
                f"wins; give it as `- override /norm: {config.norm}` in the defaults there"
            )


def _plain(config: Any) -> Json:
    """Return a configuration as a dictionary, with interpolations resolved."""
    content = OmegaConf.to_container(config, resolve=True)
    if not isinstance(content, dict):
        raise ValueError("expected keys with values, found a list")
    return {str(key): value for key, value in content.items()}


def values_of(overrides: Sequence[str]) -> dict[str, str]:
    """Return the value that each override gives, by its key, without the quotes that Hydra needs around some."""
    return {key: value.strip("'\"") for key, _, value in (override.partition("=") for override in overrides)}


def with_own_norm(overrides: Sequence[str]) -> list[str]:
    """Replace ``norm=NAME norm.file=PATH`` by the overrides of `conf/norm/own.yaml`."""
    values = values_of(overrides)
    replaced = "norm_file.name" in values  # by an earlier call
    if "norm.file" not in values and (replaced or values.get("norm") != "own"):
        return list(overrides)
    if not values.get("norm.file") or not values.get("norm"):
        raise UserError("norm.file: give norm=NAME norm.file=PATH, a class and the Python file that defines it")
    from hydra.core.override_parser.types import Quote, QuotedString

    path = str(expanded(values["norm.file"]).absolute()).replace("${", r"\${")
    quoted = QuotedString(path, Quote.single).with_quotes()
    others = [override for override in overrides if override.partition("=")[0] not in ("norm", "norm.file")]
    return [*others, "norm=own", f"norm_file.name={values['norm']}", f"norm_file.path={quoted}"]


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """Return the override lists of a multirun (``exp=a,b seed=1,2``), one per run."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    with hydra_app() as app:
        parsed = OverridesParser.create(app.config_loader).parse_overrides(list(overrides))
        values = [
            [f"{item.get_key_element()}={value}" for value in item.sweep_string_iterator()]
            if item.is_sweep_override()
            else [str(item.input_line)]
            for item in parsed
        ]
    if empty := [override for override, choices in zip(overrides, values, strict=True) if not choices]:
        raise UserError(f"no experiment matches {' '.join(empty)}")
    return [list(choice) for choice in product(*values)]


def _complaints() -> tuple[type[Exception], ...]:
    """Return the types of exceptions that Hydra and OmegaConf raise for invalid overrides and files."""
    from hydra.errors import HydraException

    return HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, TypeError, OSError, RecursionError


def _one_line(error: Exception) -> str:
    """Return the message of Hydra's exception as one line, with the closest names if a name is unknown."""
    from hydra.errors import MissingConfigException, OverrideParseException

    text = " ".join(str(error).split())
    if isinstance(error, UnicodeDecodeError):
        return f"settings must be UTF-8 text, but {text}"
    if isinstance(error, RecursionError):
        return "a file includes itself in its defaults; give it another name than the file it extends"
    if isinstance(error, OverrideParseException):
        key, equals, value = error.override.partition("=")
        hint = "special characters need quotes inside quotes" if equals else "an experiment is exp=NAME"
        if value and not {*value} & {*"'\"`$!\\"}:  # nothing that the shell or Hydra would take for something else
            hint += f""": "{key}='{value}'\""""
        return f"expected key=value, got {error.override!r} ({hint})"
    if text.startswith(("Ambiguous value", "Sweep parameters")):
        override = text.split("'")[1]
        return (
            f"{override}: expected one value; `ln-repro run -m` takes several, a sweep rates=A,B and arms=A,B; "
            "otherwise, give one command for each"
        )
    if text.startswith("Can only enumerate"):
        return "interval() has no end of values; give them (KEY=A,B) or a range (KEY=range(FIRST,END,STEP))"
    if isinstance(error, MissingConfigException) and error.options:
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        known = sorted((option for option in error.options if (group, option) != ("norm", "own")), key=_variant)
        return f"{group}: there is no {choice!r}{nearest(choice, known)}{HINTS.get(group, '')}"
    if unknown := re.search(r"Could not override '([^']+)'", text):
        options = nearest(unknown[1], sorted(Experiment.options()))
        return f"{unknown[1]}: no such option{options} (ln-repro run exp=NAME --cfg job prints them all)"
    if text.startswith("Config group override must be") or isinstance(error, TypeError):  # the latter for ``norm=[1]``
        return "a group (data, exp, model, norm, ...) expects the name of one of its files, not null or a number"
    if "You must specify 'exp'" in text:
        return "exp: no experiment is given; use exp=NAME (ln-repro run --list describes them)"
    return text.partition(" Config search path:")[0]


def flat(settings: Mapping[str, object], prefix: str = "") -> Json:
    """Return nested settings as a flat dictionary with dotted names."""
    flattened: Json = {}
    for name, value in settings.items():
        flattened |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flattened


def _variant(name: str) -> tuple[int, bool]:
    """Return a key that sorts plain names before those of their variants, and Post-LN and Pre-LN before the others."""
    return name.count("_"), not Name.of(name).arm.startswith(("postln", "preln"))


def sources() -> list[Path]:
    """Return the files on which the settings of named experiments depend: YAML files and code."""
    modules = ("data", "model", "registry", "settings", "validation")
    return [*yaml_files(CONF, "**/*.yaml"), *(PACKAGE / "experiment" / f"{name}.py" for name in modules)]
