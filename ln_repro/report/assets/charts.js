"use strict";
// Draws the charts of the page with uPlot: one function from series to a chart, with a tip and emphasis.

const DATA = JSON.parse(document.getElementById("data").textContent);
const named = (names, row) => Object.fromEntries(names.map((name, at) => [name, row[at]]));
const ARMS = DATA.arms.map((row) => named(DATA.arm, row));
const RUNS = ARMS.flatMap((arm, at) => arm.runs.map((row) => ({ arm: at, ...named(DATA.run, row) })));
const DASHES = { dashed: [7, 5], dotted: [2, 4] };
const charts = new Set();

const colour = (name) => {
  const style = getComputedStyle(document.documentElement);
  const at = (key) => style.getPropertyValue(`--${key}`).trim();
  return at(name) || at(`${name}-adam`) || at("other");
};
const number = (value) => (Math.abs(value) >= 100 ? value.toFixed(1) : String(+value.toPrecision(4)));
const element = (tag, attributes, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

/** Return the label of an arm's value in a filter. */
const label = (filter, arm) =>
  document.querySelector(`.filters [name=${filter}][value="${arm[filter]}"] + span`).textContent;
const nameOf = (arm) => `${label("norm", arm)}, ${label("optimizer", arm)}`;

/** Return the index of the value nearest to `at` that is not missing: series do not share all their points. */
function nearest(values, at) {
  for (let reach = 0; reach < values.length; reach++) {
    if (values[at - reach] != null) return at - reach;
    if (values[at + reach] != null) return at + reach;
  }
  return null;
}

/** Return uPlot's description of one line. */
function line(series) {
  const stroke = () => colour(series.colour);
  const points = { show: series.x.length <= 16, size: 5, fill: stroke, stroke, width: 1 };
  return { label: series.label, stroke, dash: DASHES[series.dash], spanGaps: true, width: 2, source: series, points };
}

/** Return how far the pointer is from a line, also between its points. */
function distance(chart, which, index, position, pointer) {
  const [xs, ys] = [chart.data[0], chart.data[which]];
  const at = chart.posToVal(chart.cursor.left, "x");
  let [before, after] = [-1, -1];
  ys.forEach((y, i) => {
    if (y != null && xs[i] <= at) before = i;
    if (y != null && xs[i] >= at && after < 0) after = i;
  });
  if (before < 0 || after < 0 || before === after) return Math.abs(position - pointer);
  const part = (at - xs[before]) / (xs[after] - xs[before]);
  const [from, to] = [before, after].map((i) => chart.valToPos(ys[i], "y"));
  return Math.abs(from + part * (to - from) - pointer);
}

/** Write what the pointer is at: the focused series, and the others where they are few. */
function tip(host, x) {
  const box = element("div", { class: "tip", hidden: "" });
  const update = (chart) => {
    const { left, top, idxs } = chart.cursor;
    const shown = chart.series.map((one, at) => ({ one, at })).filter(({ one, at }) => at && idxs[at] != null);
    const focused = shown.find(({ at }) => at === chart.focusedAt);
    const chosen = shown.length > 6 ? [focused].filter(Boolean) : shown;
    box.hidden = left < 0 || !chosen.length;
    if (box.hidden) return;
    const at = idxs[(focused ?? chosen[0]).at];
    const rows = chosen.map(({ one, at: which }) => {
      const text = `${one.label}: ${number(chart.data[which][idxs[which]])}`;
      return element("div", {}, chosen.length > 1 && which === focused?.at ? element("b", {}, text) : text);
    });
    box.replaceChildren(element("div", { class: "note" }, `${x} ${chart.data[0][at]}`), ...rows);
    const [area, wide] = [chart.over, box.offsetWidth];
    const start = area.offsetLeft + left;
    const right = start + 16 + wide > host.clientWidth ? start - wide - 12 : start + 16;
    box.style.left = `${Math.max(0, Math.min(right, host.clientWidth - wide))}px`;
    box.style.top = `${Math.max(0, area.offsetTop + top - box.offsetHeight - 8)}px`;
  };
  return { box, update };
}

function axis(label, side) {
  return {
    label, space: side ? 36 : 64, labelSize: 20, labelGap: 0, size: side ? 44 : 26, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif",
    stroke: () => colour("soft"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { show: false },
    values: (chart, splits) => splits.map((split) => String(+split.toPrecision(6))),
  };
}

/** Return the ends of an axis, from 0. */
const extent = (low, high) => [Math.min(0, low), high + 0.06 * (high - Math.min(0, low)) || 1];

/** Draw one chart into `host`; `spec` has `x`, `y`, `series`, and `focus`, called with the series pointed at. */
function draw(host, spec) {
  const data = uPlot.join(spec.series.map((one) => [one.x, one.y]));
  const whole = data[0].every(Number.isInteger) && data[0].length <= 60;
  const hover = tip(host, spec.x);
  const horizontal = axis(spec.x, 0);
  if (whole) Object.assign(horizontal, { incrs: [1, 2, 5, 10, 20, 50, 100, 200], space: 34 });
  const options = {
    width: host.clientWidth, height: host.clientHeight, padding: [12, 12, 0, 0],
    scales: { x: { time: false, range: (chart, low, high) => [low, high] }, y: { range: (chart, low, high) => extent(low, high) } },
    axes: [horizontal, axis(spec.y, 1)],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false, focus: { prox: 30, dist: distance },
      dataIdx: (chart, at, index) => (at ? nearest(chart.data[at], index) : index) },
    focus: { alpha: 1 },
    series: [{}, ...spec.series.map(line)],
    hooks: {
      setCursor: [hover.update],
      setSeries: [(chart, at) => {
        chart.focusedAt = at;
        hover.update(chart);
        spec.focus(at == null ? null : chart.series[at].source);
      }],
    },
  };
  const chart = new uPlot(options, data, host);
  host.append(hover.box);
  charts.add(chart);
  const watch = new ResizeObserver(() => chart.setSize({ width: host.clientWidth, height: host.clientHeight }));
  watch.observe(host);
  return { chart, remove: () => { watch.disconnect(); charts.delete(chart); chart.destroy(); hover.box.remove(); } };
}

const dashOf = (arm) => (arm.warm ? "" : arm.decay === "literal" ? "dotted" : "dashed");

/** Return the series of runs: their BLEU by epoch, or their training loss by update. */
function runSeries(runs, metric) {
  return runs.map((run) => [run, ARMS[run.arm]]).map(([run, arm]) => ({
    arm: run.arm, label: `${nameOf(arm)}, ${arm.schedule}, peak rate ${arm.rate}, seed ${run.seed} (${run.id})`,
    colour: `${arm.norm}-${arm.optimizer}`, dash: dashOf(arm),
    x: DATA.grids[metric === "train" ? run.updates : run.epochs], y: run[metric],
  })).filter((series) => series.x.length);
}

const AXES = { bleu: ["epoch", "BLEU"], train: ["update", "bits per token"] };

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.redraw(false)));
