"""What a worker is given: an experiment, and what is not part of it. This module does not import torch."""

import math
from dataclasses import dataclass
from pathlib import Path

from ln_repro.experiment.settings import Experiment
from ln_repro.records.run_dir import RunFolder

SCHEME_FILE = "scheme.py"  # the copy of the user's file with a norm placement in the directory of a run


@dataclass(frozen=True)
class Inputs:
    """The inputs of a run; ``folder`` is its directory, with the settings and the file of a user's norm placement."""

    experiment: Experiment
    folder: Path
    corpus: Path  # folder of the binarised corpus
    unigram_bits: float = math.inf  # entropy of the training targets, for the divergence rule
    resume: Path | None = None  # the checkpoint from which training resumes

    @property
    def arguments(self) -> list[str]:
        """The arguments of a worker, which reads the experiment from the directory."""
        resume = [] if self.resume is None else [str(self.resume)]
        return [str(self.folder), str(self.corpus), str(self.unigram_bits), *resume]

    @property
    def on_cpu(self) -> bool:
        """Whether the run must not use a GPU."""
        return self.experiment.train.device == "cpu"


def read(folder: str, corpus: str, unigram_bits: str, resume: str | None = None) -> Inputs:
    """Return the inputs that the arguments of a worker describe; a user's norm has the name ``PATH:CLASS``."""
    run = RunFolder(Path(folder))
    _, experiment = run.read_experiment()
    if scheme := experiment.norm_file:
        experiment = experiment.model_copy(update={"norm": f"{run.path / SCHEME_FILE}:{scheme.class_name}"})
    return Inputs(experiment, run.path, Path(corpus), float(unigram_bits), Path(resume) if resume else None)
