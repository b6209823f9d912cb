"""The page: one file that needs nothing else, the same for the same records, and whole whatever a claim says."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from ln_repro.claims.judge import OTHER_CORPORA, TESTED
from ln_repro.claims.words import CORPORA, corpus_order, named
from ln_repro.records.archive import Run
from ln_repro.report import figure_rates
from ln_repro.report.page import arms_of, page
from tests import committed
from tests.claims.made import made as made_run
from tests.committed import RESULTS
from tests.examples import diverged, recorded
from tests.report.claims import claim, claims

NOTHING: dict[str, Any] = {"findings": [], "figures": {}}
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
    picture = (RESULTS / "figures" / f"{figure_rates.NAME}.svg").read_text(encoding="utf-8")
    return page(committed.archive().kept.runs, [row.json() for row in committed.rows()], committed.theory(), picture)


def test_what_is_committed_is_what_the_records_give(text: str) -> None:
    assert (RESULTS / "report.html").read_text(encoding="utf-8") == text, "report.html is stale: make reproduce-tables"


def test_it_is_one_file_whose_links_lead_somewhere(text: str) -> None:
    reader = Reader(text)
    assert len(reader.ids) == len(set(reader.ids))
    for link in reader.links:
        if link.startswith("#"):
            assert link[1:] in reader.ids
        else:
            assert link == "data:," or (RESULTS / link).is_file(), link
    assert len(text.encode()) < 1_500_000


def test_what_a_claim_says_cannot_break_the_page() -> None:
    made = page([Run(recorded(exp="<i>"))], claims(), NOTHING)
    assert "<b>x</b>" not in made and "<i>" not in made
    data = json.loads(re.findall('<script type="application/json" id="data">(.*?)</script>', made, re.DOTALL)[0])
    assert data["arms"][0]["exp"] == "<i>"


def test_a_claim_shows_its_rule_its_command_its_runs_and_the_verdicts_on_other_corpora() -> None:
    other = claim()["other_corpora"][0] | {"evidence": ["0123456789"], "needs": "more seeds"}
    made = page([Run(recorded()), Run(recorded(**diverged()))], [claim(other_corpora=[other])], NOTHING)
    article = made[made.index("<article") : made.index("</article>")]
    words = ("not run", "A3 &lt; 15", "grid=section3_2", "12.5 GPU hours", 'title="0123456789"', "more seeds")
    assert [word for word in words if word not in article] == []
    assert 'title="abcdef0123"' not in article and "1 diverged" in made


def test_runs_of_another_length_are_another_arm_than_those_of_their_name() -> None:
    runs = [made_run(seed=1), made_run(seed=2), made_run(seed=1, train__max_epoch=30)]
    assert [arm["seeds"] for arm in arms_of(runs)] == [[1, 2], [1]]


def test_arms_of_different_depths_are_told_apart() -> None:
    (usual,), (deep,), (encoder,) = (arms_of([made_run(exp, model__layers=layers)]) for exp, layers in (
        ("toy_postln_warm", 6), ("toy_postln_warm", 12), ("toybert_postln_warm_linear", 12)))  # fmt: skip
    assert deep["schedule"] == f"{usual['schedule']}, 12+12 layers"
    assert encoder["schedule"].endswith(", 12 layers")


def test_no_records_and_no_claims_are_a_page_too() -> None:
    Reader(page([], [], NOTHING))


def test_findings_without_their_figures_are_a_page_too() -> None:
    part = {"findings": [one for one in committed.theory()["findings"] if one["id"] == "TH-6"], "figures": {}}
    Reader(page([], [], part))


def test_every_corpus_has_a_name_and_a_place_in_the_order() -> None:
    assert {corpus for others in OTHER_CORPORA.values() for corpus in others} == {*TESTED} < {*CORPORA}
    assert named("wikinews, masked_lm") == "Wikinews, masked LM"
    assert named("iwslt14-60") == named("iwslt-60") == "IWSLT14, 60 % of the training text"
    shuffled = ["mine", "wikinews, masked_lm", "multi30k", "toy", "iwslt14-60", "iwslt14"]
    ordered = ["iwslt14", "iwslt14-60", "toy", "multi30k", "wikinews, masked_lm", "mine"]
    assert sorted(shuffled, key=corpus_order) == ordered
