"""Hydra's side: every named experiment is what its name says, and nonsense is one line."""

import random
import re
from typing import Any

import pytest

from ln_repro.errors import UserError
from ln_repro.experiment.compose import CONF, compose, expand, experiments, named
from ln_repro.experiment.settings import Experiment, build

MODELS = {  # name, layers, width, ffn, heads; the first two from the paper (section 3.2, 4.1, appendix A.1)
    "iwslt": ("iwslt", 6, 512, 1024, 4), "base": ("base", 6, 512, 2048, 8), "small": ("small", 3, 128, 256, 4),
    "small6": ("small6", 6, 128, 256, 4), "toy": ("toy", 6, 64, 128, 4),
}  # fmt: skip
PAPER = {"lr": 5e-4, "high": 1e-3, "sgd": 5e-3, "sgd_low": 1e-3, "fixed": 1e-4, "ramp": 4000, "short": 500}
FOUR_TIMES = {"lr": 2e-3, "high": 4e-3, "sgd": 2e-2, "sgd_low": 4e-3, "fixed": 4e-4}
CORPORA = {  # data, model, max_tokens, batches an update, epochs, step epoch; then the rates and ramps that arms take
    "iwslt": ("iwslt14", "iwslt", 4096, 1, 15, 8, PAPER),
    "tatoeba": ("tatoeba", "iwslt", 4096, 1, 15, 8, PAPER),
    "multi30k": ("multi30k", "small", 2048, 1, 10, 5, {**FOUR_TIMES, "ramp": 1000, "short": 125}),
    "multi30k6": ("multi30k", "small6", 2048, 1, 10, 5, {**FOUR_TIMES, "ramp": 500, "short": 62}),
    "toy": ("toy", "toy", 560, 1, 3, 1, {**FOUR_TIMES, "ramp": 400, "short": 50}),
    "wmt": ("wmt14", "base", 8192, 16, 20, 6, {**PAPER, "lr": 7e-4, "high": 1.5e-3}),
}
LONGER = {"iwslt": 27, "tatoeba": 27, "multi30k": 18, "multi30k6": 18, "toy": 5, "wmt": 20}
ARMS = {  # ramp, decay, rate, optimizer (paper section 3.2 and 4.1, appendix H; then controls)
    "postln_warm": ("ramp", "inverse_sqrt", "lr", "adam"),
    "postln_warm_high": ("ramp", "inverse_sqrt", "high", "adam"),
    "postln_nowarm": (None, "anchored", "lr", "adam"),
    "postln_nowarm_high": (None, "anchored", "high", "adam"),
    "postln_nowarm_literal": (None, "literal", "lr", "adam"),
    "postln_nowarm_literal_high": (None, "literal", "high", "adam"),
    "postln_warm_short": ("short", "inverse_sqrt", "lr", "adam"),
    "postln_warm_short_high": ("short", "inverse_sqrt", "high", "adam"),
    "postln_warm_sgd": ("ramp", "inverse_sqrt", "sgd", "sgd"),
    "postln_warm_sgd_low": ("ramp", "inverse_sqrt", "sgd_low", "sgd"),
    "postln_nowarm_sgd": (None, "anchored", "sgd", "sgd"),
    "postln_nowarm_sgd_low": (None, "anchored", "sgd_low", "sgd"),
    "postln_nowarm_sgd_literal": (None, "literal", "sgd", "sgd"),
    "postln_nowarm_sgd_low_literal": (None, "literal", "sgd_low", "sgd"),
    "postln_nowarm_fixed": (None, "constant", "fixed", "adam"),
    "preln_nowarm": (None, "step", "lr", "adam"),
    "preln_nowarm_high": (None, "step", "high", "adam"),
    "preln_warm_high": ("ramp", "inverse_sqrt", "high", "adam"),
    "postln_nowarm_radam": (None, "linear", "lr", "radam"),
    "preln_nowarm_radam": (None, "linear", "lr", "radam"),
    "preln_nowarm_radam_step": (None, "step", "lr", "radam"),
    "preln_warm": ("ramp", "inverse_sqrt", "lr", "adam"),
    "preln_nowarm_anchored": (None, "anchored", "lr", "adam"),
    "preln_nowarm_anchored_high": (None, "anchored", "high", "adam"),
    "preln_nowarm_literal": (None, "literal", "lr", "adam"),
    "preln_nowarm_literal_high": (None, "literal", "high", "adam"),
    "postln_warm_step": ("ramp", "step", "lr", "adam"),
    "postln_nowarm_step": (None, "step", "lr", "adam"),
    "postln_nowarm_linear": (None, "linear", "lr", "adam"),
    "preln_warm_sgd": ("ramp", "inverse_sqrt", "sgd", "sgd"),
    "preln_nowarm_sgd": (None, "anchored", "sgd", "sgd"),
    "preln_warm_radam": ("ramp", "inverse_sqrt", "lr", "radam"),
    "preln_nowarm_radam_anchored": (None, "anchored", "lr", "radam"),
    "postln_warm_radam": ("ramp", "inverse_sqrt", "lr", "radam"),
    "postln_nowarm_radam_anchored": (None, "anchored", "lr", "radam"),
    "postln_warm_deep": ("ramp", "inverse_sqrt", "lr", "adam"),
    "postln_warm_deeper": ("ramp", "inverse_sqrt", "lr", "adam"),
    "deepnorm_warm": ("ramp", "inverse_sqrt", "lr", "adam"),
    "deepnorm_nowarm": (None, "anchored", "lr", "adam"),
    "deepnorm_warm_deep": ("ramp", "inverse_sqrt", "lr", "adam"),
    "deepnorm_warm_deeper": ("ramp", "inverse_sqrt", "lr", "adam"),
    "deepnorm_nowarm_high": (None, "anchored", "high", "adam"),
    "rezero_nowarm": (None, "anchored", "lr", "adam"),
    "rezero_nowarm_high": (None, "anchored", "high", "adam"),
    "rezero_nowarm_step": (None, "step", "lr", "adam"),
    "admin_warm": ("ramp", "inverse_sqrt", "lr", "adam"),
    "admin_nowarm": (None, "anchored", "lr", "adam"),
    "admin_nowarm_high": (None, "anchored", "high", "adam"),
    "admin_warm_closed": ("ramp", "inverse_sqrt", "lr", "adam"),
    "admin_warm_deeper": ("ramp", "inverse_sqrt", "lr", "adam"),
}
DEEPER = {"iwslt": (12, 18), "tatoeba": (12, 18), "wmt": (12, 18), "multi30k": (6, 12), "multi30k6": (12, 18),
          "toy": (12, 24)}  # fmt: skip
"""Layers of the arms whose names end in deep, and in deeper."""


def layers(corpus: str, arm: str) -> int:
    """Return the layers that an arm has on a corpus."""
    deep, deeper = DEEPER[corpus]
    return {"deep": deep, "deeper": deeper}.get(arm.split("_")[-1], MODELS[CORPORA[corpus][1]][1])


def norm(arm: str) -> str:
    """Return the norm of an arm."""
    return "admin_closed" if arm.endswith("closed") else arm.split("_")[0]


EXPECTED = [(corpus, arm) for corpus in CORPORA for arm in ARMS]
BERTS = {  # data, layers, width, ffn, heads; block, tokens, batches an update; epochs, updates; rates and ramp
    "bert": ("text", 12, 768, 3072, 12, 512, 256 * 512 // 8, 8, None, 1_000_000, 1e-4, 3e-4, 10_000),
    "minibert": ("multi30k", 4, 128, 512, 4, 32, 2048, 1, 10, None, 1e-3, 3e-3, 200),
    "toybert": ("toy", 6, 64, 128, 4, 16, 512, 1, 4, None, 1e-3, 3e-3, 100),
}
BERT_ARMS = {  # ramp, rate (paper section 4.1; then controls)
    "postln_warm_linear": (True, "low"), "postln_warm_linear_high": (True, "high"),
    "preln_nowarm_linear_high": (False, "high"),
    "preln_nowarm_linear": (False, "low"), "preln_warm_linear": (True, "low"), "postln_nowarm_linear": (False, "low"),
}  # fmt: skip
BERT_EXPECTED = [(setting, arm) for setting in BERTS for arm in BERT_ARMS]

FINE_TUNED = [(setting, f"{norm}_nowarm_linear") for setting in ("mrpc", "rte") for norm in ("preln", "postln")]


def composed(*overrides: str) -> Experiment:
    """Return the experiment that overrides describe."""
    return build(compose(overrides))


def known(setting: str, arm: str, *overrides: str) -> Experiment:
    """Return a named experiment; its file has to say how it is run."""
    name = f"{setting}_{arm}"
    given = {"bert": " data.train=FILE data.valid=FILE"} | dict.fromkeys(
        ("mrpc", "rte"), " start=RUN@EPOCH data.source=FOLDER"
    )
    head = (CONF / "exp" / f"{name}.yaml").read_text().splitlines()[:3]
    assert head[1] == f"# ln-repro run exp={name}{given.get(setting, '')}"
    assert experiments()[name]
    found = composed(f"exp={name}", *overrides)
    assert found.exp == name
    return found


def test_the_named_experiments_are_those_of_the_table() -> None:
    assert set(experiments()) == {f"{corpus}_{arm}" for corpus, arm in [*EXPECTED, *BERT_EXPECTED, *FINE_TUNED]}


@pytest.mark.parametrize(("corpus", "arm"), EXPECTED)
def test_an_experiment_is_what_its_name_says(corpus: str, arm: str) -> None:
    experiment = known(corpus, arm)
    data, model, max_tokens, batches, epochs, step_epoch, reference = CORPORA[corpus]
    ramp, decay, rate, optimizer = ARMS[arm]
    assert (experiment.norm, experiment.data.name) == (norm(arm), data)
    assert experiment.lr == reference[rate]
    schedule = experiment.schedule
    if decay == "step" and corpus == "wmt":  # section 4.1: inverse square root after the 6th epoch
        decay = "step_inverse_sqrt"
    assert (schedule.warmup_updates, schedule.decay) == (reference[ramp] if ramp else 0, decay)
    assert ("_warm" in arm) == bool(schedule.warmup_updates)
    if decay == "anchored":  # the tail of the ramp that was taken away
        assert schedule.anchor == reference["ramp"]
    if decay.startswith("step"):
        assert schedule.step_epoch == step_epoch
    dimensions = experiment.model
    name, _, *widths = MODELS[model]
    assert (dimensions.name, dimensions.layers) == (name, layers(corpus, arm))
    assert [dimensions.width, dimensions.ffn, dimensions.heads] == widths
    train = experiment.train
    length = LONGER[corpus] if arm.endswith("fixed") else epochs
    assert (train.max_tokens, train.batches_per_update, train.max_epoch, train.max_update) == (
        max_tokens, batches, length, None,
    )  # fmt: skip
    assert (train.label_smoothing, train.clip_norm, dimensions.dropout) == (0.1, 0.0, 0.1)
    assert (experiment.eval.beam, experiment.eval.lenpen) == (5, 1.2)
    rule = experiment.optimizer
    betas = None if optimizer == "sgd" else (0.9, 0.98)
    assert (rule.name, rule.betas, rule.weight_decay) == (optimizer, betas, 0.0)
    init = "xavier" if norm(arm) == "deepnorm" else "xavier_legacy"
    assert (experiment.seed, experiment.precision, experiment.init) == (1, "auto", init)


@pytest.mark.parametrize(("setting", "arm"), BERT_EXPECTED)
def test_a_bert_is_what_its_name_says(setting: str, arm: str) -> None:
    experiment = known(setting, arm)
    data, layers, width, ffn, heads, block, max_tokens, batches, epochs, updates, low, high, ramp = BERTS[setting]
    ramped, rate = BERT_ARMS[arm]
    assert (experiment.task, experiment.data.name, experiment.norm) == ("masked_lm", data, arm.split("_")[0])
    model, train = experiment.model, experiment.train
    assert (model.layers, model.width, model.ffn, model.heads, model.dropout) == (layers, width, ffn, heads, 0.1)
    assert (train.block_tokens, train.max_tokens, train.batches_per_update) == (block, max_tokens, batches)
    assert (train.max_epoch, train.max_update, train.label_smoothing, train.clip_norm) == (epochs, updates, 0.0, 0.0)
    assert experiment.lr == (low if rate == "low" else high)
    assert (experiment.schedule.warmup_updates, experiment.schedule.decay) == (ramp if ramped else 0, "linear")
    assert ("_warm_" in arm) == ramped
    rule = experiment.optimizer
    assert (rule.name, rule.betas, rule.eps, rule.weight_decay) == ("adam", (0.9, 0.999), 1e-6, 0.01)


@pytest.mark.parametrize(("setting", "arm"), FINE_TUNED)
def test_a_fine_tuning_is_what_its_name_says(setting: str, arm: str) -> None:
    experiment = known(setting, arm, "start=some/run@3")
    bert = composed("exp=bert_preln_nowarm_linear")
    assert (experiment.task, experiment.data.name, experiment.norm) == ("classification", setting, arm.split("_")[0])
    assert (experiment.model, experiment.optimizer, experiment.init) == (bert.model, bert.optimizer, bert.init)
    train = experiment.train
    assert (train.max_sentences, train.batches_per_update, train.max_epoch, train.label_smoothing) == (32, 1, 3, 0.0)
    assert (experiment.lr, experiment.schedule.warmup_updates, experiment.schedule.decay) == (5e-5, 0, "linear")
    assert experiment.start is not None and experiment.start.given == "some/run@3"


@pytest.mark.parametrize(
    "path",
    sorted(path for path in CONF.glob("*/*.yaml") if path.parent.name not in ("exp", "grid")),
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_every_file_of_a_group_can_be_chosen(path: Any) -> None:
    group = path.parent.name
    sources = ["data.train=a", "data.valid=b", "data.test=c"] if path.stem == "files" else []
    tasks = {"text": "masked_lm", "mrpc": "classification", "rte": "classification"}
    task = [f"task={tasks[path.stem]}"] if group == "data" and path.stem in tasks else []
    assert composed("exp=toy_preln_nowarm", f"{group}={path.stem}", *sources, *task)


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
        ("exp=", r"^exp: there is no ''; known: bert_postln_nowarm"),
        ("exp=null", r"^exp: there is no 'null'; known"),
        ("model=bse", r"^model: there is no 'bse'; nearest: base"),
        ("norm=prelm", r"^norm: there is no 'prelm'; nearest: preln"),
        ("data=null", r"^data: there is no 'null'"),
        ("schedule.warmup=1", r"^schedule.warmup: no such setting; nearest: schedule.warmup_updates"),
        ("lrr=1", r"^lrr: no such setting; nearest: lr"),
        ("lr", r"^expected key=value, got 'lr'"),
        ("=5", r"^expected key=value, got '=5'"),
        ("+=5", r"^expected key=value, got '\+=5'"),
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
    for _ in range(500):
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


def test_an_experiment_is_found_by_its_name_alone() -> None:
    found = named("toy_postln_warm")
    assert found and found == build(compose(["exp=toy_postln_warm"]))
    assert named("toy_nothing") is None
