"""Every claim with its verdict: on the paper's own data, and beside it the same question on other data."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table as TerminalTable
from rich.text import Text

from ln_repro.paper.claims import (
    FINE_TUNING,
    FINE_TUNING_SEEDS,
    NOT_NAMED_ALIKE,
    OTHER_CORPORA,
    PRETRAINING,
    SCHEMES,
    SEEDS,
    TRANSLATION,
    Claim,
)
from ln_repro.report import rules, rules_bert, rules_probes, rules_schemes
from ln_repro.report.case import Judged, not_run
from ln_repro.report.evidence import Evidence
from ln_repro.report.rules import Rule
from ln_repro.report.tables import Table
from ln_repro.report.theory import STYLES, interval

Row = dict[str, Any]
Findings = Sequence[Mapping[str, Any]]
HOURS = {"iwslt": 1.0, "wmt": 22.0, "bert": 150.0, "mrpc": 0.3, "rte": 0.3}
"""GPU hours of a run, estimated: 16k updates of 4,096 tokens, and 20k of 131k, at five mini-batches a second; of BERT
1M updates of 131k tokens at 250k tokens a second; of fine-tuning ten checkpoints, two minutes each."""
DEEPER = {"deep": 2, "deeper": 3}
"""How many times as long a run takes whose arm ends so."""
PROBED, OWN_TEXT = " probe=gradients", " data.train=FILE data.valid=FILE"
SETTINGS = {"TH-10": PROBED, "X-4": PROBED, "BERT-1": OWN_TEXT, "BERT-2": OWN_TEXT}
"""What a claim's runs are given besides their names."""
PLACEHOLDERS = {"preln_nowarm_linear": "PRELN", "postln_nowarm_linear": "POSTLN"}
"""By arm of the fine-tuning, a placeholder for the run of BERT-1 that it starts from."""
FILL_IN = (
    "PRELN and POSTLN are BERT-1's runs (names or ids), @EPOCH the same epochs of both, ten of them for example, and "
    "FOLDER is GLUE's"
)

RULES: dict[str, tuple[Rule, Rule | None]] = {
    "MT-1": (rules.warm_up_needed(literal=True), rules.warm_up_needed_elsewhere(literal=True)),
    "MT-1.anchored": (rules.warm_up_needed(literal=False), rules.warm_up_needed_elsewhere(literal=False)),
    "MT-2": (rules.ramp_length, rules.ramp_length_elsewhere),
    "MT-3": (rules.same_under_sgd, rules.same_under_sgd_elsewhere),
    "MT-3.anchored": (rules.same_under_sgd, rules.same_under_sgd_elsewhere),
    "MT-4": (rules.comparable, rules.comparable_elsewhere),
    "MT-5": (rules.times_as_long, rules.times_as_long_elsewhere),
    "MT-6": (rules.placement_dominates, rules.placement_dominates_elsewhere),
    "MT-7": (rules.small_fixed_rate(absolute=True), rules.small_fixed_rate(absolute=False)),
    "WMT-1": (rules.comparable_on_wmt, None),
    "WMT-2": (rules.faster_on_wmt, None),
    "BERT-1": (rules_bert.times_as_long, rules_bert.longer),
    "BERT-2": (rules_bert.only_pre_ln_trains, rules_bert.only_pre_ln_trains),
    "BERT-3": (rules_bert.fine_tunes_faster, None),
    "BERT-3.rte": (rules_bert.fine_tunes_faster, None),
    "TH-10": (rules_probes.tiny_after_the_ramp, rules_probes.smaller_after_the_ramp),
    "X-1": (rules_schemes.deeper(rules_schemes.by_bleu), rules_schemes.deeper(rules_schemes.by_progress)),
    "X-2": (rules_schemes.without_norm(rules_schemes.by_bleu), rules_schemes.without_norm(rules_schemes.by_progress)),
    "X-3": (rules_schemes.matches, rules_schemes.matches_elsewhere),
    "X-4": (
        rules_schemes.open_question(rules_schemes.by_bleu, on_bleu=True),
        rules_schemes.open_question(rules_schemes.by_progress, on_bleu=False),
    ),
}
"""By claim: the rule on the paper's data, and the one on other data."""
ELSEWHERE_ARMS: dict[str, Sequence[Sequence[str]]] = {
    "MT-3.anchored": [
        ("postln_warm", "postln_warm_sgd", "postln_warm_sgd_low", "postln_nowarm_sgd", "postln_nowarm_sgd_low"),
        ("postln_warm", "postln_warm_sgd", "postln_nowarm_sgd"),
    ],
    "MT-4": [
        ("preln_nowarm", "postln_warm", "postln_nowarm"),
        ("preln_nowarm", "postln_warm", "postln_nowarm_step"),
    ],
    "MT-6": [
        ("postln_nowarm_radam", "preln_nowarm_radam", "preln_nowarm"),
        ("postln_nowarm_radam_anchored", "preln_nowarm_radam_anchored", "preln_nowarm_anchored"),
    ],
    "X-3": [("admin_warm", "admin_warm_closed", "postln_warm")],
}
"""Where other arms than the claim's own answer the question on other data: the first set that was run counts."""


def claim_rows(evidence: Mapping[str, Evidence], findings: Findings) -> list[Row]:
    """Return every claim as the contract has it, with its rule and what is still needed beside."""
    rows = [row_of(claim, evidence) for claim in (*TRANSLATION, *PRETRAINING, *FINE_TUNING, *SCHEMES)]
    rows += [theory_row(found) for found in findings]
    return sorted(rows, key=lambda row: order(row["id"]))


def order(id: str) -> tuple[int, str, float, str]:
    """Sort claims by family, then by number."""
    family, _, rest = id.partition("-")
    families = ("MT", "WMT", "BERT", "TH", "X")
    number = rest.split(".")[0].split("-")[0]
    return families.index(family), family, float(number) if number.isdecimal() else 0.0, id


def bare_row(claim: Claim) -> Row:
    """Return a claim without evidence."""
    return {
        "id": claim.id, "claim": claim.claim, "paper": claim.paper, "ours": None, "verdict": "not-run",
        "class": "paper", "rule": claim.rule, "place": claim.place, "evidence": [], "elsewhere": [], "command": None,
        "cost_gpu_hours": None, "needs": None,
    }  # fmt: skip


def row_of(claim: Claim, evidence: Mapping[str, Evidence]) -> Row:
    """Return a claim with its verdict on the paper's data, and those on other data."""
    on_paper, on_others = RULES[claim.id]
    here = judge(on_paper, evidence.get(claim.corpus, Evidence(claim.corpus)), [claim.arms])
    elsewhere = []
    for corpus in OTHER_CORPORA if on_others else ():
        assert on_others
        setting = NOT_NAMED_ALIKE.get(claim.corpus, {}).get(corpus, corpus)
        found = judge(on_others, evidence.get(setting, Evidence(setting)), ELSEWHERE_ARMS.get(claim.id, [claim.arms]))
        if found.evidence:
            kind = "toy" if corpus == "toy" else "adapted"
            elsewhere.append({"data": corpus, "class": kind, "rule": claim.elsewhere, **as_dict(found)})
    return bare_row(claim) | as_dict(here) | {"elsewhere": elsewhere, **to_run(claim, here)}


def to_run(claim: Claim, here: Judged) -> Row:
    """Return the command that runs what a claim needs, and its cost."""
    if claim in FINE_TUNING:
        return to_fine_tune(claim, here)
    arms = (*claim.arms, *claim.controls)
    experiments = ",".join(f"{claim.corpus}_{arm}" for arm in arms)
    runs = SEEDS * sum(DEEPER.get(arm.split("_")[-1], 1) for arm in arms)
    return {
        "command": f"ln-repro run -m exp={experiments} seed={listed(SEEDS)}{SETTINGS.get(claim.id, '')}",
        "cost_gpu_hours": runs * HOURS[claim.corpus],
    }


def to_fine_tune(claim: Claim, here: Judged) -> Row:
    """Return the same where each arm starts from runs of its own, and what the user has to fill in."""
    commands = [
        f"ln-repro run -m exp={claim.corpus}_{arm} seed={listed(FINE_TUNING_SEEDS)} "
        f"start={PLACEHOLDERS[arm]}@EPOCH,{PLACEHOLDERS[arm]}@EPOCH data.source=FOLDER"
        for arm in claim.arms
    ]
    return {
        "command": " && ".join(commands),
        "cost_gpu_hours": round(FINE_TUNING_SEEDS * len(claim.arms) * HOURS[claim.corpus], 1),
        "needs": f"{here.needs}; {FILL_IN}" if here.needs else None,
    }


def listed(seeds: int) -> str:
    """Return the seeds as Hydra takes them."""
    return ",".join(map(str, range(1, seeds + 1)))


def judge(rule: Rule, evidence: Evidence, choices: Sequence[Sequence[str]]) -> Judged:
    """Return what a rule comes to on the first set of arms that was run."""
    for arms in choices:
        if not evidence.missing(arms) and evidence.seeds(arms):
            return rule(evidence, arms)
    return not_run(evidence.missing(choices[0]))


def as_dict(found: Judged) -> Row:
    """Return a judgement as a part of a row."""
    return {"ours": found.ours, "verdict": found.verdict, "seeds": found.seeds, "evidence": list(found.evidence),
            "needs": found.needs}  # fmt: skip


def theory_row(found: Mapping[str, Any]) -> Row:
    """Return a finding of the theory as a claim: it needs no training and no data."""
    return {
        "id": found["id"], "claim": found["statement"], "paper": found["paper"],
        "ours": f"{found['quantity']} {interval(found)}", "verdict": found["verdict"], "class": "paper",
        "rule": found["rule"], "place": found["place"], "evidence": [], "elsewhere": [],
        "command": f"ln-repro theory --full --only {found['id']}", "cost_gpu_hours": 0.0, "needs": None,
        "seeds": found["seeds"],
    }  # fmt: skip


def terminal_table(rows: Sequence[Row]) -> TerminalTable:
    """Return one row a claim, made for 80 columns; below it the same question on other data, or what is needed."""
    table = TerminalTable(box=None, padding=(0, 2, 1, 0), pad_edge=False)
    table.add_column("claim", no_wrap=True)
    table.add_column("statement", ratio=1)
    table.add_column("ours", ratio=1, overflow="fold")
    for row in rows:
        claim = Text(f"{row['id']}\n").append(row["verdict"], STYLES.get(row["verdict"], "dim"))
        lines = [row["ours"] or row["needs"], *(f"{o['data']}: {o['verdict']} ({o['ours']})" for o in row["elsewhere"])]
        if row["verdict"] == "not-run" and row["command"]:
            lines.append(f"{row['command']} (about {row['cost_gpu_hours']:g} GPU hours)")
        table.add_row(claim, f"{row['claim']}\npaper: {row['paper']}", "\n".join(lines))
    return table


def claims_table(rows: Sequence[Row]) -> Table:
    """Return one row a claim, for files."""
    columns = ["id", "claim", "paper", "ours", "verdict", *OTHER_CORPORA]
    return {"columns": columns, "rows": [cells(row) for row in rows]}


def cells(row: Row) -> list[Any]:
    """Return a claim's cells; on other data, the verdict and over how many seeds."""
    others = {other["data"]: f"{other['verdict']} ({other['seeds']})" for other in row["elsewhere"]}
    return [row["id"], row["claim"], row["paper"], row["ours"], row["verdict"], *map(others.get, OTHER_CORPORA)]
