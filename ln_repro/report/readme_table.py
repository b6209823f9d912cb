"""The verdicts in a few lines, for the README."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ln_repro.claims.judge import BERT_CORPORA, OTHER_CORPORA, Row
from ln_repro.report.tables import Table, markdown
from ln_repro.system.paths import CHECKOUT

BEGIN, END = "<!-- verdicts: written by `make reproduce-tables` -->\n", "<!-- /verdicts -->\n"
QUESTIONS = {
    "MT-1.anchored": "Does Post-LN need warm-up?", "MT-4": "Is Pre-LN without warm-up as good as Post-LN with it?",
    "MT-5": "Does Pre-LN train faster, with the same schedule?",
}  # fmt: skip
"""By claim, the question that it answers."""
NAMES = {"toy": "toy", "multi30k": "Multi30k", "tatoeba": "Tatoeba"}
BERT_SETTINGS = {setting for settings in BERT_CORPORA.values() for setting in settings}


@dataclass(frozen=True)
class Headline:
    """An answer to one of the paper's questions, and the records that it rests on."""

    question: str
    answer: str
    records: Sequence[str]


def board(rows: Sequence[Row]) -> str:
    """Return the headlines, the claims of training, each with its verdicts, and the theory's in one line each."""
    trained = [row for row in rows if row["command"] and row["command"].startswith("ln-repro run")]
    lines = markdown("", trained_table(trained)).split("\n", 2)[2]
    told = "\n".join(map(bullet, headlines(rows)))
    return f"{told}\n\n{lines}\n{theory_line([row for row in rows if row['command'] and row not in trained])}\n"


def headlines(rows: Sequence[Mapping[str, Any]]) -> list[Headline]:
    """Return what was found on other corpora, a sentence for each of the paper's main questions that was asked."""
    found = {row["id"]: row["elsewhere"] for row in rows}
    return [
        Headline(
            question,
            "; ".join(f"{NAMES[other['data']]}: {answer(other)}" for other in found[id]),
            [record for other in found[id] for record in other["evidence"]],
        )
        for id, question in QUESTIONS.items()
        if found.get(id)
    ]


def answer(other: Mapping[str, Any]) -> str:
    """Return a verdict with its numbers, or with what would decide it."""
    return f"{other['verdict']}, {other['needs'] if other['needs'] else other['ours']}"


def bullet(found: Headline) -> str:
    """Return a headline as a list item, with the first records that it rests on."""
    first = ", ".join(f"`{id}`" for id in found.records[:2])
    more = f" and {len(found.records) - 2} more" if len(found.records) > 2 else ""
    return f"* **{found.question}** {found.answer[0].upper()}{found.answer[1:]} (records {first}{more})."


def trained_table(rows: Sequence[Row]) -> Table:
    """Return one row a claim: the verdict on every other corpus that somebody ran it on, then on the paper's data."""
    seen = {other["data"] for row in rows for other in row["elsewhere"]}
    others = [name for name in OTHER_CORPORA if name in seen]
    return {
        "columns": ["", "claim", *(NAMES[name] for name in others), "paper's data"],
        "rows": [[row["id"], row["claim"], *(elsewhere(row, name) for name in others), row["verdict"]] for row in rows],
    }


def elsewhere(row: Row, data: str) -> str | None:
    """Return the verdict on other data, over how many seeds, and of which setting if it is not the corpus's first."""
    found = next((other for other in row["elsewhere"] if other["data"] == data), None)
    if found is None:
        return None
    small = "" if found["setting"] in (OTHER_CORPORA[data][0], *BERT_SETTINGS) else ", 3+3 layers"
    return f"{found['verdict']} ({found['seeds']} seed{'s' * (found['seeds'] > 1)}{small})"


def theory_line(rows: Sequence[Row]) -> str:
    """Return how many findings of the theory have which verdict, and which do not agree."""
    counted = Counter(row["verdict"] for row in rows)
    told = ", ".join(f"{number} {verdict}" for verdict, number in counted.most_common())
    named = [f"* {row['id']} ({row['verdict']}): {row['claim']}." for row in rows if row["verdict"] != "reproduced"]
    return "\n".join([f"The theory, checked without training (TH-1 to TH-11): {told}.", "", *named])


def with_board(readme: str, rows: Sequence[Row]) -> str:
    """Return the README with the block between the two marks written anew."""
    before, _, rest = readme.partition(BEGIN)
    return f"{before}{BEGIN}{board(rows)}{END}{rest.partition(END)[2]}"


def readme() -> Path:
    """Return the checkout's README."""
    return CHECKOUT / "README.md"
