// @ts-check
// A list that renews itself pauses by its button or `p`, and while somebody is at it.
import { Presence } from "../shared/presence.js";

/** @type {HTMLElement} */
const region = document.querySelector("[data-refresh]");
const button = document.getElementById("pause");

if (button) {
  let pressed = false;
  const presence = new Presence(region, apply);

  function apply() {
    const paused = pressed || presence.holds();
    if (paused) region.dataset.paused = "";
    else delete region.dataset.paused;
    button.setAttribute("aria-pressed", String(pressed));
    button.firstChild.textContent = pressed ? "Resume " : "Pause ";
  }

  function turn() {
    pressed = !pressed;
    apply();
  }

  button.hidden = false;
  button.addEventListener("click", turn);
  for (const kind of ["pointerover", "focusin", "scroll"]) {
    document.addEventListener(kind, apply, { passive: true });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "p" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/** @type {Element} */ (event.target).closest("input, select, textarea")) return;
    turn();
  });
}
