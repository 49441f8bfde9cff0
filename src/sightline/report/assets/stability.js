/* Stability of the reference: distributions, quantiles, drift. */
const PARTS = {
  train: { colour: "train", dash: "dot" },
  normal: { colour: "soft", dash: "solid" },
  attack: { colour: "tau", dash: "dash" },
};
for (const [name, part] of Object.entries(PARTS)) part.label = DATA.parts[name];

function spreadChart() {
  const entries = shownEntries(), n = entries.length, gap = 0.3, total = n + gap * (n - 1);
  const chart = layout({
    height: Math.max(380, 84 * n + 80), showlegend: true, margin: { l: 12, r: 12, t: 22, b: 44 }, annotations: [],
    legend: { orientation: "h", x: 0, y: -0.16, yanchor: "top", itemclick: false, itemdoubleclick: false },
    xaxis: logAxis("deviation score / mean of train", entries.flatMap((e) => e.spread.at.map((v) => v / e.train_mean)), { anchor: n > 1 ? `y${n}` : "y" }),
  });
  const data = [];
  entries.forEach((entry, i) => {
    const y = i ? `y${i + 1}` : "y";
    chart[i ? `yaxis${i + 1}` : "yaxis"] = axis("", {
      showticklabels: false, showgrid: false, range: [0, 1.05],
      domain: [1 - (i * (1 + gap) + 1) / total, 1 - (i * (1 + gap)) / total].map((v) => Math.min(Math.max(v, 0), 1)),
    });
    chart.annotations.push(named(entry.label, { xref: "paper", x: 0, xanchor: "left", yref: `${y} domain`, y: 0.98, yanchor: "bottom", font: { size: 12 } }));
    for (const [name, part] of Object.entries(PARTS)) {
      const density = entry.spread.density[name];
      if (!density) continue;
      data.push({
        type: "scatter", mode: "lines", yaxis: y, name: part.label, legendgroup: name, showlegend: i === 0,
        x: entry.spread.at.map((v) => v / entry.train_mean), y: density,
        line: { color: colour(part.colour), width: 1.8, dash: part.dash, shape: "hvh" }, fill: name === "normal" ? "tozeroy" : undefined,
        fillcolor: name === "normal" ? "rgba(128,128,128,.14)" : undefined,
        hovertemplate: `${part.label}<br>%{x:.3g} times mean of train<extra>${safe(entry.label)}</extra>`,
      });
    }
  });
  return { data, layout: chart };
}

function quantileChart() {
  const entries = shownEntries(), data = [];
  let low = Infinity, high = 0;
  entries.forEach((entry, i) => {
    const half = entry.quantiles.p / 2, x = entry.quantiles.ideal.map((v) => v / half);
    low = Math.min(low, x[0]);
    high = Math.max(high, x[x.length - 1]);
    for (const [name, part] of [["train", "dot"], ["normal", "solid"]]) {
      const measured = entry.quantiles.measured[name];
      if (!measured) continue;
      data.push({
        type: "scatter", mode: "lines", name: shortSafe(entry.label), legendgroup: entry.key, showlegend: name === "normal",
        x, y: measured.map((v) => Math.max(v / half, 1e-6)), line: { color: lineColour(i), width: name === "normal" ? 2 : 1.4, dash: part },
        hovertemplate: `${safe(entry.label)}, ${PARTS[name].label}<br>%{y:.3g}; ideal %{x:.3g}<extra></extra>`,
      });
    }
  });
  return {
    data, layout: layout({
      height: Math.max(380 + legendRoom(entries, "chart-quantiles"), 84 * entries.length + 80), showlegend: true, margin: { l: 52, r: 12, t: 22, b: 44 },
      legend: { orientation: "h", x: 0, y: -0.16, yanchor: "top", itemclick: false, itemdoubleclick: false },
      shapes: [{ type: "line", x0: low, x1: high, y0: low, y1: high, line: { color: colour("ink"), width: 1.2, dash: "dash" } }],
      annotations: [{ text: `solid: ${PARTS.normal.label}; dotted: ${PARTS.train.label}`, showarrow: false, xref: "paper", yref: "paper", x: 0, xanchor: "left", y: 1, yanchor: "bottom", font: { size: 12, color: colour("soft") } }],
      xaxis: axis("ideal deviation score / (p/2)", { type: "log", nticks: 6 }), yaxis: axis("deviation score / (p/2)", { type: "log", exponentformat: "power", nticks: 7 }),
    }),
  };
}

function driftChart() {
  const entries = shownEntries().filter((entry) => entry.drift.robust !== null);
  if (!entries.length) return null;
  const names = entries.map((entry) => safe(entry.label));
  const at = (key) => entries.map((entry) => Math.max(entry.drift[key], 1e-3));
  const points = (key, symbol, name, size) => ({
    type: "scatter", mode: "markers", x: at(key), y: names, marker: { symbol, size, color: entries.map((_, i) => lineColour(i)) },
    customdata: names, hovertemplate: `%{customdata}: ${name} %{x:.3g} times mean of train<extra></extra>`,
  });
  const shapes = entries.map((entry, i) => ({ type: "line", x0: at("robust")[i], x1: at("mean")[i], y0: i, y1: i, line: { color: colour("rule"), width: 3 }, layer: "below" }));
  const ticks = nameTicks(names, entries.map((entry) => entry.label));
  ticks.ticktext = ticks.ticktext.map((text, i) => text + (entries[i].drift.mean_dominated ? " †" : ""));
  shapes.push({ type: "line", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1, line: { color: colour("soft"), width: 1, dash: "dot" } });
  return {
    data: [points("mean", "diamond", "mean", 11), points("robust", "circle", "median", 9)],
    layout: layout({
      height: 70 + 38 * entries.length, shapes, margin: { l: 60, r: 16, t: 8, b: 44 },
      xaxis: logAxis(isNarrow() ? "multiple of train (1: no drift)" : "multiple of mean deviation score in train (1: no drift)", [...at("mean"), ...at("robust")]),
      yaxis: axis("", { ...ticks, autorange: "reversed", showgrid: false, tickfont: { size: 12, color: colour("ink") } }),
    }),
  };
}

chart("chart-spread", spreadChart);
chart("chart-quantiles", quantileChart);
chart("chart-drift", driftChart);
