/* The tables of tags: sorting, filter, and folding of long ones. */
const tagTables = [...document.querySelectorAll("table.tags")].map((table) => {
  const part = table.closest("[data-testbed]");
  return { table, rows: [...table.tBodies[0].rows], find: part.querySelector(".find-tag"), count: part.querySelector(".tag-count"), more: part.querySelector(".show-tags"), showsAll: false };
});

function showTags(one) {
  const wanted = one.find.value.trim().toLowerCase();
  const named = (row) => [...row.cells].slice(0, 4).map((cell) => cell.textContent).join("\n").toLowerCase();
  const fits = one.rows.filter((row) => named(row).includes(wanted));
  const most = one.showsAll || printsAll ? Infinity : MAX_ROWS;
  const shown = new Set([...one.table.tBodies[0].rows].filter((row) => fits.includes(row)).slice(0, most));
  for (const row of one.rows) row.hidden = !shown.has(row);
  one.more.hidden = shown.size >= fits.length;
  one.more.textContent = `Show all ${fits.length}`;
  one.count.textContent = shown.size < fits.length ? `${shown.size} of ${fits.length} tags` : `${fits.length} ${fits.length === 1 ? "tag" : "tags"}`;
}

/* A cell sorts by its number if it has one, else by its text; unknown comes last. */
function tagKey(row, column) {
  const cell = row.cells[column], value = cell.dataset.value;
  if (value === undefined) return cell.textContent;
  return value === "" ? Infinity : Number(value);
}

function sortTags(one, header) {
  const rising = markSorted(one.table, header);
  const compare = sortOrder((row) => tagKey(row, header.cellIndex), rising);
  one.table.tBodies[0].append(...one.rows.slice().sort(compare));
  showTags(one);
}

for (const one of tagTables) {
  one.table.tHead.addEventListener("click", (event) => { if (event.target.closest("button")) sortTags(one, event.target.closest("th")); });
  one.find.addEventListener("input", () => showTags(one));
  one.more.addEventListener("click", () => { one.showsAll = true; showTags(one); });
}
const showAllTags = () => tagTables.forEach(showTags);
