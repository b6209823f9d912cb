"""Verdicts on every claim, on the paper's own data and on other data."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ln_repro.claims.arms import Arms
from ln_repro.claims.causes import ARMS
from ln_repro.claims.criteria import Claim, OverRates, Report, Rule
from ln_repro.claims.evidence import EXPLORED, Evidence, gather
from ln_repro.claims.intervals import CONTRADICTED, INCONCLUSIVE, NOT_RUN, REPRODUCED, UNBOUNDED, all_of
from ln_repro.claims.metrics import Effect
from ln_repro.claims.rules.bert import FINE_TUNING, PRETRAINING
from ln_repro.claims.rules.mt import TRANSLATION
from ln_repro.claims.rules.th import EXPLANATION, GROWTH, STATEMENTS
from ln_repro.claims.rules.x import OTHERS, DeepAlone
from ln_repro.claims.words import parted
from ln_repro.records.archive import Kept, Run, read_kept, read_theory, stopped_folder
from ln_repro.records.events import json_ready
from ln_repro.system.files import Json
from ln_repro.system.progress import plural

CLAIMS = (*TRANSLATION, *PRETRAINING, *FINE_TUNING, *OTHERS)
OTHER_CORPORA: Mapping[str, Mapping[str, Sequence[str]]] = {
    "iwslt": {"toy": ("toy",), "multi30k": ("multi30k6", "multi30k"), "tatoeba": ("tatoeba",)},
    "bert": {"toy": ("toybert",), "multi30k": ("minibert",), "wikinews": ("wikinews",)},
    "mrpc": {"wikinews": ("minimrpc",)},
    "rte": {"wikinews": ("minirte",)},
}
"""By the setting that uses the paper's data, the other corpora that its claims are tested on, with their settings in
order of preference; the first with runs is judged. These verdicts do not affect those on the paper's data. Fine-tuning
is named after the corpus of the pre-training."""
IWSLT14 = ("iwslt", "iwsltsmall")
"""The settings on IWSLT14: the paper's, and that of a smaller model. The second one, and both on a part of the training
text, are other corpora, too."""
HOURS = {"iwslt": 1.0, "wmt": 22.0, "bert": 150.0, "mrpc": 0.3, "rte": 0.3}
"""Estimated GPU hours per run. IWSLT14 and WMT14: 16k updates of 4,096 tokens and 20k of 131k, at five mini-batches a
second; BERT: 1M updates of 131k tokens at 250k tokens a second; fine-tuning: ten checkpoints, two minutes each."""
OPTIONS = {
    "bert": " data.train=FILE data.valid=FILE",
    "wikinews": " data.source=FILE",
    **dict.fromkeys(("mrpc", "rte", "minimrpc", "minirte"), " start=RUN@EPOCH data.source=GLUE"),
}
"""Options of settings without an address to download their text from, or that start from a run of BERT-1."""
UNJUDGED = "shown, not judged"  # the note of a claim that has no verdict on purpose
FAMILIES = ("MT", "WMT", "BERT", "TH", "X")


class Archive(NamedTuple):
    """The records in a folder, the arms of the named experiments, and the evidence by setting.

    ``evidence`` is of the exploratory runs, ``replication`` of those whose rules had been fixed before. ``theory`` is
    what `ln-repro theory` has written; ``stopped`` are runs that did not end, which are no evidence.
    """

    kept: Kept
    arms: Arms
    evidence: dict[str, Evidence]
    replication: dict[str, Evidence]
    theory: Json
    stopped: Sequence[Run]


def read_archive(folder: Path) -> Archive:
    """Return the records in a folder and the evidence from them."""
    kept, arms, theory = read_kept(folder), Arms(folder), read_theory(folder)
    parts = [[run for run in kept.runs if (run.seed > EXPLORED) == later] for later in (False, True)]
    evidence, replication = (gather(runs, arms, arms_of_rules(), kept.corpora) for runs in parts)
    stopped = list[Run]()
    if (place := stopped_folder(folder)).is_dir():
        late, ended = read_kept(place), {run.record.id for run in kept.runs}
        stopped = [run for run in late.runs if run.record.id not in ended]
        kept = replace(kept, problems=[*kept.problems, *late.problems])
    return Archive(kept, arms, evidence, replication, theory, stopped)


def arms_of_rules() -> list[str]:
    """Return every arm that a rule uses, including those that it compares over learning rates or depths."""
    rules = [rule for claim in CLAIMS for rule in (claim.rule, claim.others, *claim.by_setting.values()) if rule]
    arms = {arm for rule in rules for criterion in rule.criteria for arm in criterion.arms}
    return sorted(arms.union(ARMS, *(claim.controls for claim in CLAIMS)))


@dataclass(frozen=True)
class Judged:
    """What the runs of one setting say about a claim."""

    data: str  # the corpus
    setting: str
    fidelity: str  # "paper", "adapted" or "toy"
    verdict: str
    effect: Effect | None = None
    ours: str = ""  # what was measured, as text
    note: str = ""  # qualifies the verdict: "saturated", "starvation"
    needs: str | None = None  # how many seeds, rates or runs would resolve it
    seeds: int = 0
    rule: str = ""
    written: str = ""  # the date of the rule
    source: str = ""  # where its limits come from
    older: int = 0  # how many of the records were made before the rule
    code: Sequence[str] = ()  # the versions of the code that made them
    evidence: Sequence[str] = ()  # their ids
    command: str = ""
    explored: str | None = None  # the verdict on the runs that were made before the rules were fixed
    replicated: str | None = None  # that on the runs with new seeds, which stands once it has enough of them
    replication: str = ""  # what the runs with new seeds say while their verdict does not stand

    def json(self) -> Json:
        """Return the fields for JSON; empty texts and numbers that are not finite are None."""
        fields = {name: None if value == "" else value for name, value in vars(self).items() if name != "fidelity"}
        value, interval = (self.effect.value, self.effect.interval) if self.effect else (None, None)
        return json_ready({**fields, "class": self.fidelity, "effect": value, "interval": interval})


@dataclass(frozen=True)
class Row:
    """A claim with what its runs say."""

    id: str
    claim: str
    paper: str  # its number, and how it was obtained
    number: str  # the same, for a cell of a table
    place: str
    own: Judged  # on the paper's data, or by the theory's checks
    others: Sequence[Judged] = field(default_factory=list)  # on other corpora
    cost_gpu_hours: float = 0.0

    @property
    def theory(self) -> bool:
        """Whether the claim is checked without training."""
        return self.id in STATEMENTS

    @property
    def order(self) -> tuple[int, int, str]:
        """The sort key: the claim's family, its number, then its reading."""
        family, number = re.findall(r"([A-Z]+)-(\d+)", self.id)[0]
        return FAMILIES.index(family), int(number), self.id

    def json(self) -> Json:
        """Return the row for `ln-repro claims --json`."""
        return {
            "id": self.id, "claim": self.claim, "paper": self.paper, "place": self.place, **self.own.json(),
            "other_corpora": [other.json() for other in self.others], "cost_gpu_hours": self.cost_gpu_hours,
        }  # fmt: skip


def claim_rows(archive: Archive) -> list[Row]:
    """Return every claim with its verdicts."""
    rows = [row_of(claim, archive.evidence, archive.replication) for claim in CLAIMS]
    return sorted([*rows, *theory_rows(archive.theory.get("findings", []))], key=lambda row: row.order)


def row_of(claim: Claim, explored: Mapping[str, Evidence], replication: Mapping[str, Evidence]) -> Row:
    """Return a claim with its verdict on the paper's data and those on other data."""
    own, hours = Judged(claim.setting, claim.setting, "paper", NOT_RUN), 0.0
    if claim.rule:
        place = replace(own, command=command_of(claim, claim.rule, claim.setting))
        own = judge(claim.rule, explored.get(claim.setting, Evidence()), place)
        depths = sum(part.cost() for part in claim.rule.criteria if isinstance(part, DeepAlone))
        hours = claim.rule.seeds * (len(claim.rule.arms) + len(claim.controls) + depths) * HOURS[claim.setting]
    elif rule := claim.by_setting.get("toy", claim.others):  # judged on other data alone
        own = replace(own, command=command_of(claim, rule, "toy"))
    others = []
    for corpus, settings in _others(claim.setting, {**explored, **replication}).items():
        results = (_elsewhere(claim, corpus, setting, explored, replication) for setting in settings)
        others += [result for result in results if result and result.evidence][:1]
    return Row(claim.id, claim.claim, claim.paper, claim.number, claim.place, own, others, round(hours, 1))


def _others(setting: str, evidence: Iterable[str]) -> dict[str, list[str]]:
    """Return `OTHER_CORPORA` of a setting and, as far as there are runs, those of `IWSLT14` ("iwslt14-60")."""
    corpora = {corpus: [*settings] for corpus, settings in OTHER_CORPORA.get(setting, {}).items()}
    for name in evidence if setting == IWSLT14[0] else ():
        whole, percent = parted(name)
        if whole in IWSLT14 and name != setting:
            corpora.setdefault(f"iwslt14-{percent}" if percent else "iwslt14", []).append(name)
    return corpora


def _elsewhere(
    claim: Claim, corpus: str, setting: str, explored: Mapping[str, Evidence], replication: Mapping[str, Evidence]
) -> Judged | None:
    """Return the verdict on another corpus: the replication's once it is decided or has all seeds of the rule."""
    rule = claim.by_setting.get(setting, claim.others)
    if rule is None:
        return None
    fidelity = "toy" if corpus == "toy" else "adapted"
    place = Judged(corpus, setting, fidelity, NOT_RUN, command=command_of(claim, rule, setting))
    first = judge(rule, explored.get(setting, Evidence()), place) if claim.explored else place
    place = replace(place, command=command_of(claim, rule, setting, new=True))
    second = judge(rule, replication.get(setting, Evidence()), place)
    verdicts: dict[str, Any] = {
        "explored": first.verdict if first.evidence else None,
        "replicated": second.verdict if second.evidence else None,
    }
    stands = second.verdict in (REPRODUCED, CONTRADICTED) or (second.evidence and second.seeds >= rule.seeds)
    if stands or not first.evidence:
        return replace(second, **verdicts)
    if not second.evidence:
        return replace(first, **verdicts)
    needs = f"; needs {second.needs}" if second.needs else ""
    return replace(first, replication=f"{second.ours} ({plural(second.seeds, 'seed')}{needs})", **verdicts)


def judge(rule: Rule, evidence: Evidence, place: Judged) -> Judged:
    """Return what a rule says of the runs of one setting; ``place`` has its name, its corpus and the command alone."""
    dated = replace(place, rule=rule.sentence(), written=rule.origin.written[:10], source=rule.origin.source)
    if missing := evidence.missing(rule.arms):
        return replace(dated, needs=f"runs of {', '.join(missing)}")
    findings = [criterion.judge(evidence) for criterion in rule.criteria]
    runs = {run.record.id: run for finding in findings for run in finding.runs}
    needs = "; ".join(dict.fromkeys(finding.needs for finding in findings if finding.needs)) or None
    if (not rule.arms and not runs) or not (rule.judged or any(finding.effect for finding in findings)):
        return replace(dated, needs=needs)
    at_own_rates = (criterion for criterion in rule.criteria if not isinstance(criterion, OverRates))
    arms = dict.fromkeys(arm for criterion in at_own_rates for arm in criterion.arms)
    parts = [*evidence.starts.values()] or [evidence]
    runs |= {run.record.id: run for part in parts for arm in arms for _, run in sorted(part.arms.get(arm, {}).items())}
    measured = [
        finding.seeds
        for criterion, finding in zip(rule.criteria, findings, strict=True)
        if finding.seeds is not None and not (rule.judged and isinstance(criterion, Report))
    ]
    if rule.arms:
        measured.append(len(evidence.seeds(rule.arms)))
    seeds = min(measured, default=0)
    result = all_of(finding.verdict for finding in findings)
    notes = dict.fromkeys(finding.note for finding in findings if finding.note)
    if not rule.judged:
        result, needs, notes = INCONCLUSIVE, None, {UNJUDGED: ""}
    elif rule.arms and seeds < rule.seeds:
        result, needs = INCONCLUSIVE, plural(rule.seeds - seeds, "seed")
    began = [datetime.fromisoformat(run.record.started) for run in runs.values() if run.record.started]
    return replace(
        dated, verdict=result, effect=findings[0].effect, ours="; ".join(filter(None, map(str, findings))),
        seeds=seeds, needs=needs if result == INCONCLUSIVE else None, note=", ".join(notes),
        older=sum(time < datetime.fromisoformat(rule.origin.written) for time in began),
        code=sorted({(run.record.code.git or "unknown")[:7] for run in runs.values()}), evidence=[*runs],
    )  # fmt: skip


def command_of(claim: Claim, rule: Rule, setting: str, new: bool = False) -> str:
    """Return the command that starts the runs of a claim on one setting, with ``new`` seeds those of its replication.

    Runs that are recorded are left out.
    """
    first = EXPLORED + 1 if new or not claim.explored else 1
    last = first + rule.seeds - 1
    setting, percent = parted(setting)
    options = claim.options + OPTIONS.get(setting, " data.source=FOLDER" if percent else "")
    if claim.grid and (rule is not claim.rule or not rule.arms):
        return f"ln-repro sweep grid={claim.grid} corpus={setting} seeds={first}-{last}{options} --skip-recorded"
    experiments = ",".join(f"{setting}_{arm}" for arm in dict.fromkeys((*rule.arms, *claim.controls)))
    return f"ln-repro run -m exp={experiments} seed={','.join(map(str, range(first, last + 1)))}{options}"


def theory_rows(findings: Sequence[Json]) -> list[Row]:
    """Return the statements of the theory as claims, with their findings; they need neither training nor data."""
    by_id = {finding["id"]: finding for finding in findings}
    rows = []
    for id, (statement, paper, place) in STATEMENTS.items():
        own = Judged("theory", "theory", "paper", NOT_RUN, command=f"ln-repro theory --full --only {id}",
                     needs="its check, without training")  # fmt: skip
        if finding := by_id.get(id):
            ends = zip(UNBOUNDED, finding["interval"], strict=True)
            low, high = (unbounded if end is None else end for unbounded, end in ends)
            parts = {part["quantity"]: part["verdict"] for part in finding["parts"]}
            apart = {"growth": parts.get(GROWTH), "explanation": parts.get(EXPLANATION)}
            own = replace(
                own, verdict=finding["verdict"], effect=Effect(math.nan, (low, high)), seeds=finding["seeds"],
                ours=f"{finding['quantity']} {low:.3g} to {high:.3g}", rule=finding["rule"], needs=None,
                note=", ".join(f"{name} {verdict}" for name, verdict in apart.items() if verdict),
            )  # fmt: skip
        rows.append(Row(id, statement, paper, paper, place, own))
    return rows
