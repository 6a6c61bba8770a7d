// @ts-check
// The theme: as the system has it, or the one chosen here and remembered.
import { announce } from "./announcements.js";

const NEXT = { auto: "dark", dark: "light", light: "contrast", contrast: "auto" };
const ASKED_FOR = "(prefers-contrast: more)"; // by the system, whatever the theme

/**
 * Let `button` step through the themes; `word` shows the name of the one in force.
 *
 * @param {HTMLElement} button
 * @param {HTMLElement} word
 */
export function startTheme(button, word) {
  const root = document.documentElement;
  const sheet = document.getElementById("contrast");
  const current = () => root.dataset.theme ?? "auto";
  const show = () => {
    word.textContent = current();
    button.title = `Theme: ${current()}`;
  };
  button.addEventListener("click", () => {
    const next = NEXT[current()];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    sheet.setAttribute("media", next === "contrast" ? "all" : ASKED_FOR);
    try {
      if (next === "auto") localStorage.removeItem("theme");
      else localStorage.setItem("theme", next);
    } catch {
      // No storage: it holds for this page.
    }
    show();
    announce(`Theme: ${next}`);
  });
  button.hidden = false;
  show();
}
