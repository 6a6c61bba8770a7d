// @ts-check
// The handover: copied as text, printed; the zone of a time that is typed.
import { announce } from "../shared/announcements.js";
import { zone } from "../shared/clock.js";

const copy = document.getElementById("copy");
const print = document.getElementById("print");

for (const field of document.querySelectorAll("input[name=zone]")) {
  /** @type {HTMLInputElement} */ (field).value = zone;
}

if (print) {
  print.hidden = false;
  print.addEventListener("click", () => window.print());
  // What is folded is printed too.
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details.part")) part.setAttribute("open", "");
  });
}

if (copy && navigator.clipboard) {
  // Without HTTPS a browser has no clipboard: the link beside it has the same text.
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    const before = copy.textContent;
    try {
      const response = await fetch(copy.dataset.url);
      if (!response.ok) throw new Error(`status ${response.status}`);
      await navigator.clipboard.writeText(await response.text());
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Not copied";
    }
    announce(copy.textContent);
    setTimeout(() => {
      copy.textContent = before;
    }, 3000);
  });
}
