/* The table of attacks: sorting, filters, details of a row, and links. Each attack is a
   body of the table: a row of facts, then a row for each detector. */
const attackTable = byId("attack-table");
const attackRows = attackTable ? [...attackTable.querySelectorAll("tr.attack")] : [];
const bodyOf = (row) => row.parentElement;
const MAX_ROWS = 30;
const openPictures = new Map();
let showsAll = false, printsAll = false;

const filters = {
  verdict: (row, wanted) => (wanted === "missed" ? row.dataset.verdict !== DATA.detected_word : row.dataset.verdict === wanted),
  stage: (row, wanted) => row.dataset.stages.split("\n").includes(wanted),
  detector: (row, wanted) => row.dataset.entry === wanted,
};

function matching() {
  const wanted = Object.keys(filters).map((name) => [name, byId(`filter-${name}`).value]).filter(([, value]) => value);
  return attackRows.filter((row) => Number(bodyOf(row).dataset.testbed) === state.testbed && wanted.every(([name, value]) => filters[name](row, value)));
}

function showAttacks() {
  if (!attackTable) return;
  const fits = new Set(matching());
  let nShown = 0;
  for (const body of attackTable.tBodies) {
    const isFull = !showsAll && !printsAll && nShown >= MAX_ROWS;
    for (const row of body.querySelectorAll("tr.attack")) {
      const isOpen = openPictures.has(row.id);
      row.hidden = !fits.has(row) || (isFull && !isOpen);
      if (!row.hidden) nShown++;
      if (isOpen) openPictures.get(row.id).row.hidden = row.hidden;
    }
    body.hidden = !body.querySelector("tr.attack:not([hidden])");
  }
  const more = byId("show-all");
  more.hidden = nShown >= fits.size;
  more.textContent = `Show all ${fits.size}`;
  byId("attack-count").textContent = nShown < fits.size ? `${nShown} of ${fits.size} rows` : `${fits.size} ${fits.size === 1 ? "row" : "rows"}`;
}

/* Numbers sort as numbers; texts sort with their numbers in natural order. */
const collator = new Intl.Collator("en", { numeric: true });
const factsText = (cell) => (row) => bodyOf(row).rows[0].cells[cell].textContent.trim();
const order = (row) => Number(bodyOf(row).dataset.order);
const rowText = (cell) => (row) => row.cells[cell].textContent.replace("▸", "").trim();
const sortKeys = {
  id: factsText(0), telemetry: factsText(1), targets: factsText(2), start: order, rows: (row) => Number(bodyOf(row).dataset.rows), aftermath: factsText(5),
  detector: rowText(0), verdict: (row) => Object.keys(DATA.verdicts).indexOf(row.dataset.verdict), found: rowText(2), evidence: rowText(3),
  coverage: (row) => Number(row.dataset.coverage), alarm: (row) => (row.dataset.alarm === "" ? Infinity : Number(row.dataset.alarm)),
};

/* Mark the header that a table is sorted by; returns whether values rise. */
function markSorted(table, header) {
  const rising = header.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", rising ? "ascending" : "descending");
  return rising;
}

function sortOrder(key, rising) {
  return (a, b) => {
    const [x, y] = [key(a), key(b)];
    const order = typeof x === "number" ? (x === y ? 0 : x < y ? -1 : 1) : collator.compare(x, y);
    return rising ? order : -order;
  };
}

/* Sort the detectors of each attack, and the attacks by the first of them. */
function sortAttacks(button) {
  const compare = sortOrder(sortKeys[button.dataset.sort], markSorted(attackTable, button.closest("th")));
  const groups = [...attackTable.tBodies].map((body) => ({ body, rows: [...body.querySelectorAll("tr.attack")].sort(compare) }));
  groups.sort((a, b) => compare(a.rows[0], b.rows[0]));
  for (const { body, rows } of groups) {
    for (const row of rows) {
      body.append(row);
      if (openPictures.has(row.id)) body.append(openPictures.get(row.id).row);
    }
    attackTable.append(body);
  }
  showAttacks();
}

function readingOfBars() {
  const text = element("p", "facts-line");
  text.append("Bar: ", termLink("coverage", "coverage"), ", the share of its rows over the limit. Marks: the same in the usual attack-free stretch, and in a rare one. It may also stand out by its ", termLink("peak", "peak"), " or its ", termLink("onset", "onset"), ".");
  return text;
}

/* Where the divergence comes from: a bar for each part, to the left of zero if it takes away. */
function divergence(parts) {
  const all = element("div", "divergence"), most = Math.max(...parts.map(([, value]) => Math.abs(value))) || 1;
  for (const [name, value, text, key] of parts) {
    const track = element("span", "track"), bar = element("i", value < 0 ? "less" : "");
    bar.style.width = `${50 * Math.abs(value) / most}%`;
    track.append(bar);
    all.append(termLink(key, name), track, element("span", "value", text));
  }
  return all;
}

/* The texts of an attack: what the repairs show, how it was judged, the paper's figures. */
function attackTexts(row, detail) {
  const left = element("div");
  if (detail.ladder.length) {
    left.append(element("h3", "", "The rules, and the effect of each repair"), ladder(detail.ladder, row.dataset.verdict), readingOfBars());
  }
  if (detail.judged.length) {
    const list = element("dl", "judged");
    for (const [name, text, key] of detail.judged) {
      const what = element("dt");
      what.append(termLink(key, name));
      list.append(what, element("dd", "", text));
    }
    left.append(element("h3", "", "How it was judged"), list);
  }
  if (detail.ceiling.length) {
    const title = element("h3");
    title.append(termLink("ceiling", "How early any rule could have been"));
    left.append(title);
    for (const text of detail.ceiling) left.append(element("p", "facts-line", text));
  }
  const figures = element("p", "facts-line");
  detail.facts.forEach(([name, value, key], i) => figures.append(i ? " · " : "", termLink(key, name), ` ${value}`));
  left.append(figures);
  if (detail.divergence.length) left.append(element("p", "facts-line", "Divergence from normal in parts, nats a row:"), divergence(detail.divergence));
  if (detail.signature) {
    const agrees = detail.signature_agrees === null ? "" : detail.signature_agrees ? ", and the repairs agree" : ", but the repairs disagree";
    const reading = element("p", "facts-line");
    reading.append(termLink("paper-reading", "From these figures alone"), `: ${detail.signature}${agrees}.`);
    left.append(reading);
  }
  return left;
}

/* The row below an attack's row with all that is known of it; the picture comes later. */
function attackDetail(row) {
  const entry = DATA.entries.find((one) => one.key === row.dataset.entry), index = Number(row.dataset.index);
  const detail = entry.details[index];
  const below = element("tr", "detail"), cell = element("td"), inner = element("div", "inner");
  cell.colSpan = row.cells.length;
  below.append(cell);
  cell.append(inner);
  inner.append(row.querySelector(".texts").content.cloneNode(true));
  const parts = element("div", "parts"), right = element("div");
  const place = element("div", "chart");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `Deviation score, contributions and signals around attack ${entry.attacks[index].id}, ${entry.label}`);
  right.append(place);
  if (!detail.picture) right.append(element("p", "muted", "These results do not hold the rows around this attack."));
  if (detail.localisation) right.append(localisation(detail.localisation));
  parts.append(attackTexts(row, detail), right);
  inner.append(parts);
  return { below, place, entry, index };
}

async function openAttack(row) {
  if (openPictures.has(row.id)) return;
  const { below, place, entry, index } = attackDetail(row);
  row.after(below);
  row.classList.add("is-open");
  row.querySelector(".open").setAttribute("aria-expanded", "true");
  openPictures.set(row.id, { row: below, draw: null });
  const draw = await attackPicture(place, entry, index);
  if (openPictures.has(row.id)) openPictures.get(row.id).draw = draw;
}

function toggleAttack(row) {
  if (openPictures.has(row.id)) closeAttack(row);
  else openAttack(row);
}

/* On paper every attack is open. Pictures that are not drawn yet show the score alone. */
function printAttacks(isPrinting) {
  for (const printed of document.querySelectorAll("tr.printed")) printed.remove();
  if (!isPrinting || !attackTable) return;
  for (const row of attackRows) {
    if (row.hidden || openPictures.has(row.id)) continue;
    const { below, place, entry, index } = attackDetail(row);
    below.classList.add("printed");
    place.className = "printed-score";
    place.innerHTML = scoreDrawing(entry, index);
    row.after(below);
  }
}

function closeAttack(row) {
  openPictures.get(row.id)?.row.remove();
  openPictures.delete(row.id);
  row.classList.remove("is-open");
  row.querySelector(".open").setAttribute("aria-expanded", "false");
}

function redrawPictures() {
  for (const { draw } of openPictures.values()) if (draw) draw();
}

/* Show the attack that the link in the address names, even if it was filtered out: one
   detector's row, or the attack as a whole with its first detector open. */
async function followLink(behavior = "auto") {
  const place = byId(location.hash.slice(1));
  if (!attackTable || !place || !place.matches("#attack-table tr.attack, #attack-table tbody")) return;
  const row = place.matches("tr") ? place : place.querySelector("tr.attack");
  chooseTestbed(Number(bodyOf(row).dataset.testbed));
  if (!matching().includes(row)) for (const name of Object.keys(filters)) byId(`filter-${name}`).value = "";
  await openAttack(row);
  showAttacks();
  place.scrollIntoView({ block: "start", behavior });
}

async function copyLink(button) {
  const row = button.closest("tr"), name = row.id || bodyOf(row).id;
  const link = `${location.href.split("#")[0]}#${name}`;
  history.replaceState(null, "", `#${name}`);
  let text = "copied";
  try {
    await navigator.clipboard.writeText(link);
    byId("status").textContent = "The link was copied.";
  } catch (refused) {
    text = "in the address bar";
    byId("status").textContent = "The link is in the address bar.";
  }
  button.textContent = text;
  setTimeout(() => { button.textContent = "link"; }, 1500);
}

if (attackTable) {
  attackTable.addEventListener("click", (event) => {
    const button = event.target.closest("button, a");
    const row = event.target.closest("tr.attack, tr.facts-of-attack, tr.detail");
    if (button?.dataset.sort) sortAttacks(button);
    else if (button?.classList.contains("copy")) copyLink(button);
    else if (button?.classList.contains("open")) toggleAttack(row);
    // Anywhere else in a row, unless a text is being marked there.
    else if (!button && row && !row.classList.contains("detail") && !String(getSelection())) {
      toggleAttack(row.classList.contains("attack") ? row : bodyOf(row).querySelector("tr.attack:not([hidden])"));
    }
  });
  for (const name of Object.keys(filters)) byId(`filter-${name}`).addEventListener("change", showAttacks);
  byId("show-all").addEventListener("click", () => { showsAll = true; showAttacks(); });
}
