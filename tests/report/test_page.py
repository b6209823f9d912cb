"""The page: one file that needs nothing else, the same for the same records, and whole whatever a table says."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from ln_repro.records.archive import Run
from ln_repro.report.page import arms_of, page, page_tables
from ln_repro.report.tables import Table
from tests import committed
from tests.claims.made import made
from tests.committed import RESULTS
from tests.examples import record, recorded

EMPTY = {"area", "base", "br", "circle", "col", "hr", "img", "input", "line", "link", "meta", "path", "use"}


class Reader(HTMLParser):
    """Collects links and ids, and sees that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links += [found[name] or "" for name in ("href", "src") if name in found]
        self.ids += [found["id"] or ""] if "id" in found else []
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in EMPTY or self.open.pop() == tag


@pytest.fixture(scope="module")
def text() -> str:
    """Return the page of the committed records."""
    figures = {path.stem for path in (RESULTS / "figures").glob("*.png")}
    return page(committed.archive().kept.runs, page_tables(committed.rows()), figures)


def test_what_is_committed_is_what_the_records_give(text: str) -> None:
    assert (RESULTS / "report.html").read_text(encoding="utf-8") == text, "report.html is stale: make reproduce-tables"


def test_its_links_lead_somewhere(text: str) -> None:
    reader = Reader(text)
    assert len(reader.ids) == len(set(reader.ids))
    for link in reader.links:
        assert link == "data:," or (link[:1] == "#" and link[1:] in reader.ids) or (RESULTS / link).is_file(), link


def test_what_a_table_or_a_name_says_cannot_break_the_page() -> None:
    table = Table(["<i>"], [["</script><b>x</b>"]])
    written = page([Run(recorded(axes=record()["axes"] | {"norm": "<i>"}))], {"A": table}, ())
    assert "<b>x</b>" not in written and "<i>" not in written
    data = json.loads(re.findall('<script type="application/json" id="data">(.*?)</script>', written, re.DOTALL)[0])
    assert "<i>" in data["arms"][0]


def test_runs_of_another_length_are_another_arm_than_those_of_their_name() -> None:
    runs = [made(seed=1), made(seed=2), made(seed=1, train__max_epoch=30)]
    assert [arm["seeds"] for arm in arms_of(runs)] == [2, 1]


def test_arms_of_different_depths_and_ramps_are_told_apart() -> None:
    part: dict[str, Any] = {"schedule__part": "encoder"}
    step: dict[str, Any] = {"schedule__decay": "step", "schedule__step_update": 16, "schedule__step_reset": "encoder"}
    (usual,), (deep,), (encoder,), (ramp,), (burst,) = (arms_of([made(exp, **changes)]) for exp, changes in (
        ("toy_postln_warm", {"model__layers": 6, "schedule__step_epoch": 8}),
        ("toy_postln_warm", {"model__layers": 12}), ("toybert_postln_warm_linear", {"model__layers": 12}),
        ("toy_postln_warm", part), ("toy_postln_warm", step)))  # fmt: skip
    assert "epoch" not in usual["schedule"] and deep["schedule"] == f"{usual['schedule']}, 12+12 layers"
    assert burst["schedule"] == "warm-up over 400 updates, step, after 16 updates, new encoder"
    assert encoder["schedule"].endswith(", 12 layers") and ramp["schedule"].endswith("of the encoder alone")


def test_no_records_and_no_figures_are_a_page_too() -> None:
    Reader(page([], {}, ()))
