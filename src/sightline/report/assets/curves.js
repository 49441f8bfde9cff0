/* Visibility: ROC curves, ranking against alarms, attack windows. */
function rocTraces() {
  return shownEntries().map((entry, i) => entry.roc && {
    type: "scatter", mode: "lines", name: shortSafe(entry.label), x: entry.roc.fpr, y: entry.roc.tpr,
    line: { color: lineColour(i), width: 2, dash: lineDash(i), shape: "linear" },
    hovertemplate: `${safe(entry.label)}<br>%{y:.1%} of attack rows at %{x:.2%} false alarms<extra></extra>`,
  }).filter(Boolean);
}

function rocChart() {
  const data = rocTraces();
  if (!data.length) return null;
  const shapes = [{ type: "line", x0: 0, y0: 0, x1: 1, y1: 1, line: { color: colour("soft"), width: 1, dash: "dot" } }];
  return {
    data, layout: layout({
      height: 370 + legendRoom(shownEntries(), "chart-roc"), showlegend: true, shapes,
      xaxis: axis("share of normal rows in alarm", { range: [0, 1], tickformat: ".0%" }),
      yaxis: axis("share of attack rows in alarm", { range: [0, 1.01], tickformat: ".0%" }),
    }),
  };
}

function rocLowChart() {
  const data = rocTraces();
  if (!data.length) return null;
  const { low_rate: top, pauc_rate: shaded } = DATA.method;
  const shapes = [
    { type: "line", x0: 0, y0: 0, x1: top, y1: top, line: { color: colour("soft"), width: 1, dash: "dot" } },
    { type: "rect", x0: 0, x1: shaded, yref: "paper", y0: 0, y1: 1, fillcolor: colour("accent"), opacity: 0.09, line: { width: 0 }, layer: "below" },
  ];
  return {
    data, layout: layout({
      height: 370 + legendRoom(shownEntries(), "chart-roc"), showlegend: true, shapes,
      xaxis: axis("share of normal rows in alarm", { range: [0, top], tickformat: ".0%", dtick: shaded }),
      yaxis: axis("share of attack rows in alarm", { range: [0, 1.01], tickformat: ".0%" }),
    }),
  };
}

const SIGNS = ["circle", "square", "diamond", "triangle-up", "pentagon", "star", "cross"];

/* The two charts of one row have the same height. */
const windowsHeight = (n) => Math.max(380, 70 * n + 60);

function aucF1Chart() {
  const drawn = shownEntries().map((entry, i) => ({ entry, i })).filter(({ entry }) => entry.roc && entry.roc.f1 !== null);
  if (!drawn.length) return null;
  const data = drawn.map(({ entry, i }) => {
    const { roc_auc: auc, f1, interval, f1_interval: f1s } = entry.roc;
    const bars = (pair, value) => pair && { type: "data", symmetric: false, array: [pair[1] - value], arrayminus: [value - pair[0]], color: lineColour(i), thickness: 1, width: 0 };
    return {
      type: "scatter", mode: "markers", name: shortSafe(entry.label), x: [f1], y: [auc],
      error_x: bars(f1s, f1), error_y: bars(interval, auc),
      marker: { size: 11, symbol: SIGNS[i % SIGNS.length], color: lineColour(i) },
      hovertemplate: `${safe(entry.label)}<br>ROC-AUC %{y:.3f}<br>F1@p99 %{x:.3f}<extra></extra>`,
    };
  });
  return {
    data, layout: layout({
      height: Math.min(520, windowsHeight(shownEntries().length)) + legendRoom(shownEntries(), "chart-auc-f1"), showlegend: true,
      shapes: [{ type: "line", x0: 0, x1: 1, y0: 0.5, y1: 0.5, line: { color: colour("soft"), width: 1, dash: "dot" } }],
      xaxis: axis("F1@p99", { range: [0, 1], dtick: 0.2 }), yaxis: axis("ROC-AUC", { range: [0.25, 1.02] }),
    }),
  };
}

function windowsChart() {
  const drawn = shownEntries().filter((entry) => entry.windows);
  if (!drawn.length) return null;
  const shapes = [], annotations = [], data = [];
  drawn.forEach((entry, i) => {
    const [low, q1, middle, q3, high] = entry.windows.normal.map((v) => Math.max(v, 1e-6));
    const bar = (x0, x1, half, opacity) => shapes.push({
      type: "rect", x0, x1, y0: i - half, y1: i + half, fillcolor: colour("soft"), opacity, line: { width: 0 }, layer: "below",
    });
    bar(low, high, 0.27, 0.16);
    bar(q1, q3, 0.27, 0.22);
    shapes.push({ type: "line", x0: middle, x1: middle, y0: i - 0.27, y1: i + 0.27, line: { color: colour("soft"), width: 2 } });
    const p = entry.windows.p_full;
    const note = named(entry.label, { xref: "paper", x: 0, xanchor: "left", y: i - 0.36, yanchor: "bottom", font: { size: 12 } });
    if (p !== null) note.text += `   P_FULL ${p.toFixed(3)}`;
    annotations.push(note);
    const attacks = entry.windows.attacks;
    data.push({
      type: "scatter", mode: "markers", x: attacks.map((a) => a.ratio), y: attacks.map((_, k) => i + (((k * 7) % 9) - 4) * 0.05),
      text: attacks.map((a) => `attack ${safe(a.id)} (${safe(a.verdict)})<br>more evidence than ${(100 * a.outweighs).toFixed(1)}% of normal windows`),
      marker: { size: 8, symbol: attacks.map((a) => DATA.verdicts[a.verdict].marker), color: attacks.map((a) => verdictColour(a.verdict)), line: { width: 1.5, color: attacks.map((a) => verdictColour(a.verdict)) } },
      hovertemplate: "%{text}<br>%{x:.3g} times their median<extra></extra>",
    });
  });
  return {
    data, layout: layout({
      height: windowsHeight(drawn.length), shapes, annotations, margin: { l: 12, r: 12, t: 8, b: 44 },
      xaxis: logAxis("times the median of normal windows", drawn.flatMap((e) => [...e.windows.normal, ...e.windows.attacks.map((a) => a.ratio)])),
      yaxis: axis("", { range: [drawn.length - 0.5, -0.72], showticklabels: false, showgrid: false }),
    }),
  };
}

chart("chart-roc", rocChart);
chart("chart-roc-low", rocLowChart);
chart("chart-auc-f1", aucF1Chart);
chart("chart-windows", windowsChart);
