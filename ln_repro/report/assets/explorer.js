"use strict";
// The curves of all runs: filters, two charts that point at the same arm, and the table that is their key.

const form = document.querySelector(".filters");
const rows = ARMS.map(tableRow);
const hosts = [...document.querySelectorAll(".chart[data-explore]")];
let drawn = [];
let pinned = null;

/** Return the row of an arm in the table. */
function tableRow(arm, number) {
  const row = document.getElementById("arm").content.firstElementChild.cloneNode(true);
  row.dataset.arm = number;
  row.querySelector("svg").classList.add(arm.warm ? "warm" : arm.decay);
  row.querySelector("line").style.stroke = `var(--${arm.norm}-${arm.optimizer}, var(--other))`;
  row.querySelector("button").textContent = nameOf(arm);
  const cells = [label("data", arm), arm.schedule, arm.rate, arm.nll, arm.bleu, arm.seeds];
  row.querySelectorAll("td").forEach((cell, column) => { cell.textContent = cells[column]; });
  return row;
}

/** Return which values are ticked, by the name of the filter. */
function chosen() {
  const found = {};
  for (const input of form.querySelectorAll("input")) {
    found[input.name] ??= new Set();
    if (input.checked) found[input.name].add(input.value);
  }
  return found;
}

/** Bring an arm to the front in every chart and in the table; none brings all back. */
function emphasise(arm) {
  const front = arm ?? pinned;
  for (const { chart } of drawn) {
    chart.series.slice(1).forEach((one) => { one.alpha = front == null || one.source.arm === front ? 1 : 0.14; });
    chart.redraw(false);
  }
  for (const row of rows) row.classList.toggle("hot", +row.dataset.arm === front);
}

/** Show the arms that pass the filters, and draw their runs. */
function show() {
  const wanted = chosen();
  const passes = ARMS.map((arm) => Object.entries(wanted).every(([name, values]) => values.has(String(arm[name]))));
  const runs = RUNS.filter((run) => passes[run.arm]);
  const corpus = RUNS.filter((run) => wanted.data.has(ARMS[run.arm].data)).length;
  for (const row of rows) row.hidden = !passes[row.dataset.arm];
  if (pinned != null && !passes[pinned]) pin(null);
  drawn.forEach((one) => one.remove());
  drawn = [];
  for (const host of hosts) {
    const metric = host.dataset.explore;
    const series = runSeries(runs, metric);
    const [x, y] = AXES[metric];
    host.dataset.series = series.length;
    if (series.length) drawn.push(draw(host, { x, y, series, focus: (one) => emphasise(one?.arm) }));
  }
  document.getElementById("shown").value = `${runs.length} of ${corpus} runs shown`;
  emphasise(null);
}

function pin(arm) {
  pinned = arm;
  for (const row of rows) row.querySelector("button").setAttribute("aria-pressed", String(+row.dataset.arm === pinned));
}

document.querySelector("#arms tbody").append(...rows);
for (const row of rows) {
  const arm = +row.dataset.arm;
  row.addEventListener("pointerenter", () => emphasise(arm));
  row.addEventListener("pointerleave", () => emphasise(null));
  row.querySelector("button").addEventListener("click", () => { pin(pinned === arm ? null : arm); emphasise(null); });
}
form.addEventListener("change", show);
form.addEventListener("submit", (event) => event.preventDefault());
show();
