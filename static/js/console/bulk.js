// Bulk: an end in the viewer's own time, and choosing among stale assets.
const form = document.getElementById("bulk-form");
if (form) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  form.elements.zone.value = zone;
  for (const name of form.querySelectorAll(".zone-name")) name.textContent = zone;
  // Who fills one way of choosing in means that one.
  for (const part of form.querySelectorAll("[data-by]")) {
    part.addEventListener("input", () => {
      form.querySelector(`[name=by][value="${part.dataset.by}"]`).checked = true;
    });
  }
}

const list = document.getElementById("stale");
const all = document.getElementById("choose-all");
if (list && all) {
  const boxes = [...list.querySelectorAll("input[name=asset]")];
  const button = list.querySelector("button[value=names]");
  const tell = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    document.getElementById("chosen").textContent = chosen ? `${chosen} chosen` : "";
    button.disabled = !chosen;
    all.checked = chosen > 0 && chosen === boxes.length;
    all.indeterminate = chosen > 0 && chosen < boxes.length;
  };
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    tell();
  });
  list.addEventListener("change", tell);
  // "All that match" is not the chosen ones: their names stay here.
  document.getElementById("all").addEventListener("click", () => {
    for (const box of boxes) box.checked = false;
  });
  tell();
}
