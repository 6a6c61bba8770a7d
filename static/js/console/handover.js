// The handover: copied as text, printed; the zone of a time that is typed.
import { announce } from "../announce.js";
import { zone } from "../clock.js";

const copy = document.getElementById("copy");
const print = document.getElementById("print");

for (const field of document.querySelectorAll("[name=zone]")) field.value = zone;

if (print) {
  print.hidden = false;
  print.addEventListener("click", () => window.print());
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
