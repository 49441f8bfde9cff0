/* Energy through time, one row for each detector, all on one time axis. */
const energyView = { range: null, timer: 0 };

function moments(entry) {
  const last = entry.energy.n - 1;
  return [timeAt(entry.clock, 0), timeAt(entry.clock, last)];
}

function wholeRange(entries) {
  const ends = entries.map(moments);
  return [Math.min(...ends.map((e) => e[0])), Math.max(...ends.map((e) => e[1]))];
}

/* The part of an energy trace in view, with as many points as the screen can show. */
function energyPoints(entry, range, nColumns) {
  const from = Math.max(0, Math.floor(rowAt(entry.clock, range[0])) - 1);
  const to = Math.min(entry.energy.n, Math.ceil(rowAt(entry.clock, range[1])) + 2);
  const rows = thinned(entry.levels, from, to, nColumns);
  const x = [], y = [];
  let k = upperBound(entry.breaks, from);
  for (const row of rows) {
    if (k < entry.breaks.length && row >= entry.breaks[k]) {
      x.push(null); y.push(null);
      while (k < entry.breaks.length && row >= entry.breaks[k]) k++;
    }
    x.push(timeAt(entry.clock, row));
    y.push(energyAt(entry, row));
  }
  return { x, y, text: timeTexts(entry.clock, x) };
}

/* Bounds of the log axis; a few rows near zero do not stretch them. */
function energyBounds(entry) {
  const n = entry.energy.n, sample = [];
  for (let i = 0; i < 2000; i++) sample.push(entry.levels[Math.floor((i * n) / 2000)]);
  sample.sort((a, b) => a - b);
  const { low, high, levels } = entry.energy;
  const bottom = low + (sample[10] / levels) * (high - low);
  const top = Math.max(high, Math.log10(entry.tau99 || 1));
  return [Math.min(bottom, Math.log10(Math.max(entry.train_mean, 1e-9))) - 0.1, top];
}

const mostTicks = () => (isNarrow() ? 4 : 10);
const columnsOf = (place) => Math.max(200, Math.floor((place.clientWidth || 900) - 70));

function energyChart() {
  const entries = shownEntries();
  const place = byId("chart-energy");
  const range = energyView.range || wholeRange(entries);
  const gap = 0.28, total = entries.length + gap * (entries.length - 1);
  // On paper all of them stand on one page.
  const each = Math.min(entries.length > 2 ? 132 : 220, state.printing ? 860 / total : Infinity);
  const clock = entries[0].clock;
  const chart = layout({
    height: Math.round(each * total + 60), dragmode: isNarrow() ? false : "zoom", hovermode: "closest",
    margin: { l: 52, r: 12, t: 22, b: 36 }, shapes: [], annotations: [],
    xaxis: timeAxis(clock, range, mostTicks(), { fixedrange: false, anchor: `y${entries.length > 1 ? entries.length : ""}` }),
  });
  const data = [];
  entries.forEach((entry, i) => {
    const y = i ? `y${i + 1}` : "y", name = i ? `yaxis${i + 1}` : "yaxis";
    const [bottom, top] = energyBounds(entry);
    const head = Math.max(0.18 * (top - bottom), 0.1);
    chart[name] = axis("", {
      type: "log", range: [bottom, top + 1.6 * head], nticks: 4, exponentformat: "power",
      domain: [1 - (i * (1 + gap) + 1) / total, 1 - (i * (1 + gap)) / total].map((v) => Math.min(Math.max(v, 0), 1)),
    });
    chart.annotations.push(named(entry.label, {
      xref: "paper", x: 0, xanchor: "left", yref: `${y} domain`, y: 1, yanchor: "bottom", font: { size: 12.5 },
    }));
    data.push({
      ...energyPoints(entry, range, columnsOf(place)), type: "scatter", mode: "lines", yaxis: y,
      line: { width: 1, color: colour("soft") }, hovertemplate: `deviation score %{y:.3g}<br>${timeField(entry.clock)}<extra></extra>`, connectgaps: false,
    });
    chart.shapes.push(...energyShapes(entry, y));
    data.push(attackMarks(entry, y, 10 ** (top + 0.85 * head)));
  });
  return { data, layout: chart };
}

function energyShapes(entry, y) {
  const level = (value, name, dash) => ({
    type: "line", xref: "paper", x0: 0, x1: 1, yref: y, y0: value, y1: value,
    line: { color: colour(name), width: 1.3, dash },
  });
  const shapes = entry.attacks.map((attack) => ({
    type: "rect", xref: "x", x0: timeAt(entry.clock, attack.start), x1: timeAt(entry.clock, attack.stop - 1),
    yref: `${y} domain`, y0: 0, y1: 1, layer: "below", fillcolor: verdictColour(attack.verdict), opacity: 0.24,
    line: { width: 1, color: verdictColour(attack.verdict) },
  }));
  if (entry.tau99 > 0) shapes.push(level(entry.tau99, "tau", "solid"));
  if (entry.train_mean > 0) shapes.push(level(entry.train_mean, "train", "dot"));
  if (entry.drift_floor > 0) shapes.push(level(entry.drift_floor, "floor", "dash"));
  return shapes;
}

function attackMarks(entry, y, height) {
  return {
    type: "scatter", mode: "markers", yaxis: y, name: "attacks", cliponaxis: false,
    x: entry.attacks.map((a) => timeAt(entry.clock, (a.start + a.stop - 1) / 2)), y: entry.attacks.map(() => height),
    customdata: entry.attacks.map((a) => a.key),
    text: entry.attacks.map((a) => `attack ${safe(a.id)}: ${safe(a.verdict)}, ${percent(a.coverage)} of its rows over the p99 limit`),
    marker: {
      size: 8, symbol: entry.attacks.map((a) => DATA.verdicts[a.verdict].marker),
      color: entry.attacks.map((a) => verdictColour(a.verdict)),
      line: { width: 1.5, color: entry.attacks.map((a) => verdictColour(a.verdict)) },
    },
    hovertemplate: "%{text}<extra></extra>",
  };
}

const asMoment = (value) => (typeof value === "string" ? Date.parse(`${value.replace(" ", "T")}Z`) : value);

function watchEnergy(place) {
  if (place.dataset.watched) return;
  place.dataset.watched = "yes";
  place.on("plotly_relayout", (event) => {
    const low = event["xaxis.range[0]"] ?? event["xaxis.range"]?.[0], high = event["xaxis.range[1]"] ?? event["xaxis.range"]?.[1];
    if (low === undefined) return;
    energyView.range = [asMoment(low), asMoment(high)];
    clearTimeout(energyView.timer);
    energyView.timer = setTimeout(refine, 30);
  });
  place.on("plotly_click", (event) => {
    const key = event.points[0].customdata;
    if (key) location.hash = `#${key}`;
  });
}

/* Load finer data for the range in view. */
function refine() {
  const place = byId("chart-energy");
  const entries = shownEntries(), { clock } = entries[0];
  const points = entries.map((entry) => energyPoints(entry, energyView.range, columnsOf(place)));
  const finer = Object.fromEntries(["x", "y", "text"].map((key) => [key, points.map((p) => p[key])]));
  const { tickvals, ticktext } = isZoned(clock) ? clockTicks(clock, energyView.range, mostTicks()) : {};
  const ticks = tickvals ? { "xaxis.tickvals": tickvals, "xaxis.ticktext": ticktext } : {};
  Plotly.update(place, finer, ticks, points.map((_, i) => 2 * i));
}

function zoomEnergy(how) {
  if (!charts.get("chart-energy").isDrawn) return;
  const whole = wholeRange(shownEntries());
  const [low, high] = energyView.range || whole;
  const width = high - low, middle = (low + high) / 2;
  const widths = { in: Math.min(width, Math.max(width / 2, smallestRange(middle))), out: 2 * width, all: whole[1] - whole[0] };
  const shifts = { back: -width / 2, forward: width / 2 };
  const wanted = Math.min(widths[how] ?? width, whole[1] - whole[0]);
  // At an end of the record the range moves and keeps its width.
  const from = Math.min(Math.max(middle + (shifts[how] ?? 0) - wanted / 2, whole[0]), whole[1] - wanted);
  if (wanted > 0) Plotly.relayout("chart-energy", { "xaxis.range": [from, from + wanted] });
}

/* About five rows of the detector with the densest rows, at this point or on average. */
function smallestRange(middle) {
  return Math.min(...shownEntries().flatMap((entry) => {
    const [first, last] = moments(entry), row = rowAt(entry.clock, middle);
    const near = timeAt(entry.clock, row + 2.5) - timeAt(entry.clock, row - 2.5);
    return [near, (5 * (last - first)) / Math.max(entry.energy.n - 1, 1)];
  }).filter((range) => range > 0));
}

chart("chart-energy", energyChart, watchEnergy);
for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => zoomEnergy(button.dataset.zoom));
}
