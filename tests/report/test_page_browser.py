"""The page in a real browser: it complains of nothing, filters and points, and fits wide and narrow, light and dark."""

import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ln_repro.report.page import arms_of, page
from ln_repro.report.tables import Table
from tests import committed
from tests.waiting import HANGS_SECONDS

FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars
--disable-background-networking --virtual-time-budget=5000 --dump-dom""".split()
LISTENS = """<head><script>
const complaints = [];
addEventListener("error", (event) => complaints.push(event.message));
console.error = console.warn = (...words) => complaints.push(words.join(" "));
</script>"""
ANSWERS = """<script>
const settled = () => new Promise((done) => setTimeout(done, 60));
const shown = () => [document.querySelectorAll("#arms tbody tr:not([hidden])").length,
  ...[...document.querySelectorAll("[data-explore]")].map((host) => +host.dataset.series)];
addEventListener("load", async () => {
  const answer = await (async () => { SCRIPT })();
  document.body.replaceChildren(JSON.stringify({ answer, complaints }));
  document.body.id = "answer";
});
</script></body>"""
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Return a function that runs a script in the page of the committed records, and returns what it returns."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        if os.environ.get("CI_BROWSER") == "required":
            pytest.fail("CI_BROWSER=required, and there is no chromium or chrome on the PATH")
        pytest.skip("no chromium or chrome on the PATH")
    folder: Path = tmp_path_factory.mktemp("page")
    (folder / "figures").symlink_to(committed.RESULTS / "figures")
    table = Table(["claim", "effect"], [["Post-LN needs warm-up", "x4.5 in rate"]] * 3)
    text = page(committed.archive().kept.runs, {"Claims": table}, {"rates"}).replace("<head>", LISTENS)

    def run(script: str, width: int = 1280, *flags: str) -> Any:
        path = folder / "page.html"
        path.write_text(text.replace("</body>", ANSWERS.replace("SCRIPT", script)))
        command = [program, *FLAGS, f"--user-data-dir={folder}/profile", f"--window-size={width},900", *flags]
        done = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, timeout=HANGS_SECONDS)
        answers = re.findall('<body id="answer">(.*)</body>', done.stdout, re.DOTALL)
        assert answers, done.stderr
        found = json.loads(html.unescape(answers[0]))
        assert found["complaints"] == []
        return found["answer"]

    return run


def passing(**wanted: list[object]) -> list[int]:
    """Return how many arms have one of the values wanted of each axis, and of their runs, those with each curve."""
    runs = committed.archive().kept.runs
    arms = [arm for arm in arms_of(runs) if all(arm[axis] in values for axis, values in wanted.items())]
    drawn = [run for run in runs if any(run.record.id in arm["ids"] for arm in arms)]
    return [len(arms), sum(bool(run.training_curve) for run in drawn),
            sum(bool(run.curve("test_bleu_tokenised")) for run in drawn)]  # fmt: skip


def test_filters_choose_the_runs_that_are_drawn(ask: Ask) -> None:
    clicks = [("warm", "true"), ("optimizer", "sgd"), ("norm", "postln"), ("data", "multi30k"), ("norm", "preln")]
    click = "document.querySelector(`.filters input[name=${name}][value=${value}]`).click();"
    loop = f"for (const [name, value] of {json.dumps(clicks)}) {{ {click} all.push(shown()); }}"
    first: dict[str, list[object]] = {"data": ["toy"], "optimizer": ["adam"], "norm": ["postln", "preln"]}
    states = [first]  # the corpus with most runs, Adam, the paper's norms
    for change in ({"warm": [False]}, {"optimizer": ["adam", "sgd"]}, {"norm": ["preln"]}, {"data": ["multi30k"]},
                   {"norm": []}):  # fmt: skip
        states.append(states[-1] | change)
    drawn = "document.querySelectorAll('[data-explore] canvas').length"
    found = ask(f"const all = [shown()]; {loop} return [all, {drawn}];")
    assert found == [[passing(**state) for state in states], 0] and found[0][0][0] > 2


def test_pointing_at_a_curve_says_which_it_is_and_marks_its_arm(ask: Ask) -> None:
    tip, label, hot, after = ask("""
        const host = document.querySelector("[data-explore=bleu]");
        const chart = [...charts].find((one) => host.contains(one.root));
        const firsts = chart.data.map((values, at) => (at ? values[0] ?? 0 : 0));
        const top = firsts.indexOf(Math.max(...firsts));
        const box = chart.over.getBoundingClientRect();
        const at = { clientX: box.left + chart.valToPos(chart.data[0][0], "x"),
                     clientY: box.top + chart.valToPos(firsts[top], "y"), bubbles: true };
        const moved = (type, where) => { chart.over.dispatchEvent(new MouseEvent(type, where)); return settled(); };
        const hot = () => document.querySelectorAll("#arms tr.hot").length;
        await moved("mouseenter", at); await moved("mousemove", at);
        const seen = [host.querySelector(".tip").innerText, chart.series[top].source.label, hot()];
        await moved("mouseleave", at);
        return [...seen, [hot(), host.querySelector(".tip").hidden]];
    """)
    assert "epoch" in tip and label in tip and "peak rate" in label and hot == 1 and after == [0, True]


@pytest.mark.parametrize(("width", "dark"), [(500, True), (1920, False)])
def test_it_fits_and_can_be_read(ask: Ask, width: int, dark: bool) -> None:
    """The least contrast of text on the page's background is by WCAG's formula."""
    overflow, canvases, image, back, contrast = ask("""
        const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
            .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const back = light(getComputedStyle(document.body).backgroundColor);
        const parts = [...document.querySelectorAll("h1, h2, p, dd, dt, td, th, a, figcaption, legend, output")];
        const contrasts = parts.map((part) => { const front = light(getComputedStyle(part).color);
            return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05); });
        return [document.documentElement.scrollWidth - innerWidth, document.querySelectorAll(".chart canvas").length,
                document.querySelector("#rates img").naturalWidth, back, Math.min(...contrasts)];
    """, width, *["--force-dark-mode"] * dark)  # fmt: skip
    assert overflow <= 0 and canvases == 2 and image > 0
    assert (back < 0.5) is dark and contrast >= 4.5
