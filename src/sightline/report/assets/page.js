/* The page as a whole: choice of the testbed, theme, printing, and start. */
function chooseTestbed(index) {
  const changes = index !== state.testbed;
  state.testbed = index;
  byId("testbed").value = String(index);
  for (const part of document.querySelectorAll(":is(main, header) [data-testbed]:not(.attacks tbody):not(option)")) {
    part.hidden = Number(part.dataset.testbed) !== index;
  }
  const detector = byId("filter-detector");
  if (detector) {
    const keys = new Set(shownEntries().map((entry) => entry.key));
    for (const option of detector.options) option.hidden = option.disabled = option.value !== "" && !keys.has(option.value);
    if (detector.selectedOptions[0]?.disabled) detector.value = "";
  }
  chooseAlarms();
  chooseRules();
  if (!changes) return;
  energyView.range = null;
  showAttacks();
  redrawCharts();
  showStates();
}

/* Colour the agreement table: the stronger the agreement, the stronger the colour. */
function paintAgreement() {
  for (const cell of document.querySelectorAll("[data-rho]")) {
    if (cell.dataset.rho === "") continue;
    const rho = Number(cell.dataset.rho), hue = rho >= 0 ? "train" : "floor";
    cell.style.background = `color-mix(in srgb, var(--${hue}) ${Math.round(45 * Math.abs(rho))}%, var(--paper))`;
  }
}

function redrawAll() {
  redrawCharts();
  redrawPictures();
}

byId("theme").addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("sightline-theme", next); } catch (blocked) { /* opened from disk */ }
  redrawAll();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
byId("testbed").addEventListener("change", (event) => chooseTestbed(Number(event.target.value)));
window.addEventListener("hashchange", () => { enter(); followLink(); });

/* A link leads through the door that its target is behind, and unfolds what it is in. */
function enter() {
  const target = byId(location.hash.slice(1));
  const door = target?.closest(".door") ?? document.querySelector(".door[data-open]") ?? document.querySelector(".door");
  for (const one of document.querySelectorAll(".door")) one.toggleAttribute("data-open", one === door);
  for (const link of document.querySelectorAll(".doors a")) {
    if (link.hash === `#${door.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.documentElement.dataset.door = door.id;
  const folded = [];
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) folded.push(fold);
  if (target?.matches(".fold")) folded.push(target.querySelector("details"));
  for (const fold of folded) fold.open = true;
  if (folded.length) target.scrollIntoView({ block: "start" });
  // Wider or narrower since it was drawn.
  for (const [id, one] of charts) if (one.isDrawn && byId(id).checkVisibility() && byId(id).clientWidth !== one.width) drawChart(id);
  if (document.documentElement.dataset.ready) drawWhenSeen();
}

/* For printing, unfold everything, draw all charts in light colours and show all rows. */
const unfolded = [];
function printing(isPrinting) {
  printsAll = isPrinting;
  hideTip();
  for (const fold of unfolded.splice(0)) fold.open = false;
  if (isPrinting) {
    unfolded.push(...document.querySelectorAll("details:not([open])"));
    for (const fold of unfolded) fold.open = true;
  }
  showAttacks();
  showAllTags();
  if (typeof Plotly === "undefined") return;
  printAttacks(isPrinting);
  const root = document.documentElement;
  if (isPrinting) {
    state.theme = root.dataset.theme;
    root.dataset.theme = "light";
  } else if (state.theme) root.dataset.theme = state.theme;
  else delete root.dataset.theme;
  state.printing = isPrinting;
  for (const id of charts.keys()) if (isPrinting || charts.get(id).isDrawn) drawChart(id);
  redrawPictures();
}
window.addEventListener("beforeprint", () => printing(true));
window.addEventListener("afterprint", () => printing(false));

/* The chart library takes longest to start, so it starts after the page is shown. */
async function startCharts() {
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const script = document.createElement("script");
  const bytes = await unpacked({ kind: "Uint8Array", data: byId("plotly").textContent });
  script.textContent = new TextDecoder().decode(bytes);
  document.head.append(script);
  performance.mark("charts");
}

async function start() {
  if (typeof DecompressionStream === "undefined") {
    for (const place of document.querySelectorAll(".chart")) place.textContent = "This browser is too old to unpack the data of the charts.";
    return;
  }
  chooseTestbed(0);
  enter();
  paintAgreement();
  showAttacks();
  showAllTags();
  performance.mark("open");
  await startCharts();
  await Promise.all(DATA.entries.map(async (entry) => {
    entry.levels = await unpacked(entry.energy.values);
    entry.energy.values = null;
  }));
  performance.mark("unpacked");
  chartsAreReady();
  const drawn = drawWhenSeen();
  showStates();
  const stays = readerStays();
  enter();
  await followLink("instant");
  document.documentElement.dataset.ready = "yes";
  performance.mark("ready");
  await drawn;
  // Charts above the linked row have grown and moved it.
  if (stays()) byId(location.hash.slice(1))?.scrollIntoView({ block: "start", behavior: "instant" });
}

/* A function that says whether the reader has not scrolled since. */
function readerStays() {
  let stays = true;
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(kind, () => { stays = false; }, { once: true, passive: true });
  return () => stays;
}

/* For tests and for inspection. */
window.sightline = { DATA, thinned, timeAt, rowAt, energyAt, energyView, clockTicks, clockText };
start();
