/* The slider of budgets: it shows what the table below it says of each. */
for (const part of document.querySelectorAll(".what-if")) {
  const slider = part.querySelector("input[type=range]"), said = part.querySelector("output");
  const rows = [...part.querySelector("table").tBodies[0].rows], values = [...part.querySelectorAll(".tiles dd")];
  const show = () => {
    const [budget, ...cells] = rows[Number(slider.value)].cells;
    said.textContent = slider.ariaValueText = budget.textContent.trim();
    values.forEach((value, k) => value.replaceChildren(...[...cells[k].childNodes].map((node) => node.cloneNode(true))));
  };
  slider.addEventListener("input", show);
  show();
}
