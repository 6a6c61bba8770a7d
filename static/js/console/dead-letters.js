// @ts-check
// The list of dead letters: choosing many at once, and saying that newer ones have come.
const form = /** @type {HTMLFormElement | null} */ (document.getElementById("letters"));
const all = /** @type {HTMLInputElement | null} */ (document.getElementById("choose-all"));
const region = document.getElementById("letter-figures");
const shown = Number(region.dataset.newest);
sessionStorage.setItem("letters", location.search); // back-links.js leads back to it

if (form) {
  const boxes = /** @type {HTMLInputElement[]} */ ([...form.querySelectorAll("input[name=id]")]);
  const update = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    document.getElementById("chosen").textContent = chosen ? `${chosen} selected` : "";
    for (const value of ["redrive", "discard"]) {
      const button = form.querySelector(`button[value=${value}]`);
      /** @type {HTMLButtonElement} */ (button).disabled = !chosen;
    }
    all.checked = chosen > 0 && chosen === boxes.length;
    all.indeterminate = chosen > 0 && chosen < boxes.length;
  };
  all.hidden = !boxes.length;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    update();
  });
  form.addEventListener("change", update);
  window.addEventListener("pageshow", update); // a browser that goes back ticks boxes after scripts
}

// The list stays as it is while somebody reads it.
region.addEventListener("renewed", () => {
  const place = region.querySelector(".newer");
  if (Number(region.dataset.newest) <= shown || place.childElementCount) return;
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "There are newer ones: show them";
  place.append(link);
});
export {};
