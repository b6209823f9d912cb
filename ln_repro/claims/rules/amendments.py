"""When the rules were written and amended, and where their thresholds come from (see `docs/rules.md`)."""

from ln_repro.claims.criteria import Origin

REGISTRY, AMENDMENT = "thresholds from the paper's numbers and their spread", "first amendment of the rules"
FIRST = Origin("2026-11-21T14:30Z", REGISTRY)
"""Before any run on IWSLT14 or WMT14, after 36 runs on toy and 11 on Multi30k."""
AMENDED = Origin("2026-11-22T13:20Z", AMENDMENT)
"""After 183 runs on toy and Multi30k, before any grid over learning rates."""
CORRECTED = Origin("2026-11-24T06:00Z", f"{REGISTRY}, corrected")  # the rules of MT-4 and MT-6
CORRECTED_AMENDMENT = CORRECTED._replace(source=f"{AMENDMENT}, corrected")  # the rule of MT-6 on other data
AUDITED = Origin("2026-11-25T09:45Z", f"{REGISTRY}, corrected")
"""On the paper's data, only the wrong side contradicts: MT-1, MT-5, BERT-1."""
SECOND = Origin("2026-11-27T08:00Z", "second amendment of the rules")
"""After 1,543 runs, before any with a seed above 100."""
