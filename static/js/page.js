// Every page: theme, the viewer's zone, menus, forms.
import { startZone } from "./clock.js";
import { startPalette } from "./palette.js";
import { startSending } from "./sending.js";
import { followTabs } from "./tabs.js";
import { startTheme } from "./theme.js";

// A page that a form was answered with is loaded anew by its address, never by the form once more.
const { reload } = document.documentElement.dataset;
if (reload) history.replaceState(history.state, "", reload);

startTheme(document.getElementById("theme"), document.getElementById("theme-name"));
startZone();
startSending();
followTabs();
const palette = document.getElementById("palette");
if (palette) startPalette(palette, document.getElementById("palette-button"));

for (const menu of document.querySelectorAll("details.menu")) {
  document.addEventListener("click", (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
    event.stopPropagation();
  });
}
