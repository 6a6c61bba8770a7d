// @ts-check
// Every page: theme, the viewer's zone, menus, forms and what is typed into them.
import { startZone } from "./clock.js";
import { startDrafts } from "./drafts.js";
import { startPalette } from "./palette.js";
import { watchForms } from "./submission.js";
import { followTabs } from "./tabs.js";
import { startTheme } from "./theme.js";

// A page that a form was answered with is loaded anew by its address, never by the form once more.
const { reload } = document.documentElement.dataset;
if (reload) history.replaceState(history.state, "", reload);

// What a form did, or what is wrong with it, is where one lands.
if (!location.hash) {
  const error = reload ? document.querySelector("#main .field-errors, #main [role=alert]") : null;
  const place = /** @type {HTMLElement | null} */ (
    document.getElementById("messages") ?? error?.closest(".field, form, [role=alert]")
  );
  if (place && !place.querySelector("[autofocus]")) {
    const field = place.matches(".field")
      ? /** @type {HTMLElement | null} */ (place.querySelector("input:not([type=hidden]), select, textarea"))
      : null;
    if (!field && place.tabIndex < 0) place.tabIndex = -1;
    (field ?? place).focus({ preventScroll: true });
    place.scrollIntoView({ block: "nearest" });
  }
}

startTheme(document.getElementById("theme"), document.getElementById("theme-name"));
startZone();
watchForms();
startDrafts();
followTabs();
const palette = document.getElementById("palette");
if (palette) startPalette(palette, document.getElementById("palette-button"));

for (const menu of /** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll("details.menu"))) {
  document.addEventListener("click", (event) => {
    if (!menu.contains(/** @type {Node} */ (event.target))) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
    event.stopPropagation();
  });
}
