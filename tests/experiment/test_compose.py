"""Hydra's side: the named experiments, files of one's own, and one line for wrong input."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ln_repro.errors import UserError
from ln_repro.experiment.compose import CONF, compose, compose_all, experiments, grid, launcher, search_also
from ln_repro.experiment.registry import registered
from ln_repro.experiment.settings import Experiment, build
from ln_repro.system.paths import runs_folder

GOLDEN = {  # how many experiments a setting has, and a hash of their ids
    "iwslt": (68, "05ab30179418fd54"), "tatoeba": (68, "7bdd5ac973597436"), "wmt": (68, "0584a29176e7b6fc"),
    "multi30k": (68, "bb47ace12e75c4f7"), "multi30k6": (68, "ec42eec47dbfea9a"), "toy": (68, "01319f01755545f9"),
    "bert": (6, "18e0e373a08e2cf7"), "minibert": (6, "8403685f5c806a0d"), "toybert": (6, "e4f8e96c12b7d64d"),
    "wikinews": (6, "02fb69f033cea651"), "mrpc": (2, "3bae274058bbe69a"), "rte": (2, "125cc76ed5fcd40d"),
    "iwsltsmall": (68, "dbe55d74667ea016"), "minimrpc": (2, "f890608cbf49b301"), "minirte": (2, "483ccd4839261a88"),
}  # fmt: skip
OURS = ("centred", "centredfull", "centredforward", "centredgradient", "shrunk", "shrunksignal")
NEWER = (
    "_warm_encoder", "_warm_decoder", "_nowarm_burst", "_nowarm_burst16", "_sgd_long",
    *(f"_nowarm_burst16_new{reset}" for reset in ("adam", "encoder", "decoder", "encoderweights")),
    *(f"_{norm}_{warmup}" for norm in ("keel", "siamesenorm", "derf", *OURS) for warmup in ("warm", "nowarm")),
)  # fmt: skip
"""Ends of the names of experiments that are newer than the hashes."""
FILES = [path for path in sorted(CONF.glob("*/*.yaml")) if path.parent.name not in ("exp", "grid", "arm", "setting")]
"""Those of groups that are chosen on the command line."""


def composed(*overrides: str) -> Experiment:
    return build(compose(overrides))


@pytest.mark.parametrize(
    "setting",
    [pytest.param(name, marks=pytest.mark.slow if count == 68 else []) for name, (count, _) in GOLDEN.items()],
)
def test_the_experiments_of_a_setting_are_composed_as_ever(setting):
    """A change here makes committed records those of other experiments."""
    names = [name for name in experiments() if name.startswith(f"{setting}_") and not name.endswith(NEWER)]
    ids = {name: composed(f"exp={name}").model_copy(update={"precision": "fp32"}).id("") for name in names}
    assert (len(names), hashlib.sha256(json.dumps(ids, sort_keys=True).encode()).hexdigest()[:16]) == GOLDEN[setting]
    assert len({*ids.values()}) == len(names)


def test_no_experiment_is_left_out_of_the_hashes():
    counts = Counter(name.partition("_")[0] for name in experiments() if not name.endswith(NEWER))
    assert counts == {setting: count for setting, (count, _) in GOLDEN.items()}


@pytest.mark.parametrize("group", sorted({path.parent.name for path in FILES}))
def test_every_file_of_a_group_can_be_chosen(group):
    sources = {"files": ["data.train=a", "data.valid=b", "data.test=c"], "text": ["task=masked_lm"],
               "wikinews": ["task=masked_lm"], "mrpc": ["task=classification"],
               "rte": ["task=classification"]}  # fmt: skip
    for path in FILES:
        if path.parent.name == group:
            more = sources.get(path.stem, []) if group == "data" else []
            if path.stem == "own":
                more = ["norm_file.name=Mine", f"norm_file.path={__file__}"]
            assert composed("exp=toy_preln_nowarm", f"{group}={path.stem}", *more), path


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """Return an empty folder of a user's own, which is searched."""
    search_also(tmp_path)
    yield tmp_path
    search_also(None)


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(("# @package _global_", *lines)))


def test_runs_that_differ_in_values_are_composed_together_as_one_by_one(own):
    own_settings = ("defaults: [toy_postln_warm, _self_]", "every: ${seed}", "lr: 1e-3", "exp: toy_mine")
    write(own / "exp" / "toy_mine.yaml", *own_settings)
    runs = [
        (["exp=toy_mine", "model=small"], ["seed=3", "lr=1e-05", "model.layers=12"]),
        (["exp=toy_mine"], ["seed=4", "lr=16"]),
        (["exp=toy_mine"], ["seed=2"]),
        (["exp=toy_mine", "model=small"], ["seed=5", "lr=0.5", "model.layers=6"]),
    ]
    assert compose_all(runs) == [compose([*shared, *values]) for shared, values in runs]


@pytest.mark.parametrize("group", ["arm", "norm", "setting"])
def test_a_file_of_ones_own_without_its_first_line_is_named(group, own):
    (own / group).mkdir()
    (own / group / "mine.yaml").write_text("defaults: [postln_nowarm]\n" if group == "arm" else f"{group}: mine\n")
    groups = {"setting": "toy", "arm": "preln_nowarm", group: "mine"}
    defaults = ", ".join(f"{{{'override ' * (name == 'norm')}/{name}: {value}}}" for name, value in groups.items())
    write(own / "exp" / "toy_mine.yaml", f"defaults: [{defaults}, _self_]", "exp: toy_mine")
    with pytest.raises(UserError, match=f"^{group}: the file of your own {group} must begin with `# @package"):
        compose(["exp=toy_mine"])


def test_ones_own_files_take_precedence_in_every_group(own):
    write(own / "exp" / "toy_postln_warm.yaml", "# My own.", "defaults: [toy_preln_warm, _self_]", "seed: 5",
          "exp: toy_postln_warm")  # fmt: skip
    (own / "setting").mkdir()
    setting = (CONF / "setting" / "toy.yaml").read_text()
    (own / "setting" / "toy.yaml").write_text(setting.replace("  lr: 2e-3\n", "  lr: 7e-3\n"))
    (own / "norm").mkdir()
    (own / "norm" / "rezero.yaml").write_text((CONF / "norm" / "admin.yaml").read_text())
    (own / "grid").mkdir()
    (own / "grid" / "rates.yaml").write_text("arms: [preln_warm]\n")
    experiment = composed("exp=toy_postln_warm")
    assert (experiment.norm, experiment.seed, experiment.lr) == ("preln", 5, 7e-3)
    assert experiments()["toy_postln_warm"] == "My own."
    assert composed("exp=toy_preln_nowarm", "norm=rezero").norm == "admin"
    assert grid("rates") == {"arms": ["preln_warm"]}


def test_what_an_editor_leaves_beside_an_experiment_is_none(own):
    write(own / "exp" / "mine.yaml", "# My own.", "defaults: [toy_preln_warm, _self_]", "exp: mine")
    write(own / "exp" / ".mine.yaml", "# An unsaved one.", "exp: .mine")
    (own / "exp" / ".#mine.yaml").symlink_to("user@host.12345:1700000000")
    (own / "exp" / "old.yaml").mkdir()
    write(own / "grid" / "short.yaml", "arms: [preln_warm]")
    (own / "grid" / ".#short.yaml").symlink_to("user@host.12345:1700000000")
    assert set(experiments()) - {"mine"} == set(registered(CONF))
    assert grid("short") == {"arms": ["preln_warm"]}
    assert registered(own) == {}


@pytest.mark.parametrize("name", ["no", "12"])
def test_a_name_that_yaml_reads_as_something_else_needs_quotes(name, own):
    file, chosen = own / "exp" / f"{name}.yaml", f"exp='{name}'"
    write(file, "defaults: [toy_preln_warm, _self_]", f"exp: {name}")
    with pytest.raises(UserError, match=f"must contain `exp: '{name}'`, "):
        compose([chosen])
    write(file, "defaults: [toy_preln_warm, _self_]", f"exp: '{name}'")
    assert composed(chosen).exp == name


def test_a_file_of_ones_own_that_cannot_be_used_is_one_line(own):
    for name, defaults, message in (
        ("wrong_base", "[toy_prln_warm, _self_]", "In 'exp/wrong_base': Could not load 'exp/toy_prln_warm'."),
        ("wrong_group", "[/norm: prelm, _self_]", "norm: there is no 'prelm'; nearest: preln"),
        ("toy_preln_warm", "[toy_preln_warm, _self_]", "a file includes itself in its defaults"),
        ("torn", "[", "while parsing a flow node"),
        ("nameless", "[toy_preln_nowarm, _self_]", f"{own / 'exp' / 'nameless.yaml'}: must contain `exp: n"),
    ):
        write(own / "exp" / f"{name}.yaml", f"defaults: {defaults}")
        with pytest.raises(UserError) as caught:
            compose([f"exp={name}"])
        assert str(caught.value).startswith(message) and "\\n" not in str(caught.value)


def test_a_norm_that_a_file_of_ones_own_sets_must_exist(own):
    write(own / "exp" / "mine.yaml", "defaults: [toy_preln_warm, _self_]", "exp: mine", "norm: post-ln")
    with pytest.raises(UserError, match=r"^norm: there is no 'post-ln'; nearest: postln, .* \(norm.file=PATH gives"):
        compose(["exp=mine"])
    write(own / "exp" / "mine.yaml", "defaults: [toy_preln_warm, _self_]", "exp: mine", "norm: postln")
    assert composed("exp=mine").norm == composed("exp=mine", "norm=postln").norm == "postln"
    write(own / "exp" / "extended.yaml", "defaults: [mine, _self_]", "exp: extended")
    for exp in ("mine", "extended"):
        with pytest.raises(UserError, match=f"^norm=preln: the file of exp={exp}, .* as `- override /norm: postln`"):
            compose([f"exp={exp}", "norm=preln"])
    write(own / "exp" / "mine.yaml", "defaults: [toy_preln_warm, {override /norm: postln}, _self_]", "exp: mine")
    assert [composed("exp=mine", *words).norm for words in ([], ["norm=rezero"])] == ["postln", "rezero"]


def test_the_home_folder_is_a_tilde_in_every_path(own, monkeypatch):
    monkeypatch.setenv("HOME", str(own))
    (own / "norm.py").write_text("class Mine: ...\n")
    (own / "slurm.yaml").write_text("timeout_min: 7\n")
    splits = ("train", "valid", "test", "source")
    words = [f"data.{split}='~/{split}'" for split in splits]
    experiment = composed("exp=toy_preln_nowarm", "data=files", *words, "paths.runs='~/runs'", "paths.data='~'")
    assert [getattr(experiment.data, split) for split in splits] == [own / split for split in splits]
    assert (experiment.paths.runs, experiment.paths.data) == (own / "runs", own)
    assert composed("exp=toy_preln_nowarm", "norm=Mine", "norm.file='~/norm.py'").norm_file.path == own / "norm.py"
    assert launcher("~/slurm.yaml", [])["timeout_min"] == 7
    monkeypatch.setenv("LN_REPRO_RUNS", "~/mine")
    assert runs_folder() == composed("exp=toy_preln_nowarm").paths.runs == own / "mine"
