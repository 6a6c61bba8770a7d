// @ts-check
// A list that renews itself pauses by its button or `p`, and while somebody is at it.
import { Presence } from "../shared/presence.js";

const region = document.getElementById("events");
const button = document.getElementById("pause");

if (button) {
  let asked = false;
  const presence = new Presence(region, apply);

  function apply() {
    const paused = asked || presence.holds();
    if (paused) region.dataset.paused = "";
    else delete region.dataset.paused;
    button.setAttribute("aria-pressed", String(asked));
    button.firstChild.textContent = asked ? "Go on " : "Pause ";
  }

  function turn() {
    asked = !asked;
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
