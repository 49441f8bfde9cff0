/* The table of attacks: sorts, filters, opens, and gives links. */
const attackTable = byId("attack-table");
const attackRows = attackTable ? [...attackTable.tBodies[0].rows] : [];
const MOST_ROWS = 30;
const openPictures = new Map();
let showsAll = false, printsAll = false;

const filters = {
  verdict: (row, wanted) => (wanted === "!detected" ? row.dataset.verdict !== "detected" : row.dataset.verdict === wanted),
  stage: (row, wanted) => row.dataset.stages.split("\n").includes(wanted),
  detector: (row, wanted) => row.dataset.entry === wanted,
};

function matching() {
  const wanted = Object.keys(filters).map((name) => [name, byId(`filter-${name}`).value]).filter(([, value]) => value);
  return attackRows.filter((row) => Number(row.dataset.testbed) === state.testbed && wanted.every(([name, value]) => filters[name](row, value)));
}

function showAttacks() {
  if (!attackTable) return;
  const fits = new Set(matching());
  let shown = 0;
  for (const row of [...attackTable.tBodies[0].rows]) {
    if (row.classList.contains("detail")) continue;
    const isOpen = openPictures.has(row.id);
    row.hidden = !fits.has(row) || (!showsAll && !printsAll && shown >= MOST_ROWS && !isOpen);
    if (!row.hidden) shown++;
    if (isOpen) openPictures.get(row.id).row.hidden = row.hidden;
  }
  const more = byId("show-all");
  more.hidden = shown >= fits.size;
  more.textContent = `Show all ${fits.size}`;
  byId("attack-count").textContent = shown < fits.size ? `${shown} of ${fits.size} rows` : `${fits.size} ${fits.size === 1 ? "row" : "rows"}`;
}

/* Cells sort as numbers where they are numbers, else as people count. */
const collator = new Intl.Collator("en", { numeric: true });
const sortKeys = {
  id: (row) => row.cells[0].textContent.replace("▸", "").trim(), detector: (row) => row.cells[1].textContent,
  verdict: (row) => Object.keys(DATA.verdicts).indexOf(row.dataset.verdict), stage: (row) => row.cells[3].textContent,
  targets: (row) => row.cells[4].textContent, start: (row) => Number(row.dataset.start), rows: (row) => Number(row.dataset.rows),
  coverage: (row) => Number(row.dataset.coverage), alarm: (row) => (row.dataset.alarm === "" ? Infinity : Number(row.dataset.alarm)),
};

function sortAttacks(button) {
  const header = button.closest("th"), key = sortKeys[button.dataset.sort];
  const rising = header.getAttribute("aria-sort") !== "ascending";
  for (const other of attackTable.tHead.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
  header.setAttribute("aria-sort", rising ? "ascending" : "descending");
  const compare = (a, b) => {
    const [x, y] = [key(a), key(b)];
    const order = typeof x === "number" ? (x === y ? 0 : x < y ? -1 : 1) : collator.compare(x, y);
    return rising ? order : -order;
  };
  for (const row of attackRows.slice().sort(compare)) {
    attackTable.tBodies[0].append(row);
    if (openPictures.has(row.id)) attackTable.tBodies[0].append(openPictures.get(row.id).row);
  }
  showAttacks();
}

async function openAttack(row) {
  if (openPictures.has(row.id)) return;
  const entry = DATA.entries.find((one) => one.key === row.dataset.entry), index = Number(row.dataset.index);
  const detail = entry.details[index];
  const below = element("tr", "detail"), cell = element("td"), inner = element("div", "inner");
  cell.colSpan = row.cells.length;
  below.append(cell);
  cell.append(inner);
  row.after(below);
  row.classList.add("is-open");
  row.querySelector(".open").setAttribute("aria-expanded", "true");
  openPictures.set(row.id, { row: below, draw: null });
  inner.append(row.querySelector(".told").content.cloneNode(true));
  const parts = element("div", "parts"), left = element("div"), right = element("div");
  if (detail.ladder.length) {
    left.append(element("h4", "", "What each repair would show"), ladder(detail.ladder, row.dataset.verdict), element("p", "facts-line", "Bar: share of the attack beyond the limit. Mark: the same in calm hours."));
  }
  left.append(element("p", "facts-line", detail.facts.map(([name, value]) => `${name} ${value}`).join(" · ")));
  if (detail.signature) {
    const agrees = detail.signature_agrees === null ? "" : detail.signature_agrees ? ", which the repairs confirm" : ", which the repairs do not confirm";
    left.append(element("p", "facts-line", `By the figures alone: ${detail.signature}${agrees}.`));
  }
  const place = element("div", "chart");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `Energy, contributions and signals around attack ${entry.attacks[index].id}, ${entry.label}`);
  right.append(place);
  if (!detail.picture) right.append(element("p", "quiet", "These results hold no excerpt around this attack."));
  parts.append(left, right);
  inner.append(parts);
  const draw = await attackPicture(place, entry, index);
  if (openPictures.has(row.id)) openPictures.get(row.id).draw = draw;
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

/* A link leads to its row, whatever was filtered away. */
async function followLink(behavior = "auto") {
  const row = byId(location.hash.slice(1));
  if (!row || !row.classList.contains("attack")) return;
  chooseTestbed(Number(row.dataset.testbed));
  if (!matching().includes(row)) for (const name of Object.keys(filters)) byId(`filter-${name}`).value = "";
  await openAttack(row);
  showAttacks();
  row.scrollIntoView({ block: "start", behavior });
}

async function copyLink(row) {
  const link = `${location.href.split("#")[0]}#${row.id}`;
  history.replaceState(null, "", `#${row.id}`);
  let said = "copied";
  try {
    await navigator.clipboard.writeText(link);
    byId("said").textContent = "The link was copied.";
  } catch (refused) {
    said = "in the address bar";
    byId("said").textContent = "The link is in the address bar.";
  }
  const button = row.querySelector(".copy");
  button.textContent = said;
  setTimeout(() => { button.textContent = "link"; }, 1500);
}

if (attackTable) {
  attackTable.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const row = button.closest("tr");
    if (button.dataset.sort) sortAttacks(button);
    else if (button.classList.contains("copy")) copyLink(row);
    else if (openPictures.has(row.id)) closeAttack(row);
    else openAttack(row);
  });
  for (const name of Object.keys(filters)) byId(`filter-${name}`).addEventListener("change", showAttacks);
  byId("show-all").addEventListener("click", () => { showsAll = true; showAttacks(); });
}
