// @ts-check
// The page of a summary: its charts, the link that can be sent, printing.
import { bars } from "./charts.js";
import { announce } from "../shared/announcements.js";

const data = document.getElementById("plotted");
if (data && globalThis.uPlot) bars(JSON.parse(data.textContent ?? "{}"));

const print = document.getElementById("print");
if (print) {
  print.hidden = false;
  print.addEventListener("click", () => window.print());
}

const copy = /** @type {HTMLButtonElement | null} */ (document.getElementById("copy-link"));
if (copy && navigator.clipboard) {
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(copy.dataset.link ?? "");
    const said = document.getElementById("copied");
    if (said) said.textContent = "Copied.";
    announce("The link is copied.");
  });
}
