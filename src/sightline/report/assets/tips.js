/* Tooltips: terms show their entry of the glossary (data-term), other cells their own
   text (data-tip). They open under the pointer, at keyboard focus and at a touch. */
const tip = document.getElementById("tip");
const TIPPED = "[data-term], [data-tip]";
let tipOf = null;

/* A term that scripts create, like the macro of the template. */
function termLink(key, text) {
  const link = Object.assign(document.createElement("a"), { className: "term", href: `#term-${key}`, textContent: text });
  link.dataset.term = key;
  link.setAttribute("aria-describedby", `term-${key}`);
  return link;
}

function tipText(element) {
  if (element.dataset.tip) return element.dataset.tip;
  return document.getElementById(`term-${element.dataset.term}`)?.textContent ?? "";
}

/* Below the element, or above it where there is no room; always inside the window. */
function placeTip(element) {
  const at = element.getBoundingClientRect(), gap = 8;
  const room = document.documentElement.clientWidth;
  tip.style.maxWidth = `${Math.min(380, room - 2 * gap)}px`;
  const { width, height } = tip.getBoundingClientRect();
  const below = at.bottom + gap + height <= innerHeight || at.top < height + gap;
  tip.style.left = `${Math.max(gap, Math.min(at.left, room - width - gap))}px`;
  tip.style.top = `${below ? at.bottom + gap : at.top - height - gap}px`;
}

function showTip(element) {
  const text = tipText(element);
  if (!text) return;
  tipOf = element;
  tip.textContent = text;
  tip.hidden = false;
  placeTip(element);
}

function hideTip() {
  tipOf = null;
  tip.hidden = true;
}

const tipped = (event) => (event.target instanceof Element ? event.target.closest(TIPPED) : null);
document.addEventListener("pointerover", (event) => {
  if (event.pointerType === "touch") return;
  const element = tipped(event);
  if (element) showTip(element);
  else if (tipOf && !tip.contains(event.target)) hideTip();
});
document.addEventListener("focusin", (event) => {
  const element = tipped(event);
  if (element && element.matches(":focus-visible")) showTip(element);
  else hideTip();
});
document.addEventListener("focusout", hideTip);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
addEventListener("scroll", () => { if (tipOf) hideTip(); }, { capture: true, passive: true });

/* The first touch of a term shows its text, the second leads to the glossary. */
let shownBefore = null;
document.addEventListener("pointerdown", () => { shownBefore = tipOf; }, true);
document.addEventListener("click", (event) => {
  const element = tipped(event);
  if (!element) { hideTip(); return; }
  const isLink = element.classList.contains("term");
  if (isLink && event.pointerType !== "touch") return;
  if (isLink && shownBefore === element) { hideTip(); return; }
  if (isLink) event.preventDefault();
  showTip(element);
});
