"""Run an experiment: prepare the corpus, train, decode, score, and write the record."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ln_repro.corpus.prepare import Prepared, prepare
from ln_repro.corpus.text import stored_lines
from ln_repro.engine import process
from ln_repro.engine.checkpoints import Checkpoint, Checkpoints
from ln_repro.engine.inputs import SCHEME_FILE, Inputs
from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.records.record import AVERAGE, Record, record_of
from ln_repro.records.run_dir import RunFolder
from ln_repro.runner import bleu
from ln_repro.runner.pretrained import with_pretrained
from ln_repro.runner.progress import Display
from ln_repro.system.directory_lock import DirectoryLock
from ln_repro.system.distributed import this_rank
from ln_repro.system.files import Json, explained, write_atomically
from ln_repro.system.progress import plural
from ln_repro.system.signals import record_stop_signals
from ln_repro.tracking import FINISH_SECONDS, Mirror

POLL_SECONDS = 0.2
SAMPLED = 20
RESTARTS = ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")
"""Variables with the number of times that a job or a process was restarted."""
PROBING = ("probe", "every", "probe_batches")


class Decoding(NamedTuple):
    """What is decoded for a score: the weights of an epoch or, for `AVERAGE`, the mean of those of the last epochs."""

    split: str
    epoch: int
    weights: list[Checkpoint]

    @property
    def corpus_split(self) -> str:
        """The split of the corpus that is decoded, the test set for `AVERAGE`."""
        return "test" if self.split == AVERAGE else self.split


def run(experiment: Experiment, say: Callable[[str], None]) -> Path:
    """Run or resume an experiment and return the run directory; a finished experiment is not repeated.

    ``say`` receives messages for the user.

    Raises:
        UserError: the experiment is invalid.
        Interrupted: on Ctrl-C or another stop signal; the state is saved.
        LnReproError: any other failure; the message has the path of the log.
    """
    if experiment.data.only is not None:
        raise UserError(f"data.only: a run needs the whole corpus, not only {experiment.data.only}")
    process.require_fairseq()
    rank = this_rank()
    if experiment.train.batches_per_update % rank.size:
        raise UserError(
            f"train.batches_per_update: {experiment.train.batches_per_update} cannot be spread over {rank.size} "
            "processes; start a number of processes that divides it"
        )
    if experiment.norm_file:
        from ln_repro.model.trial import try_own_scheme  # imports torch

        try_own_scheme(experiment)
    experiment = with_pretrained(experiment)
    corpus = prepare(experiment.data, experiment.paths.data, say)
    run_id = experiment.id(corpus.fingerprint)
    folder = RunFolder.of(experiment, run_id)
    with explained(experiment.paths.runs, "paths.runs"):
        # After a requeue, an unfinished run is the one that rerun=true began.
        requeued = any(os.environ.get(name, "0") != "0" for name in RESTARTS)
        if experiment.rerun and folder.path.exists() and not (requeued and folder.record is None):
            with folder.lock():
                say(f"the previous run was renamed to {folder.set_aside()}")
        if folder.record is None:
            with folder.lock() as lock:
                if folder.record is None:  # no other process has finished it in the meantime
                    refuse_other_probes(experiment, folder)
                    folder.begin(say)
                    try:
                        Session(experiment, corpus, folder, run_id, lock, say).execute()
                    except Exception as error:
                        if not (isinstance(error, Interrupted) or lock.taken_over):  # then it is another process's run
                            folder.fail(str(error))
                        raise
                    return folder.path
        if record := folder.record:
            if folder.experiment is None:  # damaged: other commands would not find the run
                folder.describe(experiment.model_copy(update={"probe": record.experiment.probe}), run_id)
            lacking = f", but without probe={experiment.probe}" if record.lacks_probes(experiment) else ""
            early = f", diverged ({record.divergence.rule})" if record.divergence else ""
            say(f"this experiment is already finished{early}{lacking} (rerun=true runs it again)")
            if rank.size > 1:
                process.release_ranks(folder.log)
    return folder.path


@dataclass
class Session:
    """A run of an experiment in a directory that this process has locked."""

    experiment: Experiment
    corpus: Prepared
    folder: RunFolder
    id: str
    lock: DirectoryLock
    say: Callable[[str], None]
    scored: set[tuple[str, int]] = field(default_factory=set)
    """The splits and epochs that have been decoded and scored."""

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder.checkpoints)

    def execute(self) -> None:
        """Train and decode in parallel, then write the record."""
        self.folder.describe(self.experiment, self.id)
        if scheme := self.experiment.norm_file:
            write_atomically(self.folder.path / SCHEME_FILE, scheme.text)
        (self.folder.path / "hyps").mkdir(exist_ok=True)
        with Mirror(self.folder, self.experiment.tracker, self._not_mirrored, FINISH_SECONDS) as mirror:
            with Display(self.folder.path.name, self.experiment.train) as display, record_stop_signals() as stop:
                self.say = display.say
                self._train_and_decode(display, mirror, stop)
            self.lock.check()
            record = record_of(self.experiment, self.id, facts(self.experiment, self.corpus), self.folder.events.read())
            self.folder.finish(record, self._samples(record))

    def _not_mirrored(self, reason: str) -> None:
        self.say(f"wandb: not mirrored: {reason} (the run continues; `ln-repro sync` uploads it later)")

    def _train_and_decode(self, display: Display, mirror: Mirror, stop: Sequence[int]) -> None:
        """Run the trainer and, in parallel, the decoder for completed epochs, until both have finished."""
        inputs = self._resume()
        follower = self.folder.events
        list(follower.new())  # skip the events of earlier sessions
        trainer = process.start_trainer(inputs, self.folder.log, self.lock.descriptor)
        decoder = process.DecodingProcess(inputs, self.folder.path / "decode.log", (self.lock.descriptor,))
        requested: Decoding | None = None
        try:
            while True:
                training = trainer.poll() is None
                for event in follower.new():
                    display.show(event)
                mirror.check()
                if requested and decoder.done():
                    self._score(requested)
                    requested = None
                elif not requested and (requested := self._undecoded(not training)):
                    out = self.folder.hypotheses(requested.split, requested.epoch, tokenised=True)
                    files = [self.folder.checkpoints / weights.file for weights in requested.weights]
                    decoder.request(requested.corpus_split, files, out)
                elif not requested and not training:
                    break
                decoder.stop_if_idle()
                time.sleep(POLL_SECONDS)
                self._check(trainer, stop)
            self.lock.check()
            self._check(trainer)
            if (epochs := self.experiment.eval.epochs) and self.experiment.decoded_splits and not self.scored:
                self.say(f"not scored: training did not reach any of eval.epochs={[*epochs]}")
            if (trained := len(self._averaged())) < (average := self.experiment.eval.average):
                number = plural(trained, "epoch")
                self.say(f"the average is not scored: eval.average={average}, but training had only {number}")
        finally:
            trainer.terminate()  # the trainer saves its state while the decoder stops
            decoder.stop()
            trainer.stop()

    def _check(self, trainer: process.Worker, stop: Sequence[int] = ()) -> None:
        """Raise what ends the run early: a failure, a stop signal, or another process that took over the directory.

        If a process of a run under torchrun fails, it records why, and torchrun stops the others: what looks like a
        request to stop may be that failure, before or after this process has seen it.
        """
        stopped = bool(stop)  # read first, so that a failure which caused the signal is already there
        self._check_others(trainer)
        if stopped:
            self.say("stopping: the trainer saves its state")
            trainer.stop()
            if trainer.poll() == 1:  # torchrun stops this process if another one is killed
                self._check_others(trainer)
                trainer.check()
            again = "the same command without rerun=true" if self.experiment.rerun else "the same command"
            raise Interrupted(f"interrupted; {again} resumes the run in {self.folder.path}")
        if self.lock.taken_over:
            trainer.kill()  # not terminate(): it must not save into a directory that another process uses
            self.lock.check()
        trainer.check()

    def _check_others(self, trainer: process.Worker) -> None:
        """Raise the failure that a process of this run, if torchrun started several, has recorded."""
        if failure := self.folder.failure:
            if (trainer.poll() or 0) < 0:  # killed, which is the cause of that failure
                trainer.check()
            trainer.kill()  # it may wait for that process
            raise LnReproError(failure)

    def _resume(self) -> Inputs:
        """Find the latest intact checkpoint, discard what is newer, and return the inputs of the trainer."""
        scored = {
            (event["split"], event["epoch"]): event["update"]
            for event in self.folder.events.read()
            if event["kind"] == "bleu"
            and event["flavour"] == bleu.FLAVOURS[-1]
            and self.folder.hypotheses(event["split"], event["epoch"]).is_file()
        }
        self.scored = {*scored}
        needed = {weights.epoch for decoding in self._unscored() for weights in decoding.weights}
        point = self.checkpoints.resume_point(self.say, needed)
        done = point.update if point else -1
        self.checkpoints.forget_after(done)
        self.scored = {key for key, update in scored.items() if update <= done}
        if point:
            self.say(f"resuming after update {point.update}")
        resume = self.folder.checkpoints / point.file if point else None
        bits = self.corpus.entropy.get("unigram_bits", 1.0)  # classification has two classes: at most one bit
        return Inputs(self.experiment, self.folder.path, self.corpus.bin, bits, resume)

    def _averaged(self) -> list[Checkpoint]:
        """Return the weights of the last ``eval.average`` epochs, or fewer if fewer have been trained."""
        average, weights = self.experiment.eval.average, self.checkpoints.weights()
        return [weights[epoch] for epoch in sorted(weights)[-average:]] if average else []

    def _unscored(self) -> list[Decoding]:
        """Return what has not been scored of the weights so far; the average, which may lack epochs, is the last."""
        splits = self.experiment.decoded_splits
        weights = sorted(self.checkpoints.weights().items())
        decoded = [(epoch, entry) for epoch, entry in weights if self.experiment.eval.decodes(epoch)]
        decodings = [Decoding(split, epoch, [entry]) for split in splits for epoch, entry in decoded]
        if averaged := self._averaged():
            decodings.append(Decoding(AVERAGE, averaged[-1].epoch, averaged))
        return [decoding for decoding in decodings if (decoding.split, decoding.epoch) not in self.scored]

    def _undecoded(self, trained: bool) -> Decoding | None:
        """Return what to decode next, None if there is nothing; the average only after training."""
        whole = trained and len(self._averaged()) == self.experiment.eval.average
        return next((decoding for decoding in self._unscored() if decoding.split != AVERAGE or whole), None)

    def _score(self, decoding: Decoding) -> None:
        """Score the hypotheses; the event of the last flavour marks the epoch as scored."""
        from ln_repro.corpus.tokenise import detokenise  # slow to import

        split, epoch, weights = decoding
        corpus_split = decoding.corpus_split
        tokenised = stored_lines(self.folder.hypotheses(split, epoch, tokenised=True))
        plain = detokenise(tokenised, self.corpus.target_lang)
        text = "".join(f"{line}\n" for line in plain)
        write_atomically(self.folder.hypotheses(split, epoch), text)
        texts = (tokenised, self.corpus.tokenised(corpus_split)), (plain, self.corpus.references(corpus_split))
        epochs = {"epochs": [checkpoint.epoch for checkpoint in weights]} if split == AVERAGE else {}
        restored = corpus_split in self.corpus.detokenised
        for flavour, pair in zip(bleu.FLAVOURS, texts, strict=True):
            score, signature = bleu.score(flavour, *pair, self.experiment, corpus_split, len(weights), restored)
            values = {"flavour": flavour, "score": score, "signature": signature, **epochs}
            self.folder.events.write("bleu", weights[-1].update, epoch, split=split, **values)
        self.scored.add((split, epoch))

    def _samples(self, record: Record) -> list[tuple[str, str, str]]:
        """Return a few test sentences: source, reference, and the hypothesis of the scored epoch."""
        best = record.bleu.test
        if best is None:
            return []
        hypotheses = stored_lines(self.folder.hypotheses("test", best.epoch))
        rows = zip(self.corpus.sources("test"), self.corpus.references("test"), hypotheses, strict=True)
        return list(rows)[:SAMPLED]


def facts(experiment: Experiment, corpus: Prepared) -> Json:
    """Return the properties of a run's corpus for its record."""
    source_blind = corpus.entropy.get("source_blind_bits") if experiment.decoded_splits else None
    bits = {"unigram_bits": corpus.entropy.get("unigram_bits"), "source_blind_bits": source_blind}
    pairs = {f"{split}_pairs": number for split, number in corpus.pairs.items()}
    part = {"train_percent": corpus.train_percent} if corpus.train_percent != 100 else {}
    text = part if corpus.published else {"published": False}
    return {"name": corpus.name, **text, "fingerprint": corpus.fingerprint, **bits, **pairs}


def refuse_other_probes(experiment: Experiment, folder: RunFolder) -> None:
    """Raise `UserError` if a run that is to be resumed was begun with other probes, which are not part of its id."""
    settings = experiment.model_dump(mode="json")
    begun = {**settings, **(folder.experiment or {})}
    if Checkpoints(folder.checkpoints).entries() and probe_settings(begun) != probe_settings(settings):
        probes = " ".join(f"{key}={begun[key]}" for key in PROBING)
        raise UserError(f"probe: {folder.path} was begun with {probes}; use the same settings, or rerun=true")


def probe_settings(settings: Mapping[str, object]) -> list[Any]:
    """Return the settings that decide which probes a run has."""
    return [settings[key] for key in PROBING] if settings["probe"] != "none" else []
