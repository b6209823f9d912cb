"""Every claim with its verdict: on the paper's own data, and beside it the same question on other data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ln_repro.claims.bert import FINE_TUNING, FINE_TUNING_SEEDS, PRETRAINING
from ln_repro.claims.criteria import SEEDS, Claim, Rule
from ln_repro.claims.evidence import Evidence, Named, gather
from ln_repro.claims.schemes import PROBE_BATCHES, SCHEMES
from ln_repro.claims.translation import TRANSLATION
from ln_repro.claims.verdict import INCONCLUSIVE, NOT_RUN, all_of
from ln_repro.records.archive import Run

Row = dict[str, Any]
Findings = Sequence[Mapping[str, Any]]
CLAIMS = (*TRANSLATION, *PRETRAINING, *FINE_TUNING, *SCHEMES)
OTHER_CORPORA: Mapping[str, Sequence[str]] = {
    "toy": ("toy",),
    "multi30k": ("multi30k6", "multi30k"),
    "tatoeba": ("tatoeba",),
}
"""Other data that the same questions are asked on, and their settings: the first that was run is judged. They decide
nothing about the paper's numbers."""
BERT_CORPORA: Mapping[str, Sequence[str]] = {"toy": ("toybert",), "multi30k": ("minibert",)}
HOURS = {"iwslt": 1.0, "wmt": 22.0, "bert": 150.0, "mrpc": 0.3, "rte": 0.3}
"""GPU hours of a run, estimated: 16k updates of 4,096 tokens, and 20k of 131k, at five mini-batches a second; of BERT
1M updates of 131k tokens at 250k tokens a second; of fine-tuning ten checkpoints, two minutes each."""
DEEPER = {"deep": 2, "deeper": 3}
"""How many times as long a run takes whose arm ends so."""
PROBED, OWN_TEXT = f" probe=gradients probe_batches={PROBE_BATCHES}", " data.train=FILE data.valid=FILE"
SETTINGS = {"TH-10": PROBED, "X-4": PROBED, "BERT-1": OWN_TEXT, "BERT-2": OWN_TEXT}
"""What a claim's runs are given besides their names."""
PLACEHOLDERS = {"preln_nowarm_linear": "PRELN", "postln_nowarm_linear": "POSTLN"}
"""By arm of the fine-tuning, a placeholder for the run of BERT-1 that it starts from."""
FILL_IN = (
    "PRELN and POSTLN are BERT-1's runs (names or ids), @EPOCH the same epochs of both, ten of them for example, and "
    "FOLDER is GLUE's"
)
FAMILIES = ("MT", "WMT", "BERT", "TH", "X")


@dataclass(frozen=True)
class RuleResult:
    """The result of a rule on one setting.

    Args:
        verdict: one of four.
        ours: our numbers in words; None if there are none.
        seeds: their number.
        runs: the runs that it rests on.
        needs: what would resolve it; None if it is resolved.
    """

    verdict: str
    ours: str | None = None
    seeds: int = 0
    runs: Sequence[Run] = ()
    needs: str | None = None


def asked_arms() -> list[str]:
    """Return every arm that a rule uses."""
    rules = [rule for claim in CLAIMS for rule in (claim.rule, claim.others) if rule]
    named = [arm for rule in rules for one in rule.criteria for arm in (*one.arms, *_families(one))]
    return sorted({*named, *(arm for claim in CLAIMS for arm in claim.controls)})


def evidence_of(runs: Sequence[Run], named: Named, corpora: Mapping[str, Mapping[str, Any]]) -> dict[str, Evidence]:
    """Return the evidence by setting, with every arm that a rule uses (`gather`)."""
    return gather(runs, named, asked_arms(), corpora)


def judge(rule: Rule, evidence: Evidence) -> RuleResult:
    """Apply a rule to one setting."""
    if missing := evidence.missing(rule.arms):
        return RuleResult(NOT_RUN, needs=f"no run of {', '.join(missing)}")
    findings = [one.judge(evidence) for one in rule.criteria]
    runs = {run.record["id"]: run for finding in findings for run in finding.runs}
    if not rule.arms and not runs:
        return RuleResult(NOT_RUN, needs=next((finding.needs for finding in findings if finding.needs), None))
    arms = dict.fromkeys(arm for one in rule.criteria for arm in one.arms)
    runs |= {run.record["id"]: run for one in evidence.by_start for arm in arms
             for _, run in sorted(one.arms.get(arm, {}).items())}  # fmt: skip
    seeds = len(evidence.seeds(rule.arms)) if rule.arms else len({run.seed for run in runs.values()})
    found, needs = all_of(finding.verdict for finding in findings), None
    if rule.arms and seeds < rule.seeds:
        found, needs = INCONCLUSIVE, f"{rule.seeds - seeds} more seed{'s' * (rule.seeds - seeds > 1)}"
    elif found == INCONCLUSIVE:
        needs = "; ".join(dict.fromkeys(finding.needs for finding in findings if finding.needs))
    ours = "; ".join(finding.words for finding in findings if finding.words)
    return RuleResult(found, ours or None, seeds, list(runs.values()), needs)


def claim_rows(evidence: Mapping[str, Evidence], findings: Findings) -> list[Row]:
    """Return every claim with its verdicts, its rules, and what would resolve it."""
    rows = [row_of(claim, evidence) for claim in CLAIMS] + [theory_row(found) for found in findings]
    return sorted(rows, key=lambda row: order(row["id"]))


def order(id: str) -> tuple[int, str, float, str]:
    """Sort claims by family, then by number."""
    family, _, rest = id.partition("-")
    number = rest.split(".")[0].split("-")[0]
    return FAMILIES.index(family), family, float(number) if number.isdecimal() else 0.0, id


def row_of(claim: Claim, evidence: Mapping[str, Evidence]) -> Row:
    """Return a claim with its verdict on the paper's data, and those on other data."""
    here = judge(claim.rule, evidence.get(claim.setting, Evidence(claim.setting)))
    corpora = BERT_CORPORA if claim.setting == "bert" else OTHER_CORPORA
    others = [] if claim.others is None else [
        {"data": corpus, "setting": setting, "class": "toy" if corpus == "toy" else "adapted",
         **as_dict(claim.others, found), "command": other_command(claim, setting)}
        for corpus, settings in corpora.items()
        for setting, found in _first_judged(claim.others, settings, evidence)
    ]  # fmt: skip
    return {
        "id": claim.id, "claim": claim.claim, "paper": claim.paper, "class": "paper", "place": claim.place,
        **as_dict(claim.rule, here), "other_corpora": others, **to_run(claim, here),
    }  # fmt: skip


def _first_judged(
    rule: Rule, settings: Sequence[str], evidence: Mapping[str, Evidence]
) -> list[tuple[str, RuleResult]]:
    """Return the first of a corpus's settings on which there is evidence, with what the rule comes to there."""
    judged = [(setting, judge(rule, evidence[setting])) for setting in settings if setting in evidence]
    return [(setting, found) for setting, found in judged if found.runs][:1]


def as_dict(rule: Rule, found: RuleResult) -> Row:
    """Return a judgement as a part of a row.

    ``written`` is when the rule was; ``older`` how many of the records had been made by then; ``code`` the versions
    that made the records, of which there may be several.
    """
    written = datetime.fromisoformat(rule.written)
    began = [
        datetime.fromisoformat(run.events[0]["time"]) for run in found.runs if run.events and "time" in run.events[0]
    ]
    return {
        "ours": found.ours, "verdict": found.verdict, "seeds": found.seeds, "rule": rule.sentence(),
        "written": rule.written[:10], "source": rule.source, "older": sum(time < written for time in began),
        "code": sorted({str(run.record["code"].get("git") or "unknown")[:7] for run in found.runs}),
        "evidence": [run.record["id"] for run in found.runs], "needs": found.needs,
    }  # fmt: skip


def other_command(claim: Claim, setting: str) -> str:
    """Return the command that makes the runs of a claim on other data."""
    if claim.grid:
        return f"ln-repro sweep grid={claim.grid} corpus={setting} seeds={SEEDS}"
    assert claim.others
    return (f"ln-repro run -m exp={','.join(f'{setting}_{arm}' for arm in (*claim.others.arms, *claim.controls))} "
            f"seed={listed(SEEDS)}{SETTINGS.get(claim.id, '')}")  # fmt: skip


def to_run(claim: Claim, here: RuleResult) -> Row:
    """Return the command that runs what a claim needs on its own data, and its cost."""
    if claim in FINE_TUNING:
        return to_fine_tune(claim, here)
    arms = (*claim.rule.arms, *claim.controls)
    experiments = ",".join(f"{claim.setting}_{arm}" for arm in arms)
    runs = SEEDS * sum(DEEPER.get(arm.split("_")[-1], 1) for arm in arms)
    return {
        "command": f"ln-repro run -m exp={experiments} seed={listed(SEEDS)}{SETTINGS.get(claim.id, '')}",
        "cost_gpu_hours": runs * HOURS[claim.setting],
    }


def to_fine_tune(claim: Claim, here: RuleResult) -> Row:
    """Return the same where each arm starts from runs of its own, and what the user has to fill in."""
    commands = [
        f"ln-repro run -m exp={claim.setting}_{arm} seed={listed(FINE_TUNING_SEEDS)} "
        f"start={PLACEHOLDERS[arm]}@EPOCH,{PLACEHOLDERS[arm]}@EPOCH data.source=FOLDER"
        for arm in claim.rule.arms
    ]
    return {
        "command": " && ".join(commands),
        "cost_gpu_hours": round(FINE_TUNING_SEEDS * len(claim.rule.arms) * HOURS[claim.setting], 1),
        "needs": f"{here.needs}; {FILL_IN}" if here.needs else None,
    }


def listed(seeds: int) -> str:
    """Return the seeds as Hydra takes them."""
    return ",".join(map(str, range(1, seeds + 1)))


def theory_row(found: Mapping[str, Any]) -> Row:
    """Return a finding of the theory as a claim: it needs no training and no data."""
    low, high = ("-" if bound is None else f"{bound:.3g}" for bound in found["interval"])
    return {
        "id": found["id"], "claim": found["statement"], "paper": found["paper"],
        "ours": f"{found['quantity']} {low} .. {high}", "verdict": found["verdict"], "class": "paper",
        "rule": found["rule"], "place": found["place"], "evidence": [], "other_corpora": [],
        "command": f"ln-repro theory --full --only {found['id']}", "cost_gpu_hours": 0.0, "needs": None,
        "seeds": found["seeds"], "written": None, "source": None, "older": 0, "code": [],
    }  # fmt: skip


def _families(criterion: Any) -> tuple[str, ...]:
    """Return the arms that a criterion looks at over rates."""
    names = ("high", "low", "trains", "fails", "first", "second")
    return tuple(value for name in names if isinstance(value := getattr(criterion, name, None), str))
