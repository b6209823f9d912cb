"""Verdicts on every claim, on the paper's own data and on other data."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ln_repro.claims.bert import FINE_TUNING, PRETRAINING
from ln_repro.claims.criteria import MORE, Claim, Rule
from ln_repro.claims.depth import AtDepth
from ln_repro.claims.evidence import Evidence, Named, gather
from ln_repro.claims.rates import OverRates, ReportCeiling
from ln_repro.claims.schemes import PROBE_BATCHES, SCHEMES
from ln_repro.claims.theory import STATEMENTS
from ln_repro.claims.translation import TRANSLATION
from ln_repro.claims.verdict import INCONCLUSIVE, NOT_RUN, all_of
from ln_repro.claims.words import CORPORA, PARTS, ends_words, parted
from ln_repro.records.archive import Run

Row = dict[str, Any]
CLAIMS = (*TRANSLATION, *PRETRAINING, *FINE_TUNING, *SCHEMES)
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
TESTED = tuple(name for name in CORPORA if any(name in others for others in OTHER_CORPORA.values()))
"""The other corpora of all claims, in the order of display."""
HOURS = {"iwslt": 1.0, "wmt": 22.0, "bert": 150.0, "mrpc": 0.3, "rte": 0.3}
"""Estimated GPU hours per run. IWSLT14 and WMT14: 16k updates of 4,096 tokens and 20k of 131k, at five mini-batches a
second; BERT: 1M updates of 131k tokens at 250k tokens a second; fine-tuning: ten checkpoints, two minutes each."""
PROBED = f" probe=gradients probe_batches={PROBE_BATCHES}"
PROBED_OFTEN = {"toy": " every=63"}
"""Options for settings whose runs are too short for a probe every 200 updates to be near every point of X-4."""
OWN_TEXT = {"bert": " data.train=FILE data.valid=FILE", "wikinews": " data.source=FILE"}
"""Options for the text of settings whose corpus has no address to download it from."""
PLACEHOLDERS = {"preln_nowarm_linear": "PRELN", "postln_nowarm_linear": "POSTLN"}
"""Placeholder for the run of BERT-1 that fine-tuning starts from, by arm."""
FILL_IN = (
    "PRELN and POSTLN are BERT-1's runs (names or ids), @EPOCH the same epochs of both, ten of them for example, and "
    "FOLDER is GLUE's"
)
FAMILIES = ("MT", "WMT", "BERT", "TH", "X")


def arms_of_rules() -> list[str]:
    """Return every arm that a rule uses, including those that it compares over learning rates or depths."""
    arms = {arm for claim in CLAIMS for arm in claim.controls}
    for criterion in (one for claim in CLAIMS for rule in (claim.rule, claim.others) if rule for one in rule.criteria):
        compared = criterion.compared if isinstance(criterion, OverRates | ReportCeiling | AtDepth) else ()
        arms |= {*criterion.arms, *compared}
    return sorted(arms)


def evidence_of(runs: Sequence[Run], named: Named, corpora: Mapping[str, Mapping[str, float]]) -> dict[str, Evidence]:
    """Return the evidence by setting for every arm that a rule uses (see `gather`)."""
    return gather(runs, named, arms_of_rules(), corpora)


def judge(rule: Rule, evidence: Evidence) -> Row:
    """Return the part of a row that comes from applying a rule to one setting (see `result_of`)."""
    if missing := evidence.missing(rule.arms):
        return result_of(rule, NOT_RUN, f"runs of {', '.join(missing)}")
    findings = [one.judge(evidence) for one in rule.criteria]
    runs = {run.record.id: run for finding in findings for run in finding.runs}
    if not rule.arms and not runs:
        return result_of(rule, NOT_RUN, next((finding.needs for finding in findings if finding.needs), None))
    arms = dict.fromkeys(arm for one in rule.criteria for arm in one.arms)
    runs |= {run.record.id: run for one in evidence.by_start for arm in arms
             for _, run in sorted(one.arms.get(arm, {}).items())}  # fmt: skip
    seeds = len(evidence.seeds(rule.arms)) if rule.arms else most_seeds(runs.values())
    result, needs, answer = all_of(finding.verdict for finding in findings), None, ""
    measured = min((finding.seeds for finding in findings if finding.seeds is not None), default=seeds)
    if rule.arms and seeds < rule.seeds:
        result, needs = INCONCLUSIVE, f"{rule.seeds - seeds} more seed{'s' * (rule.seeds - seeds > 1)}"
    elif result == INCONCLUSIVE:
        needs = "; ".join(dict.fromkeys(finding.needs for finding in findings if finding.needs)) or None
        answer = "" if needs else next((finding.answer for finding in findings if finding.answer), "")
    ours = "; ".join(finding.words for finding in findings if finding.words)
    plain = "; ".join(finding.plain for finding in findings if finding.plain).replace(f" {PARTS['anchored']}", "")
    return result_of(rule, result, needs, ours, min(seeds, measured), [*runs.values()], plain, answer)


def most_seeds(runs: Iterable[Run]) -> int:
    """Return the largest number of seeds that every arm was run with at one rate and size."""
    most: dict[str, int] = {}
    for (arm, _, _), seeds in Counter((run.experiment.arm_key(), run.experiment.lr, run.size) for run in runs).items():
        most[arm] = max(seeds, most.get(arm, 0))
    return min(most.values(), default=0)


def result_of(
    rule: Rule, verdict: str, needs: str | None, ours: str = "", seeds: int = 0, runs: Sequence[Run] = (),
    plain: str = "", answer: str = "",
) -> Row:  # fmt: skip
    """Return the result of a rule on one setting, as part of a row.

    ``needs`` is what would resolve the claim, ``ours`` the measured values as text, ``plain`` the most important of
    them as clauses for a headline, ``answer`` what was found instead if more seeds would not resolve it, ``written``
    the date of the rule, ``older`` the number of records made before it, ``code`` the versions of the code that made
    the records, and ``evidence`` their ids.
    """
    written = datetime.fromisoformat(rule.written)
    began = [datetime.fromisoformat(started) for run in runs if (started := run.record.started)]
    return {
        "ours": ours or None, "verdict": verdict, "seeds": seeds, "rule": rule.sentence(),
        "written": rule.written[:10], "source": rule.source, "older": sum(time < written for time in began),
        "code": sorted({(run.record.code.git or "unknown")[:7] for run in runs}),
        "evidence": [run.record.id for run in runs], "needs": needs, "plain": plain,
        "answer": answer,
    }  # fmt: skip


def claim_rows(evidence: Mapping[str, Evidence], findings: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return every claim with its verdicts, its rules, and what would resolve it."""
    rows = [row_of(claim, evidence) for claim in CLAIMS] + theory_rows(findings)
    return sorted(rows, key=lambda row: order(row["id"]))


def order(id: str) -> tuple[int, int, str]:
    """Return the sort key of a claim: its family, then its number, then its reading."""
    family, number, *_ = re.split("[-.]", id)
    return FAMILIES.index(family), int(number), id


def row_of(claim: Claim, evidence: Mapping[str, Evidence]) -> Row:
    """Return a claim with its verdict on the paper's data and those on other data."""
    of_paper = evidence.get(claim.setting, Evidence())
    own, others = judge(claim.rule, of_paper), []
    if claim.others:
        for corpus, settings in _others(claim.setting, evidence).items():
            results = ((name, judge(claim.others, evidence[name])) for name in settings if name in evidence)
            for setting, result in [pair for pair in results if pair[1]["evidence"]][:1]:
                others.append({
                    "data": corpus, "setting": setting, "class": "toy" if corpus == "toy" else "adapted",
                    **result, "command": command_of(claim, claim.others, setting, result, evidence[setting]),
                })  # fmt: skip
    runs = claim.rule.seeds * (len(claim.rule.arms) + len(claim.controls) + sum(map(AtDepth.cost, deep(claim.rule))))
    row = {
        "id": claim.id, "claim": claim.claim, "paper": claim.paper, "class": "paper", "place": claim.place,
        **own, "other_corpora": others, "command": command_of(claim, claim.rule, claim.setting, own, of_paper),
        "cost_gpu_hours": round(runs * HOURS[claim.setting], 1),
    }  # fmt: skip
    if own["needs"] and claim in FINE_TUNING:
        row["needs"] = f"{own['needs']}; {FILL_IN}"
    return row


def _others(setting: str, evidence: Iterable[str]) -> dict[str, list[str]]:
    """Return `OTHER_CORPORA` of a setting and, as far as there are runs, those of `IWSLT14` ("iwslt14-60")."""
    corpora = {corpus: [*settings] for corpus, settings in OTHER_CORPORA[setting].items()}
    for name in evidence if setting == IWSLT14[0] else ():
        whole, percent = parted(name)
        if whole in IWSLT14 and name != setting:
            corpora.setdefault(f"iwslt14-{percent}" if percent else "iwslt14", []).append(name)
    return corpora


def deep(rule: Rule) -> list[AtDepth]:
    """Return the criteria of a rule that compare depths."""
    return [one for one in rule.criteria if isinstance(one, AtDepth)]


def command_of(claim: Claim, rule: Rule, setting: str, result: Row, evidence: Evidence) -> str:
    """Return the command that starts the runs a claim needs in one setting, given its result there so far.

    Data other than the paper's have a grid over learning rates for some claims; other runs are at each arm's own rate.
    Depths have a grid of their own. Fine-tuning has one command per arm, because each starts from its own runs, which
    the user fills in, and so is the folder with a part of the training text.
    """
    setting, percent = parted(setting)
    source = " data.source=FOLDER" * bool(percent)
    unclear = any(part.startswith(MORE) for part in (result["needs"] or "").split("; "))
    last = max([result["seeds"], *(seed for arm in rule.arms for seed in evidence.arms.get(arm, {}))]) if unclear else 0
    number = rule.seeds + last
    if claim.grid and rule is claim.others:
        return f"ln-repro sweep grid={claim.grid} corpus={setting} seeds={number}{source} --skip-recorded"
    seeds = ",".join(map(str, range(1 + last, number + 1)))  # a choice sweep of Hydra
    if claim in FINE_TUNING:
        return " && ".join(
            f"ln-repro run -m exp={setting}_{arm} seed={seeds} "
            f"start={PLACEHOLDERS[arm]}@EPOCH,{PLACEHOLDERS[arm]}@EPOCH data.source=FOLDER"
            for arm in rule.arms
        )
    experiments = ",".join(f"{setting}_{arm}" for arm in dict.fromkeys((*rule.arms, *claim.controls)))
    probed = PROBED + PROBED_OFTEN.get(setting, "")
    further = probed if claim.id in ("TH-10", "X-4") else OWN_TEXT.get(setting, "")
    own = [f"ln-repro run -m exp={experiments} seed={seeds}{further}{source}"] if experiments else []
    return " && ".join(own + [
        f"ln-repro sweep grid=depth corpus={setting} seeds={number} arms={','.join(one.compared)}{one.axis}"
        f"{source} --skip-recorded"
        for one in deep(rule)
    ])  # fmt: skip


def theory_rows(findings: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the statements of the theory as claims, with their findings; they need neither training nor data."""
    found = {finding["id"]: finding for finding in findings}
    rows: list[Row] = []
    for name, stated in STATEMENTS.items():
        ours = found.get(name)
        rows.append({
            "id": name, "claim": stated.statement, "paper": stated.paper, "place": stated.place, "class": "paper",
            "ours": f"{ours['quantity']} {ends_words(ours['interval'])}" if ours else None,
            "verdict": ours["verdict"] if ours else NOT_RUN, "rule": ours["rule"] if ours else "",
            "seeds": ours["seeds"] if ours else 0, "evidence": [], "other_corpora": [],
            "command": f"ln-repro theory --full --only {name}", "cost_gpu_hours": 0.0,
            "needs": None if ours else "its check, without training",
            "written": None, "source": None, "older": 0, "code": [],
        })  # fmt: skip
    return rows
