"use strict";

/* Arrays are quantised, compressed and base64-encoded by encoding.py. */
const KINDS = { Uint8Array, Uint16Array, Float32Array };

async function unpacked(packed) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  return new KINDS[packed.kind](buffer);
}

/* The rows of the lowest and the highest value of each column, in row order: no peak is
   lost, whatever the width of the screen. */
function thinned(values, from, to, nColumns) {
  const n = to - from;
  if (n <= 2 * nColumns) return Int32Array.from({ length: Math.max(n, 0) }, (_, i) => from + i);
  const rows = new Int32Array(2 * nColumns);
  let k = 0;
  for (let column = 0; column < nColumns; column++) {
    const start = from + Math.floor((column * n) / nColumns);
    const stop = from + Math.floor(((column + 1) * n) / nColumns);
    let low = start, high = start;
    for (let row = start + 1; row < stop; row++) {
      if (values[row] < values[low]) low = row;
      if (values[row] > values[high]) high = row;
    }
    rows[k++] = Math.min(low, high);
    if (low !== high) rows[k++] = Math.max(low, high);
  }
  return rows.subarray(0, k);
}

/* The time of a row, interpolated between knots; dates in milliseconds. */
function timeAt(clock, row) {
  const { rows, times } = clock;
  let k = upperBound(rows, row) - 1;
  k = Math.min(Math.max(k, 0), rows.length - 2);
  const share = (row - rows[k]) / (rows[k + 1] - rows[k] || 1);
  const time = times[k] + share * (times[k + 1] - times[k]);
  return clock.kind === "date" ? 1000 * time : time;
}

function rowAt(clock, moment) {
  const time = clock.kind === "date" ? moment / 1000 : moment;
  const { rows, times } = clock;
  let k = upperBound(times, time) - 1;
  k = Math.min(Math.max(k, 0), rows.length - 2);
  const share = (time - times[k]) / (times[k + 1] - times[k] || 1);
  return rows[k] + Math.min(Math.max(share, 0), 1) * (rows[k + 1] - rows[k]);
}

function upperBound(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function energyAt(entry, row) {
  const { low, high, levels } = entry.energy;
  return 10 ** (low + (entry.levels[row] / levels) * (high - low));
}
