"""The page in a real browser: it complains of nothing, filters and points, and fits wide and narrow, light and dark."""

import os
from collections.abc import Iterator

import pytest

from ln_repro.claims.judge import theory_rows
from ln_repro.report.page import arms_of, page
from tests import committed
from tests.report.browser import Browser, browser, find_browser
from tests.report.claims import claims

LEAST_CONTRAST = """(() => {
    const light = text => {
        const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const back = light(getComputedStyle(document.body).backgroundColor);
    const kinds = 'h1, h2, p, dd, dt, td, th, a, .verdict, figcaption, legend, output, .key li';
    const parts = document.querySelectorAll(kinds);
    return Math.min(...[...parts].map(part => {
        const [high, low] = [back, light(getComputedStyle(part).color)].sort((a, b) => b - a);
        return (high + 0.05) / (low + 0.05);
    }));
})()"""
"""The least contrast of text on the page's background, by WCAG's formula."""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return a tab with the page of the committed records."""
    program = find_browser()
    if program is None:
        if os.environ.get("CI_BROWSER") == "required":
            pytest.fail("CI_BROWSER=required, and there is no chromium or chrome on the PATH")
        pytest.skip("no chromium or chrome on the PATH")
    folder = tmp_path_factory.mktemp("page")
    theory = committed.theory()
    every = [*claims(), *theory_rows(theory["findings"])]
    (folder / "report.html").write_text(page(committed.archive().kept.runs, every, theory))
    with browser(program, folder / "profile") as found:
        found.look(1280)
        found.open(folder / "report.html")
        found.run("document.documentElement.style.scrollBehavior = 'auto'")
        yield found


@pytest.fixture(autouse=True)
def silence(tab: Browser) -> Iterator[None]:
    """Hold that nothing a test does makes the page complain."""
    yield
    assert tab.complaints() == []


def count(tab: Browser, selector: str) -> int:
    """Return how many elements are there."""
    return int(tab.run(f"document.querySelectorAll({selector!r}).length"))


def shown(tab: Browser) -> tuple[int, set[int]]:
    """Return how many arms are in the table, and how many curves each chart draws."""
    arms = count(tab, "#arms tbody tr:not([hidden])")
    series = tab.run("[...document.querySelectorAll('[data-explore]')].map(host => +host.dataset.series)")
    return arms, set(series)


def clicked(tab: Browser, name: str, value: str) -> tuple[int, set[int]]:
    """Click on a value of a filter and return what is shown."""
    tab.run(f"document.querySelector('.filters input[name={name}][value={value}]').click()")
    return shown(tab)


def test_every_claim_has_a_row_and_every_chart_is_drawn(tab: Browser) -> None:
    number = len(claims()) + len(committed.theory()["findings"])
    assert count(tab, ".verdict-table .claim-row") == number == count(tab, "article.claim")
    for at in range(number):
        tab.run(f"document.querySelectorAll('article.claim')[{at}].scrollIntoView()")
        tab.settle()
    assert count(tab, ".chart") == count(tab, ".chart canvas") > 20
    painted = "[...document.querySelectorAll('.chart canvas')].every(one => one.getContext('2d').getImageData"
    assert tab.run(f"{painted}(0, 0, one.width, one.height).data.some(Boolean))")


def passing(**wanted: list[object]) -> tuple[int, set[int]]:
    """Return how many arms have one of the values wanted of each axis, and how many of their runs have a curve.

    A run that diverged in its first epoch has one of the training loss alone.
    """
    runs = committed.archive().kept.runs
    validated = {run.record.id for run in runs if run.record.epochs}
    found = [arm for arm in arms_of(runs) if all(arm[axis] in values for axis, values in wanted.items())]
    ids = {name for arm in found for name in arm["ids"]}
    return len(found), {len(ids), len(ids & validated)}


def test_filters_choose_the_runs_that_are_drawn(tab: Browser) -> None:
    norms: list[object] = ["postln", "preln"]
    first = passing(data=["toy"], optimizer=["adam"], norm=norms)  # the corpus with most runs, Adam, the paper's norms
    assert shown(tab) == first and first[0] > 2
    assert clicked(tab, "warm", "true") == passing(data=["toy"], optimizer=["adam"], norm=norms, warm=[False]) < first
    both: list[object] = ["adam", "sgd"]
    assert clicked(tab, "optimizer", "sgd") == passing(data=["toy"], optimizer=both, norm=norms, warm=[False])
    left = passing(data=["toy"], optimizer=both, warm=[False], norm=["preln"])
    assert clicked(tab, "norm", "postln") == left
    of_left, of_toy = max(left[1]), max(passing(data=["toy"])[1])
    assert tab.run("document.getElementById('shown').value") == f"{of_left} of {of_toy} runs shown"
    assert clicked(tab, "data", "multi30k") == passing(data=["multi30k"], optimizer=both, warm=[False], norm=["preln"])
    assert clicked(tab, "norm", "preln") == (0, {0}) and count(tab, "[data-explore] canvas") == 0
    tab.run("document.querySelector('.filters').reset()")
    tab.run("document.querySelector('.filters').dispatchEvent(new Event('change'))")
    assert shown(tab) == first


def test_pointing_at_a_curve_says_which_it_is_and_marks_its_arm(tab: Browser) -> None:
    tab.run("document.querySelector('[data-explore=loss]').scrollIntoView({block: 'center'})")
    tab.settle()
    x, y, label = tab.run("""(() => {
        const chart = [...charts].find(one => document.querySelector('[data-explore=loss]').contains(one.root));
        const firsts = chart.data.map((values, at) => at && chart.series[at].show ? values[0] ?? 0 : 0);
        const [top, box] = [firsts.indexOf(Math.max(...firsts)), chart.over.getBoundingClientRect()];
        const place = [box.left + chart.valToPos(chart.data[0][0], 'x'), box.top + chart.valToPos(firsts[top], 'y')];
        return [...place, chart.series[top].source.label];
    })()""")
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    tab.settle()
    tip = tab.run("document.querySelector('[data-explore=loss] .tip').innerText")
    assert "epoch" in tip and label in tip and "peak rate" in label
    assert count(tab, "#arms tr.hot") == 1
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    tab.settle()
    assert count(tab, "#arms tr.hot") == 0 and tab.run("document.querySelector('[data-explore=loss] .tip').hidden")


def test_an_arms_button_keeps_it_in_front(tab: Browser) -> None:
    press = "document.querySelector('#arms tr:not([hidden]) button').click()"
    tab.run(press)
    assert count(tab, "#arms button[aria-pressed=true]") == 1 == count(tab, "#arms tr.hot")
    tab.run(press)
    assert count(tab, "#arms button[aria-pressed=true]") == 0 == count(tab, "#arms tr.hot")


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, True), (1920, False)])
def test_it_fits_and_can_be_read(tab: Browser, width: int, dark: bool) -> None:
    tab.look(width, dark=dark)
    tab.settle()
    assert tab.run("document.documentElement.scrollWidth") <= width
    right = "one => one.getBoundingClientRect().right > innerWidth"
    assert not tab.run(f"[...document.querySelectorAll('.chart canvas')].some({right})")
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 200) is dark
    assert tab.run(LEAST_CONTRAST) >= 4.5


def test_it_asked_for_nothing_but_itself(tab: Browser) -> None:
    requests = [event["request"]["url"] for event in tab.reported("Network.requestWillBeSent")]
    assert [url.partition(":")[0] for url in requests if not url.startswith("data:")] == ["file"]
