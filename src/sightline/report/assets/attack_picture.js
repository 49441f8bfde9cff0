/* The details of one attack: energy, contributions, signals, and the ladder of repairs. */
function element(tag, className, text) {
  const created = document.createElement(tag);
  if (className) created.className = className;
  if (text !== undefined) created.textContent = text;
  return created;
}

const percent = (value) => (value === null ? "–" : value > 0 && value < 0.005 ? "<1%" : `${Math.round(100 * value)}%`);

/* Each rung of the ladder: the bar is the attack, the marks are attack-free time. */
function ladder(bars, verdict) {
  const list = element("div", "ladder");
  for (const bar of bars) {
    const row = element("div", bar.visible ? "rung is-visible" : "rung");
    if (bar.visible) row.dataset.verdict = verdict;
    const name = element("div", "name");
    const label = element("b");
    label.append(termLink(bar.term, bar.label));
    const most = bar.n_blocks ? 10 : 1;
    const value = bar.n_blocks ? `${Number(bar.coverage.toPrecision(2))} ×` : percent(bar.coverage);
    name.append(label, element("span", "", `${value}${bar.visible ? " ✓" : ""}`));
    const track = element("div", "track");
    track.setAttribute("aria-hidden", "true");
    const fill = element("i"), calm = element("u"), rare = element("u", "rare");
    fill.style.width = `${Math.min(100, 100 * (bar.coverage ?? 0) / most)}%`;
    calm.style.left = `${Math.min(99, 100 * (bar.calm ?? 0) / most)}%`;
    rare.style.left = `${Math.min(99, 100 * (bar.limit ?? 0) / most)}%`;
    track.append(fill, calm, rare);
    row.append(name, track, element("small", "", bar.shown), element("small", "", bar.note));
    list.append(row);
  }
  return list;
}

/* The tags that carry the evidence: bars in units of the strongest, the target marked. */
function localisation(found) {
  const block = element("div", "localisation"), moments = element("div", "moments");
  for (const { label, channels } of found.moments) {
    const list = element("div", "ladder leading");
    list.setAttribute("aria-label", `Strongest tags ${label}`);
    for (const { channel, share, is_target } of channels) {
      const row = element("div", "tag-bar"), name = element("div", "name");
      const fill = element("i"), track = element("div", "track");
      track.setAttribute("aria-hidden", "true");
      fill.style.width = `${100 * share}%`;
      name.append(element("b", "", `${channel}${is_target ? " ◎" : ""}`), element("span", "", percent(share)));
      track.append(fill);
      row.append(name, track);
      if (is_target) row.classList.add("is-target");
      list.append(row);
    }
    const part = element("div");
    part.append(element("p", "facts-line", `Strongest ${label} (◎ target)`), list);
    moments.append(part);
  }
  block.append(element("h3", "", "Which tags carry the evidence"), moments);
  if (found.sentence) block.append(element("p", "facts-line", found.sentence));
  return block;
}

/* The score around an attack as a drawing that needs no library: the attack is shaded. */
function scoreDrawing(entry, index) {
  const attack = entry.attacks[index], picture = entry.details[index].picture;
  const long = attack.stop - attack.start;
  const from = picture ? picture.start : Math.max(0, attack.start - long);
  const to = picture ? picture.stop : Math.min(entry.energy.n, attack.stop + long);
  const points = energyPoints(entry, [timeAt(entry.clock, from), timeAt(entry.clock, to - 1)], 300);
  const known = points.x.map((x, i) => [x, points.y[i]]).filter(([, y]) => y > 0);
  if (known.length < 2) return "";
  const [width, height] = [600, 120], logs = known.map(([, y]) => Math.log10(y));
  const limit = entry.tau99 > 0 ? Math.log10(entry.tau99) : logs[0];
  const low = Math.min(...logs, limit), high = Math.max(...logs, limit, low + 1e-6);
  const [first, last] = [known[0][0], known[known.length - 1][0]];
  const x = (time) => Math.max(0, Math.min(width, (width * (time - first)) / (last - first || 1))).toFixed(1);
  const y = (value) => (height - (height * (value - low)) / (high - low)).toFixed(1);
  const [a, b] = [x(timeAt(entry.clock, attack.start)), x(timeAt(entry.clock, attack.stop - 1))];
  const line = known.map(([time], i) => `${x(time)},${y(logs[i])}`).join(" ");
  return `<svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none"><rect x="${a}" y="0" width="${Math.max(1, b - a)}" height="${height}"/><polyline points="${line}"/><line x1="0" x2="${width}" y1="${y(limit)}" y2="${y(limit)}"/></svg><small>deviation score (energy) on a log scale, ${(10 ** low).toPrecision(2)} to ${(10 ** high).toPrecision(2)}; shaded: the attack; line: the alarm limit (tau99)</small>`;
}

async function attackPicture(place, entry, index) {
  const attack = entry.attacks[index], detail = entry.details[index];
  const picture = detail.picture;
  const from = picture ? picture.start : Math.max(0, 2 * attack.start - attack.stop);
  const to = picture ? picture.stop : Math.min(entry.energy.n, 2 * attack.stop - attack.start);
  await chartsReady;
  const heat = picture ? await unpacked(picture.heat) : null;
  const signals = picture ? await Promise.all(picture.signals.map((s) => unpacked(s.values))) : [];
  const draw = () => {
    const spec = pictureSpec(entry, attack, picture, heat, signals, from, to, place.clientWidth || 700);
    place.style.height = `${spec.layout.height}px`;
    Plotly.react(place, spec.data, spec.layout, CONFIG);
  };
  draw();
  return draw;
}

/* Rows of the picture from top to bottom: energy, contributions, then each signal. */
function pictureSpec(entry, attack, picture, heat, signals, from, to, width) {
  const channels = picture ? picture.channels.length : 0;
  const sizes = [130, ...(picture ? [24 * channels + 8] : []), ...signals.map(() => 54)];
  const gaps = 30, height = sizes.reduce((a, b) => a + b, 0) + gaps * (sizes.length - 1);
  let top = 0;
  const domains = sizes.map((size) => { const d = [1 - (top + size) / height, 1 - top / height]; top += size + gaps; return d.map((v) => Math.max(0, v)); });
  const x = (row) => timeAt(entry.clock, row);
  const chart = layout({
    height: height + 70, margin: { l: 76, r: 10, t: 24, b: 44 }, annotations: [], hovermode: "closest",
    xaxis: timeAxis(entry.clock, [x(from), x(to - 1)], isNarrow() ? 4 : 8, { anchor: sizes.length > 1 ? `y${sizes.length}` : "y" }),
    shapes: [attack.start, attack.stop].map((row) => ({ type: "line", xref: "x", x0: x(row), x1: x(row), yref: "paper", y0: 0, y1: 1, line: { color: verdictColour(attack.verdict), width: 1.2, dash: "dash" } })),
  });
  const title = (text, i, more) => chart.annotations.push({ text, showarrow: false, ...more, xref: "paper", x: 0, xanchor: "left", yref: "paper", y: domains[i][1], yanchor: "bottom", font: { size: 12, color: colour("soft") } });
  const data = [{
    type: "scatter", mode: "lines", ...energyPoints(entry, [x(from), x(to - 1)], Math.floor(width - 90)),
    line: { width: 1.2, color: colour("ink") }, hovertemplate: `deviation score %{y:.3g}<br>${timeField(entry.clock)}<extra></extra>`,
  }];
  chart.yaxis = logAxis("", data[0].y.filter((v) => v !== null), { domain: domains[0] });
  title("deviation score and alarm limit (tau99)", 0);
  chart.shapes.push({
    type: "rect", xref: "x", x0: x(attack.start), x1: x(attack.stop - 1), yref: "y domain", y0: 0, y1: 1,
    fillcolor: verdictColour(attack.verdict), opacity: 0.16, line: { width: 0 }, layer: "below",
  });
  if (entry.tau99 > 0) chart.shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, yref: "y", y0: entry.tau99, y1: entry.tau99, line: { color: colour("tau"), width: 1.3 } });
  if (picture) {
    const columns = Array.from({ length: picture.columns }, (_, c) => x(from + ((c + 0.5) * (to - from)) / picture.columns));
    heatRow(data, chart, picture, heat, columns, domains[1]);
    title(`part of each tag (log scale)${picture.targets.length ? "; ◎ target" : ""}`, 1);
    picture.signals.forEach((signal, k) => signalRow(data, chart, signal, signals[k], columns, domains[2 + k], 3 + k, title, 2 + k));
  }
  return { data, layout: chart };
}

function heatRow(data, chart, picture, heat, columns, domain) {
  const n = picture.columns, { low, high } = picture.heat;
  const names = picture.channels.map((name) => safe(name));
  const z = names.map((_, c) => Array.from({ length: n }, (_, t) => low + (heat[c * n + t] / 255) * (high - low)));
  chart.yaxis2 = axis("", { ...nameTicks(names, picture.channels), domain, autorange: "reversed", showgrid: false, tickfont: { size: 11, color: colour("ink") } });
  chart.yaxis2.ticktext = chart.yaxis2.ticktext.map((text, c) => text + (picture.targets.includes(picture.channels[c]) ? " ◎" : ""));
  data.push({
    type: "heatmap", x: columns, y: names, z, yaxis: "y2", showscale: false, xgap: 0, ygap: 1,
    colorscale: [[0, colour("faint")], [0.55, colour("train")], [1, isDark() ? "#fff6d8" : "#0b2545"]],
    customdata: names.map((name) => Array(n).fill(name)), hovertemplate: "%{customdata}<br>contribution 10^%{z:.1f}<extra></extra>",
  });
}

function signalRow(data, chart, signal, values, columns, domain, number, title, place) {
  const n = columns.length, wide = signal.high - signal.low;
  const at = (k) => signal.low + (values[k] / 255) * wide;
  const low = columns.map((_, t) => at(t)), high = columns.map((_, t) => at(n + t));
  chart[`yaxis${number}`] = axis("", { domain, nticks: 3, showgrid: false });
  const line = { width: 1, color: colour("train") };
  const base = { type: "scatter", mode: "lines", yaxis: `y${number}`, x: columns, line, hovertemplate: `${safe(signal.channel)} %{y:.4g}<extra></extra>` };
  data.push({ ...base, y: low }, { ...base, y: high, fill: "tonexty", fillcolor: "rgba(90,150,200,.3)" });
  const { text, hovertext } = named(signal.channel);
  title(`${text} ${signal.is_telemetry ? "(measured)" : "(residual)"}`, place, { hovertext });
}
