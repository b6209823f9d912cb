"""Claims in every state, on records that the project keeps."""

from typing import Any

JUDGED = {"written": "2026-11-21", "source": "the paper's numbers", "older": 0, "code": ["0123456"], "note": None,
          "effect": None, "interval": None, "explored": "reproduced", "replicated": None}  # fmt: skip
"""When a rule was written, where from, and by what code its records were made."""
TOY = ["9d986f03fc", "0742d37f38", "7e4b895821", "957d1c4f28", "c0a76df177", "7e2cdbe6fc"]


def claim(**changes: Any) -> dict[str, Any]:
    """Return a claim that was not run, and the verdict on another corpus."""
    other = {
        "data": "toy", "ours": "0.1 without, 99.8 with", "verdict": "reproduced", "seeds": 3, "evidence": TOY,
        "rule": "Post-LN's highest rate that trains is twice as large with warm-up", "needs": None, **JUDGED,
        "setting": "toy", "class": "toy", "command": "ln-repro sweep grid=section3_2 corpus=toy seeds=5",
    }  # fmt: skip
    return {
        "id": "MT-1", "claim": "Post-LN with Adam needs warm-up", "paper": "8.45 BLEU without, around 34 with",
        "ours": None, "verdict": "not-run", "class": "paper", "rule": "A1 in [32.0, 35.5]; A3 < 15; gap >= 15",
        "evidence": [], "other_corpora": [other], "command": "ln-repro sweep grid=section3_2 corpus=iwslt seeds=5",
        "cost_gpu_hours": 12.5, "needs": "five seeds on IWSLT14",
        "place": "section 3.2", "seeds": 0, **JUDGED, **changes,
    }  # fmt: skip


def claims() -> list[dict[str, Any]]:
    """Return one claim for each verdict, and one whose text could break a page."""
    pair = ["11476e2111", "9d38fc4de8"]
    text = {"data": "multi30k", "ours": "38.4 and 39.0 BLEU", "verdict": "inconclusive", "seeds": 1, "evidence": pair,
            "rule": "difference within 1 BLEU", "needs": "two more seeds", **JUDGED, "setting": "multi30k",
            "class": "adapted", "command": "ln-repro sweep grid=section4 corpus=multi30k seeds=5"}  # fmt: skip
    return [
        claim(),
        claim(id="MT-4", claim="Pre-LN without warm-up is comparable to Post-LN with", paper="33.4 and 33.1 BLEU",
              ours="33.2 and 33.0", verdict="reproduced", evidence=pair, other_corpora=[text]),
        claim(id="MT-6", claim="RAdam trains Post-LN without warm-up", verdict="contradicted", ours="12.1 BLEU",
              other_corpora=[claim()["other_corpora"][0] | {"verdict": "contradicted"}, text], cost_gpu_hours=None),
        claim(id="WMT-1", claim="</script><b>x</b> & \u2028 'quoted'", verdict="inconclusive", other_corpora=[],
              command=None, needs=None),
    ]  # fmt: skip
