/* What holds the page together: the testbed, the theme, and the start. */
function chooseTestbed(index) {
  const changes = index !== state.testbed;
  state.testbed = index;
  byId("testbed").value = String(index);
  for (const part of document.querySelectorAll("main [data-testbed]:not(tr):not(option)")) {
    part.hidden = Number(part.dataset.testbed) !== index;
  }
  const detector = byId("filter-detector");
  if (detector) {
    const keys = new Set(here().map((entry) => entry.key));
    for (const option of detector.options) option.hidden = option.disabled = option.value !== "" && !keys.has(option.value);
    if (detector.selectedOptions[0]?.disabled) detector.value = "";
  }
  chooseOrigin();
  if (!changes) return;
  energyView.range = null;
  showAttacks();
  redrawCharts();
  showStates();
}

/* Cells of the agreement table: the stronger the colour, the stronger the agreement. */
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
window.addEventListener("hashchange", () => followLink());

/* On paper everything is drawn, in light colours, and every row is there. */
function printing(isPrinting) {
  printsAll = isPrinting;
  showAttacks();
  if (typeof Plotly === "undefined") return;
  const root = document.documentElement;
  if (isPrinting) {
    state.theme = root.dataset.theme;
    root.dataset.theme = "light";
  } else if (state.theme) root.dataset.theme = state.theme;
  else delete root.dataset.theme;
  state.printing = isPrinting;
  for (const id of charts.keys()) drawChart(id);
  redrawPictures();
}
window.addEventListener("beforeprint", () => printing(true));
window.addEventListener("afterprint", () => printing(false));

/* The library of charts takes longer to start than all else: the page is there first. */
async function startCharts() {
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const script = document.createElement("script");
  script.textContent = byId("plotly").textContent;
  document.head.append(script);
  performance.mark("charts");
}

async function start() {
  if (typeof DecompressionStream === "undefined") {
    for (const place of document.querySelectorAll(".chart")) place.textContent = "This browser is too old to unpack the charts' data.";
    return;
  }
  chooseTestbed(0);
  paintAgreement();
  showAttacks();
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
  await followLink("instant");
  document.documentElement.dataset.ready = "yes";
  performance.mark("ready");
  await drawn;
  // Charts above have grown since, and moved what a link leads to.
  if (stays()) byId(location.hash.slice(1))?.scrollIntoView({ block: "start", behavior: "instant" });
}

/* Who has scrolled meanwhile is left where they are. */
function readerStays() {
  let stays = true;
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(kind, () => { stays = false; }, { once: true, passive: true });
  return () => stays;
}

/* For tests, and for the curious. */
window.sightline = { DATA, thinned, timeAt, rowAt, energyAt, energyView };
start();
