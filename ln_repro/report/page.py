"""The report page: all verdicts with their rules, figures and numbers, and the curves of all runs, in one HTML file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, NOT_RUN, REPRODUCED
from ln_repro.claims.words import CORPORA, corpus_order, named
from ln_repro.records.archive import Run
from ln_repro.report.page_runs import Arm, arms_of, chart_data
from ln_repro.report.page_theory import number_table, theory_panels
from ln_repro.report.readme_table import headlines
from ln_repro.report.tables import signatures

ASSETS = Path(__file__).parent / "assets"
VERDICTS = {
    REPRODUCED: "the claim's rule is met over the seeds, by a 95 % interval or Fisher's exact test",
    CONTRADICTED: "the opposite is shown by the same means",
    INCONCLUSIVE: "neither is shown: too few seeds or rates so far",
    NOT_RUN: "no run yet on the paper's data",
}
GROUPS = {
    "MT": "Translation, IWSLT14 German to English",
    "WMT": "Translation, WMT14 English to German",
    "BERT": "BERT pre-training",
    "TH": "Theory, and gradients at initialisation",
    "X": "Beyond the paper",
}
"""Headings by the first part of a claim's id."""
Claim = Mapping[str, Any]
"""``id``, ``claim``, ``paper``, ``ours``, ``verdict``, ``class``, ``rule``, ``evidence`` (ids of records), ``command``,
``cost_gpu_hours``, ``needs``, and ``other_corpora``: verdicts on other corpora, each with ``data``, ``ours``,
``verdict``, ``seeds``, ``evidence``, ``rule`` and ``needs``."""


def page(runs: Sequence[Run], claims: Sequence[Claim], theory: Mapping[str, Any], figure: str = "") -> str:
    """Return the page as HTML; it depends only on the arguments.

    ``theory`` has the ``findings`` and ``figures`` of `ln-repro theory`; a finding is shown with the claim of its id.
    ``figure`` is the first figure, as SVG.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    records = [run.record for run in runs]
    arms = arms_of(records)
    findings = {finding["id"]: finding for finding in theory["findings"]}
    panels = {name: theory_panels(finding, theory["figures"]) for name, finding in findings.items()}
    groups: dict[str, list[dict[str, Any]]] = {}
    for claim in claims:
        kind = claim["id"].partition("-")[0]
        shown = _shown(claim, arms, findings.get(claim["id"]), panels.get(claim["id"], []))
        groups.setdefault(GROUPS.get(kind, kind), []).append(shown)
    environment = Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["named"] = named
    data = json.dumps(
        {"panels": panels, **chart_data(runs, arms)}, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return environment.get_template("page.html").render(
        groups=groups,
        verdicts=VERDICTS,
        headlines=headlines(claims),
        figure=figure[figure.find("<svg") :] if figure else "",
        others=[name for name in CORPORA if any(o["data"] == name for c in claims for o in c["other_corpora"])],
        arms=arms,
        filters=_filters(arms),
        runs=len(records),
        signatures=[note for note in signatures(records) if note.startswith("BLEU tok.:")],
        data=data.replace("<", "\\u003c"),  # so that the data cannot close the script element
        asset=lambda name: (ASSETS / name).read_text(encoding="utf-8"),
    )


def _shown(
    claim: Claim, arms: Sequence[Arm], finding: Mapping[str, Any] | None, panels: Sequence[Any]
) -> dict[str, Any]:
    """Return a claim with its arms, its runs by corpus, its numbers and its panels."""
    evidence = {*claim["evidence"], *(name for other in claim["other_corpora"] for name in other["evidence"])}
    used = [arm for arm in arms if evidence & {*arm["ids"]}]
    runs = {corpus: [name for arm in used if arm["data"] == corpus for name in arm["ids"] if name in evidence]
            for corpus in _corpora(used)}  # fmt: skip
    numbers = number_table(finding) if finding else None
    scored = {arm["data"] for arm in used if arm["bleu_mean"] >= 0}
    return {**claim, "arms": used, "runs": runs, "scored": scored, "numbers": numbers, "panels": panels}


def _corpora(arms: Sequence[Arm]) -> list[str]:
    return sorted({arm["data"] for arm in arms}, key=corpus_order)


def _filters(arms: Sequence[Arm]) -> dict[str, Any]:
    """Return the options of the filters and the initial corpus: the paper's, or the one with most runs."""
    corpora = _corpora(arms)
    sizes = {corpus: sum(len(arm["ids"]) for arm in arms if arm["data"] == corpus) for corpus in corpora}
    first = corpora[0] if corpora[:1] in (["iwslt14"], ["wmt14"]) else max(corpora, key=sizes.__getitem__, default=None)
    return {
        "corpora": corpora,
        "first": first,
        "norms": sorted({arm["norm"] for arm in arms}, key=lambda norm: (norm not in ("preln", "postln"), norm)),
        "optimizers": sorted({arm["optimizer"] for arm in arms}),
    }
