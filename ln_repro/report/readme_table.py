"""The table of claims, and the verdicts in the README."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ln_repro.claims.judge import TESTED, Row
from ln_repro.claims.words import corpus_order, named, parted
from ln_repro.report.tables import Table, markdown

BEGIN, END = "<!-- verdicts: written by `make reproduce-tables` -->\n", "<!-- /verdicts -->\n"
QUESTIONS = {
    "MT-1.anchored": "Does Post-LN need warm-up?", "MT-4": "Is Pre-LN without warm-up comparable to Post-LN with it?",
    "MT-5": "Does Pre-LN train faster, with the same schedule?",
}  # fmt: skip
"""The question that each of these claims answers."""
ANSWERS = {"reproduced": "yes", "contradicted": "no", "inconclusive": "inconclusive"}
SMALL = {"multi30k": ", 3+3 layers", "iwsltsmall": ", 128 wide"}
"""The size of models, by setting, if there is a setting with larger models on the same corpus."""


class Headline(NamedTuple):
    """The answer to one of the paper's questions, the claim that it rests on, and the ids of the records behind it."""

    claim: str
    question: str
    answer: str
    records: Sequence[str]


def with_verdicts(readme: str, rows: Sequence[Row]) -> str:
    """Return the text of the README with an updated block between the two marks."""
    before, _, rest = readme.partition(BEGIN)
    return f"{before}{BEGIN}{verdict_block(rows)}{END}{rest.partition(END)[2]}"


def verdict_block(rows: Sequence[Row]) -> str:
    """Return the headlines, the table of verdicts on translation, and a summary of those on the theory."""
    trained = [row for row in rows if row["id"].startswith("MT-")]
    proved = [row for row in rows if not row["written"]]
    bullets = [f"* **{question}** {answer} ({len(records)} records: `ln-repro claims {claim}`)"
               for claim, question, answer, records in headlines(rows)]  # fmt: skip
    counted = ", ".join(f"{n} {verdict}" for verdict, n in Counter(row["verdict"] for row in proved).most_common())
    summary = f"The findings of the theory, checked without training: {counted}."
    exceptions = [f"* {row['id']} ({row['verdict']}): {row['claim']}. Found: {row['ours']} (paper: {row['paper']})."
                  for row in proved if row["verdict"] != "reproduced"]  # fmt: skip
    table = markdown("", verdict_table(trained)).split("\n", 2)[2]
    return "\n".join([*bullets, "", table, summary, "", *exceptions, ""])


def headlines(rows: Sequence[Mapping[str, Any]]) -> list[Headline]:
    """Return the answers to `QUESTIONS`, from the verdicts on other corpora; questions without runs are left out."""
    found = []
    for row in rows:
        if row["id"] in QUESTIONS and (others := row["other_corpora"]):
            records = [record for other in others for record in other["evidence"]]
            found.append(Headline(row["id"], QUESTIONS[row["id"]], " ".join(map(_answer, others)), records))
    return found


def _answer(other: Mapping[str, Any]) -> str:
    """Return the verdict on another corpus as the answer to a question."""
    answer = other["answer"] or ANSWERS[other["verdict"]]
    found = f"{named(other['data'])}{_size(other['setting'])}: {answer}."
    if other["plain"]:
        found += f" {other['plain'][:1].upper()}{other['plain'][1:]}."
    return found + f" A verdict needs {other['needs']}." * bool(other["needs"])


def claims_table(rows: Sequence[Row]) -> Table:
    """Return one row per claim, with its verdicts and what was found."""
    corpora = [*TESTED, *(corpus for corpus in judged_corpora(rows) if corpus not in TESTED)]
    cells = [[row["id"], row["claim"], *map(_verdicts(row).get, corpora), row["verdict"], row["paper"], row["ours"]]
             for row in rows]  # fmt: skip
    return {"columns": ["id", "claim", *corpora, "paper's data, or theory", "paper", "ours"], "rows": cells}


def verdict_table(rows: Sequence[Row]) -> Table:
    """Return one row per claim: the verdict on each of the other corpora with runs, then on the paper's data."""
    corpora = judged_corpora(rows)
    cells = [[row["id"], row["claim"], *map(_verdicts(row).get, corpora), row["verdict"]] for row in rows]
    return {"columns": ["", "claim", *map(named, corpora), "paper's data"], "rows": cells}


def judged_corpora(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the other corpora with a verdict on some claim, in the order of display."""
    return sorted({other["data"] for row in rows for other in row["other_corpora"]}, key=corpus_order)


def _verdicts(row: Row) -> dict[str, str]:
    """Return the verdicts on other corpora with the number of seeds, and the model's size unless it is 6+6 layers.

    What was found instead of the claim is added to a verdict that more seeds would not change.
    """
    return {
        other["data"]: f"{': '.join(filter(None, (other['verdict'], other['answer'])))} "
        f"({other['seeds']} seed{'s' * (other['seeds'] != 1)}{_size(other['setting'])})"
        for other in row["other_corpora"]
    }


def _size(setting: str) -> str:
    """Return the size of a setting's models (`SMALL`), also if its runs have a part of the training text."""
    return SMALL.get(parted(setting)[0], "")
