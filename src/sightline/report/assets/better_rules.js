/* What a better rule would do: attacks caught against alarms a day. */
const ruleSelect = byId("rules-entry");
const RULE_SIGNS = { present: "x", chosen: "star", rule: "circle" };

function selectedRules() {
  const option = ruleSelect?.selectedOptions[0];
  if (!option || Number(option.dataset.testbed) !== state.testbed) return null;
  return DATA.entries.find((one) => one.key === option.value)?.rules ?? null;
}

function rulesChart() {
  const rules = selectedRules();
  if (!rules) return null;
  const least = rules.least, at = (v) => Math.max(v, least), seen = `of ${rules.n_attacks} attacks caught`;
  const names = [...new Set([...rules.points, ...rules.curves].map((one) => one.name))];
  const hue = (name) => lineColour(names.indexOf(name));
  const data = rules.curves.filter((one) => one.per_day.length > 1).map((one) => ({
    type: "scatter", mode: "lines", name: safe(one.name), x: one.per_day.map(at), y: one.caught, showlegend: false, opacity: 0.55,
    line: { color: hue(one.name), width: 1.5, dash: lineDash(names.indexOf(one.name)) },
    hovertemplate: `${safe(one.name)}, other limit, in hindsight<br>%{y} ${seen}<br>%{x:.3g} a day<extra></extra>`,
  }));
  for (const one of rules.points) {
    data.push({
      type: "scatter", mode: "markers", name: one.kind === "present" ? `${safe(one.name)} (in use)` : safe(one.name), x: [at(one.per_day)], y: [one.caught],
      marker: { size: one.kind === "rule" ? 8 : 15, symbol: RULE_SIGNS[one.kind], color: one.kind === "present" ? colour("ink") : hue(one.name), line: { width: 1, color: colour("paper") } },
      hovertemplate: `${safe(one.name)}<br>%{y} ${seen}, ${one.chance.toFixed(1)} by chance<br>${safe(one.words)}<extra></extra>`,
    });
    if (one.kind === "rule") continue;
    data.push({
      type: "scatter", mode: "lines+markers", x: [at(one.per_day), at(one.per_day)], y: [one.chance, one.caught], showlegend: false, hoverinfo: "skip",
      line: { color: colour("soft"), width: 1, dash: "dot" }, marker: { size: [7, 0], symbol: "line-ew-open", color: colour("soft") },
    });
  }
  const budget = Math.log10(at(rules.per_day)), every = data.flatMap((one) => one.x);
  return {
    data, layout: layout({
      height: 420 + 19 * Math.max(0, Math.ceil(rules.points.length / (isNarrow() ? 2 : 6)) - 2), showlegend: true,
      shapes: [{ type: "line", x0: rules.per_day, x1: rules.per_day, yref: "paper", y0: 0, y1: 1, line: { color: colour("accent"), width: 1.5, dash: "dash" } }],
      annotations: [{ x: budget, yref: "paper", y: 1, yanchor: "bottom", text: `budget ${safe(rules.budget)}`, showarrow: false, font: { size: 11, color: colour("accent") } }],
      margin: { l: 48, r: 12, t: 24, b: 44 },
      xaxis: logAxis("false alarms a day", [...every, rules.per_day]),
      yaxis: axis("attacks caught", { range: [-0.5, rules.n_attacks + 0.5], nticks: 6 }),
    }),
  };
}

/* Show the rules of the selected detector only. */
function showRules() {
  const chosen = ruleSelect?.value;
  for (const block of document.querySelectorAll("[data-rules-of]")) block.hidden = block.dataset.rulesOf !== chosen;
  if (charts.get("chart-rules")?.isDrawn) drawChart("chart-rules");
}

function chooseRules() {
  if (!ruleSelect) return;
  chooseOption(ruleSelect);
  showRules();
}

chart("chart-rules", rulesChart);
ruleSelect?.addEventListener("change", showRules);
