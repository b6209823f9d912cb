"""The verdicts in a few lines, for the README."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ln_repro.paper.claims import OTHER_CORPORA
from ln_repro.report.claims import Row
from ln_repro.report.tables import Table, markdown

BEGIN, END = "<!-- verdicts: written by `make reproduce-tables` -->\n", "<!-- /verdicts -->\n"
NAMES = {"toy": "toy", "multi30k": "Multi30k", "tatoeba": "Tatoeba"}


def board(rows: Sequence[Row]) -> str:
    """Return the claims of training, each with its verdicts, and the theory's in one line each."""
    trained = [row for row in rows if row["command"] and row["command"].startswith("ln-repro run")]
    lines = markdown("", trained_table(trained)).split("\n", 2)[2]
    return f"{lines}\n{theory_line([row for row in rows if row['command'] and row not in trained])}\n"


def trained_table(rows: Sequence[Row]) -> Table:
    """Return one row a claim: the verdict on the paper's data, and on every other that somebody ran it on."""
    seen = {other["data"] for row in rows for other in row["elsewhere"]}
    others = [name for name in OTHER_CORPORA if name in seen]
    return {
        "columns": ["", "claim", "paper's data", *(f"the same on {NAMES[name]}" for name in others)],
        "rows": [[row["id"], row["claim"], row["verdict"], *(elsewhere(row, name) for name in others)] for row in rows],
    }


def elsewhere(row: Row, data: str) -> str | None:
    """Return the verdict on other data, and over how many seeds."""
    found = next((other for other in row["elsewhere"] if other["data"] == data), None)
    return found and f"{found['verdict']} ({found['seeds']} seed{'s' * (found['seeds'] > 1)})"


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
    return Path(__file__).resolve().parents[2] / "README.md"
