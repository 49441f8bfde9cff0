/* Time axes. Dates are drawn at their UTC milliseconds, so that no hour is doubled or lost
   when clocks change; ticks and texts show the clock of the plant's zone. */
const TICK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, ...[1, 2, 7, 14, 28, 91, 182, 365].map((days) => days * 86400)];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const TIME_TITLES = { hours: "hours from the start", row: "row" };
const isZoned = (clock) => clock.kind === "date" && clock.offsets.some(([, offset]) => offset !== 0);

/* The seconds that the zone's clock is ahead of UTC at a time in seconds. */
function offsetAt(clock, seconds) {
  const k = upperBound(clock.offsets.map(([since]) => since), seconds) - 1;
  return clock.offsets[Math.max(k, 0)][1];
}

/* Year, month, day and time of day that the zone's clock shows. */
function clockParts(clock, moment) {
  const at = new Date(moment + 1000 * offsetAt(clock, moment / 1000)).toISOString();
  return { year: at.slice(0, 4), date: `${MONTHS[Number(at.slice(5, 7)) - 1]} ${Number(at.slice(8, 10))}`, time: at.slice(11, 19) };
}

function clockText(clock, moment) {
  const { year, date, time } = clockParts(clock, moment);
  return `${date}, ${year}, ${time}`;
}

/* Round times of the zone's clock within a range: a day begins at midnight there. */
function clockTicks(clock, [low, high], most) {
  const [from, to] = [low / 1000, high / 1000];
  const step = TICK_STEPS.find((one) => (to - from) / one <= most) ?? Math.ceil((to - from) / most / 86400) * 86400;
  const tickvals = [], ticktext = [];
  let shown = "";
  clock.offsets.forEach(([since, offset], k) => {
    const start = k ? Math.max(from, since) : from, next = clock.offsets[k + 1]?.[0] ?? Infinity;
    for (let at = Math.ceil((start + offset) / step) * step - offset; at <= to && at < next; at += step) {
      const { year, date, time } = clockParts(clock, 1000 * at);
      const day = step < 86400 ? `${date}, ${year}` : year;
      tickvals.push(1000 * at);
      ticktext.push((step < 86400 ? time.slice(0, step < 60 ? 8 : 5) : date) + (day === shown ? "" : `<br>${day}`));
      shown = day;
    }
  });
  return { tickmode: "array", tickvals, ticktext };
}

/* The axis of a range of time; hovering over a point shows `timeField`. */
function timeAxis(clock, range, most, more) {
  const ticks = isZoned(clock) ? clockTicks(clock, range, most) : { nticks: most };
  return axis(clock.kind === "date" ? clock.zone : TIME_TITLES[clock.kind], { type: clock.kind === "date" ? "date" : "linear", range: range.slice(), showgrid: false, tickangle: 0, ...ticks, ...more });
}
const timeField = (clock) => (isZoned(clock) ? "%{text}" : "%{x}");
const timeTexts = (clock, moments) => (isZoned(clock) ? moments.map((moment) => (moment === null ? "" : clockText(clock, moment))) : undefined);
