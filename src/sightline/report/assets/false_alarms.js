/* Where false alarms come from. */
const alarmSelect = byId("false-alarm-entry");

function selectedAlarms() {
  const option = alarmSelect?.selectedOptions[0];
  if (!option || Number(option.dataset.testbed) !== state.testbed) return null;
  const cut = option.value.lastIndexOf("|");
  const entry = DATA.entries.find((one) => one.key === option.value.slice(0, cut));
  return entry?.false_alarms?.[Number(option.value.slice(cut + 1))] ?? null;
}

function channelChart() {
  const alarms = selectedAlarms();
  if (!alarms || !alarms.channels.length) return null;
  const names = alarms.channels.map((c) => safe(c.channel));
  return {
    data: [{
      type: "bar", orientation: "h", y: names, x: alarms.channels.map((c) => c.share), marker: { color: colour("train") },
      text: alarms.channels.map((c) => percent(c.share)), textposition: "outside", cliponaxis: false, textfont: { color: colour("soft"), size: 11 },
      customdata: alarms.channels.map((c) => [c.count, safe(c.stage ?? "–"), safe(c.channel)]), hovertemplate: "%{customdata[2]}, stage %{customdata[1]}<br>%{customdata[0]} false alarms<extra></extra>",
    }],
    layout: layout({
      height: 90 + 25 * names.length, margin: { l: 70, r: 44, t: 8, b: 44 }, bargap: 0.35,
      xaxis: axis("share of false alarms", { tickformat: ".0%", rangemode: "tozero", nticks: 5 }),
      yaxis: axis("", { ...nameTicks(names, alarms.channels.map((c) => c.channel)), autorange: "reversed", showgrid: false, tickfont: { size: 11.5, color: colour("ink") } }),
    }),
  };
}

function hoursChart() {
  const alarms = selectedAlarms();
  if (!alarms || !alarms.hours) return null;
  return {
    data: [{ type: "bar", x: alarms.hours.map((_, h) => h), y: alarms.hours, marker: { color: colour("train") }, hovertemplate: "%{x}:00 to %{x}:59<br>%{y} false alarms<extra></extra>" }],
    layout: layout({
      height: 220, bargap: 0.25, margin: { l: 48, r: 12, t: 8, b: 44 },
      xaxis: axis(`hour of the day in which they begin, ${alarms.zone}`, { tickvals: [0, 6, 12, 18, 23], showgrid: false }), yaxis: axis("false alarms", { rangemode: "tozero", nticks: 4 }),
    }),
  };
}

function showStates() {
  const place = byId("plant-states");
  if (!place) return;
  place.replaceChildren();
  const alarms = selectedAlarms();
  if (!alarms || !alarms.states.length) return;
  place.append(element("h3", "", "By the plant's state"));
  place.append(element("p", "muted", "Share of false alarms that begin in a state, and share of time in this state, where the two differ most."));
  const scroll = element("div", "scroll"), table = element("table", "plain states"), body = element("tbody"), head = element("tr");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "False alarms by the plant's state");
  for (const [key, text, kind] of [["tag", "Tag", ""], ["plant-state", "State", ""], ["state-time", "Time", "num"], ["false-alarms", "False alarms", "num"]]) {
    const cell = element("th", kind);
    cell.append(termLink(key, text));
    cell.scope = "col";
    head.append(cell);
  }
  const top = element("thead");
  top.append(head);
  for (const [channel, states] of alarms.states) {
    for (const state of states) {
      const row = element("tr");
      row.append(element("td", "", channel), element("td", "", state.value), element("td", "num", state.time), element("td", "num", state.alarms));
      body.append(row);
    }
  }
  table.append(top, body);
  scroll.append(table);
  place.append(scroll);
}

/* Offer the options of the testbed that is shown; returns whether there are any. */
function chooseOption(select) {
  let first = null;
  for (const option of select.options) {
    const fits = Number(option.dataset.testbed) === state.testbed;
    option.hidden = option.disabled = !fits;
    if (fits && first === null) first = option;
  }
  const chosen = select.selectedOptions[0];
  if (!chosen || chosen.disabled) { if (first) select.value = first.value; }
  select.closest(".tools").hidden = first === null;
  return first !== null;
}

function chooseAlarms() {
  if (!alarmSelect) return;
  byId("false-alarm-charts").hidden = !chooseOption(alarmSelect);
}

function showAlarms() {
  for (const id of ["chart-channels", "chart-hours"]) if (charts.get(id).isDrawn) drawChart(id);
  showStates();
}

chart("chart-channels", channelChart);
chart("chart-hours", hoursChart);
alarmSelect?.addEventListener("change", showAlarms);
