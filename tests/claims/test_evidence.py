"""Which records are evidence, and for what; and the lock file of named arms."""

import math
from pathlib import Path
from typing import Any

import pytest

from ln_repro.claims.arms import LOCK, Arms, own_settings
from ln_repro.claims.evidence import Evidence, gather
from ln_repro.claims.judge import CLAIMS, row_of
from ln_repro.records.archive import Run
from ln_repro.records.record import Corpus
from ln_repro.report.results import run_tables
from tests.claims.made import RATE, gathered, made, made_experiment, made_runs, named, on_rates


def ids(evidence: Evidence) -> set[str]:
    """Return the records that are evidence for the named experiments."""
    return {run.record.id for arm in evidence.arms.values() for run in arm.values()}


@pytest.mark.parametrize(("changes", "own"), [
    ({"norm": "deepnorm"}, ["norm=deepnorm"]),
    ({"init": "fairseq", "lr": 7e-3}, ["lr=0.007", "init=fairseq"]),
    ({"exp": "toy_mine"}, ["no experiment of that name"]),
    ({"precision": "bf16"}, []),  # how it was run does not matter, but a seed counts once
    ({"schedule__step_epoch": 3, "schedule__anchor": 5}, []),  # which this tail does not read
])  # fmt: skip
def test_a_run_that_is_not_what_its_name_says_is_none(changes: dict[str, Any], own: list[str]) -> None:
    runs = [made(), made(**{"exp": "toy_postln_warm", **changes})]
    runs[1].record.id = "b"
    (evidence,) = gather(runs, named, (), {}).values()
    assert ids(evidence) == {runs[0].record.id}
    shown = own_settings(runs[1].experiment, named)
    assert {*own} <= {*shown} and bool(own) == bool(shown)


def test_a_run_at_another_rate_is_evidence_of_the_arm_at_that_rate_and_of_the_experiment_named_so() -> None:
    runs = [made(), made(lr=7e-3), made(lr=2 * RATE)]
    evidence = gathered(runs)["toy"]
    rates = {arm: [run.experiment.lr for run in of.values()] for arm, of in evidence.arms.items()}
    assert rates == {"postln_warm": [RATE], "postln_warm_high": [2 * RATE]}, "whatever it was called when it started"
    assert [*evidence.curve("postln_warm")] == [*evidence.curve("postln_warm_high")] == [RATE, 2 * RATE, 7e-3]


def test_a_variation_stands_apart_and_still_counts_as_the_best_arm() -> None:
    others = [made("toy_preln_warm", seed, 60.0, init="fairseq") for seed in (1, 2, 3)]
    others += [made("toy_preln_nowarm", seed, 65.0, init="fairseq") for seed in (1, 2)]  # too few to compare with
    evidence = gathered([*made_runs("toy", {"postln_warm": {}}), *others])["toy"]
    assert [*evidence.arms] == ["postln_warm"] and "preln_warm" not in evidence.rates
    varied = {name: [*part.arms] for name, part in evidence.variations.items()}
    assert varied == {"init=fairseq": ["preln_warm", "preln_nowarm"]}
    assert evidence.relative_bleu(evidence.arms["postln_warm"][3]) == 0.5


def test_skill_is_known_where_the_entropy_of_the_corpus_is() -> None:
    runs = made_runs("toy", {"postln_warm": {"loss": 3.0}, "preln_warm": {"loss": 6.0}})
    evidence = gathered(runs, unigram_bits=10.0)["toy"]  # blind to the source: 8 bits
    assert [evidence.skill(evidence.arms[arm][3]) for arm in ("postln_warm", "preln_warm")] == [1.0, 3 / 6]
    worse = gathered([run := made(loss=9.5)])["toy"]
    assert math.isnan(worse.skill(run)) and math.isnan(gather([run], named, (), {})["toy"].skill(run))


def test_runs_on_other_text_than_the_corpus_or_than_most_runs_or_never_decoded_are_no_evidence() -> None:
    runs = [made("toy_postln_warm", seed) for seed in range(1, 7)]
    runs[5].record.bleu = runs[5].record.bleu.model_copy(update={"test_tokenised": None})
    runs[0].record.data.published = False
    runs[4].record.data.fingerprint = "another"
    assert [*gathered(runs)["toy"].arms["postln_warm"]] == [2, 3, 4]


def test_the_lock_file_is_read_if_it_is_up_to_date_and_written_the_same_twice(tmp_path: Path, monkeypatch) -> None:
    composed: list[str] = []
    source, lock = tmp_path / "arm.yaml", tmp_path / LOCK

    def compose(exp: str) -> Any:
        composed.append(exp)
        return made_experiment(exp) if exp == "toy_postln_warm" else None

    monkeypatch.setattr("ln_repro.experiment.compose.registered_experiment", compose)
    monkeypatch.setattr("ln_repro.experiment.compose.sources", lambda: [source])

    def saved(rate: int) -> str:
        source.write_text(f"lr: {rate}")
        arms = Arms(tmp_path / "records")
        assert arms("toy_postln_warm") == named("toy_postln_warm") and arms("toy_nothing") is None
        arms.save()
        return lock.read_text()

    text = saved(1)
    assert saved(1) == text and composed == ["toy_postln_warm", "toy_nothing"]
    lock.write_text(text.replace("postln", "preln"))
    assert saved(2) != text and len(composed) == 4
    lock.write_text("<<<<<<< of a merge")
    assert saved(1) == text and len(composed) == 6


def on_a_part(runs: list[Run], percent: int) -> list[Run]:
    """Return the runs as if they had been trained on a part of the training text."""
    for run in runs:
        run.record.data = Corpus(name="iwslt14", fingerprint=f"of {percent} %", train_percent=percent)
    return runs


def test_runs_on_a_part_of_the_training_text_or_of_a_smaller_model_are_settings_of_their_own() -> None:
    rates = {0.25: [80.0] * 5, 0.5: [80.0] * 5, 1.0: [80.0] * 5, 2.0: [0.0] * 5}
    arms = {"postln_warm": rates, "postln_nowarm": {**rates, 0.5: [0.0] * 5, 1.0: [0.0] * 5}}
    parts = on_a_part(on_rates("iwslt", arms), 60) + on_a_part(on_rates("iwsltsmall", arms), 60)
    small = on_a_part(on_rates("iwsltsmall", arms), 7) + on_rates("iwsltsmall", arms)
    evidence = gathered([*made_runs("iwslt", {"postln_warm": {}}), *parts, *small])
    assert [*evidence] == ["iwslt", "iwslt-60", "iwsltsmall", "iwsltsmall-60", "iwsltsmall-7"]
    assert ids(evidence["iwslt"]).isdisjoint(run.record.id for run in parts)
    row = next(row_of(claim, evidence, {}) for claim in CLAIMS if claim.id == "MT-1.anchored")
    assert row.own.verdict == "not-run", "the verdict on the paper's data needs the paper's data"
    settings = {"iwslt14-60": "iwslt-60", "iwslt14-7": "iwsltsmall-7", "iwslt14": "iwsltsmall"}
    assert {other.data: other.setting for other in row.others} == settings
    assert {(other.fidelity, other.verdict) for other in row.others} == {("adapted", "reproduced")}
    commands = {other.data: other.command for other in row.others}
    assert " corpus=iwslt seeds=" in commands["iwslt14-60"]
    assert [" data.source=FOLDER" in commands[data] for data in ("iwslt14", "iwslt14-7")] == [False, True]
    assert {*run_tables([run.record for run in parts], {})} == {"runs-iwslt14-60"}
