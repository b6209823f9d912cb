"""Hydra's side: every named experiment is what its name says, and nonsense is one line."""

import random
import re
from typing import Any

import pytest

from ln_repro.compose import CONF, compose, expand, experiments
from ln_repro.errors import UserError
from ln_repro.experiment import Experiment, build

MODELS = {  # layers, width, ffn, heads; the first two from the paper (section 3.2, 4.1, appendix A.1)
    "iwslt": (6, 512, 1024, 4), "base": (6, 512, 2048, 8), "small": (3, 128, 256, 4), "toy": (6, 64, 128, 4),
}  # fmt: skip
CORPORA = {  # data, model, lr, max_tokens, max_epoch, max_update
    "iwslt": ("iwslt14", "iwslt", 5e-4, 4096, 15, None),
    "tatoeba": ("tatoeba", "iwslt", 5e-4, 4096, 15, None),
    "multi30k": ("multi30k", "small", 2e-3, 2048, 10, None),
    "toy": ("toy", "toy", 2e-3, 560, None, 1200),
}
FULL = {("postln", "warm"): (4000, "inverse_sqrt"), ("preln", "warm"): (4000, "inverse_sqrt"),
        ("postln", "nowarm"): (0, "anchored"), ("preln", "nowarm"): (0, "step")}  # fmt: skip
SCHEDULES = {  # warm-up updates, decay
    "iwslt": FULL,
    "tatoeba": FULL,
    "multi30k": {(norm, ramp): (1000, "inverse_sqrt") if ramp == "warm" else (0, "anchored") for norm, ramp in FULL},
    "toy": {(norm, ramp): (400 if ramp == "warm" else 0, "constant") for norm, ramp in FULL},
}
EXPECTED = sorted(
    (f"{corpus}_{norm}_{ramp}", corpus, norm, ramp) for corpus, rows in SCHEDULES.items() for norm, ramp in rows
)


def composed(*overrides: str) -> Experiment:
    """Return the experiment that overrides describe."""
    return build({key: value for key, value in compose(overrides).items() if key != "hydra"})


def test_the_named_experiments_are_those_of_the_table() -> None:
    assert set(experiments()) >= {name for name, *_ in EXPECTED}


@pytest.mark.parametrize(("name", "corpus", "norm", "ramp"), EXPECTED)
def test_an_experiment_is_what_its_name_says(name: str, corpus: str, norm: str, ramp: str) -> None:
    experiment = composed(f"exp={name}")
    data, model, lr, max_tokens, max_epoch, max_update = CORPORA[corpus]
    warmup_updates, decay = SCHEDULES[corpus][norm, ramp]
    assert experiment.exp == name
    assert (experiment.norm, experiment.lr, experiment.data.name) == (norm, lr, data)
    assert (experiment.schedule.warmup_updates, experiment.schedule.decay) == (warmup_updates, decay)
    dimensions = experiment.model
    assert dimensions.name == model
    assert (dimensions.layers, dimensions.width, dimensions.ffn, dimensions.heads) == MODELS[model]
    train = experiment.train
    assert (train.max_tokens, train.max_epoch, train.max_update) == (max_tokens, max_epoch, max_update)
    assert (train.label_smoothing, train.clip_norm, dimensions.dropout) == (0.1, 0.0, 0.1)
    assert (experiment.eval.beam, experiment.eval.lenpen) == (5, 1.2)
    adam = experiment.optimizer
    assert (adam.name, adam.betas, adam.eps, adam.weight_decay) == ("adam", (0.9, 0.98), 1e-8, 0.0)
    assert (experiment.seed, experiment.precision, experiment.init) == (1, "fp32", "xavier_legacy")
    if decay == "anchored":  # the tail of the ramp that was taken away
        assert experiment.schedule.anchor == SCHEDULES[corpus][norm, "warm"][0]
    if decay == "step":
        assert experiment.schedule.step_epoch == 8


@pytest.mark.parametrize("name", sorted(experiments()))
def test_every_experiment_builds_under_its_own_name_and_says_how_it_is_run(name: str) -> None:
    assert composed(f"exp={name}").exp == name
    head = (CONF / "exp" / f"{name}.yaml").read_text().splitlines()[:3]
    assert head[1] == f"# ln-repro run exp={name}"
    assert experiments()[name]


@pytest.mark.parametrize("path", sorted((CONF).glob("*/*.yaml")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_file_of_a_group_can_be_chosen(path: Any) -> None:
    group = path.parent.name
    if group != "exp":
        sources = ["data.train=a", "data.valid=b", "data.test=c"] if path.stem == "files" else []
        assert composed("exp=toy_preln_nowarm", f"{group}={path.stem}", *sources)


def test_an_override_wins_over_the_experiment_and_numbers_stay_numbers() -> None:
    experiment = composed("exp=toy_preln_nowarm", "lr=1e-4", "seed=7", "model.layers=2", "train.max_update=5")
    assert (experiment.lr, experiment.seed, experiment.model.layers, experiment.train.max_update) == (1e-4, 7, 2, 5)


def test_the_environment_says_where_things_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LN_REPRO_RUNS", raising=False)
    assert str(composed("exp=toy_preln_nowarm").paths.runs) == "runs"
    monkeypatch.setenv("LN_REPRO_RUNS", "/some where/it's")
    assert str(composed("exp=toy_preln_nowarm").paths.runs) == "/some where/it's"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("exp=toy_prln_nowarm", r"^exp: there is no 'toy_prln_nowarm'; nearest: toy_preln_nowarm"),
        ("exp=", r"^exp: there is no ''; known: iwslt_postln_nowarm"),
        ("exp=null", r"^exp: there is no 'null'; known"),
        ("model=bse", r"^model: there is no 'bse'; nearest: base"),
        ("norm=prelm", r"^norm: there is no 'prelm'; nearest: preln"),
        ("data=null", r"^data: there is no 'null'"),
        ("schedule.warmup=1", r"^schedule.warmup: no such setting; nearest: schedule.warmup_updates"),
        ("lrr=1", r"^lrr: no such setting; nearest: lr"),
        ("lr", r"^'lr': is no key=value"),
        ("=5", r"^'=5': is no key=value"),
        ("+=5", r"^'\+=5': is no key=value"),
        ("lr=((", r"mismatched input"),
        ("lr=${nope}", r"'nope' not found"),
        ("x" * 300 + "=1", r"too long|no such setting"),
    ],
)
def test_a_wrong_override_is_named_in_one_line(override: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        compose(["exp=toy_preln_nowarm", override])
    assert "\n" not in str(caught.value)


def test_the_experiment_has_to_be_named() -> None:
    with pytest.raises(UserError, match=r"^exp: which experiment\?"):
        compose([])


def test_a_multirun_is_expanded_in_order() -> None:
    assert expand(["exp=a,b", "seed=range(1,3)", "lr=1e-3"]) == [
        [f"exp={exp}", f"seed={seed}", "lr=1e-3"] for exp in "ab" for seed in (1, 2)
    ]
    arms = expand(["exp=glob(toy_*)"])
    assert arms == [[f"exp={name}"] for name in sorted(experiments()) if name.startswith("toy_")]
    with pytest.raises(UserError, match="nothing matches: exp=glob"):
        expand(["exp=glob(nope_*)"])


def test_any_string_is_an_experiment_or_a_complaint_of_one_line() -> None:
    """Hydra's grammar has many corners; none may end in anything but a UserError."""
    dice = random.Random(20020)
    keys = ["lr", "exp", "model", "data", "data.source", "schedule.decay", "hydra.sweep.dir", "optimizer.betas", "a@b"]
    atoms = [*"=+~@:.,[]{}()$'\"\\ \n\t\0é%", "${", "null", "true", "nan", "-1", "1e400", "???", "x" * 300, *keys,
             "glob(*)", "choice(1,2)", "int(x)", "${lr}", "${oc.env:X}", "_self_", "a:b"]  # fmt: skip
    for _ in range(100):
        text = "".join(dice.choices(atoms, k=dice.randint(1, 5)))
        override = text if dice.random() < 0.4 else f"{dice.choice(['', '+', '++', '~'])}{dice.choice(keys)}={text}"
        for attempt in (lambda o: composed("exp=toy_preln_warm", o), lambda o: expand(["exp=toy_preln_warm", o])):
            try:
                attempt(override)
            except UserError as error:
                assert str(error), override


def test_a_message_does_not_repeat_hydra_in_many_lines() -> None:
    with pytest.raises(UserError) as caught:
        compose(["exp=toy_preln_nowarm", "seed=1,2"])
    assert re.match(r"Ambiguous value for argument 'seed=1,2'", str(caught.value)) and "\n" not in str(caught.value)
