/* Colours, layouts and the list of charts. */
const DATA = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const state = { testbed: 0, printing: false };
const testbeds = [...new Set(DATA.entries.map((entry) => entry.testbed))];
const shownEntries = () => DATA.entries.filter((entry) => entry.testbed === testbeds[state.testbed]);

/* Distinguishable with any colour vision, and by their dashes as well. */
const LINES = {
  light: ["#332288", "#117733", "#b5479b", "#c4533f", "#2a9d8f", "#8a8420", "#882255", "#3f8fb5"],
  dark: ["#a9b4ff", "#6fd58b", "#eea2e3", "#ff9d8a", "#6fe0d0", "#dede72", "#e58fb0", "#8fd3f5"],
};
/* Coprime with the number of colours: a pair recurs only after 56 lines. */
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px 2px"];

function isDark() {
  if (state.printing) return false;
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/* A custom property as a colour that a chart understands. */
const probe = document.body.appendChild(document.createElement("span"));
probe.hidden = true;
function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}
const verdictColour = (word) => DATA.verdicts[word][isDark() ? "dark" : "light"];
const lineColour = (i) => LINES[isDark() ? "dark" : "light"][i % LINES.light.length];
const lineDash = (i) => DASHES[i % DASHES.length];

/* Plotly interprets some HTML in texts, so names are escaped. */
function safe(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

const isNarrow = () => window.innerWidth < 640;

/* A long name is shortened in the middle. */
function short(text, most = isNarrow() ? 20 : 28) {
  const letters = [...String(text)], tail = Math.floor((most - 1) / 2);
  if (letters.length <= most) return String(text);
  return `${letters.slice(0, most - 1 - tail).join("")}…${letters.slice(-tail).join("")}`;
}
const shortSafe = (text) => safe(short(text));

/* An annotation that begins with a name; hovering shows the full name. */
const named = (name, more) => ({ text: `<b>${shortSafe(name)}</b>`, hovertext: short(name) === String(name) ? undefined : safe(name), showarrow: false, ...more });

/* Tick labels with one name for each of `values`. */
const nameTicks = (values, names) => ({ type: "category", tickmode: "array", tickvals: values, ticktext: names.map((name) => safe(short(name, isNarrow() ? 14 : 28))) });

/* Height in pixels that a legend needs beyond the two lines every chart has room for. */
function legendRoom(entries, place) {
  const letters = Math.max(...entries.map((entry) => short(entry.label).length), 1);
  const across = Math.max(1, Math.floor(((byId(place)?.clientWidth || 500) - 60) / (7 * letters + 48)));
  return 19 * Math.max(0, Math.ceil(entries.length / across) - 2);
}

function axis(title, more = {}) {
  return {
    title: { text: title, font: { size: 12, color: colour("soft") }, standoff: 8 },
    gridcolor: colour("rule"), linecolor: colour("rule"), zeroline: false,
    tickfont: { size: 11, color: colour("soft") }, automargin: true, fixedrange: true, ...more,
  };
}

/* 1, 2, 5, 10, 20 ... between the smallest and the largest value. */
function roundValues(values) {
  const low = Math.min(...values), high = Math.max(...values), ticks = [];
  for (let ten = Math.floor(Math.log10(low)); ten <= Math.log10(high); ten++) {
    ticks.push(...[1, 2, 5].map((v) => v * 10 ** ten).filter((v) => v >= low && v <= high));
  }
  return ticks;
}

/* Ticks at decades; a narrow range also gets ticks in between. */
function logAxis(title, values, more = {}) {
  const positive = values.filter((v) => v > 0 && Number.isFinite(v));
  const decades = Math.log10(Math.max(...positive) / Math.min(...positive));
  const step = decades > 6 ? { dtick: 2 } : decades > 1.6 ? { dtick: 1 } : decades > 0.4 ? { tickvals: roundValues(positive) } : { nticks: 4 };
  return axis(title, { type: "log", exponentformat: "power", ...step, ...more });
}

function layout(more = {}) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("ink") },
    autosize: true, margin: { l: 48, r: 12, t: 8, b: 40 }, height: 340, showlegend: false, dragmode: false,
    hoverlabel: {
      bgcolor: colour("paper"), bordercolor: colour("rule"), align: "left",
      font: { color: colour("ink"), size: 12, family: getComputedStyle(document.body).fontFamily },
    },
    legend: { orientation: "h", x: 0, y: -0.17, yanchor: "top", font: { size: 12 }, itemclick: false, itemdoubleclick: false },
    ...more,
  };
}

/* Width in pixels of an A4 sheet, and of half of it. */
const PRINTED = { whole: 676, half: 312 };
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false };

/* Resolves when the chart library and the data are loaded. */
let chartsAreReady;
const chartsReady = new Promise((done) => { chartsAreReady = done; });

/* Each chart is a function of the selection that returns data and layout, or null. */
const charts = new Map();
function chart(id, draw, then) {
  if (byId(id)) charts.set(id, { draw, then, isDrawn: false });
}

function drawChart(id) {
  const { draw, then } = charts.get(id);
  const place = byId(id);
  // What is folded or behind another door has no size: it is drawn when it is shown.
  if (!state.printing && !place.checkVisibility()) { charts.get(id).isDrawn = false; watcher.observe(place); return; }
  const spec = draw();
  Object.assign(charts.get(id), { isDrawn: true, width: place.clientWidth });
  if (!spec) {
    Plotly.purge(place);
    place.style.height = "";
    place.replaceChildren(Object.assign(document.createElement("p"), { className: "chart-empty", textContent: "No data for this chart." }));
    return;
  }
  if (place.querySelector(".chart-empty")) place.replaceChildren();
  place.style.height = `${spec.layout.height}px`;
  // When printing starts, the browser still has the layout of the screen.
  if (state.printing) spec.layout.width = place.closest(".grid:not(.loose) > figure:not(.full)") ? PRINTED.half : PRINTED.whole;
  Plotly.react(place, spec.data, spec.layout, { ...CONFIG, ...spec.config });
  if (then) then(place);
}

function redrawCharts() {
  for (const [id, one] of charts) if (one.isDrawn) drawChart(id);
}

const watcher = new IntersectionObserver((observed) => {
  for (const { isIntersecting, target } of observed) if (isIntersecting) { watcher.unobserve(target); drawChart(target.id); }
}, { rootMargin: "300px" });

/* Draw the charts in view first and the others of the door when idle; those that are folded
   wait until they are shown. Resolves when all that can be seen are drawn. */
function drawWhenSeen() {
  const waiting = [...charts.keys()].filter((id) => !charts.get(id).isDrawn);
  for (const id of waiting) watcher.observe(byId(id));
  const idle = window.requestIdleCallback || ((f) => setTimeout(f, 50));
  return new Promise((done) => {
    const next = () => {
      const id = waiting.shift();
      if (id === undefined) { document.documentElement.dataset.drawn = "all"; performance.mark("drawn"); done(); return; }
      if (!charts.get(id).isDrawn && byId(id).checkVisibility()) { watcher.unobserve(byId(id)); drawChart(id); }
      idle(next);
    };
    idle(next);
  });
}
