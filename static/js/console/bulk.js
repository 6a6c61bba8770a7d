// @ts-check
// Bulk: an end in the viewer's own time, and choosing among stale assets.
const form = /** @type {HTMLFormElement | null} */ (document.getElementById("bulk-form"));
if (form) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  /** @type {HTMLInputElement} */ (form.elements.namedItem("zone")).value = zone;
  for (const name of form.querySelectorAll(".zone-name")) name.textContent = zone;
  // Who fills one way of choosing in means that one.
  for (const part of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-by]"))) {
    part.addEventListener("input", () => {
      const way = form.querySelector(`[name=by][value="${part.dataset.by}"]`);
      /** @type {HTMLInputElement} */ (way).checked = true;
    });
  }
}

const list = document.getElementById("stale");
const all = /** @type {HTMLInputElement | null} */ (document.getElementById("choose-all"));
if (list && all) {
  const boxes = /** @type {HTMLInputElement[]} */ ([...list.querySelectorAll("input[name=asset]")]);
  const button = /** @type {HTMLButtonElement} */ (list.querySelector("button[value=names]"));
  const update = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    document.getElementById("chosen").textContent = chosen ? `${chosen} selected` : "";
    button.disabled = !chosen;
    all.checked = chosen > 0 && chosen === boxes.length;
    all.indeterminate = chosen > 0 && chosen < boxes.length;
  };
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    update();
  });
  list.addEventListener("change", update);
  // "All that match" is not the chosen ones: their names stay here.
  document.getElementById("all").addEventListener("click", () => {
    for (const box of boxes) box.checked = false;
  });
  update();
}
export {};
