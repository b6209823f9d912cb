"""The experiment: what it refuses, what its id depends on, and what it does not."""

import json
import math
from itertools import pairwise
from typing import Any

import pytest
from omegaconf import OmegaConf

from ln_repro.errors import UserError
from ln_repro.experiment import settings as module
from ln_repro.experiment.compose import CONF, compose, flat
from ln_repro.experiment.settings import Experiment, build
from tests.examples import experiment, settings

DATA = "sha256:" + "0" * 64

WEIGHTS: dict[str, Any] = {
    "given": "run@1", "sha256": "a", "run": "0123456789", "exp": "toybert_preln_nowarm_linear", "data": "sha256:1",
    "epoch": 1, "update": 9,
}  # fmt: skip
STARTED: dict[str, Any] = {"task": "classification", "data__name": "mrpc", "start": WEIGHTS}
RESET: dict[str, Any] = {
    "schedule__decay": "step", "schedule__step_update": 3, "schedule__step_reset": "encoder",
}  # fmt: skip
CHANGES_THE_RESULT = [
    {"seed": 2}, {"norm": "preln"}, {"lr": 1e-3}, {"precision": "bf16"},
    *({"init": init} for init in ("xavier", "theory", "fairseq")),
    {"model__layers": 2}, {"model__width": 128}, {"model__ffn": 256}, {"model__heads": 2}, {"model__dropout": 0.0},
    {"model__share_embeddings": False},
    {"optimizer__name": "radam"}, {"optimizer__betas": [0.9, 0.999]}, {"optimizer__eps": 1e-6},
    {"optimizer__weight_decay": 0.1}, {"optimizer__equal_layer_norms": True},
    {"optimizer__max_relative_update": 0.01}, {"optimizer__second_moment": "gradient"}, {"model__branch_gain": 0.5},
    {"schedule__warmup_updates": 0, "schedule__decay": "literal"},
    {"schedule__warmup_updates": 399}, {"schedule__decay": "inverse_sqrt"}, {"schedule__decay": "anchored"},
    {"schedule__anchor": 1000, "schedule__decay": "anchored"}, {"schedule__step_epoch": 3, "schedule__decay": "step"},
    {"schedule__step_update": 3, "schedule__decay": "step"},
    RESET, {"schedule__part": "encoder"}, {"schedule__part": "decoder"},
    {"schedule__part": "encoder", "schedule__embeddings": "full"},
    {"train__max_update": 1201}, {"train__max_epoch": 3}, {"train__max_tokens": 561},
    {"train__batches_per_update": 2},
    {"train__label_smoothing": 0.0}, {"train__clip_norm": 1.0},
    {"eval__beam": 4}, {"eval__lenpen": 1.0}, {"eval__max_len_a": 2.0}, {"eval__max_len_b": 20}, {"eval__valid": True},
    {"eval__average": 2}, {"eval__epochs": [2]}, {"task": "masked_lm"}, {"train__block_tokens": 128},
    *({"norm_file": {"name": "Mine", "text": text}} for text in ("a = 1", "a = 2")),
    {"train__max_sentences": 16}, STARTED, {**STARTED, "start": {**WEIGHTS, "sha256": "b"}},
]  # fmt: skip
CHANGES_NOTHING = [
    {"exp": "another_name"}, {"rerun": True},
    {"paths__runs": "/elsewhere"}, {"paths__data": "/elsewhere"}, {"data__source": "/my/copy"},
    {"data__checksum": "record"},
    {"tracker__name": "wandb"}, {"tracker__mode": "offline"}, {"tracker__project": "mine"},
    {"train__log_every": 1}, {"train__save_every": 5}, {"train__save_minutes": 1},
    {"train__threads": 2}, {"train__device": "cpu"}, {"model__name": "another_name"},
    {"divergence__rule": "stuck"}, {"divergence__updates": 5},
    {"stop_on_divergence": True}, {"probe": "gradients"}, {"probe": "collapse"}, {"every": 7}, {"probe_batches": 9},
]  # fmt: skip


def test_the_defaults_are_those_that_records_leave_out():
    run = experiment()
    named = flat(run.settings(defaults=False))
    assert {name: value for name, value in flat(run.settings()).items() if name not in named} == {
        "task": "translation", "norm_file": None, "start": None,
        "model.dropout": 0.1, "model.share_embeddings": True, "model.branch_gain": 1.0,
        "optimizer.weight_decay": 0.0, "optimizer.equal_layer_norms": False, "optimizer.max_relative_update": None,
        "optimizer.second_moment": "zero",
        "schedule.anchor": 4000, "schedule.step_epoch": None, "schedule.step_update": None,
        "schedule.step_reset": "none", "schedule.part": "all", "schedule.embeddings": "ramp",
        "train.max_epoch": None, "train.max_tokens": 4096, "train.max_sentences": None, "train.block_tokens": 512,
        "train.batches_per_update": 1, "train.label_smoothing": 0.1, "train.clip_norm": 0.0, "train.log_every": 100,
        "train.save_every": None, "train.save_minutes": 10.0, "train.threads": 1, "train.device": "auto",
        "eval.beam": 5, "eval.lenpen": 1.2, "eval.max_len_a": 1.2, "eval.max_len_b": 10, "eval.valid": False,
        "eval.epochs": None, "eval.average": 0,
        "divergence.rule": "stuck", "divergence.updates": 2000, "stop_on_divergence": False,
        "probe": "none", "every": 200, "probe_batches": 5,
    }  # fmt: skip


def test_ids_differ_whenever_a_result_could():
    ids = [experiment(**change).id(DATA) for change in [{}, *CHANGES_THE_RESULT]]
    assert len(set(ids)) == len(ids)
    assert experiment().id(DATA) != experiment().id(DATA.replace("0", "1"))


def test_the_files_have_all_settings_and_the_same_defaults():
    """Only the files of a group, from which one is chosen (`conf/model` and the like), may have other values."""
    declared = Experiment.options()
    composed = {key for key in flat(compose(["exp=toy_preln_nowarm"])) if not key.startswith(("hydra.", "reference."))}
    assert composed == declared.keys() - {"norm_file"}  # which `norm.file=PATH` adds
    evaluation, rest = (OmegaConf.load(CONF / name) for name in ("eval/paper.yaml", "config.yaml"))
    written = flat(OmegaConf.to_container(OmegaConf.merge(rest, {"eval": evaluation})))
    both = [key for key, field in declared.items() if key in written and not field.is_required()]
    assert len(both) > 30 and {key: written[key] for key in both} == {key: declared[key].default for key in both}


def test_ids_are_equal_for_what_changes_no_result():
    assert {experiment(**change).id(DATA) for change in CHANGES_NOTHING} == {experiment().id(DATA)}


def test_an_id_depends_on_what_the_weights_are_and_not_on_where_they_lie():
    for change in ({"given": "elsewhere/epoch1.pt"}, {"path": "/x"}, {"epoch": 2}, {"run": "1"}):
        assert experiment(**{**STARTED, "start": {**WEIGHTS, **change}}).id(DATA) == experiment(**STARTED).id(DATA)


def test_an_arm_key_is_shared_by_seeds_rates_and_variations_and_by_no_other_arm():
    same = [
        {"seed": 2}, {"lr": 1e-3}, {"precision": "bf16"}, {"init": "xavier"}, {"optimizer__equal_layer_norms": True},
        {"optimizer__second_moment": "gradient"}, {"model__branch_gain": 0.5}, {"model__layers": 2},
        {"eval__valid": True}, {"eval__average": 2}, {"schedule__anchor": 9}, {"schedule__step_epoch": 3}, {"exp": "x"},
    ]  # fmt: skip
    other_arms = [{"norm": "preln"}, {"model__width": 32}, {"data__bpe_merges": 9}, {"schedule__decay": "inverse_sqrt"}]
    assert {experiment(**change).arm_key() for change in same} == {experiment().arm_key()}
    assert len({experiment(**change).arm_key() for change in [{}, *other_arms]}) == 1 + len(other_arms)


def test_a_record_says_where_a_run_started_and_names_no_place():
    started = {**STARTED, "start": {**WEIGHTS, "path": "/private/x", "given": "/private/x"}}
    run = experiment(**started, paths__runs="/private/x", data__source="/private/y")
    assert run.axes["start"] == "toybert_preln_nowarm_linear@9" and "start" not in experiment().axes
    assert run.settings()["start"]["sha256"] == "a" and "private" not in json.dumps(run.settings())


def test_an_id_depends_on_the_revision_of_the_numerics_and_not_on_how_a_value_is_written(monkeypatch):
    before = experiment().id(DATA)
    assert experiment(lr=0.002).id(DATA) == experiment(lr=2e-3, seed=1.0).id(DATA) == experiment(lr="2e-3").id(DATA)
    monkeypatch.setattr(module, "NUMERICS", module.NUMERICS + 1)
    assert experiment().id(DATA) != before


def test_every_setting_is_known_to_change_a_result_or_not_to():
    """A new setting has to be entered in one of the two lists above."""
    listed = {key for change in [*CHANGES_THE_RESULT, *CHANGES_NOTHING] for key in change}
    names = set()
    for name, value in json.loads(experiment().model_dump_json()).items():
        names |= {f"{name}__{key}" for key in value} if isinstance(value, dict) else {name}
    prepared = {f"data__{key}" for key in module.Data.model_fields}  # the data's own fingerprint stands for them
    assert names - prepared - listed == set()


def test_seeds_stay_apart_for_any_length_of_run_and_fit_numpy():
    """fairseq reseeds with seed + update: no update of one run may share a seed with one of another."""
    seeds = [experiment(seed=seed).torch_seed for seed in (1, 2, 3, 3999, 4000)]
    assert seeds[0] == 1
    assert all(later - earlier > 1_000_000 for earlier, later in pairwise(seeds))
    assert seeds[-1] < 2**32


@pytest.mark.parametrize(("change", "message"), [
    ({"lr": 0}, "lr: input should be greater than 0, got 0"),
    ({"lr": math.nan}, "lr: input should be a finite number, got NaN"),
    ({"lr": True}, "lr: input should be a number, got True"),
    ({"seed": 4001}, "seed: input should be less than or equal to 4000"),
    ({"schedule__decay": "step"}, "schedule.step_epoch: step needs it"),
    ({"schedule__step_reset": "encoder"}, "schedule.step_reset: needs schedule.decay=step with schedule.step_up"),
    *(({**RESET, "schedule__step_reset": reset, "task": "masked_lm"},
       "schedule.step_reset: task=masked_lm has one stack; it can be none or optimizer")
      for reset in ("decoder", "encoder_weights")),
    ({**RESET, "norm": "admin"},
     "schedule.step_reset: norm=admin has scales of the first batches; use norm=admin_closed"),
    ({"schedule__step_epoch": 1, "schedule__step_update": 16}, "schedule.step_update: the step is after an epoch "),
    ({"schedule__warmup_updates": 0, "schedule__decay": "inverse_sqrt"}, "schedule.decay: inverse_sqrt needs"),
    ({"schedule__decay": "literal"}, "schedule.warmup_updates: literal has no ramp, so this must be 0"),
    ({"schedule__decay": "cosine"}, "schedule.decay: input should be 'constant', 'inverse_sqrt', 'anchored', "),
    ({"schedule__part": "encoder", "schedule__warmup_updates": 0}, "schedule.part: encoder needs a ramp; set "),
    ({"schedule__embeddings": "full"}, "schedule.embeddings: full needs schedule.part=encoder or schedule.part="),
    ({"schedule__part": "encoder", "task": "masked_lm"}, "schedule.part: task=masked_lm has one stack; leave it"),
    ({"schedule__part": "encoder", "probe": "all"}, "probe: all needs one learning rate for all parameters, not"),
    ({"train__clip_norm": 1.0, "probe": "curvature"}, "probe: curvature cannot be measured if gradients"),
    ({**STARTED, "probe": "collapse"}, "probe: collapse needs task=translation or masked_lm"),
    ({"model__heads": 5}, "model.heads: 5 does not divide model.width 64"),
    ({"model__width": 63, "model__heads": 1}, "model.width: sinusoidal positions need an even width of at least 4"),
    ({"train__max_update": None}, "train: give train.max_epoch or train.max_update, or training never ends"),
    ({"train__max_tokens": 1.5}, "train.max_tokens: input should be a valid integer, got 1.5"),
    ({"eval__average": 1}, "eval.average: the average of 1 epoch is that epoch; give 2 or more, or 0 for none"),
    ({"eval__average": 4, "train__max_epoch": 3}, "eval.average: 4 epochs cannot be averaged, train.max_epoch is"),
    ({"eval__epochs": [9], "train__max_epoch": 3}, "eval.epochs: [9] has no epoch up to train.max_epoch=3"),
    ({"eval__epochs": []}, "eval.epochs: "),
    ({**RESET, "schedule__step_reset": "optimizer", "optimizer__name": "sgd", "optimizer__betas": None,
      "optimizer__eps": None}, "schedule.step_reset: sgd has no state to reset; leave it out"),
    ({"optimizer__name": "sgd", "optimizer__betas": [0.9, 0.98]}, "optimizer.betas: sgd has neither betas nor eps"),
    ({"start": "run@1"}, "start: only for task=classification; this run has task=translation"),
    ({"task": "masked_lm", "data__name": "rte"}, "data.name: task=classification takes mrpc or rte, which have"),
    ({"data__name": "text"}, "data.name: text has one language, for task=masked_lm; translation needs two"),
    ({"task": "masked_lm", "train__max_tokens": 100}, "train.max_tokens: needs at least train.block_tokens=512"),
    ({**STARTED, "eval__average": 2}, "eval.valid, eval.epochs, eval.average: task=classification decodes nothing"),
    ({"task": "masked_lm", "eval__epochs": [1]}, "eval.valid, eval.epochs, eval.average: task=masked_lm decodes"),
    ({"norm": "ngpt", "model__branch_gain": 0.5}, "model.branch_gain: norm=ngpt normalises all weights"),
    ({"exp": "../deep"}, "exp: "),
    ({"data__source_lang": "de/../de"}, "data.source_lang: "),
    ({"train__max_updates": 1}, "train.max_updates: no such option; nearest: train.max_update"),
    ({"schedule__step_update": 16}, "schedule.step_update: needs schedule.decay=step or step_inverse_sqrt"),
], ids=str)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_one_line(change, message):
    with pytest.raises(UserError) as caught:
        experiment(**change)
    assert str(caught.value).startswith(message) and "\\n" not in str(caught.value)  # an error escapes line feeds


def test_what_is_missing_is_named():
    plain = settings()
    del plain["lr"], plain["model"]["heads"]
    with pytest.raises(UserError) as caught:
        build(plain)
    assert str(caught.value) == "lr: is not set; model.heads: is not set"


def test_the_axes_of_a_record_are_those_of_the_contract():
    assert experiment(norm="preln", seed=3).axes == {
        "task": "translation",
        "data": "toy", "model": "toy", "norm": "preln", "init": "xavier_legacy", "optimizer": "adam", "lr": 2e-3,
        "warmup_updates": 400, "decay": "constant", "seed": 3, "precision": "fp32",
    }  # fmt: skip
